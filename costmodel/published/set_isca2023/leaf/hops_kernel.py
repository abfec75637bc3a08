"""Hops times bytes of all data of a placed leaf, compiled: from and to DRAM, and from producers' tiles.

They are counted as SET's released program counts them, its roundings and faults among that.

A range is a box of a tensor that a part of the partition needs; several parts may need the same one, each on
its tile (its replicas). A range is sent once, along a tree of links that reaches all of these tiles. Its span
is the first and the last column of them; the mesh's ``lowest`` and ``highest`` have the rows in each column.
"""

from __future__ import annotations

from typing import Any

import numba
from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.published.set_isca2023.leaf.values import (
    BATCH,
    DIRECT,
    FIRST,
    LAST,
    OF_WEIGHTS,
    PARTS,
    SIZES,
    STEPS,
    TILE,
    ReleasedPlacement,
    ReleasedWorkspace,
)
from costmodel.schedule.leaf.kernels.placement_kernel import reach, tile_of
from costmodel.schedule.leaf.kernels.ranges_kernel import (
    COUNTS,
    INPUTS,
    OUTPUTS,
    WEIGHTS,
    Range,
    Ranges,
    Two,
    bound,
    distinct,
    extent,
    of_kind,
    size_of,
)
from costmodel.schedule.mesh.mesh_kernel import Mesh, Span, distance, port_hops, port_units, route, tile_hops

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Int64 = numba.int64
"""Makes a 64-bit integer of a literal number, for which what is called would be compiled once more."""


@called
def hop_bytes(workspace: ReleasedWorkspace, placement: ReleasedPlacement, most: Int) -> Int:
    """Hops times bytes of all data of one batch of the leaf; any number above ``most`` where they are more.

    If ``placement.counted``, the bytes on every link are added to ``mesh.links``, too. These have to be 0
    before, and ``most`` large enough that nothing is left out. Weights come first, when links hold nothing
    else: they are loaded once for all ``batches_of_run``, and each batch is charged an equal part of that
    load. As in the released program the result has this part rounded down once, and the links have it rounded
    down on each link. So the sum over links can be less than the result, by less than one byte a link.
    """
    leaf, links = placement.leaf, workspace.mesh.links
    hops = 0
    if leaf.space.has_weights and not leaf.space.weights_follow_b:
        # Floored as a whole here and link by link below, as the released program does: the two sums differ by
        # less than one per link.
        hops = _load(workspace, placement, Int64(WEIGHTS), (Int64(0), leaf.sizes[0])) // leaf.batches_of_run
        if placement.counted:
            for link in range(links.shape[0]):
                links[link] //= leaf.batches_of_run
    for number in range(leaf.sources.shape[0]):
        source = leaf.sources[number]
        if not source[DIRECT]:
            kind = WEIGHTS if source[OF_WEIGHTS] else INPUTS
            hops += _load(workspace, placement, kind, (source[FIRST], source[LAST]))
    if leaf.to_dram:
        hops += _save(workspace, placement)
    for number in range(leaf.sources.shape[0]):
        source = leaf.sources[number]
        # Data from producers comes last: it takes longest to count, and placements that are too dear by then
        # are given up without it.
        if source[DIRECT] and hops <= most:
            hops += _forward(
                workspace, placement, WEIGHTS if source[OF_WEIGHTS] else INPUTS, source, most - hops
            )
    return hops


@called
def _load(workspace: ReleasedWorkspace, placement: ReleasedPlacement, kind: Int, channels: Two) -> Int:
    """Hops times bytes of what the leaf reads from DRAM, of ``channels`` = (first, end).

    The loops pass each distinct range once, not each part. Where no range has replicas and links are not
    counted, hops to the single tile come from a table, which is faster.
    """
    mesh, ranges, parts = workspace.mesh, workspace.ranges, placement.parts
    equal = of_kind(ranges, kind)
    single = equal.counts[COUNTS.most] == 1 and not placement.counted
    hops = 0
    for k in range(distinct(ranges, kind, 0, parts)):
        for b in range(distinct(ranges, kind, 1, parts)):
            for h in range(distinct(ranges, kind, 2, parts)):
                for w in range(distinct(ranges, kind, 3, parts)):
                    which = (kind, k, b, h, w)
                    size = size_of(ranges, which, channels)
                    if size > 0 and single:
                        hops += tile_hops(mesh, size, tile_of(placement, k, b, h, w))
                    elif size > 0:
                        span = reach(workspace, placement, equal, which)
                        hops += port_hops(mesh, size, span)
                        if placement.counted:
                            for port in range(mesh.port_x.shape[0]):
                                x, y = mesh.port_x[port], mesh.port_y[port]
                                route(mesh, x, y, span, port_units(mesh, size, port), mesh.links)
    return hops


@called
def _save(workspace: ReleasedWorkspace, placement: ReleasedPlacement) -> Int:
    """Hops times bytes of the outputs written to DRAM; every part has outputs of its own."""
    mesh, ranges, parts = workspace.mesh, workspace.ranges, placement.parts
    hops = 0
    for k in range(parts[0]):
        for b in range(parts[1]):
            for h in range(parts[2]):
                for w in range(parts[3]):
                    which = (OUTPUTS, k, b, h, w)
                    size = size_of(ranges, which, (0, placement.leaf.sizes[0]))
                    hops += tile_hops(mesh, size, tile_of(placement, k, b, h, w))
                    if placement.counted:
                        _route_to_ports(mesh, tile_of(placement, k, b, h, w), size)
    return hops


@called
def _route_to_ports(mesh: Mesh, tile: Int, size: Int) -> None:
    """Add the bytes that a tile writes to DRAM, divided among the ports, to the links on their way."""
    for port in range(mesh.port_x.shape[0]):
        x = mesh.port_x[port]
        mesh.lowest[x], mesh.highest[x] = mesh.port_y[port], mesh.port_y[port]
        route(mesh, mesh.x[tile], mesh.y[tile], (x, x), port_units(mesh, size, port), mesh.links)


@called
def _forward(
    workspace: ReleasedWorkspace, placement: ReleasedPlacement, kind: Int, source: Array, most: Int
) -> Int:
    """Hops times bytes of what a producer's tiles send to the leaf, or any number above ``most``.

    The unsigned arithmetic of the released program loses a range that begins before the producer's first
    channel. So where outputs are concatenated and a part needs all channels, only the first producer sends
    anything. The ``continue`` below repeats that.
    """
    ranges, parts, hops = workspace.ranges, placement.parts, 0
    equal = of_kind(ranges, kind)
    _fill_theirs(ranges, source)
    for k in range(distinct(ranges, kind, 0, parts)):
        for b in range(distinct(ranges, kind, 1, parts)):
            for h in range(distinct(ranges, kind, 2, parts)):
                for w in range(distinct(ranges, kind, 3, parts)):
                    which = (kind, k, b, h, w)
                    if extent(ranges, which, 0)[0] < source[FIRST]:
                        continue
                    if size_of(ranges, which, (source[FIRST], source[LAST])) > 0:
                        hops += _receive(
                            workspace, placement, which, source, reach(workspace, placement, equal, which)
                        )
                        if hops > most:
                            return hops
    return hops


@called
def _receive(
    workspace: ReleasedWorkspace, placement: ReleasedPlacement, which: Range, source: Array, span: Span
) -> Int:
    """Hops times bytes of one range, from every part of the producer that holds some of it.

    A message's size is the overlap of the range with the producer's part: the product of the overlaps along
    K, B, H and W. A producer with a larger batch sends for several batches (``rounds``) of the consumer; each
    is charged an equal fraction of every message, rounded down.
    """
    mesh, hops = workspace.mesh, 0
    rounds = max(source[BATCH] // placement.leaf.sizes[1], 1)
    for k in range(source[PARTS]):
        of_k = _common(workspace.ranges, which, 0, source, k)
        if of_k == 0:
            continue
        for b in range(source[PARTS + 1]):
            of_b = of_k * _common_samples(workspace.ranges, which, source, b, placement.leaf.sizes[1])
            if of_b == 0:
                continue
            for h in range(source[PARTS + 2]):
                of_h = of_b * _common(workspace.ranges, which, 2, source, h)
                if of_h == 0:
                    continue
                for w in range(source[PARTS + 3]):
                    size = of_h * _common(workspace.ranges, which, 3, source, w) // rounds
                    if size > 0:
                        tile = source[TILE] + k * source[STEPS] + b * source[STEPS + 1]
                        tile += h * source[STEPS + 2] + w * source[STEPS + 3]
                        x, y = mesh.x[tile], mesh.y[tile]
                        hops += size * distance(mesh, x, y, span)
                        if placement.counted:
                            route(mesh, x, y, span, size, mesh.links)
    return hops


@called
def _fill_theirs(ranges: Ranges, source: Array) -> None:
    """Fill ``ranges.theirs`` with the first and the end index of the producer's parts along each dim."""
    for dim in range(4):
        size, parts = source[SIZES + dim], source[PARTS + dim]
        for part in range(parts):
            ranges.theirs[0, dim, part] = bound(size, parts, part)
            ranges.theirs[1, dim, part] = bound(size, parts, part + 1)


@inlined
def _common(ranges: Ranges, which: Range, dim: Int, source: Array, part: Int) -> Int:
    """Overlap of a range with the producer's part along one dim.

    Along K the consumer counts concatenated channels, the producer its own: the difference is FIRST.
    """
    first, end = extent(ranges, which, dim)
    if dim == 0:
        first, end = first - source[FIRST], end - source[FIRST]
    return max(min(end, ranges.theirs[1, dim, part]) - max(first, ranges.theirs[0, dim, part]), 0)


@called
def _common_samples(ranges: Ranges, which: Range, source: Array, part: Int, batch: Int) -> Int:
    """Samples that a range and the producer's part have in common; ``batch`` is the leaf's.

    Where batches differ, the smaller one is repeated, one ``period`` further each time, until it is past the
    range of the larger one.
    """
    if source[BATCH] == batch:
        return _common(ranges, which, 1, source, part)
    small_first, small_end = extent(ranges, which, 1)
    large_first, large_end = ranges.theirs[0, 1, part], ranges.theirs[1, 1, part]
    period = batch
    if source[BATCH] < batch:
        small_first, large_first = large_first, small_first
        small_end, large_end = large_end, small_end
        period = source[BATCH]
    common = 0
    while small_first < large_end:
        common += max(min(small_end, large_end) - max(small_first, large_first), 0)
        small_first, small_end = small_first + period, small_end + period
    return common
