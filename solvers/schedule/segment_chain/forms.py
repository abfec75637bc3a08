"""The forms that a segment of a run of neighbouring layers may take; ``solver.py`` draws them.

A run of layers is given by its first layer and the layer behind its last one, as numbers.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import cached_property
from itertools import accumulate, pairwise
from math import inf
from typing import Generic, Protocol, TypeVar

from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from solvers.divisors import divisors
from solvers.schedule.segment_chain.blocks import Edge, blocks
from solvers.schedule.segment_chain.params import Params


class HasBands(Protocol):
    """Parameters that say the most bands of rows of a segment."""

    @property
    def bands(self) -> int: ...


ParamsT = TypeVar("ParamsT", bound=HasBands)


class Forms(Generic[ParamsT]):
    """Makes segments of layers of ``graph``, for ``batch`` samples on ``tiles`` tiles.

    Those of one layer are the same in every space of chains; a space adds its own of several layers.

    ``cycles``: the cycles that one sample of a layer, given by its number, takes on one tile.
    ``can_have_bands``: whether a segment with bands of rows is valid and has tile costs.
    """

    def __init__(
        self,
        graph: LayerGraph,
        batch: int,
        tiles: int,
        params: ParamsT,
        cycles: Callable[[int], float],
        can_have_bands: Callable[[TreeNode], bool],
    ) -> None:
        self._graph, self._batch, self._tiles, self._params = graph, batch, tiles, params
        self._cycles, self._can_have_bands = cycles, can_have_bands
        self._names = [layer.name for layer in graph.layers]

    def single(self, number: int) -> Iterator[TreeNode]:
        """The segments of one layer.

        In a T cut of one child a layer runs in sub-batches, or in bands, which need less of the buffers.
        """
        name = self._names[number]
        yield Leaf(name, self._batch)
        for parts in divisors(self._batch)[1:]:
            yield Cut("T", self._batch, parts, (Leaf(name, self._batch // parts),))
        for bands in self._bands_after(number):
            segment = Cut("T", self._batch, self._batch, (Leaf(name, 1),), bands)
            if self._can_have_bands(segment):
                yield segment

    def _bands_after(self, last: int) -> list[int]:
        """The numbers of bands that are tried for segments whose last layer is ``last``."""
        rows = self._graph.layers[last].h
        return [bands for bands in divisors(rows)[1:] if bands <= self._params.bands]


class SegmentForms(Forms[Params]):
    """The segments of runs of neighbouring layers."""

    @cached_property
    def _edges(self) -> list[Edge]:
        return [
            (producer, consumer)
            for consumer, layer in enumerate(self._graph.layers)
            for producer in (*layer.producers, *layer.weight_producers)
        ]

    def several(self, first: int, end: int) -> Iterator[TreeNode]:
        """The segments of the layers ``first`` to ``end - 1``, two or more, in all forms."""
        for parts in divisors(self._batch):
            yield from self._in_parts(first, end, parts, 1)
        for bands in self._bands_after(end - 1):
            yield from filter(self._can_have_bands, self._in_parts(first, end, self._batch, bands))

    def long(self, first: int, end: int) -> Iterator[TreeNode]:
        """The segments of a long run of layers: T cuts of blocks, and pipelines of these."""
        for parts in divisors(self._batch):
            leaves = [Leaf(name, self._batch // parts) for name in self._names[first:end]]
            yield self._in_blocks(first, end, leaves, parts)
            if parts > 1:
                yield from self._pipelines(first, leaves, parts, 1)

    def _in_parts(self, first: int, end: int, parts: int, bands: int) -> Iterator[TreeNode]:
        """The segments with ``parts`` sub-batches, each in ``bands`` bands."""
        names, batch, params = self._names[first:end], self._batch, self._params
        samples, runs = batch // parts, parts * bands
        leaves = tuple(Leaf(name, samples) for name in names)
        yield Cut("T", batch, parts, leaves, bands)
        # Segments with bands have combs, whatever ``blocks`` says (:class:`.params.Params`).
        with_blocks = params.blocks and bands == 1
        if with_blocks:
            if (of_blocks := self._in_blocks(first, end, leaves, parts)).children != leaves:
                yield of_blocks
        elif len(names) > 2:  # of two layers the comb is the T cut
            yield comb(leaves) if runs == 1 else Cut("T", batch, parts, (comb(leaves),), bands)
        if len(names) <= self._tiles:
            yield Cut("S", batch, parts, leaves, bands)
        if runs == 1:  # a pipeline of a single sub-batch would have one comb wait for the other
            return
        yield from self._pipelines(first, leaves, parts, bands)

    def _pipelines(self, first: int, leaves: Sequence[Leaf], parts: int, bands: int) -> Iterator[TreeNode]:
        """Pipelines of combs, or of T cuts of blocks, of the ``leaves`` of layers from ``first`` on."""
        with_blocks, count = self._params.blocks and bands == 1, len(leaves)
        cycles = [self._cycles(number) for number in range(first, first + count)]
        for pieces in range(2, min(self._params.combs, self._tiles, count - 1) + 1):
            ends = even_ends(cycles, pieces)
            if ends is not None:
                runs = (self._in_turn(first, leaves, *piece, with_blocks) for piece in pairwise((0, *ends)))
                yield Cut("S", parts * leaves[0].batch, parts, tuple(runs), bands)

    def _in_turn(
        self, first: int, leaves: Sequence[Leaf], begin: int, until: int, with_blocks: bool
    ) -> TreeNode:
        """One child of a pipeline: the leaves ``begin`` to ``until - 1``, in turn."""
        if until - begin == 1:
            return leaves[begin]
        piece = leaves[begin:until]
        return self._in_blocks(first + begin, first + until, piece) if with_blocks else comb(piece)

    def _in_blocks(self, first: int, end: int, leaves: Sequence[Leaf], parts: int = 1) -> Cut:
        """The T cuts of blocks of the layers ``first`` to ``end - 1``, with these ``leaves``."""
        edges = [(one - first, two - first) for one, two in self._edges if first <= one < two < end]
        return replace(blocks(leaves, edges), batch=parts * leaves[0].batch, subbatches=parts)


def even_ends(cycles: Sequence[float], count: int) -> list[int] | None:
    """Divides layers with these ``cycles`` into ``count`` runs of about equal cycles.

    The result is where each run ends, as the position after its last layer. Run ``number``, counted from 1,
    ends as soon as it and the runs before it have ``number / count`` of all cycles. None where a run would
    have no layer.
    """
    reached = list(accumulate(cycles))
    ends = [bisect_left(reached, reached[-1] * number / count) + 1 for number in range(1, count)]
    ends.append(len(cycles))
    return ends if all(one < other for one, other in pairwise(ends)) else None


def necks(graph: LayerGraph) -> list[int]:
    """The boundaries that no more data crosses than either boundary next to them; and both ends.

    Boundary ``number`` lies in front of the layer of that number. The data that crosses it are the outputs of
    layers in front of it that a layer behind it reads.
    """
    count = len(graph.layers)
    last_read = list(range(count))
    for consumer, layer in enumerate(graph.layers):
        for producer in (*layer.producers, *layer.weight_producers):
            last_read[producer] = consumer
    crossing = [
        sum(
            layer.compulsory_elements(1).outputs
            for producer, layer in enumerate(graph.layers[:boundary])
            if last_read[producer] >= boundary
        )
        for boundary in range(count + 1)
    ]
    around = [inf, *crossing[1:count], inf]  # nothing crosses an end, but there is nothing to compare with
    inner = (at for at in range(1, count) if around[at] <= min(around[at - 1], around[at + 1]))
    return [0, *inner, count]


def comb(leaves: Sequence[Leaf]) -> TreeNode:
    """Nested T cuts of two children: a leaf, and the comb of all leaves after it."""
    node: TreeNode = leaves[-1]
    for leaf in reversed(leaves[:-1]):
        node = Cut("T", leaf.batch, 1, (leaf, node))
    return node
