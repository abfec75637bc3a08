"""Pilot solves: a few tasks of a study timed in this process, long ones only in part."""

from __future__ import annotations

import json
import time
from dataclasses import asdict, dataclass, replace
from typing import Any

from solvers.catalogue import solver
from solvers.schedule.tiles.mapper import tile_solver
from sweep.design.schedule_bounds import ideal_costs
from sweep.design.tile_table import LOTS
from sweep.forecast.plan import StudyPlan
from sweep.forecast.rehearsal import Rehearsal, ideal_alone_costs
from sweep.study.identity import checked_params
from sweep.tasks.kinds import Task, answer_task
from sweep.tasks.known_costs import KnownCosts
from sweep.tasks.schedule import ScheduleTask
from sweep.tasks.schedule_answer import run_schedule_task
from sweep.tasks.tile import TileTask

PILOT_SOLVES = 5
PILOT_SECONDS = 10.0
PILOT_SHARES = 6
"""Tile costs that stand for a whole lot."""
PILOT_ASKED = 12
"""Of what an asking schedule wants to know, so many are solved."""
MIXED = 20
"""Seconds that stand for a study whose solves are tile costs and schedules."""


@dataclass(frozen=True)
class Pilot:
    """Wall ``seconds`` of solves as the study's are mixed, from ``solves`` that were timed.

    ``asked``: solves that a schedule asks for as it goes.
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
    """Time some of the planned tasks, after one that only warms up."""
    schedules = [task for task in tasks if isinstance(task, ScheduleTask)]
    if schedules:
        return _of_schedules(schedules, planned)
    seconds = _timed([task.content for task in tasks if not isinstance(task, ScheduleTask)])
    return Pilot(seconds, len(seconds))


def _of_schedules(tasks: list[ScheduleTask], planned: StudyPlan) -> Pilot:
    """Solves of schedules and of what they wait for, in the proportion in which the study has them."""
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
    """MIXED seconds or a few more: as many of each kind as it has a share of the solves, at least one."""
    met = [kind for kind in kinds if kind.seconds]
    total = sum(kind.count for kind in met)
    return tuple(
        kind.seconds[place % len(kind.seconds)]
        for kind in met
        for place in range(max(1, round(MIXED * kind.count / max(1, total))))
    )


def _rehearsed(task: ScheduleTask) -> tuple[tuple[float, ...], tuple[float, ...], int]:
    """Seconds of a schedule that is told ideal costs, of a few solves that it asked for, and their number."""
    rehearsal = Rehearsal(task, PILOT_SECONDS)
    before = time.perf_counter()
    rehearsal.run()
    spent = time.perf_counter() - before
    asked = rehearsal.asked
    chosen = asked[:: max(1, len(asked) // PILOT_ASKED)]
    return (spent,), _timed([one.content for one in chosen]) if chosen else (), len(asked)


def _timed(contents: list[dict[str, Any]]) -> tuple[float, ...]:
    answer_task(contents[0])
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
    """Of a few tile costs each, as if they were a lot."""
    shares = task.demand.tile_parts()
    lot = min(len(shares), LOTS[tile_solver(task.on.source.settings.solver).family])
    stride = max(1, len(shares) // (2 * PILOT_SHARES))
    parts = shares[::stride][:PILOT_SHARES], shares[stride // 2 :: stride][:PILOT_SHARES]
    contents = [TileTask(task.on.source, part).content for part in parts if part]
    return tuple(spent * lot / PILOT_SHARES for spent in _timed(contents))


def _timed_in_part(tasks: list[ScheduleTask]) -> tuple[float, ...]:
    """Seconds of whole schedule solves, from as many rounds as fit into the pilot's time.

    Tile costs are not known yet: ideal ones take their place, with which a round takes as long.
    """
    share = PILOT_SECONDS / (len(tasks) + 1)
    _part(tasks[0], share)
    return tuple(_part(task, share) for task in tasks)


def _part(task: ScheduleTask, wall_seconds: float) -> float:
    """Seconds of a solve, extrapolated where it does not end within ``wall_seconds``."""
    content = task.payload(KnownCosts(ideal_costs(task.demand), ideal_alone_costs(task)))
    budget = task.solve.budget
    content["budget"] = asdict(replace(budget, wall_seconds=min(wall_seconds, budget.wall_seconds)))
    before = time.perf_counter()
    answer = run_schedule_task(content)
    spent = time.perf_counter() - before
    done = sum(phase["rounds"] for phase in answer["search"]) if "search" in answer else 0
    whole = _rounds(task)
    return min(spent * max(1.0, whole / done), budget.wall_seconds) if done and whole else spent


def _rounds(task: ScheduleTask) -> int:
    """Rounds of a whole solve; 0 for a solver that does not count any."""
    module, params = solver(task.solve.solver).load(), json.loads(task.solve.params)
    given = checked_params(task.solve.solver, params)
    if not hasattr(given, "rounds"):
        return 0
    phases = len(module.spaces_of(given)) if hasattr(module, "spaces_of") else 1
    whole: int = given.rounds(len(task.network.graph.layers)) * phases
    limit = task.solve.budget.iterations
    whole = whole if limit is None else min(whole, limit)
    return whole // task.epoch.count if task.epoch else whole
