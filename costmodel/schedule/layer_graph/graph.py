"""A network as a chip's scheduler sees it: layers (``layer.py``), and whose outputs each of them reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.layer import WITH_FACTORS, WITH_SEVERAL_INPUTS, NetworkLayer

__all__ = ["LayerGraph", "NetworkLayer", "Read"]


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
        operand = layer.k if layer.kind in ("eltwise", *WITH_SEVERAL_INPUTS) else layer.c
        of_weights = layer.groups if layer.kind in WITH_FACTORS else layer.k
        if self._cut_within(inputs, layer.external_c, operand) or self._cut_within(weights, 0, of_weights):
            raise InputError(where, "operands of whole producers or of one", layer.channels, key="channels")
        channels = layer.external_c + sum(one.channels for one in inputs)
        if channels != layer.c:
            raise InputError(where, f"{layer.c} input channels", channels, key="ifm_prevs")
        sizes = [(one.h, one.w) for one in (self.layers[read.producer] for read in inputs)]
        if any(h < layer.input_h or w < layer.input_w for h, w in sizes):
            expected = f"producers of at least {layer.input_h} x {layer.input_w}"
            raise InputError(where, expected, sizes, key="ifm_prevs")
        if layer.kind in WITH_FACTORS:
            self._check_factors(layer, weights, where)
            return
        rows = layer.group_c if layer.kind == "groupconv" else layer.c
        size = (layer.h, layer.w) if layer.part == "update" else (rows, layer.r * layer.s)
        shapes = {(one.h, one.w) for one in (self.layers[read.producer] for read in weights)}
        shape = sum(one.channels for one in weights), *shapes
        if weights and shape != (layer.k, size):
            expected = f"{layer.k} weights of {size[0]} x {size[1]} between the producers"
            raise InputError(where, expected, shape, key="wgt_prevs")

    def _check_factors(self, layer: NetworkLayer, factors: Sequence[Read], where: str) -> None:
        """Check that layers make all factors, or choices, of a layer that has such a second operand."""
        channels, rows, columns = layer.factors
        shapes = {(one.h, one.w) for one in (self.layers[read.producer] for read in factors)}
        shape = sum(one.channels for one in factors), *shapes
        if shape != (channels, (rows, columns)):
            expected = f"{channels} channels of {rows} x {columns} between the producers"
            raise InputError(where, expected, shape, key="wgt_prevs")
        if layer.c % layer.k or (layer.kind not in WITH_SEVERAL_INPUTS and layer.c != layer.k):
            expected = "an input of k channels (combine: of each expert; carry: two inputs)"
            raise InputError(where, expected, layer.c, key="c")

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
