"""Schedule tasks: one network's samples on one chip, by one solver with one seed, and what answers them."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from costmodel.architecture import Architecture
from costmodel.chip import Chip, ChipEvaluation, LayerGraph, NetworkLayer
from costmodel.chip.alone import whole_architecture
from costmodel.errors import InputError
from costmodel.ratree import Rectangle
from costmodel.workload import Layer
from solvers.budget import Budget, Stopwatch
from solvers.catalogue import solver
from solvers.outcome import Outcome
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, phases_as_json
from solvers.schedule.ratree.epochs import EpochOf, solve_epoch
from solvers.schedule.ratree.search import Plan, SearchState
from solvers.schedule.tile_costs import TileCostsNeeded
from solvers.schedule.tile_shares import Demand, Pruning
from sweep import VERSION
from sweep.known_costs import KnownCosts
from sweep.task import (
    MappingTask,
    architecture_content,
    check_versions,
    checked_params,
    content_hash,
    solve_columns,
    solve_content,
)
from sweep.tile_task import TileSource

if TYPE_CHECKING:
    from sweep.work import Task


@dataclass(frozen=True)
class ScheduleSolve:
    """Which solver answers, for which objective; ``params`` is its complete Params as canonical JSON."""

    solver: str
    objective: str
    params: str
    budget: Budget

    @property
    def asks(self) -> bool:
        """Whether the solver asks for costs as it goes; of others the whole table is solved before."""
        return solver(self.solver).asks_for_costs

    @cached_property
    def content(self) -> dict[str, Any]:
        return {"objective": self.objective, **solve_content(self.solver, self.params, self.budget)}


@dataclass(frozen=True, eq=False)
class ScheduledNetwork:
    """A network under the name that the study shows, and its content, which all its tasks share."""

    name: str
    graph: LayerGraph

    @cached_property
    def content(self) -> list[dict[str, Any]]:
        """The layers as plain JSON data, not to be changed; trees name layers, so names are part of it."""
        return [layer.to_json() for layer in self.graph.layers]

    @cached_property
    def id(self) -> str:
        return content_hash(self.content)


@dataclass(frozen=True, eq=False)
class TiledChip:
    """A chip, what maps layers on its tiles, and which partitions are worth a look.

    ``alone``: whether layers may run alone from DRAM, mapped on the whole chip by the same solver.
    """

    chip: Chip
    source: TileSource
    pruning: Pruning
    alone: bool = False

    @cached_property
    def content(self) -> dict[str, Any]:
        """What answers depend on, as plain JSON data: no name, clock, or inside of a tile but its source."""
        bare = replace(self.chip, name="", frequency_ghz=1.0, tile=replace(self.chip.tile, architecture=None))
        content = {"chip": bare.to_json(), "tile_source": self.source.id, "pruning": asdict(self.pruning)}
        # without layers alone it is what it was before there were any
        return content | {"alone": True} if self.alone else content

    @cached_property
    def id(self) -> str:
        return content_hash(self.content)

    @cached_property
    def sent(self) -> dict[str, Any]:
        """The content as workers need it: with the inside of a tile, by which partitions are ranked."""
        bare = self.content["chip"]
        tile = bare["tile"] | {"architecture": architecture_content(self.source.architecture)}
        return self.content | {"chip": bare | {"tile": tile}}

    @cached_property
    def whole(self) -> Architecture:
        """What a layer alone is mapped on; InputError for tiles that no mapping solver can use."""
        found = whole_architecture(self.chip)
        if found is None:
            expected = "tiles with an architecture, for layers alone on the chip"
            raise InputError(f"chip {self.chip.name}", expected, "none", key="tile.architecture")
        return found

    def alone_task(self, nest: Layer) -> MappingTask:
        """Map a layer alone on the chip."""
        return MappingTask(self.whole, nest, self.source.settings)


@dataclass(frozen=True, eq=False)
class ScheduleTask:
    """Schedule a batch of a network on a chip; equal contents have equal :attr:`id`.

    ``demand``: the tile costs of this network, batch and chip, which have to be known before.
    """

    network: ScheduledNetwork
    on: TiledChip
    demand: Demand
    solve: ScheduleSolve
    epoch: EpochOf | None = None
    before: tuple[ScheduleTask, ...] = ()
    """Of an epoch that is not the first: the epoch before, of all seeds that exchange their best trees."""

    table = "schedules"

    @property
    def batch(self) -> int:
        return self.demand.batch

    @cached_property
    def id(self) -> str:
        parts = ["schedule", self.network.id, self.batch, self.on.id, self.solve.content]
        if self.epoch is not None:
            # what an epoch is before any exchange does not depend on the other seeds
            parts.append([self.epoch.number, self.epoch.count, [task.id for task in self.before]])
        return content_hash(parts)

    def payload(self, costs: KnownCosts, states: Sequence[Any] = ()) -> dict[str, Any]:
        """What travels to a worker, as plain data: what the answer depends on, and the costs of layers.

        ``states``: of all seeds after the epoch before.
        """
        return {
            "kind": "schedule",
            "archsweep_version": VERSION,
            "layers": self.network.content,
            "batch": self.batch,
            **self.on.sent,
            **costs.to_json(),
            **self.solve.content,
            "epoch": self.epoch and asdict(self.epoch),
            "states": list(states),
        }

    @property
    def columns(self) -> dict[str, Any]:
        """The columns of a ``schedules`` row that the task decides."""
        settings = self.on.source.settings.content
        mapper = {**settings, "source_id": self.on.source.id, "pruning": asdict(self.on.pruning)}
        return {
            "network": self.network.name,
            "network_content": self.network.id,
            "batch": self.batch,
            "chip_id": self.on.id,
            "chip": self.on.content["chip"],
            "tile_mapper": mapper | {"alone": True} if self.on.alone else mapper,
            **solve_columns(self.solve.content),
            "objective_name": self.solve.objective,
            "epoch": self.epoch and self.epoch.number,
        }


def with_epochs(tasks: Iterable[Task]) -> list[Task]:
    """The tasks, and the epochs before those of seeds that exchange their best trees, each one once."""
    found: dict[str, Task] = {}
    waiting = list(tasks)
    while waiting:
        task = waiting.pop()
        if task.id not in found:
            found[task.id] = task
            waiting += task.before if isinstance(task, ScheduleTask) else ()
    return list(found.values())


def run_schedule_task(content: ReadOnlyDict[str, Any]) -> dict[str, Any]:
    """Answer a task from its :meth:`ScheduleTask.payload`; runs on a worker, returns plain data.

    Where the solver cannot go on without costs that the payload lacks: ``needs``, its requests, in place of
    the answer, beside the seconds spent.
    Raises VersionMismatchError, and whatever the solver raises: the runtime makes that a failed completion.
    """
    check_versions(content)
    watch, problem, budget = Stopwatch(), _problem(content), Budget(**content["budget"])
    params = checked_params(content["solver"], content["params"])
    module = solver(content["solver"]).load()
    if content["epoch"] is None:
        try:
            return answer_columns(problem, module.solve(problem, budget, params))
        except TileCostsNeeded as needed:
            needs = [list(request) for request in needed.requests]
            return {"needs": needs, "cpu_seconds": watch.cpu_seconds, "wall_seconds": watch.wall_seconds}
    states = [SearchState.from_json(state) for state in content["states"]]
    plan = Plan(module.spaces_of(params), params, params.rounds(len(problem.graph.layers)), params.deepest)
    outcome, state = solve_epoch(problem, budget, plan, EpochOf(**content["epoch"]), states)
    return answer_columns(problem, outcome) | {"state": state and state.to_json()}


def _problem(content: ReadOnlyDict[str, Any]) -> ScheduleProblem:
    chip, graph = Chip.from_json(content["chip"]), _graph(content["layers"])
    costs = KnownCosts.from_json(content).table(graph, chip, Pruning(**content["pruning"]))
    model = ChipModel(chip, costs)
    return ScheduleProblem(graph, model, content["batch"], Objective.named(content["objective"]))


def _graph(layers: Iterable[ReadOnlyDict[str, Any]]) -> LayerGraph:
    return LayerGraph("", tuple(map(NetworkLayer.from_json, layers)))


def answer_columns(problem: ScheduleProblem, outcome: Outcome[ScheduleSolution]) -> dict[str, Any]:
    """The columns of a ``schedules`` row that the solve decides (see ``results/schema.py``)."""
    columns: dict[str, Any] = {
        "status": str(outcome.status),
        "objective": outcome.objective,
        "bound": outcome.bound,
        "gap": outcome.gap,
        **_bounds(problem),
        "cpu_seconds": outcome.cpu_seconds,
        "wall_seconds": outcome.wall_seconds,
        "note": outcome.note or None,
    }
    return columns if outcome.solution is None else columns | _measured(problem, outcome.solution)


def _bounds(problem: ScheduleProblem) -> dict[str, float]:
    """Proven bounds on energy and cycles of the problem's schedules, whatever was minimised."""
    assert isinstance(problem.model, ChipModel)
    bounds = problem.model.bounds(problem.graph, problem.batch)
    return {} if bounds is None else {"energy_bound_pj": bounds.energy_pj, "cycles_bound": bounds.cycles}


def _measured(problem: ScheduleProblem, solution: ScheduleSolution) -> dict[str, Any]:
    """What the chip model says of the answer, counted from nothing."""
    evaluation = problem.judge().evaluate(solution.tree)
    assert isinstance(evaluation, ChipEvaluation)
    chip = evaluation.chip
    return {
        "energy_pj": evaluation.energy_pj,
        "cycles": evaluation.cycles,
        "edp_pj_cycles": evaluation.energy_pj * evaluation.cycles,
        "dram_bytes": evaluation.dram_bytes,
        "noc_hop_bytes": round(evaluation.noc_hop_bytes),
        "utilization": 1 - evaluation.bubble_tile_cycles / (chip.tiles * evaluation.cycles),
        "energy_by_part_pj": evaluation.parts_pj,
        "tree": solution.text,
        "spatial_temporal": _by_leaf(evaluation.spatial_temporal(problem.graph.producers)),
        "search": phases_as_json(solution.phases),
    }


def _by_leaf(rectangles: Iterable[Rectangle]) -> list[dict[str, Any]]:
    """The S-T graph with the rectangles of a leaf together: they differ in samples and start alone."""
    leaves: dict[str, dict[str, Any]] = {}
    for one in sorted(rectangles, key=lambda rectangle: rectangle.first_sample):
        leaf = leaves.setdefault(
            one.layer,
            {
                "layer": one.layer,
                "samples": one.end_sample - one.first_sample,
                "tiles": [one.first_tile, one.end_tile],
                "cycles": one.end - one.start,
                "starts": [],
            },
        )
        leaf["starts"].append(one.start)
    return list(leaves.values())
