"""What can be set about the exact mapper: when it may stop, and which loop orders it may leave out."""

from __future__ import annotations

from dataclasses import dataclass

from solvers.checks import check, check_switches, is_number


@dataclass(frozen=True)
class Params:
    """``tolerance``: stop when no mapping can be better by more than this fraction of the objective.

    ``dominance``: leave out loop orders that another one equals or beats whatever the factors
    (:func:`solvers.mapping.exact.orders.orders_of`). The optimum is the same without, and takes longer.
    """

    tolerance: float = 0.0
    dominance: bool = True

    def __post_init__(self) -> None:
        right = is_number(self.tolerance, 0, 1) and self.tolerance < 1
        check("exact", "tolerance", right, "a fraction of at least 0 and below 1", self.tolerance)
        check_switches("exact", self, "dominance")
