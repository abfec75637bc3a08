"""The hops of all transfers of a placed leaf over its runs; compiled.

A range of data that several tiles need is sent once, in a tree: along the row of the source to every column
with a receiver, then up and down these columns (XY routing).

        .   .   r   .   r           s: source, r: receivers
        s - - - + - - - +           the tree has 4 links along the row and 1 + 1 + 1 along columns,
        .   .   .   .   r           so a bit makes 7 hops

Every port brings an equal part of what comes from DRAM. So hops times bits are counted times the DRAM ports,
and stay whole numbers; whoever reports them divides by the ports.

A partition is counted in up to 24 placement orders. These decide on which tiles its parts lie, and nothing
else. So what each part needs, and which tiles of the producers have it, is found once for a partition and
kept in the workspace's ``tables``: an order then costs a few look-ups a tile. ``links_kernel.py`` counts the
same transfers link by link, for the few placements that their hops do not rule out.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.leaf.kernels.equal_parts_kernel import equal_parts
from costmodel.schedule.leaf.kernels.leaf_values import COLUMN, LeafPlacement, Workspace
from costmodel.schedule.leaf.kernels.nearness_kernel import least_from_ports, least_hops
from costmodel.schedule.leaf.kernels.placement_kernel import reach, tile_of, tiles_of
from costmodel.schedule.leaf.kernels.producers_kernel import (
    common_size,
    groups_of,
    near_parts,
    note_senders,
    senders_near,
    their_tile,
    times_of,
)
from costmodel.schedule.leaf.kernels.ranges_kernel import (
    COUNTS,
    EqualParts,
    Four,
    Range,
    distinct,
    sent_size,
    smallest,
    volume,
)
from costmodel.schedule.mesh.mesh_kernel import distance, port_distance
from costmodel.schedule.mesh.senders_kernel import (
    add_distances,
    hops_of_senders,
    hops_to_tile,
    no_sums,
)

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


MANY_SENDERS = np.int64(-1)
"""In ``StreamTables.alone``: a group has several senders."""


@called
def least_transfer(workspace: Workspace, placed: LeafPlacement) -> Int:
    """A lower bound on :func:`count_hops` for every placement of a partition; ``placed.steps`` are not read.

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
            least = _least_load(workspace, placed, number)
        workspace.least[number] = least
        total += least
    return total


@called
def count_hops(workspace: Workspace, placed: LeafPlacement, most: Int) -> Int:
    """Hops times bits times DRAM ports of all streams over all runs, or any number above ``most`` if they
    are more than that.

    Streams that have not been counted yet take at least their bound of :func:`least_transfer`, which has been
    called before for this partition.
    """
    hops: Int = 0
    ports: Int = workspace.mesh.port_x.shape[0]
    streams = placed.leaf.streams.shape[0]
    for number in range(streams):
        hops += workspace.least[number]
    for number in range(streams):
        if hops > most:
            return hops
        stream = placed.leaf.streams[number]
        hops -= workspace.least[number]
        if stream[COLUMN.direct]:
            hops += ports * _receive(workspace, placed, number, (most - hops) // ports)
        elif stream[COLUMN.times] > 0:
            hops += _load_or_save(workspace, placed, number, most - hops)
    return hops


@called
def _load_or_save(workspace: Workspace, placed: LeafPlacement, number: Int, most: Int) -> Int:
    """Hops times bits times DRAM ports, over all runs, of a stream from DRAM or to it; any number above
    ``most`` if they are more than that.

    The loops go through the ranges that differ: the first part of those that need the same stands for all of
    them, and one tree reaches all their tiles (``reach``). Outputs differ on every tile, so each is a single
    way to the ports. A single way's hops are in a table.
    """
    mesh, ranges, parts, stream = workspace.mesh, workspace.ranges, placed.parts, placed.leaf.streams[number]
    kind, channels = stream[COLUMN.kind], (stream[COLUMN.first], stream[COLUMN.end])
    sizes, known = workspace.tables.sizes[number], workspace.tables.known[number] > 0
    ports: Int = mesh.port_x.shape[0]
    equal = equal_parts(workspace, placed.leaf, number)
    single = equal.counts[COUNTS.most] == 1
    hops: Int = 0
    index: Int = -1
    for k in range(distinct(ranges, kind, 0, parts)):
        for b in range(distinct(ranges, kind, 1, parts)):
            for h in range(distinct(ranges, kind, 2, parts)):
                for w in range(distinct(ranges, kind, 3, parts)):
                    index += 1
                    which = (kind, k, b, h, w)
                    if not known:
                        elements = sent_size(ranges, equal, which, channels)
                        sizes[index] = elements * stream[COLUMN.times] * stream[COLUMN.bits]
                    if sizes[index] == 0:
                        continue
                    if single:
                        hops += sizes[index] * mesh.to_tile[ports, tile_of(placed, k, b, h, w)]
                    else:
                        hops += sizes[index] * port_distance(mesh, reach(workspace, placed, equal, which))
                    if hops > most:
                        return hops
    workspace.tables.known[number] = 1
    return hops


@called
def _least_load(workspace: Workspace, placed: LeafPlacement, number: Int) -> Int:
    """A lower bound on :func:`_load_or_save`, whatever the placement.

    Each tree has at least the links of the best one to as many tiles (:func:`.least_from_ports`). All trees
    carry as much as the smallest range, and for that part there is a second bound. A tree has at least as
    many links as the way to any one of its tiles, and so as the mean over its tiles. All trees together reach
    every tile of the leaf but the idle ones, so the sum over trees of these means is the sum of all ways
    divided by n, for n tiles a tree. The placement decides which tiles are idle: here as many as there are
    that are the farthest one. Where trees reach unequal numbers of tiles, n is the largest of them. Trees of
    joined streams reach all tiles only together, so of one stream the second bound does not hold.
    """
    ranges, parts, nearness = workspace.ranges, placed.parts, workspace.nearness
    stream = placed.leaf.streams[number]
    kind, channels = stream[COLUMN.kind], (stream[COLUMN.first], stream[COLUMN.end])
    busy = ranges.served[0] * ranges.served[1] * ranges.served[2] * ranges.served[3]
    idle = tiles_of(parts) - busy
    to_busy_tiles = max(nearness.ways[0] - idle * nearness.ways[1], 0)
    equal = equal_parts(workspace, placed.leaf, number)
    trees, each = equal.counts[COUNTS.trees], least_from_ports(workspace, equal.counts[COUNTS.fewest])
    alike = smallest(ranges, kind, channels, parts)
    to_all = to_busy_tiles // equal.counts[COUNTS.most] if equal.begin < 0 else 0
    least = alike * max(to_all, trees * each)
    least += (volume(ranges, equal, kind, channels, parts) - alike * trees) * each
    return stream[COLUMN.times] * stream[COLUMN.bits] * least


@inlined
def _least_receive(workspace: Workspace, placed: LeafPlacement, number: Int) -> Int:
    """A lower bound on :func:`_receive`, whatever the placement.

    A tree to n tiles that begins d links away from the nearest of them has at least n - 1 + d links: it joins
    the n tiles, the tile that sends, and those on the way. No tile of the producer is nearer to one of the
    leaf than ``Nearness.producers`` says.
    """
    stream, ranges = placed.leaf.streams[number], workspace.ranges
    channels = (stream[COLUMN.first], stream[COLUMN.end])
    equal = equal_parts(workspace, placed.leaf, number)
    size = volume(ranges, equal, stream[COLUMN.kind], channels, placed.parts)
    links = equal.counts[COUNTS.fewest] - 1 + workspace.nearness.producers[number]
    return placed.leaf.runs * stream[COLUMN.bits] * size * links


@called
def _receive(workspace: Workspace, placed: LeafPlacement, number: Int, most: Int) -> Int:
    """Hops times bits that the producer's tiles send in all runs: each part in one tree to all tiles that
    need it. The caller multiplies by the DRAM ports.

    It is any number above ``most`` if they are more than that.

    Along a dim that the producer does not cut, each of its tiles has the same part of what a range needs. So
    ranges that differ only along the axes of such dims have the same senders, and are counted in groups.
    """
    kind = placed.leaf.streams[number, COLUMN.kind]
    equal = equal_parts(workspace, placed.leaf, number)
    groups, each = groups_of(workspace, placed, number)
    hops: Int = 0
    group: Int = 0
    for k in range(groups[0]):
        for b in range(groups[1]):
            for h in range(groups[2]):
                for w in range(groups[3]):
                    which = (kind, k, b, h, w)
                    _know_group(workspace, placed, which, each, number, group)
                    hops += _group_hops(workspace, placed, equal, which, each, number, group, most - hops)
                    if hops > most:
                        return hops
                    group += 1
    return hops


@called
def tighten(workspace: Workspace, placed: LeafPlacement, most: Int) -> Int:
    """Raise the bounds of direct streams by what tiles of the producer have; the result is that of all.

    It ends where the result is above ``most``. At first only what each part of the leaf has in common with
    each part of the producer counts, dim by dim, then where those parts are. The latter fills the tables that
    all placement orders share, which takes about as long as to count a few orders.
    """
    ports: Int = workspace.mesh.port_x.shape[0]
    hops: Int = 0
    streams = placed.leaf.streams
    for number in range(streams.shape[0]):
        if streams[number, COLUMN.direct] and workspace.nearness.producers[number] == 0:
            workspace.least[number] += ports * _least_moved(workspace, placed, number)
        hops += workspace.least[number]
    for number in range(streams.shape[0]):
        if hops > most:
            return hops
        if streams[number, COLUMN.direct]:
            hops -= workspace.least[number]
            least = ports * _least_of_groups(workspace, placed, number)
            workspace.least[number] = max(workspace.least[number], least)
            hops += workspace.least[number]
    return hops


@called
def _least_moved(workspace: Workspace, placed: LeafPlacement, number: Int) -> Int:
    """Bits that leave the tiles of a producer at least, whatever the placement, where these are the leaf's.

    Each of the n tiles that get a range may have computed one part of the producer itself, at most the one
    with the most bits in common with the range; all other bits begin elsewhere and take one link more than
    :func:`_least_receive` counts. An overlap is a product of four, one for each dim, and so is the largest of
    them. The ranges are all combinations of the leaf's parts along the dims, so the sum over them of such
    products is the product of four sums. What stays is summed over all parts, also those that get the same.
    """
    stream, ranges, near = placed.leaf.streams[number], workspace.ranges, workspace.near[number]
    kind = stream[COLUMN.kind]
    equal = equal_parts(workspace, placed.leaf, number)
    all_of_it: Int = stream[COLUMN.bits]
    stays: Int = all_of_it
    for axis in range(4):
        stays *= 1 if ranges.follows[kind, axis] else ranges.served[axis]
    for dim in range(4):
        axis = ranges.axis[kind, dim]
        common: Int = 0
        largest: Int = 0
        for part in range(placed.parts[axis] if axis >= 0 else 1):
            sent = axis < 0 or equal.until[axis, part] > 0
            most: Int = 0
            for theirs in range(near[0, dim, part], near[1, dim, part] + 1):
                common += workspace.common[number, dim, part, theirs] if sent else 0
                most = max(most, workspace.common[number, dim, part, theirs])
            largest += most
        all_of_it *= common
        stays *= largest
    return max(all_of_it - stays, 0)


@called
def _least_of_groups(workspace: Workspace, placed: LeafPlacement, number: Int) -> Int:
    """A lower bound on :func:`_receive`: each range goes from all its senders to the best tiles for it.

    These are the leaf's best ones of all for as many tiles as get the range, so several ranges may ask for
    the same.
    """
    kind, tables = placed.leaf.streams[number, COLUMN.kind], workspace.tables
    copies = equal_parts(workspace, placed.leaf, number).counts[COUNTS.fewest]
    nearness, mesh = workspace.nearness, workspace.mesh
    groups, each = groups_of(workspace, placed, number)
    count = each[0] * each[1] * each[2] * each[3]
    hops: Int = 0
    group: Int = 0
    for k in range(groups[0]):
        for b in range(groups[1]):
            for h in range(groups[2]):
                for w in range(groups[3]):
                    _know_group(workspace, placed, (kind, k, b, h, w), each, number, group)
                    times: Int = 0
                    for index in range(group * count, (group + 1) * count):
                        times += tables.sizes[number, index]
                    total, alone = tables.total[number, group], tables.alone[number, group]
                    if times == 0:
                        least: Int = 0
                    elif alone >= 0:
                        # one sender, so that the tree is bounded as in _least_receive
                        links = nearness.nearest[mesh.x[alone], mesh.y[alone]]
                        least = total * (copies - 1 + links)
                    else:
                        least = least_hops(
                            nearness,
                            total,
                            tables.from_west[number, group],
                            tables.from_east[number, group],
                            tables.from_above[number, group],
                            tables.from_below[number, group],
                            copies,
                        )
                    hops += times * least
                    group += 1
    return hops


@inlined
def _know_group(
    workspace: Workspace, placed: LeafPlacement, first: Range, each: Four, number: Int, group: Int
) -> None:
    """Fill in the tables of a group, unless they have been for this partition; groups come in order."""
    known = workspace.tables.known
    if known[number] <= group:
        _fill_group(workspace, placed, first, each, number, group)
        known[number] = group + 1


@called
def _fill_group(
    workspace: Workspace, placed: LeafPlacement, first: Range, each: Four, number: Int, group: Int
) -> None:
    """Fill in the tables of a group of ranges with the same senders: ``each`` of them from the ``first``."""
    tables, ranges, stream = workspace.tables, workspace.ranges, placed.leaf.streams[number]
    channels = (stream[COLUMN.first], stream[COLUMN.end])
    equal = equal_parts(workspace, placed.leaf, number)
    near = senders_near(workspace, placed, first, number)
    index: Int = group * each[0] * each[1] * each[2] * each[3]
    for k in range(first[1], first[1] + each[0]):
        for b in range(first[2], first[2] + each[1]):
            for h in range(first[3], first[3] + each[2]):
                for w in range(first[4], first[4] + each[3]):
                    which = (first[0], k, b, h, w)
                    times = times_of(workspace, placed, which, number)
                    # nobody gets an empty range, so that it would reach no column
                    if near <= 0 or sent_size(ranges, equal, which, channels) == 0:
                        times = 0
                    tables.sizes[number, index] = times
                    index += 1
    if near <= 0:
        return
    if near == 1:
        at = near_parts(workspace, placed, first, number)
        tables.alone[number, group] = their_tile(stream, (at[0][0], at[1][0], at[2][0], at[3][0]))
        tables.total[number, group] = common_size(workspace, placed, first, number)
        return
    tables.alone[number, group] = MANY_SENDERS
    no_sums(workspace.senders)
    note_senders(workspace, placed, first, number)
    tables.total[number, group] = add_distances(
        workspace.senders,
        tables.from_west[number, group],
        tables.from_east[number, group],
        tables.from_above[number, group],
        tables.from_below[number, group],
    )


@inlined
def _group_hops(
    workspace: Workspace,
    placed: LeafPlacement,
    equal: EqualParts,
    first: Range,
    each: Four,
    number: Int,
    group: Int,
    most: Int,
) -> Int:
    """Hops times bits of a group whose tables are filled."""
    mesh, tables = workspace.mesh, workspace.tables
    total, alone = tables.total[number, group], tables.alone[number, group]
    west, east = tables.from_west[number, group], tables.from_east[number, group]
    above, below = tables.from_above[number, group], tables.from_below[number, group]
    single = equal.counts[COUNTS.most] == 1
    hops: Int = 0
    index: Int = group * each[0] * each[1] * each[2] * each[3] - 1
    for k in range(first[1], first[1] + each[0]):
        for b in range(first[2], first[2] + each[1]):
            for h in range(first[3], first[3] + each[2]):
                for w in range(first[4], first[4] + each[3]):
                    index += 1
                    times = tables.sizes[number, index]
                    if times == 0:
                        continue
                    if single:
                        tile = tile_of(placed, k, b, h, w)
                        x, y = mesh.x[tile], mesh.y[tile]
                        if alone >= 0:
                            hops += times * total * (abs(x - mesh.x[alone]) + abs(y - mesh.y[alone]))
                        else:
                            hops += times * hops_to_tile(west, east, above, below, x, y)
                    else:
                        span = reach(workspace, placed, equal, (first[0], k, b, h, w))
                        if alone >= 0:
                            hops += times * total * distance(mesh, mesh.x[alone], mesh.y[alone], span)
                        else:
                            hops += times * hops_of_senders(mesh, total, west, east, above, below, span)
                    if hops > most:
                        return hops
    return hops
