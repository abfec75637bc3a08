"""Which partitions of layers schedules look at, and which tile parts these make.

A tile part is what one tile computes of a layer that is cut among tiles. Equal parts of different layers cost
the same, so each is solved once.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cache, cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Tile
from costmodel.limits import limit_reached
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.leaf.geometry import same_shapes
from costmodel.schedule.leaf.partitions import Parts, factorizations
from costmodel.workload.network import Layer, convolution
from solvers.checks import check, is_number, is_whole
from solvers.divisors import divisors
from solvers.schedule.tiles.partition_ranking import held_inputs, held_weights, least_inputs, ranked

Array = NDArray[Any]
Four = tuple[int, int, int, int]


class TilePart(NamedTuple):
    """What one tile computes: ``groups`` times C x K x P x Q x R x S products for ``b`` samples.

    C and K are those of one group. Parts of equal numbers cost the same, whatever layer they are of.
    """

    c: int
    k: int
    p: int
    q: int
    r: int
    s: int
    stride_h: int
    stride_w: int
    b: int
    groups: int

    @staticmethod
    def of(layer: NetworkLayer, parts: Parts, batch: int) -> TilePart:
        """The largest part of ``layer`` (with weights) when ``batch`` samples are cut into ``parts``."""
        k, b, h, w = (-(-size // part) for size, part in zip(layer.sizes(batch), parts, strict=True))
        return TilePart.of_outputs(layer, (k, b, h, w))

    @staticmethod
    def of_outputs(layer: NetworkLayer, part: Four) -> TilePart:
        """The tile part that makes ``part`` of a layer's outputs: so many channels, samples, rows and
        columns.

        With activations as weights no two samples have the same weights, so each is a group of its own.
        """
        k, b, h, w = part
        groups = -(-k // layer.group_k) if layer.groups > 1 else 1
        k = layer.group_k if groups > 1 else k
        if layer.weight_producers:
            groups, b = groups * b, 1
        strides = layer.stride_h, layer.stride_w
        return TilePart(layer.group_c, k, h, w, layer.r, layer.s, *strides, b, groups)

    def layer(self) -> Layer:
        """The part as a loop nest for mapping solvers."""
        return convolution(
            "share",
            N=self.b,
            K=self.k * self.groups,
            C=self.c * self.groups,
            P=self.p,
            Q=self.q,
            R=self.r,
            S=self.s,
            stride=(self.stride_h, self.stride_w),
            groups=self.groups,
        )


def vector_operations(layer: NetworkLayer, partitions: Array, batch: int) -> Array:
    """Element operations [n] of the largest part of a layer without weights, for ``partitions`` [n, 4]."""
    largest = -(-np.array(layer.sizes(batch)) // partitions)
    operations: Array = largest.prod(axis=1) * layer.operands * layer.r * layer.s
    return operations


FEW_PARTITIONS = 8
"""How many partitions of a layer, batch and number of tiles schedules try by default where each one takes a
search for mappings, and costs are asked for as they are needed."""


@dataclass(frozen=True)
class Pruning:
    """Which partitions of a layer schedules try.

    Of the partitions whose parts fit the tiles' buffers: all that use tiles to at least ``least_utilization``
    (SET, section 4.2.2, over K, B, H and W), or the one that uses them best where none does. Of these the
    ``most`` promising, as :func:`.partition_ranking.ranked` orders them; None is all.
    """

    least_utilization: float = 0.75
    most: int | None = None

    def __post_init__(self) -> None:
        least = self.least_utilization
        check("pruning", "least_utilization", is_number(least, 0, 1), "a number between 0 and 1", least)
        right = self.most is None or is_whole(self.most, 1)
        check("pruning", "most", right, "at least 1", self.most)


def useful_partitions(
    layer: NetworkLayer, batch: int, tiles: int, tile: Tile, pruning: Pruning = Pruning()
) -> Array:
    """The partitions [n, 4] of ``layer`` among ``tiles`` tiles that ``pruning`` leaves.

    Those that use tiles best come first; where ``pruning.most`` limits them, the most promising come first.
    Empty where no part fits a tile's buffer.
    """
    parts, sizes = factorization_array(tiles), np.array(layer.sizes(batch))
    largest = -(-sizes // parts)
    useful = sizes / (largest * parts)
    used = useful[:, 0] * useful[:, 1] * useful[:, 2] * useful[:, 3]
    capacity, weights = tile.buffer.size_bytes - tile.output_stream_bytes, held_weights(layer, largest)
    fits = held_inputs(layer, largest) + weights <= capacity
    if not fits.any():  # windows that reach over the edges hold less: take partitions that may fit so
        fits = least_inputs(layer, largest) + weights <= capacity
    if not fits.any():
        return parts[:0]
    parts, used = parts[fits], used[fits]
    well = int(np.count_nonzero(used >= pruning.least_utilization)) or 1
    chosen: Array = parts[np.argsort(-used, kind="stable")[:well]]
    if pruning.most is None or len(chosen) <= pruning.most:
        return chosen
    effect = "of some layers not all ways to cut them were looked at, nor does the bound speak of the others"
    limit_reached("ways to cut a layer among tiles", pruning.most, effect, narrows=True)
    return chosen[ranked(layer, -(-sizes // chosen), tile)[: pruning.most]]


def held_bytes(layer: NetworkLayer, part: Array) -> Array:
    """Bytes of inputs and weights of parts [n, 4] of K, samples, rows and columns of outputs."""
    return held_inputs(layer, part) + held_weights(layer, part)


class Request(NamedTuple):
    """What a schedule needs to know: the costs of a layer, by its number, for ``batch`` samples on ``tiles``
    tiles.

    That is, of all partitions that pruning leaves; with ``tiles`` 0, of the layer mapped on the whole chip.
    """

    layer: int
    batch: int
    tiles: int

    @property
    def on_whole_chip(self) -> bool:
        """Whether the whole chip is meant, and not a partition among tiles."""
        return self.tiles == 0


def requested_parts(graph: LayerGraph, request: Request, tile: Tile, pruning: Pruning) -> list[TilePart]:
    """The distinct tile parts that answer a request.

    None for layers without weights, which need no mapping, and for layers on the whole chip.
    """
    layer = graph.layers[request.layer]
    if request.on_whole_chip or layer.needs_whole_chip or not layer.has_weights:
        return []
    partitions = useful_partitions(layer, request.batch, request.tiles, tile, pruning)
    if request.tiles == 1:  # normalized cycles are of the whole layer on a tile, whether it fits or not
        partitions = factorization_array(1)
    largest = np.unique(-(-np.array(layer.sizes(request.batch)) // partitions), axis=0)
    return [TilePart.of_outputs(layer, part) for part in map(tuple, largest.tolist())]


def batches_of(batch: int) -> tuple[int, ...]:
    """The batches that leaves of an RA tree for ``batch`` samples may have: its divisors."""
    return divisors(batch)


@dataclass(frozen=True)
class TileCostDemand:
    """All tile costs that RA trees of ``graph`` for ``batch`` samples may ask for on ``tiles`` tiles."""

    graph: LayerGraph
    tile: Tile
    tiles: int
    batch: int
    pruning: Pruning = field(default_factory=Pruning)

    def tile_parts(self) -> tuple[TilePart, ...]:
        """The distinct parts of layers with weights, sorted; one sample on one tile is always among them."""
        return self._tile_parts

    @cached_property
    def _tile_parts(self) -> tuple[TilePart, ...]:
        found: set[TilePart] = set()
        for index in dict.fromkeys(same_shapes(self.graph)):
            layer = self.graph.layers[index]
            if layer.has_weights and not layer.needs_whole_chip:
                parts = np.unique(self._parts(layer), axis=0).tolist()
                found |= {TilePart.of_outputs(layer, part) for part in [*parts, layer.sizes(1)]}
        return tuple(sorted(found))

    def _parts(self, layer: NetworkLayer) -> Array:
        """The largest parts [n, 4] of all partitions, of K, samples, rows and columns."""
        return np.concatenate(
            [
                -(-np.array(layer.sizes(batch)) // partitions)
                for batch in batches_of(self.batch)
                for tiles in range(1, self.tiles + 1)
                for partitions in [useful_partitions(layer, batch, tiles, self.tile, self.pruning)]
            ]
        )


@cache
def factorization_array(tiles: int) -> Array:
    """All partitions [n, 4] of ``tiles`` into K x B x H x W; not to be changed."""
    return np.array(factorizations(tiles))
