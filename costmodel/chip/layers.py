"""A network as a chip's scheduler sees it: layers for one sample, and whose outputs each of them reads."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from costmodel.errors import InputError

KINDS = ("conv", "fc", "groupconv", "pool", "eltwise", "ptp", "transpose")
"""Kinds of layers; ``ptp`` is an element-wise function of one operand."""


@dataclass(frozen=True)
class NetworkLayer:
    """One layer for one sample: outputs K x H x W of int8 from C input channels in all, filters R x S.

    ``operands`` is how many inputs an element-wise layer has; ``order`` says which input dim (C, H, W) each
    output dim of a transpose is. Inputs are ``external_c`` channels of the network's input, then those of
    ``producers`` (indices) in that order; ``weight_producers`` compute what a product of activations takes as
    weights. ``input_h``, ``input_w`` are without padding.
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
    def operations(self) -> int:
        """MACs of a layer with weights, or element operations, for one sample."""
        products = self.k * self.h * self.w * self.r * self.s
        return products * (self.group_c if self.has_weights else self.operands)

    def sizes(self, batch: int) -> tuple[int, int, int, int]:
        """What is cut into parts: K, B, H, W."""
        return self.k, batch, self.h, self.w

    def input_bytes(self, batch: int) -> int:
        return self.c * self.input_h * self.input_w * batch

    def normalized_cycles(self, vector: int, lanes: int, macs: int, vector_units: int) -> float:
        """NPT of section 3.3.2: cycles of one sample on one tile whose vectors it may leave partly empty."""
        if not self.has_weights:
            return self.operations / vector_units
        c, k = (-(-size // width) * width for size, width in ((self.group_c, vector), (self.group_k, lanes)))
        operations = c * k * self.r * self.s * self.h * self.w * self.groups
        side_by_side = min(vector // self.group_c, lanes // self.group_k) if self.kind == "groupconv" else 1
        fills = self.group_c < vector and self.group_k < lanes
        return operations / (side_by_side if fills else 1) / macs


@dataclass(frozen=True)
class LayerGraph:
    """A network's layers in topological order."""

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
        """Producers make up all channels and have all rows and columns that are read."""
        inputs = [self.layers[i] for i in layer.producers]
        channels = layer.external_c + sum(producer.k for producer in inputs)
        if channels != layer.c:
            raise InputError(where, f"{layer.c} input channels", channels, key="ifm_prevs")
        if any(producer.h < layer.input_h or producer.w < layer.input_w for producer in inputs):
            expected = f"producers of at least {layer.input_h} x {layer.input_w}"
            raise InputError(where, expected, [(one.h, one.w) for one in inputs], key="ifm_prevs")
        weights = [self.layers[i] for i in layer.weight_producers]
        rows = layer.group_c if layer.kind == "groupconv" else layer.c
        shape = sum(one.k for one in weights), *{(one.h, one.w) for one in weights}
        if weights and shape != (layer.k, (rows, layer.r * layer.s)):
            expected = f"{layer.k} weights of {rows} x {layer.r * layer.s} between the producers"
            raise InputError(where, expected, shape, key="wgt_prevs")

    @cached_property
    def index(self) -> dict[str, int]:
        return {layer.name: index for index, layer in enumerate(self.layers)}

    @cached_property
    def producers(self) -> dict[str, tuple[str, ...]]:
        """Of every layer the layers whose outputs it reads, weights included: what an RA tree needs."""
        return {
            layer.name: tuple(
                self.layers[i].name for i in sorted({*layer.producers, *layer.weight_producers})
            )
            for layer in self.layers
        }
