"""The compiled half of :mod:`.leaf`: what a layer's data costs for every partition and placement."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.chip.mesh_kernel import (
    Mesh,
    Span,
    distance,
    port_hops,
    port_share,
    route,
    tile_hops,
)
from costmodel.chip.ranges_kernel import (
    ANY,
    INPUTS,
    OUTPUTS,
    WEIGHTS,
    Four,
    Range,
    Ranges,
    Two,
    bound,
    ceil_divided,
    copies,
    distinct,
    extent,
    fill_ranges,
    replicas_of,
    size_of,
)
from costmodel.compiled import called, entry, inlined
from costmodel.conventions.set_isca2023.intra_tile_kernel import objective_value
from costmodel.conventions.set_isca2023.leaf_values import (
    BATCH,
    DIRECT,
    FIRST,
    LAST,
    OF_WEIGHTS,
    PARTS,
    SIZES,
    STEPS,
    TILE,
    Leaf,
    Placed,
    Prices,
    Room,
    Table,
)
from costmodel.conventions.set_isca2023.partition_kernel import dram_bytes, least_hops

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


@entry
def search(room: Room, leaf: Leaf, table: Table, prices: Prices, bounds: Array, found: Array) -> None:
    """Fill ``found``: row of the table, number of the order, hops, DRAM bytes; row -1: none at all.

    ``bounds`` [n] is room for what each partition costs at least: partitions come in order of these until
    no other can be cheaper. Of equally cheap ones the first of the table is found.
    """
    found[0] = -1
    least = np.inf
    for row in range(table.parts.shape[0]):
        fill_ranges(leaf.shape, leaf.sizes, table.parts[row], room.ranges)
        dram = dram_bytes(room.ranges, leaf, table.parts[row])
        hops = least_hops(room, leaf, table.parts[row])
        bounds[row] = _value(table, prices, row, hops, dram)
    for _ in range(table.parts.shape[0]):
        cheapest: Int = np.argmin(bounds)
        if bounds[cheapest] > least:
            break
        if bounds[cheapest] == least and cheapest > found[0]:
            bounds[cheapest] = np.inf
            continue
        bounds[cheapest] = np.inf
        parts = table.parts[cheapest]
        fill_ranges(leaf.shape, leaf.sizes, parts, room.ranges)
        dram = dram_bytes(room.ranges, leaf, parts)
        cut = _axes_cut(parts)
        for number in range(table.counts[cut]):
            hops = hop_bytes(room, Placed(leaf, parts, _steps(parts, table.orders[cut, number])))
            value = _value(table, prices, cheapest, hops, dram)
            if value < least or (value == least and cheapest < found[0]):
                least = value
                found[0], found[1], found[2], found[3] = cheapest, number, hops, dram


@inlined
def _value(table: Table, prices: Prices, row: Int, hops: Int, dram: Int) -> Any:
    energy = table.energy_pj[row] + (hops * prices.hop_pj + dram * prices.dram_pj)
    cycles = max(table.cycles[row], ceil_divided(dram, prices.dram_bytes_per_cycle))
    return objective_value(energy, float(cycles), prices.exponent)


@inlined
def _axes_cut(parts: Array) -> Int:
    """The axes with several parts, a bit each."""
    cut = 0
    for axis in range(4):
        cut += (parts[axis] > 1) << axis
    return cut


@entry
def links_and_buffers(room: Room, leaf: Leaf, parts: Array, order: Array, held: Array) -> None:
    """Fill the mesh's links, and ``held`` [2, tiles]: bytes of inputs and of weights."""
    placed = Placed(leaf, parts, _steps(parts, order))
    fill_ranges(leaf.shape, leaf.sizes, parts, room.ranges)
    room.mesh.links[:] = 0
    hop_bytes(room, placed)
    held[:] = 0
    _hold(room.ranges, placed, INPUTS, held[0])
    if leaf.shape.has_weights:
        _hold(room.ranges, placed, WEIGHTS, held[0 if leaf.shape.weights_follow_b else 1])


@called
def hop_bytes(room: Room, placed: Placed) -> Int:
    """Hops times bytes of all data of the leaf; fills the mesh's links if it has any.

    Weights come first: their share of the whole run's single load is rounded down, as hops and as links.
    """
    leaf, links = placed.leaf, room.mesh.links
    hops = 0
    if leaf.shape.has_weights and not leaf.shape.weights_follow_b:
        hops = _load(room, placed, WEIGHTS, (0, leaf.sizes[0])) // leaf.weight_share
        for link in range(links.shape[0]):
            links[link] //= leaf.weight_share
    for number in range(leaf.sources.shape[0]):
        source = leaf.sources[number]
        kind = WEIGHTS if source[OF_WEIGHTS] else INPUTS
        if source[DIRECT]:
            hops += _forward(room, placed, kind, source)
        else:
            hops += _load(room, placed, kind, (source[FIRST], source[LAST]))
    if leaf.to_dram:
        hops += _save(room, placed)
    return hops


@inlined
def _steps(parts: Array, order: Array) -> Four:
    """How many tiles further the next part along K, B, H, W is, the last axis of ``order`` the closest."""
    k, b, h, w, step = 0, 0, 0, 0, 1
    for place in range(3, -1, -1):
        axis = order[place]
        k = step if axis == 0 else k
        b = step if axis == 1 else b
        h = step if axis == 2 else h
        w = step if axis == 3 else w
        step *= parts[axis]
    return k, b, h, w


@inlined
def _tile(placed: Placed, k: Int, b: Int, h: Int, w: Int) -> Int:
    steps = placed.steps
    return placed.leaf.tile + steps[0] * k + steps[1] * b + steps[2] * h + steps[3] * w


@called
def _reach(room: Room, placed: Placed, which: Range) -> Span:
    """First and last column of the tiles that need a range; fills the rows to be reached in every column."""
    mesh, ranges, parts = room.mesh, room.ranges, placed.parts
    if replicas_of(ranges, which[0], parts) == 1:
        tile = _tile(placed, which[1], which[2], which[3], which[4])
        x = mesh.x[tile]
        mesh.lowest[x], mesh.highest[x] = mesh.y[tile], mesh.y[tile]
        return x, x
    left: Int = mesh.lowest.shape[0]
    right: Int = -1
    mesh.lowest[:] = mesh.along_y.shape[1]
    mesh.highest[:] = -1
    for k in range(which[1], which[1] + copies(ranges, which[0], 0, parts)):
        for b in range(which[2], which[2] + copies(ranges, which[0], 1, parts)):
            for h in range(which[3], which[3] + copies(ranges, which[0], 2, parts)):
                for w in range(which[4], which[4] + copies(ranges, which[0], 3, parts)):
                    tile = _tile(placed, k, b, h, w)
                    x, y = mesh.x[tile], mesh.y[tile]
                    left, right = min(left, x), max(right, x)
                    mesh.lowest[x] = min(mesh.lowest[x], y)
                    mesh.highest[x] = max(mesh.highest[x], y)
    return left, right


@called
def _load(room: Room, placed: Placed, kind: Int, channels: Two) -> Int:
    """Hops times bytes of ranges of ``channels`` read from DRAM."""
    mesh, ranges, parts = room.mesh, room.ranges, placed.parts
    single = replicas_of(ranges, kind, parts) == 1 and mesh.links.shape[0] == 0
    hops = 0
    for k in range(distinct(ranges, kind, 0, parts)):
        for b in range(distinct(ranges, kind, 1, parts)):
            for h in range(distinct(ranges, kind, 2, parts)):
                for w in range(distinct(ranges, kind, 3, parts)):
                    which = (kind, k, b, h, w)
                    size = size_of(ranges, which, channels)
                    if size > 0 and single:
                        hops += tile_hops(mesh, size, _tile(placed, k, b, h, w))
                    elif size > 0:
                        span = _reach(room, placed, which)
                        hops += port_hops(mesh, size, span)
                        if mesh.links.shape[0]:
                            for port in range(mesh.port_x.shape[0]):
                                x, y, share = (
                                    mesh.port_x[port],
                                    mesh.port_y[port],
                                    port_share(mesh, size, port),
                                )
                                route(mesh, x, y, span, share, mesh.links)
    return hops


@called
def _save(room: Room, placed: Placed) -> Int:
    """Hops times bytes of the outputs written to DRAM."""
    mesh, ranges, parts = room.mesh, room.ranges, placed.parts
    hops = 0
    for k in range(parts[0]):
        for b in range(parts[1]):
            for h in range(parts[2]):
                for w in range(parts[3]):
                    which = (OUTPUTS, k, b, h, w)
                    size = size_of(ranges, which, (0, placed.leaf.sizes[0]))
                    hops += tile_hops(mesh, size, _tile(placed, k, b, h, w))
                    if mesh.links.shape[0]:
                        _route_to_ports(mesh, _tile(placed, k, b, h, w), size)
    return hops


@called
def _route_to_ports(mesh: Mesh, tile: Int, size: Int) -> None:
    for port in range(mesh.port_x.shape[0]):
        x = mesh.port_x[port]
        mesh.lowest[x], mesh.highest[x] = mesh.port_y[port], mesh.port_y[port]
        route(mesh, mesh.x[tile], mesh.y[tile], (x, x), port_share(mesh, size, port), mesh.links)


@called
def _forward(room: Room, placed: Placed, kind: Int, source: Array) -> Int:
    """Hops times bytes of what a producer's tiles send here.

    The released program's unsigned arithmetic loses a range that begins before the producer's first channel:
    where outputs are concatenated, only the first producer sends anything to a layer that needs all channels.
    """
    ranges, parts, hops = room.ranges, placed.parts, 0
    _fill_theirs(ranges, source)
    for k in range(distinct(ranges, kind, 0, parts)):
        for b in range(distinct(ranges, kind, 1, parts)):
            for h in range(distinct(ranges, kind, 2, parts)):
                for w in range(distinct(ranges, kind, 3, parts)):
                    which = (kind, k, b, h, w)
                    if extent(ranges, which, 0)[0] < source[FIRST]:
                        continue
                    if size_of(ranges, which, (source[FIRST], source[LAST])) > 0:
                        hops += _receive(room, placed, which, source, _reach(room, placed, which))
    return hops


@called
def _receive(room: Room, placed: Placed, which: Range, source: Array, span: Span) -> Int:
    """Hops times bytes of one range, from every part of the producer that holds some of it.

    A producer of a larger batch sends to several of the consumer's: every message is averaged over them.
    """
    mesh, hops = room.mesh, 0
    rounds = max(source[BATCH] // placed.leaf.sizes[1], 1)
    for k in range(source[PARTS]):
        of_k = _common(room.ranges, which, 0, source, k)
        if of_k == 0:
            continue
        for b in range(source[PARTS + 1]):
            of_b = of_k * _common_samples(room.ranges, which, source, b, placed.leaf.sizes[1])
            if of_b == 0:
                continue
            for h in range(source[PARTS + 2]):
                of_h = of_b * _common(room.ranges, which, 2, source, h)
                if of_h == 0:
                    continue
                for w in range(source[PARTS + 3]):
                    size = of_h * _common(room.ranges, which, 3, source, w) // rounds
                    if size > 0:
                        tile = source[TILE] + k * source[STEPS] + b * source[STEPS + 1]
                        tile += h * source[STEPS + 2] + w * source[STEPS + 3]
                        x, y = mesh.x[tile], mesh.y[tile]
                        hops += size * distance(mesh, x, y, span)
                        if mesh.links.shape[0]:
                            route(mesh, x, y, span, size, mesh.links)
    return hops


@called
def _fill_theirs(ranges: Ranges, source: Array) -> None:
    """First and end of the producer's parts in each dim."""
    for dim in range(4):
        size, parts = source[SIZES + dim], source[PARTS + dim]
        for part in range(parts):
            ranges.theirs[0, dim, part] = bound(size, parts, part)
            ranges.theirs[1, dim, part] = bound(size, parts, part + 1)


@inlined
def _common(ranges: Ranges, which: Range, dim: Int, source: Array, part: Int) -> Int:
    """Overlap of a range with the producer's part along one dim."""
    first, end = extent(ranges, which, dim)
    if dim == 0:
        first, end = first - source[FIRST], end - source[FIRST]
    return max(min(end, ranges.theirs[1, dim, part]) - max(first, ranges.theirs[0, dim, part]), 0)


@called
def _common_samples(ranges: Ranges, which: Range, source: Array, part: Int, batch: Int) -> Int:
    """Samples in common; the smaller of the two batches is repeated until the larger one is through."""
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


@called
def _hold(ranges: Ranges, placed: Placed, kind: Int, held: Array) -> None:
    """Add the bytes of a kind of data that every tile holds: of all operands of an element-wise layer."""
    parts, times = placed.parts, placed.leaf.shape.operands if kind == INPUTS else 1
    for k in range(parts[0]):
        for b in range(parts[1]):
            for h in range(parts[2]):
                for w in range(parts[3]):
                    size = size_of(ranges, (kind, k, b, h, w), (0, ANY))
                    held[_tile(placed, k, b, h, w)] += size * times
