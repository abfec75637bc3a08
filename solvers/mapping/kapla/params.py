"""What can be set in KAPLA's layer solver: how levels are filled, how many schemes go on, the polish."""

from __future__ import annotations

from dataclasses import dataclass
from math import isfinite
from typing import Any, Literal, get_args

from costmodel.errors import InputError

Filling = Literal["greedy", "divisors"]
Stacking = Literal["greedy", "every"]

CHOICES = (("filling", Filling), ("stacking", Stacking))
COUNTS = (("schemes", 1), ("alike", 1), ("variants", 1), ("stacks", 1), ("starts", 1))


@dataclass(frozen=True)
class Params:
    """KAPLA's knobs; ``Params.paper()`` is Algorithm 1 as printed.

    ``filling``: how a level's tiles grow (caching). "greedy" takes one smallest step after the other (section
    IV-C); "divisors" tries every product of divisors of the loops outside the innermost ones and then
    grows those greedily, as the released code does.
    ``stacking``: how a fan-out is spread. "greedy" takes one smallest step after the other, as the paper and
    its code do; "every" tries all spatial factors that fit and keeps the ``stacks`` best of each scheme.
    ``schemes``: as many go on from one level to the next, 1 in the paper; of those that spread the layer
    alike no more than ``alike``. ``variants``: of all products of "divisors" as many of each scheme go on.
    ``caution``: the weight that the cost with all open loops at the outermost level has in the choice of
    schemes that go on; with 0 they are chosen as if everything outside fitted.
    ``polish`` true descends on the objective from the ``starts`` best schemes of different spreads.
    """

    filling: Filling = "divisors"
    stacking: Stacking = "every"
    schemes: int = 64
    alike: int = 2
    variants: int = 2
    stacks: int = 8
    caution: float = 0.1
    polish: bool = True
    starts: int = 32

    def __post_init__(self) -> None:
        for key, choices in CHOICES:
            value = getattr(self, key)
            _check(key, value in get_args(choices), f"one of {get_args(choices)}", value)
        for key, least in COUNTS:
            count = getattr(self, key)
            whole = isinstance(count, int) and not isinstance(count, bool)
            _check(key, whole and count >= least, f"a whole number of at least {least}", count)
        number = isinstance(self.caution, (int, float)) and not isinstance(self.caution, bool)
        right = number and isfinite(self.caution) and 0 <= self.caution <= 1
        _check("caution", right, "a weight from 0 to 1", self.caution)
        _check("polish", isinstance(self.polish, bool), "true or false", self.polish)

    @classmethod
    def paper(cls, filling: Filling = "greedy") -> Params:
        """Algorithm 1: one scheme a level, greedy stacking, no polish."""
        return cls(filling, "greedy", schemes=1, alike=1, variants=1, caution=0.0, polish=False)


def _check(key: str, right: bool, expected: str, found: Any) -> None:
    if not right:
        raise InputError("kapla", expected, found, key=key)
