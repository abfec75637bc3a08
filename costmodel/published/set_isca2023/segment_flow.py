"""The data flow of one segment: a sub-tree that has the whole chip while it runs (SET, section 3.3.1).

It depends on nothing outside of the segment. So a search that changes one segment computes one flow anew.
"""

from __future__ import annotations

from collections.abc import Mapping

from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from costmodel.schedule.tree.wiring import Wiring


class SegmentFlow:
    """The data flow of a segment; the same as :class:`costmodel.schedule.tree.data_flow.DataFlow` has.

    ``segment``: a child of a root T cut, or a root that is no T cut.
    ``layers``, ``batches``: of its leaves, from left to right. ``sources``: for each layer, the producers
    whose outputs it reads over the NoC. ``written``: the layers whose outputs go to DRAM, alone or beside the
    NoC. ``cuts``: numbered from the top down and left to right. ``children``: for each cut, the numbers of
    its children; a cut is its number and a leaf is ``~layer``, which is negative. ``top``: the segment itself
    in that form. ``stages``: for every S cut, the stage in which each child starts; empty for T cuts.
    """

    __slots__ = (
        "_above",
        "_ways",
        "batches",
        "children",
        "cuts",
        "layers",
        "sources",
        "stages",
        "top",
        "written",
    )

    def __init__(self, segment: TreeNode, wiring: Wiring) -> None:
        self.layers: list[int] = []
        self.batches: list[int] = []
        self.cuts: list[Cut] = []
        self.children: list[list[int]] = []
        self.stages: list[list[int]] = []
        self._ways: dict[int, tuple[tuple[int, ...], tuple[int, ...]]] = {}
        self._above: dict[tuple[int, int], int] = {}
        self.top = self._add(segment, (), (), wiring.numbers)
        self.sources: dict[int, tuple[int, ...]] = {}
        self.written: set[int] = set()
        self._connect(wiring)

    def _add(
        self, node: TreeNode, cuts: tuple[int, ...], ranks: tuple[int, ...], numbers: Mapping[str, int]
    ) -> int:
        """Adds a node and all below it; ``cuts`` and ``ranks``: the way to it from the segment's root."""
        if isinstance(node, Leaf):
            layer = numbers[node.layer]
            self.layers.append(layer)
            self.batches.append(node.batch)
            self._ways[layer] = cuts, ranks
            # Negative for every layer from 0 on, so it cannot be mistaken for the number of a cut.
            return ~layer
        number = len(self.cuts)
        self.cuts.append(node)
        self.children.append([])
        self.stages.append([0] * len(node.children) if node.kind == "S" else [])
        for rank, child in enumerate(node.children):
            self.children[number].append(self._add(child, (*cuts, number), (*ranks, rank), numbers))
        return number

    def _connect(self, wiring: Wiring) -> None:
        """Finds stages, then the edges that stay on the chip, then what goes to DRAM.

        Stages come first: whether an edge of an S cut stays on the chip depends on the stages of both ends.
        The children of a T cut are taken as stages 0, 1, 2, ...: data for the next child stays on the chip.
        Layers are in topological order, so a child's stage is final before it is read.
        """
        edges = []
        for consumer in self.layers:
            for producer in wiring.producers[consumer]:
                if producer in self._ways:
                    cut, before, after, above = self._meeting(producer, consumer)
                    edges.append((producer, consumer, cut, before, after))
                    self._above[producer, consumer] = above
                    if stages := self.stages[cut]:
                        stages[after] = max(stages[after], stages[before] + 1)
        inside: dict[int, set[int]] = {}
        for producer, consumer, cut, before, after in edges:
            if stages := self.stages[cut]:
                before, after = stages[before], stages[after]
            if after <= before + 1:
                self.sources[consumer] = (*self.sources.get(consumer, ()), producer)
                inside.setdefault(producer, set()).add(consumer)
        nothing: set[int] = set()
        for layer in self.layers:
            consumers = wiring.consumers[layer]
            # A result of the network, or what some layer reads later than at once: outside of the segment, or
            # further on in it.
            if not consumers or consumers - inside.get(layer, nothing):
                self.written.add(layer)

    def cuts_between(self, producer: int, consumer: int) -> int:
        """How many cuts lie between the consumer and the lowest cut above both; 0 if that is its parent."""
        return self._above[producer, consumer]

    def _meeting(self, one: int, other: int) -> tuple[int, int, int, int]:
        """The lowest cut above two layers, the ranks of its children that hold them, and how many cuts lie
        between it and the other layer.
        """
        (cuts, left), (_, right) = self._ways[one], self._ways[other]
        level = 0
        # Two leaves part at some cut, so the ranks differ before either way ends.
        while left[level] == right[level]:
            level += 1
        return cuts[level], left[level], right[level], len(right) - 1 - level
