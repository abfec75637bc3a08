"""The views that ONNX operators make of their operands: see :mod:`costmodel.workload.views`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from costmodel.errors import InputError
from costmodel.formats.onnx.constants import Constants, is_filled
from costmodel.workload.digits import Shape
from costmodel.workload.network import Node
from costmodel.workload.views import View, chained, combined, stacked, whole

_SCALING = frozenset({"DequantizeLinear", "QuantizeLinear"})
"""Operators that scale element by element; followed only where one scale holds for all elements."""


class Views:
    """The view that every tensor of a graph is, kept node by node in topological order."""

    def __init__(self, shapes: Mapping[str, Shape], constants: Constants) -> None:
        self._shapes = shapes
        self._constants = constants
        self._views: dict[str, View] = {}

    def of(self, name: str) -> View | None:
        """The view of a tensor; None where some length of its shape is not known, or is 0."""
        shape = self._shapes.get(name)
        if shape is None or not is_filled(shape):
            return None
        return self._views.get(name) or whole(name, shape)

    def add(self, node: Node) -> None:
        """Note the views that the results of ``node`` are.

        A result that is computed anew is a tensor of its own. So is one that may repeat elements in a way
        that cannot be followed, but its ``lost`` says so.
        """
        operands = [self.of(name) for name in node.inputs]
        for i, name in enumerate(node.outputs):
            shape = self._shapes.get(name, (0,))
            made = self._made(node, operands, i, shape) if is_filled(shape) else None
            if made is None or made.shape != shape:
                made = whole(name, shape, _lost(node, operands)) if is_filled(shape) else None
            if made is not None:
                self._views[name] = made

    def _made(self, node: Node, operands: Sequence[View | None], result: int, shape: Shape) -> View | None:
        if not operands or operands[0] is None:
            return None
        if node.operator in _SCALING:
            one_scale = all(view and view.shape in ((), (1,)) for view in operands[1:])
            return combined(node.outputs[result], [operands[0]], shape) if one_scale else None
        asked = _Asked(node, operands[0], tuple(view for view in operands if view), shape)
        try:
            if node.operator == "Split":
                return _piece(asked, [self._shapes.get(name, (0,)) for name in node.outputs], result)
            if result == 0 and node.operator in _VIEWS:
                return _VIEWS[node.operator](asked)
        except InputError:  # an axis or a bound that only the running network knows
            return None
        if node.kind.elements == "pointwise" and len(asked.operands) == len(operands):
            read = [self._uniform(name, view) for name, view in zip(node.inputs, asked.operands, strict=True)]
            return combined(node.outputs[result], read, shape)
        return None

    def _uniform(self, name: str, view: View) -> View:
        """The view; of a constant whose elements are all equal, that of one element repeated.

        Exporters add zeros of a larger shape to broadcast a tensor: the sum then repeats as the tensor does.
        """
        constant = self._constants.get(name)
        if constant is None or constant.size < 2 or (constant != constant.flat[0]).any():
            return view
        return whole(name, ()).expanded(view.shape)


@dataclass(frozen=True)
class _Asked:
    """A node, the view of its first operand, those of all operands that are known, and its result's shape."""

    node: Node
    first: View
    operands: tuple[View, ...]
    shape: Shape

    @property
    def axis(self) -> int:
        return self.node.attributes.number("axis", 0) % max(len(self.first.axes), 1)


def _lost(node: Node, operands: Sequence[View | None]) -> str:
    """Why the result may repeat more than is known; empty if it cannot.

    Operators that move data, and unknown ones, may keep repetitions of their operands.
    """
    if not (node.opaque or node.kind.elements != "computed" or node.operator in _SCALING):
        return ""
    if earlier := next((view.lost for view in operands if view and view.lost), ""):
        return earlier
    if node.operator in ("Shape", "Size") or not any(view and view.repeats for view in operands):
        return ""
    return _not_followed(node)


def _not_followed(node: Node) -> str:
    return f"how node {node.name} ({node.operator}) repeats elements is not followed: counted as read whole"


def _same(asked: _Asked) -> View:
    return asked.first


def _reshaped(asked: _Asked) -> View | None:
    return asked.first.reshaped(asked.shape)


def _transposed(asked: _Asked) -> View:
    backwards = tuple(range(len(asked.shape)))[::-1]
    return asked.first.transposed(asked.node.attributes.numbers("perm", backwards))


def _expanded(asked: _Asked) -> View:
    return asked.first.expanded(asked.shape)


def _tiled(asked: _Asked) -> View:
    return asked.first.tiled([new // old for new, old in zip(asked.shape, asked.first.shape, strict=True)])


def _gathered(asked: _Asked) -> View | None:
    """Elements at constant positions of one axis, in the shape that the positions have."""
    if "indices" not in asked.node.attributes:
        return None
    axis, length = asked.axis, asked.first.shape[asked.axis]
    positions = [position % length for position in asked.node.attributes.flat("indices")]
    shape = asked.shape[axis : len(asked.shape) - (len(asked.first.axes) - axis - 1)]
    if len(positions) != prod(shape):
        return None
    followed = asked.first.taken(axis, positions, shape)
    if followed is None and len(set(positions)) < len(positions):
        return whole(asked.node.outputs[0], asked.shape, _not_followed(asked.node))
    return followed


def _sliced(asked: _Asked) -> View | None:
    attributes, view = asked.node.attributes, asked.first
    starts = attributes.numbers("starts")
    axes = attributes.numbers("axes", tuple(range(len(starts))))
    steps = attributes.numbers("steps", (1,) * len(starts))
    for axis, start, step in zip(axes, starts, steps, strict=True):
        length = view.shape[axis]
        first = max(start + length, 0) if start < 0 else min(start, length if step > 0 else length - 1)
        cut = view.cut(axis % len(view.axes), first, asked.shape[axis], step)
        if cut is None:
            return None
        view = cut
    return view


def _piece(asked: _Asked, shapes: Sequence[Shape], result: int) -> View | None:
    """The result number ``result`` of a split; ``shapes`` are those of all results, which must be known."""
    axis = asked.axis
    if not all(map(is_filled, shapes)):
        return None
    start = sum(shape[axis] for shape in shapes[:result])
    return asked.first.cut(axis, start, shapes[result][axis])


def _concatenated(asked: _Asked) -> View | None:
    if len(asked.operands) != len(asked.node.inputs):
        return None
    return chained(asked.operands, asked.axis) or stacked(
        asked.node.outputs[0], asked.operands, asked.axis, asked.shape
    )


_REDUCTIONS = ["L1", "L2", "LogSum", "LogSumExp", "Max", "Mean", "Min", "Prod", "Sum", "SumSquare"]


def _row_by_row(asked: _Asked) -> View:
    """A normalisation: all elements along its axis and the axes after it are mixed, and so all different.

    The axes in front repeat as before.
    """
    axis = asked.node.attributes.number("axis", -1) % max(len(asked.first.axes), 1)
    along = whole("", asked.first.shape).axes[axis:]
    mixed = replace(asked.first, axes=(*asked.first.axes[:axis], *along))
    return combined(asked.node.outputs[0], [mixed], asked.shape)


def _rotated(asked: _Asked) -> View | None:
    """Pairs rotated by an angle for each row, of a tensor (batch, heads, rows, width).

    Samples and heads repeat as before; rows and pairs are all different.
    """
    if len(asked.first.axes) != 4:
        return None
    _, _, rows, width = whole("", asked.first.shape).axes
    mixed = replace(asked.first, axes=(*asked.first.axes[:2], rows, width))
    return combined(asked.node.outputs[0], [mixed], asked.shape)


def _reduced(asked: _Asked) -> View | None:
    """One number for all elements along the reduced axes; the other axes repeat as before."""
    attributes, rank = asked.node.attributes, len(asked.first.axes)
    axes = {axis % rank for axis in attributes.numbers("axes", tuple(range(rank)))}
    kept = tuple(() if i in axes else digits for i, digits in enumerate(asked.first.axes))
    lengths = tuple(1 if i in axes else length for i, length in enumerate(asked.first.shape))
    return combined(asked.node.outputs[0], [replace(asked.first, axes=kept)], lengths).reshaped(asked.shape)


_VIEWS: dict[str, Callable[[_Asked], View | None]] = {
    **dict.fromkeys(("Cast", "CastLike", "Dropout", "Identity"), _same),
    **dict.fromkeys(("Flatten", "Reshape", "Squeeze", "Unsqueeze"), _reshaped),
    **dict.fromkeys(("LayerNormalization", "LpNormalization", "RMSNormalization"), _row_by_row),
    **dict.fromkeys(("Hardmax", "LogSoftmax", "Softmax"), _row_by_row),
    **dict.fromkeys((f"Reduce{kind}" for kind in _REDUCTIONS), _reduced),
    "Concat": _concatenated,
    "RotaryEmbedding": _rotated,
    "Expand": _expanded,
    "Gather": _gathered,
    "Slice": _sliced,
    "Tile": _tiled,
    "Transpose": _transposed,
}
