"""Searches one leaf of an RA tree: the cheapest partition and placement of a layer on a group of tiles.

Section 4.2.2 of SET: the search takes, of all partitions into K x B x H x W parts and of all placement
orders, the one of least E^n D^m for this leaf, whatever that means for other leaves. Unlike the released
program's search, this one counts the load of single links, and so contention.

The weights of a leaf are either *pinned*, which means loaded once for all its runs, or *streamed*: they come
from DRAM for every run. A tile that streams computes its part slice by slice. A slice is some of the tile's
output channels; the buffer holds the weights of one slice while those of the next arrive::

    tiles     |          | slice 0 | slice 1 | slice 2 | slice 0 of the next run |
    DRAM      | weights 0|    1    |    2    |    0    |            1            |

So streaming needs fewer bits of the buffers and more traffic. A leaf takes the way of less E^n D^m. Where
tile costs offer that, there is a third way: tiles that need the same weights hold a part of them each and
pass it on (:mod:`.sharing`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.counted_row import CountedRow, LeafTraffic, TrafficApart, with_transfers
from costmodel.schedule.leaf.geometry import placement_orders, same_shapes
from costmodel.schedule.leaf.leaf_cost import LeafCost
from costmodel.schedule.leaf.leaf_layer import LeafLayer
from costmodel.schedule.leaf.leaf_runs import (
    in_bands,
    pinned_runs,
    reduced_runs,
    shared_runs,
    streamed_runs,
)
from costmodel.schedule.leaf.partition_rows import PartitionRows, PartitionTables
from costmodel.schedule.leaf.reduction import (
    Adding,
    FoundReduction,
    Gathering,
    ReducedLeaf,
    cheapest_reduction,
)
from costmodel.schedule.leaf.sharing import (
    FoundSharing,
    PassingRounds,
    SharedLeaf,
    SharedWeights,
    cheapest_sharing,
)
from costmodel.schedule.leaf.streams import (
    FREE,
    STREAM_KINDS,
    KnownStreams,
    LeafRun,
    LeafStreams,
    Placement,
)
from costmodel.schedule.leaf.workspace import prices_of, workspace_of
from costmodel.schedule.remembered import Remembered
from costmodel.schedule.starts import LeafRuns
from costmodel.schedule.tile_cost import TileCosts

Array = NDArray[Any]
FitsNowhere = Literal["fits nowhere"]
FITS_NOWHERE: FitsNowhere = "fits nowhere"
"""What is remembered of a leaf of which no partition fits the buffers."""
MOST_REMEMBERED = 30_000
"""How many leaves a search remembers, which bounds its memory."""


class _Chosen(NamedTuple):
    """The cheapest of some ways of a leaf. ``value``: its E^n D^m, with the price of the bits it takes."""

    cost: LeafCost
    value: float


class LeafSearch:
    """Finds the cheapest way for leaves of one network on one chip, and remembers what it found.

    ``tile_costs``: what partitions cost within tiles. ``exponents``: n and m of the objective E^n D^m.
    ``whole_chip_only``: the numbers of the layers that are never cut among tiles. ``leaks``: whether some
    leaf that was found has tiles that leak.
    """

    def __init__(
        self, graph: LayerGraph, chip: Chip, tile_costs: TileCosts, exponents: tuple[float, float]
    ) -> None:
        self.graph, self.chip, self.tile_costs, self.exponents = graph, chip, tile_costs, exponents
        self.layers = [LeafLayer(graph, number, chip) for number in range(len(graph.layers))]
        self.whole_chip_only = frozenset(
            number for number, layer in enumerate(graph.layers) if layer.needs_whole_chip
        )
        self._first_of_shape = same_shapes(graph)
        self.leaks = False
        self._known = Remembered[tuple[Any, ...], LeafCost | FitsNowhere](MOST_REMEMBERED)
        self._streams = KnownStreams(graph, [layer.bits for layer in self.layers], MOST_REMEMBERED)
        self._found_before = Remembered[tuple[Any, ...], LeafCost](MOST_REMEMBERED)
        self._placements: dict[Placement, Placement] = {}
        self._least: dict[tuple[int, int, int, int, bool], Array] = {}
        self._energies = Remembered[tuple[int, int, bool], tuple[PartitionRows, Array]](MOST_REMEMBERED)
        most_streams = max((len(layer.streams) for layer in self.layers), default=0)
        self._workspace = workspace_of(chip, most_streams)
        self._tables = PartitionTables(self.layers, chip, tile_costs, self._workspace.ranges)
        self._prices = prices_of(chip, exponents)

    def cost(self, number: int, run: LeafRun, producers: Mapping[int, Placement]) -> LeafCost | None:
        """The cheapest partition and placement of a leaf of layer ``number``; None if none fits the buffers.

        ``producers``: the placements of the layers whose outputs come over the NoC; all other inputs come
        from DRAM. Weights that are parameters are pinned or streamed, whichever costs the leaf less. With
        ``run.may_share`` tiles share them where that costs the leaf less than either. With ``run.prices`` the
        bits of buffers that the leaf takes are part of what it costs.
        """
        streams = self._streams.of(number, run, producers)
        key = (self._representative(number, run), run, streams)
        found = self._known.get(key)
        if found is None:
            found = self._known.add(key, self._cheapest(number, run, streams, producers) or FITS_NOWHERE)
            self.leaks = self.leaks or (not isinstance(found, str) and found.leakage_pj_per_cycle > 0)
        return None if isinstance(found, str) else found

    def _representative(self, number: int, run: LeafRun) -> int:
        """The layer whose answers are this layer's too.

        Layers of one shape share theirs, as streams say all that producers have to do with them. Not so in
        bands, which name producers by number.
        """
        return number if run.bands is not None else self._first_of_shape[number]

    def _cheapest(
        self, number: int, run: LeafRun, streams: LeafStreams, producers: Mapping[int, Placement]
    ) -> LeafCost | None:
        """The cheapest way of a leaf that is not known, by how its weights may come."""
        first = self._representative(number, run)
        # Leaves with cut input channels or with bands pin their weights; others may have none to stream.
        if run.reduced > 1:
            return self._cheapest_reduction(first, run, streams)
        best, at_no_price = None, 0.0
        if run.prices:
            free = self.cost(number, replace(run, prices=FREE), producers)
            if free is None:
                return None
            at_no_price = free.value
            factor = self._factors(free.stay_bits, free.run_bits, run, at_no_price)
            best = _Chosen(free, at_no_price * float(factor))
        best = self._cheaper_pinned(first, run, streams, best, at_no_price)
        if self.layers[number].has_parameters:
            if run.bands is None:
                best = self._cheaper_streamed(number, run, producers, best, at_no_price)
            if run.may_share:
                below = np.inf if best is None else best.value
                if sharing := self._cheapest_sharing(number, run, producers, below, at_no_price):
                    return sharing
        return None if best is None else best.cost

    def _factors(self, stay_bits: Any, run_bits: Any, run: LeafRun, at_no_price: float) -> Any:
        """By what E^n D^m [n] is multiplied for bits [n] of the buffers.

        ``stay_bits``: of those that stay between runs. ``run_bits``: of those that are taken for a run.
        ``at_no_price``: the least E^n D^m of the leaf where bits cost nothing. The root of degree n + m of it
        is what the leaf costs, to which the price of the bits is added. For a row that costs more than that
        the factor weighs its bits somewhat more.
        """
        # Prices follow from what leaves cost, so they weigh nothing for one that costs nothing.
        if not run.prices or at_no_price == 0:
            return np.ones_like(stay_bits, np.float64)
        n, m = self.exponents
        cost = float((at_no_price * run.runs**m) ** (1 / (n + m)))
        return (1 + (run.prices.kept * stay_bits + run.prices.running * run_bits) / cost) ** (n + m)

    def _factors_of(self, rows: PartitionRows, run: LeafRun, at_no_price: float) -> Array:
        """The factors [n] of :meth:`_factors` for rows."""
        factors: Array = self._factors(rows.pinned, rows.held - rows.pinned, run, at_no_price)
        return factors

    def _cheaper_pinned(
        self, first: int, run: LeafRun, streams: LeafStreams, best: _Chosen | None, at_no_price: float
    ) -> _Chosen | None:
        """The cheapest way with pinned weights or none; ``best`` where that is cheaper."""
        rows = self._tables.rows(first, run)
        factors = self._factors_of(rows, run, at_no_price)
        if best is None:
            return self._searched(first, run, streams, rows, factors)
        # Every row costs at least ``at_no_price``, so one has to take less of the buffers to win.
        may_win = np.flatnonzero(at_no_price * factors < best.value)
        return self._searched(first, run, streams, rows, factors, best.value, may_win) or best

    def _cheaper_streamed(
        self,
        number: int,
        run: LeafRun,
        producers: Mapping[int, Placement],
        best: _Chosen | None,
        at_no_price: float,
    ) -> _Chosen | None:
        """The cheapest way in which each tile gets its weights from DRAM in every run; ``best`` as before."""
        first, streaming = self._representative(number, run), replace(run, streamed=True)
        # Where bits that stay have no price, a partition whose weights come in one slice may as well pin
        # them.
        kept_price = run.prices.kept > 0
        rows = (self._tables.rows if kept_price else self._tables.sliced_rows)(first, streaming)
        if not len(rows.parts):
            return best
        factors = self._factors_of(rows, run, at_no_price)
        below, may_win = np.inf, None
        if best is not None:
            below = best.value
            may_win = np.flatnonzero(self._least_values(first, streaming, rows, kept_price) * factors < below)
            if not len(may_win):
                return best
        streams = self._streams.of(number, streaming, producers)
        return self._searched(first, streaming, streams, rows, factors, below, may_win) or best

    def _least_values(self, number: int, run: LeafRun, rows: PartitionRows, all_rows: bool) -> Array:
        """A lower bound [n] on E^n D^m of a leaf with streamed weights, for each partition.

        It leaves out the links, and the inputs that come from DRAM. So it is the same wherever the leaf lies,
        and is remembered; ``rows`` are all partitions of the run, or those with several slices.
        """
        key = (number, run.batch, run.tiles, run.runs, all_rows)
        if key in self._least:
            return self._least[key]
        streamed = run.runs * self.layers[number].parameter_bits
        energy = self._energy_pj(run, rows) + streamed * self.chip.dram.read_pj_per_bit
        cycles = np.maximum(rows.cycles, self.chip.least_cycles(streamed, 0, run.runs)).astype(np.float64)
        least: Array = energy ** self.exponents[0] * cycles ** self.exponents[1]
        self._least[key] = least
        return least

    def _known_energy_pj(self, run: LeafRun, rows: PartitionRows) -> Array:
        """The same as :meth:`_energy_pj`, made once for each number of runs of all rows of a table."""
        # The rows are kept with it, so their id cannot come to mean others.
        key = (id(rows), run.runs, run.streamed)
        found = self._energies.get(key)
        if found is None:
            found = self._energies.add(key, (rows, self._energy_pj(run, rows)))
        return found[1]

    def _energy_pj(self, run: LeafRun, rows: PartitionRows) -> Array:
        """Energy [n] over all runs without NoC and DRAM, as far as it is known before the search.

        The search does not know for how long tiles will wait. So leakage, and the power of the leaf's part of
        the idle chip, count for the cycles in which tiles compute, which is the least that it can be.
        """
        idle_pj = self.chip.idle_pj_per_cycle * run.tiles / self.chip.tiles
        leaked_pj = (rows.leakage_pj + idle_pj) * rows.cycles
        once_pj = (run.runs if run.streamed else 1) * rows.weights_pj
        energy: Array = run.runs * (rows.tiles_pj + rows.transfers_pj + leaked_pj) + once_pj
        return energy

    def _searched(
        self,
        number: int,
        run: LeafRun,
        streams: LeafStreams,
        rows: PartitionRows,
        factors: Array,
        below: float = np.inf,
        which: Array | None = None,
    ) -> _Chosen | None:
        """The cheapest of these ``rows``; None if none of them has an E^n D^m below ``below``.

        ``factors``: those of :meth:`_factors_of` the rows. ``which``: the numbers of those that are
        searched; None: all.
        """
        from costmodel.schedule.leaf.kernels.leaf_kernel import search
        from costmodel.schedule.leaf.kernels.leaf_values import (
            FOUND,
            CheapestLeaf,
            KernelLeaf,
            PartitionTable,
        )

        if not len(rows.parts if which is None else which):
            return None
        layer = self.layers[number]
        sizes = layer.layer.sizes(run.batch)
        leaf = KernelLeaf(layer.space, sizes, run.first_tile, run.runs, streams.rows)
        energy = self._known_energy_pj(run, rows)
        columns = rows.parts, energy, rows.cycles, factors
        if which is not None:
            columns = rows.parts[which], energy[which], rows.cycles[which], factors[which]
        table = PartitionTable(*columns, *placement_orders())
        found = np.zeros(len(FOUND), np.int64)
        held = np.zeros((len(streams.rows), self.chip.tiles), np.int64)
        apart = TrafficApart.of(streams.rows, self.chip)
        cheapest = CheapestLeaf(found, held, *apart, np.zeros(len(table.parts)))
        search(self._workspace, leaf, table, self._prices, cheapest, below)
        row, order, read, written = found.tolist()
        if row < 0:
            return None
        row = row if which is None else int(which[row])
        chosen = tuple(rows.parts[row].tolist()), int(rows.slices[row]), order
        # At most prices a leaf takes what it takes at others. Equal costs are one object, so what follows
        # from them is known, too.
        key = (
            number,
            run.batch,
            run.first_tile,
            run.tiles,
            run.runs,
            run.streamed,
            run.bands,
            streams,
            chosen,
        )
        cost = self._found_before.get(key)
        if cost is None:
            traffic = apart.traffic(streams.rows, (read, written), self._workspace.mesh.links.copy())
            cost = self._found(layer, run, rows, (row, order), traffic, held, float(energy[row]))
            if run.bands is not None:
                cost = in_bands(self.chip, layer, run, run.bands, cost, traffic, rows.band_cycles[row])
            self._found_before.add(key, cost)
        return _Chosen(cost, cost.value * float(factors[row]))

    def _found(
        self,
        layer: LeafLayer,
        run: LeafRun,
        rows: PartitionRows,
        which: tuple[int, int],
        traffic: LeafTraffic,
        held: Array,
        energy_pj: float,
    ) -> LeafCost:
        """The cost of what the search found: ``which`` row in which order.

        ``energy_pj``: of all runs, without NoC and DRAM.
        """
        chip = self.chip
        (row, number), read, written = which, traffic.read, traffic.written
        parts, links = rows.parts[row].tolist(), traffic.links
        order = placement_orders()[0][sum(int(part > 1) << axis for axis, part in enumerate(parts)), number]
        tile_cycles = int(rows.cycles[row])
        slices = int(rows.slices[row]) if run.streamed else 0
        energy_pj, cycles = with_transfers(chip, run.runs, energy_pj, tile_cycles, (read, written), links)
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
            runs=streamed_runs(chip, layer, run, traffic, tile_cycles, parts[0], slices)
            if run.streamed
            else pinned_runs(chip, layer, run, traffic, tile_cycles),
            received=traffic.received,
            slices=slices,
            value=float(energy_pj ** self.exponents[0] * float(cycles) ** self.exponents[1]),
            stay_bits=int(rows.pinned[row]),
            run_bits=int(rows.held[row] - rows.pinned[row]),
        )

    def _cheapest_reduction(self, number: int, run: LeafRun, streams: LeafStreams) -> LeafCost | None:
        """The cheapest way with the input channels cut (:mod:`costmodel.schedule.reductions`).

        Weights that are parameters are pinned. None where nothing fits, or where the parts of the channels
        do not divide the tiles.
        """
        if run.tiles % run.reduced:
            return None
        rows, layer = self._tables.reduced_rows(number, run), self.layers[number]
        if not len(rows.parts):
            return None
        leaf = ReducedLeaf(
            run,
            layer.layer.sizes(run.batch),
            layer.bits.partial_sums,
            layer.spaces_of_channels(run.reduced),
            streams.rows,
            rows.parts,
            self._energy_pj(run, rows),
            rows.cycles,
        )
        found = cheapest_reduction(leaf, self._workspace, self.chip, self.exponents)
        return None if found is None else self._found_reduction(layer, run, rows, found)

    def _found_reduction(
        self, layer: LeafLayer, run: LeafRun, rows: PartitionRows, found: FoundReduction
    ) -> LeafCost:
        """The cost of what the search with cut input channels found."""
        row, parts = found.row, rows.parts[found.row]
        added = Adding.of(layer.layer, self.chip, run.batch, parts[None], run.reduced)
        gathering = Gathering(
            int(added.cycles[0]),
            int(np.count_nonzero(found.sums)),
            added.operations,
            self.chip.least_cycles(0, int(found.traffic.links_between.max()), run.runs),
            found.sums,
        )
        runs = reduced_runs(self.chip, layer, run, found, gathering, int(rows.cycles[row]))
        cost = self._found_cost(run, rows, found, runs)
        running = runs.sending(self.chip).later.running
        return replace(cost, cycles=max(found.cycles, running), gathering=gathering)

    def _found_cost(
        self, run: LeafRun, rows: PartitionRows, found: CountedRow, runs: LeafRuns, slices: int = 0
    ) -> LeafCost:
        """The cost of a row that was counted as a whole; its weights are loaded once for all runs."""
        row = found.row
        return LeafCost(
            placement=self._placements.setdefault(found.placement, found.placement),
            tiles_pj=float(run.runs * rows.tiles_pj[row]),
            transfers_pj=float(run.runs * rows.transfers_pj[row] + rows.weights_pj[row]),
            cycles=found.cycles,
            tile_cycles=int(rows.cycles[row]),
            dram_read_bits=found.traffic.read,
            dram_write_bits=found.traffic.written,
            links=found.traffic.links,
            held=found.held,
            leakage_pj_per_cycle=float(rows.leakage_pj[row]),
            runs=runs,
            received=found.traffic.received,
            slices=slices,
            value=found.value(self.exponents),
            stay_bits=int(rows.pinned[row]),
            run_bits=int(rows.held[row] - rows.pinned[row]),
        )

    def _cheapest_sharing(
        self,
        number: int,
        run: LeafRun,
        producers: Mapping[int, Placement],
        below: float,
        at_no_price: float,
    ) -> LeafCost | None:
        """The cheapest way with weights that tiles share; None if none has an E^n D^m below ``below``."""
        from costmodel.schedule.leaf.kernels.leaf_values import COLUMN

        first = self._representative(number, run)
        rows, layer = self._tables.shared_rows(first, run), self.layers[number]
        if not len(rows.parts):
            return None
        streams = self._streams.of(number, run, producers).rows.copy()
        # Shares and what tiles pass on are counted by themselves.
        streams[streams[:, COLUMN.kind] == STREAM_KINDS["weights"], COLUMN.times] = 0
        leaf = SharedLeaf(
            run,
            layer.layer.sizes(run.batch),
            layer.parameter_bits // layer.layer.k,
            layer.space,
            streams,
            rows.parts,
            self._energy_pj(run, rows),
            rows.cycles,
            self._factors_of(rows, run, at_no_price),
            rows.sharers,
        )
        found = cheapest_sharing(leaf, self._workspace, self.chip, self._prices, below)
        return None if found is None else self._found_sharing(layer, run, rows, found)

    def _found_sharing(
        self, layer: LeafLayer, run: LeafRun, rows: PartitionRows, found: FoundSharing
    ) -> LeafCost:
        """The cost of what the search with shared weights found."""
        row, chip = found.row, self.chip
        tile_cycles, slices = int(rows.cycles[row]), int(rows.slices[row])
        k = layer.layer.k
        largest = -(-k // (found.placement.parts[0] * slices)) * layer.parameter_bits // k
        rounds = PassingRounds.of(chip, run, found, largest, slices)
        runs = shared_runs(chip, layer, run, found, tile_cycles, rounds)
        shared = SharedWeights(int(rows.sharers[row]), found.kept)
        cost = replace(self._found_cost(run, rows, found, runs, slices), sharing=shared)
        if run.bands is None:
            return cost
        return in_bands(chip, layer, run, run.bands, cost, found.traffic, rows.band_cycles[row], rounds)
