"""What a study asks for, counted before anything runs: designs, solves, and which of these are still open."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from itertools import chain, islice
from pathlib import Path

from costmodel.errors import InputError
from costmodel.hardware.architecture import StorageLevel
from costmodel.hardware.technology import energy_inversions
from costmodel.workload.counting import counting_warnings
from results.store.known_answers import StoredAnswers, stored_in
from results.store.schema.tables import LAYERS
from sweep.blocks.solve_ids import SolveIds
from sweep.design.cost_tables import CostTables, wanted_at_first
from sweep.design.first_look import first_look_workload
from sweep.design.mapping_workload import MappingWorkload
from sweep.design.workload import DesignWorkload, tasks_of, workload_of
from sweep.search.search import check_feasible, design_space, designs, listed, warm_start
from sweep.study.designs.design_space import Design
from sweep.study.designs.design_table import DesignTable, Part
from sweep.study.designs.hardware import mapped_on
from sweep.study.search_choice import OptunaSearch
from sweep.study.study import Study
from sweep.study.study_names import network_of
from sweep.tasks.chips.schedule import ScheduleTask
from sweep.tasks.kinds import ids_by_table, known_answers, with_epochs

Counted = Callable[[int, int], None]

COUNTED_AT_ONCE = 1000
"""Designs between two reports of how far the count is: half a second's work."""

MOST_SOLVES = 10_000_000
"""The most different solves of one run. Where designs are not listed beforehand, or are chips, their ids take
1.3 GB in the driver, their answers twice that."""

IDS_AT_ONCE = 100_000
"""Ids of solves that are looked up in the store together."""


@dataclass(frozen=True)
class ProposedDesigns:
    """The ``count`` designs that a study's search looks at.

    They are made anew at each iteration, because a hundred thousand architectures would fill the driver's
    memory. Of an Optuna search they are random ones: it will propose others, but no more.
    """

    study: Study
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Design]:
        return designs(self.study)


@dataclass(frozen=True)
class StudyPlan:
    """How many solves a study asks for.

    ``asked``: by the table of their answers, equal ones counted each time. ``distinct``: different ones.
    ``open``: those of them that the store has no answer to. ``cost_solves``, part of both numbers, give the
    costs of layers that schedules wait for. What the ``asking`` schedules will ask for depends on the answers
    to come, and is in none of these numbers.
    """

    designs: ProposedDesigns
    workload: DesignWorkload
    """What the study asks of every design: made once, for the plan, the prediction and the run."""
    infeasible: int
    """Designs that break a constraint, or on which a network has no scratchpad plan: they cost nothing."""
    asked: dict[str, int]
    distinct: int
    open: int
    warnings: tuple[str, ...] = ()
    """What a reader of the results should know: operators not counted, energy tables turned upside down."""
    at_most: bool = False
    """Whether the numbers are upper limits: an Optuna search proposes other designs than were counted.

    ``infeasible`` is then that of as many random designs.
    """
    cost_solves: int = 0
    asking: int = 0
    """Open schedules whose solver asks for costs as it goes."""
    table: DesignTable | None = None
    """The designs by columns, of a study whose designs are listed and ask for nothing but mappings: the run
    hands it out in blocks. None where the loop by tasks runs the study."""
    first_open: int = 0
    """Open solves, part of ``open``, of a cheaper solver that looks first; the rest is then a limit."""

    @property
    def in_generations(self) -> bool:
        """Whether the run hands out what a search proposes, one generation in blocks after the other."""
        mapping = isinstance(self.workload, MappingWorkload) and self.workload.only_layers
        return mapping and not self.designs.study.search.lists


def plan(
    study: Study, store: Path | StoredAnswers | None = None, counted: Counted = lambda done, total: None
) -> StudyPlan:
    """Count the study's work; ``store`` is the folder of run folders whose answers are reused, or these.

    ``counted`` is told, after every COUNTED_AT_ONCE designs, how many are counted and how many there are: a
    hundred thousand chips take most of a minute. Raises InputError for networks, an architecture, axes or
    parameters that cannot be had, for constraints that no design meets, and for more than MOST_SOLVES solves.
    """
    workload = workload_of(study)
    design_space(study).check_values()
    design_space(study).check_prices(study.objectives)
    if isinstance(workload, MappingWorkload) and workload.only_layers and study.search.lists:
        return _plan_of_table(study, workload, stored_in(store), counted)
    count = _Count(study, workload)
    total = study.looks_at
    for design in designs(study):
        count.add(design)
        if count.designs % COUNTED_AT_ONCE == 0:
            counted(count.designs, total)
    if count.infeasible == count.designs:
        check_feasible(study)
        raise InputError(
            study.where,
            "a design on which every network has a plan",
            f"none of {count.designs}",
            f"The last one: {count.obstacle}",
            key="scratchpad",
        )
    stored = stored_in(store)
    known = known_answers(stored, count.tasks) if stored else set[str]()
    warnings = (
        *_uncounted(study),
        *count.inverted.values(),
        *design_space(study).fixed_prices(),
        *_not_warm(study),
    )
    proposed = ProposedDesigns(study, count.designs)
    at_most = isinstance(study.search, OptunaSearch) and count.designs < design_space(study).size
    # which designs an Optuna search will propose is not known, so no answer counts as known either
    answered = set[str]() if at_most else known
    costs = count.cost_solves(stored, answered)
    if at_most:
        distinct = left = count.most_solves * count.designs + costs
    else:
        distinct = sum(map(len, count.tasks.values())) + costs
        left = distinct - len(known)
    return StudyPlan(
        designs=proposed,
        workload=count.workload,
        infeasible=count.infeasible,
        asked=count.asked(count.designs if at_most else count.designs - count.infeasible),
        distinct=distinct,
        open=left,
        warnings=warnings,
        at_most=at_most,
        cost_solves=costs,
        asking=count.asking(answered),
    )


def _plan_of_table(
    study: Study, workload: MappingWorkload, store: StoredAnswers | None, counted: Counted
) -> StudyPlan:
    """The plan of a study whose designs are listed and ask for nothing but mappings, counted by columns."""
    each = len(workload.solves)
    for table in listed(study):
        if table.feasible.sum() * each > MOST_SOLVES and (solves := table.group_count * each) > MOST_SOLVES:
            raise _too_many(study, solves, len(table))
        counted(len(table), study.looks_at)
    infeasible = len(table) - int(table.feasible.sum())
    if infeasible == len(table):
        check_feasible(study)
    inverted: dict[str, str] = {}
    for architecture in table.one_of_each(_read_energy):
        for warning in energy_inversions(architecture):
            inverted[warning.split(" costs ")[0]] = f"{study.base}: {warning}"
    distinct = table.group_count * each
    left = distinct - _known(table, workload, store)
    first, first_open = first_look_workload(study, workload.demands), 0
    if first is not None:
        looks = table.group_count * len(first.solves)
        first_open = looks - _known(table, first, store)
        distinct, left = distinct + looks, left + first_open
    return StudyPlan(
        designs=ProposedDesigns(study, len(table)),
        workload=workload,
        infeasible=infeasible,
        asked={name: count * (len(table) - infeasible) for name, count in workload.asked.items()},
        distinct=distinct,
        open=left,
        warnings=(*_uncounted(study), *inverted.values(), *design_space(study).fixed_prices()),
        table=table,
        first_open=first_open,
    )


def _known(table: DesignTable, workload: MappingWorkload, store: StoredAnswers | None) -> int:
    """How many of the solves of a table the store has answers to."""
    if store is None or not store.holds(LAYERS):
        return 0
    ids = chain.from_iterable(SolveIds(table, workload))
    return sum(len(store.known(LAYERS, some)) for some in batched(ids, IDS_AT_ONCE))


def batched(ids: Iterable[str], size: int) -> Iterator[list[str]]:
    """The ids in lists of ``size``, the last one shorter."""
    left = iter(ids)
    while some := list(islice(left, size)):
        yield some


def _read_energy(part: Part) -> object:
    """What :func:`energy_inversions` looks at of a part."""
    if not isinstance(part, StorageLevel):
        return None
    return part.name, part.read_energy_pj, part.block_size, part.keeps


def _too_many(study: Study, solves: int, designs: int) -> InputError:
    return InputError(
        study.where,
        f"at most {MOST_SOLVES:,} different solves",
        f"{solves:,} of the first {designs:,} designs",
        "Look at fewer designs (search: {method: optuna, trials: N}), or at fewer networks at once",
        key=study.search.size_key,
    )


def _not_warm(study: Study) -> list[str]:
    start = warm_start(study)
    if start is None or not start.untouched:
        return []
    return [f"warm start: {', '.join(start.untouched)} not chosen by Thistle, started in the middle"]


def _uncounted(study: Study) -> list[str]:
    """Warnings of operators whose work is not counted. Studies of chips refuse such networks: none there."""
    return [
        warning
        for position in (range(len(study.networks)) if study.architecture else ())
        for warning in counting_warnings(network_of(study, position))
    ]


class _Count:
    """Counts over all designs; the designs themselves are not kept."""

    def __init__(self, study: Study, workload: DesignWorkload) -> None:
        self.designs = self.infeasible = self.most_solves = 0
        self.tasks: dict[str, set[str]] = {}
        """Ids of the different tasks, by the table of their rows."""
        self.obstacle = ""
        self._schedules: dict[tuple[str, str, int, bool], list[ScheduleTask]] = {}
        """Schedules by chip, network, batch and whether they ask: those of a list need the same costs."""
        self.inverted: dict[str, str] = {}
        self._study, self._name = study, study.base
        self.workload = workload

    def asked(self, designs: int) -> dict[str, int]:
        """How many answers ``designs`` designs ask for, by their table."""
        return {table: designs * count for table, count in self.workload.asked.items()}

    def add(self, design: Design) -> None:
        self.designs += 1
        for warning in energy_inversions(mapped_on(design.hardware)):
            self.inverted[warning.split(" costs ")[0]] = f"{self._name}: {warning}"
        needed = tasks_of(self.workload, design)
        if not needed:
            self.infeasible += 1
            self.obstacle = self.workload.obstacle(design) or self.obstacle
            return
        for task in needed:
            if isinstance(task, ScheduleTask):
                key = task.on.id, task.network.id, task.batch, task.solve.asks
                self._schedules.setdefault(key, []).append(task)
        tasks = ids_by_table(with_epochs(needed))
        self.most_solves = max(self.most_solves, sum(map(len, tasks.values())))
        for table, ids in tasks.items():
            self.tasks.setdefault(table, set()).update(ids)
        self._check_solves()

    def _check_solves(self) -> None:
        if (solves := sum(map(len, self.tasks.values()))) > MOST_SOLVES:
            raise _too_many(self._study, solves, self.designs)

    def cost_solves(self, store: StoredAnswers | None, known: Collection[str]) -> int:
        """How many solves give the costs that schedules wait for before they begin; ``known`` ones do not."""
        tables = CostTables(store)
        waiting = [
            tasks[0] for tasks in self._schedules.values() if any(task.id not in known for task in tasks)
        ]
        return len({cost.id for task in waiting for cost in tables.tasks(task, wanted_at_first(task))})

    def asking(self, known: Collection[str]) -> int:
        """How many schedules that are not ``known`` will ask for costs as they go."""
        schedules = {task.id: task for tasks in self._schedules.values() for task in tasks}
        return sum(task.solve.asks and task.id not in known for task in schedules.values())
