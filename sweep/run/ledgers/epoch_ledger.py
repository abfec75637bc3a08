"""The epochs of searches that exchange their best trees: each begins when all seeds have ended the last."""

from __future__ import annotations

from typing import Any

from results.store.schema.rows import ScheduleRow
from sweep.run.ledgers.waiting_ledger import WaitingLedger
from sweep.tasks.chips.schedule import ScheduleTask


class EpochLedger:
    """Holds an epoch back until all seeds have ended the epoch before, and hands their states on to it.

    With n seeds, n tasks read each state: the next epoch of every seed, all of which have the same n tasks in
    :attr:`ScheduleTask.before`. Once these n are answered the state is dropped, for it is large: it holds a
    seed's trees.
    """

    def __init__(self) -> None:
        self._waiting = WaitingLedger[ScheduleTask]()
        self._states: dict[str, dict[str, Any] | None] = {}
        """By id of an answered task, the state from which its search goes on; None where the task failed."""
        self._readers_left: dict[str, int] = {}
        """By id of a task, how many tasks of the next epoch are open; from the first one answered on."""

    def __len__(self) -> int:
        """How many tasks wait."""
        return len(self._waiting)

    def begin(self, task: ScheduleTask) -> list[ScheduleTask]:
        """Let ``task`` wait for the tasks before it; returns those of them that no other waited for."""
        unanswered = {before.id: before for before in task.before if before.id not in self._states}
        return [unanswered[new] for new in self._waiting.wait(task, unanswered)]

    def ready(self, task: ScheduleTask) -> bool:
        """Whether ``task`` waits for nothing."""
        return not self._waiting.waits(task)

    def answered(self, task: ScheduleTask, row: ScheduleRow) -> list[ScheduleTask]:
        """Enter the row of a task; returns the tasks that wait no more."""
        if task.epoch is None:
            return []
        if task.epoch.number + 1 < task.epoch.count:
            self._states[task.id] = row.get("state")
        for before in task.before:
            self._read(before.id, len(task.before))
        return self._waiting.answered(task.id)

    def _read(self, task_id: str, readers: int) -> None:
        """Count one of the ``readers`` of a task's state as answered; drop the state with the last."""
        left = self._readers_left.pop(task_id, readers) - 1
        if left:
            self._readers_left[task_id] = left
        else:
            self._states.pop(task_id, None)

    def states(self, task: ScheduleTask) -> list[Any]:
        """The states of all seeds that a ready task goes on from; None for a seed that failed."""
        return [self._states[before.id] for before in task.before]
