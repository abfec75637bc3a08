"""One leaf of an RA tree on the chip: the cheapest partition and placement, and what they cost.

Section 4.2.2 of SET: every partition into K x B x H x W parts and every placement order, exhaustively, for
the objective of this leaf alone. Unlike the released program's, this search sees the load of links.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.geometry import kernel_shape, placement_orders, same_shapes
from costmodel.schedule.leaf.streams import LeafRun, Placement, stream_row, streams_of
from costmodel.schedule.leaf.workspace import prices_of, workspace_of
from costmodel.schedule.tile_cost import TileCosts

Array = NDArray[Any]

MOST_REMEMBERED = 30_000
"""Leaves that a search remembers before it begins anew."""


@dataclass(frozen=True)
class LeafCost:
    """What a leaf costs over all runs; ``cycles`` and ``tile_cycles`` (the slowest tile's) are of one run.

    Energies in pJ: of the tiles, of transfers into and out of their buffers. ``links`` [X * Y * 4] are bytes
    times DRAM ports. ``held`` [streams, tiles]: bytes of one batch of each of the layer's streams.
    """

    place: Placement
    tiles_pj: float
    transfers_pj: float
    cycles: int
    tile_cycles: int
    dram_read_bytes: int
    dram_write_bytes: int
    links: Array
    held: Array


@dataclass(frozen=True)
class _Rows:
    """Partitions that fit the buffers; pJ of a batch on tiles, of its transfers, and of its weights'."""

    parts: Array
    tiles_pj: Array
    transfers_pj: Array
    weights_pj: Array
    cycles: Array


class LeafSearch:
    """Searches leaves of one network on one chip; remembers what it found.

    ``exponents``: of energy and of cycles in the objective.
    """

    def __init__(
        self, graph: LayerGraph, chip: Chip, tile_costs: TileCosts, exponents: tuple[float, float]
    ) -> None:
        self.graph, self.chip, self.tile_costs, self.exponents = graph, chip, tile_costs, exponents
        self.streams = [streams_of(graph, layer) for layer in range(len(graph.layers))]
        self._shapes = [kernel_shape(layer) for layer in graph.layers]
        self._first_of_shape = same_shapes(graph)
        self._rows: dict[tuple[int, int, int], _Rows] = {}
        self._known: dict[tuple[Any, ...], LeafCost | None] = {}
        self._workspace = workspace_of(chip, max(map(len, self.streams), default=0))
        self._prices = prices_of(chip, exponents)

    def cost(self, layer: int, run: LeafRun, producers: Mapping[int, Placement]) -> LeafCost | None:
        """The cheapest way for a leaf, from memory where it came up before; None if none fits.

        ``producers``: where the outputs that come over the NoC are; all other inputs come from DRAM.
        """
        streams = tuple(stream_row(self.graph, stream, run, producers) for stream in self.streams[layer])
        key = (self._first_of_shape[layer], run, streams)
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        if key not in self._known:
            self._known[key] = self._searched(*key)
        return self._known[key]

    def _searched(self, layer: int, run: LeafRun, streams: Sequence[Sequence[int]]) -> LeafCost | None:
        from costmodel.schedule.leaf.leaf_kernel import search
        from costmodel.schedule.leaf.leaf_values import CheapestLeaf, KernelLeaf, PartitionTable

        rows = self._fitting(layer, run.batch, run.tiles)
        if not len(rows.parts):
            return None
        sizes = self.graph.layers[layer].sizes(run.batch)
        leaf = KernelLeaf(self._shapes[layer], sizes, run.first_tile, run.runs, np.array(streams, np.int64))
        energy = run.runs * (rows.tiles_pj + rows.transfers_pj) + rows.weights_pj
        table = PartitionTable(rows.parts, energy, rows.cycles, *placement_orders())
        found, held = np.zeros(4, np.int64), np.zeros((len(streams), self.chip.tiles), np.int64)
        search(
            self._workspace, leaf, table, self._prices, CheapestLeaf(found, held, np.zeros(len(rows.parts)))
        )
        return self._found(run, rows, found, held) if found[0] >= 0 else None

    def _found(self, run: LeafRun, rows: _Rows, found: Array, held: Array) -> LeafCost:
        row, number, read, written = found.tolist()
        parts, links = rows.parts[row].tolist(), self._workspace.mesh.links.copy()
        order = placement_orders()[0][sum(int(part > 1) << axis for axis, part in enumerate(parts)), number]
        tile_cycles = int(rows.cycles[row])
        return LeafCost(
            place=Placement(run.batch, run.first_tile, tuple(parts), tuple(order.tolist())),
            tiles_pj=float(run.runs * rows.tiles_pj[row]),
            transfers_pj=float(run.runs * rows.transfers_pj[row] + rows.weights_pj[row]),
            cycles=max(tile_cycles, self.chip.least_cycles(read + written, int(links.max()), run.runs)),
            tile_cycles=tile_cycles,
            dram_read_bytes=read,
            dram_write_bytes=written,
            links=links,
            held=held,
        )

    def _fitting(self, layer: int, batch: int, tiles: int) -> _Rows:
        key = (self._first_of_shape[layer], batch, tiles)
        if key not in self._rows:
            self._rows[key] = self._tabulated(layer, batch, tiles)
        return self._rows[key]

    def _tabulated(self, number: int, batch: int, tiles: int) -> _Rows:
        """Tile costs of the partitions that fit, with what filling and emptying the buffers takes."""
        layer, tile = self.graph.layers[number], self.chip.tile
        costs, buffer = self.tile_costs.rows(number, batch, tiles), tile.buffer
        volumes = self._volumes(number, batch, costs.parts)
        inputs, weights = volumes[:, :2] * layer.operands, volumes[:, 2:]
        fits = tile.output_stream_bytes + inputs[:, 0] + weights[:, 0] <= buffer.size_bytes
        filled = inputs[:, 1] + (weights[:, 1] if layer.weight_producers else 0)
        emptied = layer.k * layer.h * layer.w * batch * buffer.read_pj_per_byte
        pinned = weights[:, 1] * (0 if layer.weight_producers else buffer.write_pj_per_byte)
        return _Rows(
            costs.parts[fits],
            costs.energy_pj[fits],
            (filled * buffer.write_pj_per_byte + emptied)[fits],
            pinned[fits],
            costs.cycles[fits],
        )

    def _volumes(self, number: int, batch: int, parts: Array) -> Array:
        """Largest and total bytes of inputs, then of weights, over the tiles of each partition [n, 4]."""
        from costmodel.schedule.leaf.volumes_kernel import volumes

        found = np.zeros((len(parts), 4), np.int64)
        sizes = self.graph.layers[number].sizes(batch)
        for row, of_row in zip(parts, found, strict=True):
            volumes(self._shapes[number], sizes, row, self._workspace.ranges, of_row)
        return found
