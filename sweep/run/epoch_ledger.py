"""Epochs of seeds that exchange their best trees: each waits until all seeds are through the one before."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from typing import Any

from sweep.run.waiting_ledger import WaitingLedger
from sweep.tasks.schedule import ScheduleTask


class EpochLedger:
    """Holds epochs back until those before are answered, and hands their states on.

    The state of an epoch is read by the next epoch of all seeds, of which there are as many as tasks in
    :attr:`ScheduleTask.before`. Once all of these are answered, nobody asks for it any more, and it is
    forgotten: a state holds a seed's trees.
    """

    def __init__(self) -> None:
        self._waiting = WaitingLedger[ScheduleTask]()
        self._states: dict[str, Any] = {}
        """By id of answered tasks, where their searches go on from; None of failed ones."""
        self._readers_left: dict[str, int] = {}
        """By id of a task, how many of the next epoch are not answered yet, once one is."""

    def __len__(self) -> int:
        """Tasks that wait."""
        return len(self._waiting)

    def begin(self, task: ScheduleTask) -> list[ScheduleTask]:
        """The epochs before ``task`` that no other asked for; it waits for all that are not answered."""
        unanswered = {before.id: before for before in task.before if before.id not in self._states}
        return [unanswered[new] for new in self._waiting.wait(task, unanswered)]

    def ready(self, task: ScheduleTask) -> bool:
        """Whether it waits for nothing."""
        return not self._waiting.waits(task)

    def answered(self, task: ScheduleTask, row: ReadOnlyDict[str, Any]) -> list[ScheduleTask]:
        """Enter the row of a task; returns the tasks that wait no more."""
        if task.epoch is None:
            return []
        if task.epoch.number + 1 < task.epoch.count:
            self._states[task.id] = row.get("state")
        for before in task.before:
            self._read(before.id, len(task.before))
        return self._waiting.answered(task.id)

    def _read(self, task_id: str, readers: int) -> None:
        """One more of the ``readers`` of a task's state is answered."""
        left = self._readers_left.pop(task_id, readers) - 1
        if left:
            self._readers_left[task_id] = left
        else:
            self._states.pop(task_id, None)

    def states(self, task: ScheduleTask) -> list[Any]:
        """Where the searches of all seeds are before a ready task; None of those that failed."""
        return [self._states[before.id] for before in task.before]
