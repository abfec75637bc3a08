"""Tables of what layers hold and take at least, with a row for each layer on each number of tiles."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.schedule.kapla.estimates.leaf_floors import LeafFloors, LeafWay
from solvers.schedule.kapla.regions import Region
from solvers.schedule.kapla.segments import BatchDivision

Array = NDArray[Any]
FIRST_ROWS = 64
"""How many rows a table begins with."""


class LeafTables:
    """The rows that segments needed so far, all for the same ``divisions`` of a ``batch``.

    ``share_weights``: tiles may share weights that stay. Segments have many layers in common, and few numbers
    of tiles, so most rows are there. The table grows: :meth:`rows` may put another one in its stead.
    """

    def __init__(
        self, floors: LeafFloors, batch: int, divisions: Sequence[BatchDivision], share_weights: bool
    ) -> None:
        from solvers.schedule.kapla.estimates.estimate_kernel import KernelDivisions, LeafTable

        subbatches, bands = np.array(divisions, np.int64).T.copy()
        self.divisions = KernelDivisions(batch, subbatches, bands)
        shape = FIRST_ROWS, len(divisions)
        self.table = LeafTable(
            np.zeros((*shape, 2), np.bool_), np.zeros((*shape, 3)), np.zeros((*shape, 2, 2), np.int64)
        )
        self._floors, self._share_weights = floors, share_weights
        self._rows: dict[tuple[int, int], int] = {}

    def rows(self, regions: Sequence[Region]) -> Array:
        """The numbers [layers] of the rows of the layers of these regions, in their order."""
        alike, known, found = self._floors.alike, self._rows, []
        for layers, tiles in regions:
            for number in layers:
                row = known.get((alike[number], tiles))
                found.append(self._added(alike[number], tiles) if row is None else row)
        return np.array(found, np.int64)

    def _added(self, number: int, tiles: int) -> int:
        """The number of a new row."""
        from solvers.schedule.kapla.estimates.estimate_kernel import LeafTable

        row = self._rows[number, tiles] = len(self._rows)
        if row == len(self.table.fits):
            self.table = LeafTable(*(np.concatenate([one, np.zeros_like(one)]) for one in self.table))
        self.table.fits[row], self.table.least[row] = self._least(number, tiles)
        self.table.held[row] = self._held(number, tiles)
        return row

    def _least(self, number: int, tiles: int) -> tuple[Array, Array]:
        """Whether some partition fits [divisions, 2], and the least of both ways [divisions, 3]."""
        batch, subbatches, bands = self.divisions
        each = list(zip((batch // subbatches).tolist(), subbatches.tolist(), bands.tolist(), strict=True))
        pinned = [LeafWay(samples, runs, False, rows, self._share_weights) for samples, runs, rows in each]
        streamed = [LeafWay(samples, runs, True, rows) for samples, runs, rows in each]
        fitting, *numbers = self._floors.of(number, tiles, [*pinned, *streamed])
        fits = fitting.reshape(2, -1).T & np.stack([np.ones_like(bands), bands == 1], axis=1).astype(bool)
        of_ways = np.stack(numbers, axis=1).reshape(2, -1, 3).transpose(1, 0, 2)
        least = np.where(fits[..., None], of_ways, np.inf).min(axis=1)
        return fits, np.where(fits.any(axis=1)[:, None], least, self._unfit(number, tiles))

    def _unfit(self, number: int, tiles: int) -> Array:
        """The least [divisions, 3] of a layer of which no partition fits: of one without repeated data.

        It is asked for without pruning only.
        """
        floor, (batch, subbatches, _) = self._floors.layers[number], self.divisions
        once = batch * floor.energy_pj + floor.weights_pj, float(batch * floor.input_bits + floor.weights)
        cycles = batch * floor.tile_cycles / tiles / subbatches
        return np.column_stack([np.full((len(cycles), 2), once), cycles])

    def _held(self, number: int, tiles: int) -> Array:
        """Bits held at least [divisions, 2, 2]: by the only layer of a region and by one of several, with
        pinned weights and with streamed ones, of which slices may be small.

        While the only layer of a region runs, the inputs of its next sub-batch arrive. Those of the next band
        are left out: they may be few.
        """
        batch, subbatches, bands = self.divisions
        floor = self._floors.layers[number]
        if self._share_weights:
            floor = replace(floor, repeats=False)
        ways = floor, replace(floor, weights=0)
        alone = batch // subbatches * np.where((subbatches > 1) & (bands == 1), 2, 1)
        held = [
            [one.held_bits(samples, tiles, bands) for one in ways] for samples in (alone, batch // subbatches)
        ]
        return np.array(held).transpose(2, 0, 1)
