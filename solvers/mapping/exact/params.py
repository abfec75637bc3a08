"""What can be set about the exact mapper: when it may stop, and the switches of its tricks."""

from __future__ import annotations

from dataclasses import dataclass

from costmodel.errors import InputError


@dataclass(frozen=True)
class Params:
    """``tolerance``: stop when nothing can be better by more than this fraction of the objective.

    ``dominance``: leave out loop orders that another order beats whatever the factors.
    """

    tolerance: float = 0.0
    dominance: bool = True

    def __post_init__(self) -> None:
        number = isinstance(self.tolerance, (int, float)) and not isinstance(self.tolerance, bool)
        if not number or not 0 <= self.tolerance < 1:
            raise InputError("exact", "a fraction of at least 0 and below 1", self.tolerance, key="tolerance")
        if not isinstance(self.dominance, bool):
            raise InputError("exact", "true or false", self.dominance, key="dominance")
