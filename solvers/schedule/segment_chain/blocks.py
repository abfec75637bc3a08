"""Nested T cuts that keep every edge of a run of layers on the chip, each for a short time.

In a T cut an edge stays on the chip from one child to the next. So the layers are divided into *blocks*, runs
of neighbouring layers that become the children of one T cut. Every edge must stay within its block or go to
the next one, and there are as many blocks as that allows. Each block is divided likewise. Where each layer
reads only the one before it, every layer is a block, and there is one flat cut. A residual block becomes
this::

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

Here the outputs of ``a`` are held until ``d`` has run, and not longer. In a comb (:func:`.forms.comb`) all
later layers are below the cut of a layer. There data from before a cut leaves as it is read, too, so a comb
may hold less than blocks: while a block runs, all inputs of the next one may arrive.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise

from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode

Edge = tuple[int, int]
"""Producer and consumer, as positions in a run of layers, from 0."""


def block_ends(edges: Sequence[Edge], count: int) -> list[int]:
    """The ends of the blocks of ``count`` layers, each as the position after the block's last layer.

    The first block is the first layer. Each later block begins as early as it may. An edge that crosses the
    beginning of the block before may not cross the new beginning as well, so that lies behind the consumers
    of all these edges. No other choice gives more blocks.
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
