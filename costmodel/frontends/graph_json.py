"""Networks from operator-graph JSON: PyTorch (ATen) operators, named tensors, views folded away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any, get_args

from costmodel.attributes import Attributes
from costmodel.errors import InputError
from costmodel.frontends.operators import (
    Shape,
    Window,
    attention_of,
    convolution_of,
    folded_matmul_of,
    linear_of,
    matmul_of,
)
from costmodel.frontends.safe_json import load_json
from costmodel.workload import Layer, Network, Node, Pooling, Value, ValueKind

_WITHOUT_MACS = frozenset(
    name
    for line in (
        # element-wise, one operand
        "relu relu6 gelu silu mish elu selu celu leaky_relu prelu hardtanh hardswish hardsigmoid sigmoid",
        "tanh softplus softsign exp exp2 log log2 sqrt rsqrt abs neg reciprocal erf sin cos floor ceil",
        "round sign clamp clamp_min clamp_max pow square logical_not bitwise_not log1p expm1",
        # element-wise, several operands
        "add sub rsub mul div addcmul addcdiv maximum minimum where eq ne lt le gt ge logical_and",
        "logical_or lerp masked_fill atan2 fmod remainder",
        # normalisation and softmax
        "_native_batch_norm_legit_no_training native_batch_norm batch_norm native_layer_norm layer_norm",
        "native_group_norm group_norm instance_norm rms_norm local_response_norm softmax _softmax",
        "log_softmax _log_softmax",
        # pooling, reduction, resampling
        "max_pool1d max_pool2d max_pool3d max_pool2d_with_indices max_pool3d_with_indices avg_pool1d",
        "avg_pool2d avg_pool3d adaptive_avg_pool1d adaptive_avg_pool2d adaptive_avg_pool3d",
        "adaptive_max_pool2d mean sum amax amin max min prod var std argmax argmin cumsum topk sort norm",
        "upsample_bilinear2d upsample_nearest2d upsample_bicubic2d upsample_trilinear3d",
        "upsample_nearest3d grid_sampler_2d pixel_shuffle pixel_unshuffle",
        # data movement
        "cat stack pad constant_pad_nd reflection_pad2d replication_pad2d embedding gather index",
        "index_select scatter roll flip repeat tile tril triu view reshape _unsafe_view flatten permute",
        "transpose t unsqueeze squeeze expand slice select split split_with_sizes chunk unbind clone",
        "contiguous copy to _to_copy dropout alias detach getitem identity full full_like zeros",
        "zeros_like ones ones_like arange scalar_tensor",
    )
    for name in line.split()
)


def read_graph(path: str | Path, batch: int | None = None) -> Network:
    """The network of an operator-graph JSON file (``.json`` or ``.json.gz``).

    A node's operator is the file's type (``conv2d+relu`` when fused); its first part decides the layers.
    Operators that do no multiply-accumulates have none, unknown ones are opaque. ``batch`` scales a
    graph exported at batch 1. Raises InputError with the file and the operator for what does not fit.
    """
    try:
        return network_of_graph(load_json(path), batch)
    except InputError as error:
        if error.where.startswith(str(path)):
            raise
        raise error.at(str(path), f"{error.where}.{error.key}" if error.key else error.where) from None


def network_of_graph(data: Any, batch: int | None = None) -> Network:
    """As :func:`read_graph`, for data that is already read."""
    name = _field(data, "name", str, "graph")
    values = [_value(item, f"tensors[{i}]") for i, item in enumerate(_field(data, "tensors", list, "graph"))]
    values = _rebatched(values, batch)
    shapes = {value.name: value.shape for value in values}
    nodes = [_node(item, f"ops[{i}]", shapes) for i, item in enumerate(_field(data, "ops", list, "graph"))]
    names = Counter(node.name for node in nodes)
    if twice := [op for op, count in names.items() if count > 1]:
        raise InputError("graph", "ops that are all named differently", twice, key="ops")
    return Network(name, tuple(nodes), tuple(values))


def _field(data: Any, key: str, kind: type, where: str) -> Any:
    if not isinstance(data, dict):
        raise InputError(where, f"an object with {key!r}", data)
    if not isinstance(data.get(key), kind):
        raise InputError(where, "a list" if kind is list else "text", data.get(key), key=key)
    return data[key]


def _numbers(data: Any, where: str, key: str) -> Shape:
    """Whole numbers of at least 0 (a bare one is a list of one)."""
    numbers = [data] if isinstance(data, int) else data
    if not isinstance(numbers, list | tuple) or any(type(n) is not int or n < 0 for n in numbers):
        raise InputError(where, "whole numbers of at least 0", data, key=key)
    return tuple(numbers)


def _value(data: Any, where: str) -> Value:
    kind: ValueKind = _field(data, "kind", str, where)
    if kind not in get_args(ValueKind):
        raise InputError(where, f"one of {get_args(ValueKind)}", kind, key="kind")
    return Value(_field(data, "name", str, where), _numbers(data.get("shape"), where, "shape"), kind)


def _rebatched(values: list[Value], batch: int | None) -> list[Value]:
    """Activations with their first axis ``batch`` times as long, for a graph exported at batch 1.

    Views are folded away in this format, so only the number of elements matters to the operators:
    scaling the first axis scales it rightly even where the batch has moved to another axis.
    """
    leading = {value.shape[0] for value in values if value.kind == "input" and value.shape}
    if batch is None or leading == {batch}:
        return values
    if batch < 1 or leading != {1}:
        raise InputError(
            "graph",
            "a batch of at least 1, and a graph whose inputs all have batch 1",
            f"batch {batch} for inputs with leading axes {sorted(leading)}",
            "Export the graph at the batch you want",
            key="batch",
        )
    return [
        value
        if value.kind == "parameter" or not value.shape
        else Value(value.name, (value.shape[0] * batch, *value.shape[1:]), value.kind)
        for value in values
    ]


def _node(data: Any, where: str, shapes: Mapping[str, Shape]) -> Node:
    name, operator = _field(data, "name", str, where), _field(data, "type", str, where)
    inputs, outputs = (tuple(_field(data, key, list, where)) for key in ("inputs", "outputs"))
    for tensor in (*inputs, *outputs):
        if not isinstance(tensor, str) or tensor not in shapes:
            raise InputError(f"op {name}", "tensors that the graph declares", tensor)
    head, *tail = operator.split("+")
    known = all(part in _WITHOUT_MACS for part in tail)
    if head in _LAYERS and not (inputs and outputs):
        raise InputError(f"op {name}", f"inputs and outputs for {head}", f"{inputs} -> {outputs}")
    attrs = data.get("attrs") or {}
    if not isinstance(attrs, dict):
        raise InputError(f"op {name}", "an object", attrs, key="attrs")
    try:  # null is how an exporter writes that a default holds
        attributes = Attributes({key: value for key, value in attrs.items() if value is not None})
    except InputError as error:
        raise error.at(f"op {name}") from None
    if head not in _LAYERS:
        opaque = not known or head not in _WITHOUT_MACS
        return Node(name, operator, inputs, outputs, (), opaque, _pooling(name, attributes), attributes)
    layers = _LAYERS[head](name, [shapes[i] for i in inputs], shapes[outputs[0]], attributes)
    return Node(name, operator, inputs, outputs, layers, opaque=not known, attributes=attributes)


def _pooling(name: str, attrs: Attributes) -> Pooling | None:
    """The window of an operator with a kernel size; without a stride it moves by its size."""
    size, stride = (_numbers(attrs.get(key, []), f"op {name}", key) for key in ("kernel_size", "stride"))
    return Pooling(size, stride or size) if size else None


def _convolution(name: str, inputs: list[Shape], output: Shape, attrs: Attributes) -> tuple[Layer, ...]:
    weights = _weights(name, inputs, attrs)
    stride, dilation = (_numbers(attrs.get(key, []), f"op {name}", key) for key in ("stride", "dilation"))
    groups = attrs.number("groups", 1)
    window = Window.of(len(weights) - 2, stride, dilation, groups)
    return (convolution_of(name, inputs[0], weights, output, window),)


def _weights(name: str, inputs: list[Shape], attrs: Attributes) -> Shape:
    """The weight shape: the attribute when given, else the second input; they must agree."""
    second = inputs[1] if len(inputs) > 1 else ()
    weights = _numbers(attrs.get("weight_shape", second), f"op {name}", "weight_shape")
    if len(weights) < 2 or prod(weights) != prod(second):
        raise InputError(f"op {name}", f"a weight tensor of shape {weights} as second input", second)
    return weights


def _linear(name: str, inputs: list[Shape], output: Shape, attrs: Attributes) -> tuple[Layer, ...]:
    return (linear_of(name, _weights(name, inputs, attrs), output),)


def _matmul(name: str, inputs: list[Shape], output: Shape, attrs: Attributes) -> tuple[Layer, ...]:
    if len(inputs) == 1:  # x @ x, or two views of one tensor
        inputs = [inputs[0], inputs[0]]
    a, b = inputs[-2], inputs[-1]
    plain = len(a) >= 2 and len(b) >= 2 and a[-1] == b[-2] and output[-2:] == (a[-2], b[-1])
    return (matmul_of(name, a, b) if plain else folded_matmul_of(name, a, b, output),)


def _attention(name: str, inputs: list[Shape], output: Shape, attrs: Attributes) -> tuple[Layer, ...]:
    """Queries, keys and values arrive apart, as (queries, packed keys and values), or all packed in one."""
    if len(output) < 2 or 0 in output:
        raise InputError(f"op {name}", "an output (..., heads, queries, width)", output)
    queries = prod(output)
    row = queries // output[-2]
    if prod(inputs[0]) == 3 * queries:
        keys = output[-2]
    elif len(inputs) == 2 and prod(inputs[1]) % (2 * row) == 0:
        keys = prod(inputs[1]) // (2 * row)
    elif len(inputs) >= 3 and inputs[1][-1:] == output[-1:] and len(inputs[1]) == len(output):
        keys = inputs[1][-2]
    else:
        raise InputError(f"op {name}", f"queries, keys and values that fit {output}", inputs)
    return attention_of(name, output, keys)


_LAYERS: dict[str, Callable[[str, list[Shape], Shape, Attributes], tuple[Layer, ...]]] = {
    **dict.fromkeys(("conv1d", "conv2d", "conv3d", "convolution"), _convolution),
    "linear": _linear,
    # addmm and baddbmm have the addend first, the two factors last
    **dict.fromkeys(("matmul", "mm", "bmm", "addmm", "baddbmm"), _matmul),
    "scaled_dot_product_attention": _attention,
}
