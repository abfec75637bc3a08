"""The cheapest partition and placement of a leaf whose input channels are cut into a given number of parts.

:mod:`costmodel.schedule.reductions` says what such a leaf is.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.boxes.arrays import Interval
from costmodel.schedule.boxes.partition import part_of
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.schedule.leaf.geometry import orders_of
from costmodel.schedule.leaf.streams import STREAM_KINDS, LeafRun

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


@dataclass(frozen=True)
class FoundReduction:
    """A row of the table with a placement order, and what they move over all runs.

    ``links``: bits times ports on each link, of everything; ``sum_links``: of partial sums alone. ``held``
    [streams, tiles], ``sums`` [tiles]: bits of one batch.
    """

    row: int
    order: tuple[int, ...]
    read: int
    written: int
    links: Array
    sum_links: Array
    held: Array
    sums: Array
    energy_pj: float
    cycles: int

    def value(self, exponents: tuple[float, float]) -> float:
        """E^n D^m."""
        return float(self.energy_pj ** exponents[0] * float(self.cycles) ** exponents[1])


def channel_parts(layer: NetworkLayer, reduced: int) -> list[Interval]:
    """The input channels of each part; the first one is the largest."""
    return [part_of(layer.c, reduced, part) for part in range(reduced)]


def cheapest_reduction(
    leaf: ReducedLeaf, workspace: Any, chip: Chip, exponents: tuple[float, float]
) -> FoundReduction | None:
    """The row and order with the least E^n D^m, the first of equal ones; None where there are no rows.

    Rows are tried in the order of their values without links and DRAM, which are lower bounds. The search
    ends with the first row whose bound is no less than the best value.
    """
    least = leaf.energy_pj ** exponents[0] * leaf.cycles.astype(np.float64) ** exponents[1]
    best: FoundReduction | None = None
    for row in np.argsort(least, kind="stable").tolist():
        if best is not None and least[row] >= best.value(exponents):
            break
        for order in orders_of(leaf.parts[row]):
            found = _counted(leaf, workspace, chip, row, order)
            if best is None or found.value(exponents) < best.value(exponents):
                best = found
    return best


def _counted(
    leaf: ReducedLeaf, workspace: Any, chip: Chip, row: int, order: tuple[int, ...]
) -> FoundReduction:
    """What one row moves in one order: part by part of the channels, then the partial sums."""
    from costmodel.schedule.leaf.kernels.leaf_values import COLUMN, KernelLeaf, LeafPlacement
    from costmodel.schedule.leaf.kernels.reduction_kernel import count_streams, count_sums

    run, parts = leaf.run, leaf.parts[row]
    steps, step = [0, 0, 0, 0], run.reduced
    for axis in reversed(order):
        steps[axis], step = step, step * int(parts[axis])
    k, b, h, w = steps
    links = np.zeros(len(workspace.mesh.links), np.int64)
    held = np.zeros((len(leaf.streams), chip.tiles), np.int64)
    of_part, moved, total = np.zeros_like(held), np.zeros(2, np.int64), np.zeros(2, np.int64)
    streams = leaf.streams.copy()
    placements = []
    for number, space in enumerate(leaf.spaces):
        kernel_leaf = KernelLeaf(space, leaf.sizes, run.first_tile + number, run.runs, streams.copy())
        placements.append(LeafPlacement(kernel_leaf, parts, (k, b, h, w)))
        count_streams(workspace, placements[-1], of_part, moved)
        links += workspace.mesh.links
        held += of_part
        total += moved
        # The owners have the first part of the channels, and only they send outputs to DRAM.
        streams[streams[:, COLUMN.kind] == STREAM_KINDS["outputs"], COLUMN.times] = 0
    sums = np.zeros(chip.tiles, np.int64)
    count_sums(workspace, placements[0], run.reduced, leaf.sum_bits, sums)
    sum_links = workspace.mesh.links.copy()
    links += sum_links
    read, written = total.tolist()
    energy_pj = float(leaf.energy_pj[row]) + int(links.sum()) / len(chip.ports) * chip.noc.hop_pj_per_bit
    energy_pj += read * chip.dram.read_pj_per_bit + written * chip.dram.write_pj_per_bit
    on_chip = chip.least_cycles(read + written, int(links.max()), run.runs)
    cycles = max(int(leaf.cycles[row]), on_chip)
    return FoundReduction(row, order, read, written, links, sum_links, held, sums, energy_pj, cycles)
