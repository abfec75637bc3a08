"""The settings of KAPLA's layer solver: how levels are filled, how many schemes go on, the polish."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from solvers.checks import check, check_choices, check_counts, check_switches, is_number

Filling = Literal["printed", "steepest", "divisors"]
Stacking = Literal["printed", "steepest", "every"]

COUNTS = ("schemes", "alike", "variants", "stacks", "stacks_alike", "starts")


@dataclass(frozen=True)
class Params:
    """The settings of one solve; ``Params.paper()`` is Algorithm 1 as printed.

    ``filling``: how a level's tiles grow (caching). "printed" takes one smallest step after the other, each
    in the dim that helps the tensor with the most accesses, until nothing more fits (section IV-C).
    "steepest" takes the step that lowers the estimated cost most, until none does. "divisors" does as the
    released code: it tries every product of divisors in the dims of the tensor that the loop order keeps in
    place the longest, and grows the ``variants`` best of them by steepest steps.
    ``stacking``: how a fan-out is spread: "printed" and "steepest" as above; "every" tries all spatial
    factors that fit and keeps the ``stacks`` best of each scheme, at most ``stacks_alike`` of them with every
    tensor cut into the same number of parts.
    ``schemes``: how many go on from one level to the next, 1 in the paper; ``alike``: how many of these may
    have the same spatial factors. ``variants``: how many products of "divisors" go on from each scheme.
    ``caution``: the weight that the cost with all open loops at the outermost level has in the choice of
    schemes that go on; with 0 they are chosen as if everything outside fitted.
    ``polish``: whether to descend on the objective from the ``starts`` best schemes of different spatial
    factors.
    """

    filling: Filling = "divisors"
    stacking: Stacking = "every"
    schemes: int = 64
    alike: int = 2
    variants: int = 2
    stacks: int = 8
    stacks_alike: int = 1
    caution: float = 0.1
    polish: bool = True
    starts: int = 64

    def __post_init__(self) -> None:
        check_choices("kapla", self, {"filling": Filling, "stacking": Stacking})
        check_counts("kapla", self, dict.fromkeys(COUNTS, 1))
        check("kapla", "caution", is_number(self.caution, 0, 1), "a weight from 0 to 1", self.caution)
        check_switches("kapla", self, "polish")

    @classmethod
    def paper(cls, filling: Filling = "printed", stacking: Stacking = "printed") -> Params:
        """Algorithm 1: one scheme a level, no polish."""
        return cls(filling, stacking, schemes=1, alike=1, variants=1, caution=0.0, polish=False)
