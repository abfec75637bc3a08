"""What an RA tree says about data (section 3.3.1): pipeline stages, and which edges stay on the chip."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from costmodel.schedule.tree.tree import Cut, Leaf, Node

Producers = Mapping[str, Sequence[str]]
"""Of every layer, in the order of the network, the layers whose outputs it needs."""


@dataclass(frozen=True)
class Edge:
    """A consumer reads a producer's outputs, over the NoC or through DRAM."""

    producer: str
    consumer: str
    on_chip: bool


@dataclass(frozen=True)
class Position:
    """A node and where it is: its number and its parent's (-1: none), place among siblings, depth."""

    node: Node
    number: int
    parent: int
    place: int
    depth: int


class DataFlow:
    """Stages of S cuts and on-chip edges of a tree that has every layer once and in topological order.

    ``positions`` are the nodes, numbered from the root down and left to right; ``children`` their numbers.
    """

    def __init__(self, root: Node, producers: Producers) -> None:
        self.producers = producers
        self.positions: list[Position] = []
        self.children: dict[int, list[int]] = {}
        self._add(root, -1, 0, 0)
        self.leaf_of = {p.node.layer: p.number for p in self.positions if isinstance(p.node, Leaf)}

    def _add(self, node: Node, parent: int, place: int, depth: int) -> None:
        number = len(self.positions)
        self.positions.append(Position(node, number, parent, place, depth))
        self.children.setdefault(parent, []).append(number)
        if isinstance(node, Cut):
            for index, child in enumerate(node.children):
                self._add(child, number, index, depth + 1)

    @cached_property
    def stages(self) -> dict[int, list[int]]:
        """Of every S cut (by number) in which stage of its pipeline each child starts, in sub-batches.

        A child starts one after the latest of those that it directly depends on.
        """
        found = {
            position.number: [0] * len(position.node.children)
            for position in self.positions
            if isinstance(position.node, Cut) and position.node.kind == "S"
        }
        for layer, number in self.leaf_of.items():
            for producer in self.producers[layer]:
                cut, before, place = self.meeting(self.leaf_of[producer], number)
                if cut in found:
                    found[cut][place] = max(found[cut][place], found[cut][before] + 1)
        return found

    @cached_property
    def edges(self) -> tuple[Edge, ...]:
        """All edges between layers; the producer's tiles still hold what goes over the NoC.

        Children of a root T cut exchange data through DRAM. Below it, data stays on the chip if it is used at
        once: by the next child of a T cut, or in an S cut no more than a stage later.
        """
        return tuple(
            Edge(producer, layer, self._at_once(*self.meeting(self.leaf_of[producer], number)))
            for layer, number in self.leaf_of.items()
            for producer in self.producers[layer]
        )

    def _at_once(self, number: int, before: int, place: int) -> bool:
        cut = self.positions[number].node
        assert isinstance(cut, Cut)
        if cut.kind == "S":
            return self.stages[number][place] <= self.stages[number][before] + 1
        return number != 0 and place <= before + 1

    def meeting(self, one: int, other: int) -> tuple[int, int, int]:
        """The lowest cut above two leaves, and the places of its children that hold them."""
        left, right = self.positions[one], self.positions[other]
        while left.parent != right.parent:
            if left.depth >= right.depth:
                left = self.positions[left.parent]
            else:
                right = self.positions[right.parent]
        return left.parent, left.place, right.place
