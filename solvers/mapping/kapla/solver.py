"""KAPLA's layer solver end to end: schemes from the inside out, polish, the outcome."""

from __future__ import annotations

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
    load(problem, space)
    clock = clock.without(loading)

    def in_time() -> bool:
        return clock.wall_seconds < budget.wall_seconds

    most = min(params.schemes, budget.iterations or params.schemes)
    starts, evaluations = [], 0
    try:
        search = BottomUp(problem, space, params, in_time)
    except OutOfTimeError:
        pass  # one of the other starts is taken below
    else:
        found, _ = search.mappings(most, in_time)
        starts = [found.mapping(row, problem.layer) for row in _differently_spread(found)[: params.starts]]
        evaluations = search.evaluations
    starts = starts or list(drawn(space, budget.seed, in_time)) or list(serial(space, fewest_kept(space)))
    bound = space_bound(problem)
    if not starts:
        return unknown("no scheme within the constraints was found", bound, clock)
    best, polished = starts[0], 0
    if params.polish:
        polish = Polish(problem, bound, in_time)
        best, polished = polish.best(starts, 0, budget.seed), polish.evaluations
    return answer(problem, best, bound, clock, evaluations=evaluations + polished)


def _differently_spread(batch: MappingBatch) -> list[int]:
    """The first row of each choice of spatial factors."""
    if not len(batch):
        return []
    spread = (batch.spatial_x * batch.spatial_y).reshape(len(batch), -1)
    _, first = np.unique(spread, axis=0, return_index=True)
    return sorted(first.tolist())
