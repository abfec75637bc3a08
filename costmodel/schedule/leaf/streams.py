"""The data of a leaf as streams: which channels, and whether DRAM or the tiles of a producer have them.

A layer that reads a concatenation has one stream of inputs for each producer, so each of its parts knows
which producers hold the channels that it needs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from costmodel.schedule.layer_graph.graph import LayerGraph, Read
from costmodel.schedule.leaf.partitions import Parts

StreamKind = Literal["outputs", "inputs", "weights"]
STREAM_KINDS = {"outputs": 0, "inputs": 1, "weights": 2}
"""The numbers of OUTPUTS, INPUTS and WEIGHTS in ``ranges_kernel.py``."""


@dataclass(frozen=True)
class Placement:
    """On which tiles a layer's outputs are: a batch cut into ``parts`` in a placement order from ``tile`` on.

    ``order``: axes of the partition (0 to 3 for K, B, H, W); parts along the last one lie on neighbouring
    tiles.
    """

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
    """The work of a leaf: ``batch`` samples on ``tiles`` tiles from ``first_tile`` on, ``runs`` times.

    Weights are loaded once for all runs. ``to_dram``: its outputs go to DRAM, and to other tiles as well
    where some layer reads them at once.
    """

    batch: int
    first_tile: int
    tiles: int
    runs: int
    to_dram: bool


@dataclass(frozen=True)
class Stream:
    """Channels ``first`` to before ``end`` of a layer's outputs, inputs or weights.

    Inputs, and weights that are activations, are the outputs of ``producer``; None is the network's input.
    Channel ``first`` is the producer's channel 0. A negative ``first`` says that the producer's first
    channels belong to another stream, or are not read. Weights that are parameters are ``pinned``: they are
    loaded once and stay.
    """

    kind: StreamKind
    first: int
    end: int
    producer: int | None = None
    pinned: bool = False


class StreamRow(NamedTuple):
    """One stream of a leaf's data as integers.

    ``kind``: OUTPUTS (to DRAM), INPUTS or WEIGHTS. ``first`` to before ``end``: its channels, numbered as the
    layer numbers them. ``times``: how often the data comes from or goes to DRAM. ``direct``: 1 if tiles send
    it over the NoC, 0 if it is DRAM's.

    The rest is about the producer of a direct stream, and 0 for others: the samples of its batch, the sizes
    of its outputs, into how many parts each dim is cut, how many tiles further the next part along each dim
    is computed, and the tile of its first part.
    """

    kind: int
    first: int
    end: int
    times: int
    direct: int
    batch: int = 0
    size_k: int = 0
    size_b: int = 0
    size_h: int = 0
    size_w: int = 0
    parts_k: int = 0
    parts_b: int = 0
    parts_h: int = 0
    parts_w: int = 0
    step_k: int = 0
    step_b: int = 0
    step_h: int = 0
    step_w: int = 0
    tile: int = 0


def streams_of(graph: LayerGraph, number: int) -> tuple[Stream, ...]:
    """All data of a layer: weights, then inputs in the order of their channels, then outputs."""
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
    """The streams of producers whose outputs lie one after the other in the channels of an operand.

    Each operand has ``operand`` channels. The ``external`` channels of the network's input come first. Where
    the next producer's channels go beyond the end of an operand, they go on at channel 0 of the next one:
    such a producer has a stream for each operand that it is in. Of a producer that is read in part, only
    those channels count; its stream begins before them and ends after them, outside of the operand.
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
) -> StreamRow:
    """A stream as integers; ``producers``: where those are whose outputs come over the NoC.

    Pinned weights come from DRAM once, other data once a run; outputs that DRAM does not get move no times.
    """
    times = 1 if stream.pinned else run.runs
    if stream.kind == "outputs":
        times = run.runs if run.to_dram else 0
    head = (STREAM_KINDS[stream.kind], stream.first, stream.end, times)
    if stream.producer is None or stream.producer not in producers:
        return StreamRow(*head, direct=0)
    theirs = producers[stream.producer]
    sizes = graph.layers[stream.producer].sizes(theirs.batch)
    return StreamRow(*head, 1, theirs.batch, *sizes, *theirs.parts, *theirs.steps, theirs.tile)
