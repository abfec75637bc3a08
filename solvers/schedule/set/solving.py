"""How a search becomes an answer: within a budget, its tree counted again from its text."""

from __future__ import annotations

from collections.abc import Callable

from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget, Deadline, OutOfTimeError
from solvers.outcome import Outcome
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, answer, no_tree
from solvers.schedule.set.params import PatternParams
from solvers.schedule.set.search import AnnealingPlan, TreeSearch
from solvers.schedule.set.space import SpaceName

MOST_FOR_RECOUNT = 0.25
"""The share of a solve's time that is kept for counting its answer again, at most."""
SHARE_OF_BOUND = 0.25
"""The share of what is left after the first tree that the bound may take before the search."""


def solve_by_annealing(
    problem: ScheduleProblem,
    budget: Budget,
    params: PatternParams,
    spaces: tuple[SpaceName, ...],
    deepest: int = 0,
) -> Outcome[ScheduleSolution]:
    """Anneal ``spaces`` one after the other for one seed; the best tree of all of them is the answer.

    ``budget.iterations`` limits the rounds of all phases together.
    """
    deadline = Deadline(budget.wall_seconds)
    rounds = params.rounds(len(problem.graph.layers))
    if budget.iterations is not None:
        rounds = max(1, min(rounds, budget.iterations // len(spaces)))
    search = TreeSearch(problem, AnnealingPlan(spaces, params, rounds, deepest))
    try:
        state = search.begin(budget.seed, deadline.check)
    except NotPossibleError as reason:
        return no_tree(problem, str(reason), deadline)
    except OutOfTimeError as reason:
        return no_tree(problem, f"the first tree: {reason}", deadline)
    stop = stop_for_answer(problem, deadline)
    state = search.advance(state, rounds * len(spaces), stop)
    note = "" if search.finished(state) else f"stopped after {budget.wall_seconds:g} s"
    return answer(problem, state.best[1], search.phases(state), deadline, note)


def stop_for_answer(problem: ScheduleProblem, deadline: Deadline) -> Callable[[], bool]:
    """When a search has to stop so that its answer is counted and bounded by the ``deadline``.

    To be called once the search has counted its first tree: the judge, who remembers nothing either, takes
    about as long for the last one. The bound is prepared here, as its costs of leaves are the search's, too.
    """
    recount = min(deadline.watch.wall_seconds, deadline.wall_seconds * MOST_FOR_RECOUNT)
    problem.bound(Deadline(deadline.left * SHARE_OF_BOUND).in_time)
    return lambda: deadline.left <= recount
