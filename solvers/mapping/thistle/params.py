"""The settings of Thistle: pruning, rounding, polish and proof."""

from __future__ import annotations

from dataclasses import dataclass

from solvers.checks import check, check_counts, check_switches, is_number

SWITCHES = ("spread_windows", "mirror", "carry_over", "prune", "guide", "prove")
COUNTS = {"keeps": 1, "programs": 1, "classes": 1, "nearest": 1, "candidates": 1, "polish": 0, "kicks": 0}


@dataclass(frozen=True)
class Params:
    """The settings of one Thistle solve. Of the switches only ``mirror`` is on in the paper.

    ``spread_windows``: a filter's R and S, never tiled (section III), may also stand whole across a fan-out.
    ``mirror``: of two classes that differ by height and width exchanged only one is solved (section III).
    ``carry_over``: tensors may stay where they are through loops of several levels (not in the paper).
    ``prune``: stop when the relaxed optima left are above the exact cost of the best mapping so far.
    ``guide``: for cycles also round the optima for energy times cycles, where cycles alone leave a choice.
    ``keeps``, ``programs``, ``classes``: at most so many choices of kept tensors are searched, programs
    solved, and classes rounded, each the most promising first.
    ``nearest``, ``candidates``, ``least_utilization``: see :class:`Rounding` (section IV).
    ``polish``: descend on the exact objective from so many of the best roundings; 0: none.
    ``kicks``: how often the polish restarts from random steps off the best, while that is far from the bound.
    ``prove``: also solve the programs whose optima are proven bounds (:mod:`.search.proof`).
    """

    spread_windows: bool = True
    mirror: bool = True
    carry_over: bool = True
    prune: bool = True
    guide: bool = True
    keeps: int = 64
    programs: int = 400
    classes: int = 16
    nearest: int = 2
    candidates: int = 4096
    least_utilization: float = 0.0
    polish: int = 8
    kicks: int = 32
    prove: bool = True

    def __post_init__(self) -> None:
        check_switches("thistle", self, *SWITCHES)
        check_counts("thistle", self, COUNTS)
        least = self.least_utilization
        check("thistle", "least_utilization", is_number(least, 0, 1), "a fraction from 0 to 1", least)
