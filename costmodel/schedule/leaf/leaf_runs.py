"""How a leaf runs in time: what it fetches before a batch, and what it moves while it computes.

:class:`costmodel.schedule.starts.NodeRuns` says what the numbers mean. Inputs come before their batch, and
pinned weights come before the first batch. Of streamed weights the first slices come before each batch, and
all others while it runs. So do those that tiles pass on to one another. Outputs leave while the leaf runs. To
whom tiles send them is known only when the leaves are known that read them: :meth:`.starts.LeafRuns.sending`.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.leaf.counted_row import LeafTraffic
from costmodel.schedule.leaf.leaf_cost import LeafCost
from costmodel.schedule.leaf.leaf_layer import LeafLayer
from costmodel.schedule.leaf.reduction import FoundReduction, Gathering
from costmodel.schedule.leaf.sharing import FoundSharing, PassingRounds
from costmodel.schedule.leaf.streams import LeafRun
from costmodel.schedule.row_bands import LeafBands
from costmodel.schedule.starts import BatchRun, LeafRuns, each_of, link_cycles

Array = NDArray[Any]


def pinned_runs(
    chip: Chip, layer: LeafLayer, run: LeafRun, traffic: LeafTraffic, tile_cycles: int
) -> LeafRuns:
    """The runs of a leaf with pinned weights, or with none that are parameters."""
    weights = layer.parameter_bits
    inputs, outputs = (traffic.read - weights) // run.runs, traffic.written // run.runs
    running = max(tile_cycles, chip.least_cycles(outputs, 0))
    return _with_pinned(chip, layer, traffic, run.runs, (weights, inputs, outputs), (running, running))


def _with_pinned(
    chip: Chip,
    layer: LeafLayer,
    traffic: LeafTraffic,
    times: int,
    bits: tuple[int, int, int],
    running: tuple[int, int],
    waiting: tuple[int, int] = (0, 0),
    between_last: bool = False,
) -> LeafRuns:
    """A leaf whose weights come once, before the first of so many ``times``.

    ``bits``: of all weights, and of inputs and outputs of one time. ``running``, ``waiting``: of the first
    time and of each later one. ``between_last``: what its tiles send one another moves with its
    outputs, and not before.
    """
    (weights, inputs, outputs), (leaving, loaded, pinned) = bits, traffic.with_dram
    if layer.has_parameters:
        ahead = each_of(loaded, times)
        ahead_first = ahead + pinned
    else:  # weights that are activations come as inputs do
        ahead = ahead_first = each_of(loaded + pinned, times)
    stored = each_of(leaving, times)
    during = stored if traffic.between is None else each_of(leaving + traffic.between, times)
    of_later, of_all = inputs + outputs, weights + inputs + outputs
    later = BatchRun(inputs, link_cycles(chip, ahead), 0, running[1], of_later, ahead, during)
    links_first = link_cycles(chip, ahead_first)
    first = BatchRun(weights + inputs, links_first, 0, running[0], of_all, ahead_first, during)
    return LeafRuns(first, later, times, pinned, during if between_last else stored, waiting)


def streamed_runs(
    chip: Chip,
    layer: LeafLayer,
    run: LeafRun,
    traffic: LeafTraffic,
    tile_cycles: int,
    k_parts: int,
    slices: int,
) -> LeafRuns:
    """The runs of a leaf with streamed weights, all alike.

    The output channels are cut into ``k_parts``, and each of these into ``slices``. Links carry equal parts
    of the weights for each slice.
    """
    weights = layer.parameter_bits
    first = layer.first_slices_bits(k_parts, slices)
    inputs, outputs = traffic.read // run.runs - weights, traffic.written // run.runs
    during = chip.least_cycles(weights - first + outputs, 0)
    stored, loaded, of_weights = traffic.with_dram
    ahead = each_of(loaded, run.runs) + each_of(of_weights, run.runs * slices)
    leaving = each_of(slices * stored + (slices - 1) * of_weights, run.runs * slices)
    batch = BatchRun(
        first + inputs,
        link_cycles(chip, ahead),
        0,
        max(tile_cycles, during),
        weights + inputs + outputs,
        ahead,
        leaving,
    )
    return LeafRuns(batch, batch, run.runs, np.zeros_like(of_weights), leaving)


def shared_runs(
    chip: Chip, layer: LeafLayer, run: LeafRun, found: FoundSharing, tile_cycles: int, rounds: PassingRounds
) -> LeafRuns:
    """The runs of a leaf whose tiles share their weights.

    Shares come before the first run, as pinned weights do, and the first slice is passed on when they are
    there. Before every later run it is passed on ahead, as inputs come. All other slices are passed on while
    the one before is computed.
    """
    weights = layer.parameter_bits
    traffic = found.traffic
    inputs, outputs = (traffic.read - weights) // run.runs, traffic.written // run.runs
    running = max(tile_cycles, chip.least_cycles(outputs, 0), rounds.cycles)
    runs = _with_pinned(
        chip,
        layer,
        traffic,
        run.runs,
        (weights, inputs, outputs),
        (rounds.first + running, running),
        (rounds.first, 0),
        True,
    )
    return _first_slice_ahead(runs, rounds)


def _first_slice_ahead(runs: LeafRuns, rounds: PassingRounds) -> LeafRuns:
    """The same where the first slice of shared weights is passed on before every later run."""
    return runs._replace(later=runs.later._replace(link_cycles=runs.later.link_cycles + rounds.first))


def reduced_runs(
    chip: Chip,
    layer: LeafLayer,
    run: LeafRun,
    found: FoundReduction,
    gathering: Gathering,
    tile_cycles: int,
) -> LeafRuns:
    """The runs of a leaf whose input channels are cut.

    Partial sums leave while they are computed, and outputs leave while partial sums are added.
    """
    weights = layer.parameter_bits
    traffic = found.traffic
    inputs, outputs = (traffic.read - weights) // run.runs, traffic.written // run.runs
    computing = max(tile_cycles - gathering.cycles, gathering.link_cycles)
    running = computing + max(gathering.cycles, chip.least_cycles(outputs, 0))
    return _with_pinned(
        chip,
        layer,
        traffic,
        run.runs,
        (weights, inputs, outputs),
        (running, running),
        (computing, computing),
    )


def in_bands(
    chip: Chip,
    layer: LeafLayer,
    run: LeafRun,
    bands: LeafBands,
    cost: LeafCost,
    traffic: LeafTraffic,
    band_cycles: Array,
    rounds: PassingRounds | None = None,
) -> LeafCost:
    """The cost of a leaf that runs band by band, from its ``cost`` and ``traffic`` in one piece.

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
    # The mean of all bands but the first, rounded up.
    later_in, later_out = (
        -(-(whole - one) // (times - 1)) for whole, one in ((inputs, first_in), (outputs, first_out))
    )
    later_cycles = -(-(run.runs * sum(each) - each[0]) // (times - 1))
    passing, first_round = (0, 0) if rounds is None else (rounds.cycles, rounds.first)
    first = max(each[0], chip.least_cycles(first_out, 0), passing)
    later = max(later_cycles, chip.least_cycles(later_out, 0), passing)
    runs = _with_pinned(
        chip,
        layer,
        traffic,
        times,
        (weights, later_in, later_out),
        (first_round + first, later),
        (first_round, 0),
        rounds is not None,
    )
    # links carry equal parts in every band, DRAM less in the first one
    of_first = weights + first_in
    runs = runs._replace(first=runs.first._replace(ahead_bits=of_first, dram_bits=of_first + first_out))
    if rounds is not None:
        runs = _first_slice_ahead(runs, rounds)
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
