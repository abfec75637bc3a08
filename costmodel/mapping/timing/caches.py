"""How a tensor lies in memory, which lines a box of it touches, and how often a cache still holds a line.

``counts`` combines these into the misses of a whole walk. A line is the unit that a cache fetches, such as
64 bytes. Lengths are in elements or points, strides in bytes; counts of lines are means, so fractions.
"""

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
    """An axis of a tensor in memory. ``steps``: how far one step of each dim moves along it.

    A layout in blocks, such as ``N C Q P 8C``, makes two axes of one. Along the outer axis (C) an element is
    a ``block`` of 8 positions; the inner one (8C) has no steps, because its ``inside`` 8 elements are always
    moved together. For all other axes ``block`` is 1 and ``inside`` 0.
    """

    steps: tuple[Stride, ...]
    block: int = 1
    inside: int = 0

    def elements(self, positions: int) -> int:
        """How many elements of the axis so many neighbouring positions take.

        In blocks the first position begins one, and a block of which some positions are used counts whole.
        """
        return self.inside or (positions if self.block == 1 else -(-positions // self.block))


@dataclass(frozen=True)
class TensorInMemory:
    """A tensor as it lies in memory, from a first byte that begins a line.

    ``axes`` are OUTERMOST FIRST; ``lengths`` has the elements along each, ``strides`` the bytes from one
    element along it to the next.
    """

    tensor: Tensor
    axes: tuple[MemoryAxis, ...]
    lengths: tuple[int, ...]
    strides: tuple[int, ...]
    element_bytes: int

    @property
    def bytes(self) -> int:
        """Bytes of the whole tensor."""
        return self.lengths[0] * self.strides[0] if self.axes else self.element_bytes

    @property
    def row_stride(self) -> int:
        """Bytes from one row to the next, which is the length of a row: the whole innermost axis."""
        return self.strides[-2] if len(self.axes) > 1 else self.bytes


def tensor_in_memory(timing: Timing, layer: Layer, tensor: Tensor, element_bytes: int) -> TensorInMemory:
    """``tensor`` as the machine's layout for its role puts it into memory.

    An axis lies where the layout names one of its dims. Axes that the layout does not name are outside all
    others, in the order in which the layer has them.
    """
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
    # Sorting is stable: axes that are not named (-1) come first and stay in the layer's order.
    ordered.sort(key=lambda one: one[0])
    axes, lengths = tuple(axis for _, axis, _ in ordered), tuple(length for _, _, length in ordered)
    strides = [element_bytes] * len(axes)
    for number in range(len(axes) - 2, -1, -1):
        strides[number] = strides[number + 1] * lengths[number + 1]
    return TensorInMemory(tensor, axes, lengths, tuple(strides), element_bytes)


@lru_cache(maxsize=65536)
def lines_of_run(run: float, stride: int, line: int) -> float:
    """How many lines one of many runs touches, in the mean. A run is ``run`` bytes without a gap.

    Runs begin ``stride`` bytes apart and the first one at the beginning of a line, so the offsets within a
    line at which runs begin are the multiples of gcd(stride, line). The mean is over these offsets. Where the
    stride is a whole number of lines, every run begins a line.
    """
    step = gcd(stride, line)
    offsets = range(0, line, step)
    return sum(ceil((offset + run) / line) for offset in offsets) / len(offsets)


def lines_of_box(tensor: TensorInMemory, box: ReadOnlyDict[str, int], line: int) -> float:
    """Lines that a box of the layer's nest touches of a tensor; ``box`` has its points along each dim.

    From the innermost axis outwards. As long as the gap to the next run is shorter than a line, no line
    between them is left out, and both are one longer run. From the first larger gap on, every axis multiplies
    the number of runs, and lines are counted per run.
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
    """Elements along an axis from the first to the last that the box touches."""
    return axis.elements(1 + sum(step.coefficient * (box.get(step.dim, 1) - 1) for step in axis.steps))


def usable_lines(cache: CacheTiming, tensor: TensorInMemory, box: ReadOnlyDict[str, int]) -> float:
    """How many lines of the cache a box of a tensor can use.

    A line of memory can only be in one set of the cache: its number modulo the sets. A box that has parts of
    rows skips the rest of every row. If rows are ``apart`` lines long, their beginnings fall into every
    gcd(apart, sets)-th set, and each of them uses as many neighbouring sets as the part of a row has lines.
    Of rows whose length is a power of two these are few, and the tensor pushes out its own lines while the
    rest of the cache is free. Whole rows, and rows that are no whole number of lines, reach all sets.
    """
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
    """The fraction of lines that a cache still holds when they are touched again.

    ``pressure``, x, is how many lines were touched since, divided by the lines of the cache. Up to x = 1 all
    of them fit, and the rate is 1. Above it, a fraction 1 - h of what is touched misses, and each miss pushes
    out a line at random. A cache of n lines so has x n (1 - h) misses, and a line survives all of them with a
    probability of (1 - 1/n)^(x n (1 - h)), which is close to exp(-x (1 - h)). That probability is the hit
    rate itself: the result is the root h below 1 of h = exp(-x (1 - h)).
    """
    if pressure <= 1.0:
        return 1.0
    low, high = 0.0, 1.0 - 1e-9
    # h - exp(-x (1 - h)) is negative at 0 and, above x = 1, positive just below 1: bisection finds the root
    # between. 1 is a root, too, but stands for a cache that has nothing to push out.
    for _ in range(60):
        middle = (low + high) / 2
        if middle < exp(-pressure * (1 - middle)):
            low = middle
        else:
            high = middle
    return low
