"""One partition of ``PartitionRows``, placed on tiles and counted as a whole, and the search for the
cheapest.

Leaves whose tiles add up partial sums are searched in this way: what these send one another depends on the
placement, so every row is counted in every order that its bound does not rule out.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.leaf.geometry import orders_of
from costmodel.schedule.leaf.streams import STREAM_KINDS, Placement, StreamRow

Array = NDArray[Any]


@dataclass(frozen=True)
class LeafTraffic:
    """What a leaf moves over all its runs: bits ``read`` from DRAM and ``written`` there, and what links
    carry, [X * Y * 4] bits times the number of DRAM ports.

    ``with_dram`` [kinds, links]: of outputs, inputs and weights, by ``STREAM_KINDS``. ``received``: what the
    tiles of producers send, with the number of the stream. ``between``: what the leaf's tiles send one
    another, None: nothing. ``links``: all of these. What other leaves get from this one is theirs.
    """

    read: int
    written: int
    links: Array
    with_dram: Array
    received: tuple[tuple[int, Array], ...]
    between: Array | None = None

    @property
    def links_between(self) -> Array:
        """``between`` of a leaf whose tiles send one another something."""
        assert self.between is not None
        return self.between


class TrafficApart(NamedTuple):
    """The arrays that :func:`.links_kernel.load_apart` fills; bits times ports over all runs.

    ``with_dram`` [kinds, links], ``received`` [streams, links]: as in :class:`LeafTraffic`.
    """

    with_dram: Array
    received: Array

    @staticmethod
    def of(streams: Array, chip: Chip) -> TrafficApart:
        """Zeros for so many ``streams`` [n, columns]."""
        links = 4 * chip.columns * chip.rows
        return TrafficApart(
            np.zeros((len(STREAM_KINDS), links), np.int64), np.zeros((len(streams), links), np.int64)
        )

    def traffic(
        self, streams: Array, moved: tuple[int, int], links: Array, between: Array | None = None
    ) -> LeafTraffic:
        """With the bits ``moved`` from DRAM and to it, and all that is on ``links``."""
        direct = np.flatnonzero(streams[:, StreamRow._fields.index("direct")]).tolist()
        received = tuple((number, self.received[number].copy()) for number in direct)
        return LeafTraffic(*moved, links, self.with_dram, received, between)


@dataclass(frozen=True)
class CountedRow:
    """A row of the table with a placement, and what it takes over all runs.

    ``held`` [streams, tiles]: bits that each tile needs of one batch. ``cycles``: of one run.
    """

    row: int
    placement: Placement
    traffic: LeafTraffic
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
