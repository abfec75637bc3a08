"""The weights of a leaf whose tiles share them: from DRAM to the tiles, and among these; compiled.

:mod:`costmodel.schedule.leaf.sharing` says which tile has which share. In both counts the workspace holds the
ranges of the partition, and the mesh's links are filled with what is counted.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import called, entry
from costmodel.schedule.leaf.kernels.leaf_kernel import (
    bound_hops,
    busiest_link,
    dram_bits,
    mean_of_links,
    most_hops,
    placed_in_order,
    prepare,
    value_of,
)
from costmodel.schedule.leaf.kernels.leaf_values import (
    FOUND,
    KernelLeaf,
    LeafPlacement,
    PartitionTable,
    TransferPrices,
    Workspace,
)
from costmodel.schedule.leaf.kernels.links_kernel import load_links
from costmodel.schedule.leaf.kernels.nearness_kernel import find_nearness
from costmodel.schedule.leaf.kernels.placement_kernel import axes_cut, tile_of, tiles_of
from costmodel.schedule.leaf.kernels.ranges_kernel import bound, is_skipped
from costmodel.schedule.leaf.kernels.transfer_kernel import count_hops
from costmodel.schedule.mesh.flows_kernel import add_to_links, clear, load
from costmodel.schedule.mesh.mesh_kernel import Mesh, Span, distance, port_distance, route

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Real = Any
"""A 64-bit float of compiled code."""


class SharingRows(NamedTuple):
    """What a search with shared weights knows beside the table of its partitions.

    ``of_channel``: bits of the weights of an output channel. ``sharers`` [n]: of each row. ``times``: how
    often every slice is passed on over all runs. ``bounds`` [n], ``tiles`` and ``kept`` [tiles]: work space.
    """

    of_channel: int
    sharers: Array
    times: int
    bounds: Array
    tiles: Array
    kept: Array


@entry
def search_sharing(
    workspace: Workspace,
    leaf: KernelLeaf,
    table: PartitionTable,
    shared: SharingRows,
    prices: TransferPrices,
    found: Array,
    below: Real,
) -> None:
    """Fill ``found`` with the row and the order of least E^n D^m, as :func:`.leaf_kernel.search` does.

    The streams of ``leaf`` leave the weights out: these are counted here. An order is counted in three steps,
    each of which may rule it out: hops of the streams, hops of shares and slices, and the loads of links.
    """
    found[FOUND.row], least = -1, below
    ports: Int = workspace.mesh.port_x.shape[0]
    weights = leaf.sizes[0] * shared.of_channel
    find_nearness(workspace, leaf, tiles_of(table.parts[0]))
    for row in range(table.parts.shape[0]):
        hops = bound_hops(workspace, leaf, table.parts[row]) + ports * _least_of_weights(
            leaf, table, shared, row
        )
        read, written = dram_bits(workspace, leaf, table.parts[row])
        dram = read + weights, written
        busiest = mean_of_links(workspace, hops)
        shared.bounds[row] = value_of(workspace, leaf, table, prices, row, dram, (hops, busiest))
    for _ in range(table.parts.shape[0]):
        row_now: Int = np.argmin(shared.bounds)
        if shared.bounds[row_now] > least or shared.bounds[row_now] == np.inf:
            break
        shared.bounds[row_now] = np.inf
        prepare(workspace, leaf, table.parts[row_now])
        read, written = dram_bits(workspace, leaf, table.parts[row_now])
        dram = read + weights, written
        of_weights = ports * _least_of_weights(leaf, table, shared, row_now)
        for number in range(table.counts[axes_cut(table.parts[row_now])]):
            most = most_hops(workspace, leaf, table, prices, row_now, dram, least)
            placed = placed_in_order(leaf, table, row_now, number)
            # weights take at least their bound, so that many orders end before their trees are walked
            hops = count_hops(workspace, placed, most - of_weights)
            if hops > most - of_weights:
                continue
            hops += _hops_of_weights(workspace, placed, shared, row_now)
            value = value_of(
                workspace, leaf, table, prices, row_now, dram, (hops, mean_of_links(workspace, hops))
            )
            if value > least or (value == least and row_now >= found[FOUND.row]):
                continue
            load_links(workspace, placed)
            _load_weights(workspace, placed, shared, row_now)
            busiest = workspace.mesh.links[busiest_link(workspace)]
            value = value_of(workspace, leaf, table, prices, row_now, dram, (hops, busiest))
            if value < least or (value == least and row_now < found[FOUND.row]):
                least = value
                found[FOUND.row], found[FOUND.order] = row_now, number


@called
def _least_of_weights(leaf: KernelLeaf, table: PartitionTable, shared: SharingRows, row: Int) -> Int:
    """A lower bound on hops times bits of shares and slices over all runs, whatever the placement.

    A slice goes from one tile to all other sharers, over as many links at least. A share goes from DRAM to a
    tile of every group, which are joined by one link less than there are groups at least.
    """
    served: Int = 1
    for axis in range(1, 4):
        served *= min(table.parts[row, axis], leaf.sizes[axis])
    groups = served // shared.sharers[row]
    weights = leaf.sizes[0] * shared.of_channel
    return weights * (groups - 1 + shared.times * (served - groups))


@called
def _hops_of_weights(workspace: Workspace, placed: LeafPlacement, shared: SharingRows, row: Int) -> Int:
    """Hops times bits times ports of all shares and slices over all runs."""
    mesh, parts, tiles = workspace.mesh, placed.parts, shared.tiles
    sharers: Int = shared.sharers[row]
    ports: Int = mesh.port_x.shape[0]
    hops: Int = 0
    for k in range(parts[0]):
        count = _alike(workspace, placed, k, tiles)
        for share in range(sharers):
            size = shared.of_channel * _channels(
                placed.leaf.sizes[0], parts[0] * sharers, k * sharers + share
            )
            hops += size * port_distance(mesh, _span(mesh, tiles, share, count, sharers))
        for first in range(0, count, sharers):
            span = _span(mesh, tiles, first, first + sharers, 1)
            for share in range(sharers):
                size = shared.of_channel * _channels(
                    placed.leaf.sizes[0], parts[0] * sharers, k * sharers + share
                )
                owner = tiles[first + share]
                hops += size * shared.times * ports * distance(mesh, mesh.x[owner], mesh.y[owner], span)
    return hops


@called
def _load_weights(workspace: Workspace, placed: LeafPlacement, shared: SharingRows, row: Int) -> None:
    """Add all shares and slices to the mesh's links, which have the other streams."""
    sharers = shared.sharers[row]
    _load_shares(workspace, placed, shared.of_channel, sharers, shared.tiles, shared.kept)
    _load_rounds(workspace, placed, shared.of_channel, sharers, shared.times, shared.tiles)


@entry
def count_shares(
    workspace: Workspace, placed: LeafPlacement, of_channel: Int, sharers: Int, tiles: Array, kept: Array
) -> None:
    """Count what DRAM sends: each share once, in a tree to all tiles that have it.

    ``of_channel``: bits of the weights of an output channel. ``tiles`` [tiles]: work space. Fills ``kept``
    [tiles] with the bits of each tile's share.
    """
    workspace.mesh.links[:] = 0
    _load_shares(workspace, placed, of_channel, sharers, tiles, kept)


@entry
def count_rounds(
    workspace: Workspace, placed: LeafPlacement, of_channel: Int, sharers: Int, times: Int, tiles: Array
) -> None:
    """Count what tiles pass on: each its share, slice by slice, to the others of its group.

    All slices of a share take the same tree, so many ``times``. ``tiles`` [tiles]: work space.
    """
    workspace.mesh.links[:] = 0
    _load_rounds(workspace, placed, of_channel, sharers, times, tiles)


@called
def _load_shares(
    workspace: Workspace, placed: LeafPlacement, of_channel: Int, sharers: Int, tiles: Array, kept: Array
) -> None:
    """The links of :func:`count_shares`, on top of what is on them."""
    mesh, parts, channels = workspace.mesh, placed.parts, placed.leaf.sizes[0]
    clear(workspace.flows)
    kept[:] = 0
    for k in range(parts[0]):
        count = _alike(workspace, placed, k, tiles)
        for share in range(sharers):
            size = of_channel * _channels(channels, parts[0] * sharers, k * sharers + share)
            load(mesh, workspace.flows, _span(mesh, tiles, share, count, sharers), size)
            for number in range(share, count, sharers):
                kept[tiles[number]] = size
    add_to_links(mesh, workspace.flows, workspace.ports)


@called
def _load_rounds(
    workspace: Workspace, placed: LeafPlacement, of_channel: Int, sharers: Int, times: Int, tiles: Array
) -> None:
    """The links of :func:`count_rounds`, on top of what is on them."""
    mesh, parts, channels = workspace.mesh, placed.parts, placed.leaf.sizes[0]
    ports = mesh.port_x.shape[0]
    for k in range(parts[0]):
        count = _alike(workspace, placed, k, tiles)
        for first in range(0, count, sharers):
            span = _span(mesh, tiles, first, first + sharers, 1)
            for share in range(sharers):
                size = of_channel * _channels(channels, parts[0] * sharers, k * sharers + share)
                owner = tiles[first + share]
                route(mesh, mesh.x[owner], mesh.y[owner], span, size * ports * times, mesh.links)


@called
def _channels(channels: Int, parts: Int, part: Int) -> Int:
    """How many of the output channels one part of them has."""
    return bound(channels, parts, part + 1) - bound(channels, parts, part)


@called
def _alike(workspace: Workspace, placed: LeafPlacement, k: Int, tiles: Array) -> Int:
    """Fill ``tiles`` with the tiles that need the weights of part ``k``, in ascending order; how many."""
    parts = placed.parts
    count: Int = 0
    for b in range(parts[1]):
        for h in range(parts[2]):
            for w in range(parts[3]):
                if is_skipped(workspace.ranges, k, b, h, w):
                    continue
                tile = tile_of(placed, k, b, h, w)
                # put in order as they come: compiled code here cannot allocate what a sort would need
                at: Int = count
                while at > 0 and tiles[at - 1] > tile:
                    tiles[at] = tiles[at - 1]
                    at -= 1
                tiles[at] = tile
                count += 1
    return count


@called
def _span(mesh: Mesh, tiles: Array, first: Int, end: Int, step: Int) -> Span:
    """First and last column of every ``step``-th of ``tiles``; fills the mesh's lowest and highest rows."""
    left: Int = mesh.lowest.shape[0]
    right: Int = -1
    mesh.lowest[:] = mesh.along_y.shape[1]
    mesh.highest[:] = -1
    for number in range(first, end, step):
        x, y = mesh.x[tiles[number]], mesh.y[tiles[number]]
        left, right = min(left, x), max(right, x)
        mesh.lowest[x] = min(mesh.lowest[x], y)
        mesh.highest[x] = max(mesh.highest[x], y)
    return left, right
