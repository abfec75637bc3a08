"""The one table of operators: what every part of the model needs to know of a kind of operator.

The table's names are PyTorch's where it has the operator. :data:`ALSO_CALLED` has PyTorch's other names for
the same operator, and every reader of a format translates that format's names into the table's (ONNX's in
``formats/onnx/operators.py``). No other module keeps a list of operators: what an operator is, it reads from
a column of the operator's row, an :class:`OperatorKind`.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal

OperatorRole = Literal[
    "products",
    "attention",
    "activation",
    "normalisation",
    "elementwise",
    "pooling",
    "reduction",
    "view",
    "cut",
    "concatenation",
    "lookup",
    "resampling",
    "rearrangement",
    "search",
    "source",
    "random",
    "numbers",
    "unknown",
]
"""What an operator does, as a scheduler of layers sees it.

- ``products``: multiply-accumulates of two operands.
- ``attention``: several products in one, with operands (masks, past keys) that no schedule can have yet.
- ``activation``: a function of single elements of one operand, perhaps with constants.
- ``normalisation``: a function of one operand in which each result follows from several elements.
- ``elementwise``: arithmetic on several operands.
- ``pooling``, ``reduction``: one number for a window, or for all along some axes.
- ``view``: the same data in another shape; ``cut``: a part of it; ``concatenation``: operands one after
  the other.
- ``lookup``: rows of a table.
- ``resampling``: values between the operand's positions; ``rearrangement``: data moved in a way that is no
  view.
- ``search``: results whose positions, or whose number, depend on values.
- ``source``: constants without an operand; ``random``: random numbers; ``numbers``: numbers about a tensor's
  shape.
"""
SCHEDULED: frozenset[OperatorRole] = frozenset(
    {
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
        "numbers",
    }
)
"""Roles that a schedule on a chip can have."""
Nest = Literal[
    "convolution",
    "transposed_convolution",
    "matmul",
    "linear",
    "gemm",
    "einsum",
    "attention",
    "stated",
    "fused",
]
"""The rule by which an operator's shapes become its loop nests.

``stated``: the node comes with its nest. ``fused``: a runtime's own operator, whose reader knows its nests
and which is no row of the table; it can be mapped layer by layer, and neither scheduled nor
fused with others.
"""
Elements = Literal["pointwise", "moved", "computed"]
"""How an element of the result follows from the operands.

- ``pointwise``: from one element of each operand; shapes broadcast by NumPy's rules.
- ``moved``: it is an element of an operand, or a constant.
- ``computed``: in any other way.
"""


@dataclass(frozen=True)
class OperatorKind:
    """A row of the table.

    ``factors`` are the positions of the operands that its nest multiplies, among all operands. ``in_place``:
    a scratchpad may hold the result at the address of an operand, because each element is read before it is
    written, and the result is as wide as the operand.
    """

    name: str
    role: OperatorRole
    elements: Elements
    in_place: bool = False
    nest: Nest | None = None
    factors: tuple[int, ...] = ()


UNKNOWN = OperatorKind("unknown", "unknown", "computed")
"""The kind of an operator that has no row."""


def _products(names: str, nest: Nest, factors: tuple[int, ...] = (0, 1)) -> list[OperatorKind]:
    return [OperatorKind(name, "products", "computed", nest=nest, factors=factors) for name in names.split()]


def _pointwise(
    names: str,
    role: Literal["activation", "elementwise"],
    *,
    in_place: bool = True,
    elements: Elements = "pointwise",
) -> list[OperatorKind]:
    return [OperatorKind(name, role, elements, in_place) for name in names.split()]


def _others(names: str, role: OperatorRole, elements: Elements) -> list[OperatorKind]:
    return [OperatorKind(name, role, elements) for name in names.split()]


_ROWS = (
    *_products("convolution", "convolution"),
    *_products("transposed_convolution", "transposed_convolution"),
    *_products("quantized_convolution", "convolution", (0, 3)),  # scales and zero points in between
    *_products("matmul", "matmul"),
    *_products("quantized_matmul", "matmul", (0, 3)),
    *_products("addmm", "matmul", (1, 2)),  # behind the addend
    *_products("linear", "linear"),
    *_products("gemm", "gemm"),
    *_products("einsum", "einsum"),
    *_products("scaled_dot_product_attention", "attention", (0, 1, 2)),
    *_products("layer", "stated"),
    # of networks that are published as lists of layers, which do not say what function it is
    *_others("pooling_layer", "pooling", "computed"),
    *_pointwise("elementwise_layer", "elementwise", in_place=False),
    *_others("function_layer", "normalisation", "computed"),
    *_others("transposing_layer", "rearrangement", "moved"),
    *_others("choosing_layer", "search", "computed"),
    *_others("dispatching_layer", "rearrangement", "moved"),
    *_others("combining_layer", "rearrangement", "computed"),
    *_others("scaling_layer", "elementwise", "computed"),
    # queries, keys and values, a mask at position 3, past keys and past values
    OperatorKind("attention", "attention", "computed", False, "attention", (0, 1, 2, 4, 5)),
    *_pointwise(
        "relu relu6 gelu silu mish elu selu celu leaky_relu prelu hardtanh hardswish hardsigmoid sigmoid "
        "tanh softplus softsign exp exp2 log log2 sqrt rsqrt abs neg reciprocal erf sin cos clamp square "
        "floor ceil round sign",
        "activation",
    ),
    # not in place: nobody has yet looked at whether their results are as wide as their operands everywhere
    *_pointwise(
        "acos acosh asin asinh atan atanh cosh sinh tan shrink thresholded_relu swish log1p expm1 clamp_min "
        "clamp_max cast masked_fill logical_not bitwise_not is_inf is_nan",
        "activation",
        in_place=False,
    ),
    # with a constant for each channel, or a mask of positions: no element follows from another
    *_pointwise("batch_norm rotary_embedding", "activation", in_place=False, elements="computed"),
    *_pointwise("tril triu", "activation", in_place=False, elements="moved"),
    *_pointwise(
        "quantize_linear dequantize_linear dynamic_quantize_linear",
        "activation",
        in_place=False,
        elements="computed",
    ),
    *_pointwise("add sub mul div pow maximum minimum where mod", "elementwise"),
    *_pointwise(
        "rsub addcmul addcdiv lerp atan2 fmod remainder sum_of_operands mean_of_operands",
        "elementwise",
        in_place=False,
    ),
    *_pointwise(
        "eq ne lt le gt ge logical_and logical_or logical_xor bitwise_and bitwise_or bitwise_xor bit_shift",
        "elementwise",
        in_place=False,
    ),
    *_others(
        "softmax log_softmax layer_norm group_norm instance_norm rms_norm local_response_norm cumsum "
        "lp_normalization mean_variance_normalization",
        "normalisation",
        "computed",
    ),
    *_others("hardmax", "normalisation", "computed"),
    *_others(
        "max_pool avg_pool lp_pool adaptive_max_pool adaptive_avg_pool adaptive_lp_pool",
        "pooling",
        "computed",
    ),
    *_others(
        "mean sum amax amin prod var std norm log_sum logsumexp sum_square",
        "reduction",
        "computed",
    ),
    # of two operands, PyTorch's max and min go element by element: only then sizes are equal, and one may
    # write over the other
    OperatorKind("max", "reduction", "computed", in_place=True),
    OperatorKind("min", "reduction", "computed", in_place=True),
    *_others("argmax argmin", "reduction", "computed"),
    *_others("identity", "view", "pointwise"),
    *_others("dropout", "view", "computed"),
    *_others(
        "reshape flatten squeeze unsqueeze permute transpose t expand repeat pad",
        "view",
        "moved",
    ),
    *_others("slice select split", "cut", "moved"),
    *_others("cat", "concatenation", "moved"),
    *_others("embedding gather gather_nd index index_select", "lookup", "moved"),
    *_others("upsample resize", "resampling", "moved"),
    *_others("grid_sample roi_align max_roi_pool max_unpool", "resampling", "computed"),
    *_others(
        "stack tile flip roll pixel_shuffle pixel_unshuffle reflection_pad replication_pad center_crop_pad "
        "col2im reverse_sequence scatter scatter_nd tensor_scatter",
        "rearrangement",
        "moved",
    ),
    *_others("compress", "search", "moved"),
    *_others("topk sort unique", "search", "computed"),
    *_others("non_zero non_max_suppression", "search", "computed"),
    *_others("constant full arange eye_like one_hot", "source", "moved"),
    *_others("bernoulli multinomial random_normal random_uniform", "random", "computed"),
    *_others("shape size", "numbers", "moved"),
)
TABLE: Mapping[str, OperatorKind] = MappingProxyType({row.name: row for row in _ROWS})
"""All rows by name."""

_OTHER_NAMES = {
    "convolution": "conv1d conv2d conv3d",
    "transposed_convolution": "conv_transpose1d conv_transpose2d conv_transpose3d",
    "matmul": "mm bmm",
    "addmm": "baddbmm",
    "clamp": "clip",
    "batch_norm": "native_batch_norm _native_batch_norm_legit_no_training",
    "layer_norm": "native_layer_norm",
    "group_norm": "native_group_norm",
    "softmax": "_softmax",
    "log_softmax": "_log_softmax",
    "max_pool": "max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices",
    "avg_pool": "avg_pool1d avg_pool2d avg_pool3d",
    "adaptive_max_pool": "adaptive_max_pool2d",
    "adaptive_avg_pool": "adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d",
    "identity": "clone contiguous copy to _to_copy alias detach lift_fresh_copy type_as",
    "reshape": "view _unsafe_view getitem unflatten",
    "expand": "expand_as",
    "norm": "linalg_vector_norm",
    "pad": "constant_pad_nd",
    "split": "split_with_sizes chunk unbind",
    "upsample": (
        "upsample_nearest2d upsample_nearest3d upsample_bilinear2d upsample_bicubic2d upsample_trilinear3d"
    ),
    "grid_sample": "grid_sampler_2d",
    "reflection_pad": "reflection_pad2d",
    "replication_pad": "replication_pad2d",
    "full": "full_like zeros zeros_like ones ones_like scalar_tensor new_full new_zeros new_ones",
    "tile": "repeat_interleave",
    "logical_and": "__and__",
    "logical_or": "__or__",
    "logical_xor": "__xor__",
}
ALSO_CALLED: Mapping[str, str] = MappingProxyType(
    {other: name for name, others in _OTHER_NAMES.items() for other in others.split()}
)
"""By PyTorch's other names of an operator, its name in the table."""


def kinds_of(operator: str) -> tuple[OperatorKind, ...]:
    """The kinds of an operator by PyTorch's name, and of those that are fused to it with ``+``.

    ``conv2d+relu`` is a convolution, then a relu. What has no row is :data:`UNKNOWN`.
    """
    return tuple(TABLE.get(ALSO_CALLED.get(name, name), UNKNOWN) for name in operator.split("+"))
