"""Leaves whose tiles share weights: each holds a part of them and passes it on in turn (KAPLA's ``shr``).

Where a partition cuts samples, rows or columns, several tiles need the same weights. With pinned weights each
holds all of them. Tiles that share hold a *share* each, some of the output channels, which it loads once and
keeps for all runs. In a run all tiles compute their parts slice by slice. The tile that has a slice in its
share, its owner, passes it on to the other sharers while these compute the slice before. With four sharers
and two slices a share::

    share of tile          0           1           2           3
    slice               | 0 | 1     | 2 | 3     | 4 | 5     | 6 | 7

    tile 0 computes     | slice 0   | slice 1   | slice 2   | slice 3   | ...
    slice passed on     | slice 1   | slice 2   | slice 3   | slice 4   | ...
    by tile             | 0         | 1         | 1         | 2         | ...
    slices in tile 0    | none      | 2         | 2, 3      | 3, 4      | ...    beside its share

So a tile holds a share and up to two slices in place of all weights of its part. Links carry the weights once
in every run, to all sharers but the owner, in a tree for each slice. DRAM sends them once, as for pinned
weights. Streamed weights come slice by slice, too, but from DRAM (:mod:`.leaf`).

The sharers are neighbours in the order of their numbers: n tiles with the same weights are n / s groups of s
sharers, and the first tiles of all groups have the same share, which DRAM sends them at once. Before its
first run a leaf waits until the first slice has been passed on.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.leaf.counted_row import CountedRow, TrafficApart, with_transfers
from costmodel.schedule.leaf.geometry import orders_of, placement_orders
from costmodel.schedule.leaf.streams import STREAM_KINDS, LeafRun, Placement

Array = NDArray[Any]


@dataclass(frozen=True)
class SharedWeights:
    """Weights that ``sharers`` tiles share; ``kept`` [tiles]: bits of each tile's share."""

    sharers: int
    kept: Array


@dataclass(frozen=True)
class SharedLeaf:
    """The partitions from which a search chooses: ``parts`` [n, 4] of outputs, with their costs.

    ``sizes``: K, B, H and W of the outputs. ``of_channel``: bits of the weights of an output channel.
    ``streams`` [streams, columns]: see :class:`.streams.StreamRow`; weights move no times in them.
    ``energy_pj`` [n]: of all runs, without NoC and DRAM. ``cycles`` [n]: of the slowest tile in one run.
    ``sharers`` [n].
    """

    run: LeafRun
    sizes: tuple[int, int, int, int]
    of_channel: int
    space: Any
    streams: Array
    parts: Array
    energy_pj: Array
    cycles: Array
    factors: Array
    sharers: Array

    @property
    def weight_bits(self) -> int:
        """Of all weights, each counted once."""
        return self.sizes[0] * self.of_channel


@dataclass(frozen=True, kw_only=True)
class FoundSharing(CountedRow):
    """What tiles send one another are slices. ``kept`` [tiles]: bits of the shares."""

    kept: Array


@dataclass(frozen=True)
class PassingRounds:
    """Passing on all slices in one run of a leaf, or in one band of it.

    ``cycles``: for all of them, one after the other. ``first``: for the first one.
    """

    cycles: int
    first: int

    @staticmethod
    def of(chip: Chip, run: LeafRun, found: FoundSharing, slice_bits: int, slices: int) -> PassingRounds:
        """Of ``slices``, of which the largest has ``slice_bits``; no two of a group move at a time."""
        busiest = chip.least_cycles(0, int(found.traffic.links_between.max()), run.times)
        # Two bounds: the busiest link carries all its bits, and slices go one after another, each as long as
        # the largest one takes to leave its owner. ``least_cycles`` expects bits times ports, as links count
        # them.
        cycles = max(busiest, slices * chip.least_cycles(0, slice_bits * len(chip.ports)))
        return PassingRounds(cycles, -(-cycles // slices))


def most_slices(slices: Any, sharers: Any) -> Any:
    """How many slices of others a tile holds at most at a time: the one in use and the next one."""
    # Of these slices its own are in its share already; where others own a single one, there is no next one.
    return np.minimum(2, slices - slices // sharers)


def cheapest_sharing(
    leaf: SharedLeaf, workspace: Any, chip: Chip, prices: Any, below: float
) -> FoundSharing | None:
    """The row and order with the least E^n D^m; None if none is below ``below``.

    ``prices``: a :class:`.kernels.leaf_values.TransferPrices`, which has the exponents.
    """
    from costmodel.schedule.leaf.kernels.leaf_values import FOUND, KernelLeaf, PartitionTable
    from costmodel.schedule.leaf.kernels.sharing_kernel import SharingRows, search_sharing

    run, rows = leaf.run, len(leaf.parts)
    kernel_leaf = KernelLeaf(leaf.space, leaf.sizes, run.first_tile, run.runs, leaf.streams)
    table = PartitionTable(leaf.parts, leaf.energy_pj, leaf.cycles, leaf.factors, *placement_orders())
    scratch = np.zeros(rows), np.zeros(chip.tiles, np.int64), np.zeros(chip.tiles, np.int64)
    shared = SharingRows(leaf.of_channel, leaf.sharers, run.times, *scratch)
    found = np.zeros(len(FOUND), np.int64)
    search_sharing(workspace, kernel_leaf, table, shared, prices, found, below)
    row, number = int(found[FOUND.row]), int(found[FOUND.order])
    if row < 0:
        return None
    return _counted(leaf, workspace, chip, row, orders_of(leaf.parts[row])[number])


def _counted(leaf: SharedLeaf, workspace: Any, chip: Chip, row: int, order: tuple[int, ...]) -> FoundSharing:
    """What one row moves in one order: all data but the weights, then shares, then what tiles pass on."""
    # Imported when used: numba takes a second to import, and most of what reads this module's types never
    # counts.
    from costmodel.schedule.leaf.kernels.leaf_values import KernelLeaf, LeafPlacement
    from costmodel.schedule.leaf.kernels.reduction_kernel import count_streams
    from costmodel.schedule.leaf.kernels.sharing_kernel import count_rounds, count_shares

    run, parts, sharers = leaf.run, leaf.parts[row], int(leaf.sharers[row])
    k, b, h, w = parts.tolist()
    placement = Placement(run.batch, run.first_tile, (k, b, h, w), order)
    kernel_leaf = KernelLeaf(leaf.space, leaf.sizes, run.first_tile, run.runs, leaf.streams)
    placed = LeafPlacement(kernel_leaf, parts, placement.steps)
    held, moved = np.zeros((len(leaf.streams), chip.tiles), np.int64), np.zeros(2, np.int64)
    # Each of the three counts clears the mesh's links first. What passing on loads is kept apart, as it alone
    # recurs in the rounds of every run (PassingRounds).
    apart = TrafficApart.of(leaf.streams, chip)
    count_streams(workspace, placed, held, moved, *apart)
    links = workspace.mesh.links.copy()
    kept, tiles = np.zeros(chip.tiles, np.int64), np.zeros(chip.tiles, np.int64)
    count_shares(workspace, placed, leaf.of_channel, sharers, tiles, kept)
    links += workspace.mesh.links
    apart.with_dram[STREAM_KINDS["weights"]] += workspace.mesh.links
    count_rounds(workspace, placed, leaf.of_channel, sharers, run.times, tiles)
    round_links = workspace.mesh.links.copy()
    links += round_links
    read, written = int(moved[0]) + leaf.weight_bits, int(moved[1])
    own = float(leaf.energy_pj[row]), int(leaf.cycles[row])
    energy_pj, cycles = with_transfers(chip, run.runs, *own, (read, written), links)
    return FoundSharing(
        row=row,
        placement=placement,
        traffic=apart.traffic(leaf.streams, (read, written), links, round_links),
        held=held,
        energy_pj=energy_pj,
        cycles=cycles,
        kept=kept,
    )
