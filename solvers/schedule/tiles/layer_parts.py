"""Which parts of layers tiles may have to compute: partitions, and the shares of a layer that they make."""

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

    C and K are those of one group. Shares of equal numbers cost the same, whatever layer they are of.
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
        """The largest share of ``layer`` (with weights) for ``batch`` samples cut into ``parts``."""
        k, b, h, w = (-(-size // part) for size, part in zip(layer.sizes(batch), parts, strict=True))
        return TilePart.of_outputs(layer, (k, b, h, w))

    @staticmethod
    def of_outputs(layer: NetworkLayer, part: Four) -> TilePart:
        """The share of a part of ``layer``: so many K, samples, rows and columns of its outputs.

        With activations as weights no two samples have the same ones: each is a group of its own.
        """
        k, b, h, w = part
        groups = -(-k // layer.group_k) if layer.groups > 1 else 1
        k = layer.group_k if groups > 1 else k
        if layer.weight_producers:
            groups, b = groups * b, 1
        strides = layer.stride_h, layer.stride_w
        return TilePart(layer.group_c, k, h, w, layer.r, layer.s, *strides, b, groups)

    def layer(self) -> Layer:
        """The share as a loop nest for mapping solvers."""
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
    """Element operations [n] of the largest share of a layer without weights, for ``partitions`` [n, 4]."""
    largest = -(-np.array(layer.sizes(batch)) // partitions)
    operations: Array = largest.prod(axis=1) * layer.operands * layer.r * layer.s
    return operations


FEW_PARTITIONS = 8
"""Partitions of a layer, batch and tile count that schedules look at by default where each is a search for
mappings and costs are asked for as they are needed."""


@dataclass(frozen=True)
class Pruning:
    """Which partitions are worth a look; utilization is that of section 4.2.2, over K, B, H and W.

    Of those whose shares fit the tiles' buffers: all that use tiles to at least ``least_utilization``, or the
    one that uses them best where none does; of these the ``most`` promising ones (None: all), see
    :func:`ranked`.
    """

    least_utilization: float = 0.75
    most: int | None = None

    def __post_init__(self) -> None:
        share = self.least_utilization
        check("pruning", "least_utilization", is_number(share, 0, 1), "a number between 0 and 1", share)
        right = self.most is None or is_whole(self.most, 1)
        check("pruning", "most", right, "at least 1", self.most)


def useful_partitions(
    layer: NetworkLayer, batch: int, tiles: int, tile: Tile, pruning: Pruning = Pruning()
) -> Array:
    """Partitions [n, 4] of ``layer`` among ``tiles`` tiles that are worth a look.

    The best used tiles first; of so ``most`` the most promising first. None where no part can fit a tile.
    """
    parts, sizes = factorization_array(tiles), np.array(layer.sizes(batch))
    largest = -(-sizes // parts)
    shares = sizes / (largest * parts)
    used = shares[:, 0] * shares[:, 1] * shares[:, 2] * shares[:, 3]
    room, weights = tile.buffer.size_bytes - tile.output_stream_bytes, held_weights(layer, largest)
    fits = held_inputs(layer, largest) + weights <= room
    if not fits.any():  # but where all windows reach over the image's edges
        fits = least_inputs(layer, largest) + weights <= room
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
    """What a schedule needs to know of a layer (its number): ``batch`` samples on ``tiles`` tiles.

    All partitions worth a look; with ``tiles`` 0 the layer alone from DRAM.
    """

    layer: int
    batch: int
    tiles: int

    @property
    def on_whole_chip(self) -> bool:
        """Whether the whole chip is meant, and not a partition among tiles."""
        return self.tiles == 0


def requested_parts(graph: LayerGraph, request: Request, tile: Tile, pruning: Pruning) -> list[TilePart]:
    """The distinct shares that answer a request; none of layers without weights, or alone."""
    layer = graph.layers[request.layer]
    if request.on_whole_chip or layer.needs_whole_chip or not layer.has_weights:
        return []
    partitions = useful_partitions(layer, request.batch, request.tiles, tile, pruning)
    if request.tiles == 1:  # what is asked for normalized cycles need not fit
        partitions = factorization_array(1)
    largest = np.unique(-(-np.array(layer.sizes(request.batch)) // partitions), axis=0)
    return [TilePart.of_outputs(layer, part) for part in map(tuple, largest.tolist())]


def batches_of(batch: int) -> tuple[int, ...]:
    """Batches that leaves of an RA tree for ``batch`` samples may have: its divisors."""
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
        """The distinct shares of layers with weights, those of a sample on one tile included, sorted."""
        return self._shares

    @cached_property
    def _shares(self) -> tuple[TilePart, ...]:
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
