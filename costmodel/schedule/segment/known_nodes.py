"""Remembers what nodes of segments cost, so that a search pays only for the nodes that it changed."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from costmodel.schedule.leaf.leaf_cost import LeafCost
from costmodel.schedule.leaf.streams import Placement
from costmodel.schedule.remembered import Remembered
from costmodel.schedule.segment.node_cost import NodeCost, Sent

MOST_REMEMBERED = 30_000
"""How many nodes are remembered, which bounds the memory that they take."""
MOST_ARRAYS = 10_000
"""How many costs that have arrays of their own are remembered; leaves share theirs with others."""


@dataclass(frozen=True)
class BufferOverflow:
    """A cut whose data does not fit the tiles' buffers, and why."""

    reason: str
    cost: NodeCost
    """What it would cost if it did."""


class KnownSubTree(NamedTuple):
    """The cost of a node on its tiles, or why it is not possible.

    ``overflowed``: whether some cut of it fits only because leaves stream their weights. ``placements``: of
    its layers from which leaves outside of it read over the NoC.
    """

    found: NodeCost | str
    overflowed: bool
    placements: Mapping[int, Placement]


class KnownNodes:
    """The costs on tiles of all nodes of all segments that were evaluated before.

    A search changes a segment at one spot, so most of its nodes cost what they did. A leaf is known by
    everything that its cost depends on. A cut is known by its children's costs, which stand for all that is
    below it. In front of that, a cut is known by its place: its tiles, and what comes to it and goes from it.
    Then nothing below it is looked at. So is a child of a T cut, whose place is told by the children before
    and after it. A node that is not possible is remembered by the reason.
    """

    def __init__(self) -> None:
        self._leaves = Remembered[tuple[Any, ...], NodeCost | str](MOST_REMEMBERED)
        self._alike = Remembered[tuple[int, ...], tuple[LeafCost, NodeCost | str]](MOST_ARRAYS)
        self._cuts = Remembered[tuple[Any, ...], NodeCost | BufferOverflow](MOST_ARRAYS)
        self._timed = Remembered[tuple[int, ...], tuple[NodeCost, Sent, NodeCost]](MOST_ARRAYS)
        self._sub_trees = Remembered[tuple[Any, ...], KnownSubTree](MOST_ARRAYS)

    def leaf(self, key: tuple[Any, ...]) -> NodeCost | str | None:
        """The cost of the leaf known by ``key``, or why it is not possible; None if it is not known."""
        return self._leaves.get(key)

    def add_leaf(self, key: tuple[Any, ...], found: NodeCost | str) -> None:
        """Remember a leaf that was evaluated; ``key`` is everything that its cost depends on."""
        self._leaves.add(key, found)

    def alike(
        self, cost: LeafCost, levels: tuple[int, ...], count: Callable[[], NodeCost | str]
    ) -> NodeCost | str:
        """The cost of some leaf with this very ``cost``, and producers on the same ``levels`` of the tree.

        Equal layers share what their search found, but each leaf has a cost of its own.
        """
        key = id(cost), *levels
        found = self._alike.get(key)
        if found is None:
            found = self._alike.add(key, (cost, count()))
        return found[1]

    def cut(
        self,
        key: tuple[Any, ...],
        children: Sequence[NodeCost],
        count: Callable[[], NodeCost | BufferOverflow],
    ) -> NodeCost | BufferOverflow:
        """The cost of a cut with these ``children``; ``key`` is everything else that it depends on."""
        of_children = (*key, *children)
        return self._cuts.get(of_children) or self._cuts.add(of_children, count())

    def timed(self, cost: NodeCost, sent: Sent, count: Callable[[], NodeCost]) -> NodeCost:
        """The node with its times, which depend on its ``cost`` and what its layers have ``sent`` to leaves
        outside of it (:mod:`.times`).
        """
        key = id(cost), *[part for layer, links in sent for part in (layer, id(links))]
        found = self._timed.get(key)
        if found is None:
            # With what its ids are of, which stays alive so.
            found = self._timed.add(key, (cost, sent, count()))
        return found[2]

    def sub_tree(self, key: tuple[Any, ...]) -> KnownSubTree | None:
        """What is known of a node with all below it; ``key`` is everything that this depends on."""
        return self._sub_trees.get(key)

    def add_sub_tree(self, key: tuple[Any, ...], found: KnownSubTree) -> KnownSubTree:
        """Remember a node with all below it."""
        return self._sub_trees.add(key, found)
