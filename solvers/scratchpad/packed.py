"""From schedules to a plan: replacement, packing, and the next best replacement where packing fails."""

from __future__ import annotations

from collections.abc import Iterable

from costmodel.limits import limit_reached
from costmodel.scratchpad.plan import Plan
from solvers.budget import Budget, Deadline
from solvers.scratchpad.placement import place
from solvers.scratchpad.problem import ScratchpadProblem, objective_of
from solvers.scratchpad.replacement import Gap, Schedule, best_replacement

TRIES_PER_SCHEDULE = 6
"""Replacements that are tried for one schedule before the next schedule."""


def packed(
    problem: ScratchpadProblem, schedules: Iterable[Schedule], budget: Budget, target: float = 0.0
) -> Plan | None:
    """The cheapest plan found; the search ends with one that moves no more than ``target`` bytes.

    A replacement whose tensors cannot be packed is forbidden, and the next best one for the same schedule is
    tried. When all fail, the first schedule's replacement is found for less and less capacity: what it does
    not use is left for the gaps of the packing.
    """
    deadline = Deadline(budget.wall_seconds)
    best: Plan | None = None
    first: Schedule | None = None
    for schedule in schedules:
        first = first or schedule
        best = cheaper(problem, best, _exact_fit(problem, schedule, budget.seed, deadline))
        spent = not deadline.in_time()
        if best is not None and (spent or objective_of(problem, best) <= target):
            return best
        if spent:
            break
    if best is None and first is not None:
        return _with_less_capacity(problem, first, budget.seed, deadline)
    return best


def cheaper(problem: ScratchpadProblem, one: Plan | None, two: Plan | None) -> Plan | None:
    """The one of two plans that moves fewer bytes, the first of equals; None where there is none."""
    plans = [plan for plan in (one, two) if plan is not None]
    return min(plans, key=lambda plan: objective_of(problem, plan), default=None)


def _exact_fit(problem: ScratchpadProblem, schedule: Schedule, seed: int, deadline: Deadline) -> Plan | None:
    """The cheapest replacement that packs, among the first few."""
    forbidden: list[frozenset[Gap]] = []
    for _ in range(TRIES_PER_SCHEDULE):
        replacement = best_replacement(schedule, problem.capacity_bytes, deadline.budget(seed), forbidden)
        if replacement is None:
            return None
        plan = place(problem, schedule, replacement.away, deadline.budget(seed))
        if plan is not None:
            return plan
        if not deadline.in_time():
            return None
        forbidden.append(replacement.away)
    effect = "none of one order's could be packed, and the next order, or one with unused capacity, is tried"
    limit_reached("replacements of an order", TRIES_PER_SCHEDULE, effect)
    return None


def _with_less_capacity(
    problem: ScratchpadProblem, schedule: Schedule, seed: int, deadline: Deadline
) -> Plan | None:
    """A plan whose replacement keeps 1, 2, 4 ... 64 % of the budget free.

    What is left of the budget is never less than what the hungriest operator needs.
    """
    least = problem.graph.required_bytes
    for percent in (1, 2, 4, 8, 16, 32, 64):
        if not deadline.in_time():
            return None
        capacity = max(least, problem.capacity_bytes * (100 - percent) // 100)
        replacement = best_replacement(schedule, capacity, deadline.budget(seed))
        plan = replacement and place(problem, schedule, replacement.away, deadline.budget(seed))
        if plan:
            return plan
    return None
