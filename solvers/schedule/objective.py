"""What a schedule is to be good at: E^n D^m, energy and delay of a whole batch (section 4.1 of SET)."""

from __future__ import annotations

import re
from dataclasses import dataclass

from costmodel.errors import InputError
from solvers.checks import check, is_number
from solvers.mapping.problem import Objective as TileObjective

OBJECTIVES = ("energy", "cycles", "edp", "e2d", "ed2")
"""Objectives by name; any other exponents can be written in the same way."""
NAMES = {"energy": (1.0, 0.0), "cycles": (0.0, 1.0), "edp": (1.0, 1.0)}
PRODUCT = re.compile(r"e(\d+(?:\.\d+)?)?d(\d+(?:\.\d+)?)?")
MOST = 8
"""Larger exponents would lead beyond what floating-point numbers reach."""


@dataclass(frozen=True)
class Objective:
    """energy_pj ** energy_exponent * cycles ** cycles_exponent, to be minimised; not both exponents are 0."""

    energy_exponent: float = 1.0
    cycles_exponent: float = 1.0

    def __post_init__(self) -> None:
        for key in ("energy_exponent", "cycles_exponent"):
            value = getattr(self, key)
            check("objective", key, is_number(value, 0, MOST), f"a number from 0 to {MOST}", value)
        if not self.energy_exponent + self.cycles_exponent > 0:
            raise InputError("objective", "an exponent above 0", "E^0 D^0")

    @staticmethod
    def named(name: str) -> Objective:
        """From ``energy``, ``cycles``, ``edp``, or a product such as ``e2d`` or ``ed2``."""
        folded = name.casefold()
        if folded in NAMES:
            return Objective(*NAMES[folded])
        if match := PRODUCT.fullmatch(folded):
            return Objective(float(match[1] or 1), float(match[2] or 1))
        raise InputError("objective", f"one of {', '.join(NAMES)}, or a product such as e2d or ed2", name)

    @property
    def exponents(self) -> tuple[float, float]:
        """Of energy and of cycles, as the chip model takes them."""
        return self.energy_exponent, self.cycles_exponent

    @property
    def of_tiles(self) -> TileObjective:
        """What mappings on a tile should minimise for this: the nearest product that mapping solvers know.

        A change of energy by one per cent counts n / (n + m) of what it counts together with one of cycles.
        That is 1 for energy, 0 for cycles and 1/2 for their product; the nearest of the three is taken, and
        halfway between two of them the product.
        """
        weight = self.energy_exponent / (self.energy_exponent + self.cycles_exponent)
        if weight > 3 / 4:
            return "energy"
        return "cycles" if weight < 1 / 4 else "edp"

    def value(self, energy_pj: float, cycles: float) -> float:
        """The number itself; its unit is pJ^n cycles^m."""
        # x ** 2.0 is one rounding, so that products of small powers come out as they are usually written
        return float(energy_pj**self.energy_exponent * cycles**self.cycles_exponent)

    def __str__(self) -> str:
        return f"e{self.energy_exponent:g}d{self.cycles_exponent:g}"
