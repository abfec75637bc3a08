"""Changes of frozen RA trees that keep them valid: replace, retype, and give other batches."""

from __future__ import annotations

from math import gcd
from typing import NamedTuple

from costmodel.schedule.tree.tree import Cut, CutKind, Leaf, Node


class Step(NamedTuple):
    """A cut on the way from the root to a node, and at which place of its children the way goes on."""

    cut: Cut
    place: int


Path = tuple[Step, ...]
"""The way from the root to a node; empty: the root itself."""


def paths_of(tree: Node) -> list[Path]:
    """The ways to all leaves, from left to right."""
    found: list[Path] = []
    _add_paths(tree, (), found)
    return found


def _add_paths(node: Node, path: Path, found: list[Path]) -> None:
    if isinstance(node, Leaf):
        found.append(path)
        return
    for place, child in enumerate(node.children):
        _add_paths(child, (*path, Step(node, place)), found)


def rebuilt(path: Path, node: Node) -> Node:
    """The whole tree with ``node`` at the end of ``path``."""
    for cut, place in reversed(path):
        node = spliced(cut, place, place + 1, node)
    return node


def spliced(cut: Cut, first: int, end: int, *nodes: Node) -> Cut:
    """The cut with ``nodes`` in place of its children from ``first`` to before ``end``."""
    children = (*cut.children[:first], *nodes, *cut.children[end:])
    return Cut(cut.kind, cut.batch, cut.subbatches, children)


def with_batch(node: Node, batch: int) -> Node:
    """The node for other samples at a time; its parts stay as they are as far as they still divide them.

    More samples are more sub-batches. Fewer take sub-batches away, and then samples from each.
    """
    if batch == node.batch:
        return node
    if isinstance(node, Leaf):
        return Leaf(node.layer, batch)
    if batch % node.batch == 0:
        return Cut(node.kind, batch, node.subbatches * (batch // node.batch), node.children)
    share = gcd(node.batch // node.subbatches, batch)
    return Cut(node.kind, batch, batch // share, tuple(with_batch(child, share) for child in node.children))


def with_subbatches(cut: Cut, subbatches: int) -> Cut:
    """The cut with its samples in another number of parts, which must divide them."""
    share = cut.batch // subbatches
    return Cut(cut.kind, cut.batch, subbatches, tuple(with_batch(child, share) for child in cut.children))


def alternating(node: Node, kind: CutKind) -> Node:
    """The node with ``kind`` if it is a cut, and below it S and T cuts in turns."""
    if isinstance(node, Leaf):
        return node
    other: CutKind = "T" if kind == "S" else "S"
    children = tuple(alternating(child, other) for child in node.children)
    same = kind == node.kind and all(new is old for new, old in zip(children, node.children, strict=True))
    return node if same else Cut(kind, node.batch, node.subbatches, children)
