"""Which layers may share a segment: vertices of layers, and runs of vertices.

A *vertex* is a layer with products and the layers without products that follow it, such as pooling and
element-wise sums, which run in its region. A segment is a run of neighbouring vertices. By the released
program's rules

1. a vertex joins a run only if it reads from it, or reads what a vertex of the run reads, too;
2. a vertex that reads from two vertices of a run does not join it;
3. a vertex that hands on data within a run leaves at most one of its readers outside;
4. a layer reads from another region or from DRAM, not from both, and a region reads from one other layer;
5. a layer whose output is read in its own region is read there by the next layer only.

The released program orders vertices depth first. Here they keep the network's order, in which all chains of
this package run; so a layer is merged only into the vertex right before it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tree.wiring import Wiring

NETWORK_INPUT = -1
"""The number of what the network itself reads, among the numbers of vertices."""


class Vertices:
    """The vertices of ``graph``; ``layers`` has the numbers of the layers of each."""

    def __init__(self, graph: LayerGraph) -> None:
        self._wiring = Wiring.of(graph.producers)
        self._external = [layer.external_c > 0 for layer in graph.layers]
        self._alone = [layer.needs_whole_chip for layer in graph.layers]
        self.layers = self._merged(graph)
        vertex_of = {number: vertex for vertex, layers in enumerate(self.layers) for number in layers}
        self._reads: list[set[int]] = []
        self._readers: list[set[int]] = []
        for vertex, layers in enumerate(self.layers):
            reads = {vertex_of[one] for number in layers for one in self._wiring.producers[number]}
            if any(self._external[number] for number in layers):
                reads.add(NETWORK_INPUT)
            readers = {vertex_of[one] for number in layers for one in self._wiring.consumers[number]}
            self._reads.append(reads - {vertex})
            self._readers.append(readers - {vertex})

    def _merged(self, graph: LayerGraph) -> list[range]:
        found: list[range] = []
        for number, layer in enumerate(graph.layers):
            follows = (
                number > 0
                and not layer.has_weights
                and self._wiring.consumers[number - 1] == {number}
                and not (self._alone[number] or self._alone[number - 1])
            )
            if follows:
                found[-1] = range(found[-1].start, number + 1)
            else:
                found.append(range(number, number + 1))
        return found

    def runs(self) -> Iterator[tuple[int, int]]:
        """The runs of two or more layers that rules 1 to 3 allow: their first vertex, and that behind them.

        Layers that need the whole chip are in none.
        """
        for first in range(len(self.layers)):
            for end in range(first + 1, len(self.layers) + 1):
                if self._alone[self.layers[end - 1].start] or not self._joins(first, end - 1):
                    break
                long = end - first > 1 or len(self.layers[first]) > 1
                if long and self._readers_are_within(first, end):
                    yield first, end

    def _joins(self, first: int, new: int) -> bool:
        """Rules 1 and 2: whether vertex ``new`` may join the vertices from ``first`` on."""
        run = set(range(first, new))
        shared = run.union(*(self._reads[one] for one in run))
        return not run or (bool(self._reads[new] & shared) and len(self._reads[new] & run) <= 1)

    def _readers_are_within(self, first: int, end: int) -> bool:
        """Rule 3."""
        run = set(range(first, end))
        return all(len(self._readers[one] - run) <= 1 or not self._readers[one] & run for one in run)

    def can_run(self, regions: Sequence[Sequence[int]]) -> bool:
        """Rules 4 and 5 for layers (numbers) in these regions."""
        region_of = {number: at for at, region in enumerate(regions) for number in region}
        for at, region in enumerate(regions):
            from_regions = 0
            for number, after in zip(region, [*region[1:], None], strict=True):
                sources = [region_of.get(one) for one in self._wiring.producers[number]]
                others = sum(one not in (at, None) for one in sources)
                if others and (None in sources or self._external[number]):
                    return False
                from_regions += others
                here = [one for one in self._wiring.consumers[number] if region_of.get(one) == at]
                if here != ([] if after is None else [after]):
                    return False
            if from_regions > 1:
                return False
        return True

    def reads_from(self, vertex: int, other: int) -> bool:
        """Whether a vertex reads from another one."""
        return other in self._reads[vertex]
