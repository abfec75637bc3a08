"""The bits that every schedule of a network moves: each datum that has to move, once."""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import lru_cache
from math import prod

from costmodel.hardware.widths import Widths
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.layer_graph.layer import IMAGE_AXES


@dataclass(frozen=True)
class Compulsory:
    """Bits of a whole batch that every schedule moves: from and to DRAM, into and out of tiles' buffers.

    ``filled``: every input that is read and every weight enters the buffer of one tile at least. ``emptied``:
    every output leaves a buffer. Both hold for leaves on tiles only: a layer mapped on the whole chip may
    pass its tensors by the buffers.
    """

    dram_read: int
    dram_write: int
    filled: int
    emptied: int

    @property
    def dram_bits(self) -> int:
        """Read and written."""
        return self.dram_read + self.dram_write

    def __add__(self, other: Compulsory) -> Compulsory:
        return Compulsory(*(getattr(self, one.name) + getattr(other, one.name) for one in fields(self)))


def compulsory(graph: LayerGraph, batch: int, widths: Widths) -> Compulsory:
    """The compulsory traffic of a network; halos, copies and reloads only add to it."""
    return sum(layers_traffic(graph, batch, widths), Compulsory(0, 0, 0, 0))


def layers_traffic(
    graph: LayerGraph,
    batch: int,
    widths: Widths,
    rounds: int = 1,
    staying: frozenset[tuple[int, int]] | None = None,
) -> list[Compulsory]:
    """The compulsory traffic of every layer, where the batch runs in ``rounds`` rounds.

    ``staying``: the edges (producer, consumer) that may stay on the chip; None: all may. Each round loads
    pinned weights anew. Weights and the network's inputs are read from DRAM; outputs that no layer reads
    are written there. All else may stay on the chip, except for layers that only run on the whole chip
    (``needs_whole_chip``): those read and write everything in DRAM, so their producers write and their
    consumers read it there, too.
    """
    on_chip, through_dram = _readers(graph, staying)
    found = []
    for number, layer in enumerate(graph.layers):
        bits = ElementBits.of(layer, widths)
        weights = bits.weights * _weights(layer, batch)
        outputs = bits.outputs * layer.compulsory_elements(batch).outputs
        if layer.has_weights and not layer.weight_producers and layer.part != "update":
            weights *= rounds
        fetched = bits.inputs * touched_inputs(layer, _channels_from_dram(graph, number, staying))
        stays = number in on_chip and number not in through_dram and not layer.needs_whole_chip
        loaded = layer.needs_whole_chip or not layer.weight_producers
        found.append(
            Compulsory(
                dram_read=batch * fetched + (weights if loaded else 0),
                dram_write=0 if stays else outputs,
                filled=batch * bits.inputs * touched_inputs(layer, layer.c) + weights,
                emptied=outputs,
            )
        )
    return found


def touched_inputs(layer: NetworkLayer, channels: int) -> int:
    """Elements of ``channels`` of one sample's inputs that some window touches."""
    return channels * _touched_of_channel(layer)


@lru_cache(maxsize=65536)
def _touched_of_channel(layer: NetworkLayer) -> int:
    """The same of one channel. Bounds ask for it for every number of rounds."""
    space = layer.space(1)
    inputs = next(tensor for tensor in space.tensors if tensor.role == "inputs")
    ranges = {dim: (0, size) for dim, size in space.dims}
    axes = (inputs.axes[axis] for axis in IMAGE_AXES)
    return prod(axis.touched(ranges, space.length(axis)) for axis in axes)


def _readers(graph: LayerGraph, staying: frozenset[tuple[int, int]] | None) -> tuple[set[int], set[int]]:
    """Producers by their readers: those that some layer may read on the chip, those read through DRAM."""
    on_chip, through_dram = set[int](), set[int]()
    for number, layer in enumerate(graph.layers):
        for producer in (*layer.producers, *layer.weight_producers):
            leaves = layer.needs_whole_chip or (staying is not None and (producer, number) not in staying)
            (through_dram if leaves else on_chip).add(producer)
    return on_chip, through_dram


def _channels_from_dram(graph: LayerGraph, number: int, staying: frozenset[tuple[int, int]] | None) -> int:
    """Channels of a layer's inputs that no schedule can bring from tile to tile."""
    layer = graph.layers[number]
    if layer.needs_whole_chip:
        return layer.c
    inputs, _ = graph.reads(layer)
    return layer.external_c + sum(
        one.channels
        for one in inputs
        if graph.layers[one.producer].needs_whole_chip
        or (staying is not None and (one.producer, number) not in staying)
    )


def _weights(layer: NetworkLayer, batch: int) -> int:
    """Elements of weights for a whole batch.

    Weights that are activations are each sample's own; an update of weights has errors in their stead.
    """
    if layer.part == "update":
        return batch * layer.k * layer.h * layer.w
    size = layer.k * layer.group_c * layer.r * layer.s * layer.has_weights
    return size * (batch if layer.weight_producers else 1)
