"""What a worker does with a block: derive its tasks, solve them, encode the rows of solves and designs."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime
from functools import cached_property
from itertools import pairwise, starmap
from typing import Any, cast

import numpy as np

from clusters.execution import attempt, worker_name
from clusters.runtime import Failure
from costmodel import MODEL_VERSION
from costmodel.hardware.architecture import Architecture
from costmodel.workload.network import Layer
from results.store.known_answers import FoundAnswers
from results.store.row_batch import RowBatch
from results.store.schema.columns import StoredColumns, StoredRow
from results.store.schema.rows import DesignRow, LayerRow, MappingColumns
from results.store.schema.tables import DESIGNS, LAYERS
from results.store.shared_folder import SharedFolder
from solvers.catalogue import solver
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.obstacles import obstacle
from solvers.mapping.space.rules import SpaceRules
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.space_bounds import space_bounds
from sweep import VERSION
from sweep.blocks.block import (
    Block,
    BlockAnswers,
    BlockTally,
    BoundsOf,
    DiscardedDesigns,
    GroupBounds,
    GroupPart,
    PartsOf,
    Reason,
    SmallBatches,
)
from sweep.blocks.closing import Closing
from sweep.design.design_row import objective_bounds
from sweep.design.evaluated_front import EvaluatedFront
from sweep.design.first_look import first_look_workload
from sweep.design.mapping_workload import LayerSolve, MappingWorkload
from sweep.study.designs.design_space import Design, DesignSpace
from sweep.study.identity import checked_params
from sweep.study.study import Study
from sweep.tasks.completions import failed_row, said
from sweep.tasks.energy_cycles import EnergyCycles
from sweep.tasks.mapping import (
    CodeVersions,
    MappingTask,
    answer_columns,
    architecture_content,
    architecture_id,
    bare,
    check_versions,
    mapping_id,
)
from sweep.tasks.summaries import NEEDED, MappingSummary

Solve = Callable[[MappingProblem, LayerSolve], MappingColumns]


def solve(problem: MappingProblem, asked: LayerSolve) -> MappingColumns:
    """The columns of a row that the solve decides; raises whatever the solver raises."""
    settings = asked.settings
    params = checked_params(settings.solver, settings.content["params"])
    return answer_columns(problem, solver(settings.solver).load().solve(problem, settings.budget, params))


@dataclass(frozen=True)
class BlockWork:
    """The work function of a study's blocks; it travels to every worker once."""

    study: Study
    space: DesignSpace
    workload: MappingWorkload
    study_id: str
    versions: CodeVersions
    """Of the driver's code: a worker that has other ones raises VersionMismatchError, which ends the run."""
    solve: Solve = solve
    """Answers a problem; another one is for measurements and tests."""
    folder: SharedFolder | None = None
    """The run folder, where workers that see it store whole parts; None sends all rows to the driver."""
    first: MappingWorkload | None = None
    """What the study's cheaper solver is asked before its own; None where there is no such solver."""
    first_versions: CodeVersions | None = None
    """As ``versions``, of the cheaper solver."""
    parts: PartsOf = ()
    """Of the run's table, where all designs are known beforehand: blocks need not bring any then."""

    @staticmethod
    def of(
        study: Study,
        space: DesignSpace,
        workload: MappingWorkload,
        study_id: str,
        folder: SharedFolder | None = None,
        parts: PartsOf = (),
    ) -> BlockWork:
        first = first_look_workload(study, workload.demands)
        return BlockWork(
            study,
            space,
            workload,
            study_id,
            _versions(workload),
            folder=folder,
            first=first,
            first_versions=_versions(first) if first else None,
            parts=parts,
        )

    def __call__(
        self, work: Block | SmallBatches | BoundsOf | DiscardedDesigns
    ) -> BlockAnswers | GroupBounds:
        """Bounds for a BoundsOf, rows for DiscardedDesigns, one part for SmallBatches, solves for a Block."""
        check_versions(self.versions)
        if self.first_versions:
            check_versions(self.first_versions)
        match work:
            case BoundsOf(block):
                return self._solver.bounds(block.with_parts(self.parts))
            case DiscardedDesigns(block):
                return _BlockOfSolves(self._solver, block.with_parts(self.parts)).discarded(work)
            case SmallBatches():
                answers = BlockAnswers(0, (RowBatch.joined(work.batches),), (), BlockTally())
            case Block():
                solver = self._first_solver if work.first_look else self._solver
                answers = _BlockOfSolves(solver, work.with_parts(self.parts)).answers()
        if self.folder is None or not work.shared:
            return answers
        return replace(answers, batches=tuple(map(self.folder.stored, answers.batches)))

    @cached_property
    def _solver(self) -> BlockSolver:
        return BlockSolver(self.study, self.space, self.workload, self.study_id, self.solve)

    @cached_property
    def _first_solver(self) -> BlockSolver:
        assert self.study.first_look is not None
        assert self.first is not None
        return BlockSolver(self.study.first_look, self.space, self.first, self.study_id, self.solve)

    def __getstate__(self) -> dict[str, Any]:
        return {field.name: getattr(self, field.name) for field in fields(self)}


def _versions(workload: MappingWorkload) -> CodeVersions:
    content = workload.solves[0].settings.content
    return {
        "solver": content["solver"],
        "solver_version": content["solver_version"],
        "archsweep_version": VERSION,
        "model_version": MODEL_VERSION,
    }


class BlockSolver:
    """What a worker keeps from block to block: the study, and the columns that all rows of a layer share."""

    def __init__(
        self, study: Study, space: DesignSpace, workload: MappingWorkload, study_id: str, solve: Solve
    ) -> None:
        self.study, self.space, self.workload, self.solve = study, space, workload, solve
        self.closing = Closing(study, workload, study_id)
        self.worker = worker_name()
        self.spaces = [(one.layer, one.settings.rules.for_layer(one.layer)) for one in workload.solves]
        """Of each solve, the layer and the rules that speak of it."""
        self._common: list[StoredColumns] | None = None

    def problem(self, architecture: Architecture, number: int) -> MappingProblem:
        """The problem of a solve: all that the answer depends on, and no names.

        The architecture is bare (:func:`sweep.tasks.mapping.bare`): without name, area and clock.
        """
        layer, rules = self._nameless[number]
        return MappingProblem(architecture, layer, self.workload.solves[number].settings.objective, rules)

    def bounds(self, block: Block) -> GroupBounds:
        """The bounds of the block's groups, and the constraints that these break."""
        found, broken = np.zeros((block.groups, 2)), dict[int, tuple[str, ...]]()
        for number, (begin, end) in enumerate(pairwise(block.begins)):
            group = _Group(self, block.architecture(begin))
            if group.obstacle():
                continue
            found[number] = self.workload.sums(group.bounds)
            if self.study.result_constraints:
                designs = block.designs(self.space, begin, end)
                reasons = [self.workload.broken_by_least(design, group.bounds) for design in designs]
                if all(reasons):
                    broken[number] = tuple(reasons)
        return GroupBounds(found, broken)

    @cached_property
    def _nameless(self) -> list[tuple[Layer, SpaceRules]]:
        """Of each solve, the layer without its name and the rules."""
        return [(replace(layer, name=""), rules) for layer, rules in self.spaces]

    def common(self, architecture: Architecture) -> list[StoredColumns]:
        """Of each solve, the columns of its row that do not depend on the architecture, encoded."""
        if self._common is None:
            # of any architecture: what depends on it is taken out
            self._common = [self._columns(architecture, asked) for asked in self.workload.solves]
        return self._common

    def _columns(self, architecture: Architecture, asked: LayerSolve) -> StoredColumns:
        columns = dict(MappingTask(architecture, asked.layer, asked.settings).columns)
        del columns["architecture"], columns["architecture_id"]
        return LAYERS.encode_part(columns | {"study": self.study.name})


class _Group:
    """The designs of one architecture, and the answers to its solves as far as this block has them."""

    def __init__(self, solver: BlockSolver, architecture: Architecture) -> None:
        self.architecture = bare(architecture)
        self.solver = solver
        name = architecture_id(self.architecture)
        self.ids = [mapping_id(name, asked.asked) for asked in solver.workload.solves]
        content = {"architecture_id": name, "architecture": architecture_content(self.architecture)}
        self.columns = LAYERS.encode_part(content)
        self.answers: list[MappingSummary] = []

    @cached_property
    def bounds(self) -> list[EnergyCycles]:
        """Proven lower bounds on energy and cycles of one run of each solve's layer."""
        problems = (self.solver.problem(self.architecture, number) for number in range(len(self.ids)))
        return [EnergyCycles(found.energy_pj, float(found.cycles)) for found in map(space_bounds, problems)]

    def least_of_each(self) -> list[EnergyCycles]:
        """For each solve, the least energy and cycles that its answer can have, of one run of the layer.

        What is answered counts as it is, the rest by its bounds. Who adds them does so in the order in which
        answers are added (:meth:`MappingWorkload.sums`), so that no rounding lifts the sum above theirs.
        """
        known = [answer.cost for answer in self.answers]
        return [*known, *self.bounds[len(known) :]]

    def proven(self) -> EnergyCycles:
        """Proven lower bounds on energy and cycles of the designs, whatever solver maps them."""
        known = [answer.bounds for answer in self.answers]
        return self.solver.workload.sums([*known, *self.bounds[len(known) :]])

    def obstacle(self) -> str:
        """Why a layer provably has no mapping here; empty where none is known to lack one.

        Empty, too, where designs of one architecture are asked for different layers: then their answers say
        which of them cannot be.
        """
        if self.solver.workload.varies_batches:
            return ""
        fewest = min(level.usable_words for level in self.architecture.levels)
        for layer, rules in self.solver.spaces:
            # a padded dim has other factors, which may avoid an obstacle; and without constraints the only
            # one is a level that lacks a word for a tile of each tensor
            fits = fewest >= len(layer.tensors) and self.architecture.precision is None
            if rules.padding or (not rules.levels and fits):
                continue
            if reason := obstacle(MappingSpace(self.architecture, layer, rules.even)):
                return f"{layer.name}: {reason}"
        return ""


class _BlockOfSolves:
    """One block at work."""

    def __init__(self, solver: BlockSolver, block: Block) -> None:
        self.solver, self.block = solver, block
        self.tally = BlockTally()
        self.layers: list[StoredRow] = []
        self.designs: list[StoredRow] = []
        self.closed: list[DesignRow] = []
        self.unfinished: list[GroupPart] = []
        self.front: EvaluatedFront | None = None
        if block.front is not None:
            self.front = EvaluatedFront(len(solver.study.objectives), block.front)
        self.stored = (block.stored or FoundAnswers()).by_id(NEEDED["layers"])
        self.started = time.perf_counter()
        self._cpu, self._cpu_known = time.process_time(), 0.0

    def answers(self) -> BlockAnswers:
        if not self.block.groups:
            designs = self.block.designs(self.solver.space, 0, len(self.block.choices))
            self._close(self.solver.closing.without_solves(designs))
        done = self._solved()
        self.tally.close(self.closed, self.solver.study.objectives)
        batches = (RowBatch.of("layers", self.layers), RowBatch.of("designs", self.designs))
        filled = tuple(batch for batch in batches if batch.rows)
        return BlockAnswers(done, filled, tuple(self.unfinished), self.tally)

    def discarded(self, work: DiscardedDesigns) -> BlockAnswers:
        """The rows of designs that bounds discard."""
        bounds, reasons = starmap(EnergyCycles, work.bounds.tolist()), work.reasons
        for (begin, end), least in zip(pairwise(self.block.begins), bounds, strict=True):
            designs = self.block.designs(self.solver.space, begin, end)
            self._close(self.solver.closing.discarded(designs, least, reasons[begin:end]))
        self.tally.close(self.closed, self.solver.study.objectives)
        return BlockAnswers(0, (RowBatch.of("designs", self.designs),), (), self.tally)

    def _solved(self) -> int:
        """Solve until the block or its time is at its end; returns how many solves are done."""
        each = len(self.solver.workload.solves)
        done, number, begin = 0, 0, self.block.first
        while done < self.block.solves and (not done or self._time_is_left()):
            end = min(each, begin + self.block.solves - done)
            done += self._group(number, begin, end)
            number, begin = number + 1, 0
        return done

    def _time_is_left(self) -> bool:
        return time.perf_counter() - self.started < self.block.seconds

    def _group(self, number: int, begin: int, end: int) -> int:
        """The solves from ``begin`` to ``end`` of a group; returns how many of them are done."""
        rows = self.block.begins[number : number + 2]
        group = _Group(self.solver, self.block.architecture(rows[0]))
        whole = end - begin == len(group.ids)
        designs = list(self.block.designs(self.solver.space, *rows))
        if reason := group.obstacle():
            if whole and self.block.closes:
                self._close(self.solver.closing.without_solves(designs, reason))
            else:
                self.unfinished.append(GroupPart(number, begin, tuple(group.ids[begin:end]), (), reason))
            return end - begin
        for position in range(begin, end):
            if position > begin and not self._time_is_left():
                break
            if whole and group.ids[position] not in self.stored and self._leaves(group, designs):
                return end - begin
            group.answers.append(self._answer(group, position))
        if len(group.answers) == len(group.ids) and self.block.closes:
            self._close(self.solver.closing.rows(designs, group.ids, group.answers))
        else:
            ids = tuple(group.ids[begin : begin + len(group.answers)])
            self.unfinished.append(GroupPart(number, begin, ids, tuple(group.answers)))
        return len(group.answers)

    def _leaves(self, group: _Group, designs: Sequence[Design]) -> bool:
        """Whether no design of a group can be on the front, as far as its answers are known.

        Each is dominated by an evaluated one whatever it can still reach, or breaks a constraint on results
        whatever that is. Then this makes their rows, which say so, and what is not solved yet is not solved.
        """
        if self.front is None or not all(answer.mapped for answer in group.answers):
            return False
        study, workload = self.solver.study, self.solver.workload
        each = group.least_of_each()
        least, reasons = workload.sums(each), list[Reason]()
        for design in designs:
            if broken := workload.broken_by_least(design, each):
                reasons.append(broken)
                continue
            found = self.front.dominating(np.array(objective_bounds(study, design, *least)))
            if found is None:
                return False
            reasons.append(found.tolist())
        rows = self.solver.closing.discarded(
            designs, group.proven(), reasons, least=least, answers=group.answers
        )
        self._close(rows)
        return True

    def _answer(self, group: _Group, position: int) -> MappingSummary:
        """The answer to one solve, from the store or solved; its row is entered unless the folder has it."""
        task_id = group.ids[position]
        own = LAYERS.encode_part({"task_id": task_id})
        common = self.solver.common(group.architecture)[position], group.columns, own
        if found := self.stored.get(task_id):
            reused: LayerRow = {"cached": True, "from_study": found.row["from_study"] or found.row["study"]}
            row = found.row | reused
            if not found.held:
                self.layers.append(LAYERS.joined(found.stored, *common, LAYERS.encode_part(reused)))
        else:
            row = self._solved_row(group.architecture, position)
            self.layers.append(LAYERS.joined(*common, LAYERS.encode_part(row)))
        self.tally.count(row, self.solver.workload.solves[position])
        return MappingSummary.of(row)

    def _solved_row(self, architecture: Architecture, number: int) -> LayerRow:
        """The columns of a row that its solve decides; an error makes a failed one."""
        solver, begun = self.solver, time.perf_counter()
        asked = solver.workload.solves[number]
        tried = attempt(lambda: solver.solve(solver.problem(architecture, number), asked))
        made: LayerRow = {
            "worker": solver.worker,
            "attempts": 1,
            "cached": False,
            "finished_at": datetime.now(UTC),
        }
        if not isinstance(tried, Failure):
            self._cpu_known += tried.get("cpu_seconds") or 0.0
            return made | cast(LayerRow, tried)
        if tried.type == ModuleNotFoundError.__name__:
            raise ModuleNotFoundError(tried.message)  # of any solve here: no row is to say so
        wall = time.perf_counter() - begun
        spent: LayerRow = {"wall_seconds": wall, "cpu_seconds": min(wall, self._unaccounted())}
        return made | cast(LayerRow, failed_row(said(tried))) | spent

    def _unaccounted(self) -> float:
        """CPU seconds since the last call that are in no answer: those of the solve that has just failed.

        What was done beside solves is among them. To look at this clock before every solve would take up to
        0.3 ms where there are many threads.
        """
        before, self._cpu = self._cpu, time.process_time()
        known, self._cpu_known = self._cpu_known, 0.0
        return max(0.0, self._cpu - before - known)

    def _close(self, rows: Sequence[DesignRow]) -> None:
        self.designs += [DESIGNS.encode(row) for row in rows]
        self.closed += rows
        if self.front is not None:
            for row in rows:
                self.front.add_row(self.solver.study, row)
