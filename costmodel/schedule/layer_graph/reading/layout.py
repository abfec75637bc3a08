"""Where the elements of a value lie: its axes over the channels, rows and columns that layers compute.

A layer computes a box of C channels x H rows x W columns. A value of the network is such a box, perhaps with
the channels of several layers side by side. Operators see its elements along axes of their own: an image
has the axes (1, C, H, W), heads of attention have (1, heads, rows, channels of a head). Every axis is a
number of mixed radix (:mod:`costmodel.workload.digits`); a step of a digit moves along one dim of the box. A
view changes digits and moves no data: with 64 channels a head, 12 heads are the digit (12, 64, "C") and the
channels of a head the digit (64, 1, "C").
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations
from math import prod

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.reading.drafts import EXTERNAL, Parts, Slice, channels, joined, picked
from costmodel.workload.digits import (
    Digit,
    Digits,
    Dim,
    Shape,
    broadcast,
    length_of,
    merged,
    offsets,
    regrouped,
    repeated,
)

NO_PADDING = (0, 0, 0, 0)
"""Rows above and below the box, columns left and right of it."""


@dataclass(frozen=True)
class Data:
    """A value of the network: ``h`` rows and ``w`` columns of the channels ``parts``, seen along ``axes``.

    The axes reach every element of the box once; a digit without a dim does not move, and shows the same
    elements again. ``axes`` are None where the file folds views away and shapes alone do not say which axis
    is which. A ``statistic`` is one number for each row and column, computed from all channels; ``parts`` are
    then the channels that it is computed from.

    ``padding`` are rows of constants above and below the box, then columns left and right of it, which belong
    to the value but which no layer computes: the windows that read the value add them to their own padding. A
    negative number counts rows or columns of the box that are not part of the value.
    """

    parts: Parts
    h: int
    w: int
    axes: tuple[Digits, ...] | None = None
    statistic: bool = False
    padding: tuple[int, int, int, int] = NO_PADDING

    @property
    def k(self) -> int:
        return channels(self.parts)

    @property
    def elements(self) -> int:
        """Elements of the box. Those that an axis repeats count once, and padding does not count."""
        return self.k * self.h * self.w

    @property
    def external(self) -> bool:
        """Whether it is the network's input, or follows from it without any layer."""
        return all(part.draft == EXTERNAL for part in self.parts)

    @property
    def shape(self) -> tuple[int, int, int]:
        return self.k, self.h, self.w

    @property
    def box(self) -> tuple[int, int]:
        """Rows and columns of the box."""
        return self.h, self.w

    @property
    def sizes(self) -> Shape:
        """The lengths of the axes, as the network has them; InputError where they are not known."""
        return tuple(
            length_of(axis) + sum(self.padding[2 * i] + self.padding[2 * i + 1] for i in _padded(self, axis))
            for axis in known_axes(self)
        )

    @property
    def repeats(self) -> bool:
        """Whether some axis has the same elements several times (what Expand makes)."""
        return any(not digit.dim for axis in self.axes or () for digit in axis)


def _padded(data: Data, axis: Digits) -> tuple[int, ...]:
    """By which paddings the axis is lengthened: that of rows (0) where it steps through H, of columns (1)
    where it steps through W.
    """
    return tuple(i for i, dim in enumerate("HW") if any(digit.dim == dim for digit in axis))


def known_axes(data: Data) -> tuple[Digits, ...]:
    """The axes of a value; InputError where the file has folded away how they lie."""
    if data.axes is None:
        remedy = "Export the graph with its views, or state the axes"
        raise InputError("", "an operand whose axes are known", "views that the file folds away", remedy)
    return data.axes


def image(parts: Parts, h: int, w: int) -> Data:
    """A box as an image, with the axes (1, channels, rows, columns)."""
    return Data(parts, h, w, ((), full("C", channels(parts)), full("H", h), full("W", w)))


def rows_of_channels(parts: Parts, h: int, w: int = 1) -> Data:
    """A box as a sequence, with the axes (1, positions, channels); rows and columns are the positions."""
    return Data(parts, h, w, ((), (*full("H", h), *full("W", w)), full("C", channels(parts))))


def as_image(data: Data, shape: Shape) -> Data:
    """The operand as a window reads it, of ``shape`` (1, channels, rows, columns) or (1, channels, rows).

    InputError where its channels are not those of the box, or its rows and columns not whole dims of it.
    """
    c, spatial = shape[1], shape[2:]
    h, w = (*spatial, 1)[:2]
    axes = ((), full("C", c), full("H", h), full("W", w))[: len(shape)]
    if data.external and not data.repeats and not any(data.padding):
        return Data((Slice(EXTERNAL, 0, c),), h, w, axes)
    if data.axes is None and data.shape == (c, h, w):
        data = replace(data, axes=axes)
    axes = known_axes(data)
    if data.sizes != shape or any(digit.dim != "C" for digit in axes[1]) or data.k != c:
        expected = f"{c} channels of {' x '.join(map(str, spatial))}"
        raise InputError("", expected, f"{data.shape} along {axes}")
    whole = (full("H", data.h), full("W", data.w), ())
    if any(axis not in whole for axis in axes[2:]):
        raise InputError("", "whole rows and columns along the axes behind the channels", axes[2:])
    return data


def spatial_dims(image: Data) -> list[Dim]:
    """The dim of the box (H or W) along which each spatial axis runs.

    An axis of length 1 has no digit that says so: it takes the first dim that no other axis has.
    """
    axes = known_axes(image)[2:]
    stated = [axis[0].dim if axis else "" for axis in axes]
    left: list[Dim] = [dim for dim in ("H", "W") if dim not in stated]
    return [dim or left.pop(0) for dim in stated]


def full(dim: Dim, size: int) -> Digits:
    """The axis that runs along a whole dim of a box, of ``size`` channels, rows or columns."""
    return (Digit(size, 1, dim),) if size > 1 else ()


def external(shape: Shape) -> Data:
    """The network's input: an image (samples, channels, rows, columns), or (samples, rows, channels).

    No file says how it lies in DRAM, so any other shape with as many elements may be assumed later.
    """
    if len(shape) == 4 and shape[0] == 1:
        return image((Slice(EXTERNAL, 0, shape[1]),), *shape[2:])
    k = shape[-1] if shape else 1
    rows = prod(shape) // max(k, 1)
    data = rows_of_channels((Slice(EXTERNAL, 0, k),), max(rows, 1))
    return reshaped(data, shape) if 0 not in shape else data


# ---- views


def reshaped(data: Data, shape: Shape) -> Data:
    """The same elements in the same row-major order along axes of the lengths in ``shape``.

    InputError where an axis would need a part of a digit that does not divide it, even with the channels of
    the box in the order of the axes.
    """
    flat = merged(digit for axis in known_axes(data) for digit in axis)
    axes = regrouped(flat, shape)
    if axes is None:
        data = in_order(data)
        axes = regrouped(merged(digit for axis in known_axes(data) for digit in axis), shape)
    if axes is None:
        found = f"{data.sizes} as {shape}"
        raise InputError("", "a reshape that keeps rows and channels apart", found)
    return replace(data, axes=axes)


def permuted(data: Data, order: Sequence[int]) -> Data:
    """The axes in another order."""
    axes = known_axes(data)
    if sorted(order) != list(range(len(axes))):
        raise InputError("", f"each of {len(axes)} axes once", tuple(order))
    return replace(data, axes=tuple(axes[i] for i in order))


def expanded(data: Data, shape: Shape) -> Data:
    """The value broadcast to ``shape``: axes of length 1, and new ones in front, repeat its elements."""
    axes = known_axes(data)
    if len(shape) < len(axes):
        raise InputError("", f"a shape of at least {len(axes)} axes", shape)
    return replace(data, axes=broadcast(axes, shape))


def tiled(data: Data, repeats: Sequence[int]) -> Data:
    """Every axis repeated as a whole, as often as ``repeats`` says of it (ONNX's Tile)."""
    axes = known_axes(data)
    if len(repeats) != len(axes):
        raise InputError("", f"{len(axes)} numbers of repeats", tuple(repeats))
    found = zip(axes, repeats, strict=True)
    return replace(data, axes=tuple(repeated(axis, times) for axis, times in found))


# ---- the order of channels


def in_order(data: Data) -> Data:
    """The same value in a box whose channels are in the order in which its axes (row-major) read them."""
    return with_order(data, [digit for axis in known_axes(data) for digit in axis if digit.dim == "C"])


def in_order_if_known(data: Data) -> Data:
    """As :func:`in_order`; a value whose axes are not known stays as it is."""
    return data if data.axes is None else in_order(data)


def with_order(data: Data, order: Sequence[Digit]) -> Data:
    """The same value in a box whose channels are in another order.

    ``order`` are all channel digits of its axes, the slowest of the new order first.
    """
    strides = [prod(digit.size for digit in order[i + 1 :]) for i in range(len(order))]
    if [digit.stride for digit in order] == strides:
        return data
    moved = {old: Digit(old.size, stride, "C") for old, stride in zip(order, strides, strict=True)}
    axes = tuple(merged(moved.get(digit, digit) for digit in axis) for axis in known_axes(data))
    return replace(data, parts=picked(data.parts, offsets(order)), axes=axes)


def _with_channels_row_major(axes: Sequence[Digits]) -> tuple[Digits, ...]:
    """The axes of a box with a channel of its own for each position of all that are no rows or columns.

    Its channels are in the order in which the axes read them; what an axis repeats has several of them.
    """
    step = prod(digit.size for axis in axes for digit in axis if digit.dim in ("C", ""))
    found = list[Digits]()
    for axis in axes:
        digits = list[Digit]()
        for digit in axis:
            if digit.dim in ("C", ""):
                step //= digit.size
                digit = Digit(digit.size, step, "C")
            digits.append(digit)
        found.append(merged(digits))
    return tuple(found)


def listed_for_each(data: Data) -> Data:
    """The value with the channels that an axis repeats listed again for each of its positions.

    Whoever reads it reads such channels several times.
    """
    if not data.repeats:
        return data
    axes = known_axes(data)
    order = [digit for axis in axes for digit in axis if digit.dim in ("C", "")]
    return replace(data, parts=picked(data.parts, offsets(order)), axes=_with_channels_row_major(axes))


# ---- parts of a value


def selected(data: Data, axis: int, indices: Sequence[int]) -> Data:
    """The elements at ``indices`` of an axis: any of an axis of channels, the first ones of rows or columns.

    InputError for other rows or columns, which need a layer that copies them: see :meth:`Builder.part`.
    """
    axes = known_axes(data)
    steps = axes[axis]
    if list(indices) == list(range(length_of(steps))):
        return data
    if not any(digit.dim for digit in steps):
        return _with_axis(data, axis, merged([Digit(len(indices), 0, "")]))
    if all(digit.dim == "C" for digit in steps):
        return _selected_channels(data, axis, indices)
    inner = length_of(steps[1:])
    # An axis over several dims, of which whole steps of the slowest digit are chosen: choose in that digit.
    if len(steps) > 1 and len(indices) % inner == 0:
        outer = [indices[i] // inner for i in range(0, len(indices), inner)]
        if list(indices) == [i * inner + j for i in outer for j in range(inner)]:
            lengths = [length_of(one) for one in axes]
            apart = reshaped(data, (*lengths[:axis], steps[0].size, inner, *lengths[axis + 1 :]))
            taken = selected(apart, axis, outer)
            return reshaped(taken, (*lengths[:axis], len(indices), *lengths[axis + 1 :]))
    return _leading(data, axis, indices)


def _with_axis(data: Data, axis: int, steps: Digits) -> Data:
    axes = known_axes(data)
    return replace(data, axes=(*axes[:axis], steps, *axes[axis + 1 :]))


def _selected_channels(data: Data, axis: int, indices: Sequence[int]) -> Data:
    """The elements at ``indices`` of an axis of channels, in a box that has no other channels.

    The chosen axis is the slowest in the order of the new box's channels; all other channel digits follow.
    """
    axes = known_axes(data)
    outer = offsets(axes[axis])
    rest = [digit for i, one in enumerate(axes) if i != axis for digit in one if digit.dim == "C"]
    inner = offsets(rest)
    strides = [prod(digit.size for digit in rest[i + 1 :]) for i in range(len(rest))]
    moved = {old: Digit(old.size, stride, "C") for old, stride in zip(rest, strides, strict=True)}
    found = [merged(moved.get(digit, digit) for digit in one) for one in axes]
    found[axis] = merged([Digit(len(indices), len(inner), "C")])
    chosen = [outer[i] + offset for i, offset in combinations(indices, inner)]
    parts = data.parts if chosen == list(range(data.k)) else picked(data.parts, chosen)
    return replace(data, parts=parts, axes=tuple(found))


def _leading(data: Data, axis: int, indices: Sequence[int]) -> Data:
    """The first rows or columns of the box, where the axis is all of them or the slowest digit of them.

    The consumer then reads a smaller box out of the same layer, from its first row and column on.
    """
    steps, count = known_axes(data)[axis], len(indices)
    if len(steps) == 1 and list(indices) == list(range(count)) and not any(data.padding):
        size, stride, dim = steps[0]
        found = _with_axis(data, axis, merged([Digit(count, stride, dim)]))
        if dim == "H" and stride * size == data.h:
            return replace(found, h=count * stride)
        if dim == "W" and stride * size == data.w:
            return replace(found, w=count * stride)
    raise InputError("", "some channels, or the first rows or columns", f"{list(indices)} of {steps}")


def side_by_side(operands: Sequence[Data], axis: int) -> Data:
    """Values one after the other along an axis of channels; InputError where their other axes differ."""
    first = [_selected_channels(data, axis, range(length_of(known_axes(data)[axis]))) for data in operands]
    counts = [length_of(known_axes(data)[axis]) for data in operands]
    inner = first[0].k // counts[0]
    total = _with_axis(first[0], axis, merged([Digit(sum(counts), inner, "C")]))
    for data in first[1:]:
        same = _with_axis(data, axis, ()).axes == _with_axis(first[0], axis, ()).axes
        if not same or (data.h, data.w, data.padding) != (total.h, total.w, total.padding):
            raise InputError("", "operands whose other axes lie alike", [one.shape for one in operands])
    return replace(total, parts=joined(part for data in first for part in data.parts))
