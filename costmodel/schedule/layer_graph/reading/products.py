"""Convolutions, matrix products and attention as layers of a chip's schedule.

Where the axes of both operands are known, ``contraction.py`` makes the layer of a product; where the file
folds views away, ``folded.py`` does.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.reading.contraction import Operand, contraction, letters_of_matmul
from costmodel.schedule.layer_graph.reading.data import Builder
from costmodel.schedule.layer_graph.reading.drafts import Draft, Parts, in_any_order, picked, taken
from costmodel.schedule.layer_graph.reading.folded import folded_heads, folded_linear, folded_matmul
from costmodel.schedule.layer_graph.reading.layout import (
    Data,
    as_image,
    full,
    in_order,
    in_order_if_known,
    listed_for_each,
    spatial_dims,
)
from costmodel.workload.digits import Digit, Shape
from costmodel.workload.network import Layer, Node
from costmodel.workload.windows import Windows, stated_windows

_KNOWN_DIMS = frozenset("BMNK")
"""The only dims that the nest of a product may have where its operands' views are folded away."""


class ProductOperands(NamedTuple):
    """The two factors of a product in the node's order: the shape of each, and where its elements lie.

    ``data`` is None for a constant; ``output`` is the shape of the result.
    """

    shapes: tuple[Shape, Shape]
    data: tuple[Data | None, Data | None]
    output: Shape


def product(builder: Builder, node: Node, factors: ProductOperands, views_folded: bool) -> Data:
    """Add the layer of a node that has one loop nest: a convolution or a matrix product.

    One factor may be constant weights. ``views_folded`` is that of the network: whether its file leaves views
    out, so that shapes need not mean what they say.
    """
    (layer,) = node.layers
    if "P" in layer.sizes:  # only convolutions have output rows
        return _convolution(builder, node, layer, factors)
    if not views_folded:
        factors = _in_chunks(builder, node.name, factors)
        factors = _for_every_head_of_weights(factors)
    factors = _for_every_query_head(factors)
    letters = _letters(node, factors, views_folded)
    if letters is not None:
        _check_statements(node)
        left, right = (Operand(*one) for one in zip(letters[:2], factors.shapes, factors.data, strict=True))
        return contraction(builder, node.name, (left, right), letters[2])
    if extra := sorted(layer.sizes.keys() - _KNOWN_DIMS):
        raise InputError("", "operands that repeat no element but for sharing heads", f"dims {extra}")
    constant = None in factors.data
    if constant and "B" not in layer.sizes:
        data = next(one for one in factors.data if one is not None)
        return folded_linear(builder, node, layer, data, factors.output)
    return folded_matmul(builder, node, layer, factors.data, factors.output)


def _check_statements(node: Node) -> None:
    """Refuse attributes that speak of a folded view (``row``, ``transposed``) where the shapes show none."""
    if "row" in node.attributes:
        found = node.attributes["row"]
        raise InputError("", "no first row where all rows are read", found, "Remove it", key="row")
    if node.attributes.flag("transposed"):
        expected = "false: its operands multiply as they are"
        raise InputError("", expected, True, "Remove it", key="transposed")


def _for_every_query_head(factors: ProductOperands, fewest: int = 2) -> ProductOperands:
    """The factors, the second with its heads repeated where it has fewer than the first (grouped queries).

    Each head of the second factor serves a/b consecutive heads of the first. A file whose view (Expand) is
    folded away has such shapes, which NumPy does not broadcast. ``fewest`` is the number of heads from which
    on this is done: a single one is left to NumPy's broadcasting (2), or repeated like all others (1).
    """
    (a, b), (left, right) = factors.shapes, factors.data
    apart = [
        i
        for i in range(max(len(b) - 2, 0))
        if len(a) == len(b) and fewest <= b[i] < a[i] and a[i] % b[i] == 0
    ]
    if len(apart) != 1 or right is None or right.axes is None:
        return factors
    (i,) = apart
    times = a[i] // b[i]
    axis = (*right.axes[i], Digit(times, 0, ""))  # stride 0: the same head, ``times`` times in a row
    right = replace(right, axes=(*right.axes[:i], axis, *right.axes[i + 1 :]))
    return ProductOperands((a, (*b[:i], a[i], *b[i + 1 :])), (left, right), factors.output)


def _in_chunks(builder: Builder, name: str, factors: ProductOperands) -> ProductOperands:
    """The factors with chunks of rows as channels, where both have a batch axis that counts chunks."""
    (a, b), (left, right) = factors.shapes, factors.data
    if left is None or right is None or left.axes is None or right.axes is None or len(a) != len(b):
        return factors
    if not any(x == y > 1 for x, y in zip(a[:-2], b[:-2], strict=True)):
        return factors
    apart = builder.chunks(f"{name}.left", left), builder.chunks(f"{name}.right", right)
    return factors._replace(data=apart)


def _for_every_head_of_weights(factors: ProductOperands) -> ProductOperands:
    """The factors, the first with its heads listed again where several heads of the second share one.

    So heads of a scan share what reads their states.
    """
    (a, b), (left, right) = factors.shapes, factors.data
    if left is None or right is None or left.axes is None or left.external:
        return factors
    apart = [
        i for i in range(max(len(a) - 2, 0)) if len(a) == len(b) and 1 < a[i] < b[i] and b[i] % a[i] == 0
    ]
    if len(apart) != 1:
        return factors
    (i,) = apart
    axis = (*left.axes[i], Digit(b[i] // a[i], 0, ""))
    listed = listed_for_each(replace(left, axes=(*left.axes[:i], axis, *left.axes[i + 1 :])))
    return ProductOperands(((*a[:i], b[i], *a[i + 1 :]), b), (listed, right), factors.output)


def _letters(node: Node, factors: ProductOperands, views_folded: bool) -> tuple[str, str, str] | None:
    """The einsum letters of both operands and of the result, by the operator's own rule.

    None where views may stand between the operands and the product that the file folds away.
    """
    a, b = factors.shapes
    if any(data is not None and data.axes is None for data in factors.data) or node.kind.nest == "stated":
        return None
    if node.kind.nest == "gemm":
        a_turned, b_turned = (node.attributes.flag(key) for key in ("transA", "transB"))
        return ("km" if a_turned else "mk"), ("nk" if b_turned else "kn"), "mn"
    if node.kind.nest == "einsum":
        left, result = node.attributes.text("equation", "").replace(" ", "").split("->")
        first, second = left.split(",")
        return first, second, result
    if node.kind.nest == "linear":
        rows = "".join(chr(ord("a") + i) for i in range(len(a) - 1))
        plain = len(a) > 0 and len(b) == 2 and a[-1] == b[-1] and (*a[:-1], b[0]) == factors.output
        return (f"{rows}y", "zy", f"{rows}z") if plain else None
    if not _as_numpy(a, b, factors.output):
        return None
    if views_folded and None not in factors.data and a[-1] == a[-2] == b[-1] == b[-2]:
        return None  # a transpose that the file may fold away would not show in the shapes
    return letters_of_matmul(a, b)


def _as_numpy(a: Shape, b: Shape, output: Shape) -> bool:
    """Whether the shapes are those of a product as NumPy has it, without views in between."""
    rows, columns = (a if len(a) > 1 else (1, *a)), (b if len(b) > 1 else (*b, 1))
    outer = max(len(rows), len(columns)) - 2
    left, right = ((1,) * (outer + 2 - len(one)) + one[:-2] for one in (rows, columns))
    if rows[-1] != columns[-2] or any(x != y and 1 not in (x, y) for x, y in zip(left, right, strict=True)):
        return False
    return (*map(max, left, right), *a[-2:-1], *(b[-1:] if len(b) > 1 else ())) == output


# ---- attention


def attention(
    builder: Builder, node: Node, operands: Sequence[Data], shapes: Sequence[Shape], output: Shape
) -> Data:
    """Add the layers of fused attention: scores, softmax and weighted values.

    Queries, keys and values are three operands, two (queries; packed keys and values) or one that packs all
    three. ``shapes`` are those of the operands, ``output`` that of the result. Three operands of known axes
    are contractions, with letters for heads (a to h), query rows (q), key rows (k), the channels of a query
    or key (d) and those of a value (e). Any others are taken apart by their channels.
    """
    scores, values = node.layers
    name = node.name
    heads = "abcdefgh"[: len(output) - 2]
    apart = len(operands) == 3 and all(
        data.axes is not None and len(shape) == len(output)
        for data, shape in zip(operands, shapes, strict=True)
    )
    if apart and shapes[0][:-1] == output[:-1] and shapes[2][-1] == output[-1]:
        (q_shape, k_shape, v_shape), (q, k, v) = shapes, operands
        of_keys = _for_every_query_head(ProductOperands((q_shape, k_shape), (q, k), output), fewest=1)
        of_values = _for_every_query_head(ProductOperands((q_shape, v_shape), (q, v), output), fewest=1)
        left, right = (
            Operand(heads + end, shape, data)
            for end, shape, data in zip(("qd", "kd"), of_keys.shapes, of_keys.data, strict=True)
        )
        made = contraction(builder, f"{name}.scores", (left, right), f"{heads}qk")
        made = builder.pointwise(f"{name}.softmax", made, foldable=False)
        left = Operand(f"{heads}qk", (*output[:-1], k_shape[-2]), made)
        right = Operand(f"{heads}ke", of_values.shapes[1], of_values.data[1])
        return contraction(builder, f"{name}.values", (left, right), f"{heads}qe")
    # views are folded away: cut the operands by the channels of queries (of all heads), keys and values
    width = scores.sizes.get("B", 1) * scores.sizes["K"]
    together = _query_heads(scores, operands[0].h * operands[0].w)
    parts = _pieces(operands[:3], (together * width, width, width))
    if len(parts) == 1:
        parts *= 3
    if len(parts) != 3 or len(operands) > 3:
        found = [data.shape for data in operands]
        raise InputError("", f"queries, keys and values of {width} channels, without a mask", found)
    made = folded_heads(builder, f"{name}.scores", scores, parts[0], parts[1], keys=True)
    made = builder.pointwise(f"{name}.softmax", made, foldable=False)
    return folded_heads(builder, f"{name}.values", values, made, parts[2], keys=False)


def _query_heads(layer: Layer, rows: int) -> int:
    """How many query heads, of ``rows`` rows each, share a key-value head: M has the rows of all of them."""
    return layer.sizes["M"] // rows if layer.sizes["M"] % rows == 0 else 1


def _pieces(operands: Sequence[Data], widths: Sequence[int]) -> list[Data]:
    """Queries, keys and values in turn, cut out of operands that hold one or several of them.

    ``widths`` are their channels. InputError where the end of an operand is not the end of a piece.
    """
    parts: list[Data] = []
    for data in map(in_order_if_known, operands):
        first = 0
        while first < data.k:
            end = first + widths[len(parts) % len(widths)]
            if end > data.k:
                raise InputError("", f"queries, keys or values of {widths} channels", data.shape)
            parts.append(replace(data, parts=taken(data.parts, first, end), axes=None))
            first = end
    return parts


# ---- convolutions


def _convolution(builder: Builder, node: Node, layer: Layer, factors: ProductOperands) -> Data:
    """Add a 1-D or 2-D convolution with constant weights, of one sample and without dilation."""
    sizes = layer.sizes
    data, weights = factors.data
    if node.kind.nest == "stated":  # of a list of layers, whose tensors are in an order of their own
        data, weights = (data if data is not None else weights), None
    if data is None or weights is not None:
        raise InputError("", "constant weights of a convolution of activations", "others")
    if "T" in sizes:
        raise InputError("", "one or two spatial axes", "three", key="layer")
    if sizes.get("N", 1) != 1:
        remedy = "Load it with a batch of 1: how many samples there are is the schedule's business"
        raise InputError("", "a graph for one sample", f"{sizes['N']} samples", remedy)
    # a depthwise nest has C as its only channel dim, otherwise K and C are those of one group
    groups = sizes.get("G", 1) if "K" in sizes else sizes["C"]
    k = sizes["K"] * groups if "K" in sizes else groups
    c = sizes["C"] * groups if "K" in sizes else groups
    axes = 2 if node.kind.nest == "stated" else len(factors.output) - 2
    names = (("P", "R"), ("Q", "S"))[-axes:]  # a 1-D convolution runs along Q and S
    numbers = [_axis(layer, *pair) for pair in names]
    read = factors.shapes[0][2:]
    if node.kind.nest == "stated":
        # a stated nest has no padding: its input is what its windows cover
        read = tuple((count - 1) * stride + size for count, size, stride in numbers)
    data = as_image(data, (1, c, *read))
    counts, filters, strides = zip(*numbers, strict=True)
    windows = stated_windows(node.attributes, read, counts, (filters, strides))
    data, rows, columns = builder.under(node.name, data, windows)
    data = in_order(data)
    parts = _filtered(builder, node.name, data, (rows, columns), (k, groups))
    spatial = (full(dim, one.count) for dim, one in zip(spatial_dims(data), windows, strict=True))
    return Data(parts, rows.count, columns.count, ((), full("C", k), *spatial))


def _filtered(
    builder: Builder, name: str, data: Data, windows: tuple[Windows, Windows], size: tuple[int, int]
) -> Parts:
    """Add a convolution of the box ``data`` and return its outputs; ``size`` is (K, groups), K the total.

    ``windows`` are those over rows and over columns. Constant weights can follow any order of the channels
    that a group reads, so each group takes its channels in the order in which they are computed.
    """
    k, groups = size

    def draft(parts: Parts) -> Draft:
        kind = "groupconv" if groups > 1 else "conv"
        return Draft(name, kind, k, parts, data.box, windows, groups=groups)

    if groups == data.k:
        return builder.each_channel(data.parts, draft, k // groups)
    if groups == 1:
        return builder.add(draft(in_any_order(data.parts)))
    group_c = data.k // groups
    each = [in_any_order(picked(data.parts, range(i, i + group_c))) for i in range(0, data.k, group_c)]
    return builder.add(draft(tuple(part for parts in each for part in parts)))


def _axis(layer: Layer, position: str, window: str) -> tuple[int, int, int]:
    """Number of outputs, filter length and stride along one spatial axis, out of the input's projection.

    ``position`` is the dim of the outputs (P or Q), ``window`` that of the filter (R or S).
    """
    terms = next(
        dict(axis) for t in layer.tensors if t.role == "inputs" for axis in t.terms if position in dict(axis)
    )
    if layer.sizes[window] > 1 and terms[window] > 1:
        raise InputError("", "a dilation of 1", terms[window], key="dilation")
    return layer.sizes[position], layer.sizes[window], terms[position]
