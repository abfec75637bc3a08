"""Remembers what nodes of segments cost, so that a search pays only for the nodes that it changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from costmodel.schedule.leaf.leaf_cost import LeafCost
from costmodel.schedule.remembered import Remembered
from costmodel.schedule.segment.node_cost import NodeCost
from costmodel.schedule.tree.tree import TreeNode

MOST_REMEMBERED = 30_000
"""How many nodes are remembered, which bounds the memory that they take."""
MOST_ARRAYS = 10_000
"""How many costs that have arrays of their own are remembered; leaves share theirs with others."""


@dataclass(frozen=True)
class PlannedNode:
    """What is known of a node before it is given tiles."""

    node: TreeNode
    cycles: float
    """Its normalized processing time: the cycles of a sample as if one tile did all of its work."""
    least_tiles: int
    """The fewest tiles on which it can run."""
    children: tuple[PlannedNode, ...] = ()
    stages: tuple[int, ...] = ()
    """[children] of an S cut: the pipeline stage, counted from 0, in which each child starts."""
    cuts: int = 0
    """How many cuts there are in its sub-tree, itself included."""


@dataclass(frozen=True)
class BufferOverflow:
    """A cut whose data does not fit the tiles' buffers, and why."""

    reason: str
    cost: NodeCost
    """What it would cost if it did."""


class KnownNodes:
    """The costs on tiles of all nodes of all segments that were evaluated before.

    A search changes a segment at one spot, so most of its nodes cost what they did. A leaf is known by
    everything that its cost depends on. A cut is known by the ids of its children's costs, which stand for
    all that is below it. The children's costs are remembered with the cut, so they stay alive and none of
    their ids can come to mean another cost. A node that is not possible is remembered by the reason.
    """

    def __init__(self) -> None:
        self._leaves = Remembered[tuple[Any, ...], NodeCost | str](MOST_REMEMBERED)
        self._alike = Remembered[tuple[int, ...], tuple[LeafCost, NodeCost | str]](MOST_ARRAYS)
        self._cuts = Remembered[tuple[Any, ...], tuple[Sequence[NodeCost], NodeCost | BufferOverflow]](
            MOST_ARRAYS
        )
        self._timed = Remembered[tuple[int, ...], tuple[NodeCost, Sequence[Any], NodeCost]](MOST_ARRAYS)
        self._planned = Remembered[int, PlannedNode](MOST_REMEMBERED)

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
        of_children = (*key, *map(id, children))
        found = self._cuts.get(of_children)
        if found is None:
            found = self._cuts.add(of_children, (children, count()))
        return found[1]

    def timed(self, cost: NodeCost, parts: Sequence[Any]) -> NodeCost | None:
        """The node with its times, which depend on its ``cost`` and these ``parts`` (:mod:`.times`); None if
        they are not known.
        """
        found = self._timed.get((id(cost), *map(id, parts)))
        return None if found is None else found[2]

    def add_timed(self, cost: NodeCost, parts: Sequence[Any], found: NodeCost) -> NodeCost:
        """Remember a node with its times, with what its ids are of, which stays alive so."""
        return self._timed.add((id(cost), *map(id, parts)), (cost, parts, found))[2]

    def planned(self, node: TreeNode) -> PlannedNode | None:
        """The plan of this very object, or None if it is new or was forgotten."""
        return self._planned.get(id(node))

    def plan(self, planned: PlannedNode) -> None:
        """Remember the plan of a node. The plan keeps the node alive, so its id cannot mean another node."""
        self._planned.add(id(planned.node), planned)
