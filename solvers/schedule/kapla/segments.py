"""Segments: consecutive layers that have the chip to themselves, as pipelines or taking turns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Literal, NamedTuple

from costmodel.schedule.tree.segment_flow import SegmentFlow, Wiring
from costmodel.schedule.tree.tree import Cut, Leaf, Node
from solvers.divisors import divisors
from solvers.schedule.kapla.params import Params
from solvers.schedule.problem import ScheduleProblem

Kind = Literal["turns", "pipeline", "grouped"]
"""All layers take turns on all tiles; each has tiles of its own; layers without weights share those of the
layer before them, with which they take turns."""


@dataclass(frozen=True)
class Segment:
    """Layers ``first`` to before ``end`` (section III-A: segment slicing), run together as ``kind`` says."""

    first: int
    end: int
    kind: Kind

    def __len__(self) -> int:
        return self.end - self.first


class Scheme(NamedTuple):
    """A segment, and into how many sub-batches its batch falls."""

    segment: Segment
    subbatches: int


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
        """In the order of their last layers; a layer that only runs alone is in no segment with others."""
        layers = self.problem.graph.layers
        most = self.params.most_layers or len(layers)
        for end in range(1, len(layers) + 1):
            yield self.single(end - 1)
            for first in range(end - 2, max(0, end - most) - 1, -1):
                if layers[first].needs_whole_chip or layers[end - 1].needs_whole_chip:
                    break
                yield from self._kinds(first, end)

    def single(self, layer: int) -> Segment:
        """The segment of one layer, which takes its turn by itself."""
        return Segment(layer, layer + 1, "turns")

    def _kinds(self, first: int, end: int) -> Iterator[Segment]:
        params, tiles = self.params, self.problem.model.tiles
        if params.temporal:
            yield Segment(first, end, "turns")
        if params.spatial and end - first <= tiles:
            yield Segment(first, end, "pipeline")
        if params.spatial and params.grouped:
            regions = self._grouped_regions(first, end)
            if 1 < regions < end - first and regions <= tiles:
                yield Segment(first, end, "grouped")

    def _grouped_regions(self, first: int, end: int) -> int:
        """How many regions a grouped segment has: one of its first layer, one of each later one with weights.

        Counted without making them: long networks have tens of thousands of segments to ask this of.
        """
        return 1 + self._with_weights[end] - self._with_weights[first + 1]

    @cached_property
    def _with_weights(self) -> tuple[int, ...]:
        """Of the first 0, 1, 2 ... layers, how many have weights."""
        return tuple(accumulate((layer.has_weights for layer in self.problem.graph.layers), initial=0))

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

    def subbatches(self, segment: Segment) -> tuple[int, ...]:
        """Into how many equal parts a segment's batch may fall: how finely neighbours hand on data.

        The chip model hands on whole samples, for a layer needs all channels that the one before makes. So
        granularities match where all layers of a segment work on equally many samples at a time, and these
        are all ways of it. A layer that only runs alone takes the whole batch.
        """
        if self.problem.graph.layers[segment.first].needs_whole_chip:
            return (1,)
        return divisors(self.batch)

    def node(self, scheme: Scheme) -> Node:
        """The segment as a child of the root, its data handed on in so many parts by all its layers."""
        segment, subbatches = scheme
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
        return SegmentFlow(self.node(Scheme(segment, self.batch)), wiring)

    def tree(self, chain: Iterable[Scheme]) -> Cut:
        """The schedule of a chain of segments with their sub-batches."""
        children = tuple(self.node(scheme) for scheme in chain)
        return Cut("T", self.problem.batch, self.passes, children)
