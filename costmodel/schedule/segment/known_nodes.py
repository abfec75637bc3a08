"""Remembers what nodes of segments cost, so that a search pays only for the nodes that it changed."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from costmodel.schedule.segment.node_cost import NodeCost
from costmodel.schedule.tree.tree import TreeNode
from costmodel.schedule.tree.validity import NotPossibleError

MOST_REMEMBERED = 30_000
"""How many nodes are remembered before all are forgotten, which bounds the memory that they take."""


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
        self._leaves: dict[tuple[Any, ...], NodeCost | str] = {}
        self._cuts: dict[tuple[Any, ...], tuple[Sequence[NodeCost], NodeCost | BufferOverflow]] = {}
        self._planned: dict[int, PlannedNode] = {}

    def leaf(self, key: tuple[Any, ...], count: Callable[[], NodeCost]) -> NodeCost:
        """The cost of the leaf known by ``key``; ``count`` evaluates it the first time."""
        found = self._leaves.get(key)
        if found is None:
            self._forget_if_full()
            found = self._leaves[key] = _or_reason(count)
        return _cost_of(found)

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
            self._forget_if_full()
            found = self._cuts[of_children] = children, count()
        return found[1]

    def planned(self, node: TreeNode) -> PlannedNode | None:
        """The plan of this very object, or None if it is new or was forgotten."""
        return self._planned.get(id(node))

    def plan(self, planned: PlannedNode) -> None:
        """Remember the plan of a node. The plan keeps the node alive, so its id cannot mean another node."""
        self._forget_if_full()
        self._planned[id(planned.node)] = planned

    def _forget_if_full(self) -> None:
        if len(self._leaves) + len(self._cuts) + len(self._planned) >= MOST_REMEMBERED:
            self._leaves.clear()
            self._cuts.clear()
            self._planned.clear()


def _or_reason(count: Callable[[], NodeCost]) -> NodeCost | str:
    try:
        return count()
    except NotPossibleError as reason:
        return str(reason)


def _cost_of(found: NodeCost | str) -> NodeCost:
    """The cost, or NotPossibleError with the reason.

    The reason is raised in a new exception each time: one that is kept would collect tracebacks.
    """
    if isinstance(found, str):
        raise NotPossibleError(found)
    return found
