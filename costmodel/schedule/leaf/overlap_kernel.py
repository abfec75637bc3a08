"""What a leaf's parts have in common with the parts of its producers, dim by dim; compiled."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.leaf.leaf_values import (
    BATCH,
    DIRECT,
    FIRST,
    KIND,
    PARTS,
    SIZES,
    KernelLeaf,
    Workspace,
)
from costmodel.schedule.leaf.ranges_kernel import bound

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


@called
def fill_overlaps(workspace: Workspace, leaf: KernelLeaf, parts: Array) -> None:
    """Fill ``near`` and ``common`` of every stream that tiles send; ranges of the partition are filled in."""
    for number in range(leaf.streams.shape[0]):
        stream = leaf.streams[number]
        for dim in range(4 if stream[DIRECT] else 0):
            axis = workspace.ranges.axis[stream[KIND], dim]
            for part in range(parts[axis] if axis >= 0 else 1):
                _fill(workspace, leaf, number, (dim, part))


@inlined
def _fill(workspace: Workspace, leaf: KernelLeaf, number: Int, which: tuple[Int, Int]) -> None:
    """One part along one dim, with all parts of the producer."""
    stream, (dim, part) = leaf.streams[number], which
    near, common = workspace.near[number], workspace.common[number, dim, part]
    first, end = (
        workspace.ranges.first[stream[KIND], dim, part],
        workspace.ranges.end[stream[KIND], dim, part],
    )
    if dim == 0:
        first, end = first - stream[FIRST], end - stream[FIRST]
    size, parts, repeated = stream[SIZES + dim], stream[PARTS + dim], False
    if dim == 1 and stream[BATCH] != leaf.sizes[1]:
        near[0, dim, part], near[1, dim, part], repeated = 0, parts - 1, True
    elif min(end, size) > max(first, 0):  # part i begins at the first whole number from i equal shares on
        near[0, dim, part] = max(first, 0) * parts // size
        near[1, dim, part] = (min(end, size) - 1) * parts // size
    else:
        near[0, dim, part], near[1, dim, part] = 0, -1
    for theirs in range(near[0, dim, part], near[1, dim, part] + 1):
        begin, stop = bound(size, parts, theirs), bound(size, parts, theirs + 1)
        if repeated:
            common[theirs] = _samples(leaf, stream[BATCH], (first, end), (begin, stop))
        else:
            common[theirs] = (min(end, stop) - max(first, begin)) * (leaf.runs if dim == 1 else 1)


@inlined
def _samples(leaf: KernelLeaf, their_batch: Int, mine: tuple[Int, Int], theirs: tuple[Int, Int]) -> Int:
    """Samples over all runs in ``mine`` of the leaf's batch and in ``theirs`` of the producer's.

    Both repeat: every batch of either falls into the same parts. Neither has to be a multiple of the other.
    """
    common: Int = 0
    for run in range(leaf.runs):
        start, stop = mine[0] + run * leaf.sizes[1], mine[1] + run * leaf.sizes[1]
        for other in range(start // their_batch, (stop + their_batch - 1) // their_batch):
            begin, end = other * their_batch + theirs[0], other * their_batch + theirs[1]
            common += max(min(stop, end) - max(start, begin), 0)
    return common
