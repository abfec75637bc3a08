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

from costmodel.schedule.layer_graph.graph import LayerGraph

NO_READER = 1 << 62
"""The last reader of a layer whose outputs are the network's."""


class AlikeRanges:
    """Numbers for the ranges of layers of ``graph``, equal for ranges that are alike.

    Two ranges are alike if one layer after the other

    - has the same sizes, and reads as many channels of as large producers (:func:`_sign`);
    - reads the same layers of its own range, counted from itself backwards, and for the rest those outside,
      whichever these are, for their outputs come from DRAM;
    - is read by some layer behind its range, or is not.
    """

    def __init__(self, graph: LayerGraph) -> None:
        layers = graph.layers
        signs: dict[Hashable, int] = {}
        self._signs = [signs.setdefault(_sign(graph, number), number) for number in range(len(layers))]
        self._back = [
            tuple(number - producer for producer in (*layer.producers, *layer.weight_producers))
            for number, layer in enumerate(layers)
        ]
        last = [NO_READER] * len(layers)
        for number, back in enumerate(self._back):
            for distance in back:
                last[number - distance] = number
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
            inside = tuple(back if back <= layer - first else 0 for back in self._back[layer])
            shorter = numbers[-1] if numbers else None
            numbers.append(self._numbered((shorter, self._signs[layer], inside)))
        later = self._read_later[end]
        left = tuple(number - first for number in later[bisect_left(later, first) :])
        return self._numbered((numbers[end - first - 1], left))

    def _numbered(self, key: Hashable) -> int:
        return self._known.setdefault(key, len(self._known))


def _sign(graph: LayerGraph, number: int) -> Hashable:
    """All that a layer is by itself: its numbers, and how many channels each of its producers has."""
    layer = graph.layers[number]
    producers = (*layer.producers, *layer.weight_producers)
    # how many of both there are stays, as zeros
    plain = replace(
        layer,
        name="",
        producers=(0,) * len(layer.producers),
        weight_producers=(0,) * len(layer.weight_producers),
    )
    return plain, tuple(graph.layers[producer].k for producer in producers)
