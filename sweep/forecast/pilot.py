"""Pilot solves: a few tasks of a study timed in this process, long ones only in part."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from solvers.catalogue import solver
from solvers.schedule.tiles.mapper import tile_solver
from sweep.design.tile_table import LOTS
from sweep.forecast.plan import StudyPlan
from sweep.forecast.rehearsal import Rehearsal, costs_before
from sweep.study.identity import checked_params
from sweep.tasks.chips.schedule import ScheduleTask
from sweep.tasks.chips.schedule_answer import run_schedule_task
from sweep.tasks.chips.tile_costs import TileCostTask
from sweep.tasks.kinds import Task, answer_task

PILOT_SOLVES = 5
"""How many tasks are timed; none is where the store has answers to as many."""
PILOT_SECONDS = 10.0
"""Wall seconds after which no further solve of a kind is begun."""
PILOT_PARTS = 6
"""Tile parts that are timed for a whole lot."""
PILOT_ASKED = 12
"""About how many of the costs that an asking schedule wants are timed."""
MIXED = 20
"""How many measured times stand for all solves of a study of chips, in the proportion of their kinds."""


@dataclass(frozen=True)
class Pilot:
    """Wall ``seconds`` of solves, mixed as the study's are, from ``solves`` that were timed.

    ``asked``: how many solves a schedule asks for as it goes.
    """

    seconds: tuple[float, ...]
    solves: int
    asked: int = 0


@dataclass(frozen=True)
class _Kind:
    """Seconds of some solves of a kind, of which the study has ``count``."""

    seconds: tuple[float, ...]
    count: int


def pilot(tasks: list[Task], planned: StudyPlan) -> Pilot:
    """Time the ``tasks``, some of the planned ones; the first is solved once before, to warm up."""
    schedules = [task for task in tasks if isinstance(task, ScheduleTask)]
    if schedules:
        return _of_schedules(schedules, planned)
    seconds = _timed([task.content for task in tasks if not isinstance(task, ScheduleTask)])
    return Pilot(seconds, len(seconds))


def _of_schedules(tasks: list[ScheduleTask], planned: StudyPlan) -> Pilot:
    """Time schedules and the costs that they wait for, and mix them in the study's proportion.

    Asking schedules and others are different kinds: what the latter wait for is known beforehand.
    """
    asking, told = ([task for task in tasks if task.solve.asks == asks] for asks in (True, False))
    kinds, asked = list[_Kind](), 0
    if told:
        kinds.append(_Kind(_timed_in_part(told), planned.open - planned.cost_solves - planned.asking))
        kinds.append(_Kind(_lot_seconds(told[0]) if planned.cost_solves else (), planned.cost_solves))
    if asking:
        whole, costs, asked = _rehearsed(asking[0])
        kinds += [_Kind(whole, planned.asking), _Kind(costs, planned.asking * asked)]
    return Pilot(_mixed(kinds), sum(len(kind.seconds) for kind in kinds), asked)


def _mixed(kinds: list[_Kind]) -> tuple[float, ...]:
    """About MIXED times in seconds: each kind in proportion to its solves, at least one of each."""
    met = [kind for kind in kinds if kind.seconds]
    total = sum(kind.count for kind in met)
    return tuple(
        kind.seconds[position % len(kind.seconds)]
        for kind in met
        for position in range(max(1, round(MIXED * kind.count / max(1, total))))
    )


def _rehearsed(task: ScheduleTask) -> tuple[tuple[float, ...], tuple[float, ...], int]:
    """Rehearse a schedule with ideal costs.

    Returns its seconds, seconds of some of the solves that it asks for, and how many it asks for.
    """
    rehearsal = Rehearsal(task, PILOT_SECONDS)
    before = time.perf_counter()
    rehearsal.run()
    spent = time.perf_counter() - before
    asked = rehearsal.asked
    chosen = asked[:: max(1, len(asked) // PILOT_ASKED)]
    return (spent,), _timed([one.content for one in chosen]) if chosen else (), len(asked)


def _timed(contents: list[dict[str, Any]]) -> tuple[float, ...]:
    """Wall seconds of each solve, as far as the pilot's time goes."""
    answer_task(contents[0])  # not timed: it imports and compiles
    start = time.perf_counter()
    seconds: list[float] = []
    for content in contents:
        before = time.perf_counter()
        answer_task(content)
        seconds.append(time.perf_counter() - before)
        if time.perf_counter() - start > PILOT_SECONDS:
            break
    return tuple(seconds)


def _lot_seconds(task: ScheduleTask) -> tuple[float, ...]:
    """Seconds of two lots of tile parts, from PILOT_PARTS parts of each, spread over all parts."""
    all_parts = task.demand.tile_parts()
    lot = min(len(all_parts), LOTS[tile_solver(task.on.source.settings.solver).family])
    stride = max(1, len(all_parts) // (2 * PILOT_PARTS))
    parts = all_parts[::stride][:PILOT_PARTS], all_parts[stride // 2 :: stride][:PILOT_PARTS]
    contents = [TileCostTask(task.on.source, part).content for part in parts if part]
    return tuple(spent * lot / PILOT_PARTS for spent in _timed(contents))


def _timed_in_part(tasks: list[ScheduleTask]) -> tuple[float, ...]:
    """Seconds of whole schedule solves, from as many rounds as fit into the pilot's time.

    Tile costs are not known yet: ideal ones are used instead, with which a round takes as long.
    """
    # an equal part of the time for each task, and for the first one twice: once to warm up
    seconds = PILOT_SECONDS / (len(tasks) + 1)
    _part(tasks[0], seconds)
    return tuple(_part(task, seconds) for task in tasks)


def _part(task: ScheduleTask, wall_seconds: float) -> float:
    """Seconds of a solve, extrapolated by its rounds where it does not end within ``wall_seconds``."""
    content = task.payload(costs_before(task))
    budget = task.solve.budget
    content["budget"] = asdict(replace(budget, wall_seconds=min(wall_seconds, budget.wall_seconds)))
    before = time.perf_counter()
    answer = run_schedule_task(content)
    spent = time.perf_counter() - before
    done = 0 if "needs" in answer else sum(phase["rounds"] for phase in answer.get("search") or ())
    whole = _rounds(task)
    return min(spent * max(1.0, whole / done), budget.wall_seconds) if done and whole else spent


def _rounds(task: ScheduleTask) -> int:
    """Rounds of a whole solve, or of one epoch; 0 for a solver that does not count rounds."""
    entry, params = solver(task.solve.solver), json.loads(task.solve.params)
    given = checked_params(task.solve.solver, params)
    if not hasattr(given, "rounds"):
        return 0
    phases = len(entry.load().spaces_of(given)) if entry.goes_on_from_trees else 1
    whole: int = given.rounds(len(task.network.graph.layers)) * phases
    limit = task.solve.budget.iterations
    whole = whole if limit is None else min(whole, limit)
    return whole // task.epoch.count if task.epoch else whole
