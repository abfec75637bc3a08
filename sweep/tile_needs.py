"""Schedules that wait for tile costs, and what is to be solved before they can begin."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from collections.abc import Sequence
from typing import Any

from sweep.schedule_task import ScheduleTask
from sweep.tile_table import TileTable
from sweep.tile_task import TileTask


class TileNeeds:
    """Holds schedule tasks back until the tile costs of their networks are known; each is solved once."""

    def __init__(self, table: TileTable) -> None:
        self._table = table
        self._missing: dict[str, set[str]] = {}
        """Schedule task -> the tile tasks that it waits for."""
        self._waiting: dict[str, list[ScheduleTask]] = {}
        """Tile task -> the schedule tasks that wait for it."""

    def __len__(self) -> int:
        """Schedule tasks that wait."""
        return len(self._missing)

    def asked_by(self, task: ScheduleTask) -> list[TileTask]:
        """The tile tasks to solve for ``task`` that no other asked for; without any at all it is ready."""
        needed = self._table.tasks(task.on.source, task.demand)
        if needed:
            self._missing[task.id] = {tile.id for tile in needed}
        new = [tile for tile in needed if tile.id not in self._waiting]
        for tile in needed:
            self._waiting.setdefault(tile.id, []).append(task)
        return new

    def ready(self, task: ScheduleTask) -> bool:
        """Whether it waits for nothing."""
        return task.id not in self._missing

    def answered(self, tile: TileTask, row: ReadOnlyDict[str, Any]) -> list[ScheduleTask]:
        """Enter the ``tile_costs`` row of a tile task; returns the schedule tasks that wait no more."""
        self._table.record(tile, row)
        waiting = self._waiting.pop(tile.id)
        for task in waiting:
            self._missing[task.id].discard(tile.id)
        ready = [task for task in waiting if not self._missing[task.id]]
        for task in ready:
            del self._missing[task.id]
        return ready

    def lacking(self, task: ScheduleTask) -> str:
        """Why a ready task cannot begin: tile costs whose solves failed; empty where it can."""
        missing = len(self._table.open_shares(task.on.source, task.demand))
        return f"{missing} tile costs could not be had" if missing else ""

    def payload(self, task: ScheduleTask, states: Sequence[Any] = ()) -> dict[str, Any]:
        """What travels to a worker, of a ready task; ``states`` as for :meth:`ScheduleTask.payload`."""
        return task.payload(self._table.share_costs(task.on.source, task.demand), states)
