"""When an answer is close enough to its bound: the one comparison that every solver, and ``auto``, stops by.

Objectives here are costs of the cost model, floating-point numbers that are added up. Counts of bytes, which
scratchpad plans minimise, are whole and are compared exactly.
"""

from __future__ import annotations

from math import inf, nextafter

SAME_COST = 1e-12
"""Costs that differ by less than this fraction are one cost.

The same accesses summed in another order differ by about 1e-15, and the cost model lowers its bounds by 1e-12
to be safe from that (``costmodel.mapping.rounding.ROUNDING``).
"""

CONTRADICTION = 1e-9
"""A bound above a cost by more than this fraction is wrong, and not a matter of rounding.

Larger than ``SAME_COST``, for some bounds come out of the logarithms and matrices of a convex solver.
"""


def sufficient_bound(objective: float, tolerance: float) -> float:
    """The least lower bound that proves ``objective`` to be within ``tolerance`` of the optimum.

    ``tolerance`` is a fraction of the objective, 0 for a proof of optimality. What costs at least this much
    is no improvement that is worth a search. Infinite while nothing has been found (an infinite objective).
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
