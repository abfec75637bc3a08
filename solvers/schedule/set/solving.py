"""Runs a search within a budget, and stops it early enough to count its tree again and to bound it."""

from __future__ import annotations

from collections.abc import Callable

from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget, Deadline, OutOfTimeError
from solvers.outcome import Outcome
from solvers.schedule.answer_time import kept_for_recount, prepare_bound
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, answer, no_tree
from solvers.schedule.set.first_tree import first_tree
from solvers.schedule.set.params import PatternParams
from solvers.schedule.set.search import AnnealingPlan, TreeSearch
from solvers.schedule.set.space import SpaceName


def solve_by_annealing(
    problem: ScheduleProblem,
    budget: Budget,
    params: PatternParams,
    spaces: tuple[SpaceName, ...],
    deepest: int = 0,
) -> Outcome[ScheduleSolution]:
    """Anneal ``spaces`` one after the other for one seed; the best tree of all of them is the answer.

    Each space is one phase, and all phases have equally many rounds. ``budget.iterations`` limits their sum.
    ``deepest`` limits the cuts above a leaf in the last space; 0 is no limit.
    """
    deadline = Deadline(budget.wall_seconds)
    rounds = params.rounds(len(problem.graph.layers))
    if budget.iterations is not None:
        rounds = max(1, min(rounds, budget.iterations // len(spaces)))
    search = TreeSearch(problem, AnnealingPlan(spaces, params, rounds, deepest))
    try:
        state = search.begin(budget.seed, deadline.check, first_tree(problem, params, deadline))
    except NotPossibleError as reason:
        return no_tree(problem, str(reason), deadline)
    except OutOfTimeError as reason:
        return no_tree(problem, f"the first tree: {reason}", deadline)
    stop = stop_for_answer(problem, deadline)
    state = search.advance(state, rounds * len(spaces), stop)
    note = "" if search.finished(state) else f"stopped after {budget.wall_seconds:g} s"
    return answer(problem, state.best[1], search.phases(state), deadline, note)


def stop_for_answer(problem: ScheduleProblem, deadline: Deadline) -> Callable[[], bool]:
    """A function that says whether a search has to stop now to have its answer before the ``deadline``.

    Call this when the search has just counted its first tree: how long that takes to count again is measured
    then, and the bound is prepared.
    """
    recount = kept_for_recount(deadline)
    prepare_bound(problem, deadline.left)
    return lambda: deadline.left <= recount
