"""Ranges of layers that are alike: what costs one of them costs another, wherever they stand in the network.

Networks repeat layers and blocks of layers. A segment of one block has the same schemes as that of another,
and each of them may fit, is estimated and costs as its counterpart. ::

    stem | gate gate gate gate sum | gate gate gate gate sum | head
           `-------´      `-------´  `-------´                        three ranges that are alike
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Hashable
from dataclasses import replace
from typing import NamedTuple

from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.sources import joined_sources, sources_of

NO_READER = 1 << 62
"""The last reader of a layer whose outputs are the network's."""


class AlikeRanges:
    """Numbers for the ranges of layers of ``graph``, equal for ranges that are alike.

    Two ranges are alike if one layer after the other

    - has the same sizes;
    - reads the same channels of the same layers of its own range, counted from itself backwards, and for the
      rest as many channels of layers outside or of the network's input, which all come from DRAM;
    - is read by some layer behind its range, or is not.
    """

    def __init__(self, graph: LayerGraph) -> None:
        layers = graph.layers
        sizes: dict[Hashable, int] = {}
        self._sizes = [sizes.setdefault(_sizes(graph, number), number) for number in range(len(layers))]
        self._reads = [_reads(graph, number) for number in range(len(layers))]
        last = [NO_READER] * len(layers)
        for number, layer in enumerate(layers):
            for producer in (*layer.producers, *layer.weight_producers):
                last[producer] = number
        # by the end of a range all layers before it that some layer from there on reads
        self._read_later = [
            [number for number in range(end) if last[number] >= end] for end in range(len(layers) + 1)
        ]
        self._beginnings: list[list[int]] = [[] for _ in layers]
        """By first layer the numbers of the ranges of 1, 2, 3 ... layers, without what is read later."""
        self._known: dict[Hashable, int] = {}

    def number(self, first: int, end: int) -> int:
        """The number of the range of the layers ``first`` to before ``end``."""
        numbers = self._beginnings[first]
        while len(numbers) < end - first:
            layer = first + len(numbers)
            inputs, weights = (_as_inside(reads, layer, first) for reads in self._reads[layer])
            shorter = numbers[-1] if numbers else None
            numbers.append(self._numbered((shorter, self._sizes[layer], inputs, weights)))
        later = self._read_later[end]
        left = tuple(number - first for number in later[bisect_left(later, first) :])
        return self._numbered((numbers[end - first - 1], left))

    def _numbered(self, key: Hashable) -> int:
        return self._known.setdefault(key, len(self._known))


class _Channels(NamedTuple):
    """Channels ``first`` to before ``end`` of the ``of`` ones of ``producer``; None: the network's input."""

    producer: int | None
    first: int
    end: int
    of: int


def _sizes(graph: LayerGraph, number: int) -> Hashable:
    """What a layer is by itself, and which of its heads share weights that another layer makes."""
    layer = graph.layers[number]
    joined = joined_sources(graph, number, sources_of(graph, number, 1))[: len(layer.weight_producers)]
    plain = replace(layer, name="", external_c=0, producers=(), weight_producers=(), channels=())
    return plain, not layer.weight_producers, joined


def _reads(graph: LayerGraph, number: int) -> tuple[list[_Channels], list[_Channels]]:
    """The channels of a layer's inputs, and of weights that other layers make, in their order."""
    layer = graph.layers[number]
    inputs, weights = (
        [_Channels(*read, graph.layers[read.producer].k) for read in reads] for reads in graph.reads(layer)
    )
    if layer.external_c:
        inputs.insert(0, _Channels(None, 0, layer.external_c, layer.external_c))
    return inputs, weights


def _as_inside(reads: list[_Channels], layer: int, first: int) -> Hashable:
    """The same in a range from ``first`` on: how far back producers are, or how many channels are outside."""
    found: list[tuple[int, ...]] = []
    for producer, begin, end, of in reads:
        if producer is not None and producer >= first:
            found.append((layer - producer, begin, end))
        elif end - begin < of:
            found.append((0, begin, end, of))
        elif found and len(found[-1]) == 1:
            found[-1] = (found[-1][0] + of,)
        else:
            found.append((of,))
    return tuple(found)
