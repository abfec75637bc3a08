"""The data flow of an RA tree (SET, section 3.3.1): pipeline stages, and the edges that stay on the chip.

This is the readable form for whole trees, which the S-T chart and programs use. The evaluator finds the same
sub-tree by sub-tree, which is quicker (:mod:`costmodel.schedule.segment.planned_nodes`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode

Producers = Mapping[str, Sequence[str]]
"""The layers whose outputs each layer reads, for all layers in the order of the network."""


@dataclass(frozen=True)
class Edge:
    """A consumer reads a producer's outputs: over the NoC (``on_chip``) or through DRAM."""

    producer: str
    consumer: str
    on_chip: bool


@dataclass(frozen=True)
class Position:
    """A node of a tree, its number and its parent's (-1 for the root), its rank among siblings, its depth."""

    node: TreeNode
    number: int
    parent: int
    rank: int
    depth: int


class DataFlow:
    """The stages of S cuts and the edges of a tree that has every layer once and in topological order.

    ``positions``: all nodes, numbered from the root down and left to right. ``children``: the numbers of each
    node's children. ``leaf_of``: the number of each layer's leaf.
    """

    def __init__(self, root: TreeNode, producers: Producers) -> None:
        self.producers = producers
        self.positions: list[Position] = []
        self.children: dict[int, list[int]] = {}
        self._add(root, -1, 0, 0)
        self.leaf_of = {p.node.layer: p.number for p in self.positions if isinstance(p.node, Leaf)}

    def _add(self, node: TreeNode, parent: int, rank: int, depth: int) -> None:
        number = len(self.positions)
        self.positions.append(Position(node, number, parent, rank, depth))
        self.children.setdefault(parent, []).append(number)
        if isinstance(node, Cut):
            for index, child in enumerate(node.children):
                self._add(child, number, index, depth + 1)

    @cached_property
    def stages(self) -> dict[int, list[int]]:
        """For every S cut, by its number: the stage of the pipeline in which each child starts.

        A stage is as long as one sub-batch. A child starts one stage after the latest child that it reads
        from; a child that reads from none of its siblings starts at once.
        """
        found = {
            position.number: [0] * len(position.node.children)
            for position in self.positions
            if isinstance(position.node, Cut) and position.node.kind == "S"
        }
        for layer, number in self.leaf_of.items():
            for producer in self.producers[layer]:
                cut, before, after = self.meeting(self.leaf_of[producer], number)
                if cut in found:
                    found[cut][after] = max(found[cut][after], found[cut][before] + 1)
        return found

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """All edges between layers.

        Data stays on the chip if it is used at once, while the producer's tiles still hold it: by the next
        child of a T cut, or no more than one stage later in an S cut. Children of a root T cut exchange all
        data through DRAM.
        """
        return tuple(
            Edge(producer, layer, self._at_once(*self.meeting(self.leaf_of[producer], number)))
            for layer, number in self.leaf_of.items()
            for producer in self.producers[layer]
        )

    @cached_property
    def sources(self) -> Mapping[str, frozenset[str]]:
        """For every layer those whose outputs it reads over the NoC."""
        found: dict[str, set[str]] = {layer: set() for layer in self.leaf_of}
        for edge in self.edges:
            if edge.on_chip:
                found[edge.consumer].add(edge.producer)
        return {layer: frozenset(names) for layer, names in found.items()}

    @cached_property
    def written(self) -> frozenset[str]:
        """The layers whose outputs go to DRAM: those that others read there, and those that none reads."""
        read = {edge.producer for edge in self.edges}
        return frozenset(self.leaf_of.keys() - read) | {
            edge.producer for edge in self.edges if not edge.on_chip
        }

    def _at_once(self, number: int, before: int, after: int) -> bool:
        """Whether child ``after`` of a cut uses at once what child ``before`` makes."""
        cut = self.positions[number].node
        assert isinstance(cut, Cut)
        if cut.kind == "S":
            return self.stages[number][after] <= self.stages[number][before] + 1
        return number != 0 and after <= before + 1

    def meeting(self, one: int, other: int) -> tuple[int, int, int]:
        """The lowest cut above two leaves, by its number, and the ranks of its children that hold them."""
        left, right = self.positions[one], self.positions[other]
        while left.parent != right.parent:
            if left.depth >= right.depth:
                left = self.positions[left.parent]
            else:
                right = self.positions[right.parent]
        return left.parent, left.rank, right.rank
