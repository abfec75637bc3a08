"""Schedules that wait for costs of their layers, and the solves that these costs come from."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from results.store.schema.rows import AnswerRow
from solvers.schedule.tiles.layer_parts import Request
from sweep.design.cost_tables import CostTables, CostTask, WantedCosts, wanted_at_first, wanted_for
from sweep.run.ledgers.waiting_ledger import WaitingLedger
from sweep.tasks.chips.schedule import ScheduleTask
from sweep.tasks.columns import CostRequests

LAST_ROUND = 0.1
"""The part of its time limit that a solver has for a round at least: enough to answer with what it found."""


@dataclass
class _Course:
    """How far one schedule is: the costs that its solver is told, and the seconds of its rounds so far.

    A *round* is one call of the solver, until it answers or asks for costs.
    A solver that asks as it goes starts over in every round, with all costs that it has asked for; so its
    last round is a whole solve. Any other solver has one round.
    """

    wanted: WantedCosts
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    asked_in_vain: bool = False
    """Whether the last round asked only for costs that it had been told: another would do the same."""


class CostLedger:
    """Holds schedule tasks back until the costs that they need are known; each cost is solved once.

    A solver that asks as it goes starts without any, and is started again with those that it asked for. Any
    other solver waits for the whole table. A solver is told only what it asked for itself, even where more is
    known: so its answer does not depend on what happens to be in the store.
    """

    def __init__(self, tables: CostTables) -> None:
        self._tables = tables
        self._waiting = WaitingLedger[ScheduleTask]()
        self._courses: dict[str, _Course] = {}
        """By id of the schedule tasks that were begun and have no row yet."""

    def __len__(self) -> int:
        """How many schedule tasks were begun and have no row yet: each waits, or may yet ask."""
        return len(self._courses)

    def begin(self, task: ScheduleTask) -> list[CostTask]:
        """Let ``task`` wait for its costs; returns the solves among them that no other task asked for.

        There may be none though it waits, for others' solves: :meth:`ready` tells.
        """
        course = self._course(task)
        return self._wait(task, self._tables.tasks(task, course.wanted))

    def asked(self, task: ScheduleTask, answer: CostRequests) -> list[CostTask]:
        """Let ``task`` wait for the costs that it asked for in ``answer``, with which a worker ended its
        round.

        Returns as :meth:`begin`.
        """
        course = self._course(task)
        course.cpu_seconds += answer["cpu_seconds"]
        course.wall_seconds += answer["wall_seconds"]
        told = len(course.wanted)
        needed: list[CostTask] = []
        for request in (Request.of_numbers(numbers) for numbers in answer["needs"]):
            wanted = wanted_for(task, request)
            # each request by itself: parts of different requests are not put into one solve
            needed += self._tables.tasks(task, wanted)
            course.wanted |= wanted
        course.asked_in_vain = told == len(course.wanted)
        return self._wait(task, needed)

    def _wait(self, task: ScheduleTask, needed: Iterable[CostTask]) -> list[CostTask]:
        by_id = {one.id: one for one in needed}
        return [by_id[new] for new in self._waiting.wait(task, by_id)]

    def ready(self, task: ScheduleTask) -> bool:
        """Whether ``task`` waits for nothing."""
        return not self._waiting.waits(task)

    def awaited(self, task_id: str) -> bool:
        """Whether the task is one that schedules wait for."""
        return self._waiting.is_awaited(task_id)

    def answered(self, task: CostTask, row: AnswerRow) -> list[ScheduleTask]:
        """Enter the row of a cost task; returns the schedule tasks that wait no more."""
        self._tables.record(task, row)
        return self._waiting.answered(task.id)

    def lacking(self, task: ScheduleTask) -> str:
        """Why a ready task cannot go on: costs whose solves failed, or asking in vain; empty where it can."""
        course = self._course(task)
        if course.asked_in_vain:
            return f"{task.solve.solver} asked again for costs that it had"
        unknown = self._tables.unknown(task, course.wanted)
        return f"{unknown} could not be had" if unknown else ""

    def payload(self, task: ScheduleTask, states: Sequence[Any] = ()) -> dict[str, Any]:
        """What a worker is sent for a ready task; ``states`` as for :meth:`ScheduleTask.payload`.

        The rounds of a solver that starts over have one limit together: each gets what is left of it.
        """
        course = self._course(task)
        payload = task.payload(self._tables.known(task, course.wanted), states)
        if course.wall_seconds:
            budget = payload["budget"]
            seconds = budget["wall_seconds"]
            left = max(LAST_ROUND * seconds, seconds - course.wall_seconds)
            payload |= {"budget": budget | {"wall_seconds": left}}
        return payload

    def finished(self, task: ScheduleTask, row: AnswerRow) -> AnswerRow:
        """The row of a schedule that is done, with the seconds of all its rounds; the ledger forgets it."""
        # of a task whose epoch before failed there is no course
        course = self._courses.pop(task.id, _Course(WantedCosts()))
        spent: AnswerRow = {
            "cpu_seconds": course.cpu_seconds + (row.get("cpu_seconds") or 0.0),
            "wall_seconds": course.wall_seconds + (row.get("wall_seconds") or 0.0),
        }
        return row | spent

    def _course(self, task: ScheduleTask) -> _Course:
        if task.id not in self._courses:
            self._courses[task.id] = _Course(wanted_at_first(task))
        return self._courses[task.id]
