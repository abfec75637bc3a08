"""Which lines of memory the steps of a walk touch, and how many of them the caches do not hold."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from functools import lru_cache
from math import ceil, exp, gcd
from typing import NamedTuple

from costmodel.hardware.timing import CacheTiming, Timing, layout_part
from costmodel.mapping.timing.walk import dim_of
from costmodel.workload.network import Layer, Tensor
from costmodel.workload.projection import Stride


class MemoryAxis(NamedTuple):
    """An axis of a tensor in memory, by the ``steps`` of the dims along it.

    With a ``block`` above 1 its elements are blocks of so many positions. The inside of blocks is an axis of
    its own without steps: it has ``inside`` elements, all of which move with the block.
    """

    steps: tuple[Stride, ...]
    block: int = 1
    inside: int = 0

    def elements(self, positions: int) -> int:
        """How many elements so many neighbouring positions take: whole blocks, counted from their first."""
        return self.inside or (positions if self.block == 1 else -(-positions // self.block))


@dataclass(frozen=True)
class Placed:
    """A tensor in memory: its axes OUTERMOST FIRST, their lengths, and how many bytes one step along each
    is."""

    tensor: Tensor
    axes: tuple[MemoryAxis, ...]
    lengths: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int

    @property
    def bytes(self) -> int:
        return self.lengths[0] * self.strides[0] if self.axes else self.element_bytes

    @property
    def row_stride(self) -> int:
        """Bytes from one row to the next: the whole innermost axis."""
        return self.strides[-2] if len(self.axes) > 1 else self.bytes


def placed(timing: Timing, layer: Layer, tensor: Tensor, element_bytes: int) -> Placed:
    """``tensor`` as the machine's layout of its role puts it into memory."""
    parts = [layout_part(entry) for entry in timing.layout(tensor.role)]
    layout = [(block, dim_of(layer, dim)) for block, dim in parts]
    position = {dim: number for number, (block, dim) in enumerate(layout) if block == 1}
    ordered: list[tuple[int, MemoryAxis, int]] = []
    for axis in tensor.axes:
        dims, length = {step.dim for step in axis.steps}, layer.length(axis)
        where = max((position.get(dim, -1) for dim in dims), default=-1)
        blocks = [(number, block) for number, (block, dim) in enumerate(layout) if block > 1 and dim in dims]
        number, block = blocks[0] if blocks else (0, 1)
        ordered.append((where, MemoryAxis(axis.steps, block), -(-length // block)))
        if block > 1:
            ordered.append((number, MemoryAxis((), inside=block), block))
    ordered.sort(key=lambda one: one[0])
    axes, lengths = tuple(axis for _, axis, _ in ordered), tuple(length for _, _, length in ordered)
    strides = [element_bytes] * len(axes)
    for number in range(len(axes) - 2, -1, -1):
        strides[number] = strides[number + 1] * lengths[number + 1]
    return Placed(tensor, axes, lengths, tuple(strides), element_bytes)


@lru_cache(maxsize=65536)
def lines_of_run(run: float, stride: int, line: int) -> float:
    """Lines that a run of ``run`` bytes touches, in the mean over the offsets of runs ``stride`` bytes apart.

    Tensors begin at a line. Where the stride is a whole number of lines, every run begins at one.
    """
    step = gcd(stride, line)
    offsets = range(0, line, step)
    return sum(ceil((offset + run) / line) for offset in offsets) / len(offsets)


def lines_of_box(tensor: Placed, box: ReadOnlyDict[str, int], line: int) -> float:
    """Lines that a tile touches; ``box`` has its points along each dim.

    From the innermost axis outwards: rows that lie closer together than a line are one run, others are
    counted one by one.
    """
    run, count = float(tensor.element_bytes), 1.0
    stride = tensor.element_bytes
    for axis, length, step in reversed(list(zip(tensor.axes, tensor.lengths, tensor.strides, strict=True))):
        extent = min(_extent(axis, box), length)
        if count == 1.0 and step - run < line:
            run = (extent - 1) * step + run
        elif extent > 1:
            stride = step if count == 1.0 else gcd(stride, step)
            count *= extent
    return count * lines_of_run(run, stride if count > 1 else line, line)


def _extent(axis: MemoryAxis, box: ReadOnlyDict[str, int]) -> int:
    return axis.elements(1 + sum(step.coefficient * (box.get(step.dim, 1) - 1) for step in axis.steps))


def usable_lines(cache: CacheTiming, tensor: Placed, box: ReadOnlyDict[str, int]) -> float:
    """Lines of the cache that a tile can use: rows a power of two apart meet in few of its sets."""
    extents = [
        min(_extent(axis, box), length) for axis, length in zip(tensor.axes, tensor.lengths, strict=True)
    ]
    if len(extents) < 2 or extents[-1] >= tensor.lengths[-1] or tensor.row_stride < cache.line_bytes:
        return float(cache.lines)
    apart = max(1, tensor.row_stride // cache.line_bytes)
    if tensor.row_stride % cache.line_bytes:
        return float(cache.lines)
    row = lines_of_run(extents[-1] * tensor.element_bytes, tensor.row_stride, cache.line_bytes)
    sets = min(float(cache.sets), cache.sets / gcd(apart, cache.sets) * row)
    return sets * cache.ways


@lru_cache(maxsize=65536)
def hit_rate(pressure: float) -> float:
    """Of lines touched again after ``pressure`` times the cache's lines, the fraction that is still held.

    The fixed point of h = exp(-x (1 - h)): lines that miss, x (1 - h) times as many as the cache has, push
    others out at random. Up to x = 1 all fit.
    """
    if pressure <= 1.0:
        return 1.0
    low, high = 0.0, 1.0 - 1e-9
    # h - exp(-x (1 - h)) is negative at 0 and, above x = 1, positive just below 1: one root between
    for _ in range(60):
        middle = (low + high) / 2
        if middle < exp(-pressure * (1 - middle)):
            low = middle
        else:
            high = middle
    return low
