"""The cheapest partition and placement of a leaf (SET, section 4.2.2), compiled.

A leaf's outputs are cut into K x B x H x W parts. The parts lie on consecutive tiles in a placement order:
its last axis counts fastest. With parts (K, B, H, W) = (2, 1, 3, 1) on tiles 4 to 9:

    order K, H:   tile  4     5     6     7     8     9      order H, K:   4     5     6     7     8     9
                  part  k0h0  k0h1  k0h2  k1h0  k1h1  k1h2                 k0h0  k1h0  k0h1  k1h1  k0h2  k1h2

Tiles are numbered along the mesh in stripes (:class:`costmodel.hardware.chip.Chip`), so the order decides how
far data travels.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import called, entry, inlined
from costmodel.schedule.leaf.kernels.columns_kernel import column_above
from costmodel.schedule.leaf.kernels.equal_parts_kernel import equal_parts, fill_parts
from costmodel.schedule.leaf.kernels.leaf_values import (
    COLUMN,
    FOUND,
    CheapestLeaf,
    KernelLeaf,
    LeafPlacement,
    PartitionTable,
    TransferPrices,
    Workspace,
)
from costmodel.schedule.leaf.kernels.links_kernel import (
    add_links_of_tiles,
    load_apart,
    load_dram,
)
from costmodel.schedule.leaf.kernels.nearness_kernel import find_nearness
from costmodel.schedule.leaf.kernels.overlap_kernel import fill_overlaps
from costmodel.schedule.leaf.kernels.placement_kernel import axes_cut, steps_of, tile_of, tiles_of
from costmodel.schedule.leaf.kernels.ranges_kernel import (
    ANY,
    OUTPUTS,
    Ranges,
    Two,
    ceil_divided,
    is_skipped,
    size_of,
    volume,
)
from costmodel.schedule.leaf.kernels.transfer_kernel import count_hops, least_transfer, tighten
from costmodel.schedule.leaf.kernels.watched_link_kernel import (
    watch,
    watch_nothing,
    watched_above,
)

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Real = Any
"""A 64-bit float of compiled code."""


@entry
def search(
    workspace: Workspace,
    leaf: KernelLeaf,
    table: PartitionTable,
    prices: TransferPrices,
    cheapest: CheapestLeaf,
    below: Real,
) -> None:
    """Fill ``cheapest``, whose ``found`` has zeros, and the mesh's links with the bits of the placement that
    was found.

    Only a placement whose E^n D^m is below ``below`` is found.

    Branch and bound over (partition, placement order). First every partition gets a lower bound that holds
    for all its placements. Then partitions are tried in the order of their bounds, until the next bound
    exceeds the best value so far: no later partition can be cheaper. A partition whose turn it is gets a
    better bound, which asks who sends what to whom and takes longer (:func:`.transfer_kernel.tighten`). Of
    equally cheap ones the first row of the table wins, and of its orders the first, so the answer does not
    depend on the order of trying.
    """
    found, bounds = cheapest.found, cheapest.bounds
    found[FOUND.row], least = -1, below
    find_nearness(workspace, leaf, tiles_of(table.parts[0]))
    watch_nothing(workspace.watched)
    for row in range(table.parts.shape[0]):
        hops = bound_hops(workspace, leaf, table.parts[row])
        dram = dram_bits(workspace, leaf, table.parts[row])
        busiest = mean_of_links(workspace, hops)
        bounds[row] = value_of(workspace, leaf, table, prices, row, dram, (hops, busiest))
    for _ in range(table.parts.shape[0]):
        row_now: Int = np.argmin(bounds)
        if bounds[row_now] > least or bounds[row_now] == np.inf:
            break
        bounds[row_now] = np.inf
        prepare(workspace, leaf, table.parts[row_now])
        dram = dram_bits(workspace, leaf, table.parts[row_now])
        most = most_hops(workspace, leaf, table, prices, row_now, dram, least)
        hops = tighten(workspace, placed_in_order(leaf, table, row_now, 0), most)
        busiest = mean_of_links(workspace, hops)
        if value_of(workspace, leaf, table, prices, row_now, dram, (hops, busiest)) > least:
            continue
        for number in range(table.counts[axes_cut(table.parts[row_now])]):
            least = try_placement(workspace, leaf, table, prices, found, (row_now, number), dram, least)
    if found[FOUND.row] < 0:
        return
    # the workspace holds the last placement tried: count the one that was found once more
    placed = placed_in_order(leaf, table, found[FOUND.row], found[FOUND.order])
    prepare(workspace, leaf, placed.parts)
    load_apart(workspace, placed, cheapest.with_dram, cheapest.received)
    found[FOUND.dram_read], found[FOUND.dram_written] = dram_bits(workspace, leaf, placed.parts)
    for number in range(leaf.streams.shape[0]):
        hold(workspace.ranges, placed, leaf.streams[number], cheapest.held[number])


@called
def try_placement(
    workspace: Workspace,
    leaf: KernelLeaf,
    table: PartitionTable,
    prices: TransferPrices,
    found: Array,
    which: Two,
    dram: Two,
    least: Real,
) -> Real:
    """Count one placement of the partition that was prepared, and note it in ``found`` if it is the best.

    ``which``: the row of the table and the number of its order. ``dram``: bits read and written. ``least``:
    the least value so far; the result is that after this placement.

    A placement is counted in four steps, because the loads of single links cost most of the time: at first
    only the sum over all links is known, and the busiest link carries at least their mean. For a placement
    that this does not rule out the link that is watched is counted, then the links along columns, and only if
    these do not, either, all links. Each count ends early where there are more hops, or more bits on
    one link, than the least value so far allows.
    """
    row, number = which
    placed = placed_in_order(leaf, table, row, number)
    most = most_hops(workspace, leaf, table, prices, row, dram, least)
    hops = count_hops(workspace, placed, most)
    if hops > most:
        return least
    value = value_of(workspace, leaf, table, prices, row, dram, (hops, mean_of_links(workspace, hops)))
    if not _better(found, which, value, least):
        return least
    most = most_on_a_link(workspace, leaf, table, prices, row, dram, hops, least)
    load_dram(workspace, placed)
    if watched_above(workspace, placed, most) or column_above(workspace, placed, most):
        return least
    add_links_of_tiles(workspace, placed, most)
    link = busiest_link(workspace)
    busiest = workspace.mesh.links[link]
    watch(workspace, link)
    if busiest > most:
        return least
    value = value_of(workspace, leaf, table, prices, row, dram, (hops, busiest))
    if not _better(found, which, value, least):
        return least
    found[FOUND.row], found[FOUND.order] = row, number
    return value


@inlined
def _better(found: Array, which: Two, value: Real, least: Real) -> Any:
    """Whether a placement has a lower value than the best so far, or the same and comes before it."""
    row, number = which
    before = row < found[FOUND.row] or (row == found[FOUND.row] and number < found[FOUND.order])
    return value < least or (value == least and before)


@called
def bound_hops(workspace: Workspace, leaf: KernelLeaf, parts: Array) -> Int:
    """A lower bound on the hops of every placement of a partition. Fills in its ranges, and the bound of each
    stream.
    """
    fill_parts(workspace, leaf, parts)
    return least_transfer(workspace, LeafPlacement(leaf, parts, (0, 0, 0, 0)))


@called
def prepare(workspace: Workspace, leaf: KernelLeaf, parts: Array) -> Int:
    """Fill in what is the same for every placement of a partition: what :func:`bound_hops` does, and overlaps
    with producers. The result is the bound on hops.
    """
    hops = bound_hops(workspace, leaf, parts)
    fill_overlaps(workspace, leaf, parts)
    workspace.tables.known[:] = 0
    workspace.watched.known[0] = 0
    return hops


@inlined
def placed_in_order(leaf: KernelLeaf, table: PartitionTable, row: Int, number: Int) -> LeafPlacement:
    """The partition in ``row`` of the table in its placement order ``number``."""
    parts = table.parts[row]
    return LeafPlacement(leaf, parts, steps_of(parts, table.orders[axes_cut(parts), number]))


@inlined
def value_of(
    workspace: Workspace,
    leaf: KernelLeaf,
    table: PartitionTable,
    prices: TransferPrices,
    row: Int,
    dram: Two,
    hops_and_busiest: Two,
) -> Real:
    """E^n D^m of one row times the row's factor: E over all runs, D of one run.

    ``dram``: bits read and written over all runs. ``hops_and_busiest``: hops times bits, and the bits on
    the busiest link, both times DRAM ports.
    """
    ports: Int = workspace.mesh.port_x.shape[0]
    read, written = dram
    energy = energy_of(workspace, table, prices, row, dram, hops_and_busiest[0])
    cycles = max(
        table.cycles[row],
        ceil_divided(read + written, prices.dram_bits_per_cycle * leaf.runs),
        ceil_divided(hops_and_busiest[1], prices.link_bits_per_cycle * ports * leaf.runs),
    )
    return table.factors[row] * energy**prices.energy_exponent * float(cycles) ** prices.cycles_exponent


@inlined
def energy_of(
    workspace: Workspace, table: PartitionTable, prices: TransferPrices, row: Int, dram: Two, hops: Int
) -> Real:
    """The energy (pJ) of one row over all runs; ``hops`` times bits times ports."""
    energy = table.energy_pj[row] + hops / workspace.mesh.port_x.shape[0] * prices.hop_pj
    energy += dram[0] * prices.read_pj + dram[1] * prices.write_pj
    return energy


@inlined
def most_hops(
    workspace: Workspace,
    leaf: KernelLeaf,
    table: PartitionTable,
    prices: TransferPrices,
    row: Int,
    dram: Two,
    least: Real,
) -> Int:
    """Hops times bits times ports above which a placement of the row is certainly worse than ``least``.

    :func:`value_of` without the wait for links is solved for the energy, and that for the hops. The result is
    rounded up generously: it only saves time, and the value itself decides between close placements.
    """
    if least == np.inf or prices.energy_exponent == 0 or prices.hop_pj == 0:
        return ANY
    read, written = dram
    cycles = max(table.cycles[row], ceil_divided(read + written, prices.dram_bits_per_cycle * leaf.runs))
    least = least / table.factors[row]
    energy = (least / float(cycles) ** prices.cycles_exponent) ** (1.0 / prices.energy_exponent)
    other = energy_of(workspace, table, prices, row, dram, 0)
    hops = (energy * (1 + 1e-9) - other) / prices.hop_pj * workspace.mesh.port_x.shape[0]
    return np.int64(min(max(hops, -1.0), 1e18)) + 1


@inlined
def most_on_a_link(
    workspace: Workspace,
    leaf: KernelLeaf,
    table: PartitionTable,
    prices: TransferPrices,
    row: Int,
    dram: Two,
    hops: Int,
    least: Real,
) -> Int:
    """Bits times ports on one link above which a placement with so many ``hops`` is certainly worse than
    ``least``; rounded as :func:`most_hops` is.
    """
    if least == np.inf or prices.cycles_exponent == 0:
        return ANY
    ports: Int = workspace.mesh.port_x.shape[0]
    energy = energy_of(workspace, table, prices, row, dram, hops)
    least = least / table.factors[row]
    cycles = (least / energy**prices.energy_exponent) ** (1.0 / prices.cycles_exponent) * (1 + 1e-9)
    return np.int64(min(cycles * prices.link_bits_per_cycle * ports * leaf.runs, 1e18)) + 1


@inlined
def busiest_link(workspace: Workspace) -> Int:
    """The busiest link, once the loads of links are known; the first of equal ones."""
    links, busiest = workspace.mesh.links, 0
    for link in range(links.shape[0]):
        if links[link] > links[busiest]:
            busiest = link
    return busiest


@inlined
def mean_of_links(workspace: Workspace, hops: Int) -> Int:
    """Bits times ports that the busiest link carries at least: the mean of all links, rounded up."""
    return ceil_divided(hops, _links(workspace))


@inlined
def _links(workspace: Workspace) -> Int:
    """How many links the mesh has: one each way between neighbours; 1 for a single tile, which has none."""
    columns, rows = workspace.flows.out.shape
    return max(2 * (columns * (rows - 1) + rows * (columns - 1)), 1)


@called
def dram_bits(workspace: Workspace, leaf: KernelLeaf, parts: Array) -> Two:
    """Bits read from and written to DRAM over all runs; a range that several tiles need is read once."""
    read: Int = 0
    written: Int = 0
    for number in range(leaf.streams.shape[0]):
        stream = leaf.streams[number]
        channels = (stream[COLUMN.first], stream[COLUMN.end])
        equal = equal_parts(workspace, leaf, number)
        elements = volume(workspace.ranges, equal, stream[COLUMN.kind], channels, parts)
        size = stream[COLUMN.times] * stream[COLUMN.bits] * elements
        if stream[COLUMN.kind] == OUTPUTS:
            written += size
        elif not stream[COLUMN.direct]:
            read += size
    return read, written


@called
def hold(ranges: Ranges, placed: LeafPlacement, stream: Array, held: Array) -> None:
    """Fill ``held`` [tiles] with the bits of a stream that every tile holds for one batch."""
    parts = placed.parts
    held[:] = 0
    for k in range(parts[0]):
        for b in range(parts[1]):
            for h in range(parts[2]):
                for w in range(parts[3]):
                    if is_skipped(ranges, k, b, h, w):
                        continue
                    which = (stream[COLUMN.kind], k, b, h, w)
                    elements = size_of(ranges, which, (stream[COLUMN.first], stream[COLUMN.end]))
                    held[tile_of(placed, k, b, h, w)] = elements * stream[COLUMN.bits]
