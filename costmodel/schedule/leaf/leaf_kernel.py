"""The cheapest partition and placement of a leaf, compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import called, entry, inlined
from costmodel.schedule.leaf.leaf_values import (
    DIRECT,
    FIRST,
    KIND,
    LAST,
    TIMES,
    CheapestLeaf,
    KernelLeaf,
    LeafPlacement,
    PartitionTable,
    TransferPrices,
    Workspace,
)
from costmodel.schedule.leaf.overlap_kernel import fill_overlaps
from costmodel.schedule.leaf.placement_kernel import axes_cut, steps_of, tile_of
from costmodel.schedule.leaf.ranges_kernel import (
    OUTPUTS,
    Ranges,
    Two,
    ceil_divided,
    fill_ranges,
    size_of,
    volume,
)
from costmodel.schedule.mesh.transfer_kernel import BOUND, HOPS, LINKS, transfer

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
    answer: CheapestLeaf,
) -> None:
    """Fill ``answer`` and the mesh's links.

    Partitions come in the order of what they cost at least, until no other can be cheaper. Of equally cheap
    ones the first of the table is found.
    """
    found, bounds = answer.found, answer.bounds
    found[0], least = -1, np.inf
    for row in range(table.parts.shape[0]):
        _prepare(workspace, leaf, table.parts[row])
        hops = transfer(workspace, LeafPlacement(leaf, table.parts[row], (0, 0, 0, 0)), BOUND)
        bounds[row] = _value(workspace, leaf, table, prices, row, (hops, _busiest(workspace, hops, BOUND)))
    for _ in range(table.parts.shape[0]):
        cheapest: Int = np.argmin(bounds)
        if bounds[cheapest] > least or bounds[cheapest] == np.inf:
            break
        bounds[cheapest] = np.inf
        _prepare(workspace, leaf, table.parts[cheapest])
        for number in range(table.counts[axes_cut(table.parts[cheapest])]):
            placed = _placed(leaf, table, cheapest, number)
            for asked in range(HOPS, LINKS + 1):  # links only for what its hops do not rule out
                hops = transfer(workspace, placed, asked)
                value = _value(
                    workspace, leaf, table, prices, cheapest, (hops, _busiest(workspace, hops, asked))
                )
                if value > least or (value == least and cheapest >= found[0]):
                    break
                if asked == LINKS:
                    least = value
                    found[0], found[1] = cheapest, number
    if found[0] < 0:
        return
    placed = _placed(leaf, table, found[0], found[1])
    _prepare(workspace, leaf, placed.parts)
    transfer(workspace, placed, LINKS)
    found[2], found[3] = _dram_bytes(workspace.ranges, leaf, placed.parts)
    for number in range(leaf.streams.shape[0]):
        _hold(workspace.ranges, placed, leaf.streams[number], answer.held[number])


@called
def _prepare(workspace: Workspace, leaf: KernelLeaf, parts: Array) -> None:
    """All about a partition that is the same for every placement of it."""
    fill_ranges(leaf.shape, leaf.sizes, parts, workspace.ranges)
    fill_overlaps(workspace, leaf, parts)


@inlined
def _placed(leaf: KernelLeaf, table: PartitionTable, row: Int, number: Int) -> LeafPlacement:
    parts = table.parts[row]
    return LeafPlacement(leaf, parts, steps_of(parts, table.orders[axes_cut(parts), number]))


@inlined
def _value(
    workspace: Workspace,
    leaf: KernelLeaf,
    table: PartitionTable,
    prices: TransferPrices,
    row: Int,
    hops_and_busiest: Two,
) -> Real:
    """The objective of one row: E of all runs, D of one; hops and the busiest link times ports."""
    ports: Int = workspace.mesh.port_x.shape[0]
    read, written = _dram_bytes(workspace.ranges, leaf, table.parts[row])
    energy = table.energy_pj[row] + hops_and_busiest[0] / ports * prices.hop_pj
    energy += read * prices.read_pj + written * prices.write_pj
    cycles = max(
        table.cycles[row],
        ceil_divided(read + written, prices.dram_bytes_per_cycle * leaf.runs),
        ceil_divided(hops_and_busiest[1], prices.link_bytes_per_cycle * ports * leaf.runs),
    )
    return energy**prices.energy_exponent * float(cycles) ** prices.cycles_exponent


@inlined
def _busiest(workspace: Workspace, hops: Int, asked: Int) -> Int:
    """What the busiest link carries at least: no less than all of them on average."""
    busiest = ceil_divided(hops, _links(workspace))
    if asked == LINKS:
        for link in range(workspace.mesh.links.shape[0]):
            busiest = max(busiest, workspace.mesh.links[link])
    return busiest


@inlined
def _links(workspace: Workspace) -> Int:
    """Links between neighbours, one for each direction."""
    columns, rows = workspace.flows.out.shape
    return max(2 * (columns * (rows - 1) + rows * (columns - 1)), 1)


@called
def _dram_bytes(ranges: Ranges, leaf: KernelLeaf, parts: Array) -> Two:
    """Bytes read and written over all runs; a range that several tiles need is read once."""
    read: Int = 0
    written: Int = 0
    for number in range(leaf.streams.shape[0]):
        stream = leaf.streams[number]
        size = stream[TIMES] * volume(ranges, stream[KIND], (stream[FIRST], stream[LAST]), parts)
        if stream[KIND] == OUTPUTS:
            written += size
        elif not stream[DIRECT]:
            read += size
    return read, written


@called
def _hold(ranges: Ranges, placed: LeafPlacement, stream: Array, held: Array) -> None:
    """Fill the bytes of a stream that every tile holds."""
    parts = placed.parts
    held[:] = 0
    for k in range(parts[0]):
        for b in range(parts[1]):
            for h in range(parts[2]):
                for w in range(parts[3]):
                    size = size_of(ranges, (stream[KIND], k, b, h, w), (stream[FIRST], stream[LAST]))
                    held[tile_of(placed, k, b, h, w)] = size
