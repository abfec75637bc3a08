"""Replacement and allocation for a fixed order (Eqs. 16 and 17): the default order, or one of least peak."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.scratchpad.plan import Plan
from solvers.budget import Budget, Deadline
from solvers.checks import check_choices
from solvers.outcome import Outcome, noting_limits
from solvers.scratchpad.comparison import first_plan
from solvers.scratchpad.masks import GraphMasks
from solvers.scratchpad.packed import cheaper, packed
from solvers.scratchpad.peak import Order, ordered
from solvers.scratchpad.problem import ScratchpadProblem, answer, below_requirement, unknown
from solvers.scratchpad.replacement import Schedule, best_replacement

VERSION = "4"


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
    deadline = Deadline(budget.wall_seconds)
    watch = deadline.watch
    if refused := below_requirement(problem, watch):
        return refused
    schedule = Schedule(
        GraphMasks.of(problem.graph), ordered(problem.graph, params.order, budget.wall_seconds / 4)
    )
    first = first_plan(problem, schedule, deadline.in_time)
    replacement = best_replacement(schedule, problem.capacity_bytes, deadline.budget(budget.seed))
    plan, proven = None, None
    if replacement is not None:
        proven = replacement.bound
        plan = packed(problem, [schedule], deadline.budget(budget.seed), proven)
    best = cheaper(problem, plan, first)
    if best is None:
        late = "the tensors could not be packed in time"
        none = f"the {params.order} order has no replacement within the budget"
        return unknown(none if replacement is None else late, watch)
    return answer(problem, best, 0.0, watch, proven_bytes=proven)
