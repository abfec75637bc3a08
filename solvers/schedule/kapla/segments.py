"""Segments: consecutive layers that have the whole chip while they run, as a pipeline or taking turns.

A scheme, a segment with the division of its batch, becomes a child of the schedule's root T cut. For layers
a, b, c with 4 samples in 2 sub-batches, where b has no weights:

    turns:  T 4/2        pipeline:  S 4/2        grouped:  S 4/2
            +- a 2                  +- a 2                 +- T 2/1
            +- b 2                  +- b 2                 |  +- a 2
            +- c 2                  +- c 2                 |  +- b 2
                                                           +- c 2
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate
from typing import Literal, NamedTuple

from costmodel.schedule.row_bands import Rows, heights_of, made_in_bands, whole_map_reason
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from solvers.divisors import divisors
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.kapla.alike import AlikeRanges
from solvers.schedule.kapla.params import Params
from solvers.schedule.problem import ScheduleProblem

Kind = Literal["turns", "pipeline", "grouped"]
"""How the layers of a segment use the tiles. "turns": all layers take turns on all tiles. "pipeline": each
layer has tiles of its own. "grouped": a pipeline in which a layer without weights takes turns with the layer
before it, on the same tiles."""


@dataclass(frozen=True)
class Segment:
    """Layers ``first`` to before ``end`` (numbers), which run together as ``kind`` says (section III-A)."""

    first: int
    end: int
    kind: Kind

    def __len__(self) -> int:
        return self.end - self.first


class BatchDivision(NamedTuple):
    """Into how many sub-batches the batch of a pass is divided, and each of these into how many bands of
    rows.

    With several bands a sub-batch is one sample (:mod:`costmodel.schedule.row_bands`).
    """

    subbatches: int
    bands: int = 1


class Scheme(NamedTuple):
    """A segment with the division of its batch."""

    segment: Segment
    division: BatchDivision

    @property
    def subbatches(self) -> int:
        return self.division.subbatches

    @property
    def bands(self) -> int:
        return self.division.bands


@dataclass(frozen=True)
class Slicing:
    """All segments of ``problem`` that ``params`` allow, and the RA trees that they make.

    The whole chain runs ``passes`` times, each time for an equal part of the batch, and loads all weights
    each time. Passes are the sub-batches of the root.
    """

    problem: ScheduleProblem
    params: Params
    passes: int = 1

    @property
    def batch(self) -> int:
        """Samples of one pass: the batch of each of its segments."""
        return self.problem.batch // self.passes

    def segments(self) -> Iterator[Segment]:
        """All segments, by their last layers, and those of one last layer from the shortest to the longest.

        A layer that needs the whole chip is a segment of its own and in no other.
        """
        layers = self.problem.graph.layers
        most = self.params.most_layers or len(layers)
        for end in range(1, len(layers) + 1):
            yield self.single(end - 1)
            for first in range(end - 2, max(0, end - most) - 1, -1):
                # every longer segment with this end would have the layer in it, too
                if layers[first].needs_whole_chip or layers[end - 1].needs_whole_chip:
                    break
                yield from self._kinds(first, end)

    def single(self, layer: int) -> Segment:
        """The segment of one layer. With one layer all kinds would be the same, so there is only "turns"."""
        return Segment(layer, layer + 1, "turns")

    def _kinds(self, first: int, end: int) -> Iterator[Segment]:
        """The segments of two or more layers, one for each kind that is allowed and has enough tiles."""
        params, tiles = self.params, self.problem.model.tiles
        if params.temporal:
            yield Segment(first, end, "turns")
        if params.spatial and end - first <= tiles:
            yield Segment(first, end, "pipeline")
        if params.spatial and params.grouped:
            regions = self._grouped_regions(first, end)
            # one region would be "turns", a region for each layer a "pipeline"
            if 1 < regions < end - first and regions <= tiles:
                yield Segment(first, end, "grouped")

    def _grouped_regions(self, first: int, end: int) -> int:
        """How many regions a grouped segment has: its first layer begins one, and so does each with weights.

        It is counted without making the regions, since long networks have tens of thousands of segments.
        """
        return 1 + self._with_weights[end] - self._with_weights[first + 1]

    @cached_property
    def _with_weights(self) -> tuple[int, ...]:
        """How many of the first 0, 1, 2 ... layers have weights: a prefix sum, one longer than the layers."""
        return tuple(accumulate((layer.has_weights for layer in self.problem.graph.layers), initial=0))

    def alike(self, segment: Segment) -> Hashable:
        """The same for segments that have the same schemes, each of which fits and costs the same.

        Bands and groups of layers are known by the names of their layers, so with these a segment is alike to
        no other.
        """
        model = self.problem.model
        if self.params.bands > 1 or (isinstance(model, ChipModel) and model.groups is not None):
            return segment
        return segment.kind, self._ranges.number(segment.first, segment.end)

    @cached_property
    def _ranges(self) -> AlikeRanges:
        return AlikeRanges(self.problem.graph)

    def regions(self, segment: Segment) -> list[list[int]]:
        """The layers (numbers) of each region; the layers of one region take turns on its tiles."""
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

    def divisions(self, segment: Segment) -> tuple[BatchDivision, ...]:
        """All divisions of a segment's batch: how finely a layer hands on its data to the next.

        KAPLA wants layers whose forwarding granularities match (section III-A). The chip model forwards whole
        samples, because a layer needs all channels that the one before it makes. So granularities match where
        all layers of a segment work on equally many samples at a time, and every divisor of the batch is one
        such number. A layer that needs the whole chip takes the whole batch.

        With ``Params.bands``, single samples are also handed on in as
        many bands as divide the rows of the last layer, where every layer can have bands. Some band of a
        layer may turn out to be empty: see :meth:`has_rows`.
        """
        if self.problem.graph.layers[segment.first].needs_whole_chip:
            return (BatchDivision(1),)
        whole = self._whole_samples
        if self.params.bands == 1 or self._whole_maps[segment.end] > self._whole_maps[segment.first]:
            return whole
        rows = self.problem.graph.layers[segment.end - 1].h
        bands = (count for count in divisors(rows)[1:] if count <= self.params.bands)
        return (*whole, *(BatchDivision(self.batch, count) for count in bands))

    @cached_property
    def _whole_samples(self) -> tuple[BatchDivision, ...]:
        """All divisions without bands."""
        return tuple(map(BatchDivision, divisors(self.batch)))

    @cached_property
    def _whole_maps(self) -> tuple[int, ...]:
        """How many of the first 0, 1, 2 ... layers cannot run in bands: a prefix sum like the one above."""
        layers = self.problem.graph.layers
        return tuple(accumulate((bool(whole_map_reason(layer)) for layer in layers), initial=0))

    def has_rows(self, scheme: Scheme) -> bool:
        """Whether no band of a layer of the scheme is empty, as it may be in long segments of few rows."""
        return scheme.bands == 1 or all(min(rows) > 0 for rows in self.heights(scheme).values())

    def heights(self, scheme: Scheme) -> Mapping[int, Rows]:
        """The rows of each band of each layer, by number. They do not depend on the segment's kind."""
        segment = scheme.segment
        key = segment.first, segment.end, scheme.bands
        if key not in self._heights:
            cut = self.node(Scheme(Segment(segment.first, segment.end, "turns"), scheme.division))
            assert isinstance(cut, Cut)
            made = made_in_bands(cut, self.problem.graph)
            self._heights[key] = {number: heights_of(rows) for number, rows in made.items()}
        return self._heights[key]

    @cached_property
    def _heights(self) -> dict[tuple[int, int, int], dict[int, Rows]]:
        return {}

    def node(self, scheme: Scheme) -> TreeNode:
        """The scheme as a child of the root T cut; see the picture above."""
        segment, (subbatches, bands) = scheme
        batch, samples = self.batch, self.batch // subbatches
        if len(segment) == 1 and subbatches == bands == 1:
            return self._leaf(segment.first, batch)
        regions = [
            tuple(self._leaf(number, samples) for number in region) for region in self.regions(segment)
        ]
        if segment.kind == "turns":
            return Cut("T", batch, subbatches, regions[0], bands)
        children = (region[0] if len(region) == 1 else Cut("T", samples, 1, region) for region in regions)
        return Cut("S", batch, subbatches, tuple(children), bands)

    def _leaf(self, number: int, samples: int) -> Leaf:
        """The leaf of a layer: one object in all trees, by which evaluators find sooner what they know."""
        key = number, samples
        if key not in self._leaves:
            self._leaves[key] = Leaf(self.problem.graph.layers[number].name, samples)
        return self._leaves[key]

    @cached_property
    def _leaves(self) -> dict[tuple[int, int], Leaf]:
        return {}

    def tree(self, chain: Iterable[Scheme]) -> Cut:
        """The schedule of a chain: its schemes, one after the other, below a root T cut."""
        children = tuple(self.node(scheme) for scheme in chain)
        return Cut("T", self.problem.batch, self.passes, children)
