"""Data flow of one segment: a sub-tree that has the whole chip while it runs, whatever is around it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from costmodel.schedule.tree.data_flow import Producers
from costmodel.schedule.tree.tree import Cut, Leaf, Node


@dataclass(frozen=True)
class Wiring:
    """A network's layers by number: names, and of each the layers that it reads and that read it."""

    numbers: Mapping[str, int]
    producers: Sequence[Sequence[int]]
    consumers: Sequence[frozenset[int]]

    @staticmethod
    def of(producers: Producers) -> Wiring:
        numbers = {layer: number for number, layer in enumerate(producers)}
        read = [tuple(numbers[name] for name in names) for names in producers.values()]
        readers: list[set[int]] = [set() for _ in numbers]
        for consumer, names in enumerate(read):
            for producer in names:
                readers[producer].add(consumer)
        return Wiring(numbers, read, [frozenset(one) for one in readers])


class SegmentFlow:
    """What :class:`DataFlow` says of the nodes of a segment, found without looking at the rest of the tree.

    ``segment`` is a child of a root T cut, or a root that is none. ``layers`` and ``batches`` are those of
    its leaves from left to right; ``sources`` has for a layer those whose outputs it reads over the NoC;
    ``written`` has the layers whose outputs (also) go to DRAM. ``cuts`` are numbered as they are met from the
    top and left; ``children`` of each are numbers of cuts, or ``~layer`` for leaves, and ``top`` is the
    segment as such a number; ``stages`` has of every S cut the stage of each child, of T cuts none.
    """

    __slots__ = ("_ways", "batches", "children", "cuts", "layers", "sources", "stages", "top", "written")

    def __init__(self, segment: Node, wiring: Wiring) -> None:
        self.layers: list[int] = []
        self.batches: list[int] = []
        self.cuts: list[Cut] = []
        self.children: list[list[int]] = []
        self.stages: list[list[int]] = []
        self._ways: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self.top = self._add(segment, (), (), wiring.numbers)
        self.sources: dict[int, tuple[int, ...]] = {}
        self.written: set[int] = set()
        self._connect(wiring)

    def _add(
        self, node: Node, cuts: tuple[int, ...], places: tuple[int, ...], numbers: Mapping[str, int]
    ) -> int:
        if isinstance(node, Leaf):
            layer = numbers[node.layer]
            self.layers.append(layer)
            self.batches.append(node.batch)
            self._ways[layer] = cuts, places
            return ~layer
        number = len(self.cuts)
        self.cuts.append(node)
        self.children.append([])
        self.stages.append([0] * len(node.children) if node.kind == "S" else [])
        for place, child in enumerate(node.children):
            self.children[number].append(self._add(child, (*cuts, number), (*places, place), numbers))
        return number

    def _connect(self, wiring: Wiring) -> None:
        """Stages first, as whether an S cut's edge stays on the chip is a question of both ends' stages."""
        edges = []
        for consumer in self.layers:
            for producer in wiring.producers[consumer]:
                if producer in self._ways:
                    cut, before, place = self._meeting(producer, consumer)
                    edges.append((producer, consumer, cut, before, place))
                    if stages := self.stages[cut]:
                        stages[place] = max(stages[place], stages[before] + 1)
        inside: dict[int, set[int]] = {}
        for producer, consumer, cut, before, place in edges:
            stages = self.stages[cut] or list(range(place + 1))
            if stages[place] <= stages[before] + 1:
                self.sources[consumer] = (*self.sources.get(consumer, ()), producer)
                inside.setdefault(producer, set()).add(consumer)
        nothing: set[int] = set()
        for layer in self.layers:
            consumers = wiring.consumers[layer]
            if not consumers or consumers - inside.get(layer, nothing):
                self.written.add(layer)

    def cuts_between(self, producer: int, consumer: int) -> int:
        """Cuts above the consumer and below the one where it meets the producer: 0 for its own parent."""
        cuts = self._ways[consumer][0]
        return len(cuts) - 1 - cuts.index(self._meeting(producer, consumer)[0])

    def _meeting(self, one: int, other: int) -> tuple[int, int, int]:
        """The lowest cut above two layers, and the places of its children that hold them."""
        (cuts, left), (_, right) = self._ways[one], self._ways[other]
        level = 0
        while left[level] == right[level]:
            level += 1
        return cuts[level], left[level], right[level]
