"""Products whose file leaves out the views in front of them: what the shapes prove about the operands.

Operator graphs in JSON may drop the reshapes, transposes and slices between a value and the product that
reads it, so the letters of ``contraction.py`` cannot be assigned. What is known is the loop nest (dims B, M,
N and K) and the box of each operand, C channels x H rows x W columns. Each function here looks for a reading
of the box that has the nest's numbers, and refuses what stays ambiguous.
"""

from __future__ import annotations

from dataclasses import replace

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.reading.data import Builder
from costmodel.schedule.layer_graph.reading.drafts import EXTERNAL, Draft, Parts, Slice, in_any_order, taken
from costmodel.schedule.layer_graph.reading.layout import (
    Data,
    full,
    in_order_if_known,
    reshaped,
    rows_of_channels,
)
from costmodel.workload.digits import Digit, Shape
from costmodel.workload.network import Layer, Node
from costmodel.workload.windows import Windows


def described(data: Data, shape: Shape, heads: int = 1) -> Data:
    """What a folded product computes, with the axes that the shape of the result proves.

    These are (positions, channels); or, of several ``heads``, (heads, positions, channels of a head). Any
    other shape leaves the axes unknown (None).
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
    """An image as (1, positions, channels), where an operator reads it in this ``shape`` and the view in
    between is folded away. Any other value stays as it is.
    """
    if data.axes is None or data.sizes == shape or shape != (1, data.h * data.w, data.k):
        return data
    return rows_of_channels(data.parts, data.h, data.w)


def folded_linear(builder: Builder, node: Node, layer: Layer, data: Data, output: Shape) -> Data:
    """The layer of a product with constant weights and one head, of ``layer``'s dims M, N and K.

    The branches below are the readings of the operand, tried in this order: the whole image as one row of K
    elements; every position as a row of K channels; some of more such rows, the others cut off by a slice;
    every channel as a row of K elements, which needs a transposing layer.
    """
    name, data = node.name, in_order_if_known(data)
    m, n, k = (layer.sizes[dim] for dim in "MNK")
    # constants on the right leave M as the rows of activations; constants on the left make them N
    for rows, outputs in ((m, n), (n, m)):
        if data.external and data.elements == k * rows:
            data = Data((Slice(EXTERNAL, 0, k),), rows, 1)
        if rows == 1 and data.elements == k and (data.h, data.w) != (1, 1) and data.k != k:
            parts = in_any_order(data.parts)
            windows = Windows(1, data.h), Windows(1, data.w)
            made = builder.add(Draft(name, "fc", outputs, parts, data.box, windows))
            return described(Data(made, 1, 1), output)
        if data.k == k and data.h * data.w == rows:
            kind = "fc" if rows == 1 else "conv"
            parts = in_any_order(data.parts)
            made = builder.add(Draft(name, kind, outputs, parts, data.box))
            return described(Data(made, *data.box), output)
        if data.k == k and data.w == 1 and data.h > rows:
            first = _first_rows(node, data.h, rows)
            # negative padding: the first window begins ``first`` rows further down
            windows = Windows(rows, before=-first), Windows(1)
            made = builder.add(Draft(name, "conv", outputs, data.parts, data.box, windows))
            return described(Data(made, rows, 1), output)
        if data.k == rows and data.h == k and data.w == 1:
            turned = builder.transposed(f"{name}.transposed", data)
            made = builder.add(Draft(name, "conv", outputs, turned.parts, turned.box))
            return described(Data(made, *turned.box), output)
    raise InputError("", f"{m} rows of {k} channels", data.shape)


def _first_rows(node: Node, have: int, rows: int) -> int:
    """The first of the ``rows`` rows, out of ``have``, that the product reads; the node must state it.

    The slice in front of the product is folded away, and shapes do not say where it begins.
    """
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
    """The layer of a product of two activations, or of one with constant weights for each of several heads.

    The node's attribute ``transposed`` says whether its second operand is keys, whose channels are summed
    over; without it the shapes must tell.
    """
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
    # each head has N channels, so this is the number of heads even where query heads share keys
    return described(data, output, data.k // layer.sizes["N"])


def _unpacked(layer: Layer, left: Data, right: Data) -> tuple[Data, Data]:
    """Both operands of a product, cut out of a value in which queries, keys and values may be packed.

    Such a value has the channels of the queries first, then as many of the keys, then of the values. The
    product of scores reads it twice; the product of weighted values reads it as its second operand.
    """
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
    """A layer that multiplies, for every head, M rows of K channels of ``left`` with the head's weights.

    The weights are ``right``, or constants where that is None: K x N for each head. The outputs are N
    channels a head. ``keys``: whether the channels of ``right`` are summed over (true) or its rows (false);
    None: as the shapes tell.
    """
    sizes = layer.sizes
    heads, m, n, k = sizes.get("B", 1), sizes["M"], sizes["N"], sizes["K"]
    if left.k % (heads * k) == 0 and left.k * left.h * left.w == heads * m * k:
        # Consecutive query heads that share a key-value head are rows of one product in the nest (M). On a
        # chip each query head has channels of its own: as many heads as ``left`` has groups of K channels.
        m, heads = left.h * left.w, left.k // k
    if left.external and left.elements == heads * m * k:
        left = Data((Slice(EXTERNAL, 0, heads * k),), m, 1)
    if (left.k, left.h) != (heads * k, m) and (left.k, left.h) == (heads * m, k):
        left = builder.transposed(f"{name}.left", left, heads)
    if (left.k, left.h * left.w) != (heads * k, m):
        raise InputError("", f"{m} rows of {heads} x {k} channels", left.shape)
    weights = () if right is None else _weights(builder, name, (heads, n, k), right, keys)
    kind = "groupconv" if heads > 1 else "conv"
    draft = Draft(name, kind, heads * n, left.parts, left.box, groups=heads, weights=weights)
    return Data(builder.add(draft), *left.box)


def _weights(
    builder: Builder, name: str, sizes: tuple[int, int, int], right: Data, keys: bool | None
) -> Parts:
    """The channels of ``right`` that are read as weights: a channel is an output (N), a row an input (K).

    ``sizes``: heads, N and K. Keys lie the other way round, N rows of K channels, and pass through a
    transposing layer. Where N = K both readings fit, and the node must say which one is meant.
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
    """How many of ``heads`` share each part of ``data``, of ``width`` channels and ``rows`` rows.

    0 where ``data`` does not consist of such parts, or of a number of them that does not divide the heads.
    """
    if data.h != rows or data.k % width or heads % (data.k // width):
        return 0
    return heads // (data.k // width)


def _repeated(data: Data, heads: int, times: int) -> Parts:
    """The channels of ``data`` for all heads: each part is listed for ``times`` consecutive heads."""
    if times == 1:
        return data.parts
    width = data.k * times // heads
    parts = [
        taken(data.parts, first, first + width) for first in range(0, data.k, width) for _ in range(times)
    ]
    return tuple(slice_ for part in parts for slice_ in part)
