"""Where the elements of a value lie: its axes over the channels, rows and columns that layers compute.

A layer computes a box of C channels x H rows x W columns. A value of the network is such a box, perhaps of
several layers' channels side by side, whose elements an operator sees along axes of its own: an image has
the axes (1, C, H, W), heads of attention (1, heads, rows, channels of a head). Every axis has digits
(:mod:`costmodel.workload.digits`), each of which steps through one dim of the box; views only change digits.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import product as combinations
from math import prod

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.drafts import EXTERNAL, Parts, Slice, channels, joined, picked
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


@dataclass(frozen=True)
class Data:
    """A value of the network: ``h`` rows and ``w`` columns of the channels ``parts``, seen along ``axes``.

    Every element of the box is one of the value's, once, but for digits that do not move, which have no dim.
    ``axes`` are None where the file folds views away and shapes alone do not say which axis is which. A
    ``statistic`` is one number for each position, of all channels together.

    ``padding`` are the rows of constants above and below, then the columns left and right of the box, that
    the value has besides; a negative number says how many rows or columns of the box the value leaves out.
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
            length_of(axis) + sum(self.padding[2 * i] + self.padding[2 * i + 1] for i in _padded(self, axis))
            for axis in known_axes(self)
        )

    @property
    def repeats(self) -> bool:
        """Whether some axis has the same elements several times (what Expand makes)."""
        return any(not digit.dim for axis in self.axes or () for digit in axis)


def _padded(data: Data, axis: Digits) -> tuple[int, ...]:
    """Whether the padding of rows (0) or of columns (1) lengthens the axis."""
    return tuple(i for i, dim in enumerate("HW") if any(digit.dim == dim for digit in axis))


def known_axes(data: Data) -> tuple[Digits, ...]:
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
    if data.sizes != shape or any(digit.dim != "C" for digit in axes[1]) or data.k != c:
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


def full(dim: Dim, size: int) -> Digits:
    """A whole dim of a box as an axis."""
    return (Digit(size, 1, dim),) if size > 1 else ()


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
    """Axes of length 1, and new ones in front, with the same elements so many times."""
    axes = known_axes(data)
    if len(shape) < len(axes):
        raise InputError("", f"a shape of at least {len(axes)} axes", shape)
    return replace(data, axes=broadcast(axes, shape))


def tiled(data: Data, repeats: Sequence[int]) -> Data:
    """Every axis so many times in a row, as ONNX's Tile has it."""
    axes = known_axes(data)
    if len(repeats) != len(axes):
        raise InputError("", f"{len(axes)} numbers of repeats", tuple(repeats))
    found = zip(axes, repeats, strict=True)
    return replace(data, axes=tuple(repeated(axis, times) for axis, times in found))


# ---- the order of channels


def in_order(data: Data) -> Data:
    """The box with its channels in the order in which the axes, row-major, step through them."""
    return with_order(data, [digit for axis in known_axes(data) for digit in axis if digit.dim == "C"])


def in_order_if_known(data: Data) -> Data:
    """The same, or as it is where the file folds away how the axes lie."""
    return data if data.axes is None else in_order(data)


def with_order(data: Data, order: Sequence[Digit]) -> Data:
    """The box with its channels in the order of ``order``: all channel digits of its axes, major first."""
    strides = [prod(digit.size for digit in order[i + 1 :]) for i in range(len(order))]
    if [digit.stride for digit in order] == strides:
        return data
    moved = {old: Digit(old.size, stride, "C") for old, stride in zip(order, strides, strict=True)}
    axes = tuple(merged(moved.get(digit, digit) for digit in axis) for axis in known_axes(data))
    return replace(data, parts=picked(data.parts, offsets(order)), axes=axes)


# ---- parts of a value


def selected(data: Data, axis: int, indices: Sequence[int]) -> Data:
    """The elements at ``indices`` of an axis of channels, or the first so many of one of rows or columns.

    InputError for rows or columns from elsewhere: see :meth:`Builder.cropped`.
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
    """The first rows or columns of the box, where the axis is all of them or the major digit of them."""
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
