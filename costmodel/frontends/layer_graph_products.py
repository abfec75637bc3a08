"""Convolutions, matrix products and attention as layers of a chip's schedule."""

from __future__ import annotations

from collections.abc import Sequence

from costmodel.errors import InputError
from costmodel.frontends.layer_graph_data import Builder, Data, reach
from costmodel.frontends.layer_graph_drafts import EXTERNAL, Draft, Slice, taken
from costmodel.workload import Layer, Node

_KNOWN_DIMS = frozenset("BMNKCGPQRSDT")
"""What a layer here may have: the dims of products and of convolutions of whole operands."""


def product(builder: Builder, node: Node, operands: Sequence[Data], has_weights: bool, axes: int) -> Data:
    """The layer of a node with one; its second operand is constant weights or activations.

    ``axes``: of its first operand, samples included.
    """
    (layer,) = node.layers
    if extra := sorted(layer.sizes.keys() - _KNOWN_DIMS):
        raise InputError("", "operands that repeat no element but for sharing heads", f"dims {extra}")
    if "P" in layer.sizes:
        if not has_weights:
            raise InputError("", "constant weights of a convolution", "activations")
        return _convolution(builder, node.name, layer, operands[0], axes)
    if has_weights and "B" not in layer.sizes:
        return _linear(builder, node.name, layer, operands[0])
    if has_weights:
        return _heads(builder, node.name, layer, operands[0], None)
    both = [operands[0], operands[-1]]
    return _heads(builder, node.name, layer, *_unpacked(layer, both))


def attention(builder: Builder, node: Node, operands: Sequence[Data]) -> Data:
    """Scores, softmax and weighted values of fused attention.

    Queries, keys and values come apart, as (queries, packed keys and values), or packed in one.
    """
    scores, values = node.layers
    width = scores.sizes.get("B", 1) * scores.sizes["K"]
    together = _query_heads(scores, operands[0].h * operands[0].w)
    parts = _pieces(operands[:3], (together * width, width, width))
    if len(parts) == 1:
        parts *= 3
    if len(parts) != 3 or len(operands) > 3:
        found = [data.shape for data in operands]
        raise InputError("", f"queries, keys and values of {width} channels, without a mask", found)
    made = _heads(builder, f"{node.name}.scores", scores, parts[0], parts[1], keys=True)
    made = builder.pointwise(f"{node.name}.softmax", made, foldable=False)
    return _heads(builder, f"{node.name}.values", values, made, parts[2], keys=False)


def _query_heads(layer: Layer, rows: int) -> int:
    """How many query heads of so many rows share a key-value head: their rows are together in M."""
    return layer.sizes["M"] // rows if layer.sizes["M"] % rows == 0 else 1


def _pieces(operands: Sequence[Data], widths: Sequence[int]) -> list[Data]:
    """Queries, keys and values in turn, one or several out of each operand; one alone may be all of them."""
    parts: list[Data] = []
    for data in operands:
        first = 0
        while first < data.k:
            end = first + widths[len(parts) % len(widths)]
            if end > data.k:
                raise InputError("", f"queries, keys or values of {widths} channels", data.shape)
            parts.append(data.cut(first, end))
            first = end
    return parts


def _convolution(builder: Builder, name: str, layer: Layer, data: Data, axes: int) -> Data:
    sizes = layer.sizes
    if "T" in sizes:
        raise InputError("", "one or two spatial axes", "three", key="layer")
    if sizes.get("N", 1) != 1:
        remedy = "Load it with a batch of 1: how many samples there are is the schedule's business"
        raise InputError("", "a graph for one sample", f"{sizes['N']} samples", remedy)
    groups = sizes.get("G", 1) if "K" in sizes else sizes["C"]
    k = sizes["K"] * groups if "K" in sizes else groups
    c = sizes["C"] * groups if "K" in sizes else groups
    (p, r, stride_h), (q, s, stride_w) = _axis(layer, "P", "R"), _axis(layer, "Q", "S")
    if axes == 3:  # one spatial axis: the rows, as of any sequence
        (p, r, stride_h), (q, s, stride_w) = (q, s, stride_w), (p, r, stride_h)
    if data.external:
        data = _image(data, c, axes)
    if data.k != c:
        raise InputError("", f"{c} channels", data.shape)
    (rows, above), (columns, left) = reach(p, r, stride_h, data.h), reach(q, s, stride_w, data.w)
    kind = "groupconv" if groups > 1 else "conv"
    window = (r, s, stride_h, stride_w, above, left)
    return builder.add(Draft(name, kind, k, p, q, data.parts, rows, columns, *window, groups=groups))


def _image(data: Data, c: int, axes: int) -> Data:
    """The network's input as a convolution reads it: of three axes, the channels before the rows."""
    if axes == 3 and data.k != c and data.h == c:
        return Data((Slice(EXTERNAL, 0, c),), data.k, 1)
    return data


def _axis(layer: Layer, position: str, window: str) -> tuple[int, int, int]:
    """Outputs, filter length and stride along one axis."""
    terms = next(
        dict(axis) for t in layer.tensors if t.role == "inputs" for axis in t.axes if position in dict(axis)
    )
    if layer.sizes[window] > 1 and terms[window] > 1:
        raise InputError("", "a dilation of 1", terms[window], key="dilation")
    return layer.sizes[position], layer.sizes[window], terms[position]


def _linear(builder: Builder, name: str, layer: Layer, data: Data) -> Data:
    """A product with constant weights: of every row, of the whole image, or across the rows."""
    m, n, k = (layer.sizes[dim] for dim in "MNK")
    for rows, outputs in ((m, n), (n, m)):
        if data.external and data.elements == k * rows:
            data = Data((Slice(EXTERNAL, 0, k),), rows, 1)
        if rows == 1 and data.elements == k and (data.h, data.w) != (1, 1) and data.k != k:
            return builder.add(Draft(name, "fc", outputs, 1, 1, data.parts, data.h, data.w, data.h, data.w))
        if data.k == k and data.h * data.w == rows:
            kind = "fc" if rows == 1 else "conv"
            return builder.add(Draft(name, kind, outputs, data.h, data.w, data.parts, data.h, data.w))
        if data.k == k and data.w == 1 and data.h > rows:  # only the leading rows, as of a first token
            return builder.add(Draft(name, "conv", outputs, rows, 1, data.parts, rows, 1))
        if data.k == rows and data.h == k and data.w == 1:
            turned = builder.transposed(f"{name}.transposed", data)
            return builder.add(Draft(name, "conv", outputs, turned.h, 1, turned.parts, turned.h, 1))
    raise InputError("", f"{m} rows of {k} channels", data.shape)


def _unpacked(layer: Layer, operands: Sequence[Data]) -> tuple[Data, Data]:
    """Both operands of a product, where queries, keys and values may be packed in one."""
    left, right = operands
    heads = layer.sizes.get("B", 1)
    queries, values = heads * layer.sizes["K"], heads * layer.sizes["N"]
    if left == right and left.k == 3 * queries:
        return left.cut(0, queries), left.cut(queries, 2 * queries)
    if right.k == 3 * values and right.h * right.w == layer.sizes["K"]:
        return left, right.cut(2 * values, 3 * values)
    return left, right


def _heads(
    builder: Builder, name: str, layer: Layer, left: Data, right: Data | None, keys: bool | None = None
) -> Data:
    """A product for every head: rows of ``left`` with ``right`` as weights (None: constant ones).

    ``keys``: whether channels of ``right`` are summed over; None: as the shapes have it, and where both could
    be, unless ``left`` is a product of activations itself.
    """
    sizes = layer.sizes
    heads, m, n, k = sizes.get("B", 1), sizes["M"], sizes["N"], sizes["K"]
    if left.k % (heads * k) == 0 and left.k * left.h * left.w == heads * m * k:
        # consecutive query heads share one as weights; here each has channels of its own
        m, heads = left.h * left.w, left.k // k
    if left.external and left.elements == heads * m * k:
        left = Data((Slice(EXTERNAL, 0, heads * k),), m, 1)
    if (left.k, left.h) != (heads * k, m) and (left.k, left.h) == (heads * m, k):
        left = builder.transposed(f"{name}.left", left, heads)
    if (left.k, left.h * left.w) != (heads * k, m):
        raise InputError("", f"{m} rows of {heads} x {k} channels", left.shape)
    weights = () if right is None else _weights(builder, name, (heads, n, k), (left, right), keys).parts
    kind, rows = ("groupconv" if heads > 1 else "conv"), (left.h, left.w)
    return builder.add(Draft(name, kind, heads * n, *rows, left.parts, *rows, groups=heads, weights=weights))


def _weights(
    builder: Builder,
    name: str,
    sizes: tuple[int, int, int],
    operands: tuple[Data, Data],
    keys: bool | None,
) -> Data:
    """Activations as weights: a channel for each output (N) of a head, a row for each input (K).

    ``sizes``: heads of ``left``, N and K.
    """
    left, right = operands
    heads, n, k = sizes
    if right.external:
        raise InputError("", "activations that a layer computes as weights", "the network's input")
    right = builder.as_rows(right) if right.w != 1 else right
    as_they_are, turned = _repeats(right, heads, n, k), _repeats(right, heads, k, n)
    if as_they_are and turned:
        as_they_are = (
            0 if (keys if keys is not None else not _after_a_product(builder, left)) else as_they_are
        )
    if as_they_are:
        return _repeated(right, heads, as_they_are)
    if turned:
        return _repeated(builder.transposed(f"{name}.transposed", right, heads // turned), heads, turned)
    expected = f"{k} rows of {heads} x {n} channels, or {n} rows of {heads} x {k}"
    raise InputError("", expected, right.shape)


def _repeats(data: Data, heads: int, width: int, rows: int) -> int:
    """How many heads share each part of ``width`` channels and ``rows`` rows; 0 if ``data`` has no such."""
    if data.h != rows or data.k % width or heads % (data.k // width):
        return 0
    return heads // (data.k // width)


def _repeated(data: Data, heads: int, times: int) -> Data:
    """The parts of the heads, each for so many heads one after the other."""
    if times == 1:
        return data
    width = data.k * times // heads
    parts = [
        taken(data.parts, first, first + width) for first in range(0, data.k, width) for _ in range(times)
    ]
    return Data(tuple(slice_ for part in parts for slice_ in part), data.h, data.w)


def _after_a_product(builder: Builder, data: Data) -> bool:
    """Whether ``data`` are scores: a product of activations, perhaps after a softmax."""
    if data.external:
        return False
    draft = builder.drafts[data.parts[0].draft]
    if draft.pointwise and draft.inputs[0].draft != EXTERNAL:
        draft = builder.drafts[draft.inputs[0].draft]
    return bool(draft.weights)
