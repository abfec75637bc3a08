"""Improves a tree that was found for the same network on another chip, by the last part of an annealing.

A good tree for a similar chip is a better start than any tree that a search begins with. But the first rounds
of an annealing are hot and would lose it. So this search has only the last ``fraction`` of the rounds, with
their temperatures and with the return to the best tree, if that lies among them.
"""

from __future__ import annotations

from random import Random

from costmodel.schedule.tree.tree import TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget, Deadline
from solvers.outcome import Outcome, noting_limits
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, answer, no_tree
from solvers.schedule.set.search import AnnealingPlan, TreeSearch
from solvers.schedule.set.solving import stop_for_answer


def last_rounds(rounds: int, fraction: float) -> int:
    """The number of the last ``fraction`` of ``rounds``, rounded; at least one."""
    return max(1, min(rounds, round(fraction * rounds)))


@noting_limits
def solve_from(
    problem: ScheduleProblem, budget: Budget, plan: AnnealingPlan, start: TreeNode, fraction: float
) -> Outcome[ScheduleSolution]:
    """The best tree that the last ``fraction`` of an annealing of the plan's last space finds from ``start``.

    It gets the same fraction of the budget's wall seconds. The answer is never worse than ``start``. Its
    status is UNKNOWN where the chip cannot run ``start``.
    """
    deadline = Deadline(budget.wall_seconds * fraction)
    last = AnnealingPlan(plan.spaces[-1:], plan.params, plan.rounds, plan.deepest, from_tree=True)
    search = TreeSearch(problem, last)
    left = last_rounds(plan.rounds, fraction)
    try:
        state = search.begin_late(start, Random(budget.seed), plan.rounds - left)
    except NotPossibleError as reason:
        return no_tree(problem, f"the tree to start from: {reason}", deadline)
    state = search.advance(state, left, stop_for_answer(problem, deadline))
    note = "" if search.finished(state) else f"stopped after {budget.wall_seconds * fraction:g} s"
    return answer(problem, state.best[1], search.phases(state), deadline, note)
