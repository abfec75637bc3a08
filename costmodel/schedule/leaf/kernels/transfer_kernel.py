"""All transfers of a placed leaf over its runs, as hops and as loads of the mesh's links; compiled.

A range of data that several tiles need is sent once, in a tree: along the row of the source to every column
with a receiver, then up and down these columns (XY routing).

        .   .   r   .   r           s: source, r: receivers
        s - - - + - - - +           the tree has 4 links along the row and 1 + 1 + 1 along columns,
        .   .   .   .   r           so a bit makes 7 hops
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.leaf.kernels.leaf_values import COLUMN, LeafPlacement, Workspace
from costmodel.schedule.leaf.kernels.placement_kernel import reach, tile_of
from costmodel.schedule.leaf.kernels.ranges_kernel import (
    ANY,
    OUTPUTS,
    Range,
    distinct,
    replicas_of,
    size_of,
    smallest,
    volume,
)
from costmodel.schedule.mesh.flows_kernel import add_to_links, clear, load
from costmodel.schedule.mesh.mesh_kernel import distance, port_distance, route, route_along_row
from costmodel.schedule.mesh.senders_kernel import (
    add_sender,
    hops_of_senders,
    no_senders,
    route_along_columns,
)

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


# numpy's whole numbers, as every one of Python's would be compiled for itself
BOUND, HOPS, LINKS = np.int64(0), np.int64(1), np.int64(2)
"""What is asked for: a lower bound on hops that holds for every placement; hops; hops, and the loads of
links."""
MANY = 4
"""From so many senders on, trees to the same tiles are counted together; fewer are quicker one by one."""


@called
def least_transfer(workspace: Workspace, placed: LeafPlacement) -> Int:
    """A lower bound on :func:`transfer` for every placement of a partition; the steps do not matter.

    The bound of each stream goes to the workspace, which holds the ranges and overlaps of the partition.
    """
    total: Int = 0
    ports: Int = workspace.mesh.port_x.shape[0]
    for number in range(placed.leaf.streams.shape[0]):
        stream = placed.leaf.streams[number]
        least: Int = 0
        if stream[COLUMN.direct]:
            least = ports * _receive(workspace, placed, number, BOUND, ANY)
        elif stream[COLUMN.times] > 0:
            least = _least_load(workspace, placed, stream)
        workspace.least[number] = least
        total += least
    return total


@called
def transfer(workspace: Workspace, placed: LeafPlacement, asked: Int, most: Int) -> Int:
    """Hops times bits times DRAM ports of all streams over all runs, or any number above ``most`` if they
    are more than that.

    Streams that have not been counted yet take at least their bound of :func:`least_transfer`, which has been
    called before for this partition. With LINKS all streams are counted, and the mesh's links are filled with
    the bits times ports that go over each of them.
    """
    if asked == LINKS:
        workspace.mesh.links[:] = 0
        clear(workspace.flows)
    hops: Int = 0
    ports: Int = workspace.mesh.port_x.shape[0]
    streams = placed.leaf.streams.shape[0]
    for number in range(streams):
        hops += workspace.least[number]
    for number in range(streams):
        if asked == HOPS and hops > most:
            return hops
        stream = placed.leaf.streams[number]
        hops -= workspace.least[number]
        if stream[COLUMN.direct]:
            hops += ports * _receive(workspace, placed, number, asked, (most - hops) // ports)
        elif stream[COLUMN.times] > 0:
            hops += _load_or_save(workspace, placed, stream, asked, most - hops)
    if asked == LINKS:
        add_to_links(workspace.mesh, workspace.flows, workspace.ports)
    return hops


@called
def _load_or_save(workspace: Workspace, placed: LeafPlacement, stream: Array, asked: Int, most: Int) -> Int:
    """Hops of a stream from DRAM or to it, or with HOPS any number above ``most`` if they are more than that.

    The loops go through the distinct ranges of the data: where an axis of the partition does not change what
    a part needs, its first part stands for all of them, and one tree reaches all tiles (``reach``). Outputs
    are distinct on every tile, so each is a single way to the ports. A single way's hops are in a table.
    """
    mesh, ranges, parts, kind = workspace.mesh, workspace.ranges, placed.parts, stream[COLUMN.kind]
    channels = (stream[COLUMN.first], stream[COLUMN.end])
    ports: Int = mesh.port_x.shape[0]
    single = asked == HOPS and replicas_of(ranges, kind) == 1
    hops: Int = 0
    for k in range(distinct(ranges, kind, 0, parts)):
        for b in range(distinct(ranges, kind, 1, parts)):
            for h in range(distinct(ranges, kind, 2, parts)):
                for w in range(distinct(ranges, kind, 3, parts)):
                    which = (kind, k, b, h, w)
                    size = size_of(ranges, which, channels) * stream[COLUMN.times] * stream[COLUMN.bits]
                    if size == 0:
                        continue
                    if single:
                        hops += size * mesh.to_tile[ports, tile_of(placed, k, b, h, w)]
                        if hops > most:
                            return hops
                        continue
                    span = reach(workspace, placed, which)
                    hops += size * port_distance(mesh, span)
                    if asked == HOPS and hops > most:
                        return hops
                    if asked == LINKS and kind == OUTPUTS:
                        workspace.flows.out[span[0], mesh.lowest[span[0]]] += size
                    elif asked == LINKS:
                        load(mesh, workspace.flows, span, size)
    return hops


@called
def _least_load(workspace: Workspace, placed: LeafPlacement, stream: Array) -> Int:
    """A lower bound on the hops of a stream from or to DRAM, whatever the placement; the larger of two.

    A tree from a port to n tiles has at least n - 1 links, for it joins n tiles. It also has at least as many
    links as the way to any one of its tiles, and so as the mean over its tiles. All trees together reach
    every tile of the leaf but the idle ones, so the sum over trees of these means is the sum of all ways
    divided by n, for n tiles a tree; each way carries no less than the smallest range. The placement decides
    which tiles are idle: here as many as there are that are the farthest one.
    """
    mesh, ranges, parts = workspace.mesh, workspace.ranges, placed.parts
    ports: Int = mesh.port_x.shape[0]
    kind, channels = stream[COLUMN.kind], (stream[COLUMN.first], stream[COLUMN.end])
    replicas = replicas_of(ranges, kind)
    size = volume(ranges, kind, channels, parts)
    tiles = parts[0] * parts[1] * parts[2] * parts[3]
    busy = ranges.served[0] * ranges.served[1] * ranges.served[2] * ranges.served[3]
    to_all_tiles: Int = 0
    farthest: Int = 0
    for tile in range(placed.leaf.tile, placed.leaf.tile + tiles):
        to_all_tiles += mesh.to_tile[ports, tile]
        farthest = max(farthest, mesh.to_tile[ports, tile])
    to_busy_tiles = max(to_all_tiles - (tiles - busy) * farthest, 0)
    reached = smallest(ranges, kind, channels, parts) * to_busy_tiles // replicas
    return stream[COLUMN.times] * stream[COLUMN.bits] * max(reached, size * (replicas - 1) * ports)


@called
def _receive(workspace: Workspace, placed: LeafPlacement, number: Int, asked: Int, most: Int) -> Int:
    """Hops times bits that the producer's tiles send: each part in one tree to all tiles that need it.

    With HOPS it is any number above ``most`` if they are more than that.

    For a BOUND: a tree to n tiles has n - 1 links if it begins at one of them, else at least n. Each of the n
    tiles may have computed one part of the producer itself, at most the one with the most bits in common
    with the range (``found``); all other bits begin elsewhere and take one link more.
    """
    stream = placed.leaf.streams[number]
    ranges, parts, kind = workspace.ranges, placed.parts, stream[COLUMN.kind]
    channels = (stream[COLUMN.first], stream[COLUMN.end])
    replicas = replicas_of(ranges, kind)
    hops: Int = 0
    for k in range(distinct(ranges, kind, 0, parts)):
        for b in range(distinct(ranges, kind, 1, parts)):
            for h in range(distinct(ranges, kind, 2, parts)):
                for w in range(distinct(ranges, kind, 3, parts)):
                    which = (kind, k, b, h, w)
                    size = placed.leaf.runs * stream[COLUMN.bits] * size_of(ranges, which, channels)
                    if size == 0:
                        continue
                    found = _receive_range(workspace, placed, which, number, asked)
                    if asked == BOUND:
                        found = size * (replicas - 1) + max(size - replicas * found, 0)
                    hops += found
                    if asked == HOPS and hops > most:
                        return hops
    return hops


@inlined
def _receive_range(workspace: Workspace, placed: LeafPlacement, which: Range, number: Int, asked: Int) -> Int:
    """Hops times bits of one range from all parts of its producer; for a BOUND the largest overlap in bits.

    The overlap of a part with the range is a box: the product of its overlaps in the four dims, which
    ``common`` holds dim by dim. ``k_of`` to ``w_of`` are the leaf's part along each dim of the data (0 for a
    dim that no axis of the partition cuts); the loops go through the parts of the producer that are near.

    Trees of many senders to several tiles are counted together, those of few senders one by one.
    """
    near, common, mesh, stream, senders = (
        workspace.near[number],
        workspace.common[number],
        workspace.mesh,
        placed.leaf.streams[number],
        workspace.senders,
    )
    replicas = replicas_of(workspace.ranges, which[0])
    single = asked == HOPS and replicas == 1
    to = tile_of(placed, which[1], which[2], which[3], which[4])
    span = (0, 0) if asked == BOUND or single else reach(workspace, placed, which)
    axis = workspace.ranges.axis[which[0]]
    k_of, b_of, h_of, w_of = (
        which[axis[0] + 1] if axis[0] >= 0 else 0,
        which[axis[1] + 1] if axis[1] >= 0 else 0,
        which[axis[2] + 1] if axis[2] >= 0 else 0,
        which[axis[3] + 1] if axis[3] >= 0 else 0,
    )
    ports: Int = mesh.port_x.shape[0]
    found: Int = 0
    count = near[1, 0, k_of] + 1 - near[0, 0, k_of]
    count *= near[1, 1, b_of] + 1 - near[0, 1, b_of]
    count *= near[1, 2, h_of] + 1 - near[0, 2, h_of]
    count *= near[1, 3, w_of] + 1 - near[0, 3, w_of]
    together = asked != BOUND and count >= MANY and replicas > 1
    if together:
        no_senders(senders)
    for k in range(near[0, 0, k_of], near[1, 0, k_of] + 1):
        for b in range(near[0, 1, b_of], near[1, 1, b_of] + 1):
            of_b = stream[COLUMN.bits] * common[0, k_of, k] * common[1, b_of, b]
            if of_b == 0:
                continue
            for h in range(near[0, 2, h_of], near[1, 2, h_of] + 1):
                for w in range(near[0, 3, w_of], near[1, 3, w_of] + 1):
                    size = of_b * common[2, h_of, h] * common[3, w_of, w]
                    if asked == BOUND:
                        found = max(found, size)
                        continue
                    tile = stream[COLUMN.tile] + k * stream[COLUMN.step_k] + b * stream[COLUMN.step_b]
                    tile += h * stream[COLUMN.step_h] + w * stream[COLUMN.step_w]
                    x, y = mesh.x[tile], mesh.y[tile]
                    if single:
                        found += size * (abs(x - mesh.x[to]) + abs(y - mesh.y[to]))
                        continue
                    if together:
                        add_sender(senders, x, y, size)
                        if asked == LINKS:
                            route_along_row(mesh, x, y, span, size * ports, mesh.links)
                        continue
                    found += size * distance(mesh, x, y, span)
                    if asked == LINKS:
                        route(mesh, x, y, span, size * ports, mesh.links)
    if together:
        found = hops_of_senders(mesh, senders, span)
        if asked == LINKS:
            route_along_columns(mesh, senders, span, ports, mesh.links)
    return found
