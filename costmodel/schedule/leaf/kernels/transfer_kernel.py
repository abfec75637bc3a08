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
    OUTPUTS,
    Four,
    Range,
    Ranges,
    distinct,
    replicas_of,
    size_of,
    smallest,
    volume,
)
from costmodel.schedule.mesh.flows_kernel import add_to_links, clear, load
from costmodel.schedule.mesh.mesh_kernel import Span, distance, port_distance, route
from costmodel.schedule.mesh.senders_kernel import (
    add_distances,
    add_multicast,
    add_sender,
    hops_of_senders,
    hops_to_tile,
    no_multicasts,
    no_senders,
    route_multicasts,
)

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


# numpy's whole numbers, as every one of Python's would be compiled for itself
BOUND, HOPS, LINKS, NOTE = np.int64(0), np.int64(1), np.int64(2), np.int64(3)
"""What is asked for: a lower bound on hops that holds for every placement; hops; hops, and the loads of
links; or only that senders be noted."""
MANY, MANY_SINGLE = 4, 16
"""From so many trees on, or ways to one tile each, those of equal senders are counted together; fewer are
quicker one by one."""


@called
def least_transfer(workspace: Workspace, placed: LeafPlacement) -> Int:
    """A lower bound on :func:`transfer` for every placement of a partition; ``placed.steps`` are not read.

    The bound of each stream, in hops times bits times DRAM ports, goes to the workspace, which holds the
    ranges and overlaps of the partition.
    """
    total: Int = 0
    ports: Int = workspace.mesh.port_x.shape[0]
    for number in range(placed.leaf.streams.shape[0]):
        stream = placed.leaf.streams[number]
        least: Int = 0
        if stream[COLUMN.direct]:
            least = ports * _least_receive(workspace, placed, number)
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
    """Hops times bits times DRAM ports, over all runs, of a stream from DRAM or to it.

    With HOPS it is any number above ``most`` if they are more than that.

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
    """A lower bound on :func:`_load_or_save`, whatever the placement; the larger of two.

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
def _least_receive(workspace: Workspace, placed: LeafPlacement, number: Int) -> Int:
    """A lower bound on :func:`_receive`, whatever the placement.

    A tree to n tiles has n - 1 links if it begins at one of them, else at least n. Each of the n tiles may
    have computed one part of the producer itself, at most the one with the most bits in common with the range
    (``common``); all other bits begin elsewhere and take one link more.
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
                    # an overlap is a product of four, one for each dim, and so is the largest of them
                    common = stream[COLUMN.bits]
                    for dim in range(4):
                        common *= _most_common(workspace, number, dim, _part_along(ranges, which, dim))
                    hops += size * (replicas - 1) + max(size - replicas * common, 0)
    return hops


@inlined
def _most_common(workspace: Workspace, number: Int, dim: Int, part: Int) -> Int:
    """The most that a part of the producer has in common with a part of the leaf, along one dim."""
    near, most = workspace.near[number], 0
    for theirs in range(near[0, dim, part], near[1, dim, part] + 1):
        most = max(most, workspace.common[number, dim, part, theirs])
    return most


@inlined
def _part_along(ranges: Ranges, which: Range, dim: Int) -> Int:
    """The leaf's part along a dim of the data; 0 for a dim that no axis of the partition cuts."""
    axis = ranges.axis[which[0], dim]
    return which[axis + 1] if axis >= 0 else 0


@called
def _receive(workspace: Workspace, placed: LeafPlacement, number: Int, asked: Int, most: Int) -> Int:
    """Hops times bits that the producer's tiles send in all runs: each part in one tree to all tiles that
    need it. The caller multiplies by the DRAM ports.

    With HOPS it is any number above ``most`` if they are more than that.

    Along a dim that the producer does not cut, each of its tiles has the same part of what a range needs. So
    ranges that differ only along the axes of such dims have the same senders, and are counted in groups.
    """
    kind = placed.leaf.streams[number, COLUMN.kind]
    # into how many groups an axis divides the ranges, and how many ranges a group has along it
    groups_k, k_each = _groups(workspace, placed, number, 0)
    groups_b, b_each = _groups(workspace, placed, number, 1)
    groups_h, h_each = _groups(workspace, placed, number, 2)
    groups_w, w_each = _groups(workspace, placed, number, 3)
    each = (k_each, b_each, h_each, w_each)
    hops: Int = 0
    for k in range(groups_k):
        for b in range(groups_b):
            for h in range(groups_h):
                for w in range(groups_w):
                    which = (kind, k, b, h, w)
                    hops += _receive_group(workspace, placed, which, each, number, asked, most - hops)
                    if asked == HOPS and hops > most:
                        return hops
    return hops


@inlined
def _groups(workspace: Workspace, placed: LeafPlacement, number: Int, axis: Int) -> tuple[Int, Int]:
    """Groups of ranges along an axis of the partition, and ranges of a group along it; one of them is 1."""
    stream, ranges = placed.leaf.streams[number], workspace.ranges
    there = distinct(ranges, stream[COLUMN.kind], axis, placed.parts)
    for dim in range(4):
        if ranges.axis[stream[COLUMN.kind], dim] == axis and stream[COLUMN.parts_k + dim] > 1:
            return there, 1
    return 1, there


@inlined
def _receive_group(
    workspace: Workspace,
    placed: LeafPlacement,
    first: Range,
    each: Four,
    number: Int,
    asked: Int,
    most: Int,
) -> Int:
    """Hops times bits of a group of ranges with the same senders: ``each`` of them from the ``first`` on."""
    kind, near, mesh, senders = first[0], workspace.near[number], workspace.mesh, workspace.senders
    ranges, ports, stream = workspace.ranges, mesh.port_x.shape[0], placed.leaf.streams[number]
    channels = (stream[COLUMN.first], stream[COLUMN.end])
    count: Int = 1
    for dim in range(4):
        if stream[COLUMN.parts_k + dim] > 1:
            part = _part_along(ranges, first, dim)
            count *= near[1, dim, part] + 1 - near[0, dim, part]
    if count <= 0:
        return 0
    replicas = replicas_of(ranges, kind)
    receivers = each[0] * each[1] * each[2] * each[3]
    together = count * receivers >= (MANY if replicas > 1 else MANY_SINGLE)
    total: Int = 0
    if together:
        no_senders(senders)
        _send(workspace, placed, first, number, NOTE, 1, (0, 0))
        total = add_distances(senders)
        if asked == LINKS:
            no_multicasts(senders)
    hops: Int = 0
    for k in range(first[1], first[1] + each[0]):
        for b in range(first[2], first[2] + each[1]):
            for h in range(first[3], first[3] + each[2]):
                for w in range(first[4], first[4] + each[3]):
                    which = (kind, k, b, h, w)
                    times = _times(workspace, placed, which, number)
                    # nobody gets an empty range, so that it would reach no column
                    if times == 0 or size_of(ranges, which, channels) == 0:
                        continue
                    if together and asked == HOPS and replicas == 1:
                        tile = tile_of(placed, k, b, h, w)
                        hops += times * hops_to_tile(senders, mesh.x[tile], mesh.y[tile])
                    else:
                        span = reach(workspace, placed, which)
                        if together:
                            hops += times * hops_of_senders(mesh, senders, total, span)
                        else:
                            hops += times * _send(workspace, placed, which, number, asked, times, span)
                        if together and asked == LINKS:
                            add_multicast(mesh, senders, span, times * ports)
                    if asked == HOPS and hops > most:
                        return hops
    if together and asked == LINKS:
        route_multicasts(senders, mesh.links)
    return hops


@inlined
def _times(workspace: Workspace, placed: LeafPlacement, which: Range, number: Int) -> Int:
    """By what number the bits of a group's senders are multiplied to be those of this range.

    It is what the range has in common with the producer along the dims that the producer does not cut: there
    every sender has the same.
    """
    near, times = workspace.near[number], 1
    for dim in range(4):
        if placed.leaf.streams[number, COLUMN.parts_k + dim] == 1:
            part = _part_along(workspace.ranges, which, dim)
            empty = near[1, dim, part] < near[0, dim, part]
            times *= 0 if empty else workspace.common[number, dim, part, 0]
    return times


@called
def _send(
    workspace: Workspace, placed: LeafPlacement, which: Range, number: Int, asked: Int, times: Int, span: Span
) -> Int:
    """Hops times bits of the trees that begin at each part of the producer, as if each were sent once.

    With LINKS the links get the bits so many ``times``; with NOTE the senders are noted and nothing else.

    What a part of the producer has of a range is a box: the product of its overlaps in the four dims, which
    ``common`` holds dim by dim. Of dims that the producer does not cut, its only part is in ``times``. The
    loops go through the parts of the producer that are near.
    """
    stream, mesh = placed.leaf.streams[number], workspace.mesh
    first_k, end_k, k_of = _near(workspace, placed, which, number, 0)
    first_b, end_b, b_of = _near(workspace, placed, which, number, 1)
    first_h, end_h, h_of = _near(workspace, placed, which, number, 2)
    first_w, end_w, w_of = _near(workspace, placed, which, number, 3)
    ports: Int = mesh.port_x.shape[0]
    hops: Int = 0
    for k in range(first_k, end_k):
        of_k = stream[COLUMN.bits] * _common(workspace, placed, number, 0, k_of, k)
        for b in range(first_b, end_b):
            of_b = of_k * _common(workspace, placed, number, 1, b_of, b)
            if of_b == 0:
                continue
            for h in range(first_h, end_h):
                of_h = of_b * _common(workspace, placed, number, 2, h_of, h)
                for w in range(first_w, end_w):
                    size = of_h * _common(workspace, placed, number, 3, w_of, w)
                    tile = stream[COLUMN.tile] + k * stream[COLUMN.step_k] + b * stream[COLUMN.step_b]
                    tile += h * stream[COLUMN.step_h] + w * stream[COLUMN.step_w]
                    x, y = mesh.x[tile], mesh.y[tile]
                    if asked == NOTE:
                        add_sender(workspace.senders, x, y, size)
                        continue
                    hops += size * distance(mesh, x, y, span)
                    if asked == LINKS:
                        route(mesh, x, y, span, size * times * ports, mesh.links)
    return hops


@inlined
def _near(
    workspace: Workspace, placed: LeafPlacement, which: Range, number: Int, dim: Int
) -> tuple[Int, Int, Int]:
    """The first part of the producer that has some of a range along a dim, the end of these, and the leaf's
    own part. Where the producer is not cut, that is its only part, whatever it has."""
    part = _part_along(workspace.ranges, which, dim)
    if placed.leaf.streams[number, COLUMN.parts_k + dim] == 1:
        return 0, 1, part
    return workspace.near[number, 0, dim, part], workspace.near[number, 1, dim, part] + 1, part


@inlined
def _common(
    workspace: Workspace, placed: LeafPlacement, number: Int, dim: Int, part: Int, theirs: Int
) -> Int:
    """The overlap of two parts along a dim; 1 where the producer is not cut, for :func:`_times` has that."""
    if placed.leaf.streams[number, COLUMN.parts_k + dim] == 1:
        return 1
    return workspace.common[number, dim, part, theirs]
