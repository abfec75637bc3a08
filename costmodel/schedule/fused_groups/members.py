"""Layers of a chip's network that may be mapped together, and what passes between them.

:class:`costmodel.mapping.fused.layers.group.LayerGroup` knows layers with products, as nests. A chip's
network has layers without products, too, such as the softmax between two products of attention. They work on
an intermediate where it stays, row by row, by a tile's vector units: after the product that made it, in the
same turns. So a group here is nests, and the *vector layers* between them::

    scores     product    nest 0
    softmax    vector     after nest 0
    values     product    nest 1, reads what nest 0 made
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, replace

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.fused.layers.group import Intermediate, IntermediateRead, LayerGroup, SlidingRead
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.workload.windows import Windows

VECTOR_KINDS = ("eltwise", "ptp")
"""Kinds without products that may stand between products: each output follows from inputs at its place, or
from those of its row."""


@dataclass(frozen=True)
class VectorLayer:
    """The layer ``number`` of the network, without products, that runs after each turn of the nest ``after``.

    ``makers``: the nests whose outputs it works on.
    """

    number: int
    after: int
    makers: tuple[int, ...]


@dataclass(frozen=True)
class ChipGroup:
    """Layers of a network that may be mapped together; all by their numbers in the network.

    ``products``: those with nests, in the order of ``group.layers``. ``vectors``: those between them.
    """

    group: LayerGroup
    batch: int
    products: tuple[int, ...]
    vectors: tuple[VectorLayer, ...]

    @property
    def numbers(self) -> tuple[int, ...]:
        """All layers, in the order of the network."""
        return tuple(sorted((*self.products, *(one.number for one in self.vectors))))


def chip_group(
    graph: LayerGraph, numbers: Collection[int], batch: int, architecture: Architecture
) -> ChipGroup | None:
    """The group of these layers of ``graph`` for ``batch`` samples, on ``architecture``; None where it is
    none.

    It is one if something passes between at least two products, each of which reads of the others a whole
    output as one operand, and every other layer is a vector layer that reads outputs of the group and nothing
    else, and is read inside the group only.
    """
    reader = _Reader(graph, frozenset(numbers), batch)
    if len(reader.products) < 2 or not all(map(reader.belongs, reader.numbers)):
        return None
    nests = tuple(graph.layers[number].nest(batch) for number in reader.products)
    intermediates = tuple(filter(None, map(reader.intermediate, range(len(nests)))))
    if not _hang_together(len(nests), intermediates):
        return None
    found = LayerGroup(architecture, nests, intermediates)
    return ChipGroup(found, batch, tuple(reader.products), tuple(reader.vectors()))


def candidate_groups(graph: LayerGraph, longest: int) -> Iterator[tuple[int, ...]]:
    """The runs of neighbouring layers, as their numbers, that begin and end with a product and have 2 to
    ``longest`` of these; :func:`chip_group` says which of them are groups."""
    products = [number for number, layer in enumerate(graph.layers) if layer.has_weights]
    for position, first in enumerate(products):
        for last in products[position + 1 : position + longest]:
            yield tuple(range(first, last + 1))


class _Reader:
    """What passes between layers ``numbers`` of a graph; see :func:`chip_group`."""

    def __init__(self, graph: LayerGraph, numbers: frozenset[int], batch: int) -> None:
        self.graph, self.batch = graph, batch
        self.numbers = sorted(numbers)
        self.products = [number for number in self.numbers if graph.layers[number].has_weights]
        self.position = {number: position for position, number in enumerate(self.products)}
        self.readers: dict[int, list[int]] = {}
        for number, layer in enumerate(graph.layers):
            for producer in {*layer.producers, *layer.weight_producers}:
                self.readers.setdefault(producer, []).append(number)

    def belongs(self, number: int) -> bool:
        """Whether a layer may be in the group with the others."""
        layer = self.graph.layers[number]
        if layer.part != "forward":
            return False
        inputs, weights = self.graph.reads(layer)
        own = set(self.numbers)
        if layer.has_weights:
            external = bool(layer.external_c)
            for operand, outside in ((inputs, external), (weights, False)):
                inside = [read for read in operand if read.producer in own]
                whole = len(operand) == 1 and operand[0].channels == self._channels(operand[0].producer)
                if inside and (outside or not whole):
                    return False
            return True
        if layer.kind not in VECTOR_KINDS or layer.external_c or weights:
            return False
        whole = all(read.channels == self._channels(read.producer) == layer.k for read in inputs)
        read_by = self.readers.get(number, [])
        return bool(
            whole and {read.producer for read in inputs} <= own and read_by and own.issuperset(read_by)
        )

    def _channels(self, number: int) -> int:
        return self.graph.layers[number].k

    def makers(self, number: int) -> set[int]:
        """The products, by position, whose outputs the outputs of a layer of the group are made of."""
        if number in self.position:
            return {self.position[number]}
        return set().union(*(self.makers(one) for one in self.graph.layers[number].producers))

    def vectors(self) -> Iterator[VectorLayer]:
        """The vector layers, in the order in which they run."""
        for number in self.numbers:
            if number not in self.position:
                makers = tuple(sorted(self.makers(number)))
                yield VectorLayer(number, makers[-1], makers)

    def intermediate(self, position: int) -> Intermediate | None:
        """What the product at this position passes to others of the group; None if nothing."""
        reads: dict[tuple[int, str], IntermediateRead] = {}
        leaves = self._follow(position, self.products[position], False, reads)
        if not reads:
            return None
        return Intermediate(position, tuple(reads[key] for key in sorted(reads)), leaves)

    def _follow(
        self, position: int, number: int, in_rows: bool, reads: dict[tuple[int, str], IntermediateRead]
    ) -> bool:
        """Add all reads of a layer's outputs to ``reads``; whether others need them, too.

        ``in_rows``: whether a function of one operand is on the way, which may be a softmax or a
        normalisation of the channels.
        """
        read_by = self.readers.get(number, [])
        leaves = not read_by
        for reader in read_by:
            layer = self.graph.layers[reader]
            if reader not in self.numbers:
                leaves = True
            elif reader not in self.position:
                leaves |= self._follow(position, reader, in_rows or layer.kind == "ptp", reads)
            else:
                for tensor, producers in (("Inputs", layer.producers), ("Weights", layer.weight_producers)):
                    if number in producers:
                        key = self.position[reader], tensor
                        read = self._read(position, *key, in_rows)
                        reads[key] = _of_both(reads[key], read) if key in reads else read
        return leaves

    def _read(self, position: int, reader: int, tensor: str, in_rows: bool) -> IntermediateRead:
        """One operand of a product that is an output of another one."""
        maker, user = (self.graph.layers[self.products[one]] for one in (position, reader))
        if tensor == "Weights":
            return IntermediateRead(reader, tensor)
        made, used = _channel_dims(maker, self.batch, "K"), _channel_dims(user, self.batch, "C")
        pairs = []
        for (ours, size), (theirs, other) in zip(made, used, strict=False):
            # the axes follow one another, so behind one that differs none is the same
            if size != other or (in_rows and ours not in ("N", "G")):
                break
            pairs.append((ours, theirs))
        windows: list[SlidingRead] = []
        for dim, size, stride, pad, length, count, others in (
            ("P", user.r, user.stride_h, user.pad_h, user.input_h, user.h, maker.h),
            ("Q", user.s, user.stride_w, user.pad_w, user.input_w, user.w, maker.w),
        ):
            if length != others:
                continue
            if (size, stride, pad) == (1, 1, 0) and count == length:
                pairs.append((dim, dim))
            elif dim == "P" and not in_rows and user.kind != "fc":
                windows += _sliding(Windows(count, size, stride, pad), length)
        return IntermediateRead(reader, tensor, tuple(pairs), tuple(windows))


def _of_both(one: IntermediateRead, other: IntermediateRead) -> IntermediateRead:
    """What is true of two ways on which an operand follows from one output."""
    dims = tuple(pair for pair in one.dims if pair in other.dims)
    return replace(one, dims=dims, windows=one.windows if one.windows == other.windows else ())


def _sliding(windows: Windows, rows: int) -> Iterator[SlidingRead]:
    """The rows along which windows slide, if a line buffer does for them (:mod:`.fused.layers.links`)."""
    slid = windows.size > 1 and windows.size >= windows.stride and 0 <= windows.before < windows.size
    if slid and windows.extent - windows.size - windows.before < rows:
        yield SlidingRead("P", "P", windows)


def _channel_dims(layer: NetworkLayer, batch: int, channel: str) -> list[tuple[str, int]]:
    """The dims of a layer's nest along samples, then channels, with their sizes, without those of size 1.

    ``channel``: K for outputs, C for inputs. Where each sample has weights of its own, the nest has the
    samples among its groups, as the outer ones.
    """
    nest = layer.nest(batch)
    if "K" not in nest.sizes:  # depthwise: the only channel dim is C
        channel = "C"
    dims = [("N", nest.sizes["N"]), ("G", nest.sizes.get("G", 1)), (channel, nest.sizes[channel])]
    return [(dim, size) for dim, size in dims if size > 1]


def _hang_together(count: int, intermediates: Sequence[Intermediate]) -> bool:
    """Whether over every border between neighbouring products something passes that only they need."""
    tied = {border for one in intermediates if not one.leaves for border in range(one.producer, one.last)}
    return len(tied) == count - 1
