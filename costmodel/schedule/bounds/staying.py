"""Finds the tensors that can stay on the chip between producer and consumer; all others pass DRAM.

An edge of the network can stay on the chip only within a segment. How it does is decided by the lowest cut
above producer and consumer. Each tile has to hold what ``segment/buffers.py`` counts, so
all tiles together hold no more than the sum of their buffers, C bits. Of what all tiles together hold, let P
be the bits of a layer's weights, I those of its inputs for one batch, and A those of the edge, on the tiles
of the consumer and for one batch of it. P' and I' are the consumer's.

* While the producer runs, its outputs arrive for the consumer: P + I + A <= C.
* They are still there when the consumer runs, so P' + max(I', A) <= C.

P is at least the weights of one output channel on each tile: a leaf that streams holds a slice of one channel
at least, and neither pinned weights nor a share of them takes less. A is at least the edge of one sample, as
a leaf runs one sample or more at a time. With bands of rows that is not so, for a segment may then keep a few
rows of an edge. So where bands are allowed, every edge between layers that can have bands counts as one that
can stay, and no such layer is taken to need the whole chip.

A group of layers that are mapped together holds tiles of its tensors and no whole ones, so nothing of this
holds for it: every edge within a group that is offered counts as one that can stay.

Where input channels may be cut into c parts, a tile has one c-th of its part's weights and inputs, so more
(k, n) fit. The product of k, n and c is at most the number of tiles. All tiles together hold no less than
without the cut: the parts of a group have nothing in common, and its partial sums come on top.

I and A depend on the partition. With k parts along K and n along samples, rows and columns together, inputs
are held k times where every output channel reads all input channels, else once. One tile must hold its part,
which rules out many (k, n); the others, with any batch that divides the segment's samples, are tried. Halos
and partitions that are less even only need more.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.bounds.compulsory import touched_inputs
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.reductions import whole_channels_reason
from costmodel.schedule.row_bands import whole_map_reason

Array = NDArray[Any]


class SegmentKinds(NamedTuple):
    """What segments may have: ``bands`` of rows, and leaves whose input channels are cut (``reductions``).

    ``groups``: the layers, by number, that segments may map together. What passes between two of them can
    stay on the chip, whatever fits the tiles otherwise.
    """

    bands: bool = False
    reductions: bool = False
    groups: frozenset[frozenset[int]] = frozenset()

    @property
    def grouped(self) -> frozenset[int]:
        """The layers that are in some group."""
        return frozenset().union(*self.groups)


PLAIN = SegmentKinds()

Edge = tuple[int, int]
"""Producer and consumer, as numbers of layers."""


class _Size(NamedTuple):
    """The numbers of a layer on which its need of buffers depends.

    ``of_channel``: bits of the weights of one output channel, where weights are parameters. ``inputs``: bits
    that one sample's windows touch. ``channels``, ``positions``: of its outputs, of one sample. ``repeats``:
    whether every output channel reads all inputs. ``reduces``: whether its input channels may be cut.
    """

    of_channel: int
    inputs: int
    channels: int
    positions: int
    repeats: bool
    reduces: bool


def edges_that_can_stay(
    graph: LayerGraph, chip: Chip, samples: int, kinds: SegmentKinds = PLAIN
) -> frozenset[Edge]:
    """The edges that some segment of ``samples`` samples can keep on the chip; all others pass DRAM."""
    with_bands = _with_bands(graph) if kinds.bands else frozenset[int]()
    held = _held_by_layer(graph, chip, samples, kinds)
    capacity = chip.tiles * chip.tile.buffer.size_bits
    return frozenset(
        (producer, consumer)
        for producer, consumer, size in _edges(graph, chip)
        if with_bands >= {producer, consumer} or _can_stay(held[producer], held[consumer], size, capacity)
    ) | {
        (producer, consumer)
        for producer, consumer, _ in _edges(graph, chip)
        if any(group >= {producer, consumer} for group in kinds.groups)
    }


def layers_by_themselves(
    graph: LayerGraph, chip: Chip, samples: int, kinds: SegmentKinds = PLAIN
) -> frozenset[int]:
    """The layers that no leaf of a segment of ``samples`` samples can hold.

    However a layer is cut, and however few samples a leaf of it takes, some tile would have to hold more than
    its buffer does. Such a layer runs mapped on the whole chip, as a segment of its own, or in a group.
    """
    held = _held_by_layer(graph, chip, samples, kinds)
    with_bands = _with_bands(graph) if kinds.bands else frozenset[int]()
    return frozenset(number for number, one in enumerate(held) if not len(one)) - with_bands - kinds.grouped


def _with_bands(graph: LayerGraph) -> frozenset[int]:
    """The layers that can run band by band."""
    return frozenset(number for number, layer in enumerate(graph.layers) if not whole_map_reason(layer))


def _held_by_layer(graph: LayerGraph, chip: Chip, samples: int, kinds: SegmentKinds) -> list[Array]:
    """For every layer the result of :func:`_held`; no rows for a layer that runs on the whole chip only."""
    return [
        np.zeros((0, 3), np.int64)
        if layer.needs_whole_chip
        else _held(_size(layer, chip, kinds), chip.tiles, chip.tile.free_bits, samples)
        for layer in graph.layers
    ]


def _edges(graph: LayerGraph, chip: Chip) -> Iterator[tuple[int, int, int]]:
    """Producer, consumer and the bits of one sample that arrive; 0 bits for activations used as weights."""
    for consumer, layer in enumerate(graph.layers):
        inputs, weights = graph.reads(layer)
        bits = ElementBits.of(layer, chip.tile.widths)
        for read in inputs:
            yield read.producer, consumer, bits.inputs * touched_inputs(layer, read.channels)
        for read in weights:
            yield read.producer, consumer, 0


def _can_stay(before: Array, after: Array, arriving: int, capacity: int) -> bool:
    """Whether the conditions of the module's docstring can be met.

    ``before``, ``after``: the ways to cut the producer and the consumer, with the columns of :func:`_held`.
    ``arriving``: bits of one sample, held once.
    """
    if not len(before) or not len(after):
        return False
    copies = after[:, 2] * arriving
    at_consumer = after[:, 0] + np.maximum(after[:, 1], copies) <= capacity
    at_producer = before[:, :2].sum(axis=1).min() + copies <= capacity
    return bool((at_consumer & at_producer).any())


def _size(layer: NetworkLayer, chip: Chip, kinds: SegmentKinds) -> _Size:
    bits = ElementBits.of(layer, chip.tile.widths)
    parameters = layer.has_weights and not layer.weight_producers
    of_channel = bits.weights * layer.group_c * layer.r * layer.s if parameters else 0
    inputs = bits.inputs * touched_inputs(layer, layer.c)
    reduces = kinds.reductions and not whole_channels_reason(layer)
    return _Size(of_channel, inputs, layer.k, layer.h * layer.w, parameters and layer.groups == 1, reduces)


@lru_cache(maxsize=4096)
def _held(size: _Size, tiles: int, free: int, samples: int) -> Array:
    """The ways to cut a layer that fit the tiles: [n, 3]; no rows where none fits.

    The columns are the bits of weights and the bits of inputs that all tiles together hold, and the copies of
    inputs. A way is left out if another one is no worse in all three. ``free``: bits of a tile for inputs and
    weights. The array is remembered, so never write to it.
    """
    batches = [batch for batch in range(1, samples + 1) if samples % batch == 0]
    rows = np.concatenate([_held_by_batch(size, tiles, free, batch) for batch in batches])
    kept: list[Array] = []
    left = np.unique(rows, axis=0)  # sorted, so that no row is worse than one behind it
    while len(left):
        kept.append(left[0])
        left = left[(left < left[0]).any(axis=1)]
    return np.array(kept, np.int64).reshape(-1, 3)


def _held_by_batch(size: _Size, tiles: int, free: int, batch: int) -> Array:
    """The same for leaves of ``batch`` samples, with all ways to cut them that fit a tile."""
    # All (parts along K, parts along other dims) whose product is at most the number of tiles.
    counts = np.minimum(tiles // np.arange(1, min(tiles, size.channels) + 1), batch * size.positions)
    along_k = np.repeat(np.arange(1, len(counts) + 1), counts)
    others = np.concatenate([np.arange(1, count + 1) for count in counts])
    inputs, copies = batch * size.inputs, along_k if size.repeats else np.ones_like(along_k)
    # The fullest tile has at least the mean of all parts. Both sides are multiplied by the divisors, so
    # nothing is rounded.
    divided = others if size.repeats else others * along_k
    in_group = tiles // (along_k * others) if size.reduces else 1
    fits = size.of_channel * divided + inputs <= free * divided * in_group
    along_k, others, copies = along_k[fits], others[fits], copies[fits]
    return np.stack([size.of_channel * along_k * others, inputs * copies, copies], axis=1)
