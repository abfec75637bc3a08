"""Epochs of seeds that exchange their best trees: each waits until all seeds are through the one before."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from typing import Any

from sweep.tasks.schedule import ScheduleTask


class EpochNeeds:
    """Holds epochs back until those before are answered; hands their states on."""

    def __init__(self) -> None:
        self._states: dict[str, Any] = {}
        """Of answered tasks, where their searches go on from; None of failed ones."""
        self._asked: set[str] = set()
        self._waiting: dict[str, list[ScheduleTask]] = {}
        """Task -> the tasks that wait for it."""
        self._missing: dict[str, set[str]] = {}

    def __len__(self) -> int:
        """Tasks that wait."""
        return len(self._missing)

    def asked_by(self, task: ScheduleTask) -> list[ScheduleTask]:
        """The epochs before ``task`` that no other asked for; it waits for all that are open."""
        open_before = [before for before in task.before if before.id not in self._states]
        if open_before:
            self._missing[task.id] = {before.id for before in open_before}
        for before in open_before:
            self._waiting.setdefault(before.id, []).append(task)
        new = [before for before in open_before if before.id not in self._asked]
        self._asked.update(before.id for before in new)
        return new

    def ready(self, task: ScheduleTask) -> bool:
        """Whether it waits for nothing."""
        return task.id not in self._missing

    def answered(self, task: ScheduleTask, row: ReadOnlyDict[str, Any]) -> list[ScheduleTask]:
        """Enter the row of a task; returns the tasks that wait no more."""
        if task.epoch is None:
            return []
        self._states[task.id] = row.get("state")
        ready = []
        for waiting in self._waiting.pop(task.id, []):
            self._missing[waiting.id].discard(task.id)
            if not self._missing[waiting.id]:
                del self._missing[waiting.id]
                ready.append(waiting)
        return ready

    def states(self, task: ScheduleTask) -> list[Any]:
        """Where the searches of all seeds are before a ready task; None of those that failed."""
        return [self._states[before.id] for before in task.before]
