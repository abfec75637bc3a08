"""The outputs, inputs and weights of every part of a cut layer, as ranges in C, B, H and W; compiled.

A layer's outputs are cut into K x B x H x W parts, one a tile. A part needs the image of its box in each
tensor (:mod:`costmodel.schedule.boxes`): one interval [first, end) a dim. Each dim of a tensor follows one
axis of the partition, or none: input rows follow H, the input channels of a convolution follow nothing, for
every part needs all of them. So intervals are kept for each dim and each part along its axis, [kind of data,
dim, part], and not for every tile.

Parts that need the same data get it in one multicast. Along an axis that no dim follows these are all
parts. Along one that a dim follows they are neighbours whose intervals are equal: heads that share keys and
values, or rows of a map so small that the windows of all of them cover it whole. The first of them stands for
all (:class:`EqualParts`).

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

OUTPUTS, INPUTS, WEIGHTS = KINDS = 0, 1, 2
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


class EqualParts(NamedTuple):
    """Which parts get the same of a kind of data, so that one tree serves all of them.

    ``until`` [4, tiles], for each axis of the partition: 0 for a part that gets the same as an earlier one,
    else the part behind the last one that gets the same. Of an axis that the data does not follow only the
    first part is noted. ``counts`` [3]: see :class:`TreeCounts`.

    Of streams that are joined the parts along K are in chains (``equal_parts_kernel.py``): ``alike``
    [streams x tiles] leads from a part of a stream to the next one that gets the same, maybe of another
    stream, and -1 is the end. The stream's own parts begin at ``begin``; it is -1 for a stream by itself.
    """

    until: Array
    counts: Array
    alike: Array
    begin: Int


class TreeCounts(NamedTuple):
    """To how many tiles a range goes, at least and at most, and how many different ranges parts that are not
    skipped have.
    """

    fewest: int
    most: int
    trees: int


COUNTS = TreeCounts(*range(len(TreeCounts._fields)))
"""Where each of them is in ``EqualParts.counts``."""


class Ranges(NamedTuple):
    """The ranges of one partition, for the three kinds of data and their four dims C, B, H and W.

    ``first``, ``end`` [3, 4, tiles]: the interval of each part along the axis that the dim follows.
    ``axis`` [3, 4]: that axis of the partition (0 to 3 for K, B, H, W), or -1. ``follows`` [3, 4]: 1 if some
    dim of this kind of data follows this axis. ``skipped`` [4, tiles]: 1 for parts along K, B, H or W that no
    data is sent to; ``served`` [4]: how many parts along each get data.

    ``until`` [3, 4, tiles], ``counts`` [3, 3]: the :class:`EqualParts` of each kind of data, all its channels
    together. ``alike`` is empty: no streams are joined there.

    ``theirs`` [2, 4, tiles]: first and end of a producer's parts, which only the count of SET's released
    program uses.
    """

    first: Array
    end: Array
    axis: Array
    follows: Array
    skipped: Array
    served: Array
    until: Array
    counts: Array
    alike: Array
    theirs: Array


@called
def fill_ranges(space: KernelSpace, sizes: Four, parts: Array, ranges: Ranges, to_idle: bool) -> None:
    """Fill ``ranges``: the outputs that every part computes, the inputs and weights that it needs for them.

    ``sizes``: of K, B, H and W. With more parts than indices some parts have no outputs; their intervals are
    [0, 0). Such a part needs nothing of data that does not follow the axis either: 14 columns in 16 parts
    leave the tiles of 2 parts without the weights that all others get. ``to_idle``: they get it nonetheless,
    and equal data that follows the axis is sent once for each part, as SET's released program counts.
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
        find_equal(ranges, kind, (0, ANY), parts, to_idle, of_kind(ranges, kind))


@inlined
def of_kind(ranges: Ranges, kind: Int) -> EqualParts:
    """Which parts get the same of all channels of a kind of data."""
    return EqualParts(ranges.until[kind], ranges.counts[kind], ranges.alike, -1)


@called
def find_equal(ranges: Ranges, kind: Int, channels: Two, parts: Array, apart: Any, equal: EqualParts) -> None:
    """Fill ``equal``: which parts get the same, of the ``channels`` from the first to before the second.

    ``apart``: no two parts that follow an axis, as if all their data differed.
    """
    until, counts = equal.until, equal.counts
    counts[:] = 1
    for axis in range(4):
        if not ranges.follows[kind, axis]:
            until[axis, 0] = parts[axis]
            counts[COUNTS.fewest] *= ranges.served[axis]
            counts[COUNTS.most] *= ranges.served[axis]
    for dim in range(4):
        if ranges.axis[kind, dim] >= 0:
            if dim == 0 and equal.begin >= 0:
                continue  # chains go through several streams
            within = channels if dim == 0 else (0, ANY)
            _find_equal_along(ranges, (kind, dim), within, parts[ranges.axis[kind, dim]], apart, equal)


@inlined
def _find_equal_along(
    ranges: Ranges, which: Two, within: Two, parts: Int, apart: Any, equal: EqualParts
) -> None:
    """The same for the parts along the axis of one dim of a kind of data.

    Intervals move on with the parts, so equal ones are neighbours, but for skipped parts among them. The
    first part is never skipped.
    """
    axis = ranges.axis[which]
    until, first, end = equal.until[axis], ranges.first[which], ranges.end[which]
    leader: Int = 0
    copies: Int = 1
    trees: Int = 1
    fewest: Int = parts
    most: Int = 1
    until[0] = 1
    for part in range(1, parts):
        if ranges.skipped[axis, part]:
            until[part] = 0
        elif (
            not apart
            and max(first[part], within[0]) == max(first[leader], within[0])
            and min(end[part], within[1]) == min(end[leader], within[1])
        ):
            until[part], until[leader] = 0, part + 1
            copies += 1
        else:
            fewest, most = min(fewest, copies), max(most, copies)
            until[part], leader = part + 1, part
            copies = 1
            trees += 1
    equal.counts[COUNTS.fewest] *= min(fewest, copies)
    equal.counts[COUNTS.most] *= max(most, copies)
    equal.counts[COUNTS.trees] *= trees


@inlined
def meet_in_channels(ranges: Ranges, kind: Int, parts: Array) -> Any:
    """Whether neighbouring parts have channels of a kind of data in common, and not all of them.

    Only then some of the channels may be the same for parts that do not need the same of all.
    """
    axis = ranges.axis[kind, 0]
    meet = False
    for part in range(1, parts[axis] if axis >= 0 else 0):
        first, end = ranges.first[kind, 0, part], ranges.end[kind, 0, part]
        before, behind = ranges.first[kind, 0, part - 1], ranges.end[kind, 0, part - 1]
        meet = meet or (first < behind and (first != before or end != behind))
    return meet


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
    """How many parts along an axis of the partition loops over the ranges of a kind of data go through.

    Where no dim follows the axis, its first part stands for all. Else ranges are numbered as parts are, and
    those of parts that get the same data as an earlier one have no size (:func:`sent_size`).
    """
    return parts[axis] if ranges.follows[kind, axis] else 1


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


@inlined
def sent_size(ranges: Ranges, equal: EqualParts, which: Range, channels: Two) -> Int:
    """:func:`size_of` a range that is sent by itself; 0 where an earlier part gets the same."""
    until = equal.until
    if (
        until[0, which[1]] == 0
        or until[1, which[2]] == 0
        or until[2, which[3]] == 0
        or until[3, which[4]] == 0
    ):
        return 0
    return size_of(ranges, which, channels)


@called
def volume(ranges: Ranges, equal: EqualParts, kind: Int, channels: Two, parts: Array) -> Int:
    """Elements of all different ranges of a kind of data together.

    Every dim follows an axis of its own, so the sum over all boxes is the product over dims of the sums of
    interval lengths.
    """
    total = 1
    for dim in range(4):
        axis, length = ranges.axis[kind, dim], 0
        for part in range(parts[axis] if axis >= 0 else 1):
            if axis >= 0 and equal.until[axis, part] == 0:
                continue
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
