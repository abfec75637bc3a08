"""Segments: consecutive layers that have the chip to themselves, as pipelines or taking turns."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from costmodel.ratree import Cut, Leaf, Node, SegmentFlow, Wiring
from solvers.schedule.kapla.params import Params
from solvers.schedule.problem import ScheduleProblem

Kind = Literal["turns", "pipeline", "grouped"]
"""All layers take turns on all tiles; each has tiles of its own; layers without weights share those of the
layer before them, with which they take turns."""


def divisors(batch: int) -> tuple[int, ...]:
    """Into how many equal parts so many samples can fall."""
    return tuple(parts for parts in range(1, batch + 1) if batch % parts == 0)


@dataclass(frozen=True)
class Segment:
    """Layers ``first`` to before ``end`` (section III-A: segment slicing), run together as ``kind`` says."""

    first: int
    end: int
    kind: Kind

    def __len__(self) -> int:
        return self.end - self.first


@dataclass(frozen=True)
class Slicing:
    """All segments of ``problem`` that ``params`` allow, and their nodes.

    The whole chain runs ``passes`` times, for a part of the batch each, and loads all weights each time.
    """

    problem: ScheduleProblem
    params: Params
    passes: int = 1

    @property
    def batch(self) -> int:
        """Samples of a pass, and so of its segments."""
        return self.problem.batch // self.passes

    def segments(self) -> Iterator[Segment]:
        """In the order of their last layers; a single layer takes its turn alone."""
        layers = len(self.problem.graph.layers)
        most = self.params.most_layers or layers
        for end in range(1, layers + 1):
            yield Segment(end - 1, end, "turns")
            for first in range(end - 2, max(0, end - most) - 1, -1):
                yield from self._kinds(first, end)

    def _kinds(self, first: int, end: int) -> Iterator[Segment]:
        params, tiles = self.params, self.problem.model.tiles
        if params.temporal:
            yield Segment(first, end, "turns")
        if params.spatial and end - first <= tiles:
            yield Segment(first, end, "pipeline")
        if params.spatial and params.grouped:
            grouped = Segment(first, end, "grouped")
            if 1 < len(self.regions(grouped)) < len(grouped) and len(self.regions(grouped)) <= tiles:
                yield grouped

    def regions(self, segment: Segment) -> list[list[int]]:
        """The layers (numbers) that share tiles, region by region."""
        numbers = range(segment.first, segment.end)
        if segment.kind == "turns":
            return [list(numbers)]
        layers, found = self.problem.graph.layers, [[segment.first]]
        for number in numbers[1:]:
            if segment.kind == "grouped" and not layers[number].has_weights:
                found[-1].append(number)
            else:
                found.append([number])
        return found

    def subbatches(self) -> tuple[int, ...]:
        """Into how many parts a segment's batch may fall: how finely neighbours hand on data."""
        return divisors(self.batch)

    def node(self, segment: Segment, subbatches: int) -> Node:
        """The segment as a child of the root, its data handed on in ``subbatches`` parts.

        All its layers do with the same parts: granularities match, as forwarding needs.
        """
        batch, share = self.batch, self.batch // subbatches
        names = [layer.name for layer in self.problem.graph.layers]
        if len(segment) == 1 and subbatches == 1:
            return Leaf(names[segment.first], batch)
        regions = [tuple(Leaf(names[number], share) for number in region) for region in self.regions(segment)]
        if segment.kind == "turns":
            return Cut("T", batch, subbatches, regions[0])
        children = (region[0] if len(region) == 1 else Cut("T", share, 1, region) for region in regions)
        return Cut("S", batch, subbatches, tuple(children))

    def flow(self, segment: Segment, wiring: Wiring) -> SegmentFlow:
        """What goes over the NoC and what to DRAM; that does not depend on sub-batches."""
        return SegmentFlow(self.node(segment, self.batch), wiring)

    def tree(self, chain: list[tuple[Segment, int]]) -> Cut:
        """The schedule of a chain of segments with their sub-batches."""
        children = tuple(self.node(segment, subbatches) for segment, subbatches in chain)
        return Cut("T", self.problem.batch, self.passes, children)
