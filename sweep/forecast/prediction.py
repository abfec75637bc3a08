"""How long a study will take: the time of a few solves, and a simulated run of all that are open."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from itertools import islice
from pathlib import Path
from statistics import fmean

from results.store.known_answers import StoredAnswers, stored_in
from results.store.schema.tables import ANSWER_TABLES
from sweep.design.workload import tasks_of
from sweep.forecast.pilot import PILOT_SOLVES, pilot
from sweep.forecast.plan import StudyPlan
from sweep.forecast.simulation import Forecast, forecast
from sweep.study.study import Study
from sweep.tasks.kinds import Task, ids_by_table, stored_answers

SECONDS = {table.name: ("wall_seconds",) for table in ANSWER_TABLES}
"""What a prediction reads of answers, by table."""


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
    return forecast(seconds, solves, workers)


def predict(study: Study, planned: StudyPlan, store: Path | StoredAnswers | None = None) -> Prediction:
    """Seconds per solve: those of the study's own answers in the store, else of a few pilot solves.

    Answers in the store do where all that is left is of their kind: nothing of what layers cost. What asking
    schedules will ask for is counted as the pilot's did, for each of them: they may share some of it.
    """
    stored = stored_in(store)
    if stored and not (planned.cost_solves or planned.asking):
        tasks = (task for design in planned.designs for task in tasks_of(planned.workload, design))
        known = stored_answers(stored, ids_by_table(tasks), SECONDS)
        seconds = tuple(row["wall_seconds"] for row in known.values() if row["wall_seconds"] is not None)
        if len(seconds) >= PILOT_SOLVES or (seconds and not planned.open):
            return Prediction(planned.open, seconds, f"{len(seconds)} solves in {stored.root}")
    timed = pilot(_spread(planned), planned)
    solves = planned.open + planned.asking * timed.asked
    return Prediction(solves, timed.seconds, f"{timed.solves} pilot solves on this machine")


def _spread(planned: StudyPlan) -> list[Task]:
    """A few different tasks, from all over the study."""
    stride = max(1, (planned.designs.count - planned.infeasible) // PILOT_SOLVES)
    solvable = (tasks for design in planned.designs if (tasks := tasks_of(planned.workload, design)))
    chosen: dict[str, Task] = {}
    for number, tasks in enumerate(islice(solvable, 0, None, stride)):
        for position in range(0, len(tasks), max(1, len(tasks) // PILOT_SOLVES)):
            task = tasks[(position + number) % len(tasks)]
            chosen[task.id] = task
    tasks = list(chosen.values())
    return tasks[:: max(1, len(tasks) // PILOT_SOLVES)][:PILOT_SOLVES]
