"""The cheapest partition and placement of a leaf whose input channels are cut into a given number of parts.

:mod:`costmodel.schedule.reductions` says what such a leaf is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.boxes.arrays import Interval
from costmodel.schedule.boxes.partition import part_of
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.schedule.leaf.counted_row import CountedRow, TrafficApart, cheapest_row, with_transfers
from costmodel.schedule.leaf.streams import STREAM_KINDS, LeafRun, Placement

Array = NDArray[Any]


@dataclass(frozen=True)
class Gathering:
    """Adding up the partial sums of a leaf, in one run of it.

    ``cycles``: of adding, on the owner with the most outputs. ``owners``: how many tiles own outputs.
    ``operations``: of the vector units of all owners. ``link_cycles``: of the busiest link, for partial sums
    only. ``sums`` [tiles]: bits of the partial sums that each owner holds.
    """

    cycles: int
    owners: int
    operations: int
    link_cycles: int
    sums: Array


@dataclass(frozen=True)
class Adding:
    """The same for n partitions, as far as it does not depend on the placement; energies are of one run.

    ``cycles`` [n]; ``operations``; ``tiles_pj``: of the vector units. ``transfers_pj``: of writing others'
    partial sums into owners' buffers, and of reading the outputs from there. ``held`` [n]: bits of the sums
    on the fullest owner.
    """

    cycles: Array
    operations: int
    tiles_pj: float
    transfers_pj: float
    held: Array

    @staticmethod
    def of(layer: NetworkLayer, chip: Chip, batch: int, parts: Array, reduced: int) -> Adding:
        """Of partitions [n, 4] of the outputs of ``batch`` samples."""
        tile, bits, sizes = chip.tile, ElementBits.of(layer, chip.tile.widths), layer.sizes(batch)
        largest, outputs = (-(-np.array(sizes) // parts)).prod(axis=1), int(np.prod(sizes))
        received = (reduced - 1) * outputs * bits.partial_sums
        return Adding(
            cycles=-(-reduced * largest // tile.vector_units),
            operations=reduced * outputs,
            tiles_pj=reduced * outputs * tile.vector_operation_pj,
            transfers_pj=received * tile.buffer.write_pj_per_bit
            + outputs * bits.outputs * tile.buffer.read_pj_per_bit,
            held=reduced * largest * bits.partial_sums,
        )


@dataclass(frozen=True)
class ReducedLeaf:
    """The partitions from which a search chooses: ``parts`` [n, 4] of outputs, with their costs.

    ``sizes``: K, B, H and W of the outputs. ``sum_bits``: of a partial sum. ``spaces``: the layer's iteration
    space for each part of its input channels. ``streams`` [streams, columns]: see
    :class:`.streams.StreamRow`. ``energy_pj`` [n]: of all runs, without NoC and DRAM. ``cycles`` [n]: of the
    slowest tile in one run, adding included.
    """

    run: LeafRun
    sizes: tuple[int, int, int, int]
    sum_bits: int
    spaces: Sequence[Any]
    streams: Array
    parts: Array
    energy_pj: Array
    cycles: Array


@dataclass(frozen=True, kw_only=True)
class FoundReduction(CountedRow):
    """What tiles send one another are partial sums. ``sums`` [tiles]: bits of one batch."""

    sums: Array


def channel_parts(layer: NetworkLayer, reduced: int) -> list[Interval]:
    """The input channels of each part; the first one is the largest."""
    return [part_of(layer.c, reduced, part) for part in range(reduced)]


def cheapest_reduction(
    leaf: ReducedLeaf, workspace: Any, chip: Chip, exponents: tuple[float, float]
) -> FoundReduction | None:
    """The row and order with the least E^n D^m; None where there are no rows.

    The bounds of rows are their values without links and DRAM.
    """
    least = leaf.energy_pj ** exponents[0] * leaf.cycles.astype(np.float64) ** exponents[1]
    return cheapest_row(least, leaf.parts, partial(_counted, leaf, workspace, chip), exponents)


def _counted(
    leaf: ReducedLeaf, workspace: Any, chip: Chip, row: int, order: tuple[int, ...]
) -> FoundReduction:
    """What one row moves in one order: part by part of the channels, then the partial sums."""
    from costmodel.schedule.leaf.kernels.leaf_values import COLUMN, KernelLeaf, LeafPlacement
    from costmodel.schedule.leaf.kernels.reduction_kernel import count_streams, count_sums

    run, parts = leaf.run, leaf.parts[row]
    k, b, h, w = parts.tolist()
    placement = Placement(run.batch, run.first_tile, (k, b, h, w), order, run.reduced)
    links = np.zeros(len(workspace.mesh.links), np.int64)
    held = np.zeros((len(leaf.streams), chip.tiles), np.int64)
    of_part, moved, total = np.zeros_like(held), np.zeros(2, np.int64), np.zeros(2, np.int64)
    apart, whole = TrafficApart.of(leaf.streams, chip), TrafficApart.of(leaf.streams, chip)
    streams = leaf.streams.copy()
    placements = []
    for number, space in enumerate(leaf.spaces):
        kernel_leaf = KernelLeaf(space, leaf.sizes, run.first_tile + number, run.runs, streams.copy())
        placements.append(LeafPlacement(kernel_leaf, parts, placement.steps))
        count_streams(workspace, placements[-1], of_part, moved, *apart)
        links += workspace.mesh.links
        whole.with_dram[:] += apart.with_dram
        whole.received[:] += apart.received
        held += of_part
        total += moved
        # The owners have the first part of the channels, and only they send outputs to DRAM.
        streams[streams[:, COLUMN.kind] == STREAM_KINDS["outputs"], COLUMN.times] = 0
    sums = np.zeros(chip.tiles, np.int64)
    count_sums(workspace, placements[0], run.reduced, leaf.sum_bits, sums)
    sum_links = workspace.mesh.links.copy()
    links += sum_links
    read, written = total.tolist()
    own = float(leaf.energy_pj[row]), int(leaf.cycles[row])
    energy_pj, cycles = with_transfers(chip, run.runs, *own, (read, written), links)
    return FoundReduction(
        row=row,
        placement=placement,
        traffic=whole.traffic(leaf.streams, (read, written), links, sum_links),
        held=held,
        energy_pj=energy_pj,
        cycles=cycles,
        sums=sums,
    )
