"""All transfers of a placed leaf over its runs, as loads of the mesh's links; compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.leaf.leaf_values import (
    DIRECT,
    FIRST,
    KIND,
    LAST,
    STEPS,
    TILE,
    TIMES,
    LeafPlacement,
    Workspace,
)
from costmodel.schedule.leaf.placement_kernel import reach
from costmodel.schedule.leaf.ranges_kernel import (
    OUTPUTS,
    Range,
    distinct,
    replicas_of,
    size_of,
    smallest,
    volume,
)
from costmodel.schedule.mesh.flows_kernel import add_to_links, clear, load
from costmodel.schedule.mesh.mesh_kernel import distance, port_distance, route

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


# numpy's whole numbers, as every one of Python's would be compiled for itself
BOUND, HOPS, LINKS = np.int64(0), np.int64(1), np.int64(2)
"""What is asked of transfers: hops at least, whatever the placement; hops; hops and the loads of links."""


@called
def transfer(workspace: Workspace, placed: LeafPlacement, asked: Int) -> Int:
    """Hops times bytes times DRAM ports of all streams; the ranges of the partition are filled in.

    With LINKS the mesh's links have what goes over each of them.
    """
    if asked == LINKS:
        workspace.mesh.links[:] = 0
        clear(workspace.flows)
    hops: Int = 0
    ports: Int = workspace.mesh.port_x.shape[0]
    for number in range(placed.leaf.streams.shape[0]):
        stream = placed.leaf.streams[number]
        if stream[DIRECT]:
            hops += ports * _receive(workspace, placed, number, asked)
        elif stream[TIMES] == 0:
            continue
        elif asked == BOUND:
            hops += _least_load(workspace, placed, stream)
        else:
            hops += _load_or_save(workspace, placed, stream, asked)
    if asked == LINKS:
        add_to_links(workspace)
    return hops


@called
def _load_or_save(workspace: Workspace, placed: LeafPlacement, stream: Array, asked: Int) -> Int:
    """Ranges from DRAM, each to all its tiles at once, or outputs to it."""
    mesh, ranges, parts, kind = workspace.mesh, workspace.ranges, placed.parts, stream[KIND]
    hops: Int = 0
    for k in range(distinct(ranges, kind, 0, parts)):
        for b in range(distinct(ranges, kind, 1, parts)):
            for h in range(distinct(ranges, kind, 2, parts)):
                for w in range(distinct(ranges, kind, 3, parts)):
                    which = (kind, k, b, h, w)
                    size = size_of(ranges, which, (stream[FIRST], stream[LAST])) * stream[TIMES]
                    if size == 0:
                        continue
                    span = reach(workspace, placed, which)
                    hops += size * port_distance(mesh, span)
                    if asked == LINKS and kind == OUTPUTS:
                        workspace.flows.out[span[0], mesh.lowest[span[0]]] += size
                    elif asked == LINKS:
                        load(workspace, span, size)
    return hops


@called
def _least_load(workspace: Workspace, placed: LeafPlacement, stream: Array) -> Int:
    """Hops at least from or to DRAM: a tree to n tiles has n - 1 links from each port, and reaches each tile.

    Ranges are no smaller than the smallest, and go to all tiles together.
    """
    mesh, ranges, parts = workspace.mesh, workspace.ranges, placed.parts
    ports: Int = mesh.port_x.shape[0]
    replicas = replicas_of(ranges, stream[KIND], parts)
    size = volume(ranges, stream[KIND], (stream[FIRST], stream[LAST]), parts)
    to_all_tiles: Int = 0
    for tile in range(placed.leaf.tile, placed.leaf.tile + parts[0] * parts[1] * parts[2] * parts[3]):
        to_all_tiles += mesh.to_tile[ports, tile]
    reached = smallest(ranges, stream[KIND], (stream[FIRST], stream[LAST]), parts) * to_all_tiles // replicas
    return stream[TIMES] * max(reached, size * (replicas - 1) * ports)


@called
def _receive(workspace: Workspace, placed: LeafPlacement, number: Int, asked: Int) -> Int:
    """What a producer's tiles send: each part, to all tiles that need the same of it, in one tree.

    For a BOUND: a tree to n tiles has n - 1 links, and one more if it begins at another tile; each of the n
    may be where the part that has most in common with their range is computed.
    """
    stream = placed.leaf.streams[number]
    ranges, parts, kind = workspace.ranges, placed.parts, stream[KIND]
    replicas = replicas_of(ranges, kind, parts)
    hops: Int = 0
    for k in range(distinct(ranges, kind, 0, parts)):
        for b in range(distinct(ranges, kind, 1, parts)):
            for h in range(distinct(ranges, kind, 2, parts)):
                for w in range(distinct(ranges, kind, 3, parts)):
                    which = (kind, k, b, h, w)
                    size = placed.leaf.runs * size_of(ranges, which, (stream[FIRST], stream[LAST]))
                    if size == 0:
                        continue
                    found = _receive_range(workspace, placed, which, number, asked)
                    if asked == BOUND:
                        found = size * (replicas - 1) + max(size - replicas * found, 0)
                    hops += found
    return hops


@inlined
def _receive_range(workspace: Workspace, placed: LeafPlacement, which: Range, number: Int, asked: Int) -> Int:
    """Hops times bytes; for a BOUND the bytes that any one tile sends at most."""
    near, common, mesh, stream = (
        workspace.near[number],
        workspace.common[number],
        workspace.mesh,
        placed.leaf.streams[number],
    )
    span = (0, 0) if asked == BOUND else reach(workspace, placed, which)
    axis = workspace.ranges.axis[which[0]]
    k_of, b_of, h_of, w_of = (
        which[axis[0] + 1] if axis[0] >= 0 else 0,
        which[axis[1] + 1] if axis[1] >= 0 else 0,
        which[axis[2] + 1] if axis[2] >= 0 else 0,
        which[axis[3] + 1] if axis[3] >= 0 else 0,
    )
    ports: Int = mesh.port_x.shape[0]
    found: Int = 0
    for k in range(near[0, 0, k_of], near[1, 0, k_of] + 1):
        for b in range(near[0, 1, b_of], near[1, 1, b_of] + 1):
            of_b = common[0, k_of, k] * common[1, b_of, b]
            if of_b == 0:
                continue
            for h in range(near[0, 2, h_of], near[1, 2, h_of] + 1):
                for w in range(near[0, 3, w_of], near[1, 3, w_of] + 1):
                    size = of_b * common[2, h_of, h] * common[3, w_of, w]
                    if asked == BOUND:
                        found = max(found, size)
                        continue
                    tile = stream[TILE] + k * stream[STEPS] + b * stream[STEPS + 1]
                    tile += h * stream[STEPS + 2] + w * stream[STEPS + 3]
                    x, y = mesh.x[tile], mesh.y[tile]
                    found += size * distance(mesh, x, y, span)
                    if asked == LINKS:
                        route(mesh, x, y, span, size * ports, mesh.links)
    return found
