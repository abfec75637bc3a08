"""How a search becomes an answer: within a budget, its tree counted again from its text."""

from __future__ import annotations

from costmodel.ratree import NotPossibleError
from solvers.budget import Budget, Stopwatch
from solvers.outcome import Outcome
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, answer, no_tree
from solvers.schedule.ratree.params import PatternParams
from solvers.schedule.ratree.search import Plan, Search
from solvers.schedule.ratree.space import SpaceName


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
    watch = Stopwatch()
    rounds = params.rounds(len(problem.graph.layers))
    if budget.iterations is not None:
        rounds = max(1, min(rounds, budget.iterations // len(spaces)))
    search = Search(problem, Plan(spaces, params, rounds, deepest))
    try:
        state = search.begin(budget.seed)
    except NotPossibleError as reason:
        return no_tree(problem, str(reason), watch)
    state = search.advance(state, rounds * len(spaces), lambda: watch.wall_seconds >= budget.wall_seconds)
    note = "" if search.finished(state) else f"stopped after {budget.wall_seconds:g} s"
    return answer(problem, state.best[1], search.phases(state), watch, note)
