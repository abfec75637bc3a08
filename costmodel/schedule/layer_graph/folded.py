"""Products between whose operands a file has folded views away: what shapes prove about them."""

from __future__ import annotations

from dataclasses import replace

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.data import Builder
from costmodel.schedule.layer_graph.drafts import EXTERNAL, Draft, Parts, Slice, in_any_order, taken
from costmodel.schedule.layer_graph.layout import Data, full, in_order_if_known, reshaped, rows_of_channels
from costmodel.workload.digits import Digit, Shape
from costmodel.workload.network import Layer, Node


def described(data: Data, shape: Shape, heads: int = 1) -> Data:
    """What a folded product computes along the axes that ``shape`` proves; without axes if it proves none.

    Rows of channels; or, of several heads, heads of rows of channels.
    """
    last = shape[-1] if shape else 0
    if heads == 1 or last == data.k:
        rows = rows_of_channels(data.parts, data.h, data.w)
        return reshaped(rows, shape) if last == data.k else replace(data, axes=None)
    width = data.k // heads
    if shape[-2:] == (data.h * data.w, width):
        positions = (*full("H", data.h), *full("W", data.w))
        axes = ((Digit(heads, width, "C"),), positions, full("C", width))
        return reshaped(replace(data, axes=axes), shape)
    return replace(data, axes=None)


def folded_rows(data: Data, shape: Shape) -> Data:
    """An image that an operator reads as (1, positions, channels), the view in between folded away."""
    if data.axes is None or data.sizes == shape or shape != (1, data.h * data.w, data.k):
        return data
    return rows_of_channels(data.parts, data.h, data.w)


def folded_linear(builder: Builder, node: Node, layer: Layer, data: Data, output: Shape) -> Data:
    """A product with constant weights: of every row, of the whole image, or across the rows."""
    name, data = node.name, in_order_if_known(data)
    m, n, k = (layer.sizes[dim] for dim in "MNK")
    for rows, outputs in ((m, n), (n, m)):
        if data.external and data.elements == k * rows:
            data = Data((Slice(EXTERNAL, 0, k),), rows, 1)
        if rows == 1 and data.elements == k and (data.h, data.w) != (1, 1) and data.k != k:
            parts = in_any_order(data.parts)
            made = builder.add(Draft(name, "fc", outputs, 1, 1, parts, data.h, data.w, data.h, data.w))
            return described(Data(made, 1, 1), output)
        if data.k == k and data.h * data.w == rows:
            kind = "fc" if rows == 1 else "conv"
            parts = in_any_order(data.parts)
            made = builder.add(Draft(name, kind, outputs, data.h, data.w, parts, data.h, data.w))
            return described(Data(made, data.h, data.w), output)
        if data.k == k and data.w == 1 and data.h > rows:
            first = _first_rows(node, data.h, rows)
            made = builder.add(
                Draft(name, "conv", outputs, rows, 1, data.parts, first + rows, 1, pad_h=-first)
            )
            return described(Data(made, rows, 1), output)
        if data.k == rows and data.h == k and data.w == 1:
            turned = builder.transposed(f"{name}.transposed", data)
            made = builder.add(Draft(name, "conv", outputs, turned.h, 1, turned.parts, turned.h, 1))
            return described(Data(made, turned.h, 1), output)
    raise InputError("", f"{m} rows of {k} channels", data.shape)


def _first_rows(node: Node, have: int, rows: int) -> int:
    """Where the rows begin that a slice in front of the product takes, which the file folds away."""
    if "row" not in node.attributes:
        remedy = (
            "State the first of them as the attribute row of the node, or export the graph with its views"
        )
        raise InputError("", f"which {rows} of {have} rows it reads", "nothing", remedy, key="row")
    first = node.attributes.number("row")
    if not 0 <= first <= have - rows:
        raise InputError("", f"a first row from 0 to {have - rows}", first, key="row")
    return first


def folded_matmul(
    builder: Builder, node: Node, layer: Layer, operands: tuple[Data | None, Data | None], output: Shape
) -> Data:
    """A product for every head, of activations or with constant weights for each head."""
    left, right = (data if data is None else in_order_if_known(data) for data in operands)
    keys = None
    if "transposed" in node.attributes:
        keys = node.attributes.flag("transposed")
    if left is None or right is None:
        known = right if left is None else left
        assert known is not None
        return _described_heads(folded_heads(builder, node.name, layer, known, None), layer, output)
    left, right = _unpacked(layer, left, right)
    return _described_heads(folded_heads(builder, node.name, layer, left, right, keys), layer, output)


def _described_heads(data: Data, layer: Layer, output: Shape) -> Data:
    return described(data, output, data.k // layer.sizes["N"])


def _unpacked(layer: Layer, left: Data, right: Data) -> tuple[Data, Data]:
    """Both operands of a product, where queries, keys and values may be packed in one."""
    heads = layer.sizes.get("B", 1)
    queries, values = heads * layer.sizes["K"], heads * layer.sizes["N"]
    if left == right and left.k == 3 * queries:
        return _cut(left, 0, queries), _cut(left, queries, 2 * queries)
    if right.k == 3 * values and right.h * right.w == layer.sizes["K"]:
        return left, _cut(right, 2 * values, 3 * values)
    return left, right


def _cut(data: Data, first: int, end: int) -> Data:
    return replace(data, parts=taken(data.parts, first, end), axes=None)


def folded_heads(
    builder: Builder, name: str, layer: Layer, left: Data, right: Data | None, keys: bool | None = None
) -> Data:
    """A product for every head: rows of ``left`` with ``right`` as weights (None: constant ones).

    ``keys``: whether channels of ``right`` are summed over; None: as the shapes have it.
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
    weights = () if right is None else _weights(builder, name, (heads, n, k), right, keys)
    kind, rows = ("groupconv" if heads > 1 else "conv"), (left.h, left.w)
    draft = Draft(name, kind, heads * n, *rows, left.parts, *rows, groups=heads, weights=weights)
    return Data(builder.add(draft), *rows)


def _weights(
    builder: Builder, name: str, sizes: tuple[int, int, int], right: Data, keys: bool | None
) -> Parts:
    """Activations as weights: a channel for each output (N) of a head, a row for each input (K).

    ``sizes``: heads, N and K.
    """
    heads, n, k = sizes
    if right.external:
        raise InputError("", "activations that a layer computes as weights", "the network's input")
    right = builder.as_rows(right) if right.w != 1 else right
    as_they_are, turned = _repeats(right, heads, n, k), _repeats(right, heads, k, n)
    if as_they_are and turned and keys is None:
        remedy = (
            "State the attribute transposed of the node (true for keys), or export the graph with its views"
        )
        expected = "whether its second operand is transposed, which shapes do not tell"
        raise InputError("", expected, f"{n} x {k}", remedy, key="transposed")
    if as_they_are and not keys:
        return _repeated(right, heads, as_they_are)
    if turned and keys is not False:
        return _repeated(builder.transposed(f"{name}.transposed", right, heads // turned), heads, turned)
    expected = f"{k} rows of {heads} x {n} channels, or {n} rows of {heads} x {k}"
    raise InputError("", expected, right.shape)


def _repeats(data: Data, heads: int, width: int, rows: int) -> int:
    """How many heads share each part of ``width`` channels and ``rows`` rows; 0 if ``data`` has no such."""
    if data.h != rows or data.k % width or heads % (data.k // width):
        return 0
    return heads // (data.k // width)


def _repeated(data: Data, heads: int, times: int) -> Parts:
    """The parts of the heads, each for so many heads one after the other."""
    if times == 1:
        return data.parts
    width = data.k * times // heads
    parts = [
        taken(data.parts, first, first + width) for first in range(0, data.k, width) for _ in range(times)
    ]
    return tuple(slice_ for part in parts for slice_ in part)
