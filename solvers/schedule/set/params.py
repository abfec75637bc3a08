"""The parameters of the annealing of RA trees. Each switches or scales one thing.

Where the released code of SET differs from its paper, a parameter chooses between the two.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import inf
from typing import Literal

from solvers.checks import check, check_choices, check_counts, is_number
from solvers.schedule.set.annealing import Cooling

Weights = Literal["paper", "released"]
WholeSpace = Literal["paper", "released"]
OperatorsOf = Literal["leaf", "printed", "mixed"]
Start = Literal["sequential", "patterns", "chain"]

WHERE = "annealing"
LATE = 0.75
"""The fraction of an annealing that is left out where it starts from the best chain, which hot rounds would
lose."""


@dataclass(frozen=True)
class PatternParams:
    """How layer-sequential or layer-pipeline trees are annealed, the two narrower spaces.

    ``beta``: the number of rounds divided by the number of layers (section 4.2). ``weights``: how often each
    operator is drawn; "paper" draws all equally often, "released" as the released code does. ``operators``:
    "printed" changes any cut of the tree, as section 4.2.1 says; "leaf" the cut of a random leaf; "mixed" is
    either, drawn anew each time.
    ``initial_temperature``, ``cooling_speed``: T0 and alpha of section 4.2. ``jump_at``: after this fraction
    of the rounds the search goes back to its best tree (1: never).
    """

    beta: float = 100.0
    weights: Weights = "released"
    operators: OperatorsOf = "leaf"
    initial_temperature: float = 0.07
    cooling_speed: float = 8.0
    jump_at: float = 0.9

    def __post_init__(self) -> None:
        right = is_number(self.beta, 0, inf) and self.beta > 0
        check(WHERE, "beta", right, "a number above 0", self.beta)
        check_choices(WHERE, self, {"weights": Weights, "operators": OperatorsOf})
        self._check_numbers("initial_temperature", "cooling_speed")
        right = is_number(self.jump_at, 0, 1) and self.jump_at > 0
        check(WHERE, "jump_at", right, "a fraction above 0 and at most 1", self.jump_at)

    def _check_numbers(self, *keys: str) -> None:
        for key in keys:
            value = getattr(self, key)
            check(WHERE, key, is_number(value, 0, inf), "a number of at least 0", value)

    @property
    def cooling(self) -> Cooling:
        """The cooling of the last annealing, over the space that the user asked for."""
        return Cooling(self.initial_temperature, self.cooling_speed, self.jump_at)

    @property
    def pattern_cooling(self) -> Cooling:
        """The cooling of the annealings before it, which only find its first tree."""
        return self.cooling

    @property
    def from_chain(self) -> bool:
        """Whether the first tree is the best chain of segments."""
        return False

    @property
    def most_bands(self) -> int:
        """The most bands of a segment in the last annealing."""
        return 1

    def rounds(self, layers: int) -> int:
        """Rounds of one annealing of a network of L ``layers``: N = beta L (section 4.2)."""
        return max(1, round(self.beta * layers))


@dataclass(frozen=True)
class SetParams(PatternParams):
    """How trees of the whole space are annealed.

    ``space``: "paper" is every valid tree, "released" those that the released code reaches. ``bands``: the
    most bands of rows of a segment (:mod:`.operators.row_bands`); 1: there are none, as in SET. ``deepest``:
    the most cuts above a leaf (0: any number). ``start``: the first tree. "sequential" is all layers one
    after the other, as in the paper; "patterns" is the better of an annealed layer-pipeline and an annealed
    layer-sequential tree, as in the released code; "chain" the best chain of segments
    (:mod:`solvers.schedule.segment_chain`), from which all rounds have the temperatures of the last quarter
    of an annealing (LATE). "chain" needs the space "paper" and ``deepest`` 0, as the chain may be outside of
    smaller spaces. ``pattern_temperature``: T0 of the annealings of patterns. ``initial_temperature`` is
    more than the paper's 0.07, with which searches of this space get stuck early.
    """

    initial_temperature: float = 0.2
    pattern_temperature: float = 0.07
    space: WholeSpace = "paper"
    deepest: int = 0
    start: Start = "sequential"
    bands: int = 1

    def __post_init__(self) -> None:
        super().__post_init__()
        check_choices(WHERE, self, {"space": WholeSpace, "start": Start})
        check_counts(WHERE, self, {"deepest": 0, "bands": 1})
        self._check_numbers("pattern_temperature")
        whole = self.space == "paper" and not self.deepest
        expected = "sequential or patterns where space or deepest leave out trees"
        check(WHERE, "start", whole or not self.from_chain, expected, self.start)

    @property
    def from_chain(self) -> bool:
        return self.start == "chain"

    @property
    def cooling(self) -> Cooling:
        """The cooling of the last annealing: late from its first round on where the start is a good tree."""
        return replace(super().cooling, begun=LATE if self.from_chain else 0.0)

    @property
    def most_bands(self) -> int:
        return self.bands

    @property
    def pattern_cooling(self) -> Cooling:
        return Cooling(self.pattern_temperature, self.cooling_speed, self.jump_at)
