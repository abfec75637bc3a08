"""ONNX's operators by the names of the table of operators, and the layers of those that multiply."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from math import prod

import onnx

from costmodel.errors import InputError
from costmodel.formats.onnx.constants import STANDARD_DOMAINS
from costmodel.formats.onnx.contributed import contributed, heads_apart, layers_of
from costmodel.workload.convolutions import (
    Window,
    convolution_of,
    reading_once,
    transposed_convolution_of,
)
from costmodel.workload.digits import Shape
from costmodel.workload.network import Pooling, Uncounted
from costmodel.workload.operators import TABLE, UNKNOWN, Nest, OperatorKind
from costmodel.workload.products import NO_EINSUM, Counted, attention_of, einsum_of, matmul_of
from costmodel.workload.views import View, stacked

_IRREGULAR = {
    **{"And": "logical_and", "Or": "logical_or", "Xor": "logical_xor", "Not": "logical_not"},
    **{"Equal": "eq", "Greater": "gt", "GreaterOrEqual": "ge", "Less": "lt", "LessOrEqual": "le"},
    **{"Max": "maximum", "Min": "minimum", "Mean": "mean_of_operands", "Sum": "sum_of_operands"},
    **{"ReduceMax": "amax", "ReduceMin": "amin", "ReduceMean": "mean", "ReduceSum": "sum"},
    **{"ReduceProd": "prod", "ReduceL1": "norm", "ReduceL2": "norm", "ReduceLogSum": "log_sum"},
    **{"ReduceLogSumExp": "logsumexp", "ReduceSumSquare": "sum_square"},
    **{"ArgMax": "argmax", "ArgMin": "argmin", "CumSum": "cumsum", "TopK": "topk"},
    **{"PRelu": "prelu", "HardSwish": "hardswish", "HardSigmoid": "hardsigmoid", "Clip": "clamp"},
    **{"IsNaN": "is_nan", "CastLike": "cast", "Trilu": "triu"},
    **{
        "ConvTranspose": "transposed_convolution",
        "Conv": "convolution",
        "ConvInteger": "convolution",
        "QLinearConv": "quantized_convolution",
    },
    **{"MatMul": "matmul", "MatMulInteger": "matmul", "QLinearMatMul": "quantized_matmul"},
    **{"BatchNormalization": "batch_norm", "GroupNormalization": "group_norm", "LRN": "local_response_norm"},
    **{"InstanceNormalization": "instance_norm", "LayerNormalization": "layer_norm"},
    "RMSNormalization": "rms_norm",
    **{"AveragePool": "avg_pool", "GlobalAveragePool": "adaptive_avg_pool"},
    **{"GlobalMaxPool": "adaptive_max_pool", "GlobalLpPool": "adaptive_lp_pool"},
    **{"Concat": "cat", "Tile": "repeat", "Transpose": "permute"},
    **{"Gather": "index_select", "GatherElements": "gather", "GatherND": "gather_nd"},
    **{"ScatterElements": "scatter", "ScatterND": "scatter_nd", "Col2Im": "col2im"},
    **{"DepthToSpace": "pixel_shuffle", "SpaceToDepth": "pixel_unshuffle"},
    **{"ConstantOfShape": "full", "Range": "arange"},
    **{"RandomNormalLike": "random_normal", "RandomUniformLike": "random_uniform"},
}
"""The table's names of operators that ONNX calls otherwise. All others have the same name in both, but for
capitals: ``LeakyRelu`` is ``leaky_relu``."""


def kind_of(node: onnx.NodeProto) -> OperatorKind:
    """The node's row in the table of operators.

    That is ``UNKNOWN`` for what is neither ONNX's nor a known one of ONNX Runtime's, and for control flow
    (graphs inside).
    """
    if row := contributed(node):
        return row.kind
    has_graphs = any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute)
    if has_graphs or node.domain not in STANDARD_DOMAINS or not onnx.defs.has(node.op_type):
        return UNKNOWN
    if node.op_type == "Transpose" and all(attribute.name != "perm" for attribute in node.attribute):
        return TABLE["t"]  # without an order of axes it turns them all round
    name = _IRREGULAR.get(node.op_type) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", node.op_type).lower()
    return TABLE.get(name, UNKNOWN)


Protos = Mapping[str, onnx.AttributeProto]


def counted(node: onnx.NodeProto, name: str, operands: Sequence[View | None], output: Shape) -> Counted:
    """The layers of a node whose kind is known; none if it has no multiply-accumulates.

    ``operands`` are by position, None for one that is left out or of unknown shape. InputError for shapes
    that contradict each other.
    """
    if row := contributed(node):
        return layers_of(row, node, name, operands) or Counted(uncounted=Uncounted(_ANOTHER_FORM))
    kind = kind_of(node)
    if kind.nest is None:
        return Counted()
    attributes = {attribute.name: attribute for attribute in node.attribute}
    factors = [operands[i] for i in factors_of(node)]
    found = _LAYERS[kind.nest](name, [view for view in factors if view], output, attributes)
    return found or Counted(uncounted=NO_EINSUM)


_ANOTHER_FORM = "ONNX Runtime's operator is not supported with these operands"


def factors_of(node: onnx.NodeProto) -> list[int]:
    """The positions of the operands that a node multiplies: all of an einsum's."""
    operands, kind, row = len(node.input), kind_of(node), contributed(node)
    if kind.nest == "einsum":
        return list(range(operands))
    positions = kind.factors if row is None else row.factors if row.layers else ()
    return [i for i in positions if i < operands]


def pooling_of(node: onnx.NodeProto) -> Pooling | None:
    """The window of a pooling, with stride 1 unless it is stated; None for any other operator."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    size = _numbers(attributes, "kernel_shape")
    if not node.op_type.endswith("Pool") or not size:
        return None
    return Pooling(size, _numbers(attributes, "strides") or (1,) * len(size))


def _convolution(name: str, operands: Sequence[View], output: Shape, attributes: Protos) -> Counted:
    data, weights = operands[0].shape, operands[1].shape
    window = Window.of(
        len(weights) - 2,
        _numbers(attributes, "strides"),
        _numbers(attributes, "dilations"),
        _number(attributes, "group", 1),
    )
    kernel = _numbers(attributes, "kernel_shape") or weights[2:]
    if kernel != weights[2:]:
        raise InputError(f"layer {name}", f"the weights' filter {weights[2:]}", kernel, key="kernel_shape")
    return reading_once(convolution_of(name, data, weights, output, window), operands[0])


def _transposed_convolution(
    name: str, operands: Sequence[View], output: Shape, attributes: Protos
) -> Counted:
    data, weights = operands[0].shape, operands[1].shape
    window = Window.of(
        len(weights) - 2,
        _numbers(attributes, "strides"),
        _numbers(attributes, "dilations"),
        _number(attributes, "group", 1),
    )
    return transposed_convolution_of(name, data, weights, output, window)


def _gemm(name: str, operands: Sequence[View], output: Shape, attributes: Protos) -> Counted:
    if any(len(view.axes) != 2 for view in operands):
        found = " and ".join(str(view.shape) for view in operands)
        raise InputError(f"layer {name}", "two matrices", found)
    a, b = (
        view.transposed((1, 0)) if _number(attributes, key, 0) else view
        for view, key in zip(operands, ("transA", "transB"), strict=True)
    )
    return _matmul(name, (a, b), output, attributes)


def _matmul(name: str, operands: Sequence[View], output: Shape, attributes: Protos) -> Counted:
    found = matmul_of(name, *operands)
    (layer,) = found.layers
    if layer.output.words(layer.sizes) != prod(output):
        shapes = " and ".join(str(view.shape) for view in operands)
        raise InputError(f"layer {name}", f"an output that {shapes} multiply to", output)
    return found


def _einsum(name: str, operands: Sequence[View], output: Shape, attributes: Protos) -> Counted | None:
    equation = attributes["equation"].s.decode(errors="replace") if "equation" in attributes else ""
    return einsum_of(name, equation, operands)


def _attention(name: str, operands: Sequence[View], output: Shape, attributes: Protos) -> Counted:
    """The layers of attention, whose keys and values follow past ones if the node has these operands.

    Operands are (batch, heads, rows, width) or, packed, (batch, rows, heads * width).
    """
    packed = len(operands[0].axes) == 3
    heads = [_number(attributes, key, 0) for key in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    views = [
        heads_apart(name, view, count) if packed else view
        for view, count in zip(operands[:3], heads, strict=True)
    ]
    past = dict(zip((1, 2), operands[3:], strict=False))
    for i, before in past.items():
        shape = tuple(views[i].shape[axis] + (before.shape[2] if axis == 2 else 0) for axis in range(4))
        views[i] = stacked(f"{name} after its past", (before, views[i]), 2, shape)
    return attention_of(name, *views)


def _numbers(attributes: Protos, key: str) -> Shape:
    return tuple(attributes[key].ints) if key in attributes else ()


def _number(attributes: Protos, key: str, default: int) -> int:
    return int(attributes[key].i) if key in attributes else default


_LAYERS: dict[Nest, Callable[[str, Sequence[View], Shape, Protos], Counted | None]] = {
    "convolution": _convolution,
    "transposed_convolution": _transposed_convolution,
    "matmul": _matmul,
    "gemm": _gemm,
    "einsum": _einsum,
    "attention": _attention,
}
