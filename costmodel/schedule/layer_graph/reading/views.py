"""Views of a value: reshapes, transposes, slices and the like, by the attributes that the node states.

ONNX and PyTorch state the same view by different attributes; every function knows both. Where a node states
neither, the view is still known if the shapes allow only one; else it is refused, naming what to state.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import combinations
from math import prod
from typing import NamedTuple

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.reading.data import Builder
from costmodel.schedule.layer_graph.reading.layout import (
    Data,
    expanded,
    external,
    known_axes,
    permuted,
    reshaped,
    tiled,
)
from costmodel.workload.attributes import Attributes
from costmodel.workload.digits import Digit, Shape
from costmodel.workload.operators import OperatorKind


class ViewNode(NamedTuple):
    """A node that is a view, with the shape that it reads (``read``) and that of its result (``made``)."""

    name: str
    kind: OperatorKind
    attributes: Attributes
    read: Shape
    made: Shape


def viewed(builder: Builder, data: Data, view: ViewNode) -> Data:
    """The result of a view of ``data``; InputError where the node does not say enough."""
    operator = view.kind.name
    if operator in _SAME or (view.read == view.made and operator not in _MOVING):
        return data
    # the network's input may lie in any way, so its views lie as an input of that shape does
    if data.external and not data.repeats and operator not in ("expand", "pad"):
        return external(view.made)
    if operator == "pad":
        return _padded(builder, data, view)
    data = builder.plain(view.name, data)
    if operator in _RESHAPES:
        return reshaped(data, view.made)
    if operator == "expand":
        return expanded(data, view.made)
    if operator == "repeat":
        return _tiled(data, view)
    if operator in _PERMUTES:
        return permuted(data, _permutation(view))
    raise InputError("", "a view whose meaning is known here", operator)


_SAME = ("identity", "dropout")
_RESHAPES = ("reshape", "flatten", "squeeze", "unsqueeze")
_PERMUTES = ("permute", "transpose", "t")
_MOVING = (*_PERMUTES, "pad")
"""Views that may change where elements are without changing the shape."""


def _permutation(view: ViewNode) -> tuple[int, ...]:
    """For each axis of the result the axis of the input that it is."""
    attributes, axes, operator = view.attributes, len(view.read), view.kind.name
    key = "perm" if "perm" in attributes else "dims"
    if operator == "permute" and key in attributes:
        return _axes(attributes.numbers(key), axes)
    order = list(range(axes))
    if operator == "transpose" and "dim0" in attributes:
        first, second = (_axis(attributes.number(key), axes) for key in ("dim0", "dim1"))
        order[first], order[second] = second, first
        return tuple(order)
    if operator == "t":
        return tuple(reversed(order))
    return _only_permutation(view)


def _only_permutation(view: ViewNode) -> tuple[int, ...]:
    """The permutation that shapes prove. They do if all lengths above 1 are different."""
    lengths = [length for length in view.read if length > 1]
    if sorted(view.read) != sorted(view.made) or len(set(lengths)) != len(lengths):
        raise _unknown("dims", f"{view.read} -> {view.made}")
    left = list(range(len(view.read)))
    order = []
    for length in view.made:
        order.append(next(i for i in left if view.read[i] == length))
        left.remove(order[-1])
    return tuple(order)


def _unknown(key: str, found: object) -> InputError:
    """The error for a view whose shapes do not prove what its attribute ``key`` would say."""
    remedy = f"State {key} among the node's attributes"
    return InputError(
        "", "attributes that say which axes, or which part of its input, are meant", found, remedy, key=key
    )


def _axis(axis: int, axes: int) -> int:
    """An axis counted from the front, which may be stated from the end (negative)."""
    if not -axes <= axis < axes:
        raise InputError("", f"an axis of {axes}", axis)
    return axis % axes


def _axes(numbers: Sequence[int], axes: int) -> tuple[int, ...]:
    return tuple(_axis(number, axes) for number in numbers)


def _tiled(data: Data, view: ViewNode) -> Data:
    """Every axis repeated as a whole; more repeats than axes add axes in front, as in PyTorch."""
    repeats = view.attributes.numbers("repeats" if "repeats" in view.attributes else "sizes")
    missing = len(repeats) - len(known_axes(data))
    if missing > 0:
        data = reshaped(data, (*(1,) * missing, *view.read))
    return tiled(data, repeats)


# ---- padding


def _padded(builder: Builder, data: Data, view: ViewNode) -> Data:
    """The value with constants around its rows and columns, or with less of them where padding is negative.

    No layer writes the constants: they become the padding of the windows that read the value.
    """
    attributes, axes = view.attributes, len(view.read)
    if (mode := attributes.text("mode", "constant")) != "constant":
        raise InputError("", "padding with a constant", mode, key="mode")
    before, behind = [0] * axes, [0] * axes
    if "pads" in attributes:  # as ONNX states them: all before the axes, then all behind them
        pads = attributes.numbers("pads")
        padded = _axes(attributes.numbers("axes", tuple(range(axes))), axes)
        pairs = list(zip(pads[: len(padded)], pads[len(padded) :], strict=False))
    else:  # as PyTorch does: the last axis first, before and behind it
        pads = attributes.numbers("pad")
        padded = tuple(range(axes - 1, axes - 1 - len(pads) // 2, -1))
        pairs = list(zip(pads[::2], pads[1::2], strict=False))
    if len(pads) != 2 * len(padded) or len(padded) > axes:
        raise InputError("", "two numbers for each axis that is padded", pads, key="pads")
    for axis, (first, last) in zip(padded, pairs, strict=True):
        before[axis], behind[axis] = first, last
    if not any((*before, *behind)):
        return data
    if len(view.made) != axes:
        raise InputError("", f"a result of {axes} axes, as its input", view.made)
    for axis, length in enumerate(view.read):
        if length + before[axis] + behind[axis] != view.made[axis]:
            found = f"{length} padded by {before[axis]} and {behind[axis]}"
            remedy = "Where a slice is folded into the padding, let the padding be negative there"
            raise InputError("", f"{view.made[axis]} along axis {axis}", found, remedy, key="pads")
    if min(data.padding) < 0:
        data = builder.plain(view.name, data)
    kept = [
        (axis, range(max(-first, 0), length + min(last, 0)))
        for axis, (length, first, last) in enumerate(zip(view.read, before, behind, strict=True))
        if min(first, last) < 0
    ]
    if kept:
        data = builder.plain(view.name, data)
        data = builder.part(f"{view.name}.cut", data, kept, waits=axes == 4)
    for axis in range(axes):
        data = _with_padding(data, axis, max(before[axis], 0), max(behind[axis], 0))
    return data


def _with_padding(data: Data, axis: int, before: int, behind: int) -> Data:
    """The value with more padding before and behind one axis, which must be all rows or all columns."""
    if not before and not behind:
        return data
    above, below, left, right = data.padding
    steps = known_axes(data)[axis]
    if steps == (Digit(data.h, 1, "H"),):
        return replace(data, padding=(above + before, below + behind, left, right))
    if steps == (Digit(data.w, 1, "W"),):
        return replace(data, padding=(above, below, left + before, right + behind))
    raise InputError("", "constants around rows or columns", f"around axis {axis} of {data.shape}")


# ---- parts


def part(builder: Builder, data: Data, view: ViewNode) -> Data:
    """The part of a value that a slice, a select or a gather with constant indices takes.

    A slice of an image (four axes) waits for the windows that read it, see :meth:`Builder.part`.
    """
    if data.external and not data.repeats:
        return external(view.made)
    is_slice = view.kind.name == "slice"
    if view.read == view.made and is_slice and not _turns(view.attributes):
        return data
    data = builder.plain(view.name, data)
    if is_slice:
        return builder.part(view.name, data, _chosen(view), waits=len(view.made) == 4)
    return reshaped(builder.part(view.name, data, _chosen(view)), view.made)


def _turns(attributes: Attributes) -> bool:
    """Whether a slice has a negative step, which reverses an axis though the shape stays."""
    return any(step < 0 for step in attributes.numbers("steps", ()))


def _chosen(view: ViewNode) -> list[tuple[int, list[int]]]:
    """The chosen indices of every axis that the node cuts, as (axis, indices)."""
    attributes, axes, operator = view.attributes, len(view.read), view.kind.name
    if operator == "slice" and "starts" in attributes:  # as ONNX states it: several axes at once
        starts, ends = attributes.numbers("starts"), attributes.numbers("ends")
        along = _axes(attributes.numbers("axes", tuple(range(len(starts)))), axes)
        steps = attributes.numbers("steps", (1,) * len(starts))
        if not len(starts) == len(ends) == len(along) == len(steps):
            raise InputError("", "a start, an end and a step for each axis", (starts, ends, along, steps))
        bounds = zip(along, starts, ends, steps, strict=True)
        return [(axis, _indices(view.read[axis], *three)) for axis, *three in bounds]
    if operator == "slice":
        axis = _axis(_stated(attributes, "dim", view), axes)
        start, end = attributes.number("start", 0), attributes.number("end", view.read[axis])
        return [(axis, _indices(view.read[axis], start, end, attributes.number("step", 1)))]
    if operator == "select":
        axis = _axis(_stated(attributes, "dim", view), axes)
        return [(axis, [_axis(_stated(attributes, "index", view), view.read[axis])])]
    axis = _axis(attributes.number("axis", attributes.number("dim", 0)), axes)
    if operator != "index_select" or attributes.get("indices", attributes.get("index")) is None:
        raise _unknown("indices", f"{view.read} -> {view.made}")
    key = "indices" if "indices" in attributes else "index"
    return [(axis, [_axis(number, view.read[axis]) for number in attributes.flat(key)])]


def _stated(attributes: Attributes, key: str, view: ViewNode) -> int:
    if key not in attributes:
        raise _unknown(key, f"{view.read} -> {view.made}")
    return attributes.number(key)


def _indices(length: int, start: int, end: int, step: int) -> list[int]:
    """The indices of a slice, by Python's rules for negative bounds and for bounds beyond the axis."""
    if step == 0:
        raise InputError("", "steps other than 0", step, key="steps")
    if step < 0:  # an end below -length means "down to the first", which Python writes as None
        return list(range(length))[start : None if end < -length else end : step]
    return list(range(length))[start:end:step]


def split(builder: Builder, data: Data, view: ViewNode, shapes: Sequence[Shape]) -> list[Data]:
    """The parts of a split, whose results have ``shapes``; the lengths before a part say where it begins.

    The axis is stated, or the only one along which the parts are together as long as the input.
    """
    axis = _split_axis(view, shapes)
    # parts without the axis (unbind) have length 1 of it each
    lengths = [view.read[axis] // len(shapes) if len(one) < len(view.read) else one[axis] for one in shapes]
    if sum(lengths) != view.read[axis]:
        raise InputError("", f"parts that are {view.read[axis]} long together", lengths, key="split")
    found, first = [], 0
    data = data if data.external else builder.plain(view.name, data)
    for i, (shape, length) in enumerate(zip(shapes, lengths, strict=True)):
        if data.external and not data.repeats:
            found.append(external(shape))
        else:
            taken = builder.part(f"{view.name}.{i}", data, [(axis, range(first, first + length))])
            found.append(reshaped(taken, shape))
        first += length
    return found


def _split_axis(view: ViewNode, shapes: Sequence[Shape]) -> int:
    for key in ("axis", "dim"):
        if key in view.attributes:
            return _axis(view.attributes.number(key), len(view.read))
    found = [
        axis
        for axis in range(len(view.read))
        if all(len(one) == len(view.read) for one in shapes)
        and sum(one[axis] for one in shapes) == view.read[axis]
        and all(one[:axis] == view.read[:axis] and one[axis + 1 :] == view.read[axis + 1 :] for one in shapes)
    ]
    if len(found) != 1:
        raise _unknown("dim", f"{view.read} -> {list(shapes)}")
    return found[0]


# ---- axes that operators state


def concatenation_axis(attributes: Attributes, shapes: Sequence[Shape], made: Shape) -> int:
    """The axis of a concatenation: stated, or the only one that the shapes allow."""
    for key in ("axis", "dim"):
        if key in attributes:
            return _axis(attributes.number(key), len(made))
    found = [
        axis
        for axis in range(len(made))
        if all(len(one) == len(made) for one in shapes)
        and sum(one[axis] for one in shapes) == made[axis]
        and all(one[:axis] == made[:axis] and one[axis + 1 :] == made[axis + 1 :] for one in shapes)
    ]
    if len(found) != 1:
        raise _unknown("dim", f"{list(shapes)} -> {made}")
    return found[0]


def reduced_axes(attributes: Attributes, read: Shape, made: Shape) -> tuple[int, ...]:
    """The axes over which a reduction goes: stated, or the only ones that the shapes allow.

    An empty list stands for all axes, unless the node says that it stands for none (ONNX).
    """
    for key in ("axes", "axis", "dim"):
        if key in attributes:
            stated = attributes.numbers(key)
            none = not stated and attributes.flag("noop_with_empty_axes")
            return () if none else _axes(stated, len(read)) or tuple(range(len(read)))
    if prod(made) == 1:
        return tuple(range(len(read)))
    if len(read) == len(made):  # kept with length 1
        gone = tuple(
            axis for axis, (before, after) in enumerate(zip(read, made, strict=True)) if before != after
        )
        if any(made[axis] != 1 for axis in gone):
            raise _unknown("dim", f"{read} -> {made}")
        return gone
    long = [axis for axis, length in enumerate(read) if length > 1]
    found = [
        axes
        for count in range(1, len(long) + 1)
        for axes in combinations(long, count)
        if _without(read, axes) == tuple(length for length in made if length > 1)
    ]
    if len(found) != 1:
        raise _unknown("dim", f"{read} -> {made}")
    return found[0]


def _without(shape: Shape, axes: Sequence[int]) -> Shape:
    """The lengths above 1 of the axes that are not among ``axes``."""
    return tuple(length for axis, length in enumerate(shape) if axis not in axes and length > 1)
