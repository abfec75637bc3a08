"""Changes of frozen RA trees that keep batches consistent: replace nodes, retype cuts, give other batches.

Every function returns a new tree that shares the untouched parts of the old one, so an evaluator that
remembers nodes finds them again.
"""

from __future__ import annotations

from bisect import bisect_right
from math import gcd
from typing import NamedTuple

from costmodel.schedule.tree.tree import Cut, CutKind, Leaf, TreeNode


class Step(NamedTuple):
    """A cut on the way from the root to a node; ``rank`` is the index of the child where the way goes on."""

    cut: Cut
    rank: int


Path = tuple[Step, ...]
"""The way from the root down to a node: all cuts above it, the root first. Empty for the root itself."""


def path_to(tree: TreeNode, number: int) -> Path:
    """The path to leaf ``number``, counted from the left: in the order in which layers are computed."""
    path: list[Step] = []
    node = tree
    while isinstance(node, Cut):
        rank = bisect_right(node.leaf_ends, number)
        number -= node.leaf_ends[rank - 1] if rank else 0
        path.append(Step(node, rank))
        node = node.children[rank]
    return tuple(path)


def rebuilt(path: Path, node: TreeNode) -> TreeNode:
    """The whole tree with ``node`` in the position to which ``path`` leads: all cuts above it are new."""
    for cut, rank in reversed(path):
        node = spliced(cut, rank, rank + 1, node)
    return node


def spliced(cut: Cut, first: int, end: int, *nodes: TreeNode) -> Cut:
    """The cut with its children ``first`` to before ``end`` replaced by ``nodes``, however many these are."""
    children = (*cut.children[:first], *nodes, *cut.children[end:])
    return Cut(cut.kind, cut.batch, cut.subbatches, children, cut.bands)


def with_batch(node: TreeNode, batch: int) -> TreeNode:
    """The node for ``batch`` samples at a time.

    A cut keeps the size of its sub-batches where that divides ``batch``, and changes their number: 8 samples
    in 4 sub-batches of 2 become 4 samples in 2 of 2. Else a sub-batch gets the greatest common divisor of its
    old size and ``batch``, and all nodes below change with it: for 1 sample the same cut has one sub-batch of
    1, for 6 samples 3 of 2.
    """
    if batch == node.batch:
        return node
    if isinstance(node, Leaf):
        return Leaf(node.layer, batch)
    if batch % node.batch == 0:
        return Cut(node.kind, batch, node.subbatches * (batch // node.batch), node.children, node.bands)
    samples = gcd(node.batch // node.subbatches, batch)
    children = tuple(with_batch(child, samples) for child in node.children)
    return Cut(node.kind, batch, batch // samples, children, node.bands)


def with_subbatches(cut: Cut, subbatches: int) -> Cut:
    """The cut with its batch in ``subbatches`` equal parts, which must divide it."""
    samples = cut.batch // subbatches
    children = tuple(with_batch(child, samples) for child in cut.children)
    return Cut(cut.kind, cut.batch, subbatches, children, cut.bands)


def alternating(node: TreeNode, kind: CutKind) -> TreeNode:
    """The node with its top cut of ``kind`` and every cut below of the other kind than its parent.

    A leaf stays as it is, and so does a node whose kinds alternate already.
    """
    if isinstance(node, Leaf):
        return node
    other: CutKind = "T" if kind == "S" else "S"
    children = tuple(alternating(child, other) for child in node.children)
    same = kind == node.kind and all(new is old for new, old in zip(children, node.children, strict=True))
    return node if same else Cut(kind, node.batch, node.subbatches, children, node.bands)
