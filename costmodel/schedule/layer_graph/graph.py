"""A network as a chip's scheduler sees it: layers for one sample, and whose outputs each of them reads."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from collections.abc import Sequence
from dataclasses import asdict, dataclass, fields
from functools import cached_property
from typing import Any, Literal, NamedTuple, get_args

from costmodel.errors import InputError
from costmodel.workload.network import Layer, Role, Tensor, convolution

KINDS = ("conv", "fc", "groupconv", "pool", "eltwise", "ptp", "transpose")
"""Kinds of layers; ``ptp`` is an element-wise function of one operand."""
Part = Literal["forward", "error", "update"]
"""What a layer of a training step computes: outputs, errors of inputs or gradients of weights.

All layers of an inference are ``forward``.
"""
Channels = tuple[int, int]
"""Channels of a layer's outputs, from the first to before the second."""
_ROLES: dict[Part, dict[str, Role]] = {
    "forward": {},
    "error": {"Outputs": "inputs", "Inputs": "outputs"},
    "update": {"Outputs": "weights", "Weights": "outputs"},
}
"""By part, the tensors of a forward loop nest whose role is another in that part's nest, with that role."""


class LayerBytes(NamedTuple):
    """Bytes that the tensors of a layer take for a batch, padding not counted."""

    inputs: int
    weights: int
    outputs: int


@dataclass(frozen=True)
class NetworkLayer:
    """One layer for one sample: ``k`` x ``h`` x ``w`` outputs of one byte (int8) from ``c`` input channels.

    - ``kind`` is one of :data:`KINDS`; ``r`` x ``s`` is the filter or window, and ``c`` and ``k`` are totals
      of all ``groups``.
    - ``input_h`` and ``input_w`` are the rows and columns of the input, without padding. ``pad_h`` is the
      padding above the first row and ``pad_w`` that left of the first column; the padding below and to the
      right follows. If negative, the first window begins that many rows (columns) inside the input.
    - ``operands`` is the number of inputs of an element-wise layer, whose ``c`` is ``operands`` times ``k``.
    - ``order`` says of each output dim (C, H, W) of a transpose which input dim it is.
    - The input channels are ``external_c`` channels of the network's input, then those of ``producers``,
      which are positions in the graph's layers. ``weight_producers`` compute the weights of a product of two
      activations. ``channels`` are those read of each producer, then of each weight producer; empty: all.

    Layers of a training step: an ``error`` computes the errors of its forward layer's inputs from those of
    its outputs. Where it :attr:`scatters`, filter and stride are the forward layer's. An ``update`` has its
    forward layer's numbers, takes the errors of the outputs as weights and computes, once a batch, the
    gradient of the weights, which no other layer reads.
    """

    name: str
    kind: str
    c: int
    k: int
    h: int
    w: int
    r: int
    s: int
    stride_h: int
    stride_w: int
    pad_h: int
    pad_w: int
    input_h: int
    input_w: int
    operands: int = 1
    groups: int = 1
    order: tuple[int, ...] = (0, 1, 2)
    external_c: int = 0
    producers: tuple[int, ...] = ()
    weight_producers: tuple[int, ...] = ()
    part: Part = "forward"
    channels: tuple[Channels, ...] = ()

    def __post_init__(self) -> None:
        if self.part not in get_args(Part):
            raise InputError(f"layer {self.name}", f"one of {get_args(Part)}", self.part, key="part")

    @property
    def has_weights(self) -> bool:
        return self.kind in ("conv", "fc", "groupconv")

    @property
    def group_c(self) -> int:
        return self.c // self.groups

    @property
    def group_k(self) -> int:
        return self.k // self.groups

    @property
    def scatters(self) -> bool:
        """Whether each input adds into a window of outputs, where a forward layer reads a window of inputs.

        This is so for the errors of pooling, of strided convolutions, of convolutions whose outputs have
        other rows or columns than their inputs, and of layers that flatten rows and columns. Errors of all
        other layers are computed as forward layers are.
        """
        if self.part != "error" or self.kind not in ("conv", "groupconv", "fc", "pool"):
            return False
        same = (self.h, self.w) == (self.input_h, self.input_w)
        strided = self.kind != "fc" and (self.stride_h, self.stride_w) != (1, 1)
        return self.kind == "pool" or strided or not same

    @property
    def needs_whole_chip(self) -> bool:
        """Whether the layer can only run layer-sequentially: on the whole chip, with all its data in DRAM."""
        return self.part == "update" or self.scatters

    @property
    def operations(self) -> int:
        """MACs of a layer with weights, or element operations, for one sample."""
        h, w = (self.input_h, self.input_w) if self.scatters else (self.h, self.w)
        products = self.k * h * w * self.r * self.s
        return products * (self.group_c if self.has_weights else self.operands)

    @property
    def computed(self) -> tuple[int, int]:
        """How many rows and how many columns of outputs are computed.

        All, but for a layer that scatters: it computes those that some window reaches. The others are zero in
        every training step, so no step has to write them.
        """
        if not self.scatters:
            return self.h, self.w
        rows = _under_windows(self.input_h, self.r, self.stride_h, self.pad_h, self.h)
        return rows, _under_windows(self.input_w, self.s, self.stride_w, self.pad_w, self.w)

    def nest(self, batch: int) -> Layer:
        """A layer with weights as a loop nest of Weights, Inputs (padded) and Outputs; else InputError.

        The nest of an update, or of an error that scatters, is the forward layer's: each tensor keeps its
        name and has the role that it plays here. Where a layer that scatters has windows further apart than
        they are long, no window reaches the outputs between them: these stay zero, and the nest leaves them
        out by a shorter stride. With activations as weights each sample has weights of its own: the nest has
        the samples as groups, not as N.
        """
        if not self.has_weights:
            raise InputError(f"layer {self.name}", "a layer with weights", self.kind, key="kind")
        changed = _ROLES[self.part] if self.needs_whole_chip else {}
        k, c, p, q, stride = self.k, self.c, self.h, self.w, (self.stride_h, self.stride_w)
        if self.scatters:  # its fields are those of the error; back to those of the forward layer
            k, c, p, q = self.c, self.k, self.input_h, self.input_w
            stride = min(self.stride_h, self.r), min(self.stride_w, self.s)
        times = batch if self.weight_producers and self.part != "update" else 1
        nest = convolution(
            self.name,
            N=batch // times,
            K=k * times,
            C=c * times,
            P=p,
            Q=q,
            R=self.r,
            S=self.s,
            stride=stride,
            groups=self.groups * times,
        )
        tensors = tuple(Tensor(one.name, one.axes, changed.get(one.name, one.role)) for one in nest.tensors)
        return Layer(self.name, nest.dims, tensors)

    def compulsory_bytes(self, batch: int) -> LayerBytes:
        """Bytes that a batch of the layer moves from and to DRAM if it runs by itself and each moves once."""
        h, w = self.computed
        inputs, outputs = self.input_bytes(batch), batch * self.k * h * w
        weights = self.k * self.group_c * self.r * self.s * self.has_weights
        if self.part == "update":  # the errors of the outputs are its weights, the weights its result
            return LayerBytes(inputs, outputs, weights)
        return LayerBytes(inputs, weights * (batch if self.weight_producers else 1), outputs)

    def to_json(self) -> dict[str, Any]:
        """Plain data, without ``part`` and ``channels`` where they have their defaults.

        Identities of tasks are hashes of this data. Left out, the two fields do not change the identity of a
        layer of an inference.
        """
        added = (one for one in fields(self) if one.name in ("part", "channels"))
        unused = {one.name for one in added if getattr(self, one.name) == one.default}
        return {key: value for key, value in asdict(self).items() if key not in unused}

    @classmethod
    def from_json(cls, data: ReadOnlyDict[str, Any]) -> NetworkLayer:
        """The layer of :meth:`to_json`, whose tuples may have become lists."""
        lists = {key: tuple(value) for key, value in data.items() if isinstance(value, list | tuple)}
        if "channels" in lists:
            lists["channels"] = tuple((first, end) for first, end in lists["channels"])
        return cls(**{**data, **lists})

    def sizes(self, batch: int) -> tuple[int, int, int, int]:
        """The dims that a partition cuts, K, B (samples), H and W, with their sizes."""
        return self.k, batch, self.h, self.w

    def input_bytes(self, batch: int) -> int:
        """Bytes of the inputs of ``batch`` samples, without rows and columns in front of the first window."""
        rows, columns = self.input_h + min(self.pad_h, 0), self.input_w + min(self.pad_w, 0)
        return self.c * rows * columns * batch

    def normalized_cycles(self, vector: int, lanes: int, macs: int, vector_units: int) -> float:
        """Cycles of one sample on one tile: NPT, the normalised processing time of SET's section 3.3.2.

        A tile does ``macs`` MACs a cycle, on vectors of ``vector`` input channels for ``lanes`` output
        channels, or ``vector_units`` element operations. Input and output channels of a group are rounded up
        to whole vectors and lanes, so that a layer may leave some of them empty; groups smaller than both run
        side by side.
        """
        if not self.has_weights:
            return self.operations / vector_units
        c, k = (-(-size // width) * width for size, width in ((self.group_c, vector), (self.group_k, lanes)))
        operations = c * k * self.r * self.s * self.h * self.w * self.groups
        side_by_side = min(vector // self.group_c, lanes // self.group_k) if self.kind == "groupconv" else 1
        fills = self.group_c < vector and self.group_k < lanes
        return operations / (side_by_side if fills else 1) / macs


def _under_windows(windows: int, size: int, stride: int, pad: int, length: int) -> int:
    """How many of the positions 0 to before ``length`` lie in some window.

    There are ``windows`` of ``size`` positions every ``stride``; the first begins at ``-pad``.
    """
    first = {start * stride - pad for start in range(windows)}
    return len({start + offset for start in first for offset in range(size)} & set(range(length)))


class Read(NamedTuple):
    """Channels ``first`` to before ``end`` of the outputs of the layer number ``producer``."""

    producer: int
    first: int
    end: int

    @property
    def channels(self) -> int:
        return self.end - self.first


@dataclass(frozen=True)
class LayerGraph:
    """A network's layers in topological order. Producers are positions in ``layers``; checked when built."""

    name: str
    layers: tuple[NetworkLayer, ...]

    def __post_init__(self) -> None:
        where = f"network {self.name}"
        for index, layer in enumerate(self.layers):
            late = [i for i in (*layer.producers, *layer.weight_producers) if not 0 <= i < index]
            if late:
                raise InputError(where, "producers before their consumers", late, key=layer.name)
            self._check_channels(layer, f"{where}: {layer.name}")
        if len(self.index) != len(self.layers):
            raise InputError(where, "layers whose names are all different", "a name twice")

    def _check_channels(self, layer: NetworkLayer, where: str) -> None:
        """Check that producers have together all channels, and each all rows and columns, that are read."""
        inputs, weights = self.reads(layer)
        operand = layer.k if layer.kind == "eltwise" else layer.c
        if self._cut_within(inputs, layer.external_c, operand) or self._cut_within(weights, 0, layer.k):
            raise InputError(where, "operands of whole producers or of one", layer.channels, key="channels")
        channels = layer.external_c + sum(one.channels for one in inputs)
        if channels != layer.c:
            raise InputError(where, f"{layer.c} input channels", channels, key="ifm_prevs")
        sizes = [(one.h, one.w) for one in (self.layers[read.producer] for read in inputs)]
        if any(h < layer.input_h or w < layer.input_w for h, w in sizes):
            expected = f"producers of at least {layer.input_h} x {layer.input_w}"
            raise InputError(where, expected, sizes, key="ifm_prevs")
        rows = layer.group_c if layer.kind == "groupconv" else layer.c
        size = (layer.h, layer.w) if layer.part == "update" else (rows, layer.r * layer.s)
        shapes = {(one.h, one.w) for one in (self.layers[read.producer] for read in weights)}
        shape = sum(one.channels for one in weights), *shapes
        if weights and shape != (layer.k, size):
            expected = f"{layer.k} weights of {size[0]} x {size[1]} between the producers"
            raise InputError(where, expected, shape, key="wgt_prevs")

    def reads(self, layer: NetworkLayer) -> tuple[list[Read], list[Read]]:
        """What ``layer`` reads of other layers: its inputs, then its weights, each in the order of channels.

        InputError for channels that do not exist.
        """
        numbers = (*layer.producers, *layer.weight_producers)
        parts = layer.channels or tuple((0, self.layers[number].k) for number in numbers)
        found = [Read(number, *part) for number, part in zip(numbers, parts, strict=False)]
        sizes = [self.layers[number].k for number in numbers]
        if len(parts) != len(numbers) or any(
            not 0 <= read.first < read.end <= k for read, k in zip(found, sizes, strict=True)
        ):
            where = f"network {self.name}: {layer.name}"
            raise InputError(where, f"channels of producers of {sizes}", layer.channels, key="channels")
        return found[: len(layer.producers)], found[len(layer.producers) :]

    def _cut_within(self, reads: Sequence[Read], first: int, operand: int) -> bool:
        """Whether an operand combines a part of a producer's channels with channels of another producer.

        ``first`` is the channel at which the reads begin, ``operand`` the number of channels of an operand.
        """
        for read in reads:
            behind = read.end < self.layers[read.producer].k
            if (read.first and first % operand) or (behind and (first + read.channels) % operand):
                return True
            first += read.channels
        return False

    @cached_property
    def index(self) -> dict[str, int]:
        return {layer.name: index for index, layer in enumerate(self.layers)}

    @cached_property
    def producers(self) -> dict[str, tuple[str, ...]]:
        """By layer, the layers whose outputs it reads as inputs or as weights, by name: for RA trees."""
        return {
            layer.name: tuple(
                self.layers[i].name for i in sorted({*layer.producers, *layer.weight_producers})
            )
            for layer in self.layers
        }
