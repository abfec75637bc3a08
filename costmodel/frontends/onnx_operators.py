"""Which ONNX operators do multiply-accumulates, and the layers of those that do."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import onnx

from costmodel.errors import InputError
from costmodel.frontends.onnx_attributes import STANDARD_DOMAINS
from costmodel.frontends.operators import Shape, Window, convolution_of, einsum_of, matmul_of
from costmodel.workload import Layer, Pooling, gemm

_WITHOUT_MACS = frozenset(
    name
    for line in (
        # element-wise, one operand
        "Abs Acos Acosh Asin Asinh Atan Atanh BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh Elu Erf",
        "Exp Floor Gelu HardSigmoid HardSwish Identity IsInf IsNaN LeakyRelu Log LogSoftmax Mish Neg Not",
        "Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softmax Softplus Softsign Sqrt Swish Tan",
        "Tanh ThresholdedRelu",
        # element-wise, several operands
        "Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal Greater GreaterOrEqual Less",
        "LessOrEqual Max Mean Min Mod Mul Or PRelu Pow RotaryEmbedding Sub Sum Where Xor",
        # normalisation, quantisation, dropout
        "BatchNormalization DequantizeLinear Dropout DynamicQuantizeLinear GroupNormalization Hardmax",
        "InstanceNormalization LRN LayerNormalization LpNormalization MeanVarianceNormalization",
        "QuantizeLinear RMSNormalization",
        # pooling, reduction, search, resampling
        "ArgMax ArgMin AveragePool CumSum GlobalAveragePool GlobalLpPool GlobalMaxPool GridSample LpPool",
        "MaxPool MaxRoiPool MaxUnpool NonMaxSuppression NonZero ReduceL1 ReduceL2 ReduceLogSum",
        "ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare Resize",
        "RoiAlign TopK Unique Upsample",
        # data movement and shapes
        "CenterCropPad Col2Im Compress Concat Constant ConstantOfShape DepthToSpace Expand EyeLike",
        "Flatten Gather GatherElements GatherND OneHot Pad Range Reshape ReverseSequence Scatter",
        "ScatterElements ScatterND Shape Size Slice SpaceToDepth Split Squeeze TensorScatter Tile",
        "Transpose Trilu Unsqueeze",
        # random numbers
        "Bernoulli Multinomial RandomNormal RandomNormalLike RandomUniform RandomUniformLike",
    )
    for name in line.split()
)

Attributes = Mapping[str, onnx.AttributeProto]


def layers_of(
    node: onnx.NodeProto, name: str, inputs: Sequence[Shape], output: Shape
) -> tuple[Layer, ...] | None:
    """The layers of a node, none for operators without multiply-accumulates, None for unsupported ones.

    ``inputs`` are the shapes by position (() for one left out). Operators of other domains than ONNX's
    own, control flow and calls of local functions are unsupported.
    """
    if node.domain not in STANDARD_DOMAINS:
        return None
    if node.op_type in _WITHOUT_MACS:
        return ()
    if node.op_type not in _LAYERS or any(a.type == onnx.AttributeProto.GRAPH for a in node.attribute):
        return None
    operands = [inputs[i] if i < len(inputs) else () for i in _OPERANDS.get(node.op_type, (0, 1))]
    if not output or not all(operands) or 0 in (*output, *operands[0], *operands[1]):
        return None
    attributes = {attribute.name: attribute for attribute in node.attribute}
    layer = _LAYERS[node.op_type](name, operands, output, attributes)
    return None if layer is None else (layer,)


def pooling_of(node: onnx.NodeProto) -> Pooling | None:
    """The window of a pooling over windows; its stride is 1 unless given."""
    attributes = {attribute.name: attribute for attribute in node.attribute}
    size = _numbers(attributes, "kernel_shape")
    if not node.op_type.endswith("Pool") or not size:
        return None
    return Pooling(size, _numbers(attributes, "strides") or (1,) * len(size))


def _convolution(name: str, operands: Sequence[Shape], output: Shape, attributes: Attributes) -> Layer:
    data, weights = operands
    window = Window.of(
        len(weights) - 2,
        _numbers(attributes, "strides"),
        _numbers(attributes, "dilations"),
        attributes["group"].i if "group" in attributes else 1,
    )
    kernel = _numbers(attributes, "kernel_shape") or weights[2:]
    if kernel != weights[2:]:
        raise InputError(f"layer {name}", f"the weights' filter {weights[2:]}", kernel, key="kernel_shape")
    return convolution_of(name, data, weights, output, window)


def _gemm(name: str, operands: Sequence[Shape], output: Shape, attributes: Attributes) -> Layer:
    a, b = (
        shape[::-1] if key in attributes and attributes[key].i else shape
        for shape, key in zip(operands, ("transA", "transB"), strict=True)
    )
    if len(a) != 2 or len(b) != 2 or a[1] != b[0]:
        raise InputError(f"layer {name}", "matrices (M, K) and (K, N) once transposed", f"{a} and {b}")
    return gemm(name, M=a[0], N=b[1], K=a[1])


def _matmul(name: str, operands: Sequence[Shape], output: Shape, attributes: Attributes) -> Layer:
    layer = matmul_of(name, *operands)
    if layer.output.words(layer.sizes) != prod(output):
        raise InputError(f"layer {name}", f"an output that {operands} multiply to", output)
    return layer


def _einsum(name: str, operands: Sequence[Shape], output: Shape, attributes: Attributes) -> Layer | None:
    equation = attributes["equation"].s.decode(errors="replace") if "equation" in attributes else ""
    return einsum_of(name, equation, *operands)


def _numbers(attributes: Attributes, key: str) -> Shape:
    return tuple(attributes[key].ints) if key in attributes else ()


_LAYERS: dict[str, Callable[[str, Sequence[Shape], Shape, Attributes], Layer | None]] = {
    **dict.fromkeys(("Conv", "ConvInteger", "QLinearConv"), _convolution),
    **dict.fromkeys(("MatMul", "MatMulInteger", "QLinearMatMul"), _matmul),
    "Gemm": _gemm,
    "Einsum": _einsum,
}
# the two factors among the inputs, where scales and zero points stand between them
_OPERANDS = {"QLinearConv": (0, 3), "QLinearMatMul": (0, 3)}
