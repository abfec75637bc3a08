"""Which outputs, inputs and weights every part of a cut layer has, as ranges in C, B, H and W; compiled.

A layer's outputs are cut into K x B x H x W parts, one a tile. What a part needs of a tensor is a box, with
one interval [first, end) a dim. Each dim of a tensor follows one axis of the partition, or none: input rows
follow H, the input channels of a convolution follow nothing, for every part needs all of them. So intervals
are kept for each dim and each part along its axis, [kind of data, dim, part], and not for every tile. Parts
along an axis that no dim follows need the same data: these are the tiles that a multicast reaches.

Input rows are those under the windows of the part's outputs, without padding, so neighbours share rows (the
halo). 12 rows of outputs cut into 3 parts, window 3, stride 1, padding 1:

    outputs      0  1  2  3 | 4  5  6  7 | 8  9 10 11
    inputs      [0  1  2  3   4]
                         [3   4  5  6  7   8]
                                     [7   8  9 10 11]
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
"""A kind of data, and the part along K, B, H and W that needs it."""

CONV, FC, GROUPCONV, POOL, ELEMENTWISE, TRANSPOSE = 0, 1, 2, 3, 4, 5
"""Kinds of layers, by how the ranges of inputs follow those of outputs."""
OUTPUTS, INPUTS, WEIGHTS = 0, 1, 2
"""Kinds of data."""
ANY = 1 << 62
"""An end beyond all channels."""


class Shape(NamedTuple):
    """A :class:`costmodel.schedule.layer_graph.graph.NetworkLayer` as plain numbers, named as there.

    ``weights_follow_b``: weights are activations, so that every sample has its own.
    """

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
    """The ranges of one partition, for the three kinds of data and their four dims C, B, H and W.

    ``first``, ``end`` [3, 4, tiles]: the interval of each part along the axis that the dim follows.
    ``axis`` [3, 4]: that axis of the partition (0 to 3 for K, B, H, W), or -1. ``follows`` [3, 4]: 1 if some
    dim of this kind of data follows this axis. ``theirs`` [2, 4, tiles]: first and end of a producer's parts,
    which only the count of SET's released program uses.
    """

    first: Array
    end: Array
    axis: Array
    follows: Array
    theirs: Array


@called
def fill_ranges(shape: Shape, sizes: Four, parts: Array, ranges: Ranges) -> None:
    """Fill ``ranges``: the outputs that every part computes, the inputs and weights that it needs for them.

    A part without outputs (more parts than indices) needs nothing: its intervals are [0, 0).
    """
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
    """Where a part begins: ``part * length / parts`` rounded up, written without rounding errors."""
    return length - length * (parts - part) // parts


@inlined
def ceil_divided(value: Int, divisor: Int) -> Int:
    """The quotient rounded up."""
    return (value + divisor - 1) // divisor


@inlined
def _fill_inputs(shape: Shape, parts: Array, ranges: Ranges) -> None:
    """Which inputs a part needs, by the kind of layer.

    A transpose reads dims of its inputs in another order. Convolutions and products read all channels; those
    in groups read the channels of the groups that the part's outputs touch. The other kinds read the channels
    that they compute. Windows widen rows and columns.
    """
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
    """Which weights a part needs; their dims C, B, H and W stand for outputs, samples, inputs, filter points.

    Only weights that are activations have several samples. A layer without weights has an empty range.
    """
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
    """Give every dim that follows an axis the interval of the outputs along that axis."""
    for dim in range(4):
        axis = ranges.axis[kind, dim]
        for part in range(parts[axis] if axis >= 0 else 0):
            first, end = ranges.first[OUTPUTS, axis, part], ranges.end[OUTPUTS, axis, part]
            ranges.first[kind, dim, part] = first if end > first else 0
            ranges.end[kind, dim, part] = end if end > first else 0


@inlined
def _slide(shape: Shape, parts: Array, ranges: Ranges) -> None:
    """Widen rows and columns of inputs to those under the windows of the outputs, cut off at the edges.

    A fully connected layer's window is all of its inputs.
    """
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
    """How many different ranges of a kind of data there are along an axis of the partition."""
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
    """The interval of a range in one dim."""
    axis = ranges.axis[which[0], dim]
    part = which[axis + 1] if axis >= 0 else 0
    return ranges.first[which[0], dim, part], ranges.end[which[0], dim, part]


@inlined
def size_of(ranges: Ranges, which: Range, channels: Two) -> Int:
    """Bytes of a range, counting only channels from ``channels[0]`` to before ``channels[1]``."""
    first, end = extent(ranges, which, 0)
    size = max(min(end, channels[1]) - max(first, channels[0]), 0)
    for dim in range(1, 4):
        first, end = extent(ranges, which, dim)
        size *= max(end - first, 0)
    return size


@called
def volume(ranges: Ranges, kind: Int, channels: Two, parts: Array) -> Int:
    """Bytes of all different ranges of a kind of data together.

    Every dim follows an axis of its own, so the sum over all boxes is the product over dims of the sums of
    interval lengths.
    """
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
    """Bytes of the smallest range of a kind of data: the product of the shortest intervals."""
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
