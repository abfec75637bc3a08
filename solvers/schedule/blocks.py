"""Nested T cuts that keep every edge of a run of layers on the chip, and little data for long.

In a T cut an edge stays on the chip from one child to the next. So the layers are cut into *blocks*, runs of
neighbouring layers that are the children of one T cut: as many as there can be, such that every edge stays
within its block or goes to the next one. Within a block the same is done again. Where each layer reads the
one before it only, every layer is a block, and there is one flat cut. A residual block comes out as this::

    layers and what they read      blocks
    a                              T 8/1
    b  reads a                       a 8
    c  reads b                       T 8/1
    d  reads a and c                   b 8
    e  reads d                         c 8
    f  reads e                         d 8
    g  reads d and f                 T 8/1
                                       e 8
                                       f 8
                                       g 8

Here the outputs of ``a`` are held until ``d`` has run, and not longer. In a comb
(:func:`.segment_chain.comb`) what a layer gets from before its own cut is held until the comb ends, as
everything after it is below that cut: buffers hold the data of all edges at the same time.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode

Edge = tuple[int, int]
"""Producer and consumer, as positions in a run of layers, from 0."""


def block_ends(edges: Sequence[Edge], count: int) -> list[int]:
    """Where the blocks of ``count`` layers end, each as the position after its last layer.

    The first block is the first layer. Each further one begins as early as it may: behind the consumers of
    all edges that the beginning of the block before it has cut. No choice gives more blocks.
    """
    ends, begin = [], 1
    while begin < count:
        ends.append(begin)
        begin = 1 + max((after for before, after in edges if before < begin <= after), default=begin)
    return [*ends, count]


def blocks(leaves: Sequence[Leaf], edges: Sequence[Edge]) -> Cut:
    """T cuts of one sub-batch that keep all ``edges`` of two or more ``leaves`` on the chip."""
    children: list[TreeNode] = []
    for begin, end in pairwise((0, *block_ends(edges, len(leaves)))):
        within = [(before - begin, after - begin) for before, after in edges if begin <= before < after < end]
        children.append(blocks(leaves[begin:end], within) if end - begin > 1 else leaves[begin])
    return Cut("T", leaves[0].batch, 1, tuple(children))
