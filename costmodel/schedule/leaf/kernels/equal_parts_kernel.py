"""Which parts of a leaf get the same of each of its streams; compiled.

Parts that need the same of all channels of a kind of data need the same of each stream of that kind. The
reverse does not hold. Here a grouped layer reads two producers, and its second part lies in both groups:

    part of the leaf          0           1            2
    channels needed        [0, 4)      [0, 8)       [4, 8)
    of the first stream    [0, 4)      [0, 4)         -         one tree to parts 0 and 1
    of the second            -         [4, 8)       [4, 8)      one tree to parts 1 and 2

So streams of such a kind of data have equal parts of their own.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.leaf.kernels.leaf_values import COLUMN, KernelLeaf, Workspace
from costmodel.schedule.leaf.kernels.ranges_kernel import (
    EqualParts,
    fill_ranges,
    find_equal,
    meet_in_channels,
    of_kind,
)

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


@called
def fill_parts(workspace: Workspace, leaf: KernelLeaf, parts: Array) -> None:
    """Fill in the ranges of a partition, and which of its parts get the same of each stream."""
    ranges, own = workspace.ranges, workspace.own_equal
    fill_ranges(leaf.space, leaf.sizes, parts, ranges, False)
    for number in range(leaf.streams.shape[0]):
        stream = leaf.streams[number]
        kind, channels = stream[COLUMN.kind], (stream[COLUMN.first], stream[COLUMN.end])
        own[number] = meet_in_channels(ranges, kind, parts)
        if own[number]:
            equal = EqualParts(workspace.until[number], workspace.counts[number])
            find_equal(ranges, kind, channels, parts, False, equal)


@inlined
def equal_parts(workspace: Workspace, leaf: KernelLeaf, number: Int) -> EqualParts:
    """Which parts get the same of a stream."""
    if workspace.own_equal[number]:
        return EqualParts(workspace.until[number], workspace.counts[number])
    return of_kind(workspace.ranges, leaf.streams[number, COLUMN.kind])
