"""Layers as nn-dataflow describes them: channels, output maps, a window and its stride."""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import ceil
from typing import Literal, get_args

from costmodel.errors import InputError
from costmodel.number_checks import is_whole

LOOPS = ("IFM", "OFM", "BAT")
"""The blocked loops in the tool's order: input channels C, output channels K, batch N."""
TENSORS = ("FIL", "IFM", "OFM")
"""Filters, input and output feature maps, in the tool's order."""
LEVELS = ("DRAM", "GBUF", "ITCN", "REGF")
"""Off-chip memory, a node's global buffer, its array bus, a PE's registers."""
C, K, N = range(3)

LARGEST = 2**31
"""The largest size that a layer or a machine may have; a product of ten of these is still a finite float."""
Kind = Literal["convolution", "local"]
Words = tuple[float, ...]
"""A number for each tensor, in the order of TENSORS."""
Counts = tuple[int, ...]
"""A number for each loop, in the order of LOOPS (or for each tensor, where a field says so)."""

RELATED: dict[Kind, tuple[tuple[int, ...], ...]] = {
    "convolution": ((C, K), (C, N), (K, N)),
    "local": ((), (K, N), (K, N)),
}
"""For each kind and tensor the loops that index it.

A local layer reads the inputs of its output channel, so K indexes its inputs, too; it has no filters.
"""


@dataclass(frozen=True)
class LayerShape:
    """A convolution (a fully connected layer is one of a single output), or a local layer.

    A local layer (pooling, element-wise) merges ``window_h`` x ``window_w`` inputs of ``operands`` channels
    into an output and has no filters. Inputs count with their padding.
    """

    kind: Kind
    channels_in: int
    channels_out: int
    out_h: int
    out_w: int
    window_h: int
    window_w: int
    stride_h: int = 1
    stride_w: int = 1
    operands: int = 1

    def __post_init__(self) -> None:
        if self.kind not in get_args(Kind):
            raise InputError("nn-dataflow layer", f"one of {get_args(Kind)}", self.kind, key="kind")
        for key, value in vars(self).items():
            if key != "kind":
                check_size(value, "nn-dataflow layer", key)

    @property
    def related(self) -> tuple[tuple[int, ...], ...]:
        """Per tensor the loops that index it."""
        return RELATED[self.kind]

    @property
    def operations_per_output(self) -> int:
        return self.window_h * self.window_w * (self.channels_in if self.has_filters else self.operands)

    @property
    def has_filters(self) -> bool:
        return self.kind == "convolution"

    def operations(self, batch: int) -> int:
        """MACs, or merged inputs of a local layer."""
        return self.channels_out * self.out_h * self.out_w * self.operations_per_output * batch

    def part(self, divisors: tuple[int, int, int, int]) -> LayerShape:
        """The largest part when C, K, output rows and columns are divided by ``divisors``.

        Sizes that do not divide are rounded up, as in the tool (partition_scheme.py:144).
        """
        over_c, over_k, over_h, over_w = divisors
        return replace(
            self,
            channels_in=ceil(self.channels_in / over_c),
            channels_out=ceil(self.channels_out / over_k),
            out_h=ceil(self.out_h / over_h),
            out_w=ceil(self.out_w / over_w),
        )


def check_size(value: object, where: str, key: str) -> None:
    """InputError unless ``value`` is a whole number from 1 to LARGEST."""
    if not is_whole(value, 1, LARGEST):
        raise InputError(where, f"a whole number from 1 to {LARGEST}", value, key=key)
