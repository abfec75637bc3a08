"""One leaf of an RA tree on the chip: its cheapest partition and placement, and what they cost.

Section 4.2.2 of SET: of all partitions into K x B x H x W parts and all placement orders the one that makes
this leaf's E^n D^m the least, whatever that means for other leaves. Unlike the released program's search,
this one sees the load of single links, and so contention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.geometry import kernel_space, placement_orders, same_shapes
from costmodel.schedule.leaf.streams import LeafRun, Placement, stream_row, streams_of
from costmodel.schedule.leaf.workspace import prices_of, workspace_of
from costmodel.schedule.starts import BatchRun, NodeRuns
from costmodel.schedule.tile_cost import TileCosts

Array = NDArray[Any]

MOST_REMEMBERED = 30_000
"""How many leaves a search remembers before it forgets them all, which bounds its memory."""


@dataclass(frozen=True)
class LeafCost:
    """What a leaf costs over all runs.

    ``place``: its partition and placement. ``tiles_pj``: energy within tiles; ``transfers_pj``: of filling
    and emptying the tiles' buffers. ``cycles`` of one run, with waiting for DRAM and links; ``tile_cycles``
    of the slowest tile for one run, without. ``links`` [X * Y * 4]: bytes times DRAM ports on each link.
    ``held`` [streams, tiles]: bytes of one batch of each of the layer's streams on every tile.
    ``leakage_pj_per_cycle``: of the leaf's tiles, in each cycle in which they belong to it. ``runs``: how
    it runs its first batch, and each later one.
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
    leakage_pj_per_cycle: float
    runs: NodeRuns


@dataclass(frozen=True)
class _Rows:
    """The partitions [n, 4] that fit the buffers, and what they cost without NoC and DRAM.

    ``tiles_pj``, ``transfers_pj`` [n]: of one batch, within tiles and into and out of their buffers.
    ``weights_pj`` [n]: of filling pinned weights, once for all runs. ``cycles`` [n]: of the slowest tile.
    ``leakage_pj`` [n]: per cycle.
    """

    parts: Array
    tiles_pj: Array
    transfers_pj: Array
    weights_pj: Array
    cycles: Array
    leakage_pj: Array


class LeafSearch:
    """Finds the cheapest way for leaves of one network on one chip, and remembers what it found.

    ``tile_costs``: what partitions cost within tiles. ``exponents``: of energy and of cycles in the
    objective.
    """

    def __init__(
        self, graph: LayerGraph, chip: Chip, tile_costs: TileCosts, exponents: tuple[float, float]
    ) -> None:
        self.graph, self.chip, self.tile_costs, self.exponents = graph, chip, tile_costs, exponents
        self.streams = [streams_of(graph, layer) for layer in range(len(graph.layers))]
        self._spaces = [kernel_space(layer) for layer in graph.layers]
        self._first_of_shape = same_shapes(graph)
        self._rows: dict[tuple[int, int, int], _Rows] = {}
        self._known: dict[tuple[Any, ...], LeafCost | None] = {}
        self._workspace = workspace_of(chip, max(map(len, self.streams), default=0))
        self._prices = prices_of(chip, exponents)

    def cost(self, layer: int, run: LeafRun, producers: Mapping[int, Placement]) -> LeafCost | None:
        """The cheapest partition and placement of a leaf, from memory if it was asked before; None if none
        fits.

        ``producers``: where the outputs are that come over the NoC; all other inputs come from DRAM.
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
        from costmodel.schedule.leaf.leaf_values import FOUND, CheapestLeaf, KernelLeaf, PartitionTable

        rows = self._fitting(layer, run.batch, run.tiles)
        if not len(rows.parts):
            return None
        sizes = self.graph.layers[layer].sizes(run.batch)
        leaf = KernelLeaf(self._spaces[layer], sizes, run.first_tile, run.runs, np.array(streams, np.int64))
        # the least that the tiles leak, and what the chip takes when idle for as many of its tiles: the
        # search does not see for how long they wait
        idle_pj = self.chip.idle_pj_per_cycle * run.tiles / self.chip.tiles
        leaked_pj = (rows.leakage_pj + idle_pj) * rows.cycles
        energy = run.runs * (rows.tiles_pj + rows.transfers_pj + leaked_pj) + rows.weights_pj
        table = PartitionTable(rows.parts, energy, rows.cycles, *placement_orders())
        found, held = np.zeros(len(FOUND), np.int64), np.zeros((len(streams), self.chip.tiles), np.int64)
        search(
            self._workspace, leaf, table, self._prices, CheapestLeaf(found, held, np.zeros(len(rows.parts)))
        )
        return self._found(layer, run, rows, found, held) if found[FOUND.row] >= 0 else None

    def _found(self, layer: int, run: LeafRun, rows: _Rows, found: Array, held: Array) -> LeafCost:
        row, number, read, written = found.tolist()
        parts, links = rows.parts[row].tolist(), self._workspace.mesh.links.copy()
        order = placement_orders()[0][sum(int(part > 1) << axis for axis, part in enumerate(parts)), number]
        tile_cycles, busiest = int(rows.cycles[row]), int(links.max())
        return LeafCost(
            place=Placement(run.batch, run.first_tile, tuple(parts), tuple(order.tolist())),
            tiles_pj=float(run.runs * rows.tiles_pj[row]),
            transfers_pj=float(run.runs * rows.transfers_pj[row] + rows.weights_pj[row]),
            cycles=max(tile_cycles, self.chip.least_cycles(read + written, busiest, run.runs)),
            tile_cycles=tile_cycles,
            dram_read_bytes=read,
            dram_write_bytes=written,
            links=links,
            held=held,
            leakage_pj_per_cycle=float(rows.leakage_pj[row]),
            runs=self._runs_of(layer, run, (read, written), tile_cycles, busiest),
        )

    def _runs_of(
        self, layer: int, run: LeafRun, moved: tuple[int, int], tile_cycles: int, busiest: int
    ) -> NodeRuns:
        """How a leaf runs: inputs come before their batch, and before the first one the pinned weights, too.

        ``moved``: bytes read from and written to DRAM over all runs. ``busiest``: bytes times ports on the
        busiest link. A leaf that runs once has all its inputs then, so only its outputs use links and DRAM
        while it runs.
        """
        weights = 0
        if any(stream.pinned for stream in self.streams[layer]):
            weights = self.graph.layers[layer].compulsory_bytes(1).weights
        inputs, outputs = (moved[0] - weights) // run.runs, moved[1] // run.runs
        links = self.chip.least_cycles(0, busiest, run.runs)
        running = max(tile_cycles, self.chip.least_cycles(outputs, 0), links if run.runs > 1 else 0)
        return NodeRuns(
            BatchRun(weights + inputs, links, running, weights + inputs + outputs),
            BatchRun(inputs, links, running, inputs + outputs),
        )

    def _fitting(self, layer: int, batch: int, tiles: int) -> _Rows:
        key = (self._first_of_shape[layer], batch, tiles)
        if key not in self._rows:
            self._rows[key] = self._tabulated(layer, batch, tiles)
        return self._rows[key]

    def _tabulated(self, number: int, batch: int, tiles: int) -> _Rows:
        """The partitions that fit the buffers, with the energy of filling these.

        A tile must hold the inputs and weights of its part and the stream of its outputs. Of an element-wise
        layer with several operands the inputs are there once an operand. Outputs of a layer with weights cost
        their update in the buffer, which its mapping counts, and nothing more when they leave, as in
        ``evaluate``. Those of vector units, which have no mapping, are read from the buffer once.
        """
        layer, tile = self.graph.layers[number], self.chip.tile
        costs, buffer = self.tile_costs.rows(number, batch, tiles), tile.buffer
        volumes = self._volumes(number, batch, costs.parts)
        inputs, weights = volumes[:, :2] * layer.operands, volumes[:, 2:]
        fits = tile.output_stream_bytes + inputs[:, 0] + weights[:, 0] <= buffer.size_bytes
        filled = inputs[:, 1] + (weights[:, 1] if layer.weight_producers else 0)
        outputs = 0 if layer.has_weights else layer.k * layer.h * layer.w * batch
        emptied = outputs * buffer.read_pj_per_byte
        pinned = weights[:, 1] * (0 if layer.weight_producers else buffer.write_pj_per_byte)
        return _Rows(
            costs.parts[fits],
            costs.energy_pj[fits],
            (filled * buffer.write_pj_per_byte + emptied)[fits],
            pinned[fits],
            costs.cycles[fits],
            costs.leakage_pj_per_cycle[fits],
        )

    def _volumes(self, number: int, batch: int, parts: Array) -> Array:
        """Bytes [n, 4] of each partition: inputs on the fullest tile and on all tiles, then weights."""
        from costmodel.schedule.leaf.volumes_kernel import volumes

        found = np.zeros((len(parts), 4), np.int64)
        sizes = self.graph.layers[number].sizes(batch)
        for row, of_row in zip(parts, found, strict=True):
            volumes(self._spaces[number], sizes, row, self._workspace.ranges, False, of_row)
        return found
