"""Which parts of a leaf get the same of each of its streams; compiled.

Parts that need the same of all channels of a kind of data need the same of each stream of that kind. The
reverse does not hold. Here a grouped layer reads two producers, and its second part lies in both groups:

    part of the leaf          0           1            2
    channels needed        [0, 4)      [0, 8)       [4, 8)
    of the first stream    [0, 4)      [0, 4)         -         one tree to parts 0 and 1
    of the second            -         [4, 8)       [4, 8)      one tree to parts 1 and 2

So streams of such a kind of data have equal parts of their own.

Streams that are joined (:func:`.sources.joined_sources`) are weights that one producer makes for several
groups of output channels. Of these the parts of different streams may get the same channels of the producer.
The first of them leads a chain of all; here each of four parts along K computes half of a head:

    part of the leaf            0          1          2          3
    of the first stream      keys 0-3   keys 4-7      -          -       one tree to parts 0 and 2,
    of the second               -          -       keys 0-3   keys 4-7   and one to parts 1 and 3
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.leaf.kernels.leaf_values import COLUMN, KernelLeaf, Workspace
from costmodel.schedule.leaf.kernels.ranges_kernel import (
    COUNTS,
    EqualParts,
    Two,
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
        own[number] = stream[COLUMN.joined] >= 0 or meet_in_channels(ranges, kind, parts)
        if own[number]:
            find_equal(ranges, kind, channels, parts, False, equal_parts(workspace, leaf, number))
    for number in range(leaf.streams.shape[0]):
        if leaf.streams[number, COLUMN.joined] == number:
            _join(workspace, leaf, number, parts)


@inlined
def equal_parts(workspace: Workspace, leaf: KernelLeaf, number: Int) -> EqualParts:
    """Which parts get the same of a stream."""
    if not workspace.own_equal[number]:
        return of_kind(workspace.ranges, leaf.streams[number, COLUMN.kind])
    begin = number * workspace.until.shape[2] if leaf.streams[number, COLUMN.joined] >= 0 else -1
    return EqualParts(workspace.until[number], workspace.counts[number], workspace.alike, begin)


@called
def _join(workspace: Workspace, leaf: KernelLeaf, first: Int, parts: Array) -> None:
    """Find which parts along K get the same of any of the streams that are joined with the ``first``.

    Every part of every stream begins a chain, or is put at the end of one. Only few parts need anything of a
    stream, and these get few different boxes of the producer, so each is compared with all before it.
    """
    streams, alike, heads = leaf.streams, workspace.alike, workspace.chain_heads
    tiles: Int = workspace.until.shape[2]
    chains: Int = 0
    for number in range(first, streams.shape[0]):
        if streams[number, COLUMN.joined] != first:
            continue
        until, trees = workspace.until[number, 0], chains
        for part in range(parts[0]):
            until[part], alike[number * tiles + part] = 0, -1
            box = _channels(workspace, leaf, number, part)
            if workspace.ranges.skipped[0, part] or box[1] <= box[0]:
                continue
            at: Int = 0
            while at < chains and _channels(workspace, leaf, heads[at] // tiles, heads[at] % tiles) != box:
                at += 1
            if at < chains:
                last: Int = heads[at]
                while alike[last] >= 0:
                    last = alike[last]
                alike[last] = number * tiles + part
                continue
            until[part], heads[chains] = part + 1, number * tiles + part
            chains += 1
        workspace.counts[number, COUNTS.trees] *= chains - trees
    for number in range(first, streams.shape[0]):
        if streams[number, COLUMN.joined] == first:
            workspace.counts[number, COUNTS.most] *= _longest(workspace, number, chains)


@inlined
def _channels(workspace: Workspace, leaf: KernelLeaf, number: Int, part: Int) -> Two:
    """Which channels of the producer a part along K needs for a stream."""
    stream, ranges = leaf.streams[number], workspace.ranges
    which, first = (stream[COLUMN.kind], 0, part), stream[COLUMN.first]
    return max(ranges.first[which] - first, 0), min(ranges.end[which], stream[COLUMN.end]) - first


@inlined
def _longest(workspace: Workspace, number: Int, chains: Int) -> Int:
    """Parts in the longest chain that begins in a stream; 1 where none does."""
    tiles: Int = workspace.until.shape[2]
    longest: Int = 1
    for at in range(chains):
        if workspace.chain_heads[at] // tiles != number:
            continue
        length: Int = 1
        other: Int = workspace.alike[workspace.chain_heads[at]]
        while other >= 0:
            length += 1
            other = workspace.alike[other]
        longest = max(longest, length)
    return longest
