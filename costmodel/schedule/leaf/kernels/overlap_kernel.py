"""How much of a leaf's data each part of its producers holds, dim by dim; compiled.

A leaf and its producer cut the same tensor, each in its own way. Both cut it dim by dim. So the elements that
a part of the producer has of a range are a box, whose size is the product of four overlaps of intervals:

    rows of the producer's outputs       |--- part 0 ---|--- part 1 ---|--- part 2 ---|
    rows that a part of the leaf needs             [=============]
    near = (0, 1), common =                        | 5  |   8    |

Only the parts from ``near[0]`` to ``near[1]`` have anything, so the kernels that add up messages look at no
others.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.leaf.kernels.leaf_values import COLUMN, KernelLeaf, Workspace
from costmodel.schedule.leaf.kernels.ranges_kernel import bound

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


@called
def fill_overlaps(workspace: Workspace, leaf: KernelLeaf, parts: Array) -> None:
    """Fill ``near`` and ``common`` for every direct stream; the ranges have been filled before."""
    for number in range(leaf.streams.shape[0]):
        stream = leaf.streams[number]
        for dim in range(4 if stream[COLUMN.direct] else 0):
            axis = workspace.ranges.axis[stream[COLUMN.kind], dim]
            for part in range(parts[axis] if axis >= 0 else 1):
                _fill(workspace, leaf, number, (dim, part))


@inlined
def _fill(workspace: Workspace, leaf: KernelLeaf, number: Int, which: tuple[Int, Int]) -> None:
    """The overlaps of one part of the leaf along one dim with all parts of the producer.

    Channels of the leaf are moved to the producer's numbers first. Along B the two batches may differ: then
    both repeat over the runs, every part of the producer may have samples for the leaf, and they are counted
    over all runs. With equal batches each run is alike, and the overlap of one counts ``runs`` times.
    """
    stream, (dim, part) = leaf.streams[number], which
    kind, ranges = stream[COLUMN.kind], workspace.ranges
    near, common = workspace.near[number], workspace.common[number, dim, part]
    first, end = ranges.first[kind, dim, part], ranges.end[kind, dim, part]
    if dim == 0:
        first, end = first - stream[COLUMN.first], end - stream[COLUMN.first]
    size, parts, repeated = stream[COLUMN.size_k + dim], stream[COLUMN.parts_k + dim], False
    if dim == 1 and stream[COLUMN.batch] != leaf.sizes[1]:
        near[0, dim, part], near[1, dim, part], repeated = 0, parts - 1, True
    elif min(end, size) > max(first, 0):
        # index * parts // size is the part that holds an index, as a part begins at ``bound``
        near[0, dim, part] = max(first, 0) * parts // size
        near[1, dim, part] = (min(end, size) - 1) * parts // size
    else:  # an empty interval: the producer has nothing of it
        near[0, dim, part], near[1, dim, part] = 0, -1
    for theirs in range(near[0, dim, part], near[1, dim, part] + 1):
        begin, stop = bound(size, parts, theirs), bound(size, parts, theirs + 1)
        if repeated:
            common[theirs] = _samples(leaf, stream[COLUMN.batch], (first, end), (begin, stop))
        else:
            common[theirs] = (min(end, stop) - max(first, begin)) * (leaf.runs if dim == 1 else 1)


@inlined
def _samples(leaf: KernelLeaf, their_batch: Int, mine: tuple[Int, Int], theirs: tuple[Int, Int]) -> Int:
    """Samples over all runs that are in ``mine`` of the leaf's batch and in ``theirs`` of the producer's.

    Samples of all runs are numbered through. The leaf's part has ``mine`` of every batch of the leaf, the
    producer's part ``theirs`` of every batch of the producer; neither batch has to be a multiple of the
    other:

        leaf, batch 3, part of 1-2         |.1 2|.4 5|.7 8|.10 11|
        producer, batch 4, part of 0-1     |0 1 . .|4 5 . .|8 9 . .|       common: 1, 4, 5, 8
    """
    common: Int = 0
    for run in range(leaf.runs):
        start, stop = mine[0] + run * leaf.sizes[1], mine[1] + run * leaf.sizes[1]
        for other in range(start // their_batch, (stop + their_batch - 1) // their_batch):
            begin, end = other * their_batch + theirs[0], other * their_batch + theirs[1]
            common += max(min(stop, end) - max(start, begin), 0)
    return common
