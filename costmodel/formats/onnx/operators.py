"""Which ONNX operators do multiply-accumulates, and the layers of those that do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import onnx

from costmodel.errors import InputError
from costmodel.formats.onnx.constants import STANDARD_DOMAINS
from costmodel.workload.network import Pooling, Uncounted
from costmodel.workload.operators import Window, convolution_of, reading_once
from costmodel.workload.products import Counted, attention_of, einsum_of, matmul_of
from costmodel.workload.views import Shape, View, stacked

ELEMENTWISE = frozenset(
    name
    for line in (
        # one operand
        "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh Elu Erf",
        "Exp Floor Gelu HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Log Mish Neg Not",
        "Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan",
        "Tanh ThresholdedRelu",
        # several operands
        "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less",
        "LessOrEqual Max Mean Min Mod Mul Or PRelu Pow Sub Sum Where Xor",
    )
    for name in line.split()
)
"""Operators whose every result follows from one element of each operand, which broadcast as in NumPy."""
MOVEMENT = frozenset(
    name
    for line in (
        "CenterCropPad Col2Im Compress Concat Constant ConstantOfShape DepthToSpace Expand EyeLike",
        "Flatten Gather GatherElements GatherND OneHot Pad Range Reshape ReverseSequence Scatter",
        "ScatterElements ScatterND Shape Size Slice SpaceToDepth Split Squeeze TensorScatter Tile",
        "Transpose Trilu Unsqueeze Resize Upsample",
    )
    for name in line.split()
)
"""Operators that move data, or say something about shapes."""
_WITHOUT_MACS = (
    ELEMENTWISE
    | MOVEMENT
    | frozenset(
        name
        for line in (
            # normalisation, quantisation, dropout, rotation of pairs
            "BatchNormalization DequantizeLinear Dropout DynamicQuantizeLinear GroupNormalization Hardmax",
            "InstanceNormalization LRN LayerNormalization LogSoftmax LpNormalization QuantizeLinear",
            "MeanVarianceNormalization RMSNormalization RotaryEmbedding Softmax",
            # pooling, reduction, search, sampling
            "ArgMax ArgMin AveragePool CumSum GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample LpPool",
            "MaxPool MaxRoiPool MaxUnpool NonMaxSuppression NonZero ReduceL1 ReduceL2 ReduceLogSum",
            "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare",
            "RoiAlign TopK Unique",
            # random numbers
            "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
        )
        for name in line.split()
    )
)

Protos = Mapping[str, onnx.AttributeProto]


def counted(node: onnx.NodeProto, name: str, operands: Sequence[View | None], output: Shape) -> Counted:
    """The layers of a node of ONNX's own operators: none for those without multiply-accumulates.

    ``operands`` by position, None for one left out. InputError for shapes that contradict each other.
    """
    if node.op_type in _WITHOUT_MACS:
        return Counted()
    attributes = {attribute.name: attribute for attribute in node.attribute}
    factors = [operands[i] for i in factors_of(node) if i < len(operands)]
    found = _LAYERS[node.op_type](name, [view for view in factors if view], output, attributes)
    return found or Counted(uncounted=Uncounted("an einsum that is no product of two operands"))


def is_known(node: onnx.NodeProto) -> bool:
    """Whether :func:`counted` takes the node: one of ONNX's own operators, without graphs inside."""
    if node.domain not in STANDARD_DOMAINS or any(
        a.type == onnx.AttributeProto.GRAPH for a in node.attribute
    ):
        return False
    return node.op_type in _WITHOUT_MACS or node.op_type in _LAYERS


def factors_of(node: onnx.NodeProto) -> tuple[int, ...]:
    """The inputs that are multiplied, by position; scales and zero points may stand between them."""
    return _FACTORS.get(node.op_type, (0, 1)) if node.op_type in _LAYERS else ()


def pooling_of(node: onnx.NodeProto) -> Pooling | None:
    """The window of a pooling over windows; its stride is 1 unless given."""
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
    return einsum_of(name, equation, *operands) if len(operands) == 2 else None


def _attention(name: str, operands: Sequence[View], output: Shape, attributes: Protos) -> Counted:
    """Queries, keys, values, perhaps past keys and past values; heads apart, or packed in the last axis."""
    packed = len(operands[0].axes) == 3
    heads = [_number(attributes, key, 0) for key in ("q_num_heads", "kv_num_heads", "kv_num_heads")]
    views = [
        _heads_apart(name, view, count) if packed else view
        for view, count in zip(operands[:3], heads, strict=True)
    ]
    past = dict(zip((1, 2), operands[3:], strict=False))
    for i, before in past.items():
        shape = tuple(views[i].shape[axis] + (before.shape[2] if axis == 2 else 0) for axis in range(4))
        views[i] = stacked(f"{name} after its past", (before, views[i]), 2, shape)
    return attention_of(name, *views)


def _heads_apart(name: str, view: View, heads: int) -> View:
    """(batch, rows, heads * width) as (batch, heads, rows, width)."""
    batch, rows, packed = view.shape
    apart = view.reshaped((batch, rows, heads, packed // heads)) if heads and packed % heads == 0 else None
    if apart is None:
        raise InputError(f"layer {name}", f"heads that divide {packed}", heads, key="num_heads")
    return apart.transposed((0, 2, 1, 3))


def _numbers(attributes: Protos, key: str) -> Shape:
    return tuple(attributes[key].ints) if key in attributes else ()


def _number(attributes: Protos, key: str, default: int) -> int:
    return int(attributes[key].i) if key in attributes else default


_LAYERS: dict[str, Callable[[str, Sequence[View], Shape, Protos], Counted | None]] = {
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv"), _convolution),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _matmul),
    "Gemm": _gemm,
    "Einsum": _einsum,
    "Attention": _attention,
}
_FACTORS = {"QLinearConv": (0, 3), "QLinearMatMul": (0, 3), "Attention": (0, 1, 2, 4, 5)}
