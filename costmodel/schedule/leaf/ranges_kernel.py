"""Which data every part of a cut layer needs, as ranges in C, B, H, W; compiled.

A layer's outputs are cut into K x B x H x W parts, one a tile. Each range follows one axis of the partition
or none; parts along axes that no range follows need the same data.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.compiled import called, inlined

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Four = tuple[Int, Int, Int, Int]
Two = tuple[Int, Int]
Range = tuple[Int, Int, Int, Int, Int]
"""A kind of data and the part along K, B, H and W that needs it."""

CONV, FC, GROUPCONV, POOL, ELEMENTWISE, TRANSPOSE = 0, 1, 2, 3, 4, 5
"""Kinds of layers, by how inputs follow outputs."""
OUTPUTS, INPUTS, WEIGHTS = 0, 1, 2
ANY = 1 << 62
"""More channels than there are."""


class Shape(NamedTuple):
    """A :class:`costmodel.schedule.layer_graph.graph.NetworkLayer` as plain numbers."""

    kind: int
    c: int
    r: int
    s: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    input_h: int
    input_w: int
    group_c: int
    group_k: int
    operands: int
    has_weights: bool
    weights_follow_b: bool
    order: tuple[int, int, int]


class Ranges(NamedTuple):
    """Room for ranges: ``first`` and ``end`` [3, 4, tiles] of outputs, inputs, weights in C, B, H, W.

    ``axis`` [3, 4]: the partition's axis that a range follows, or -1; ``follows`` [3, 4]: whether any range
    follows that axis of the partition. ``theirs`` [2, 4, tiles]: first and end of a producer's parts.
    """

    first: Array
    end: Array
    axis: Array
    follows: Array
    theirs: Array


@called
def fill_ranges(shape: Shape, sizes: Four, parts: Array, ranges: Ranges) -> None:
    """Which outputs every part computes, which inputs and weights it needs; (0, 0) for no outputs."""
    ranges.axis[:] = -1
    for axis in range(4):
        ranges.axis[OUTPUTS, axis] = axis
        for part in range(parts[axis]):
            ranges.first[OUTPUTS, axis, part] = bound(sizes[axis], parts[axis], part)
            ranges.end[OUTPUTS, axis, part] = bound(sizes[axis], parts[axis], part + 1)
    _fill_inputs(shape, parts, ranges)
    _fill_weights(shape, parts, ranges)
    ranges.follows[:] = 0
    for kind in range(3):
        for dim in range(4):
            if ranges.axis[kind, dim] >= 0:
                ranges.follows[kind, ranges.axis[kind, dim]] = 1


@inlined
def bound(length: Int, parts: Int, part: Int) -> Int:
    """Where a part begins: the first whole number from ``part`` equal shares on."""
    return length - length * (parts - part) // parts


@inlined
def ceil_divided(value: Int, divisor: Int) -> Int:
    """The quotient rounded up."""
    return (value + divisor - 1) // divisor


@inlined
def _fill_inputs(shape: Shape, parts: Array, ranges: Ranges) -> None:
    for dim in range(4):
        to = dim
        if shape.kind == TRANSPOSE and dim != 1:
            source = shape.order[dim - 1 if dim else 0]
            to = source + 1 if source else 0
        ranges.axis[INPUTS, to] = dim
    if shape.kind in (CONV, FC):
        ranges.axis[INPUTS, 0] = -1
        ranges.first[INPUTS, 0, 0], ranges.end[INPUTS, 0, 0] = 0, shape.c
    _follow(ranges, INPUTS, parts)
    if shape.kind == GROUPCONV:
        for part in range(parts[0]):
            if ranges.end[INPUTS, 0, part] > 0:
                first, end = ranges.first[INPUTS, 0, part], ranges.end[INPUTS, 0, part]
                ranges.first[INPUTS, 0, part] = first // shape.group_k * shape.group_c
                ranges.end[INPUTS, 0, part] = ceil_divided(end, shape.group_k) * shape.group_c
    if shape.kind in (CONV, GROUPCONV, POOL, FC):
        _slide(shape, parts, ranges)


@inlined
def _fill_weights(shape: Shape, parts: Array, ranges: Ranges) -> None:
    """Weights as C: outputs, H: inputs, W: filter positions; products of activations have them a sample."""
    ranges.first[WEIGHTS, :, 0] = 0
    if not shape.has_weights:
        ranges.end[WEIGHTS, :, 0] = 0
        return
    ranges.axis[WEIGHTS, 0] = 0
    ranges.axis[WEIGHTS, 1] = 1 if shape.weights_follow_b else -1
    ranges.end[WEIGHTS, 1, 0] = 1
    ranges.end[WEIGHTS, 2, 0] = shape.group_c if shape.kind == GROUPCONV else shape.c
    ranges.end[WEIGHTS, 3, 0] = shape.r * shape.s
    _follow(ranges, WEIGHTS, parts)


@called
def _follow(ranges: Ranges, kind: Int, parts: Array) -> None:
    """Ranges are those of the outputs in the dims that follow an axis."""
    for dim in range(4):
        axis = ranges.axis[kind, dim]
        for part in range(parts[axis] if axis >= 0 else 0):
            first, end = ranges.first[OUTPUTS, axis, part], ranges.end[OUTPUTS, axis, part]
            ranges.first[kind, dim, part] = first if end > first else 0
            ranges.end[kind, dim, part] = end if end > first else 0


@inlined
def _slide(shape: Shape, parts: Array, ranges: Ranges) -> None:
    """Input rows and columns under the windows of the outputs, without padding."""
    for dim in range(2, 4):
        stride, window, pad, length = shape.stride_h, shape.r, shape.pad_h, shape.input_h
        if dim == 3:
            stride, window, pad, length = shape.stride_w, shape.s, shape.pad_w, shape.input_w
        if shape.kind == FC:
            stride, length = 1, window - pad
        for part in range(parts[dim]):
            first, end = ranges.first[INPUTS, dim, part], ranges.end[INPUTS, dim, part]
            if end > first:
                ranges.first[INPUTS, dim, part] = max(first * stride - pad, 0)
                ranges.end[INPUTS, dim, part] = min((end - 1) * stride + window - pad, length)


@inlined
def distinct(ranges: Ranges, kind: Int, axis: Int, parts: Array) -> Int:
    """How many different ranges a kind of data has along an axis of the partition."""
    return parts[axis] if ranges.follows[kind, axis] else 1


@inlined
def copies(ranges: Ranges, kind: Int, axis: Int, parts: Array) -> Int:
    """How many parts along an axis of the partition need the same range."""
    return 1 if ranges.follows[kind, axis] else parts[axis]


@inlined
def replicas_of(ranges: Ranges, kind: Int, parts: Array) -> Int:
    """How many tiles need each range."""
    replicas = 1
    for axis in range(4):
        replicas *= copies(ranges, kind, axis, parts)
    return replicas


@inlined
def extent(ranges: Ranges, which: Range, dim: Int) -> Two:
    """First and end of a range in one dim."""
    axis = ranges.axis[which[0], dim]
    part = which[axis + 1] if axis >= 0 else 0
    return ranges.first[which[0], dim, part], ranges.end[which[0], dim, part]


@inlined
def size_of(ranges: Ranges, which: Range, channels: Two) -> Int:
    """Bytes of a range, of the ``channels`` from the first to before the second."""
    first, end = extent(ranges, which, 0)
    size = max(min(end, channels[1]) - max(first, channels[0]), 0)
    for dim in range(1, 4):
        first, end = extent(ranges, which, dim)
        size *= max(end - first, 0)
    return size


@called
def volume(ranges: Ranges, kind: Int, channels: Two, parts: Array) -> Int:
    """Bytes of all different ranges of a kind of data: a product, as every dim follows an axis of its own."""
    total = 1
    for dim in range(4):
        axis, length = ranges.axis[kind, dim], 0
        for part in range(parts[axis] if axis >= 0 else 1):
            first, end = ranges.first[kind, dim, part], ranges.end[kind, dim, part]
            if dim == 0:
                first, end = max(first, channels[0]), min(end, channels[1])
            length += max(end - first, 0)
        total *= length
    return total


@called
def smallest(ranges: Ranges, kind: Int, channels: Two, parts: Array) -> Int:
    """Bytes of the smallest range of a kind of data."""
    size: Int = 1
    for dim in range(4):
        axis, shortest = ranges.axis[kind, dim], ANY
        for part in range(parts[axis] if axis >= 0 else 1):
            first, end = ranges.first[kind, dim, part], ranges.end[kind, dim, part]
            if dim == 0:
                first, end = max(first, channels[0]), min(end, channels[1])
            shortest = min(shortest, max(end - first, 0))
        size *= shortest
    return size
