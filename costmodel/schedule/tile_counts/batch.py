"""What happens within one tile, for many mappings at a time: the fast path of ``counted_on_tile``.

Tests hold the counts equal to those of :func:`.tile_count.counted_on_tile`, to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.batch.batch import MappingBatch
from costmodel.mapping.batch.batch_tables import BatchRows, RowCounts, Tables, tables_of, workspace
from costmodel.mapping.mapping import violations
from costmodel.schedule.tile_counts.tile_count import TileCount, counted_on_tile
from costmodel.workload.network import Layer

Array = NDArray[Any]


@dataclass(frozen=True)
class BatchTileCounter:
    """Counts mappings on one ``tile`` of layers that have the dims and tensors of ``layer``, of any sizes."""

    tile: Architecture
    layer: Layer

    def count(self, sizes: Array, batch: MappingBatch) -> Iterator[TileCount]:
        """The count of each row of ``batch``, which maps a layer of ``sizes[row]``: int64 [n, dims].

        InputError listing the violations of a row that is not one of its layer and the tile.
        """
        if self.tile.timing is not None:
            return self._counted_one_by_one(sizes, batch)
        from costmodel.schedule.tile_counts.count_kernel import (
            TileAccessEnergies,
            TileCountColumns,
            count_tiles,
        )

        energies, n = TileAccessEnergies(*self._energies), len(batch)
        found = TileCountColumns(np.empty(n), np.empty(n), np.empty(n), np.empty(n, np.int64))
        rows = BatchRows(*(np.ascontiguousarray(array) for array in batch.rows))
        mac_pj = float(self.tile.compute.energy_pj)
        wrong = int(count_tiles(self._tables, sizes, mac_pj, rows, self._workspace, energies, found))
        if wrong >= 0:
            layer = self._of_sizes(sizes[wrong].tolist())
            reasons = violations(self.tile, layer, batch.mapping(wrong, layer))
            where = f"mapping of {layer.name} on {self.tile.name}"
            raise InputError(where, "a mapping without violations", "; ".join(reasons))
        return (TileCount(*numbers) for numbers in zip(*(column.tolist() for column in found), strict=True))

    def _counted_one_by_one(self, sizes: Array, batch: MappingBatch) -> Iterator[TileCount]:
        """The counts on a tile with timing.

        Where rows of a tensor lie in memory depends on its sizes, so each size would need tables of its own,
        and filling these takes longer than counting a mapping.
        """
        for row, numbers in enumerate(sizes.tolist()):
            layer = self._of_sizes(numbers)
            yield counted_on_tile(self.tile, layer, batch.mapping(row, layer))

    def _of_sizes(self, sizes: list[int]) -> Layer:
        dims = zip((dim for dim, _ in self.layer.dims), sizes, strict=True)
        return replace(self.layer, dims=tuple(dims))

    @cached_property
    def _tables(self) -> Tables:
        return tables_of(self.tile, self.layer)

    @cached_property
    def _workspace(self) -> RowCounts:
        return workspace(self._tables)

    @cached_property
    def _energies(self) -> tuple[Array, Array]:
        levels, tensors = len(self.tile.levels), len(self.layer.tensors)
        return np.empty((levels, tensors)), np.empty(tensors)
