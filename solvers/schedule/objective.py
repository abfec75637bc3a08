"""The objective of a schedule: E^n D^m, energy and delay of a whole batch (section 4.1 of SET)."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeVar

from costmodel.errors import InputError
from solvers.checks import check, is_number
from solvers.mapping.problem import Objective as TileObjective

OBJECTIVES = ("energy", "cycles", "edp", "e2d", "ed2")
"""Names that are offered to users. Other exponents follow the same pattern: ``e2d0.5`` is E^2 D^0.5."""
NAMES = {"energy": (1.0, 0.0), "cycles": (0.0, 1.0), "edp": (1.0, 1.0)}
PRODUCT = re.compile(r"e(\d+(?:\.\d+)?)?d(\d+(?:\.\d+)?)?")
MOST = 8
"""The largest exponent. With larger ones, energies of large networks in pJ could overflow a float."""


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
        """The objective called ``energy``, ``cycles``, ``edp``, or a product such as ``e2d`` or ``ed2``."""
        folded = name.casefold()
        if folded in NAMES:
            return Objective(*NAMES[folded])
        if match := PRODUCT.fullmatch(folded):
            return Objective(float(match[1] or 1), float(match[2] or 1))
        raise InputError("objective", f"one of {', '.join(NAMES)}, or a product such as e2d or ed2", name)

    @property
    def exponents(self) -> tuple[float, float]:
        """(n, m): the exponents of energy and of cycles, in the order in which the chip model takes them."""
        return self.energy_exponent, self.cycles_exponent

    @property
    def of_tiles(self) -> TileObjective:
        """What the mapping of a part on a tile minimises: the nearest objective that mapping solvers know.

        They know energy, cycles and the product of both. The weight of energy in E^n D^m is n / (n + m): one
        per cent of energy changes the objective by n per cent, one per cent of both by n + m per cent. The
        weight is 1 for energy, 1/2 for the product and 0 for cycles. The nearest of the three is taken;
        halfway between two of them, at 3/4 and 1/4, the product.
        """
        weight = self.energy_exponent / (self.energy_exponent + self.cycles_exponent)
        if weight > 3 / 4:
            return "energy"
        return "cycles" if weight < 1 / 4 else "edp"

    def value(self, energy_pj: float, cycles: float) -> float:
        """E^n D^m in pJ^n cycles^m."""
        # x ** 2.0 rounds once, as x * x does: small powers equal the products that a reader would write
        return float(energy_pj**self.energy_exponent * cycles**self.cycles_exponent)

    def __str__(self) -> str:
        return f"e{self.energy_exponent:g}d{self.cycles_exponent:g}"


OneT = TypeVar("OneT")


def nondominated(every: Iterable[OneT], cost: Callable[[OneT], tuple[float, float]]) -> list[OneT]:
    """Those of which no other takes less of one of energy and cycles and no more of the other.

    ``cost``: (energy, cycles) of one. In the order of rising energy; of equal costs the first stays.
    """
    kept: list[OneT] = []
    for one in sorted(every, key=cost):
        if not kept or cost(one)[1] < cost(kept[-1])[1]:
            kept.append(one)
    return kept
