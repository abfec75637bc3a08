"""The settings of Thistle: pruning, rounding, polish and proof."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from solvers.checks import check, check_counts, check_switches, is_number
from solvers.presets import BY_PRESET, Preset, fill_in

SWITCHES = ("literal", "spread_windows", "mirror", "carry_over", "prune", "guide", "prove")
COUNTS = {"keeps": 1, "programs": 1, "classes": 1, "nearest": 1, "candidates": 1, "polish": 0, "kicks": 0}

OURS: dict[str, Any] = {
    "literal": False,
    "spread_windows": True,
    "carry_over": True,
    "prune": True,
    "guide": True,
    "classes": 16,
    "nearest": 2,
    "least_utilization": 0.0,
    "polish": 8,
    "kicks": 32,
    "prove": True,
}
PAPER: dict[str, Any] = {
    "literal": True,
    "spread_windows": False,
    "carry_over": False,
    "prune": False,
    "guide": False,
    "classes": 16,
    "nearest": 2,
    "least_utilization": 0.5,
    "polish": 0,
    "kicks": 0,
    "prove": False,
}
PRESETS = {"archsweep": OURS, "paper": PAPER}
"""What a setting is that nobody states, by preset."""


@dataclass(frozen=True)
class Params:
    """The settings of one Thistle solve.

    ``preset`` decides the settings of :data:`PRESETS` that are not stated: "archsweep" is how Thistle is used
    here, "paper" as it is printed: Eq. 3 to the letter, windows whole in the registers, the best classes of
    loop orders rounded (section IV), no polish and no proof. The paper names no threshold of
    utilisation; the 0.5 of the preset is ours.

    ``literal``: Eq. 3 as it is printed. Every transfer of partial sums counts in and out, the first one
    included, and words that go out of a level are counted as reads there. Otherwise as the cost model counts
    (:class:`~solvers.mapping.thistle.nest.costs.TilingCosts`).
    ``spread_windows``: a filter's R and S, never tiled (section III), may also stand whole across a fan-out.
    ``mirror``: of two classes that differ by height and width exchanged only one is solved (section III).
    ``carry_over``: tensors may stay where they are through loops of several levels (not in the paper).
    ``prune``: stop when the relaxed optima left are above the exact cost of the best mapping so far.
    ``guide``: for cycles also round the optima for energy times cycles, where cycles alone leave a choice.
    ``keeps``, ``programs``, ``classes``: at most so many choices of kept tensors are searched, programs
    solved, and classes rounded, each the most promising first. The classes are divided among the searched
    choices of kept tensors and of blocks for the windows, rounded up for each.
    ``nearest``, ``candidates``, ``least_utilization``: see :class:`Rounding` (section IV).
    ``polish``: descend on the exact objective from so many of the best roundings; 0: none.
    ``kicks``: how often the polish restarts from random steps off the best, while that is far from the bound.
    ``prove``: also solve the programs whose optima are proven bounds (:mod:`.search.proof`).
    """

    preset: Preset = "archsweep"
    literal: bool = BY_PRESET
    spread_windows: bool = BY_PRESET
    mirror: bool = True
    carry_over: bool = BY_PRESET
    prune: bool = BY_PRESET
    guide: bool = BY_PRESET
    keeps: int = 64
    programs: int = 400
    classes: int = BY_PRESET
    nearest: int = BY_PRESET
    candidates: int = 4096
    least_utilization: float = BY_PRESET
    polish: int = BY_PRESET
    kicks: int = BY_PRESET
    prove: bool = BY_PRESET

    def __post_init__(self) -> None:
        fill_in("thistle", self, PRESETS)
        check_switches("thistle", self, *SWITCHES)
        check_counts("thistle", self, COUNTS)
        least = self.least_utilization
        check("thistle", "least_utilization", is_number(least, 0, 1), "a fraction from 0 to 1", least)
