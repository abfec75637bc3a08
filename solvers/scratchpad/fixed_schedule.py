"""Replacement and allocation for a fixed order (Eqs. 16 and 17): the default order, or one of least peak."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from costmodel.scratchpad import OperatorGraph
from costmodel.scratchpad_plan import Plan
from solvers.budget import Budget, Stopwatch
from solvers.checks import check_choices
from solvers.outcome import Outcome, noting_limits
from solvers.scratchpad.masks import GraphMasks
from solvers.scratchpad.packed import packed
from solvers.scratchpad.peak import minimum_peak
from solvers.scratchpad.problem import ScratchpadProblem, answer, below_requirement, unknown
from solvers.scratchpad.replacement import Schedule, best_replacement

VERSION = "3"

Order = Literal["default", "minimum_peak"]


@dataclass(frozen=True)
class Params:
    """``order`` "default" is the graph's own, "minimum_peak" one of least peak footprint (MPMF)."""

    order: Order = "default"

    def __post_init__(self) -> None:
        check_choices("fixed_schedule", self, {"order": Order})


@noting_limits
def solve(problem: ScratchpadProblem, budget: Budget, params: Params = Params()) -> Outcome[Plan]:
    """The best replacement for the order, packed; ``program_proven`` says it is proven for this order.

    The bound holds for every order, and so is only ever 0: other orders may do with less.
    """
    watch = Stopwatch()
    if refused := below_requirement(problem, watch):
        return refused
    schedule = Schedule(
        GraphMasks.of(problem.graph), ordered(problem.graph, params.order, budget.wall_seconds / 4)
    )
    replacement = best_replacement(schedule, problem.capacity_bytes, budget)
    if replacement is None:
        return unknown(f"the {params.order} order has no replacement within the budget", watch)
    plan = packed(problem, [schedule], budget, replacement.bound)
    if plan is None:
        return unknown("the tensors could not be packed in time", watch)
    return answer(problem, plan, 0.0, watch, proven_bytes=replacement.bound)


def ordered(graph: OperatorGraph, order: Order, wall_seconds: float) -> tuple[int, ...]:
    """The operators in the order of that name."""
    if order == "default":
        return tuple(range(len(graph.operators)))
    return minimum_peak(graph, wall_seconds).order
