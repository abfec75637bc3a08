"""What can be set about the annealing of RA trees: each one trick, each with one switch."""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import Literal

from costmodel.errors import InputError, did_you_mean
from solvers.schedule.ratree.annealing import Cooling
from solvers.schedule.ratree.operators import WEIGHTS

Weights = Literal["paper", "released"]


@dataclass(frozen=True)
class PatternParams:
    """For the narrower spaces of layer-sequential and layer-pipeline trees.

    ``beta``: rounds a layer of the network. ``weights``: how often operators are drawn, equally as in the
    paper or as in the released code. ``initial_temperature``, ``cooling_speed``: T0 and alpha of section 4.2.
    ``jump_at``: the best tree becomes the current one after that share of the rounds (1: never).
    """

    beta: float = 100.0
    weights: Weights = "released"
    initial_temperature: float = 0.07
    cooling_speed: float = 8.0
    jump_at: float = 0.9

    def __post_init__(self) -> None:
        if isinstance(self.beta, bool) or not 0 < self.beta < inf:
            raise InputError("annealing", "a number above 0", self.beta, key="beta")
        _check_choice("weights", self.weights, tuple(WEIGHTS))
        _ = self.cooling

    @property
    def cooling(self) -> Cooling:
        """That of the annealing whose space was asked for."""
        return Cooling(self.initial_temperature, self.cooling_speed, self.jump_at)

    @property
    def pattern_cooling(self) -> Cooling:
        """That of annealings which only find its first tree."""
        return self.cooling

    def rounds(self, layers: int) -> int:
        """Rounds of one annealing: N = beta L."""
        return max(1, round(self.beta * layers))


@dataclass(frozen=True)
class SetParams(PatternParams):
    """For the whole space.

    ``space``: every tree of the paper, or those that the released code reaches. ``deepest``: cuts above a
    leaf at most (0: any number). ``start``: from all layers one after the other as in the paper, or, as the
    released code does, from the better of an annealed layer-pipeline and an annealed layer-sequential tree.
    ``initial_temperature`` is more than the paper's 0.07, with which this space's searches get stuck early;
    ``pattern_temperature`` is that of the annealings which find the first tree.
    """

    initial_temperature: float = 0.2
    pattern_temperature: float = 0.07
    space: Literal["paper", "released"] = "paper"
    deepest: int = 0
    start: Literal["sequential", "patterns"] = "sequential"

    def __post_init__(self) -> None:
        super().__post_init__()
        _check_choice("space", self.space, ("paper", "released"))
        _check_choice("start", self.start, ("sequential", "patterns"))
        if not isinstance(self.deepest, int) or isinstance(self.deepest, bool) or self.deepest < 0:
            raise InputError("annealing", "a whole number of at least 0", self.deepest, key="deepest")
        _ = self.pattern_cooling

    @property
    def pattern_cooling(self) -> Cooling:
        return Cooling(self.pattern_temperature, self.cooling_speed, self.jump_at)


def _check_choice(key: str, value: object, choices: tuple[str, ...]) -> None:
    if value not in choices:
        expected = f"one of {', '.join(choices)}"
        raise InputError("annealing", expected, value, did_you_mean(value, choices), key=key)
