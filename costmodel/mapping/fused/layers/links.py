"""What passes between chosen layers of a network, read off its graph.

Between two layers there may be operators without a nest: activations, additions, normalisations, views. From
each chosen layer's output the graph is followed through these to all that needs it. On the way a *route*
keeps what became of the axes, since a shared loop may only cut an axis that is the same at both ends: behind
a view axes may be others, and a normalised axis is needed whole. A pooling leaves channels as they are and
makes rows and columns out of windows, along which a loop can slide as along those of a convolution.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import NamedTuple

from costmodel.errors import InputError, did_you_mean
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.fused.layers.group import (
    Intermediate,
    IntermediateRead,
    LayerDim,
    LayerGroup,
    SlidingRead,
)
from costmodel.workload.network import Layer, Network, Node, Tensor
from costmodel.workload.operators import OperatorKind
from costmodel.workload.windows import Windows, pooling_windows, stated_windows

PASSING = frozenset({"activation", "elementwise", "normalisation", "view", "pooling"})
"""Roles of operators without layers through which an intermediate passes to its readers. Their own work is
in no layer, so nothing of it is counted, as in the sum of the layers."""

BY_ROWS = frozenset({"softmax", "log_softmax", "layer_norm", "rms_norm"})
"""Normalisations along the last axis, which leave others as they are. All others may need the whole
tensor."""


def group_of(
    architecture: Architecture,
    network: Network,
    names: Sequence[str],
    *,
    cut_rows: bool = False,
    windows: bool = True,
    columns: bool = False,
) -> LayerGroup:
    """The layers of these names, in this order, with all that passes between them.

    ``cut_rows``: whether loops may cut the axis that softmax and the like normalise, which works in parts
    that are scaled afterwards; that scaling is vector work and not counted. ``windows``: whether a loop over
    the rows of a convolution may slide along those of the layers before it. ``columns``: whether
    a loop over columns may, too.

    An intermediate may pass through activations, element-wise operators, normalisations, poolings and views.
    A normalised axis cannot be cut by a shared loop, and behind a view no axis can. Raises InputError for a
    name that the network lacks or has twice, for an order in which a layer precedes one that it reads, and
    where nothing passes between the layers; and for ``columns`` without ``windows``.
    """
    where = f"network {network.name}"
    if columns and not windows:
        raise InputError(where, "loops over rows that pass through windows, too", "none", key="columns")
    known = [layer.name for layer in network.layers]
    for name in names:
        if known.count(name) != 1:
            expected = "the name of one layer" if known.count(name) else "the name of a layer"
            raise InputError(where, expected, name, did_you_mean(name, known), key="layers")
    slid = ("rows", "columns") if columns else ("rows",)
    graph = LayerLinks(network, tuple(names), cut_rows, slid if windows else ())
    layers = tuple(graph.layers[name][1] for name in names)
    intermediates = tuple(found for name in names if (found := graph.intermediate(name)))
    if not intermediates:
        remedy = "Name layers of which one reads another's output"
        raise InputError(where, "layers that pass tensors to one another", list(names), remedy, key="layers")
    return LayerGroup(architecture, layers, intermediates, tuple(graph.alike()))


class _Pooled(NamedTuple):
    """A pooling of an image of ``lengths`` rows (and columns), by the windows along each of these axes."""

    lengths: tuple[int, ...]
    windows: tuple[Windows, ...]


@dataclass(frozen=True)
class _Route:
    """What became of a producer's output on the way to a reader.

    ``linked``: whether its axes are still those of the output. ``last_whole``: whether the last one is needed
    whole, as it is normalised on the way. ``pools``: the poolings on the way, in their order; None: rows and
    columns are needed whole, as nobody knows by which windows they are pooled.
    """

    linked: bool = True
    last_whole: bool = False
    softmax: bool = False
    """Whether it passes a softmax, as scores do on their way to the product with the values."""
    pools: tuple[_Pooled, ...] | None = ()

    def through(self, kinds: Sequence[OperatorKind], pooled: _Pooled | None = None) -> _Route:
        """The route after further operators, in their order; ``pooled``: what a pooling among them does."""
        linked, last_whole, pools = self.linked, self.last_whole, self.pools
        for kind in kinds:
            if kind.role == "view":
                linked = False
            elif kind.role == "pooling":
                pools = None if pools is None or pooled is None else (*pools, pooled)
            elif kind.role == "normalisation" and kind.elements != "pointwise":
                linked, last_whole = linked and kind.name in BY_ROWS, True
        softmax = self.softmax or any(kind.name == "softmax" for kind in kinds)
        return _Route(linked, last_whole, softmax, pools)

    def __and__(self, other: _Route) -> _Route:
        """What is true of both, where an operand follows from one output in two ways."""
        return _Route(
            self.linked and other.linked,
            self.last_whole or other.last_whole,
            self.softmax or other.softmax,
            self.pools if self.pools == other.pools else None,
        )


class LayerLinks:
    """What passes between the layers ``names`` of a network, in their order; see :func:`group_of`.

    ``slid``: the axes of images along which windows may slide, of rows and columns.
    """

    def __init__(
        self,
        network: Network,
        names: tuple[str, ...],
        cut_rows: bool = False,
        slid: tuple[str, ...] = ("rows",),
    ) -> None:
        self.network, self.names, self.cut_rows, self.slid = network, names, cut_rows, slid
        self.layers = {layer.name: (node, layer) for node in network.nodes for layer in node.layers}
        self.values = {value.name: value for value in network.values}
        self.readers: dict[str, list[Node]] = {}
        for node in network.nodes:
            for value in dict.fromkeys(node.inputs):
                self.readers.setdefault(value, []).append(node)

    def within(self, names: tuple[str, ...]) -> LayerLinks:
        """The links between other layers of the same network; its graph is not read again."""
        found = copy(self)
        found.names = names
        return found

    def softmax_readers(self, name: str) -> list[str]:
        """The layers that read what the layer of this name makes behind a softmax."""
        readers = {reader for (reader, _), route in self._routes(name)[0].items() if route.softmax}
        return [self.names[reader] for reader in sorted(readers)]

    def _routes(self, name: str) -> tuple[dict[tuple[int, str], _Route], bool]:
        """Every read of a layer's output, by the reader's number and tensor; whether it leaves the group."""
        node, layer = self.layers[name]
        found: dict[tuple[int, str], _Route] = {}
        if node.kind.nest == "fused":
            return found, True
        number = node.layers.index(layer)
        if number + 1 < len(node.layers):  # the scores of attention: its softmax stands in between
            behind = _Route(last_whole=True, softmax=True)
            return found, not self._add(found, node.layers[number + 1], "inputs", behind)
        leaves = False
        for value in node.outputs:
            leaves |= self._follow(value, _Route().through(node.kinds[1:]), found)
        return found, leaves

    def intermediate(self, name: str) -> Intermediate | None:
        """What the layer of this name passes to others of the group; None if nothing."""
        found, leaves = self._routes(name)
        layer = self.layers[name][1]
        position = self.names.index(name)
        reads = []
        for (reader, tensor), route in sorted(found.items()):
            if reader <= position:
                order = [name, self.names[reader]]
                raise InputError(f"network {self.network.name}", "producers first", order, key="layers")
            node, other = self.layers[self.names[reader]]
            # softmax in parts: each is normalised by what it has, and scaled once all of the axis has come
            if self.cut_rows:
                route = replace(route, last_whole=False)
            pairs = tuple(_paired(layer, other, tensor, route))
            # of the operand that windows may slide over: the first factor of a convolution
            shape = self.values[node.inputs[(node.kind.factors or (0,))[0]]].shape
            windows = tuple(
                windows
                for axis, windows in _slid(layer, node, shape, other, tensor, route)
                if axis in self.slid
            )
            reads.append(IntermediateRead(reader, tensor, pairs, windows))
        return Intermediate(position, tuple(reads), leaves) if reads else None

    def _follow(self, value: str, route: _Route, found: dict[tuple[int, str], _Route]) -> bool:
        """Add all reads of a value to ``found``; whether anything else needs the value, too."""
        leaves = self.values[value].kind == "output"
        for node in self.readers.get(value, ()):
            if node.layers and node.kind.nest != "fused":
                for layer, role in _operands(node, value):
                    leaves |= not self._add(found, layer, role, route)
            elif all(kind.role in PASSING for kind in node.kinds):
                for made in node.outputs:
                    shapes = self.values[value].shape, self.values[made].shape
                    onwards = route.through(node.kinds, _pooled(node, *shapes))
                    # an addition to a larger tensor broadcasts the value: its axes may be in other positions
                    if not _pools(node.kinds) and shapes[0] != shapes[1]:
                        onwards = replace(onwards, linked=False)
                    leaves |= self._follow(made, onwards, found)
            else:
                leaves = True
        return leaves

    def _add(self, found: dict[tuple[int, str], _Route], layer: Layer, role: str, route: _Route) -> bool:
        """Add the read of a layer's operand; False if the layer is outside the group or has none."""
        if layer.name not in self.names:
            return False
        tensor = next((one.name for one in layer.tensors if one.role == role), None)
        if tensor is None:
            return False
        key = self.names.index(layer.name), tensor
        found[key] = found.get(key, route) & route
        return True

    def alike(self) -> Iterator[tuple[LayerDim, LayerDim]]:
        """Dims that index the same axis of a value which several layers read as their inputs."""
        first: dict[str, int] = {}
        for position, name in enumerate(self.names):
            node, layer = self.layers[name]
            for value in node.inputs:
                if not any(one is layer and role == "inputs" for one, role in _operands(node, value)):
                    continue
                if value in first:
                    other = self.layers[self.names[first[value]]][1]
                    mine, theirs = (_axes(one, _inputs(one)) for one in (layer, other))
                    if len(mine) == len(theirs):
                        for ours, others in zip(mine, theirs, strict=True):
                            if _plain(ours, others) and layer.sizes[ours[0][0]] == other.sizes[others[0][0]]:
                                yield (first[value], others[0][0]), (position, ours[0][0])
                first.setdefault(value, position)


def _operands(node: Node, value: str) -> Iterator[tuple[Layer, str]]:
    """The layers of a node, each with the role of its operand that the value is."""
    if node.kind.nest == "fused":
        return
    # a value may be two operands at once, as in X X^T
    at = [number for number, name in enumerate(node.inputs) if name == value]
    if len(node.layers) == 2:  # attention: queries and keys, then scores and values
        for number in at:
            if number < 2:
                yield node.layers[0], "inputs" if number == 0 else "weights"
            else:
                yield node.layers[1], "weights"
        return
    factors = node.kind.factors[:2] or (0, 1)
    for number in at:
        if number in factors:
            yield node.layers[0], ("inputs", "weights")[factors.index(number)]


def _pools(kinds: Sequence[OperatorKind]) -> int:
    """How many poolings are among some operators."""
    return sum(kind.role == "pooling" for kind in kinds)


def _pooled(node: Node, read: tuple[int, ...], made: tuple[int, ...]) -> _Pooled | None:
    """What a node that pools an image of the shape ``read`` to one of the shape ``made`` does to it.

    None where it does not pool, or not in a way that its attributes and these shapes explain.
    """
    if _pools(node.kinds) != 1 or len(read) != len(made) or len(read) not in (3, 4):
        return None
    try:
        return _Pooled(read[2:], tuple(pooling_windows(node, read[2:], made[2:], dilated=True)))
    except InputError:
        return None


def _inputs(layer: Layer) -> Tensor:
    return next(tensor for tensor in layer.tensors if tensor.role == "inputs")


def _paired(producer: Layer, reader: Layer, operand: str, route: _Route) -> Iterator[tuple[str, str]]:
    """Dims of both that run along the same axis, where the route leaves axes as they are.

    Operands other than a layer's inputs may be read transposed, and a graph need not say so.
    """
    tensor = reader.tensor(operand)
    made, read = _axes(producer, producer.output), _axes(reader, tensor)
    if route.pools != ():  # channels and samples are what a pooling leaves as it is
        if route.last_whole:
            return
        made, read = ([axis for axis in axes if not _SPATIAL & dict(axis).keys()] for axes in (made, read))
    if not route.linked or tensor.role != "inputs" or len(made) != len(read):
        return
    pairs = list(zip(made, read, strict=True))
    for ours, theirs in pairs[:-1] if route.last_whole else pairs:
        if _plain(ours, theirs) and producer.sizes[ours[0][0]] == reader.sizes[theirs[0][0]]:
            yield ours[0][0], theirs[0][0]


def _slid(
    producer: Layer, node: Node, shape: tuple[int, ...], reader: Layer, operand: str, route: _Route
) -> Iterator[tuple[str, SlidingRead]]:
    """Rows, and columns, of an image along which windows of the reader, a convolution, or of a pooling before
    it slide.

    ``node`` is the reader's, which states padding, and ``shape`` that of the image that it reads. Nothing is
    yielded where that does not explain the sizes. The one axis of a 1-D convolution counts as rows.
    """
    tensor, axes = reader.tensor(operand), len(shape) - 2
    made, read = _axes(producer, producer.output), _axes(reader, tensor)
    if not route.linked or route.last_whole or tensor.role != "inputs" or len(made) != len(read):
        return
    if node.kind.nest != "convolution" or axes not in (1, 2) or route.pools is None:
        return
    of = {dim: axis for axis in tensor.terms for dim, _ in axis}
    names = (("P", "R"), ("Q", "S"))[-axes:]  # a 1-D convolution runs along Q and S
    if not all({*pair} <= of.keys() and of[pair[0]] == of[pair[1]] for pair in names):
        return
    counts, sizes = ([reader.sizes[pair[side]] for pair in names] for side in (0, 1))
    strides = [dict(of[rows])[rows] for rows, _ in names]
    try:
        stated = stated_windows(node.attributes, shape[2:], counts, (sizes, strides), dilated=True)
    except InputError:
        return
    for axis, (called, (dim, _), windows) in enumerate(zip(("rows", "columns"), names, stated, strict=False)):
        length = route.pools[0].lengths[axis] if route.pools else shape[2 + axis]
        pools = tuple(pool.windows[axis] for pool in route.pools)
        ours = next((ours for ours, theirs in zip(made, read, strict=True) if dim in dict(theirs)), ())
        plain = len(ours) == 1 and ours[0][1] == 1 and producer.sizes[ours[0][0]] == length
        if plain and (pools or (windows.size, windows.stride) != (1, 1)):
            found = SlidingRead(ours[0][0], dim, windows, pools)
            if found.reaches(length):
                yield called, found


_SPATIAL = frozenset("DPQRST")
"""The dims along rows, columns and depth of images and filters."""


def _plain(*axes: tuple[tuple[str, int], ...]) -> bool:
    """Whether each is an axis of one dim with coefficient 1."""
    return all(len(axis) == 1 and axis[0][1] == 1 for axis in axes)


def _axes(layer: Layer, tensor: Tensor) -> list[tuple[tuple[str, int], ...]]:
    """The axes of a tensor that are longer than 1, without dims of length 1.

    Outputs of convolutions list columns (Q) before rows (P), inputs rows first: here rows come first.
    """
    terms = list(tensor.terms)
    if [dict(axis).keys() for axis in terms[-2:]] == [{"Q"}, {"P"}]:
        terms[-2:] = terms[:-3:-1]
    looping = [tuple((dim, times) for dim, times in axis if layer.sizes[dim] > 1) for axis in terms]
    return [axis for axis in looping if axis]
