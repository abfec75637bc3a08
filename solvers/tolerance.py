"""When an answer is close enough to its bound: every solver, ``auto`` included, decides by this to stop.

Objectives here are costs of the cost model, sums of floating-point numbers. The bytes that scratchpad plans
minimise are whole numbers and are compared exactly.
"""

from __future__ import annotations

from math import inf, nextafter

SAME_COST = 1e-12
"""Costs that differ by less than this fraction are one cost.

The same accesses summed in another order differ by about 1e-15, and the cost model lowers its bounds by 1e-12
to be safe from that (``costmodel.mapping.bounds.rounding.ROUNDING``).
"""

CONTRADICTION = 1e-9
"""A bound above a cost by more than this fraction is wrong, and not a matter of rounding.

Larger than ``SAME_COST``, for some bounds come out of the logarithms and matrices of a convex solver.
"""


def sufficient_bound(objective: float, tolerance: float) -> float:
    """The least lower bound that proves ``objective`` to be within ``tolerance`` of the optimum.

    ``tolerance`` is a fraction of the objective, 0 for a proof of optimality. A search may discard whatever
    costs at least this much: it would improve by no more than the tolerance. Infinite, so that nothing is
    discarded, while no answer has been found (an infinite objective).
    """
    if objective == inf:
        return inf
    least = objective - max(SAME_COST, tolerance) * abs(objective)
    # Rounded up until the gap, computed as Outcome does, is at most the tolerance to the last digit: whoever
    # filters stored rows by ``gap <= tolerance`` then finds every answer whose solver stopped at it.
    while tolerance >= SAME_COST and objective and (objective - least) / abs(objective) > tolerance:
        least = nextafter(least, inf)
    return least


def within_tolerance(objective: float, bound: float, tolerance: float) -> bool:
    """Whether the proven ``bound`` shows that ``objective`` is within ``tolerance`` of the optimum.

    A gap above the tolerance by less than ``SAME_COST`` is rounding: the product of an objective and
    1 - tolerance is a rounded number, and so is the gap that is computed from it.
    """
    allowed = max(tolerance, SAME_COST) + SAME_COST
    return objective < inf and objective - bound <= allowed * abs(objective)


def contradicts(objective: float, bound: float) -> bool:
    """Whether ``bound`` cannot be a lower bound: it is above a cost that was reached, or is no number."""
    return not (bound <= objective or bound - objective <= CONTRADICTION * abs(objective))
