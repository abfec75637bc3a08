"""Where the elements of a value lie: its axes over the channels, rows and columns that layers compute.

A layer computes a box of C channels x H rows x W columns. A value of the network is such a box, perhaps of
several layers' channels side by side, whose elements an operator sees along axes of its own: an image has
the axes (1, C, H, W), heads of attention (1, heads, rows, channels of a head). Every axis is a product of
factors, major first, each a step through one dim of the box. Views only change factors:

    x (1, 12, 8, 8)          axis 1: C 12 step 1
    reshape (1, 3, 4, 8, 8)  axis 1: C 3 step 4, axis 2: C 4 step 1
    transpose 1 and 2        axis 1: C 4 step 1, axis 2: C 3 step 4
    reshape (1, 12, 8, 8)    axis 1: C 4 step 1, C 3 step 4, so channels 0, 4, 8, 1, 5, ...
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations
from math import prod
from typing import Literal, NamedTuple

import numpy as np

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.drafts import EXTERNAL, Parts, Slice, channels, joined, picked

Dim = Literal["C", "H", "W", ""]
Shape = tuple[int, ...]


class Factor(NamedTuple):
    """``size`` steps of ``stride`` through a dim of the box; no dim and stride 0: the same elements again."""

    dim: Dim
    size: int
    stride: int


Axis = tuple[Factor, ...]
NO_PADDING = (0, 0, 0, 0)


@dataclass(frozen=True)
class Data:
    """A value of the network: ``h`` rows and ``w`` columns of the channels ``parts``, seen along ``axes``.

    Every element of the box is one of the value's, once, but for factors without a dim. ``axes`` are None
    where the file folds views away and shapes alone do not say which axis is which. A ``statistic`` is a
    number a position (of all channels). ``padding`` are rows of constants above and below, then columns left
    and right, that the value has and the box has not; negative ones are rows and columns that the box has and
    the value has not.
    """

    parts: Parts
    h: int
    w: int
    axes: tuple[Axis, ...] | None = None
    statistic: bool = False
    padding: tuple[int, int, int, int] = NO_PADDING

    @property
    def k(self) -> int:
        return channels(self.parts)

    @property
    def elements(self) -> int:
        """Of the box: elements that an axis has several times count once, constants around it not at all."""
        return self.k * self.h * self.w

    @property
    def external(self) -> bool:
        """Whether it is the network's input, or follows from that by itself."""
        return all(part.draft == EXTERNAL for part in self.parts)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.k, self.h, self.w

    @property
    def sizes(self) -> Shape:
        """The lengths of the axes, as the network has them; InputError where they are not known."""
        return tuple(
            _length(axis) + sum(self.padding[2 * i] + self.padding[2 * i + 1] for i in _padded(self, axis))
            for axis in known_axes(self)
        )

    @property
    def repeats(self) -> bool:
        """Whether some axis has the same elements several times (what Expand makes)."""
        return any(not factor.dim for axis in self.axes or () for factor in axis)


def _length(axis: Axis) -> int:
    return prod(factor.size for factor in axis)


def _padded(data: Data, axis: Axis) -> tuple[int, ...]:
    """Whether the padding of rows (0) or of columns (1) lengthens the axis."""
    return tuple(i for i, dim in enumerate("HW") if any(factor.dim == dim for factor in axis))


def known_axes(data: Data) -> tuple[Axis, ...]:
    """The axes of a value; InputError where the file has folded away how they lie."""
    if data.axes is None:
        remedy = "Export the graph with its views, or state the axes"
        raise InputError("", "an operand whose axes are known", "views that the file folds away", remedy)
    return data.axes


def image(parts: Parts, h: int, w: int) -> Data:
    """Axes (1, channels, rows, columns)."""
    return Data(parts, h, w, ((), full("C", channels(parts)), full("H", h), full("W", w)))


def rows_of_channels(parts: Parts, h: int, w: int = 1) -> Data:
    """Axes (1, positions, channels)."""
    return Data(parts, h, w, ((), (*full("H", h), *full("W", w)), full("C", channels(parts))))


def as_image(data: Data, shape: Shape) -> Data:
    """An operand of ``shape``: (1, channels, rows, columns) or (1, channels, rows); InputError for others."""
    c, spatial = shape[1], shape[2:]
    h, w = (*spatial, 1)[:2]
    axes = ((), full("C", c), full("H", h), full("W", w))[: len(shape)]
    if data.external and not data.repeats and not any(data.padding):
        return Data((Slice(EXTERNAL, 0, c),), h, w, axes)
    if data.axes is None and data.shape == (c, h, w):
        data = replace(data, axes=axes)
    axes = known_axes(data)
    if data.sizes != shape or any(factor.dim != "C" for factor in axes[1]) or data.k != c:
        expected = f"{c} channels of {' x '.join(map(str, spatial))}"
        raise InputError("", expected, f"{data.shape} along {axes}")
    whole = (full("H", data.h), full("W", data.w), ())
    if any(axis not in whole for axis in axes[2:]):
        raise InputError("", "whole rows and columns along the axes behind the channels", axes[2:])
    return data


def spatial_dims(image: Data) -> list[Dim]:
    """Along which dim of its box every spatial axis goes; one of length 1 along one that is left."""
    axes = known_axes(image)[2:]
    stated = [axis[0].dim if axis else "" for axis in axes]
    left: list[Dim] = [dim for dim in ("H", "W") if dim not in stated]
    return [dim or left.pop(0) for dim in stated]


def full(dim: Dim, size: int) -> Axis:
    """A whole dim of a box as an axis."""
    return (Factor(dim, size, 1),) if size > 1 else ()


def external(shape: Shape) -> Data:
    """The network's input: an image (samples, channels, rows, columns), or (samples, rows, channels).

    Where it lies in DRAM nobody says, so its axes may be taken as any other shape's of as many elements.
    """
    if len(shape) == 4 and shape[0] == 1:
        return image((Slice(EXTERNAL, 0, shape[1]),), *shape[2:])
    k = shape[-1] if shape else 1
    rows = prod(shape) // max(k, 1)
    data = rows_of_channels((Slice(EXTERNAL, 0, k),), max(rows, 1))
    return reshaped(data, shape) if 0 not in shape else data


# ---- views


def reshaped(data: Data, shape: Shape) -> Data:
    """The same elements in the same order under other axes; InputError where an axis would mix dims."""
    flat = merged(factor for axis in known_axes(data) for factor in axis)
    axes = _regrouped(flat, shape)
    if axes is None:
        data = in_order(data)
        axes = _regrouped(merged(factor for axis in known_axes(data) for factor in axis), shape)
    if axes is None:
        found = f"{data.sizes} as {shape}"
        raise InputError("", "a reshape that keeps rows and channels apart", found)
    return replace(data, axes=axes)


def _regrouped(flat: Axis, shape: Shape) -> tuple[Axis, ...] | None:
    """The factors in groups of the lengths in ``shape``, split where need be; None if they do not fit."""
    left, axes = list(flat), list[Axis]()
    for length in shape:
        axis: list[Factor] = []
        while length > 1 and left:
            dim, size, stride = left.pop(0)
            if length % size == 0:
                axis.append(Factor(dim, size, stride))
                length //= size
            elif size % length == 0:
                inner = size // length
                axis.append(Factor(dim, length, stride * inner))
                left.insert(0, Factor(dim, inner, stride))
                length = 1
            else:
                return None
        if length != 1:
            return None
        axes.append(tuple(axis))
    return None if left else tuple(axes)


def merged(factors: Iterable[Factor]) -> Axis:
    """Neighbouring factors that step through one dim in one go as one factor."""
    found: list[Factor] = []
    for factor in factors:
        last = found[-1] if found else None
        if last and last.dim == factor.dim and last.stride == factor.stride * factor.size * bool(factor.dim):
            found[-1] = Factor(factor.dim, last.size * factor.size, factor.stride)
        elif factor.size > 1:
            found.append(factor)
    return tuple(found)


def permuted(data: Data, order: Sequence[int]) -> Data:
    """The axes in another order."""
    axes = known_axes(data)
    if sorted(order) != list(range(len(axes))):
        raise InputError("", f"each of {len(axes)} axes once", tuple(order))
    return replace(data, axes=tuple(axes[i] for i in order))


def expanded(data: Data, shape: Shape) -> Data:
    """Axes of length 1, and new ones in front, with the same elements so many times."""
    axes = known_axes(data)
    if len(shape) < len(axes):
        raise InputError("", f"a shape of at least {len(axes)} axes", shape)
    axes = (((),) * (len(shape) - len(axes))) + axes
    found = [
        (Factor("", length, 0),) if not axis and length > 1 else axis
        for axis, length in zip(axes, shape, strict=True)
    ]
    return replace(data, axes=tuple(found))


def repeated(data: Data, repeats: Sequence[int]) -> Data:
    """Every axis so many times in a row, as ONNX's Tile has it."""
    axes = known_axes(data)
    if len(repeats) != len(axes):
        raise InputError("", f"{len(axes)} numbers of repeats", tuple(repeats))
    found = zip(axes, repeats, strict=True)
    return replace(data, axes=tuple(merged((Factor("", times, 0), *axis)) for axis, times in found))


# ---- the order of channels


def in_order(data: Data) -> Data:
    """The box with its channels in the order in which the axes, row-major, step through them."""
    return with_order(data, [factor for axis in known_axes(data) for factor in axis if factor.dim == "C"])


def in_order_if_known(data: Data) -> Data:
    """The same, or as it is where the file folds away how the axes lie."""
    return data if data.axes is None else in_order(data)


def with_order(data: Data, order: Sequence[Factor]) -> Data:
    """The box with its channels in the order of ``order``: all channel factors of its axes, major first."""
    strides = [prod(factor.size for factor in order[i + 1 :]) for i in range(len(order))]
    if [factor.stride for factor in order] == strides:
        return data
    moved = {old: Factor("C", old.size, stride) for old, stride in zip(order, strides, strict=True)}
    axes = tuple(merged(moved.get(factor, factor) for factor in axis) for axis in known_axes(data))
    return replace(data, parts=picked(data.parts, offsets(order)), axes=axes)


def offsets(factors: Sequence[Factor]) -> list[int]:
    """Where the steps of ``factors``, major first, lead to."""
    places = np.zeros(1, dtype=np.int64)
    for factor in factors:
        places = (places[:, None] + factor.stride * np.arange(factor.size)).ravel()
    return [int(place) for place in places]


# ---- parts of a value


def selected(data: Data, axis: int, indices: Sequence[int]) -> Data:
    """The elements at ``indices`` of an axis of channels, or the first so many of one of rows or columns.

    InputError for rows or columns from elsewhere: see :meth:`Builder.cropped`.
    """
    axes = known_axes(data)
    steps = axes[axis]
    if list(indices) == list(range(_length(steps))):
        return data
    if not any(factor.dim for factor in steps):
        return _with_axis(data, axis, merged([Factor("", len(indices), 0)]))
    if all(factor.dim == "C" for factor in steps):
        return _selected_channels(data, axis, indices)
    inner = _length(steps[1:])
    if len(steps) > 1 and len(indices) % inner == 0:
        outer = [indices[i] // inner for i in range(0, len(indices), inner)]
        if list(indices) == [i * inner + j for i in outer for j in range(inner)]:
            lengths = [_length(one) for one in axes]
            apart = reshaped(data, (*lengths[:axis], steps[0].size, inner, *lengths[axis + 1 :]))
            taken = selected(apart, axis, outer)
            return reshaped(taken, (*lengths[:axis], len(indices), *lengths[axis + 1 :]))
    return _leading(data, axis, indices)


def _with_axis(data: Data, axis: int, steps: Axis) -> Data:
    axes = known_axes(data)
    return replace(data, axes=(*axes[:axis], steps, *axes[axis + 1 :]))


def _selected_channels(data: Data, axis: int, indices: Sequence[int]) -> Data:
    axes = known_axes(data)
    places = offsets(axes[axis])
    rest = [factor for i, one in enumerate(axes) if i != axis for factor in one if factor.dim == "C"]
    inner = offsets(rest)
    strides = [prod(factor.size for factor in rest[i + 1 :]) for i in range(len(rest))]
    moved = {old: Factor("C", old.size, stride) for old, stride in zip(rest, strides, strict=True)}
    found = [merged(moved.get(factor, factor) for factor in one) for one in axes]
    found[axis] = merged([Factor("C", len(indices), len(inner))])
    chosen = [places[i] + place for i, place in combinations(indices, inner)]
    parts = data.parts if chosen == list(range(data.k)) else picked(data.parts, chosen)
    return replace(data, parts=parts, axes=tuple(found))


def _leading(data: Data, axis: int, indices: Sequence[int]) -> Data:
    """The first rows or columns of the box, where the axis is all of them or the major factor of them."""
    steps, count = known_axes(data)[axis], len(indices)
    if len(steps) == 1 and list(indices) == list(range(count)) and not any(data.padding):
        dim, size, stride = steps[0]
        found = _with_axis(data, axis, merged([Factor(dim, count, stride)]))
        if dim == "H" and stride * size == data.h:
            return replace(found, h=count * stride)
        if dim == "W" and stride * size == data.w:
            return replace(found, w=count * stride)
    raise InputError("", "some channels, or the first rows or columns", f"{list(indices)} of {steps}")


def side_by_side(operands: Sequence[Data], axis: int) -> Data:
    """Values one after the other along an axis of channels; InputError where their other axes differ."""
    first = [_selected_channels(data, axis, range(_length(known_axes(data)[axis]))) for data in operands]
    counts = [_length(known_axes(data)[axis]) for data in operands]
    inner = first[0].k // counts[0]
    total = _with_axis(first[0], axis, merged([Factor("C", sum(counts), inner)]))
    for data in first[1:]:
        same = _with_axis(data, axis, ()).axes == _with_axis(first[0], axis, ()).axes
        if not same or (data.h, data.w, data.padding) != (total.h, total.w, total.padding):
            raise InputError("", "operands whose other axes lie alike", [one.shape for one in operands])
    return replace(total, parts=joined(part for data in first for part in data.parts))
