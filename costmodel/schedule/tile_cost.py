"""What a layer costs on tiles apart from NoC, DRAM and the transfers into and out of the tiles' buffers."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.schedule.whole_chip_cost import WholeChipCost

Array = NDArray[Any]


@dataclass(frozen=True)
class TileRows:
    """The ways to cut one batch of a layer into parts, one a tile; all arrays have a row a way.

    ``parts`` [n, 4] int: into how many K, B, H and W are cut; their product is the number of tiles.
    ``energy_pj`` [n]: of one batch on all tiles, from the tiles' buffers inwards (their accesses by the PEs
    included, filling them over the NoC and emptying them not). ``cycles`` [n] int: of the slowest tile.
    A partition that no tile can compute has no row. The best for each share may be of another solver's
    making; the chip model picks rows and never asks how a tile computes its share.
    """

    parts: Array
    energy_pj: Array
    cycles: Array

    def __post_init__(self) -> None:
        count = len(self.parts)
        if self.parts.shape != (count, 4) or {self.energy_pj.shape, self.cycles.shape} != {(count,)}:
            shapes = [array.shape for array in (self.parts, self.energy_pj, self.cycles)]
            raise InputError("tile costs", "arrays of [n, 4], [n] and [n]", shapes)
        if count and not (self.parts.min() >= 1 and self.energy_pj.min() >= 0 and self.cycles.min() >= 1):
            raise InputError("tile costs", "parts and cycles of at least 1, energies of at least 0", "less")

    @staticmethod
    def of(rows: list[tuple[tuple[int, int, int, int], float, int]]) -> TileRows:
        """From (parts, energy in pJ on all tiles, cycles) of every way."""
        return TileRows(
            np.array([row[0] for row in rows], np.int64).reshape(-1, 4),
            np.array([row[1] for row in rows], np.float64),
            np.array([row[2] for row in rows], np.int64),
        )


@dataclass(frozen=True)
class TileFloor:
    """Proven lower bounds for one sample of a layer, whatever the partition, or the mapping alone.

    ``energy_pj``: that of :class:`TileRows` over the batch; ``whole_chip_pj``: that of tiles and transfers of
    :class:`WholeChipCost`, infinite where it is not offered. ``tile_cycles``: tiles x cycles over the batch,
    of both.
    """

    energy_pj: float
    tile_cycles: float
    whole_chip_pj: float = float("inf")


class TileFloors(Protocol):
    """A source of lower bounds for the layers (by index) of one network on one kind of tile."""

    def floor(self, layer: int, batches: Sequence[int], tiles: int) -> TileFloor:
        """What no row of this layer is below, for leaves of these ``batches`` on up to ``tiles`` tiles.

        Nor is the layer alone with any of these batches.
        """
        ...


class TileCosts(TileFloors, Protocol):
    """A source of tile costs for the layers (by index) of one network on one kind of tile."""

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        """All ways worth a look to compute ``batch`` samples on ``tiles`` tiles; asked repeatedly."""
        ...

    def normalized_cycles(self, layer: int) -> float:
        """Cycles of one sample on one tile, above 0: the weight of the layer when S cuts share tiles."""
        ...

    def on_whole_chip(self, layer: int, batch: int) -> WholeChipCost | None:
        """What ``batch`` samples cost if the layer has the chip to itself, with all data in DRAM.

        None: that is not offered, or there is no mapping.
        """
        ...


def table_floor(costs: TileCosts, layer: int, batches: Sequence[int], most_tiles: int) -> TileFloor:
    """A floor by looking at all rows and layers alone that there are; infinite where there is none."""
    energy, whole_chip_pj, tile_cycles = float("inf"), float("inf"), float("inf")
    for batch in batches:
        for tiles in range(1, most_tiles + 1):
            rows = costs.rows(layer, batch, tiles)
            if len(rows.parts):
                energy = min(energy, float(rows.energy_pj.min()) / batch)
                tile_cycles = min(tile_cycles, int(rows.cycles.min()) * tiles / batch)
        alone = costs.on_whole_chip(layer, batch)
        if alone is not None:
            whole_chip_pj = min(whole_chip_pj, (alone.parts_pj[0] + alone.parts_pj[1]) / batch)
            tile_cycles = min(tile_cycles, alone.tile_cycles / batch)
    return TileFloor(energy, tile_cycles, whole_chip_pj)
