"""The outputs, inputs and weights of every part of a cut layer, as ranges in C, B, H and W; compiled.

A layer's outputs are cut into K x B x H x W parts, one a tile. A part needs the image of its box in each
tensor (:mod:`costmodel.schedule.boxes`): one interval [first, end) a dim. Each dim of a tensor follows one
axis of the partition, or none: input rows follow H, the input channels of a convolution follow nothing, for
every part needs all of them. So intervals are kept for each dim and each part along its axis, [kind of data,
dim, part], and not for every tile. Parts along an axis that no dim follows need the same data: these are the
tiles that a multicast reaches.

The kind of a layer makes no difference here: a layer is the projections of its iteration space, as integers.
Input rows are those under the windows of the part's outputs, without padding, so neighbours have rows in
common (the halo). 12 rows of outputs cut into 3 parts, window 3, stride 1, padding 1:

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

OUTPUTS, INPUTS, WEIGHTS = 0, 1, 2
"""Kinds of data."""
ANY = 1 << 62
"""An end beyond all channels."""


class ProjectionRow(NamedTuple):
    """How one dim of a layer's data follows the partition, as integers.

    The interval of a part with indices [first, end) along ``axis`` (0 to 3 for K, B, H and W) is

        [first // divisor * coefficient + offset, (end - 1) // divisor * coefficient + reach + offset + 1)

    cut off at 0 and at ``length``. ``reach``: how far dims that are not cut, such as a window's, go beyond
    that index. With ``axis`` -1 no part matters, and the interval is [offset, offset + reach + 1).
    """

    axis: int
    coefficient: int
    divisor: int
    reach: int
    offset: int
    length: int


PROJECTION = ProjectionRow(*range(len(ProjectionRow._fields)))
"""The column of each field of a :class:`ProjectionRow`."""


class KernelSpace(NamedTuple):
    """A layer's iteration space as integers; ``leaf/geometry.py`` makes it.

    ``projections`` [3, 4, columns]: a :class:`ProjectionRow` for each kind of data and each of its dims.
    ``operands``: inputs of an element-wise layer, whose projections are the same. ``has_weights``: a layer
    without has empty weights. ``weights_follow_b``: weights are activations, so that each sample has its own.
    """

    projections: Array
    operands: int
    has_weights: bool
    weights_follow_b: bool


class Ranges(NamedTuple):
    """The ranges of one partition, for the three kinds of data and their four dims C, B, H and W.

    ``first``, ``end`` [3, 4, tiles]: the interval of each part along the axis that the dim follows.
    ``axis`` [3, 4]: that axis of the partition (0 to 3 for K, B, H, W), or -1. ``follows`` [3, 4]: 1 if some
    dim of this kind of data follows this axis. ``skipped`` [4, tiles]: 1 for parts along K, B, H or W that no
    data is sent to; ``served`` [4]: how many parts along each get data. ``theirs`` [2, 4, tiles]: first and
    end of a producer's parts, which only the count of SET's released program uses.
    """

    first: Array
    end: Array
    axis: Array
    follows: Array
    skipped: Array
    served: Array
    theirs: Array


@called
def fill_ranges(space: KernelSpace, sizes: Four, parts: Array, ranges: Ranges, to_idle: bool) -> None:
    """Fill ``ranges``: the outputs that every part computes, the inputs and weights that it needs for them.

    ``sizes``: of K, B, H and W. With more parts than indices some parts have no outputs; their intervals are
    [0, 0). Such a part needs nothing of data that does not follow the axis either: 14 columns in 16 parts
    leave the tiles of 2 parts without the weights that all others get. ``to_idle``: they get it nonetheless,
    as SET's released program counts.
    """
    ranges.follows[:] = 0
    for axis in range(4):
        ranges.served[axis] = parts[axis] if to_idle else min(parts[axis], sizes[axis])
        for part in range(parts[axis]):
            begin, end = bound(sizes[axis], parts[axis], part), bound(sizes[axis], parts[axis], part + 1)
            ranges.skipped[axis, part] = not to_idle and begin == end
    for kind in range(3):
        for dim in range(4):
            row = space.projections[kind, dim]
            axis = row[PROJECTION.axis]
            ranges.axis[kind, dim] = axis
            # One interval for all parts; ``extent`` looks for it at index 0.
            if axis < 0:
                ranges.first[kind, dim, 0] = max(row[PROJECTION.offset], 0)
                end = row[PROJECTION.offset] + row[PROJECTION.reach] + 1
                ranges.end[kind, dim, 0] = min(end, row[PROJECTION.length])
                continue
            ranges.follows[kind, axis] = 1
            first: Int = 0
            for part in range(parts[axis]):
                next_one = bound(sizes[axis], parts[axis], part + 1)
                _project(ranges, (kind, dim, part), row, (first, next_one))
                first = next_one


@inlined
def _project(ranges: Ranges, which: tuple[Int, Int, Int], row: Array, indices: Two) -> None:
    """The interval of one dim of a kind of data for a part with ``indices`` along the dim's axis."""
    if indices[1] <= indices[0]:
        ranges.first[which] = 0
        ranges.end[which] = 0
        return
    first, last = indices[0], indices[1] - 1
    # Only channels of grouped convolutions have a divisor; the branch spares all else two divisions.
    if row[PROJECTION.divisor] > 1:
        first, last = first // row[PROJECTION.divisor], last // row[PROJECTION.divisor]
    first = first * row[PROJECTION.coefficient] + row[PROJECTION.offset]
    last = last * row[PROJECTION.coefficient] + row[PROJECTION.offset]
    ranges.first[which] = max(first, 0)
    ranges.end[which] = min(last + row[PROJECTION.reach] + 1, row[PROJECTION.length])


@inlined
def bound(length: Int, parts: Int, part: Int) -> Int:
    """Where a part begins: ``part * length / parts`` rounded up, written without rounding errors."""
    return length - length * (parts - part) // parts


@inlined
def ceil_divided(value: Int, divisor: Int) -> Int:
    """The quotient rounded up."""
    return (value + divisor - 1) // divisor


@inlined
def distinct(ranges: Ranges, kind: Int, axis: Int, parts: Array) -> Int:
    """How many different ranges of a kind of data there are along an axis of the partition."""
    return parts[axis] if ranges.follows[kind, axis] else 1


@inlined
def alike(ranges: Ranges, kind: Int, axis: Int, parts: Array) -> Int:
    """How many parts along an axis of the partition would need the same range if none were skipped."""
    return 1 if ranges.follows[kind, axis] else parts[axis]


@inlined
def replicas_of(ranges: Ranges, kind: Int) -> Int:
    """How many tiles get each range."""
    replicas = 1
    for axis in range(4):
        replicas *= 1 if ranges.follows[kind, axis] else ranges.served[axis]
    return replicas


@inlined
def is_skipped(ranges: Ranges, k: Int, b: Int, h: Int, w: Int) -> Any:
    """Whether a part gets no data."""
    skipped = ranges.skipped
    return skipped[0, k] + skipped[1, b] + skipped[2, h] + skipped[3, w] > 0


@inlined
def extent(ranges: Ranges, which: Range, dim: Int) -> Two:
    """The interval of a range in one dim."""
    axis = ranges.axis[which[0], dim]
    part = which[axis + 1] if axis >= 0 else 0
    return ranges.first[which[0], dim, part], ranges.end[which[0], dim, part]


@inlined
def size_of(ranges: Ranges, which: Range, channels: Two) -> Int:
    """Elements of a range, counting only channels from ``channels[0]`` to before ``channels[1]``."""
    first, end = extent(ranges, which, 0)
    size = max(min(end, channels[1]) - max(first, channels[0]), 0)
    for dim in range(1, 4):
        first, end = extent(ranges, which, dim)
        size *= max(end - first, 0)
    return size


@called
def volume(ranges: Ranges, kind: Int, channels: Two, parts: Array) -> Int:
    """Elements of all different ranges of a kind of data together.

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
    """Elements of the smallest range of a kind of data that is sent.

    Ranges are boxes, one for each combination of parts, so the smallest has the shortest interval of each
    dim. Along dim 0 only the ``channels`` from the first to before the second count.
    """
    size: Int = 1
    for dim in range(4):
        axis, shortest = ranges.axis[kind, dim], ANY
        for part in range(parts[axis] if axis >= 0 else 1):
            if axis >= 0 and ranges.skipped[axis, part]:
                continue
            first, end = ranges.first[kind, dim, part], ranges.end[kind, dim, part]
            if dim == 0:
                first, end = max(first, channels[0]), min(end, channels[1])
            shortest = min(shortest, max(end - first, 0))
        size *= shortest
    return size
