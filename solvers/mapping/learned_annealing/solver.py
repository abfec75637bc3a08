"""Learned annealing end to end: chains, batches, the model, the outcome."""

from __future__ import annotations

from typing import TYPE_CHECKING

from costmodel.mapping.mapping import Mapping
from solvers.budget import Budget, Stopwatch
from solvers.mapping.learned_annealing.params import Params
from solvers.mapping.learned_annealing.regressor import load_library
from solvers.mapping.outcomes import answer, infeasible, unknown
from solvers.mapping.problem import MappingProblem, refuse_precision
from solvers.mapping.space.layouts import over_layouts
from solvers.mapping.space.obstacles import obstacle
from solvers.mapping.space.padding import over_padded_sizes
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.space_bounds import space_bound
from solvers.mapping.untimed import improved_by_timed_cycles
from solvers.outcome import Outcome, noting_limits

if TYPE_CHECKING:
    from solvers.mapping.learned_annealing.measurements import Measurements

VERSION = "3"


@noting_limits
@improved_by_timed_cycles
@over_layouts
@over_padded_sizes
def solve(problem: MappingProblem, budget: Budget, params: Params = Params()) -> Outcome[Mapping]:  # noqa: B008
    """The best of the mappings measured, batch after batch, where a learned model expects good ones.

    ``budget.iterations`` is the most mappings to measure, if ``params`` do not say less; ``evaluations`` how
    many were, valid or not. The status is OPTIMAL if the objective meets the cost model's lower bound, which
    ends the search, else FEASIBLE; INFEASIBLE if there provably is no mapping, and UNKNOWN if none was found.
    The clock is looked at between batches. Loading compiled code and scikit-learn, which a process does once,
    is not on the clock. Raises InputError without scikit-learn if ``params.learn``, and for an architecture
    with a precision.
    """
    from solvers.mapping.learned_annealing.search import search_for

    refuse_precision(problem, "learned_annealing")
    if params.learn:
        load_library()
    clock = Stopwatch()
    space = MappingSpace(problem.architecture, problem.layer, problem.rules)
    if reason := obstacle(space):
        return infeasible(reason)
    loading = Stopwatch()
    search_for(problem, space, Params(batch=1, steps=1, learn=False), Budget(iterations=1)).round()
    clock, bound = clock.without(loading), space_bound(problem)
    search = search_for(problem, space, params, budget)
    while not search.over and search.measured.objective > bound:
        search.round()
        if clock.wall_seconds > budget.wall_seconds:
            break
    return _outcome(problem, search.measured, bound, clock)


def _outcome(
    problem: MappingProblem, measured: Measurements, bound: float, clock: Stopwatch
) -> Outcome[Mapping]:
    if not len(measured.best):
        note = f"none of {measured.count} mappings measured was valid; nothing shows that there is none"
        return unknown(note, bound, clock, measured.count)
    best = measured.best.mapping(0, problem.layer)
    return answer(problem, best, bound, clock, evaluations=measured.count)
