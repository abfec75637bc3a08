"""How long a study will take: the time of a few solves, and a simulated run of all that are open."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from statistics import fmean

import numpy as np

from results.store.known_answers import StoredAnswers, stored_in
from results.store.schema.tables import ANSWER_TABLES, LAYERS
from sweep.blocks.solve_ids import SolveIds
from sweep.design.mapping_workload import MappingWorkload
from sweep.design.workload import tasks_of
from sweep.forecast.pilot import PILOT_SOLVES, pilot
from sweep.forecast.plan import StudyPlan
from sweep.forecast.simulation import Forecast, block_forecast, forecast
from sweep.study.study import Study
from sweep.tasks.kinds import Task, ids_by_table, stored_answers

SECONDS = {table.name: ("wall_seconds",) for table in ANSWER_TABLES}
"""By table, the columns of stored answers that a prediction reads."""


@dataclass(frozen=True)
class Prediction:
    """How long the ``open`` solves will take.

    ``seconds``: wall seconds of some solves like these, which ``source`` describes in words.
    """

    open: int
    seconds: tuple[float, ...]
    source: str
    blocks: bool = False
    """Whether the solves are handed out in blocks."""

    @property
    def seconds_per_solve(self) -> float:
        return fmean(self.seconds)

    @property
    def core_hours(self) -> float:
        """Core hours of the open solves, without the driver."""
        return self.open * self.seconds_per_solve / 3600

    def on(self, workers: int) -> Forecast | None:
        """The simulated run on ``workers`` workers; None where nothing is left to solve."""
        return _simulated(self.seconds, self.open, workers, self.blocks) if self.open else None

    def wall_seconds(self, workers: int) -> float:
        run = self.on(workers)
        return run.wall_seconds if run else 0.0


@lru_cache(maxsize=16)
def _simulated(seconds: tuple[float, ...], solves: int, workers: int, blocks: bool) -> Forecast:
    return (block_forecast if blocks else forecast)(seconds, solves, workers)


def predict(study: Study, planned: StudyPlan, store: Path | StoredAnswers | None = None) -> Prediction:
    """Predict the open solves from the study's answers in the store, else from a few pilot solves.

    Those of a cheaper solver that looks first are not counted: it is there because it takes next to no time.
    Stored answers are used only where no costs of layers are left to solve, whose times they would not show.
    Each asking schedule is taken to ask for as much as the pilot's; as several may ask for the same cost,
    that is too much rather than too little.
    """
    stored = stored_in(store)
    blocks = planned.table is not None
    if stored and not (planned.cost_solves or planned.asking):
        known = stored_answers(stored, _ids(planned), SECONDS)
        seconds = tuple(row["wall_seconds"] for row in known.values() if row["wall_seconds"] is not None)
        if len(seconds) >= PILOT_SOLVES or (seconds and not planned.open):
            return Prediction(
                planned.open - planned.first_open, seconds, f"{len(seconds)} solves in {stored.root}", blocks
            )
    timed = pilot(_spread(planned), planned)
    solves = planned.open - planned.first_open + planned.asking * timed.asked
    return Prediction(solves, timed.seconds, f"{timed.solves} pilot solves on this machine", blocks)


def _ids(planned: StudyPlan) -> dict[str, set[str]]:
    """The ids of all tasks that designs ask for, by the table of their answers."""
    if planned.table is not None:
        assert isinstance(planned.workload, MappingWorkload)
        return {LAYERS.name: set(chain.from_iterable(SolveIds(planned.table, planned.workload)))}
    tasks = (task for design in planned.designs for task in tasks_of(planned.workload, design))
    return ids_by_table(tasks)


def _some(planned: StudyPlan, stride: int) -> Iterator[list[Task]]:
    """The tasks of every so many-th design that has any."""
    if planned.table is not None:
        for row in np.flatnonzero(planned.table.feasible)[::stride].tolist():
            yield planned.workload.tasks(planned.table.design(row))
        return
    solvable = (tasks for design in planned.designs if (tasks := tasks_of(planned.workload, design)))
    yield from islice(solvable, 0, None, stride)


def _spread(planned: StudyPlan) -> list[Task]:
    """At most PILOT_SOLVES different tasks, spread over the designs and over the tasks of each."""
    stride = max(1, (planned.designs.count - planned.infeasible) // PILOT_SOLVES)
    chosen: dict[str, Task] = {}
    # the first task taken moves on from design to design, so that different layers are met
    for number, tasks in enumerate(_some(planned, stride)):
        for position in range(0, len(tasks), max(1, len(tasks) // PILOT_SOLVES)):
            task = tasks[(position + number) % len(tasks)]
            chosen[task.id] = task
    tasks = list(chosen.values())
    return tasks[:: max(1, len(tasks) // PILOT_SOLVES)][:PILOT_SOLVES]
