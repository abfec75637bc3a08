"""Lists the partitions of layers that schedules try, and the tile parts to which these lead.

A tile part is the part of a layer that one tile computes. Parts with equal numbers cost the same, whatever
layer they belong to, so each distinct part is solved once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from itertools import product
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Tile
from costmodel.hardware.widths import Widths
from costmodel.limits import limit_reached
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.leaf.geometry import same_shapes
from costmodel.schedule.leaf.partitions import Parts, factorizations
from costmodel.schedule.leaf.reduction import channel_parts
from costmodel.schedule.reductions import whole_channels_reason
from costmodel.workload.network import Layer, convolution
from solvers.checks import check, is_number, is_whole
from solvers.divisors import divisors
from solvers.schedule.tiles.partition_ranking import held_inputs, held_weights, least_inputs, ranked

Array = NDArray[Any]
Four = tuple[int, int, int, int]


class TilePart(NamedTuple):
    """The work of one tile: ``groups`` times C x K x P x Q x R x S products for ``b`` samples.

    C and K are the channels of one group.
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
        """The tile part that makes ``part`` = (channels, samples, rows, columns) of a layer's outputs.

        Where a layer's weights are activations, every sample has its own, so every sample is a group.
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
            "part",
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


def distinct_boxes(sizes: Four, parts: Parts) -> list[tuple[Four, int]]:
    """The distinct sizes of the parts into which ``sizes`` are cut, and the number of tiles with each.

    A dim of n in p parts has n mod p parts that are one larger than the others. So each of the four dims has
    at most two lengths, and there are at most 16 sizes. The largest comes first; tiles without a part are
    left out.
    """
    of_dims = []
    for size, number in zip(sizes, parts, strict=True):
        smaller, larger = divmod(size, number)
        counted = ((smaller + 1, larger), (smaller, number - larger))
        of_dims.append([(length, count) for length, count in counted if length and count])
    return [
        ((k, b, h, w), at_k * at_b * at_h * at_w)
        for (k, at_k), (b, at_b), (h, at_h), (w, at_w) in product(*of_dims)
    ]


def all_boxes(sizes: Four, partitions: Array) -> Array:
    """The distinct sizes [m, 4] of the parts of all ``partitions`` [n, 4] of ``sizes``."""
    smaller = np.array(sizes) // partitions
    larger = smaller + (np.array(sizes) % partitions > 0)
    corners = np.stack([smaller, larger])
    found = [
        np.stack([corners[pick, :, dim] for dim, pick in enumerate(picks)], axis=1)
        for picks in product((0, 1), repeat=4)
    ]
    boxes = np.unique(np.concatenate(found), axis=0)
    kept: Array = boxes[(boxes > 0).all(axis=1)]
    return kept


def vector_operations(layer: NetworkLayer, partitions: Array, batch: int) -> Array:
    """Element operations [n] of the largest part of a layer without weights, for ``partitions`` [n, 4]."""
    largest = -(-np.array(layer.sizes(batch)) // partitions)
    operations: Array = largest.prod(axis=1) * layer.operands * layer.r * layer.s
    return operations


FEW_PARTITIONS = 8
"""How many partitions of one layer, batch and number of tiles schedules try by default, where every partition
needs a search for a mapping and costs are solved only when a schedule asks for them."""


@dataclass(frozen=True)
class Pruning:
    """Which partitions of a layer schedules try.

    First, parts must fit the tiles' buffers. Second, the partition must use the tiles to at least
    ``least_utilization`` (SET, section 4.2.2); utilization is the layer's size divided by tiles times the
    largest part, over K, B, H and W. If none does, the one that uses them best is kept. Third, only the
    ``most`` promising of these are kept, as :func:`.partition_ranking.ranked` orders them; None keeps all.

    ``share_weights``: tiles that need the same weights may share them, in partitions that are listed for that
    (:func:`shared_partitions`).
    """

    least_utilization: float = 0.75
    most: int | None = None
    share_weights: bool = False

    def __post_init__(self) -> None:
        least = self.least_utilization
        check("pruning", "least_utilization", is_number(least, 0, 1), "a number between 0 and 1", least)
        right = self.most is None or is_whole(self.most, 1)
        check("pruning", "most", right, "at least 1", self.most)

    @property
    def content(self) -> dict[str, Any]:
        """As JSON, from which ``Pruning(**content)`` makes it again.

        Answers without shared weights are the same as before there were any, and so is their content.
        """
        own = {"least_utilization": self.least_utilization, "most": self.most}
        return own | ({"share_weights": True} if self.share_weights else {})


def useful_partitions(
    layer: NetworkLayer, batch: int, tiles: int, tile: Tile, pruning: Pruning = Pruning()
) -> Array:
    """The partitions [n, 4] of ``layer`` among ``tiles`` tiles that ``pruning`` leaves.

    Those that use tiles best come first; where ``pruning.most`` limits them, the most promising come first.
    Empty where no part fits a tile's buffer.
    """
    return _useful(layer, batch, factorization_array(tiles), tile, pruning)


def band_of(layer: NetworkLayer, rows: int) -> NetworkLayer:
    """The layer with so many rows of outputs only; what a tile computes does not depend on which they are."""
    return replace(layer, h=rows)


def channel_pieces(layer: NetworkLayer, reduced: int) -> list[tuple[NetworkLayer, int]]:
    """The layer with some of its input channels: the distinct sizes of ``reduced`` parts, and how many each.

    The largest comes first. Which channels they are makes no difference to a tile.
    """
    sizes = Counter(end - first for first, end in channel_parts(layer, reduced))
    return [(replace(layer, c=size), sizes[size]) for size in sorted(sizes, reverse=True)]


def reduced_partitions(
    layer: NetworkLayer, batch: int, tiles: int, reduced: int, tile: Tile, pruning: Pruning = Pruning()
) -> Array:
    """The partitions [n, 4] of outputs among ``tiles`` groups whose tiles have some input channels each.

    None for a layer whose input channels cannot be cut into so many parts. ``pruning`` looks at the largest
    part of the channels.
    """
    if whole_channels_reason(layer) or reduced > layer.c:
        return factorization_array(1)[:0]
    return _useful(channel_pieces(layer, reduced)[0][0], batch, factorization_array(tiles), tile, pruning)


def band_partitions(
    layer: NetworkLayer, batch: int, tiles: int, rows: int, tile: Tile, pruning: Pruning = Pruning()
) -> Array:
    """The same for bands of so many ``rows``, which are cut along K, B and W only."""
    parts = factorization_array(tiles)
    return _useful(band_of(layer, rows), batch, parts[parts[:, 2] == 1], tile, pruning)


def _useful(layer: NetworkLayer, batch: int, parts: Array, tile: Tile, pruning: Pruning) -> Array:
    """Of the partitions ``parts`` [n, 4] those that ``pruning`` leaves."""
    sizes = np.array(layer.sizes(batch))
    largest = -(-sizes // parts)
    useful = sizes / (largest * parts)
    used = useful[:, 0] * useful[:, 1] * useful[:, 2] * useful[:, 3]
    bits = ElementBits.of(layer, tile.widths)
    weights = bits.weights * held_weights(layer, largest)
    fits = bits.inputs * held_inputs(layer, largest) + weights <= tile.free_bits
    # Near the image's edges windows reach beyond it, so parts there hold fewer inputs than are counted here.
    # If nothing fits as counted, keep the partitions that may fit thanks to that.
    if not fits.any():
        fits = bits.inputs * least_inputs(layer, largest) + weights <= tile.free_bits
    if not fits.any():
        return parts[:0]
    parts, used = parts[fits], used[fits]
    chosen: Array = parts[_well_used(used, pruning)]
    if pruning.most is None or len(chosen) <= pruning.most:
        return chosen
    _say_that_few_are_looked_at(pruning.most)
    return chosen[ranked(layer, -(-sizes // chosen), tile, pruning.most)]


def streamed_partitions(
    layer: NetworkLayer, batch: int, tiles: int, tile: Tile, pruning: Pruning = Pruning()
) -> tuple[Array, Array]:
    """The partitions [n, 4] of a layer whose weights are streamed, and the slices [n] of each.

    A tile computes its part slice by slice, each some of its output channels, and holds the weights of one
    slice while those of the next arrive. Slices are as large as they can be: a partition gets the fewest, a
    power of two, with which the leaf fits the buffer. As a stage of a pipeline the leaf also holds the inputs
    and the first slice of its next run, so there is a second row with the fewest slices for that. For leaves
    that leave bits to others there are rows whose slices take ``PARTS_FOR_SLICES`` of the buffer at most.
    Each list is pruned like :func:`useful_partitions`, to half as many.

    No rows for a layer whose weights are no parameters.
    """
    found: dict[tuple[int, ...], None] = {}
    if layer.has_weights and not layer.weight_producers and not layer.needs_whole_chip:
        parts, sizes = factorization_array(tiles), np.array(layer.sizes(batch))
        inputs = ElementBits.of(layer, tile.widths).inputs * held_inputs(layer, -(-sizes // parts))
        for runs, part in ((1, 1.0), (2, 1.0), *((1, part) for part in PARTS_FOR_SLICES)):
            rows = _in_fewest_slices(layer, batch, parts, inputs, tile, pruning, runs, part)
            found |= dict.fromkeys(map(tuple, rows.tolist()))
    rows = np.array(list(found), np.int64).reshape(-1, 5)
    return rows[:, :4], rows[:, 4]


PARTS_FOR_SLICES = (1 / 4, 1 / 16)
"""The parts of a buffer to which slices may be limited. Small slices use a tile's PEs badly."""


def _in_fewest_slices(
    layer: NetworkLayer,
    batch: int,
    parts: Array,
    inputs: Array,
    tile: Tile,
    pruning: Pruning,
    runs: int,
    part: float,
) -> Array:
    """Partitions [n, 5], each with the fewest slices with which buffers hold the inputs of so many ``runs``.

    ``inputs``: bits of the largest part of each of ``parts``. In several slices a tile holds two, as the next
    one arrives; with the inputs of the next run its first slice arrives, too. Slices take ``part`` of the
    buffer at most, where the output channels can be cut so often.
    """
    from solvers.schedule.tiles.partition_kernel import FittingBits, fewest_slices

    of_channel = ElementBits.of(layer, tile.widths).weights * layer.group_c * layer.r * layer.s
    slices, used = np.zeros(len(parts), np.int64), np.zeros(len(parts))
    room = FittingBits(tile.free_bits, int(part * tile.free_bits))
    fewest_slices(parts, layer.sizes(batch), inputs, of_channel, room, runs, slices, used)
    fits = np.flatnonzero(slices)
    if not len(fits):
        return np.zeros((0, 5), np.int64)
    chosen = fits[_well_used(used[fits], pruning)]
    if pruning.most is not None and len(chosen) > (most := -(-pruning.most // 2)):
        _say_that_few_are_looked_at(pruning.most)
        largest = _slices_of(np.array(layer.sizes(batch)), parts[chosen], slices[chosen])
        chosen = chosen[ranked(layer, largest, tile, most, slices[chosen])]
    return np.column_stack([parts[chosen], slices[chosen]])


def shared_partitions(
    layer: NetworkLayer, batch: int, tiles: int, tile: Tile, pruning: Pruning = Pruning()
) -> tuple[Array, Array, Array]:
    """The partitions [n, 4] of a layer whose tiles share weights, the slices [n] and the sharers [n] of each.

    :mod:`costmodel.schedule.leaf.sharing` says what a tile holds then. A partition is listed up to five
    times: with the fewest slices, and of these the fewest sharers, with which it fits the buffer as a leaf
    and as a stage of a pipeline, as for :func:`streamed_partitions`; and, for leaves that leave bits free for
    others, with the sharers that hold least, for each of ``SLICES_OF_SHARE``. Each of the five lists is
    pruned like those.

    No rows for a layer whose weights are no parameters, and where ``pruning`` offers none.
    """
    return _shared(layer, batch, factorization_array(tiles), tile, pruning)


def shared_band_partitions(
    layer: NetworkLayer, batch: int, tiles: int, rows: int, tile: Tile, pruning: Pruning = Pruning()
) -> tuple[Array, Array, Array]:
    """The same for bands of so many ``rows``, which are cut along K, B and W only."""
    parts = factorization_array(tiles)
    return _shared(band_of(layer, rows), batch, parts[parts[:, 2] == 1], tile, pruning)


def _shared(
    layer: NetworkLayer, batch: int, parts: Array, tile: Tile, pruning: Pruning
) -> tuple[Array, Array, Array]:
    """The ways to share weights in the partitions ``parts`` [n, 4], pruned."""
    found: dict[tuple[int, ...], None] = {}
    may = layer.has_weights and not layer.weight_producers and not layer.needs_whole_chip
    if pruning.share_weights and may:
        ways = _ways_to_share(layer, batch, parts, tile)
        for held in (6, 7):
            found |= dict.fromkeys(_first_that_fit(layer, batch, tile, pruning, ways, held))
        least = ways[np.argsort(ways[:, 6], kind="stable")]
        for each in SLICES_OF_SHARE:
            of_each = least[least[:, 4] == each * least[:, 5]]
            found |= dict.fromkeys(_first_that_fit(layer, batch, tile, pruning, of_each, 6))
    rows = np.array(list(found), np.int64).reshape(-1, 6)
    return rows[:, :4], rows[:, 4], rows[:, 5]


SLICES_OF_SHARE = (1, 2, 4)
"""Into how many slices a share may be cut. A tile holds its share and two slices, and small slices use its
PEs badly."""


def _ways_to_share(layer: NetworkLayer, batch: int, parts: Array, tile: Tile) -> Array:
    """All ways to share weights [n, 8] in these partitions, in the order of slices and sharers.

    A row has a partition, its slices and sharers, and the bits that a tile holds at most as a leaf and as a
    stage of a pipeline.
    """
    sizes, bits = np.array(layer.sizes(batch)), ElementBits.of(layer, tile.widths)
    alike = np.minimum(parts, sizes)[:, 1:].prod(axis=1)
    inputs = bits.inputs * held_inputs(layer, -(-sizes // parts))
    of_channel = bits.weights * layer.group_c * layer.r * layer.s
    found = []
    for sharers in sorted({one for count in set(alike.tolist()) for one in divisors(count)} - {1}):
        for each in SLICES_OF_SHARE:
            slices = sharers * each
            share = -(-layer.k // (parts[:, 0] * sharers)) * of_channel
            of_slice = -(-layer.k // (parts[:, 0] * slices)) * of_channel
            others = min(2, slices - each)
            leaf, stage = inputs + share + others * of_slice, 2 * inputs + share + (others + 1) * of_slice
            numbers = np.full((len(parts), 2), (slices, sharers))
            may = (alike % sharers == 0) & (parts[:, 0] * slices <= layer.k)
            found.append(np.column_stack([parts, numbers, leaf, stage])[may])
    ways = np.concatenate(found) if found else np.zeros((0, 8), np.int64)
    return ways[np.lexsort((ways[:, 5], ways[:, 4]))]


def _first_that_fit(
    layer: NetworkLayer, batch: int, tile: Tile, pruning: Pruning, ways: Array, held: int
) -> Iterator[tuple[int, ...]]:
    """For each partition the first of the ``ways`` that fits a buffer, pruned.

    ``held``: the column with the bits that a tile holds.
    """
    ways = ways[ways[:, held] <= tile.free_bits]
    _, first = np.unique(ways[:, :4], axis=0, return_index=True)
    chosen = ways[np.sort(first)]
    if not len(chosen):
        return
    sizes, parts, slices = np.array(layer.sizes(batch)), chosen[:, :4], chosen[:, 4]
    largest = _slices_of(sizes, parts, slices)
    used = layer.k / (largest[:, 0] * slices * parts[:, 0])
    well = _well_used(used * (sizes[1:] / (largest[:, 1:] * parts[:, 1:])).prod(axis=1), pruning)
    if pruning.most is not None and len(well) > (most := -(-pruning.most // 2)):
        _say_that_few_are_looked_at(pruning.most)
        well = well[ranked(layer, largest[well], tile, most, slices[well])]
    yield from map(tuple, chosen[well, :6].tolist())


def _slices_of(sizes: Array, parts: Array, slices: Array) -> Array:
    """The largest slices [n, 4] of parts: channels, samples, rows and columns of outputs."""
    largest: Array = -(-sizes // sliced(parts, slices))
    return largest


def sliced(parts: Array, slices: Array) -> Array:
    """The partitions [n, 4] into the slices of all parts: a slice is a part of K."""
    found = parts.copy()
    found[:, 0] *= slices
    return found


def _well_used(used: Array, pruning: Pruning) -> Array:
    """The rows that use tiles well enough, the best first; the best one where none does."""
    well = int(np.count_nonzero(used >= pruning.least_utilization)) or 1
    order: Array = np.argsort(-used, kind="stable")[:well]
    return order


def _say_that_few_are_looked_at(most: int) -> None:
    effect = "of some layers not all ways to cut them were looked at, nor does the bound speak of the others"
    limit_reached("ways to cut a layer among tiles", most, effect, narrows=True)


def held_bits(layer: NetworkLayer, part: Array, widths: Widths) -> Array:
    """Bits [n] of inputs and weights of parts [n, 4] of outputs: channels, samples, rows, columns."""
    bits = ElementBits.of(layer, widths)
    held: Array = bits.inputs * held_inputs(layer, part) + bits.weights * held_weights(layer, part)
    return held


class Request(NamedTuple):
    """Costs that a schedule needs: those of a layer, by its number, for ``batch`` samples on ``tiles`` tiles.

    The answer has the costs of all partitions that pruning leaves, with pinned weights, with streamed ones
    and with those that tiles share. With ``tiles`` 0 it has the cost of the layer mapped on the whole chip
    instead. With ``heights`` it has the costs of bands of so many rows. With ``reduced`` above 1 it has those
    of partitions among ``tiles`` groups of so many tiles, each with some of the input channels.
    """

    layer: int
    batch: int
    tiles: int
    heights: tuple[int, ...] = ()
    reduced: int = 1

    @staticmethod
    def of_numbers(numbers: Sequence[int]) -> Request:
        """The request of :attr:`numbers`."""
        layer, batch, tiles, *heights = numbers
        if heights and not heights[0]:
            return Request(layer, batch, tiles, reduced=heights[1])
        return Request(layer, batch, tiles, tuple(heights))

    @property
    def numbers(self) -> list[int]:
        """The request as plain numbers: layer, batch, tiles, and the heights of bands.

        Of cut input channels 0, which is no height, and the number of their parts.
        """
        if self.reduced > 1:
            return [self.layer, self.batch, self.tiles, 0, self.reduced]
        return [self.layer, self.batch, self.tiles, *self.heights]

    @property
    def on_whole_chip(self) -> bool:
        """Whether the request is for the layer mapped on the whole chip, not for partitions among tiles."""
        return self.tiles == 0


def requested_parts(graph: LayerGraph, request: Request, tile: Tile, pruning: Pruning) -> list[TilePart]:
    """The distinct tile parts that answer a request.

    None for layers without weights, which need no mapping, and for layers on the whole chip.
    """
    layer = graph.layers[request.layer]
    if request.on_whole_chip or layer.needs_whole_chip or not layer.has_weights:
        return []
    if request.heights:
        partitions = band_partitions(layer, request.batch, request.tiles, max(request.heights), tile, pruning)
        sharing = shared_band_partitions(
            layer, request.batch, request.tiles, max(request.heights), tile, pruning
        )
        partitions = np.concatenate([partitions, sliced(*sharing[:2])])
        bands = [band_of(layer, rows) for rows in request.heights]
        of_bands = [all_boxes(band.sizes(request.batch), partitions) for band in bands]
        parts = np.concatenate(of_bands).tolist()
        return list(dict.fromkeys(TilePart.of_outputs(layer, tuple(part)) for part in parts))
    if request.reduced > 1:
        cut = reduced_partitions(layer, request.batch, request.tiles, request.reduced, tile, pruning)
        boxes = all_boxes(layer.sizes(request.batch), cut)
        pieces = [piece for piece, _ in channel_pieces(layer, request.reduced)]
        return list(
            dict.fromkeys(
                TilePart.of_outputs(piece, tuple(part)) for piece in pieces for part in boxes.tolist()
            )
        )
    partitions = useful_partitions(layer, request.batch, request.tiles, tile, pruning)
    # One tile has one partition. It is requested even if it does not fit the buffer, because the normalized
    # processing time of a layer is that of the whole layer on one tile.
    if request.tiles == 1:
        partitions = factorization_array(1)
    streamed = sliced(*streamed_partitions(layer, request.batch, request.tiles, tile, pruning))
    shared = sliced(*shared_partitions(layer, request.batch, request.tiles, tile, pruning)[:2])
    boxes = all_boxes(layer.sizes(request.batch), np.concatenate([partitions, streamed, shared]))
    found = (TilePart.of_outputs(layer, part) for part in map(tuple, boxes.tolist()))
    return list(dict.fromkeys(found))


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
        """The distinct parts of all layers with weights, sorted.

        One sample of each whole layer is always among them, for normalized processing times.
        """
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
        """The parts [n, 4] of every partition, by channels, samples, rows and columns of outputs."""
        return np.concatenate(
            [
                all_boxes(layer.sizes(batch), partitions)
                for batch in batches_of(self.batch)
                for tiles in range(1, self.tiles + 1)
                for partitions in [
                    useful_partitions(layer, batch, tiles, self.tile, self.pruning),
                    sliced(*streamed_partitions(layer, batch, tiles, self.tile, self.pruning)),
                    sliced(*shared_partitions(layer, batch, tiles, self.tile, self.pruning)[:2]),
                ]
            ]
        )


@cache
def factorization_array(tiles: int) -> Array:
    """All partitions [n, 4] of ``tiles`` into K x B x H x W; the array is cached, so never write to it."""
    return np.array(factorizations(tiles))
