"""One leaf of an RA tree on the chip: its cheapest partition and placement, and what they cost.

Section 4.2.2 of SET: of all partitions into K x B x H x W parts and all placement orders the one that makes
this leaf's E^n D^m the least, whatever that means for other leaves. Unlike the released program's search,
this one sees the load of single links, and so contention.

The weights of a leaf are pinned, loaded once for all its runs, or streamed: they come from DRAM for every
run. A tile then computes its part slice by slice, each some of its output channels, and its buffer holds the
weights of one slice while those of the next arrive::

    tiles     |          | slice 0 | slice 1 | slice 2 | slice 0 of the next run |
    DRAM      | weights 0|    1    |    2    |    0    |            1            |

So streamed weights need few bits and more traffic. A leaf takes what makes its own E^n D^m less.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.boxes.partition import part_of
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.geometry import kernel_space, placement_orders, same_shapes
from costmodel.schedule.leaf.reduction import (
    Adding,
    FoundReduction,
    Gathering,
    ReducedLeaf,
    channel_parts,
    cheapest_reduction,
)
from costmodel.schedule.leaf.streams import LeafRun, Placement, stream_row, streams_of
from costmodel.schedule.leaf.workspace import prices_of, workspace_of
from costmodel.schedule.row_bands import LeafBands
from costmodel.schedule.starts import BatchRun, NodeRuns
from costmodel.schedule.tile_cost import TileCosts, TileRows

Array = NDArray[Any]

MOST_REMEMBERED = 30_000
"""How many leaves a search remembers before it forgets them all, which bounds its memory."""


@dataclass(frozen=True)
class LeafCost:
    """What a leaf costs over all runs, where a field does not say otherwise.

    Of a leaf with bands, ``cycles`` and ``held`` are of one band, and ``tile_cycles`` of all bands of a run.
    Of a leaf whose input channels are cut, ``tile_cycles`` are those of an owner, which also adds.
    """

    placement: Placement
    """Its partition, and the tiles of its parts; equal ones of one search are the same object."""
    tiles_pj: float
    """Energy within tiles."""
    transfers_pj: float
    """Energy of filling and emptying the tiles' buffers."""
    cycles: int
    """Of one run, with waiting for DRAM and links."""
    tile_cycles: int
    """Of one run on the slowest tile, without waiting."""
    dram_read_bits: int
    dram_write_bits: int
    links: Array
    """[X * Y * 4]: bits on each link, times the number of DRAM ports."""
    held: Array
    """[streams, tiles]: bits of one batch of each of the layer's streams on every tile."""
    leakage_pj_per_cycle: float
    """Of the leaf's tiles, in each cycle in which they belong to it."""
    runs: NodeRuns
    """How it runs its first batch, and each later one."""
    slices: int
    """How many slices a tile computes one after the other in a run, with weights that come anew for each; 0
    where the weights are pinned, or there are none."""
    value: float
    """E^n D^m, by which the leaf was found."""
    bands: LeafBands | None = None
    band_cycles: tuple[int, ...] = ()
    """Of one run on the slowest tile, for each of its bands."""
    kept: Array | None = None
    """[tiles]: bits of inputs that stay from one band to the next."""
    gathering: Gathering | None = None
    """How partial sums are added, where the input channels are cut."""


@dataclass(frozen=True)
class _Rows:
    """The partitions [n, 4] that fit the buffers, and what they cost without NoC and DRAM.

    ``tiles_pj``, ``transfers_pj`` [n]: of one batch, within tiles and into and out of their buffers.
    ``weights_pj`` [n]: of filling buffers with the weights, once. ``cycles`` [n]: of the slowest tile.
    ``leakage_pj`` [n]: per cycle. ``slices`` [n]: see :class:`.tile_cost.TileRows`. ``held`` [n]: bits on the
    fullest tile. ``band_cycles`` [n, bands]: of the slowest tile for each band, which ``cycles`` is the sum
    of; [n, 0] without bands.
    """

    parts: Array
    tiles_pj: Array
    transfers_pj: Array
    weights_pj: Array
    cycles: Array
    leakage_pj: Array
    slices: Array
    held: Array
    band_cycles: Array

    def kept(self, which: Array) -> _Rows:
        """Only the rows ``which`` [n] is true for."""
        return _Rows(
            self.parts[which],
            self.tiles_pj[which],
            self.transfers_pj[which],
            self.weights_pj[which],
            self.cycles[which],
            self.leakage_pj[which],
            self.slices[which],
            self.held[which],
            self.band_cycles[which],
        )


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
        self._bits = [ElementBits.of(layer, chip.tile.widths) for layer in graph.layers]
        self._has_parameters = [any(stream.pinned for stream in streams) for streams in self.streams]
        self._parameter_bits = [
            bits.weights * layer.compulsory_elements(1).weights if parameters else 0
            for layer, bits, parameters in zip(graph.layers, self._bits, self._has_parameters, strict=True)
        ]
        self._spaces = [kernel_space(layer) for layer in graph.layers]
        self._first_of_shape = same_shapes(graph)
        self._rows: dict[tuple[int, int, int, bool, LeafBands | None], _Rows] = {}
        self._reduced: dict[tuple[int, int, int, int], _Rows] = {}
        self._channel_spaces: dict[tuple[int, int], list[Any]] = {}
        self._known: dict[tuple[Any, ...], LeafCost | None] = {}
        self._placements: dict[Placement, Placement] = {}
        self._workspace = workspace_of(chip, max(map(len, self.streams), default=0))
        self._prices = prices_of(chip, exponents)

    def cost(self, layer: int, run: LeafRun, producers: Mapping[int, Placement]) -> LeafCost | None:
        """The cheapest partition and placement of a leaf, from memory if it was asked before; None if none
        fits.

        ``producers``: where the outputs are that come over the NoC; all other inputs come from DRAM. With
        ``run.streamed`` weights that are parameters are streamed, else they are pinned or streamed, whatever
        costs the leaf less.
        """
        bits = self._bits[layer]
        streams = tuple(
            stream_row(self.graph, stream, run, producers, bits) for stream in self.streams[layer]
        )
        key = (self._first_of_shape[layer], run, streams)
        if len(self._known) >= MOST_REMEMBERED:
            self._known.clear()
        if key not in self._known:
            self._known[key] = self._cheapest(layer, run, streams, producers)
        return self._known[key]

    def _cheapest(
        self,
        layer: int,
        run: LeafRun,
        streams: Sequence[Sequence[int]],
        producers: Mapping[int, Placement],
    ) -> LeafCost | None:
        number = self._first_of_shape[layer]
        if run.reduced > 1:
            return self._cheapest_reduction(number, replace(run, streamed=False), streams)
        if run.bands is not None:
            pinned_run = replace(run, streamed=False)
            return self._searched(number, pinned_run, streams, self._fitting(number, pinned_run))
        if not self.has_parameters(layer):
            return self._searched(number, replace(run, streamed=False), streams, self._fitting(number, run))
        if run.streamed:
            rows = self._fitting(number, run)
            rows = rows.kept(rows.held + run.free_bits <= self.chip.tile.free_bits)
            return self._searched(number, run, streams, rows)
        pinned = self._searched(number, run, streams, self._fitting(number, run))
        streaming = replace(run, streamed=True)
        rows = self._fitting(number, streaming)
        # a partition whose weights come in one slice fits with all of them, which then come but once
        rows = rows.kept(rows.slices > 1)
        if pinned is not None and len(rows.parts):
            rows = rows.kept(self._least_values(number, streaming, rows) < pinned.value)
        if not len(rows.parts):
            return pinned
        bits = self._bits[layer]
        streams = [
            stream_row(self.graph, stream, streaming, producers, bits) for stream in self.streams[layer]
        ]
        below = np.inf if pinned is None else pinned.value
        return self._searched(number, streaming, streams, rows, below) or pinned

    def _cheapest_reduction(
        self, layer: int, run: LeafRun, streams: Sequence[Sequence[int]]
    ) -> LeafCost | None:
        """The cheapest way with the input channels cut (:mod:`costmodel.schedule.reductions`).

        Weights that are parameters are pinned. None where the parts do not divide the tiles, too.
        """
        if run.tiles % run.reduced:
            return None
        rows = self._reduced_rows(layer, run)
        if not len(rows.parts):
            return None
        leaf = ReducedLeaf(
            run,
            self.graph.layers[layer].sizes(run.batch),
            self._bits[layer].partial_sums,
            self._spaces_of_channels(layer, run.reduced),
            np.array(streams, np.int64),
            rows.parts,
            self._energy_pj(run, rows),
            rows.cycles,
        )
        found = cheapest_reduction(leaf, self._workspace, self.chip, self.exponents)
        return None if found is None else self._found_reduction(layer, run, rows, found)

    def _found_reduction(self, layer: int, run: LeafRun, rows: _Rows, found: FoundReduction) -> LeafCost:
        """The cost of what the search found."""
        row, parts = found.row, rows.parts[found.row]
        added = Adding.of(self.graph.layers[layer], self.chip, run.batch, parts[None], run.reduced)
        gathering = Gathering(
            int(added.cycles[0]),
            int(np.count_nonzero(found.sums)),
            added.operations,
            self.chip.least_cycles(0, int(found.sum_links.max()), run.runs),
            found.sums,
        )
        k, b, h, w = parts.tolist()
        placement = Placement(run.batch, run.first_tile, (k, b, h, w), found.order, run.reduced)
        tile_cycles = int(rows.cycles[row])
        runs = self._reduced_runs(layer, run, found, tile_cycles, gathering)
        return LeafCost(
            placement=self._placements.setdefault(placement, placement),
            tiles_pj=float(run.runs * rows.tiles_pj[row]),
            transfers_pj=float(run.runs * rows.transfers_pj[row] + rows.weights_pj[row]),
            cycles=max(found.cycles, runs.later.running),
            tile_cycles=tile_cycles,
            dram_read_bits=found.read,
            dram_write_bits=found.written,
            links=found.links,
            held=found.held,
            leakage_pj_per_cycle=float(rows.leakage_pj[row]),
            runs=runs,
            slices=0,
            value=found.value(self.exponents),
            gathering=gathering,
        )

    def _reduced_runs(
        self, layer: int, run: LeafRun, found: FoundReduction, tile_cycles: int, gathering: Gathering
    ) -> NodeRuns:
        """How such a leaf runs: partial sums leave while they are computed, outputs while they are added."""
        weights = self._parameter_bits[layer]
        links = self.chip.least_cycles(0, int(found.links.max()), run.runs)
        inputs, outputs = (found.read - weights) // run.runs, found.written // run.runs
        computing = max(tile_cycles - gathering.cycles, gathering.link_cycles)
        running = computing + max(gathering.cycles, self.chip.least_cycles(outputs, 0))
        running = max(running, 0 if run.runs == 1 else links)
        # partial sums come after the data that the leaf waits for
        fetched = self.chip.least_cycles(0, int((found.links - found.sum_links).max()), run.runs)
        return NodeRuns(
            BatchRun(weights + inputs, fetched, running, weights + inputs + outputs),
            BatchRun(inputs, fetched, running, inputs + outputs),
        )

    def _least_values(self, layer: int, run: LeafRun, rows: _Rows) -> Array:
        """E^n D^m [n] at least of a leaf with streamed weights: without links and inputs from DRAM."""
        streamed = run.runs * self._parameter_bits[layer]
        energy = self._energy_pj(run, rows) + streamed * self.chip.dram.read_pj_per_bit
        cycles = np.maximum(rows.cycles, self.chip.least_cycles(streamed, 0, run.runs)).astype(np.float64)
        least: Array = energy ** self.exponents[0] * cycles ** self.exponents[1]
        return least

    def has_parameters(self, layer: int) -> bool:
        """Whether a layer has weights that are parameters, which may be pinned or streamed."""
        return self._has_parameters[layer]

    def _energy_pj(self, run: LeafRun, rows: _Rows) -> Array:
        """Energy [n] over all runs without NoC and DRAM, as far as it is known before the search.

        That is with the least that the tiles leak, and what the chip takes when idle for as many of its
        tiles: the search does not see for how long they wait.
        """
        idle_pj = self.chip.idle_pj_per_cycle * run.tiles / self.chip.tiles
        leaked_pj = (rows.leakage_pj + idle_pj) * rows.cycles
        once_pj = (run.runs if run.streamed else 1) * rows.weights_pj
        energy: Array = run.runs * (rows.tiles_pj + rows.transfers_pj + leaked_pj) + once_pj
        return energy

    def _searched(
        self,
        layer: int,
        run: LeafRun,
        streams: Sequence[Sequence[int]],
        rows: _Rows,
        below: float = np.inf,
    ) -> LeafCost | None:
        """The cheapest of these ``rows``; None if none of them has an E^n D^m below ``below``."""
        from costmodel.schedule.leaf.leaf_kernel import search
        from costmodel.schedule.leaf.leaf_values import FOUND, CheapestLeaf, KernelLeaf, PartitionTable

        if not len(rows.parts):
            return None
        sizes = self.graph.layers[layer].sizes(run.batch)
        leaf = KernelLeaf(self._spaces[layer], sizes, run.first_tile, run.runs, np.array(streams, np.int64))
        energy = self._energy_pj(run, rows)
        table = PartitionTable(rows.parts, energy, rows.cycles, *placement_orders())
        found, held = np.zeros(len(FOUND), np.int64), np.zeros((len(streams), self.chip.tiles), np.int64)
        cheapest = CheapestLeaf(found, held, np.zeros(len(rows.parts)))
        search(self._workspace, leaf, table, self._prices, cheapest, below)
        if found[FOUND.row] < 0:
            return None
        cost = self._found(layer, run, rows, found, held, float(energy[found[FOUND.row]]))
        if run.bands is None:
            return cost
        return self._in_bands(layer, run, run.bands, cost, rows.band_cycles[found[FOUND.row]])

    def _found(
        self, layer: int, run: LeafRun, rows: _Rows, found: Array, held: Array, energy_pj: float
    ) -> LeafCost:
        """The leaf that the search ``found``; ``energy_pj``: of all runs, without NoC and DRAM."""
        row, number, read, written = found.tolist()
        parts, links = rows.parts[row].tolist(), self._workspace.mesh.links.copy()
        order = placement_orders()[0][sum(int(part > 1) << axis for axis, part in enumerate(parts)), number]
        tile_cycles, busiest = int(rows.cycles[row]), int(links.max())
        slices = int(rows.slices[row]) if run.streamed else 0
        cycles = max(tile_cycles, self.chip.least_cycles(read + written, busiest, run.runs))
        dram, noc = self.chip.dram, self.chip.noc
        energy_pj += int(links.sum()) / len(self.chip.ports) * noc.hop_pj_per_bit
        energy_pj += read * dram.read_pj_per_bit + written * dram.write_pj_per_bit
        placement = Placement(run.batch, run.first_tile, tuple(parts), tuple(order.tolist()))
        return LeafCost(
            placement=self._placements.setdefault(placement, placement),
            tiles_pj=float(run.runs * rows.tiles_pj[row]),
            transfers_pj=float(
                run.runs * rows.transfers_pj[row] + (run.runs if run.streamed else 1) * rows.weights_pj[row]
            ),
            cycles=cycles,
            tile_cycles=tile_cycles,
            dram_read_bits=read,
            dram_write_bits=written,
            links=links,
            held=held,
            leakage_pj_per_cycle=float(rows.leakage_pj[row]),
            runs=self._runs_of(layer, run, (read, written), tile_cycles, busiest, (parts[0], slices)),
            slices=slices,
            value=float(energy_pj ** self.exponents[0] * float(cycles) ** self.exponents[1]),
        )

    def _in_bands(
        self, layer: int, run: LeafRun, bands: LeafBands, cost: LeafCost, band_cycles: Array
    ) -> LeafCost:
        """The same leaf, band by band: it moves what it does at once, a band at a time.

        Every row of inputs comes once, as a tile keeps what later bands read; so only times and what tiles
        hold at a time differ. All bands but the very first one count as equally long.
        """
        each, times = [int(one) for one in band_cycles], run.runs * bands.count
        held, kept = cost.held.copy(), np.zeros(self.chip.tiles, np.int64)
        first_part = 0
        for number, stream in enumerate(self.streams[layer]):
            if stream.kind == "inputs":
                stay, come = bands.held(stream.producer, run.runs > 1)
                of_row = cost.held[number] // bands.rows_read
                held[number] = come * of_row
                kept += stay * of_row
                begin, end = bands.coming(None)[0]
                first_part = max(first_part, end - begin)
        weights, rows = self._parameter_bits[layer], self.graph.layers[layer].h
        inputs, outputs = cost.dram_read_bits - weights, cost.dram_write_bits
        first_in = inputs // run.runs * first_part // max(bands.rows_read, 1)
        first_out = outputs // run.runs * bands.heights[0] // rows
        busiest = self.chip.least_cycles(0, int(cost.links.max()), times)
        later_in, later_out = (
            -(-(whole - one) // (times - 1)) for whole, one in ((inputs, first_in), (outputs, first_out))
        )
        later_cycles = -(-(run.runs * sum(each) - each[0]) // (times - 1))
        first = max(each[0], self.chip.least_cycles(first_out, 0), busiest)
        later = max(later_cycles, self.chip.least_cycles(later_out, 0), busiest)
        runs = NodeRuns(
            BatchRun(weights + first_in, busiest, first, weights + first_in + first_out),
            BatchRun(later_in, busiest, later, later_in + later_out),
        )
        moved = cost.dram_read_bits + cost.dram_write_bits
        cycles = max(later_cycles, self.chip.least_cycles(moved, int(cost.links.max()), times))
        return replace(
            cost,
            cycles=cycles,
            held=held,
            kept=kept,
            runs=runs,
            bands=bands,
            band_cycles=tuple(each),
            tile_cycles=sum(each),
        )

    def _runs_of(
        self,
        layer: int,
        run: LeafRun,
        moved: tuple[int, int],
        tile_cycles: int,
        busiest: int,
        cut: tuple[int, int],
    ) -> NodeRuns:
        """How a leaf runs: inputs come before their batch, and before the first one the pinned weights, too.

        Of streamed weights only the first slices come before a batch. All others come while it runs.
        ``moved``: bits read from and written to DRAM over all runs. ``busiest``: bits times ports on the
        busiest link. A leaf that runs once has all its inputs then, so only its outputs and later slices use
        links and DRAM while it runs. ``cut``: into how many parts the output channels are cut, and each of
        them into how many slices.
        """
        weights = self._parameter_bits[layer]
        links = self.chip.least_cycles(0, busiest, run.runs)
        once = run.runs == 1
        if run.streamed:
            ahead = self._first_slices(layer, *cut)
            inputs, outputs = moved[0] // run.runs - weights, moved[1] // run.runs
            during = self.chip.least_cycles(weights - ahead + outputs, 0)
            running = max(tile_cycles, during, 0 if once and cut[1] == 1 else links)
            batch = BatchRun(ahead + inputs, links, running, weights + inputs + outputs)
            return NodeRuns(batch, batch)
        inputs, outputs = (moved[0] - weights) // run.runs, moved[1] // run.runs
        running = max(tile_cycles, self.chip.least_cycles(outputs, 0), 0 if once else links)
        return NodeRuns(
            BatchRun(weights + inputs, links, running, weights + inputs + outputs),
            BatchRun(inputs, links, running, inputs + outputs),
        )

    def _first_slices(self, layer: int, parts: int, slices: int) -> int:
        """Bits of the weights of the first slice of every part along K, each of which DRAM sends once."""
        channels = self.graph.layers[layer].k
        firsts = (part_of(channels, parts * slices, part * slices) for part in range(parts))
        return self._parameter_bits[layer] // channels * sum(end - first for first, end in firsts)

    def slice_bits(self, layer: int, held: Array, slices: Any) -> Array:
        """Bits [n] of the largest slice of parts with ``held`` [n] bits of weights, each in ``slices``."""
        of_channel = self._parameter_bits[layer] // self.graph.layers[layer].k
        largest: Array = -(-held // (of_channel * slices)) * of_channel
        return largest

    def _fitting(self, layer: int, run: LeafRun) -> _Rows:
        key = (layer, run.batch, run.tiles, run.streamed, run.bands)
        if key not in self._rows:
            self._rows[key] = (
                self._tabulated(*key[:4])
                if run.bands is None
                else self._tabulated_bands(layer, run.batch, run.tiles, run.bands)
            )
        return self._rows[key]

    def _spaces_of_channels(self, layer: int, reduced: int) -> list[Any]:
        """The space of a layer for each part of its input channels."""
        key = layer, reduced
        if key not in self._channel_spaces:
            it = self.graph.layers[layer]
            self._channel_spaces[key] = [kernel_space(it, part) for part in channel_parts(it, reduced)]
        return self._channel_spaces[key]

    def _reduced_rows(self, number: int, run: LeafRun) -> _Rows:
        """The partitions whose parts fit the buffers, with the costs of computing and of adding.

        ``cycles`` are those of an owner, which has both to do.
        """
        key = (number, run.batch, run.tiles, run.reduced)
        if key not in self._reduced:
            self._reduced[key] = self._tabulated_reduction(*key)
        return self._reduced[key]

    def _tabulated_reduction(self, number: int, batch: int, tiles: int, reduced: int) -> _Rows:
        layer, tile, bits = self.graph.layers[number], self.chip.tile, self._bits[number]
        costs = self.tile_costs.reduced_rows(number, batch, tiles // reduced, reduced)
        adding = Adding.of(layer, self.chip, batch, costs.parts, reduced)
        volumes = np.array(
            [
                self._volumes(number, batch, costs.parts, space)
                for space in self._spaces_of_channels(number, reduced)
            ]
        )
        inputs, weights = volumes[..., :2] * bits.inputs, volumes[..., 2:] * bits.weights
        # each tile of a group has a part of its own; the owner has the largest one, and the partial sums
        held = (inputs[..., 0] + weights[..., 0]).max(axis=0) + adding.held
        fits = held <= tile.free_bits
        weights_filled, inputs_filled = weights[..., 1].sum(axis=0), inputs[..., 1].sum(axis=0)
        filled = inputs_filled + (weights_filled if layer.weight_producers else 0)
        pinned = weights_filled * (0 if layer.weight_producers else tile.buffer.write_pj_per_bit)
        return _Rows(
            costs.parts[fits],
            (costs.energy_pj + adding.tiles_pj)[fits],
            (filled * tile.buffer.write_pj_per_bit + adding.transfers_pj)[fits],
            pinned[fits],
            (costs.cycles + adding.cycles)[fits],
            costs.leakage_pj_per_cycle[fits],
            costs.slices[fits],
            held[fits],
            np.zeros((int(fits.sum()), 0), np.int64),
        )

    def _tabulated_bands(self, number: int, batch: int, tiles: int, bands: LeafBands) -> _Rows:
        """The partitions whose bands fit the buffers, with the costs of all bands together."""
        heights = sorted(set(bands.heights), reverse=True)
        found = dict(zip(heights, self.tile_costs.band_rows(number, batch, tiles, heights), strict=True))
        costs = [found[height] for height in bands.heights]
        cycles = np.stack([one.cycles for one in costs], axis=1)
        leaked = sum(one.leakage_pj_per_cycle * one.cycles for one in costs)
        whole = TileRows(
            costs[0].parts,
            np.sum([one.energy_pj for one in costs], axis=0),
            cycles.sum(axis=1),
            leaked / np.maximum(cycles.sum(axis=1), 1),
        )
        rows = max(
            sum(bands.held(stream.producer, False))
            for stream in self.streams[number]
            if stream.kind == "inputs"
        )
        return self._filled(number, batch, whole, cycles, (rows, bands.rows_read))

    def _tabulated(self, number: int, batch: int, tiles: int, streamed: bool) -> _Rows:
        """The partitions that fit the buffers, with the energy of filling these.

        A tile must hold the inputs and weights of its part and the stream of its outputs. Of weights that are
        ``streamed`` in several slices it holds two slices, the next one arriving. Of an element-wise
        layer with several operands the inputs are there once an operand. Outputs of a layer with weights cost
        their update in the buffer, which its mapping counts, and nothing more when they leave, as in
        ``evaluate``. Those of vector units, which have no mapping, are read from the buffer once.
        """
        source = self.tile_costs.streamed_rows if streamed else self.tile_costs.rows
        costs = source(number, batch, tiles)
        return self._filled(
            number, batch, costs, np.zeros((len(costs.parts), 0), np.int64), streamed=streamed
        )

    def _filled(
        self,
        number: int,
        batch: int,
        costs: TileRows,
        band_cycles: Array,
        rows_held: tuple[int, int] = (1, 1),
        streamed: bool = False,
    ) -> _Rows:
        """The rows of ``costs`` that fit the buffers; ``rows_held``: how many of all rows of inputs a tile
        holds at a time.
        """
        layer, tile, bits = self.graph.layers[number], self.chip.tile, self._bits[number]
        buffer = tile.buffer
        volumes = self._volumes(number, batch, costs.parts)
        inputs, weights = volumes[:, :2] * (layer.operands * bits.inputs), volumes[:, 2:] * bits.weights
        fullest = weights[:, 0]
        if streamed:
            fullest = self.slice_bits(number, fullest, costs.slices) * np.minimum(costs.slices, 2)
        held = inputs[:, 0] // rows_held[1] * rows_held[0] + fullest
        fits = held <= tile.free_bits
        filled = inputs[:, 1] + (weights[:, 1] if layer.weight_producers else 0)
        outputs = 0 if layer.has_weights else layer.k * layer.h * layer.w * batch * bits.outputs
        emptied = outputs * buffer.read_pj_per_bit
        pinned = weights[:, 1] * (0 if layer.weight_producers else buffer.write_pj_per_bit)
        return _Rows(
            costs.parts[fits],
            costs.energy_pj[fits],
            (filled * buffer.write_pj_per_bit + emptied)[fits],
            pinned[fits],
            costs.cycles[fits],
            costs.leakage_pj_per_cycle[fits],
            costs.slices[fits],
            held[fits],
            band_cycles[fits],
        )

    def _volumes(self, number: int, batch: int, parts: Array, space: Any = None) -> Array:
        """Elements [n, 4] of each partition: inputs on the fullest tile and on all tiles, then weights.

        ``space``: that of some of the input channels; None: that of the layer.
        """
        from costmodel.schedule.leaf.volumes_kernel import volumes

        found = np.zeros((len(parts), 4), np.int64)
        sizes = self.graph.layers[number].sizes(batch)
        for row, of_row in zip(parts, found, strict=True):
            volumes(space or self._spaces[number], sizes, row, self._workspace.ranges, False, of_row)
        return found
