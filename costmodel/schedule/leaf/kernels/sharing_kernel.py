"""The weights of a leaf whose tiles share them: from DRAM to the tiles, and among these; compiled.

:mod:`costmodel.schedule.leaf.sharing` says which tile has which share. In both counts the workspace holds the
ranges of the partition, and the mesh's links are filled with what is counted.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, entry
from costmodel.schedule.leaf.kernels.leaf_values import LeafPlacement, Workspace
from costmodel.schedule.leaf.kernels.placement_kernel import tile_of
from costmodel.schedule.leaf.kernels.ranges_kernel import bound, is_skipped
from costmodel.schedule.mesh.flows_kernel import add_to_links, clear, load
from costmodel.schedule.mesh.mesh_kernel import Mesh, Span, route

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


@entry
def count_shares(
    workspace: Workspace, placed: LeafPlacement, of_channel: Int, sharers: Int, tiles: Array, kept: Array
) -> None:
    """Count what DRAM sends: each share once, in a tree to all tiles that have it.

    ``of_channel``: bits of the weights of an output channel. ``tiles`` [tiles]: work space. Fills ``kept``
    [tiles] with the bits of each tile's share.
    """
    mesh, parts, channels = workspace.mesh, placed.parts, placed.leaf.sizes[0]
    mesh.links[:] = 0
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


@entry
def count_rounds(
    workspace: Workspace, placed: LeafPlacement, of_channel: Int, sharers: Int, times: Int, tiles: Array
) -> None:
    """Count what tiles pass on: each its share, slice by slice, to the others of its group.

    All slices of a share take the same tree, so many ``times``. ``tiles`` [tiles]: work space.
    """
    mesh, parts, channels = workspace.mesh, placed.parts, placed.leaf.sizes[0]
    ports = mesh.port_x.shape[0]
    mesh.links[:] = 0
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
