"""The data of a leaf as streams: which channels, and whether DRAM or the tiles of a producer have them.

A layer that reads a concatenation has one stream of inputs for each producer, so each of its parts knows
which producers hold the channels that it needs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.schedule.boxes.partition import BoxPartition
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.layer import OUTPUT_DIMS, REDUCED_DIM
from costmodel.schedule.layer_graph.sources import ALONE, joined_sources, sources_of
from costmodel.schedule.leaf.partitions import Parts
from costmodel.schedule.remembered import Remembered
from costmodel.schedule.row_bands import LeafBands

Array = NDArray[Any]
StreamKind = Literal["outputs", "inputs", "weights"]
STREAM_KINDS = {"outputs": 0, "inputs": 1, "weights": 2}
"""The numbers of OUTPUTS, INPUTS and WEIGHTS in ``ranges_kernel.py``."""


@dataclass(frozen=True)
class Placement:
    """On which tiles a layer's outputs are: a batch cut into ``parts`` in a placement order from ``tile`` on.

    ``order``: axes of the partition (0 to 3 for K, B, H, W); parts along the last one lie on neighbouring
    tiles. ``reduced``: into how many parts the input channels are cut. These lie next to one another whatever
    the order, and the first of them gets the outputs.
    """

    batch: int
    tile: int
    parts: Parts
    order: tuple[int, ...]
    reduced: int = 1

    @property
    def steps(self) -> tuple[int, int, int, int]:
        """How many tiles further the next part along K, B, H and W is."""
        steps, step = [0, 0, 0, 0], self.reduced
        # Parts along the last axis of the order are neighbours; one step along another axis passes over all
        # parts along those behind it.
        for axis in reversed(self.order):
            steps[axis], step = step, step * self.parts[axis]
        return steps[0], steps[1], steps[2], steps[3]

    @property
    def partition(self) -> BoxPartition:
        """The same partition by the dims of an iteration space; its boxes are those of tiles ``tile`` on."""
        cuts = tuple((OUTPUT_DIMS[axis], self.parts[axis]) for axis in self.order)
        return BoxPartition((*cuts, (REDUCED_DIM, self.reduced)) if self.reduced > 1 else cuts)


class BufferPrices(NamedTuple):
    """What a bit of the fullest tile's buffer costs a leaf; both are 0 where everything fits.

    ``kept``: of a bit that stays between runs. ``running``: of a bit that the leaf takes only while it runs.
    The cost of a leaf is the root of degree n + m of E^n D^m, with the cycles of all its runs, and prices
    have its unit. So they weigh all leaves of a segment alike: the cheapest leaves under one price are the
    cheapest that take no more bits together.
    """

    kept: float = 0.0
    running: float = 0.0

    def __bool__(self) -> bool:
        return self.kept > 0 or self.running > 0


FREE = BufferPrices()
"""No price: everything fits."""


@dataclass(frozen=True)
class LeafRun:
    """The work of a leaf: ``batch`` samples on ``tiles`` tiles from ``first_tile`` on, ``runs`` times.

    ``to_dram``: its outputs go to DRAM, and to other tiles as well where some layer reads them at once.
    ``streamed``: weights that are parameters come from DRAM for every run. Without it they are pinned, that
    is come once for all runs; :meth:`.LeafSearch.cost`, which is asked without it, takes the cheaper of both
    ways. ``bands``: each run goes band by band; ``runs`` counts runs of all bands. ``reduced``: into how many
    parts the input channels are cut. ``may_share``: the tiles may share their weights instead
    (:mod:`.sharing`). ``prices``: of the bits of buffers that the leaf takes.
    """

    batch: int
    first_tile: int
    tiles: int
    runs: int
    to_dram: bool
    streamed: bool = False
    bands: LeafBands | None = None
    reduced: int = 1
    may_share: bool = False
    prices: BufferPrices = FREE

    @property
    def times(self) -> int:
        """How often tiles compute their parts, or a band of these."""
        return self.runs * (1 if self.bands is None else self.bands.count)


@dataclass(frozen=True)
class Stream:
    """Channels ``first`` to before ``end`` of a layer's outputs, inputs or weights.

    Inputs, and weights that are activations, are the outputs of ``producer``; None is the network's input.
    Channel ``first`` is the producer's channel 0. A negative ``first`` says that the producer's first
    channels belong to another stream, or are not read. Weights that are parameters are ``pinned``: unless the
    leaf streams them, they are loaded once and stay. ``joined``: the number of the first stream that is sent
    together with this one (:func:`.sources.joined_sources`).
    """

    kind: StreamKind
    first: int
    end: int
    producer: int | None = None
    pinned: bool = False
    joined: int = ALONE


class StreamRow(NamedTuple):
    """One stream of a leaf's data as integers.

    ``kind``: OUTPUTS (to DRAM), INPUTS or WEIGHTS. ``first`` to before ``end``: its channels, numbered as the
    layer numbers them. ``bits``: of an element. ``times``: how often the data comes from or goes to DRAM.
    ``direct``: 1 if tiles send it over the NoC, 0 if it is DRAM's. ``joined``: the first of the streams that
    are sent together with this one, or ``ALONE``.

    The rest is about the producer of a direct stream, and 0 for others: the samples of its batch, the sizes
    of its outputs, into how many parts each dim is cut, how many tiles further the next part along each dim
    is computed, and the tile of its first part.
    """

    kind: int
    first: int
    end: int
    bits: int
    times: int
    direct: int
    joined: int
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
    found = []
    sources = sources_of(graph, number, 1)
    for source, joined in zip(sources, joined_sources(graph, number, sources), strict=True):
        first, end = source.box[0]
        if source.producer is not None:
            # All channels of the producer, also those that are not read: its parts are known by its own
            # channels, and ``first`` is what leads from one numbering to the other.
            first, end = source.first, source.first + graph.layers[source.producer].k
        kind: StreamKind = "weights" if source.role == "weights" else "inputs"
        found.append(Stream(kind, first, end, source.producer, source.is_parameter, joined))
    return (*found, Stream("outputs", 0, graph.layers[number].k))


def stream_row(
    graph: LayerGraph, stream: Stream, run: LeafRun, producers: Mapping[int, Placement], bits: ElementBits
) -> StreamRow:
    """A stream as integers; ``producers``: where those are whose outputs come over the NoC.

    ``bits``: of the elements of the layer's tensors.

    Pinned weights come from DRAM once, other data once a run; outputs that DRAM does not get move no times.
    """
    times = 1 if stream.pinned and not run.streamed else run.runs
    if stream.kind == "outputs":
        times = run.runs if run.to_dram else 0
    width = {"outputs": bits.outputs, "inputs": bits.inputs, "weights": bits.weights}[stream.kind]
    head = (STREAM_KINDS[stream.kind], stream.first, stream.end, width, times)
    # A producer outside of the segment has written its outputs to DRAM, like the network's input.
    if stream.producer is None or stream.producer not in producers:
        return StreamRow(*head, direct=0, joined=stream.joined)
    theirs = producers[stream.producer]
    sizes = graph.layers[stream.producer].sizes(theirs.batch)
    return StreamRow(*head, 1, stream.joined, theirs.batch, *sizes, *theirs.parts, *theirs.steps, theirs.tile)


@dataclass(frozen=True, eq=False)
class LeafStreams:
    """All streams of a leaf. Equal ones of one search are the same object, by which leaves are looked up.

    ``rows`` [streams, columns]: the fields of each :class:`StreamRow`.
    """

    rows: Array


class KnownStreams:
    """The streams of the leaves of a network; those of a leaf are made once for each placement of producers.

    ``bits``: of the elements of each layer's tensors, by number. ``most``: how many are remembered.
    """

    def __init__(self, graph: LayerGraph, bits: Sequence[ElementBits], most: int) -> None:
        self._graph, self._bits = graph, bits
        self._streams = [streams_of(graph, number) for number in range(len(graph.layers))]
        self._asked = Remembered[tuple[int, ...], tuple[tuple[Placement, ...], LeafStreams]](most)
        self._by_value = Remembered[tuple[StreamRow, ...], LeafStreams](most)

    def of(self, number: int, run: LeafRun, producers: Mapping[int, Placement]) -> LeafStreams:
        """The streams of layer ``number``; ``producers`` as for :func:`stream_row`."""
        near = tuple(producers.values())
        key = (number, run.runs, run.streamed, run.to_dram, *producers, *map(id, near))
        found = self._asked.get(key)
        if found is None:
            # With ``near``, so that its ids stay true.
            found = self._asked.add(key, (near, self._made(number, run, producers)))
        return found[1]

    def _made(self, number: int, run: LeafRun, producers: Mapping[int, Placement]) -> LeafStreams:
        bits = self._bits[number]
        rows = tuple(
            stream_row(self._graph, stream, run, producers, bits) for stream in self._streams[number]
        )
        return self._by_value.get(rows) or self._by_value.add(rows, LeafStreams(np.array(rows, np.int64)))
