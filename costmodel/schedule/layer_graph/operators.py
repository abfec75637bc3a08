"""What the operators of ONNX and of PyTorch graphs are to a chip's scheduler."""

from __future__ import annotations

from typing import Literal

Role = Literal[
    "products",
    "activation",
    "normalisation",
    "elementwise",
    "pooling",
    "reduction",
    "view",
    "cut",
    "concatenation",
    "lookup",
]
"""``activation``: of one operand, any constants, no other element; ``normalisation``: also of other elements;
``view``: the same data in another shape; ``cut``: a part of the data; ``lookup``: rows of a table."""

_NAMES: dict[Role, str] = {
    "products": (
        "conv1d conv2d conv3d convolution linear matmul mm bmm addmm baddbmm scaled_dot_product_attention "
        "Conv ConvInteger QLinearConv MatMul MatMulInteger QLinearMatMul Gemm Einsum layer"
    ),
    "activation": (
        "relu relu6 gelu silu mish elu selu celu leaky_relu prelu hardtanh hardswish hardsigmoid sigmoid "
        "tanh softplus softsign exp exp2 log log2 sqrt rsqrt abs neg reciprocal erf sin cos floor ceil "
        "round sign clamp clamp_min clamp_max square logical_not bitwise_not log1p expm1 masked_fill tril "
        "triu _native_batch_norm_legit_no_training native_batch_norm batch_norm Abs Acos Acosh Asin Asinh "
        "Atan Atanh BitwiseNot Cast CastLike Ceil Celu Clip Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid "
        "HardSwish IsInf IsNaN LeakyRelu Log Mish Neg Not PRelu Reciprocal Relu Round Selu Shrink Sigmoid "
        "Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh ThresholdedRelu Trilu BatchNormalization "
        "DequantizeLinear QuantizeLinear DynamicQuantizeLinear RotaryEmbedding"
    ),
    "normalisation": (
        "native_layer_norm layer_norm native_group_norm group_norm instance_norm rms_norm "
        "local_response_norm softmax _softmax log_softmax _log_softmax cumsum GroupNormalization Hardmax "
        "InstanceNormalization LRN LayerNormalization LogSoftmax LpNormalization "
        "MeanVarianceNormalization RMSNormalization Softmax CumSum"
    ),
    "elementwise": (
        "add sub rsub mul div pow addcmul addcdiv maximum minimum where eq ne lt le gt ge logical_and "
        "logical_or lerp atan2 fmod remainder Add And BitShift BitwiseAnd BitwiseOr BitwiseXor Div Equal "
        "Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mod Mul Or Pow Sub Sum Where Xor"
    ),
    "pooling": (
        "max_pool1d max_pool2d max_pool2d_with_indices avg_pool1d avg_pool2d adaptive_avg_pool1d "
        "adaptive_avg_pool2d adaptive_max_pool2d AveragePool GlobalAveragePool GlobalLpPool GlobalMaxPool "
        "LpPool MaxPool"
    ),
    "reduction": (
        "mean sum amax amin max min prod var std argmax argmin norm ArgMax ArgMin ReduceL1 ReduceL2 "
        "ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
    ),
    "view": (
        "view reshape _unsafe_view flatten permute transpose t unsqueeze squeeze expand clone contiguous "
        "copy to _to_copy dropout alias detach getitem identity pad constant_pad_nd repeat Dropout Expand "
        "Flatten Identity Pad Reshape Squeeze Transpose Unsqueeze Tile"
    ),
    "cut": "slice select split split_with_sizes chunk unbind Slice Split",
    "concatenation": "cat Concat",
    "lookup": "embedding gather index index_select Gather GatherND GatherElements",
}
_ROLES: dict[str, Role] = {name: role for role, names in _NAMES.items() for name in names.split()}


def role_of(operator: str) -> Role | None:
    """The role of an operator without what is fused to it; None for one that no schedule can have."""
    return _ROLES.get(operator)
