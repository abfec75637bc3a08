"""The block of layers that a network repeats, and the parts of the network as graphs of their own.

A layer's *sign* is all that decides its cost and what it reads: its sizes, and how many layers back each
producer is. A network whose signs repeat with a period repeats a block of that many layers. ::

    embedding | norm query .. add | norm query .. add | norm query .. add | norm lm_head
      head    |    copy 0             copy 1              copy 2          |    tail

Where one copy ends and the next begins is free; the boundary is drawn where the fewest tensors cross it.
"""

from __future__ import annotations

from collections.abc import Hashable
from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer

LEAST_COPIES = 3
"""With fewer copies than this little is saved."""

LEAST_LAYERS = 4
"""A network whose period is shorter repeats no block: a chain of equal convolutions has better schedules as a
whole."""


@dataclass(frozen=True)
class RepeatedBlock:
    """``copies`` copies of ``layers`` layers each, one after the other from the layer number ``first`` on."""

    first: int
    layers: int
    copies: int

    @property
    def end(self) -> int:
        """The number of the first layer behind all copies."""
        return self.first + self.layers * self.copies

    def ranges(self, graph: LayerGraph) -> list[tuple[int, int]]:
        """Head, one copy and tail of the network: first layer and the end; those without layers left out."""
        every = (0, self.first), (self.first, self.first + self.layers), (self.end, len(graph.layers))
        return [(first, end) for first, end in every if first < end]


def repeated_block(graph: LayerGraph) -> RepeatedBlock | None:
    """The block whose copies have the most layers of the network; None where no block repeats.

    Of several such periods the shortest counts. No block has weights that layers outside of it make: by
    itself it would have parameters in their place, which cost less.
    """
    signs = _signs(graph)
    longest = _longest_period(signs)
    if longest is None or longest[1] < LEAST_LAYERS:
        return None
    start, period, length = longest
    possible = [
        RepeatedBlock(first, period, (start + length - first) // period)
        for first in range(start, start + period)
        if (start + length - first) // period >= LEAST_COPIES
    ]
    possible = [block for block in possible if _stands_alone(graph, block)]
    # As many copies as possible come first, as each copy less is a block more that must be searched.
    return min(possible, key=lambda one: (-one.copies, _crossing(graph, one.first), one.first), default=None)


def _sign(graph: LayerGraph, number: int) -> Hashable:
    layer = graph.layers[number]
    inputs = tuple(number - producer for producer in layer.producers)
    weights = tuple(number - producer for producer in layer.weight_producers)
    return replace(layer, name="", producers=(), weight_producers=()), inputs, weights


def _signs(graph: LayerGraph) -> NDArray[np.int64]:
    """A number [layers] for each layer, equal for layers of equal signs."""
    known: dict[Hashable, int] = {}
    numbers = (known.setdefault(_sign(graph, number), len(known)) for number in range(len(graph.layers)))
    return np.fromiter(numbers, np.int64)


def _longest_period(signs: NDArray[np.int64]) -> tuple[int, int, int] | None:
    """(start, period, length) of the longest run of layers that repeats itself at least LEAST_COPIES times.

    Of several periods of one run the shortest.
    """
    best: tuple[int, int, int] | None = None
    for period in range(1, len(signs) // LEAST_COPIES + 1):
        equal = signs[period:] == signs[:-period]
        # A run of r layers that equal those a period later is r + period layers long.
        edges = np.flatnonzero(np.diff(np.concatenate([[False], equal, [False]]).astype(np.int8)))
        if not len(edges):
            continue
        starts, runs = edges[::2], edges[1::2] - edges[::2]
        longest = int(runs.argmax())
        length = int(runs[longest]) + period
        if length >= LEAST_COPIES * period and (best is None or length > best[2]):
            best = int(starts[longest]), period, length
    return best


def _crossing(graph: LayerGraph, boundary: int) -> int:
    """How many layers before the ``boundary`` are read by layers from it on."""
    read = {
        producer
        for layer in graph.layers[boundary:]
        for producer in (*layer.producers, *layer.weight_producers)
        if producer < boundary
    }
    return len(read)


def _stands_alone(graph: LayerGraph, block: RepeatedBlock) -> bool:
    """Whether head, block and tail can be scheduled as graphs of their own."""
    try:
        return all(part_of(graph, first, end) is not None for first, end in block.ranges(graph))
    except InputError:
        # what other layers make stands in front of a layer's own inputs, which not every operand allows
        return False


def part_of(graph: LayerGraph, first: int, end: int) -> LayerGraph | None:
    """The layers from number ``first`` to before ``end`` by themselves; None if they lack weights then.

    What other layers make for them comes from DRAM, as it does between segments. InputError where a layer
    would have operands that are not whole.
    """
    layers = []
    for layer in graph.layers[first:end]:
        if any(producer < first for producer in layer.weight_producers):
            return None
        layers.append(_moved(graph, layer, first))
    return LayerGraph(graph.name, tuple(layers))


def _moved(graph: LayerGraph, layer: NetworkLayer, first: int) -> NetworkLayer:
    """A layer of a part that begins at the layer number ``first``."""
    inputs, weights = graph.reads(layer)
    own = [read for read in inputs if read.producer >= first]
    outside = sum(read.channels for read in inputs if read.producer < first)
    kept = [*own, *weights]
    return replace(
        layer,
        external_c=layer.external_c + outside,
        producers=tuple(read.producer - first for read in own),
        weight_producers=tuple(read.producer - first for read in weights),
        channels=tuple((read.first, read.end) for read in kept) if layer.channels else (),
    )
