"""What a study will cost, before anything runs: designs, distinct solves, core-hours, wall time."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from statistics import fmean

from costmodel.errors import InputError
from costmodel.networks import load_network, unsupported_operators
from costmodel.technology import energy_inversions
from sweep.design_ledger import DesignLedger
from sweep.hardware import mapped_on
from sweep.search import check_feasible, design_space, designs, warm_start
from sweep.simulated_run import Cluster
from sweep.simulation import Forecast, forecast
from sweep.space import Design
from sweep.study import OptunaSearch, Study
from sweep.work import Task, answer_task, ids_by_table, stored_answers
from sweep.workload import workload_of

PILOT_SOLVES = 5
PILOT_SECONDS = 10.0


@dataclass(frozen=True)
class Proposed:
    """The ``count`` designs that a study's search looks at, made anew each time they are iterated.

    A hundred thousand architectures would fill the driver's memory. Of an Optuna search these are as many
    random ones: it will propose others, but no more.
    """

    study: Study
    count: int

    def __len__(self) -> int:
        return self.count

    def __iter__(self) -> Iterator[Design]:
        return designs(self.study)


@dataclass(frozen=True)
class Plan:
    """``asked`` solves, by the table of their answers; ``distinct`` ones, and of these ``open`` ones.

    ``distinct``: after de-duplication, ``open``: not in the store yet.
    """

    designs: Proposed
    infeasible: int
    """Designs that break a constraint, or on which a network has no scratchpad plan: they cost nothing."""
    asked: dict[str, int]
    distinct: int
    open: int
    warnings: tuple[str, ...] = ()
    """What a reader of the results should know: operators not counted, energy tables turned upside down."""
    at_most: bool = False
    """An Optuna search takes no more than these; ``infeasible`` is of as many random ones."""

    @property
    def requested(self) -> int:
        return sum(self.asked.values())


def plan(study: Study, store: Path | None = None) -> Plan:
    """Count the study's work; ``store`` is the folder of run folders whose answers are reused.

    Raises InputError for whatever the study names and cannot be had: networks, architecture, axes,
    parameters, constraints that nothing meets.
    """
    count = _Count(study)
    for design in designs(study):
        count.add(design)
    if count.infeasible == count.designs:
        check_feasible(study)
        raise InputError(
            f"study {study.name}",
            "a design on which every network has a plan",
            f"none of {count.designs}",
            f"The last one: {count.obstacle}",
            key="scratchpad",
        )
    known = stored_answers(store, count.tasks, ("task_id",)) if store is not None and store.is_dir() else ()
    warnings = (*_uncounted(study), *count.inverted.values(), *_not_warm(study))
    proposed = Proposed(study, count.designs)
    if isinstance(study.search, OptunaSearch) and count.designs < design_space(study).size:
        most = count.most_solves * count.designs
        asked = count.asked(count.designs)
        return Plan(proposed, count.infeasible, asked, most, most, warnings, at_most=True)
    distinct = sum(map(len, count.tasks.values()))
    asked = count.asked(count.designs - count.infeasible)
    return Plan(proposed, count.infeasible, asked, distinct, distinct - len(known), warnings)


def _not_warm(study: Study) -> list[str]:
    start = warm_start(study)
    if start is None or not start.untouched:
        return []
    return [f"warm start: {', '.join(start.untouched)} not chosen by Thistle, started in the middle"]


def _uncounted(study: Study) -> list[str]:
    return [
        f"{choice.shown}: {warning}"
        for choice in study.networks
        for warning in unsupported_operators(load_network(choice.network, choice.batch))
    ]


class _Count:
    """What is counted over all designs, none of which is kept."""

    def __init__(self, study: Study) -> None:
        self.designs = self.infeasible = self.most_solves = 0
        self.tasks: dict[str, set[str]] = {}
        """Identities by the table of their rows."""
        self.obstacle = ""
        self.inverted: dict[str, str] = {}
        self._name = study.base
        self._ledger = DesignLedger(study, workload_of(study))

    def asked(self, designs: int) -> dict[str, int]:
        """All solves that so many designs ask for, by the table of their answers."""
        return {table: designs * count for table, count in self._ledger.workload.asked.items()}

    def add(self, design: Design) -> None:
        self.designs += 1
        for warning in energy_inversions(mapped_on(design.hardware)):
            self.inverted[warning.split(" costs ")[0]] = f"{self._name}: {warning}"
        needed = self._ledger.tasks(design)
        if not needed:
            self.infeasible += 1
            self.obstacle = self._ledger.workload.obstacle(design) or self.obstacle
            return
        tasks = ids_by_table(needed)
        self.most_solves = max(self.most_solves, sum(map(len, tasks.values())))
        for table, ids in tasks.items():
            self.tasks.setdefault(table, set()).update(ids)


@dataclass(frozen=True)
class Prediction:
    """How long the ``open`` solves will take, from the ``seconds`` of some that ``source`` names."""

    open: int
    seconds: tuple[float, ...]
    source: str

    @property
    def seconds_per_solve(self) -> float:
        return fmean(self.seconds)

    @property
    def core_hours(self) -> float:
        """Of the solves alone."""
        return self.open * self.seconds_per_solve / 3600

    def on(self, workers: int) -> Forecast | None:
        """The run on so many workers, simulated; None where nothing is left to solve."""
        return _simulated(self.seconds, self.open, workers) if self.open else None

    def wall_seconds(self, workers: int) -> float:
        run = self.on(workers)
        return run.wall_seconds if run else 0.0


@lru_cache(maxsize=16)
def _simulated(seconds: tuple[float, ...], solves: int, workers: int) -> Forecast:
    return forecast(seconds, solves, Cluster(workers))


def predict(study: Study, planned: Plan, store: Path | None = None) -> Prediction:
    """Seconds per solve: those of the study's own answers in the store, else of a few pilot solves."""
    if store is not None and store.is_dir():
        ledger = DesignLedger(study, workload_of(study))
        tasks = (task for design in planned.designs for task in ledger.tasks(design))
        known = stored_answers(store, ids_by_table(tasks), ("task_id", "wall_seconds"))
        seconds = tuple(row["wall_seconds"] for row in known.values() if row["wall_seconds"] is not None)
        if len(seconds) >= PILOT_SOLVES:
            return Prediction(planned.open, seconds, f"{len(seconds)} solves in {store}")
    seconds = _pilot(_spread(study, planned))
    return Prediction(planned.open, seconds, f"{len(seconds)} pilot solves on this machine")


def _spread(study: Study, planned: Plan) -> list[Task]:
    """A few different tasks, from all over the study."""
    ledger = DesignLedger(study, workload_of(study))
    stride = max(1, (planned.designs.count - planned.infeasible) // PILOT_SOLVES)
    solvable = (tasks for design in planned.designs if (tasks := ledger.tasks(design)))
    chosen: dict[str, Task] = {}
    for number, tasks in enumerate(islice(solvable, 0, None, stride)):
        for position in range(0, len(tasks), max(1, len(tasks) // PILOT_SOLVES)):
            task = tasks[(position + number) % len(tasks)]
            chosen[task.id] = task
    tasks = list(chosen.values())
    return tasks[:: max(1, len(tasks) // PILOT_SOLVES)][:PILOT_SOLVES]


def _pilot(chosen: list[Task]) -> tuple[float, ...]:
    """Wall seconds of the tasks, after one that only warms up."""
    answer_task(chosen[0].content)
    start = time.perf_counter()
    seconds: list[float] = []
    for task in chosen:
        before = time.perf_counter()
        answer_task(task.content)
        seconds.append(time.perf_counter() - before)
        if time.perf_counter() - start > PILOT_SECONDS:
            break
    return tuple(seconds)
