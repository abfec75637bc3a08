"""The data of a leaf: what it is asked to do, where its producers are, and what comes from or goes where."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from costmodel.schedule.layer_graph.graph import LayerGraph, Read
from costmodel.schedule.leaf.partitions import Parts

StreamKind = Literal["outputs", "inputs", "weights"]
STREAM_KINDS = {"outputs": 0, "inputs": 1, "weights": 2}
FROM_DRAM = (0,) * 15
"""What a stream from or to DRAM has in place of its producer's numbers."""


@dataclass(frozen=True)
class Placement:
    """Where a layer's outputs are: its batch and partition, the placement order, tiles from ``tile`` on."""

    batch: int
    tile: int
    parts: Parts
    order: tuple[int, ...]

    @property
    def steps(self) -> tuple[int, int, int, int]:
        """How many tiles further the next part along K, B, H and W is."""
        steps, step = [0, 0, 0, 0], 1
        for axis in reversed(self.order):
            steps[axis], step = step, step * self.parts[axis]
        return steps[0], steps[1], steps[2], steps[3]


@dataclass(frozen=True)
class LeafRun:
    """What a leaf is to do: ``batch`` samples on ``tiles`` tiles from ``first_tile`` on, ``runs`` times.

    Its weights are loaded once for all runs. ``to_dram``: its outputs go there (too).
    """

    batch: int
    first_tile: int
    tiles: int
    runs: int
    to_dram: bool


@dataclass(frozen=True)
class Stream:
    """Data of a layer: channels ``first`` to before ``end`` of its outputs, inputs or weights.

    Inputs, and weights that are activations, are outputs of ``producer``, the network's input if None; where
    ``first`` is below 0, the producer's channels up to there belong to another stream or are not read. Other
    weights are ``pinned``: they are loaded once and stay.
    """

    kind: StreamKind
    first: int
    end: int
    producer: int | None = None
    pinned: bool = False


def streams_of(graph: LayerGraph, number: int) -> tuple[Stream, ...]:
    """All data of a layer: weights, inputs in the order of channels, outputs."""
    layer = graph.layers[number]
    weights = [Stream("weights", 0, layer.k, None, True)] if layer.has_weights else []
    read, as_weights = graph.reads(layer)
    if as_weights:
        weights = list(_side_by_side(graph, "weights", as_weights, layer.k))
    inputs = _side_by_side(graph, "inputs", read, layer.c, layer.external_c)
    if layer.kind == "eltwise":  # every operand has the layer's channels, and may be of several producers
        inputs = _side_by_side(graph, "inputs", read, layer.k, layer.external_c)
    return (*weights, *inputs, Stream("outputs", 0, layer.k))


def _side_by_side(
    graph: LayerGraph, kind: StreamKind, reads: Sequence[Read], operand: int, external: int = 0
) -> Iterator[Stream]:
    """Outputs one after the other, beginning anew after the ``operand`` channels of each operand.

    Of a producer that is read in part the operand has the part's channels only; the others are outside of it.
    """
    for begin in range(0, -external, -operand):
        yield Stream(kind, begin, begin + external)
    first = external
    for read in reads:
        for begin in range(first % operand, -read.channels, -operand):
            start = begin - read.first
            yield Stream(kind, start, start + graph.layers[read.producer].k, read.producer)
        first += read.channels


def stream_row(
    graph: LayerGraph, stream: Stream, run: LeafRun, producers: Mapping[int, Placement]
) -> tuple[int, ...]:
    """A stream as a row of WIDTH numbers; outputs that no DRAM gets move no times."""
    times = 1 if stream.pinned else run.runs
    if stream.kind == "outputs":
        times = run.runs if run.to_dram else 0
    head = (STREAM_KINDS[stream.kind], stream.first, stream.end, times)
    if stream.producer is None or stream.producer not in producers:
        return (*head, *FROM_DRAM)
    place = producers[stream.producer]
    sizes = graph.layers[stream.producer].sizes(place.batch)
    return (*head, 1, place.batch, *sizes, *place.parts, *place.steps, place.tile)
