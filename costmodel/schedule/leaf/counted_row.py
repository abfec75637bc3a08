"""One partition of ``PartitionRows``, placed on tiles and counted as a whole, and the search for the
cheapest.

Leaves whose tiles add up partial sums are searched in this way: what these send one another depends on the
placement, so every row is counted in every order that its bound does not rule out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.leaf.geometry import orders_of
from costmodel.schedule.leaf.streams import Placement

Array = NDArray[Any]


@dataclass(frozen=True)
class CountedRow:
    """A row of the table with a placement, and what it takes over all runs.

    ``read``, ``written``: bits from and to DRAM. ``links``: bits times ports on each link, of all
    streams.
    ``held`` [streams, tiles]: bits that each tile needs of one batch. ``cycles``: of one run.
    """

    row: int
    placement: Placement
    read: int
    written: int
    links: Array
    held: Array
    energy_pj: float
    cycles: int

    def value(self, exponents: tuple[float, float]) -> float:
        """E^n D^m."""
        return float(self.energy_pj ** exponents[0] * float(self.cycles) ** exponents[1])


Found = TypeVar("Found", bound=CountedRow)


def cheapest_row(
    least: Array,
    parts: Array,
    counted: Callable[[int, tuple[int, ...]], Found],
    exponents: tuple[float, float],
) -> Found | None:
    """The row and order with the least E^n D^m, the first of equal ones; None without rows.

    ``least`` [n]: a lower bound on it for each row of ``parts`` [n, 4], in whose order rows are ``counted``.
    The search ends with the first row whose bound is no less than the best value.
    """
    best: Found | None = None
    below: float | None = None
    for row in np.argsort(least, kind="stable").tolist():
        if below is not None and least[row] >= below:
            break
        for order in orders_of(parts[row]):
            found = counted(row, order)
            if below is None or found.value(exponents) < below:
                best, below = found, found.value(exponents)
    return best


def with_transfers(
    chip: Chip, runs: int, energy_pj: float, cycles: int, moved: tuple[int, int], links: Array
) -> tuple[float, int]:
    """(energy of all runs, cycles of one), once NoC and DRAM are counted beside the tiles.

    ``energy_pj``, ``cycles``: of the tiles. ``moved``: bits read from DRAM and written to it, over all runs.
    """
    read, written = moved
    # Links count bits times ports, as data is spread over all ports of DRAM.
    energy_pj += int(links.sum()) / len(chip.ports) * chip.noc.hop_pj_per_bit
    energy_pj += read * chip.dram.read_pj_per_bit + written * chip.dram.write_pj_per_bit
    return energy_pj, max(cycles, chip.least_cycles(read + written, int(links.max()), runs))
