"""ONNX Runtime's own operators: what its optimiser and its model builder write in place of ONNX's.

They are of the domain ``com.microsoft``, and ONNX's shape inference knows none of them. A row says of one
what it is, the shapes of its results and, where it multiplies, its layers. Operands are by position, as ONNX
Runtime's ContribOperators.md lists them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
import onnx

from costmodel.errors import InputError
from costmodel.formats.onnx.constants import UNKNOWN
from costmodel.workload.convolutions import Window, convolution_of, reading_once
from costmodel.workload.digits import Shape
from costmodel.workload.network import batched_matmul
from costmodel.workload.operators import TABLE, OperatorKind
from costmodel.workload.products import Counted, attention_of, matmul_of
from costmodel.workload.views import View, stacked, whole

MICROSOFT = "com.microsoft"
Shapes = Sequence[Shape]
Views = Sequence[View | None]


@dataclass(frozen=True)
class Facts:
    """The attributes that a node states, and the defaults of its row."""

    attributes: Mapping[str, onnx.AttributeProto]
    defaults: Mapping[str, int]

    def number(self, name: str, default: int = 0) -> int:
        stated = self.attributes.get(name)
        return self.defaults.get(name, default) if stated is None else int(stated.i)

    def numbers(self, name: str) -> Shape:
        return tuple(self.attributes[name].ints) if name in self.attributes else ()

    def text(self, name: str) -> str:
        return self.attributes[name].s.decode(errors="replace") if name in self.attributes else ""


@dataclass(frozen=True)
class Contributed:
    """A row.

    - ``results``: the shapes of the results, from those of the operands, which are all known; () stands for
      an operand that is left out, None for a result that nobody knows.
    - ``like``: the operand whose type of elements the results have.
    - ``factors``: the operands that ``layers`` takes, None for one that is left out. It returns None where
      this form of the operator is not supported.
    - ``defaults`` of attributes, where they say how weights are stored.
    """

    kind: OperatorKind
    results: Callable[[Shapes, Facts], Sequence[Shape | None]]
    like: int = 0
    factors: tuple[int, ...] = ()
    layers: Callable[[str, Views, Facts], Counted | None] | None = None
    defaults: tuple[tuple[str, int], ...] = ()


def _products(
    results: Callable[[Shapes, Facts], Sequence[Shape | None]],
    layers: Callable[[str, Views, Facts], Counted | None],
    factors: tuple[int, ...] = (0, 1),
    read: tuple[int, ...] = (0, 1),
    like: int = 0,
    **defaults: int,
) -> Contributed:
    """A row of an operator that multiplies.

    ``read``: for the first layer its two operands, for each further one its second, as positions among those
    that the node does not leave out.
    """
    kind = OperatorKind("fused_products", "attention", "computed", nest="fused", factors=read)
    return Contributed(kind, results, like, factors, layers, tuple(defaults.items()))


_UNSCHEDULED = OperatorKind("fused_lookup_or_norm", "unknown", "computed")
"""What no schedule on a chip can have, as its operands lie otherwise than those of the table's operators."""


def contributed(node: onnx.NodeProto) -> Contributed | None:
    """The row of a node; None for ONNX's own operators, and for those that are not supported."""
    if node.domain == MICROSOFT or (node.domain == "" and node.op_type == "SimplifiedLayerNormalization"):
        return _ROWS.get(node.op_type)
    return None


def _same(operands: Shapes, facts: Facts) -> Sequence[Shape | None]:
    """One result in the shape of the first operand."""
    return (operands[0],)


def _broadcast(first: int, second: int) -> Callable[[Shapes, Facts], Sequence[Shape | None]]:
    def results(operands: Shapes, facts: Facts) -> Sequence[Shape | None]:
        return (tuple(np.broadcast_shapes(operands[first], operands[second])),)

    return results


def _given(name: str, view: View | None) -> View:
    """The operand, which the node may not leave out."""
    if view is None:
        raise InputError(f"layer {name}", "all operands that the operator multiplies", "one left out")
    return view


# ---- matrix products


def _oriented(view: View, turned: bool) -> View:
    """The matrices of a view, transposed if they are ``turned``."""
    last = len(view.axes) - 1
    return view.transposed((*range(last - 1), last, last - 1)) if turned and last else view


def _product_results(a: int = 0, b: int = 1) -> Callable[[Shapes, Facts], Sequence[Shape | None]]:
    """The result of the product of two operands, each transposed if ``transA`` or ``transB`` says so."""

    def results(operands: Shapes, facts: Facts) -> Sequence[Shape | None]:
        left, right = operands[a], operands[b]
        if min(len(left), len(right)) < 2:
            return (None,)
        rows = left[-1] if facts.number("transA") else left[-2]
        columns = right[-2] if facts.number("transB") else right[-1]
        return ((*np.broadcast_shapes(left[:-2], right[:-2]), rows, columns),)

    return results


def _product(name: str, views: Views, facts: Facts) -> Counted | None:
    if facts.number("transBatchA") or facts.number("transBatchB"):
        return None
    a, b = (
        _oriented(_given(name, view), bool(facts.number(key)))
        for view, key in zip(views, ("transA", "transB"), strict=True)
    )
    return matmul_of(name, a, b)


def _packed_results(operands: Shapes, facts: Facts) -> Sequence[Shape | None]:
    return ((*operands[0][:-1], facts.number("N")),)


def _packed_product(name: str, views: Views, facts: Facts) -> Counted | None:
    """A product with weights of few bits, packed: (N, K) whatever the shape of the bytes."""
    data, n, k = _given(name, views[0]), facts.number("N"), facts.number("K")
    if n < 1 or data.shape[-1] != k:
        raise InputError(f"layer {name}", f"K, the {data.shape[-1]} columns of its operand, and N", (k, n))
    return matmul_of(name, data, whole(f"{name}.weights", (n, k)).transposed((1, 0)))


# ---- convolutions


def _channels_first(shape: Shape) -> Shape:
    return (shape[0], shape[-1], *shape[1:-1])


def _convolution_results(
    weights: int, last: Callable[[Facts], bool]
) -> Callable[[Shapes, Facts], Sequence[Shape | None]]:
    """The result of a convolution; ``last``: whether the channels of data are the last axis."""

    def results(operands: Shapes, facts: Facts) -> Sequence[Shape | None]:
        data = _channels_first(operands[0]) if last(facts) else operands[0]
        filters = operands[weights]
        rank = len(filters) - 2
        strides, dilations = (facts.numbers(key) or (1,) * rank for key in ("strides", "dilations"))
        pads = facts.numbers("pads") or (0,) * (2 * rank)
        padding = facts.text("auto_pad") or "NOTSET"
        plane = []
        for i in range(rank):
            if padding.startswith("SAME"):
                plane.append(-(-data[2 + i] // strides[i]))
                continue
            around = 0 if padding == "VALID" else pads[i] + pads[i + rank]
            plane.append((data[2 + i] + around - dilations[i] * (filters[2 + i] - 1) - 1) // strides[i] + 1)
        whole_result = (data[0], filters[0], *plane)
        return ((data[0], *plane, filters[0]) if last(facts) else whole_result,)

    return results


def _convolution(
    results: Callable[[Shapes, Facts], Sequence[Shape | None]], last: Callable[[Facts], bool]
) -> Callable[[str, Views, Facts], Counted | None]:
    """The count of an operator that is a convolution. ``last``: whether its channels come last."""

    def layers(name: str, views: Views, facts: Facts) -> Counted | None:
        data, filters = (_given(name, view) for view in views)
        (made,) = results((data.shape, filters.shape), facts)
        if made is None:
            return None
        if last(facts):
            rank = len(data.axes)
            data, made = data.transposed((0, rank - 1, *range(1, rank - 1))), _channels_first(made)
        window = Window.of(
            len(filters.shape) - 2,
            facts.numbers("strides"),
            facts.numbers("dilations"),
            facts.number("group", 1),
        )
        return reading_once(convolution_of(name, data.shape, filters.shape, made, window), data)

    return layers


def _convolution_row(weights: int = 1, last: Callable[[Facts], bool] = lambda facts: False) -> Contributed:
    layers = _convolution(_convolution_results(1, last), last)
    return _products(_convolution_results(weights, last), layers, (0, weights), (0, weights))


# ---- attention


def heads_apart(name: str, view: View, heads: int) -> View:
    """The operand (batch, rows, heads * width) as (batch, heads, rows, width)."""
    batch, rows, packed = view.shape
    apart = view.reshaped((batch, rows, heads, packed // heads)) if heads and packed % heads == 0 else None
    if apart is None:
        raise InputError(f"layer {name}", f"heads that divide {packed}", heads, key="num_heads")
    return apart.transposed((0, 2, 1, 3))


def _behind(name: str, past: View | None, new: View) -> View:
    """New keys or values (batch, heads, rows, width) behind those of the past."""
    if past is None or not past.shape[2]:
        return new
    batch, heads, rows, width = new.shape
    return stacked(name, (past, new), 2, (batch, heads, past.shape[2] + rows, width))


def _grouped_heads(operands: Shapes, facts: Facts) -> tuple[int, int, int] | None:
    """Heads of queries, of keys and their width; None where the shapes do not say them."""
    heads, shared = facts.number("num_heads"), facts.number("kv_num_heads")
    if not heads or not shared or len(operands[0]) != 3:
        return None
    packed = len(operands) < 2 or not operands[1]
    return heads, shared, operands[0][2] // (heads + 2 * shared if packed else heads)


def _grouped_results(operands: Shapes, facts: Facts) -> Sequence[Shape | None]:
    found = _grouped_heads(operands, facts)
    if found is None:
        return (None,)
    heads, shared, width = found
    batch, rows, _ = operands[0]
    past = operands[3][2] if len(operands) > 3 and len(operands[3]) == 4 else 0
    every = (batch, shared, past + rows, width)
    return (batch, rows, heads * width), every, every


def _grouped_attention(name: str, views: Views, facts: Facts) -> Counted | None:
    """Scores and weighted values of query heads that share key-value heads, over past and new rows.

    Queries, keys and values (batch, rows, heads * width), or all in the first operand; the past is (batch,
    heads, rows, width). How many rows of a past are valid depends on data: all of its shape are counted.
    """
    shapes = [view.shape if view else () for view in views]
    found = _grouped_heads(shapes, facts)
    queries = _given(name, views[0])
    if found is None:
        return None
    heads, shared, width = found
    if views[1] is None:
        parts = [
            queries.cut(2, start * width, length * width)
            for start, length in ((0, heads), (heads, shared), (heads + shared, shared))
        ]
    else:
        parts = [queries, views[1], views[2]]
    if any(part is None for part in parts):
        return None
    apart = [
        heads_apart(name, part, number)
        for part, number in zip(parts, (heads, shared, shared), strict=True)
        if part
    ]
    keys, values = (
        _behind(f"{name}.{what}", past, new)
        for what, past, new in (("keys", views[3], apart[1]), ("every", views[4], apart[2]))
    )
    return attention_of(name, apart[0], keys, values)


def _multi_head_results(operands: Shapes, facts: Facts) -> Sequence[Shape | None]:
    heads = facts.number("num_heads")
    query, key, value = (operands[i] if i < len(operands) else () for i in range(3))
    if len(query) == 5:
        batch, rows, number, _, width = query
        every = (batch, number, rows, width)
        return (batch, rows, number * width), every, every
    if not heads or len(query) != 3 or not key:
        return (None,)
    past = operands[6][2] if len(operands) > 6 and len(operands[6]) == 4 else 0
    if len(key) == 5:
        packed, rows = query[2], key[1]
    else:
        packed = value[1] * value[3] if len(value) == 4 else value[2]
        rows = key[2] if len(key) == 4 else key[1]
    keys = (query[0], heads, past + rows, query[2] // heads)
    return (*query[:2], packed), keys, (*keys[:3], packed // heads)


def _multi_head_attention(name: str, views: Views, facts: Facts) -> Counted | None:
    """Attention of as many heads of keys as of queries, in each of the forms in which operands are packed."""
    heads = facts.number("num_heads")
    query, (key, value, past_key, past_value) = _given(name, views[0]), views[1:5]
    if len(query.axes) == 5:  # (batch, rows, heads, 3, width)
        parts = [part and part.transposed((0, 2, 1, 4, 3)) for part in (query.cut(3, i, 1) for i in range(3))]
        if not all(parts):
            return None
        q, k, v = (part.reshaped(part.shape[:4]) for part in parts if part)
        return attention_of(name, q, k, v) if q and k and v else None
    if key is None or len(query.axes) != 3 or not heads:
        return None
    if len(key.axes) == 5:  # (batch, rows, heads, 2, width)
        parts = [part and part.transposed((0, 2, 1, 4, 3)) for part in (key.cut(3, i, 1) for i in range(2))]
        if not all(parts):
            return None
        keys, values = (part.reshaped(part.shape[:4]) for part in parts if part)
    else:
        keys, values = (
            one if len(one.axes) == 4 else heads_apart(name, one, heads) for one in (key, _given(name, value))
        )
    if keys is None or values is None:
        return None
    keys, values = _behind(f"{name}.keys", past_key, keys), _behind(f"{name}.every", past_value, values)
    return attention_of(name, heads_apart(name, query, heads), keys, values)


def _projected_widths(weights: Shape, facts: Facts) -> Shape:
    """Columns of the weights that make queries, keys and values."""
    return facts.numbers("qkv_hidden_sizes") or (weights[1] // 3,) * 3


def _projected_results(operands: Shapes, facts: Facts) -> Sequence[Shape | None]:
    heads, (batch, rows, _) = facts.number("num_heads"), operands[0]
    *_, width = _projected_widths(operands[1], facts)
    before = operands[4][3] if len(operands) > 4 and len(operands[4]) == 5 else 0
    return (batch, rows, width), (2, batch, heads, before + rows, width // heads)


def _projected_attention(name: str, views: Views, facts: Facts) -> Counted | None:
    """A projection to queries, keys and values, and attention; the past is (2, batch, heads, rows, width)."""
    data, weights, past = _given(name, views[0]), _given(name, views[1]), views[2]
    heads = facts.number("num_heads")
    if not heads or facts.number("past_present_share_buffer"):
        return None
    batch, rows, _ = data.shape
    before = past.shape[3] if past else 0
    projected = matmul_of(f"{name}.projection", data, weights)
    q, k, v = _projected_widths(weights.shape, facts)
    attended = attention_of(
        name,
        whole(f"{name}.queries", (batch, heads, rows, q // heads)),
        whole(f"{name}.keys", (batch, heads, before + rows, k // heads)),
        whole(f"{name}.every", (batch, heads, before + rows, v // heads)),
    )
    return Counted(projected.layers + attended.layers, projected.note or attended.note)


# ---- experts


def _experts(name: str, views: Views, facts: Facts) -> Counted | None:
    """Experts of two products, or of three where a gate has weights of its own.

    Each token takes ``k`` experts, and no more or fewer, so that the number of rows is known, though not
    whose they are: they are spread evenly, as in the library's decoders. Weights of 4 or 8 bits may be
    packed into bytes along their last axis.
    """
    data, router = _given(name, views[0]), _given(name, views[1])
    width, top = data.shape[-1], facts.number("k", 1)
    rows, count = prod(data.shape[:-1]), router.shape[-1]
    if prod(router.shape[:-1]) != rows or not 1 <= top <= count:
        found = f"operand {data.shape}, router {router.shape}, k {top}"
        raise InputError(f"layer {name}", "tokens (rows, width) with a score for each expert", found)
    packed = 8 // facts.number("expert_weight_bits", 8)
    used = min(count, rows * top)
    each, more = divmod(rows * top, used)
    loads = [(number, load) for number, load in ((more, each + 1), (used - more, each)) if number]
    made = []
    for part, weights in zip(("first", "second", "third"), views[2:], strict=True):
        if weights is None:
            continue
        inner, rest = divmod(prod(weights.shape[1:]) * packed, width)
        if rest or weights.shape[0] != count:
            raise InputError(f"layer {name}", f"weights of {count} experts for {width}", weights.shape)
        n, k = (width, inner) if part == "second" else (inner, width)
        made += [
            batched_matmul(f"{name}.{part}{i or ''}", B=number, M=load, N=n, K=k)
            for i, (number, load) in enumerate(loads)
        ]
    return Counted(tuple(made))


# ---- tables


def _rows_of(operands: Shapes, facts: Facts) -> Sequence[Shape | None]:
    """Rows of a table with scales of blocks, which say how many elements lie packed in a byte."""
    table, positions, scales = operands[:3]
    axis, quantized = (facts.number(key) % len(table) for key in ("gather_axis", "quantize_axis"))
    packed = 8 // facts.number("bits")
    for length in (table[-1], table[-1] * packed):
        whole_table = (*table[:-1], length)
        if -(-whole_table[quantized] // facts.number("block_size")) == scales[quantized]:
            return ((*whole_table[:axis], *positions, *whole_table[axis + 1 :]),)
    return (None,)


def _embedded(operands: Shapes, facts: Facts) -> Sequence[Shape | None]:
    embedded = (*operands[0], operands[2][1])
    return embedded, None, embedded


def _pooled(operands: Shapes, facts: Facts) -> Sequence[Shape | None]:
    """The means of all positions of an image."""
    if facts.number("channels_last"):
        return ((operands[0][0], *(1,) * (len(operands[0]) - 2), operands[0][-1]),)
    return ((*operands[0][:2], *(1,) * (len(operands[0]) - 2)),)


def _always_last(facts: Facts) -> bool:
    return True


def _said_last(facts: Facts) -> bool:
    return bool(facts.number("channels_last"))


_ROWS: Mapping[str, Contributed] = {
    **{
        name: Contributed(TABLE[kind], _same)
        for names, kind in (
            ("SimplifiedLayerNormalization", "rms_norm"),
            ("RotaryEmbedding", "rotary_embedding"),
            ("Gelu FastGelu BiasGelu QuickGelu", "gelu"),
            ("QLinearSigmoid", "sigmoid"),
            ("QLinearLeakyRelu", "leaky_relu"),
            ("QLinearSoftmax", "softmax"),
            ("LayerNormalization", "layer_norm"),
            ("BiasAdd", "add"),
        )
        for name in names.split()
    },
    **{
        name: Contributed(_UNSCHEDULED, results, like)
        for name, results, like in (
            ("GroupNorm", _same, 0),
            ("QLinearGlobalAveragePool", _pooled, 0),
            ("EmbedLayerNormalization", _embedded, 2),
        )
    },
    "GatherBlockQuantized": Contributed(
        _UNSCHEDULED, _rows_of, 2, defaults=(("bits", 4), ("block_size", 128), ("quantize_axis", 1))
    ),
    "QLinearAdd": Contributed(TABLE["add"], _broadcast(0, 3)),
    "QLinearMul": Contributed(TABLE["mul"], _broadcast(0, 3)),
    **{
        name: _products(_product_results(), _product, like=like)
        for name, like in (
            ("FusedMatMul", 0),
            ("FusedGemm", 0),
            ("GemmFastGelu", 0),
            ("DynamicQuantizeMatMul", 0),
            ("MatMulIntegerToFloat", 2),
        )
    },
    "QGemm": _products(_product_results(0, 3), _product, (0, 3), (0, 3)),
    "MatMulNBits": _products(_packed_results, _packed_product, bits=4),
    "FusedConv": _convolution_row(),
    "NhwcFusedConv": _convolution_row(last=_always_last),
    "NhwcConv": _convolution_row(last=_always_last),
    "QLinearConv": _convolution_row(3, _said_last),
    "GroupQueryAttention": _products(_grouped_results, _grouped_attention, (0, 1, 2, 3, 4), (0, 1, 2)),
    "MultiHeadAttention": _products(_multi_head_results, _multi_head_attention, (0, 1, 2, 6, 7), (0, 1, 2)),
    # behind the projection both operands of each product are made of the first operand
    "Attention": _products(_projected_results, _projected_attention, (0, 1, 4), (0, 1, 0, 0)),
    "MoE": _products(_same, _experts, (0, 1, 2, 4, 6), (0, 2)),
    "QMoE": _products(_same, _experts, (0, 1, 2, 5, 8), (0, 2), expert_weight_bits=4),
}
"""The rows by the names of ONNX Runtime's operators."""


def result_shapes(row: Contributed, node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> dict[str, Shape]:
    """The shapes of the node's results; none where an operand's is not known, or where they do not fit."""
    operands = [shapes.get(name, (UNKNOWN,)) if name else () for name in node.input]
    if any(UNKNOWN in operand for operand in operands):
        return {}
    try:
        made = row.results(operands, _facts(row, node))
    except (IndexError, ValueError, ZeroDivisionError):
        return {}  # operands of another rank, or fewer of them: nobody counts the node
    named = zip(node.output, made, strict=False)
    return {name: shape for name, shape in named if name and shape is not None}


def layers_of(row: Contributed, node: onnx.NodeProto, name: str, operands: Views) -> Counted | None:
    """The layers of a node that multiplies; None where this form of it is not supported.

    InputError for shapes that contradict each other.
    """
    if row.layers is None:
        return Counted()
    views = [operands[i] if i < len(operands) else None for i in row.factors]
    return row.layers(name, views, _facts(row, node))


def _facts(row: Contributed, node: onnx.NodeProto) -> Facts:
    return Facts({attribute.name: attribute for attribute in node.attribute}, dict(row.defaults))


def sum_apart(node: onnx.NodeProto) -> list[onnx.NodeProto] | None:
    """A normalisation of a sum as the sum and a normalisation; None for any other node.

    The second and third results, means and deviations, are for training and left out.
    """
    if node.domain != MICROSOFT or node.op_type not in _OF_SUMS:
        return None
    normalisation, bias = _OF_SUMS[node.op_type]
    operands, name = list(node.input), node.name or node.output[0]
    results = [*node.output, "", "", ""]
    last = results[3] or f"{name}/sum"
    added = bias < len(operands) and operands[bias]
    first = f"{name}/sum without bias" if added else last
    make = onnx.helper.make_node
    made = [make("Add", operands[:2], [first], name=f"{name}/sum")]
    if added:
        made.append(make("Add", [first, added], [last], name=f"{name}/bias"))
    scales = [operand for operand in operands[2:bias] if operand]
    norm = make(normalisation, [last, *scales], results[:1], name=name, domain=MICROSOFT)
    return [*made, norm]


_OF_SUMS = {
    "SkipSimplifiedLayerNormalization": ("SimplifiedLayerNormalization", 3),
    "SkipLayerNormalization": ("LayerNormalization", 4),
}
"""By the name of a normalisation of a sum, the normalisation, and the position of a bias to add."""
