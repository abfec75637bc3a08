"""One link along a row of the mesh, counted by itself for many placements; compiled.

Where a producer on few tiles sends to many, its links along a row carry the most, in one placement as in the
next. So the search watches the link that was the busiest one when all were last counted. What a placement
loads it with needs no look at other links::

    link from (x, y) to the east  =  sum over groups of ranges with the same senders of
        (bits of the senders in row y up to column x) * (times of the ranges with tiles beyond column x)

The first factor is the same for all placements of a partition, and 0 for most groups. Most placements that
are worse than the best one are so on this link.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.leaf.kernels.equal_parts_kernel import equal_parts
from costmodel.schedule.leaf.kernels.leaf_values import COLUMN, LeafPlacement, WatchedLink, Workspace
from costmodel.schedule.leaf.kernels.placement_kernel import reach, tile_of
from costmodel.schedule.leaf.kernels.producers_kernel import groups_of, note_senders, senders_near
from costmodel.schedule.leaf.kernels.ranges_kernel import COUNTS, EqualParts, Four, Range
from costmodel.schedule.mesh.mesh_kernel import EAST, WEST
from costmodel.schedule.mesh.senders_kernel import no_senders

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Truth = Any
"""A truth value of compiled code."""

NO_LINK = -1
"""In place of a direction: no link is watched."""
X, Y, DIRECTION = 0, 1, 2
"""Where each of them is in ``WatchedLink.at``."""


@inlined
def watch_nothing(watched: WatchedLink) -> None:
    """Forget the link."""
    watched.at[DIRECTION] = NO_LINK


@inlined
def watch(workspace: Workspace, link: Int) -> None:
    """Watch this link from now on, if it is along a row."""
    at, rows = workspace.watched.at, workspace.columns.shape[1]
    x, y, direction = link // 4 // rows, link // 4 % rows, link % 4
    is_new = at[DIRECTION] != direction or at[X] != x or at[Y] != y
    if is_new and direction in (EAST, WEST):
        at[X], at[Y], at[DIRECTION] = x, y, direction
        workspace.watched.known[0] = 0


@called
def watched_above(workspace: Workspace, placed: LeafPlacement, most: Int) -> Truth:
    """Whether the link that is watched carries more than ``most`` bits times ports.

    The mesh's links have the loads of DRAM's streams, and the tables of all direct streams are filled.
    """
    watched, streams = workspace.watched, placed.leaf.streams
    at = watched.at
    if at[DIRECTION] == NO_LINK:
        return False
    # senders are the same in all placement orders of a partition, so what passes is noted only once for them
    if not watched.known[0]:
        for number in range(streams.shape[0]):
            if streams[number, COLUMN.direct]:
                _note_passing(workspace, placed, number)
        watched.known[0] = 1
    load: Int = workspace.mesh.links[(at[X] * workspace.columns.shape[1] + at[Y]) * 4 + at[DIRECTION]]
    for number in range(streams.shape[0]):
        if streams[number, COLUMN.direct] and load <= most:
            load += _received(workspace, placed, number, most - load)
    return load > most


@called
def _note_passing(workspace: Workspace, placed: LeafPlacement, number: Int) -> None:
    """Fill in what passes over the link for each group of a stream's ranges."""
    kind, senders, at = placed.leaf.streams[number, COLUMN.kind], workspace.senders, workspace.watched.at
    groups, _ = groups_of(workspace, placed, number)
    first = 0 if at[DIRECTION] == EAST else at[X]
    end = at[X] + 1 if at[DIRECTION] == EAST else senders.at.shape[0]
    group: Int = 0
    for k in range(groups[0]):
        for b in range(groups[1]):
            for h in range(groups[2]):
                for w in range(groups[3]):
                    which, bits = (kind, k, b, h, w), 0
                    if senders_near(workspace, placed, which, number) > 0:
                        no_senders(senders)
                        note_senders(workspace, placed, which, number)
                        for x in range(first, end):
                            bits += senders.at[x, at[Y]]
                    workspace.watched.passing[number, group] = bits
                    group += 1


@called
def _received(workspace: Workspace, placed: LeafPlacement, number: Int, most: Int) -> Int:
    """Bits times ports on the link for what a producer sends; any number above ``most`` if it is more."""
    kind, passing = placed.leaf.streams[number, COLUMN.kind], workspace.watched.passing[number]
    ports: Int = workspace.mesh.port_x.shape[0]
    equal = equal_parts(workspace, placed.leaf, number)
    groups, each = groups_of(workspace, placed, number)
    load: Int = 0
    group: Int = 0
    for k in range(groups[0]):
        for b in range(groups[1]):
            for h in range(groups[2]):
                for w in range(groups[3]):
                    if passing[group] > 0:
                        times = _times_beyond(
                            workspace, placed, equal, (kind, k, b, h, w), each, number, group
                        )
                        load += ports * passing[group] * times
                        if load > most:
                            return load
                    group += 1
    return load


@inlined
def _times_beyond(
    workspace: Workspace,
    placed: LeafPlacement,
    equal: EqualParts,
    first: Range,
    each: Four,
    number: Int,
    group: Int,
) -> Int:
    """How many times in all those ranges of a group need what its senders have that reach beyond the link."""
    mesh, at = workspace.mesh, workspace.watched.at
    single = equal.counts[COUNTS.most] == 1
    index: Int = group * each[0] * each[1] * each[2] * each[3] - 1
    found: Int = 0
    for k in range(first[1], first[1] + each[0]):
        for b in range(first[2], first[2] + each[1]):
            for h in range(first[3], first[3] + each[2]):
                for w in range(first[4], first[4] + each[3]):
                    index += 1
                    times = workspace.tables.sizes[number, index]
                    if times == 0:
                        continue
                    if single:
                        left: Int = mesh.x[tile_of(placed, k, b, h, w)]
                        right: Int = left
                    else:
                        left, right = reach(workspace, placed, equal, (first[0], k, b, h, w))
                    is_beyond = right > at[X] if at[DIRECTION] == EAST else left < at[X]
                    found += times if is_beyond else 0
    return found
