"""How a leaf runs in time: what it fetches before a batch, and what it moves while it computes.

:class:`costmodel.schedule.starts.NodeRuns` says what the numbers mean. Inputs come before their batch, and
pinned weights come before the first batch. Of streamed weights the first slices come before each batch, and
all others while it runs. So do those that tiles pass on to one another. Outputs leave while the leaf runs.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.leaf.leaf_cost import LeafCost
from costmodel.schedule.leaf.leaf_layer import LeafLayer
from costmodel.schedule.leaf.reduction import FoundReduction, Gathering
from costmodel.schedule.leaf.sharing import FoundSharing, PassingRounds
from costmodel.schedule.leaf.streams import LeafRun
from costmodel.schedule.row_bands import LeafBands
from costmodel.schedule.starts import BatchRun, NodeRuns

Array = NDArray[Any]


@dataclass(frozen=True)
class LinkLoads:
    """What goes over each link [X * Y * 4], in bits times the number of DRAM ports.

    ``to_dram``: what leaves for DRAM. ``with_dram``: that, and what comes from there. ``every``: these, and
    what tiles send one another.
    """

    to_dram: Array
    with_dram: Array
    every: Array


@dataclass(frozen=True)
class LeafTraffic:
    """What a leaf moves over all its runs: bits ``read`` from DRAM and ``written`` there, and what links
    carry.
    """

    read: int
    written: int
    links: LinkLoads

    def leaving(self, chip: Chip, runs: int) -> int:
        """Cycles that the busiest link needs for what leaves for DRAM in a run."""
        return chip.least_cycles(0, int(self.links.to_dram.max()), runs)

    def arriving(self, chip: Chip, runs: int) -> int:
        """The same for all data that comes to the leaf."""
        return chip.least_cycles(0, int((self.links.every - self.links.to_dram).max()), runs)

    def from_tiles(self, chip: Chip, runs: int) -> int:
        """The same for the data that other tiles make."""
        return chip.least_cycles(0, int((self.links.every - self.links.with_dram).max()), runs)

    def all(self, chip: Chip, runs: int) -> int:
        """The same for all that a run moves."""
        return chip.least_cycles(0, int(self.links.every.max()), runs)


def pinned_runs(
    chip: Chip, layer: LeafLayer, run: LeafRun, traffic: LeafTraffic, tile_cycles: int
) -> NodeRuns:
    """The runs of a leaf with pinned weights, or with none that are parameters."""
    weights = layer.parameter_bits
    inputs, outputs = (traffic.read - weights) // run.runs, traffic.written // run.runs
    arriving, from_tiles = traffic.arriving(chip, run.runs), traffic.from_tiles(chip, run.runs)
    running = max(tile_cycles, chip.least_cycles(outputs, 0), traffic.leaving(chip, run.runs))
    every = traffic.all(chip, run.runs)
    return NodeRuns(
        BatchRun.of_leaf(weights + inputs, arriving, from_tiles, running, weights + inputs + outputs, every),
        BatchRun.of_leaf(inputs, arriving, from_tiles, running, inputs + outputs, every),
    )


def streamed_runs(
    chip: Chip,
    layer: LeafLayer,
    run: LeafRun,
    traffic: LeafTraffic,
    tile_cycles: int,
    k_parts: int,
    slices: int,
) -> NodeRuns:
    """The runs of a leaf with streamed weights, all alike.

    The output channels are cut into ``k_parts``, and each of these into ``slices``.
    """
    weights = layer.parameter_bits
    ahead = layer.first_slices_bits(k_parts, slices)
    inputs, outputs = traffic.read // run.runs - weights, traffic.written // run.runs
    during = chip.least_cycles(weights - ahead + outputs, 0)
    # Of one slice all weights have come before, as pinned ones have; of several most come during the run.
    every = traffic.all(chip, run.runs)
    on_links = traffic.leaving(chip, run.runs) if slices == 1 else every
    batch = BatchRun.of_leaf(
        ahead + inputs,
        traffic.arriving(chip, run.runs),
        traffic.from_tiles(chip, run.runs),
        max(tile_cycles, during, on_links),
        weights + inputs + outputs,
        every,
    )
    return NodeRuns(batch, batch)


def shared_runs(
    chip: Chip, layer: LeafLayer, run: LeafRun, found: FoundSharing, tile_cycles: int, rounds: PassingRounds
) -> NodeRuns:
    """The runs of a leaf whose tiles share their weights.

    Shares come before the first run, as pinned weights do, and the first slice is passed on when they are
    there. Before every later run it is passed on ahead, as inputs come. All other slices are passed on while
    the one before is computed. What links carry to the leaf is not told apart: all of it counts as made by
    tiles.
    """
    weights = layer.parameter_bits
    inputs, outputs = (found.read - weights) // run.runs, found.written // run.runs
    every = chip.least_cycles(0, int(found.links.max()), run.runs)
    on_links = 0 if run.runs == 1 else every
    running = max(tile_cycles, chip.least_cycles(outputs, 0), rounds.cycles, on_links)
    fetched = chip.least_cycles(0, int((found.links - found.round_links).max()), run.runs)
    first, later = weights + inputs + outputs, inputs + outputs
    return NodeRuns(
        BatchRun.of_leaf(weights + inputs, fetched, fetched, rounds.first + running, first, every),
        BatchRun.of_leaf(inputs, fetched + rounds.first, fetched, running, later, every),
    )


def reduced_runs(
    chip: Chip,
    layer: LeafLayer,
    run: LeafRun,
    found: FoundReduction,
    gathering: Gathering,
    tile_cycles: int,
) -> NodeRuns:
    """The runs of a leaf whose input channels are cut.

    Partial sums leave while they are computed, and outputs leave while partial sums are added. What links
    carry to the leaf is not told apart: all of it counts as made by tiles.
    """
    weights = layer.parameter_bits
    every = chip.least_cycles(0, int(found.links.max()), run.runs)
    inputs, outputs = (found.read - weights) // run.runs, found.written // run.runs
    computing = max(tile_cycles - gathering.cycles, gathering.link_cycles)
    running = computing + max(gathering.cycles, chip.least_cycles(outputs, 0))
    running = max(running, 0 if run.runs == 1 else every)
    # The first fetch is of inputs and weights; partial sums use links later.
    fetched = chip.least_cycles(0, int((found.links - found.sum_links).max()), run.runs)
    return NodeRuns(
        BatchRun.of_leaf(weights + inputs, fetched, fetched, running, weights + inputs + outputs, every),
        BatchRun.of_leaf(inputs, fetched, fetched, running, inputs + outputs, every),
    )


def in_bands(
    chip: Chip,
    layer: LeafLayer,
    run: LeafRun,
    bands: LeafBands,
    cost: LeafCost,
    band_cycles: Array,
    rounds: PassingRounds | None = None,
) -> LeafCost:
    """The cost of a leaf that runs band by band, from its ``cost`` in one piece.

    ``band_cycles`` [bands]: of the slowest tile. ``rounds``: of each band, where tiles share weights. Traffic
    and energy stay the same: every row of inputs comes once, as a tile keeps the rows that later bands read.
    Only times differ, and what tiles hold at a time. The very first band counts by itself, and all others are
    taken to be equally long.
    """
    each, times = [int(one) for one in band_cycles], run.runs * bands.count
    held, kept = cost.held.copy(), np.zeros(chip.tiles, np.int64)
    first_part = 0
    for number, stream in enumerate(layer.streams):
        if stream.kind == "inputs":
            stay, come = bands.held(stream.producer, run.runs > 1)
            of_row = cost.held[number] // bands.rows_read
            held[number] = come * of_row
            kept += stay * of_row
            begin, end = bands.coming(None)[0]
            first_part = max(first_part, end - begin)
    weights, rows = layer.parameter_bits, layer.layer.h
    inputs, outputs = cost.dram_read_bits - weights, cost.dram_write_bits
    first_in = inputs // run.runs * first_part // max(bands.rows_read, 1)
    first_out = outputs // run.runs * bands.heights[0] // rows
    busiest = chip.least_cycles(0, int(cost.links.max()), times)
    # The mean of all bands but the first, rounded up.
    later_in, later_out = (
        -(-(whole - one) // (times - 1)) for whole, one in ((inputs, first_in), (outputs, first_out))
    )
    later_cycles = -(-(run.runs * sum(each) - each[0]) // (times - 1))
    first = max(each[0], chip.least_cycles(first_out, 0), busiest)
    later = max(later_cycles, chip.least_cycles(later_out, 0), busiest)
    fetched, first_round = busiest, 0
    if rounds is not None:
        first, later, first_round = max(first, rounds.cycles), max(later, rounds.cycles), rounds.first
        fetched = chip.least_cycles(0, int((cost.links - rounds.links).max()), times)
    moved_first, moved_later = weights + first_in + first_out, later_in + later_out
    runs = NodeRuns(
        BatchRun.of_leaf(weights + first_in, fetched, fetched, first_round + first, moved_first, busiest),
        BatchRun.of_leaf(later_in, fetched + first_round, fetched, later, moved_later, busiest),
    )
    moved = cost.dram_read_bits + cost.dram_write_bits
    cycles = max(later_cycles, chip.least_cycles(moved, int(cost.links.max()), times))
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
