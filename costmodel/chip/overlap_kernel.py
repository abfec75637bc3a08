"""What a leaf's parts have in common with the parts of its producers, dim by dim; compiled."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.chip.leaf_values import BATCH, DIRECT, FIRST, KIND, PARTS, SIZES, Leaf, Room
from costmodel.chip.ranges_kernel import bound
from costmodel.compiled import called, inlined

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


@called
def fill_overlaps(room: Room, leaf: Leaf, parts: Array) -> None:
    """Fill ``near`` and ``common`` of every stream that tiles send; ranges of the partition are filled in."""
    for number in range(leaf.streams.shape[0]):
        stream = leaf.streams[number]
        for dim in range(4 if stream[DIRECT] else 0):
            axis = room.ranges.axis[stream[KIND], dim]
            for part in range(parts[axis] if axis >= 0 else 1):
                _fill(room, leaf, number, (dim, part))


@inlined
def _fill(room: Room, leaf: Leaf, number: Int, which: tuple[Int, Int]) -> None:
    """One part along one dim, with all parts of the producer."""
    stream, (dim, part) = leaf.streams[number], which
    near, common = room.near[number], room.common[number, dim, part]
    first, end = room.ranges.first[stream[KIND], dim, part], room.ranges.end[stream[KIND], dim, part]
    if dim == 0:
        first, end = first - stream[FIRST], end - stream[FIRST]
    near[0, dim, part], near[1, dim, part] = 0, -1
    for theirs in range(stream[PARTS + dim]):
        begin = bound(stream[SIZES + dim], stream[PARTS + dim], theirs)
        stop = bound(stream[SIZES + dim], stream[PARTS + dim], theirs + 1)
        if dim == 1:
            size = _samples(leaf, stream[BATCH], (first, end), (begin, stop))
        else:
            size = max(min(end, stop) - max(first, begin), 0)
        common[theirs] = size
        if size > 0:
            near[0, dim, part] = theirs if near[1, dim, part] < 0 else near[0, dim, part]
            near[1, dim, part] = theirs


@inlined
def _samples(leaf: Leaf, their_batch: Int, mine: tuple[Int, Int], theirs: tuple[Int, Int]) -> Int:
    """Samples over all runs in ``mine`` of the leaf's batch and in ``theirs`` of the producer's.

    Both repeat: every batch of either falls into the same parts. Where batches differ neither has to be a
    multiple of the other.
    """
    if their_batch == leaf.sizes[1]:
        return leaf.runs * max(min(mine[1], theirs[1]) - max(mine[0], theirs[0]), 0)
    common: Int = 0
    for run in range(leaf.runs):
        start, stop = mine[0] + run * leaf.sizes[1], mine[1] + run * leaf.sizes[1]
        for other in range(start // their_batch, (stop + their_batch - 1) // their_batch):
            begin, end = other * their_batch + theirs[0], other * their_batch + theirs[1]
            common += max(min(stop, end) - max(start, begin), 0)
    return common
