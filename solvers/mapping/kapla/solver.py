"""KAPLA's layer solver end to end: schemes from the inside out, polish, the outcome."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from costmodel.mapping.batch.batch import MappingBatch
from costmodel.mapping.mapping import Mapping
from solvers.budget import Budget, OutOfTimeError, Stopwatch
from solvers.mapping.kapla.bottom_up import BottomUp, load
from solvers.mapping.kapla.params import Params
from solvers.mapping.outcomes import answer, infeasible, unknown
from solvers.mapping.polish import Polish
from solvers.mapping.problem import MappingProblem, refuse_precision
from solvers.mapping.space.layouts import over_layouts
from solvers.mapping.space.obstacles import obstacle
from solvers.mapping.space.padding import over_padded_sizes
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.space_bounds import space_bound
from solvers.mapping.space.starts import drawn, fewest_kept, serial
from solvers.mapping.untimed import guided_by_untimed_cycles, improved_by_timed_cycles
from solvers.outcome import Outcome, noting_limits

VERSION = "3"


@noting_limits
@improved_by_timed_cycles
@guided_by_untimed_cycles
@over_layouts
@over_padded_sizes
def solve(problem: MappingProblem, budget: Budget, params: Params = Params()) -> Outcome[Mapping]:  # noqa: B008
    """The best mapping that stacking and caching from the inside out leads to, judged by the cost model.

    ``budget.iterations`` is the most schemes that go on from a level to the next, if that is less than
    ``params.schemes``. When the time is up, the loops that no level has yet stand at the outermost level.
    Where the rules or the time leave no scheme, the answer starts from a mapping drawn with the seed, and
    where none of these fits from the serial one, with every loop outermost. The status is OPTIMAL if the
    objective meets the cost model's lower bound, else FEASIBLE; INFEASIBLE if the rules allow no mapping, and
    UNKNOWN if none of all these starts is allowed. Loading the compiled code, which a process does once, is
    not on the clock. Raises InputError for an architecture with a precision.
    """
    refuse_precision(problem, "kapla")
    clock = Stopwatch()
    space = MappingSpace(problem.architecture, problem.layer, problem.rules)
    if reason := obstacle(space):
        return infeasible(reason)
    loading = Stopwatch()
    load(problem)
    clock = clock.without(loading)

    def in_time() -> bool:
        return clock.wall_seconds < budget.wall_seconds

    most = min(params.schemes, budget.iterations or params.schemes)
    starts, evaluations = MappingBatch.empty(0, problem.architecture, problem.layer), 0
    evaluator = None
    try:
        search = BottomUp(problem, space, params, in_time)
    except OutOfTimeError:
        pass  # one of the other starts is taken below
    else:
        found, _ = search.mappings(most, in_time)
        starts = found[np.array(_differently_spread(found)[: params.starts], np.int64)]
        evaluations, evaluator = search.evaluations, search.evaluator
    if not len(starts):
        others = list(drawn(space, budget.seed, in_time)) or list(serial(space, fewest_kept(space)))
        starts = MappingBatch.of(others, problem.architecture, problem.layer)
    bound = space_bound(problem)
    if not len(starts):
        return unknown("no scheme within the constraints was found", bound, clock)
    polished = 0
    if params.polish:
        polish = Polish(problem, bound, in_time, space=space, evaluator=evaluator)
        best = polish.best_of_rows(_loops_first(starts), 0, budget.seed)
        polished = polish.evaluations
    else:
        best = starts.mapping(0, problem.layer)
    return answer(problem, best, bound, clock, evaluations=evaluations + polished)


def _differently_spread(batch: MappingBatch) -> list[int]:
    """The first row of each choice of spatial factors."""
    first: dict[bytes, int] = {}
    for number, spread in enumerate(batch.spatial_x * batch.spatial_y):
        first.setdefault(spread.tobytes(), number)
    return list(first.values())


def _loops_first(batch: MappingBatch) -> MappingBatch:
    """The same mappings, whose rows have the dims without a loop at a level outside those with one.

    They cost the same wherever they stand, but an exchange may put a loop there.
    """
    order = batch.permutation
    looped = np.take_along_axis(batch.temporal, order, axis=2) > 1
    places = np.argsort(np.where(looped, -1, order), axis=2, kind="stable")
    return replace(batch, permutation=np.take_along_axis(order, places, axis=2))
