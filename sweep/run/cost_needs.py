"""Schedules that wait for costs of their layers, and what is to be solved before they can go on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, field
from typing import Any

from results.store.known_answers import StoredAnswers
from solvers.schedule.tiles.layer_parts import Request, TilePart, batches_of, requested_parts
from sweep.run.alone_table import AloneTable
from sweep.run.tile_table import TileTable
from sweep.tasks.known_costs import KnownCosts
from sweep.tasks.mapping import MappingTask
from sweep.tasks.schedule import ScheduleTask
from sweep.tasks.tile import TileTask

CostTask = TileTask | MappingTask
"""Shares of layers on a tile, or a layer alone on the chip."""
AloneTasks = dict[tuple[int, int], MappingTask]
"""By number of the layer and batch."""


@dataclass
class _Course:
    """How far a schedule is: what it was told it may ask, and what its solves have taken.

    ``alone``: tasks of layers alone on the chip, by number and batch. Every round of a solver that asks as it
    goes begins anew with all that is known, so the last one is a whole solve.
    """

    shares: Collection[TilePart] = ()
    alone: AloneTasks = field(default_factory=dict)
    cpu_seconds: float = 0.0
    wall_seconds: float = 0.0
    asked_in_vain: bool = False


class CostNeeds:
    """Holds schedule tasks back until the costs that they need are known; each cost is solved once.

    A solver that asks as it goes begins without any, and is begun again with what it asked for; of others the
    whole table comes first. What a solver is told is what it asked for, and nothing that others did: its
    answer does not depend on what happens to be in the store.
    """

    def __init__(self, store: StoredAnswers | None) -> None:
        self._tiles, self._alone = TileTable(store), AloneTable(store)
        self._courses: dict[str, _Course] = {}
        self._missing: dict[str, set[str]] = {}
        """Schedule task -> the cost tasks that it waits for."""
        self._waiting: dict[str, list[ScheduleTask]] = {}
        """Cost task -> the schedule tasks that wait for it."""

    def __len__(self) -> int:
        """Schedule tasks that wait, or may yet ask."""
        return len(self._courses)

    def begin(self, task: ScheduleTask) -> list[CostTask]:
        """The solves that ``task`` waits for and no other asked for; without any at all it is ready."""
        course = self._course(task)
        tiles = self._tiles.tasks(task.on.source, course.shares)
        return self._wait(task, [*tiles, *self._alone.open_tasks(course.alone.values())])

    def asked(self, task: ScheduleTask, answer: ReadOnlyDict[str, Any]) -> list[CostTask]:
        """The same once a worker has said that it cannot go on: one task a request at least."""
        course = self._course(task)
        course.cpu_seconds += answer["cpu_seconds"]
        course.wall_seconds += answer["wall_seconds"]
        told = len(course.shares) + len(course.alone)
        known, needed = dict.fromkeys(course.shares), list[CostTask]()
        for request in (Request(*numbers) for numbers in answer["needs"]):
            shares, alone = _asked_for(task, request)
            known |= dict.fromkeys(shares)
            course.alone |= alone
            needed += self._tiles.tasks(task.on.source, shares)
            needed += self._alone.open_tasks(alone.values())
        course.shares = known
        course.asked_in_vain = told == len(course.shares) + len(course.alone)
        return self._wait(task, needed)

    def _wait(self, task: ScheduleTask, needed: Iterable[CostTask]) -> list[CostTask]:
        distinct = {one.id: one for one in needed}
        if distinct:
            self._missing[task.id] = set(distinct)
        new = [one for one in distinct.values() if one.id not in self._waiting]
        for key in distinct:
            self._waiting.setdefault(key, []).append(task)
        return new

    def ready(self, task: ScheduleTask) -> bool:
        """Whether it waits for nothing."""
        return task.id not in self._missing

    def awaited(self, task_id: str) -> bool:
        """Whether the task is one that schedules wait for."""
        return task_id in self._waiting

    def answered(self, task: CostTask, row: ReadOnlyDict[str, Any]) -> list[ScheduleTask]:
        """Enter the row of a cost task; returns the schedule tasks that wait no more."""
        if isinstance(task, TileTask):
            self._tiles.record(task, row)
        else:
            self._alone.record(task, row)
        waiting = self._waiting.pop(task.id)
        for schedule in waiting:
            self._missing[schedule.id].discard(task.id)
        ready = [schedule for schedule in waiting if not self._missing[schedule.id]]
        for schedule in ready:
            del self._missing[schedule.id]
        return ready

    def lacking(self, task: ScheduleTask) -> str:
        """Why a ready task cannot go on: costs whose solves failed; empty where it can."""
        course = self._course(task)
        if course.asked_in_vain:
            return f"{task.solve.solver} asked again for costs that it had"
        shares = len(self._tiles.open_shares(task.on.source, course.shares))
        layers = len(self._alone.open_tasks(course.alone.values()))
        said = [f"{shares} tile costs"] if shares else []
        said += [f"{layers} layers alone on the chip"] if layers else []
        return f"{' and '.join(said)} could not be had" if said else ""

    def payload(self, task: ScheduleTask, states: Sequence[Any] = ()) -> dict[str, Any]:
        """What travels to a worker, of a ready task; ``states`` as for :meth:`ScheduleTask.payload`."""
        course = self._course(task)
        shares = self._tiles.share_costs(task.on.source, course.shares)
        alone = {key: self._alone.cost(task.on, one) for key, one in course.alone.items()}
        return task.payload(KnownCosts(shares, alone if task.on.alone else None), states)

    def finished(self, task: ScheduleTask, row: ReadOnlyDict[str, Any]) -> dict[str, Any]:
        """The row of a schedule that asks no more, with the seconds of all its rounds."""
        course = self._courses.pop(task.id, _Course())
        spent = {
            "cpu_seconds": course.cpu_seconds + (row.get("cpu_seconds") or 0.0),
            "wall_seconds": course.wall_seconds + (row.get("wall_seconds") or 0.0),
        }
        return {**row, **spent}

    def _course(self, task: ScheduleTask) -> _Course:
        if task.id not in self._courses:
            self._courses[task.id] = _Course() if task.solve.asks else _whole_table(task)
        return self._courses[task.id]


def _whole_table(task: ScheduleTask) -> _Course:
    """All that a schedule may ask for."""
    alone: AloneTasks = {}
    if task.on.alone:
        numbers = range(len(task.network.graph.layers))
        for request in (Request(n, batch, 0) for n in numbers for batch in batches_of(task.batch)):
            alone |= _alone(task, request)
    return _Course(task.demand.tile_parts(), alone)


def _asked_for(task: ScheduleTask, request: Request) -> tuple[list[TilePart], AloneTasks]:
    """What answers a request: shares of the layer, or the layer alone."""
    demand = task.demand
    return requested_parts(demand.graph, request, demand.tile, demand.pruning), _alone(task, request)


def _alone(task: ScheduleTask, request: Request) -> AloneTasks:
    """The task of a layer alone; none for one without products, which needs no mapping."""
    layer = task.network.graph.layers[request.layer]
    if not (request.on_whole_chip and layer.has_weights):
        return {}
    return {(request.layer, request.batch): task.on.alone_task(layer.nest(request.batch))}
