"""Networks from operator-graph JSON: PyTorch (ATen) operators, named tensors, views folded away."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any, get_args

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.json.safe_json import load_json
from costmodel.workload.attributes import Attributes
from costmodel.workload.convolutions import Window, convolution_of, transposed_convolution_of
from costmodel.workload.digits import Shape
from costmodel.workload.network import Network, Node, Pooling, Uncounted, Value, ValueKind
from costmodel.workload.operators import TABLE, UNKNOWN, Nest, kinds_of
from costmodel.workload.products import (
    NO_EINSUM,
    Counted,
    attention_of,
    einsum_of,
    folded_matmul_of,
    linear_of,
    matmul_of,
)
from costmodel.workload.views import whole


def read_graph(path: str | Path, batch: int | None = None) -> Network:
    """The network of an operator-graph JSON file (``.json`` or ``.json.gz``), or of a list of layers in JSON.

    A node's operator is the type in the file (``conv2d+relu`` when fused), whose first part decides the
    layers. Operators without multiply-accumulates have no layers. Nodes of unknown operators, and those whose
    shapes fit no layer, say so in :attr:`costmodel.workload.network.Node.uncounted`. ``batch`` scales a graph
    that was exported at batch 1. A list of layers, in the form of the released SET evaluator, has a node for
    each. Raises InputError with the file and the operator for what is no such graph.
    """
    return network_of_file(load_json(path), path, batch)


def network_of_file(content: Any, path: str | Path, batch: int | None = None) -> Network:
    """The network of the ``content`` of the file ``path``: see :func:`read_graph`."""
    if isinstance(content, dict) and "layers" in content:
        from costmodel.formats.json.layer_graph_json import graph_from_json
        from costmodel.schedule.layer_graph.stated import network_of

        return network_of(graph_from_json(content, str(path)), batch or 1)
    try:
        network = network_of_graph(content, batch)
    except InputError as error:
        raise _in_file(error, path) from None
    nodes = (
        replace(node, uncounted=replace(node.uncounted, error=_in_file(node.uncounted.error, path)))
        if node.uncounted and node.uncounted.error
        else node
        for node in network.nodes
    )
    return replace(network, nodes=tuple(nodes))


def _in_file(error: InputError, path: str | Path) -> InputError:
    if error.where.startswith(str(path)):
        return error
    return error.at(str(path), "" if error.where == "graph" else error.where)


def network_of_graph(data: Any, batch: int | None = None) -> Network:
    """The network of the content of such a file; :func:`read_graph` adds the file to errors."""
    name = _field(data, "name", str, "graph")
    _check_spelling(data, _GRAPH_KEYS, "graph")
    values = [_value(item, f"tensors[{i}]") for i, item in enumerate(_field(data, "tensors", list, "graph"))]
    shared = Counter(value.name for value in values)
    if twice := [tensor for tensor, count in shared.items() if count > 1]:
        raise InputError("graph", "tensors that are all named differently", twice[0], key="tensors")
    values = _rebatched(values, batch)
    shapes = {value.name: value.shape for value in values}
    nodes = [_node(item, f"ops[{i}]", shapes) for i, item in enumerate(_field(data, "ops", list, "graph"))]
    names = Counter(node.name for node in nodes)
    if twice := [op for op, count in names.items() if count > 1]:
        raise InputError("graph", "ops that are all named differently", twice[0], key="ops")
    return Network(name, tuple(nodes), tuple(values))


def _field(data: Any, key: str, kind: type, where: str) -> Any:
    if not isinstance(data, dict):
        raise InputError(where, f"an object with {key!r}", data)
    if not isinstance(data.get(key), kind):
        raise InputError(where, "a list" if kind is list else "text", data.get(key), key=key)
    return data[key]


_GRAPH_KEYS = ("name", "tensors", "ops", "source", "input_shape", "granularity")
_TENSOR_KEYS = ("name", "shape", "kind", "bytes_int8")
_OP_KEYS = ("name", "type", "inputs", "outputs", "attrs")
_WINDOW = ("stride", "padding", "dilation", "fused_pad")
_Counting = Callable[[str, list[Shape], Shape, Attributes], Counted]
"""Makes the layers of a node from its name, its operands' shapes, its result's shape and its attributes."""
_ATTRS: Mapping[str, tuple[str, ...]] = {
    **dict.fromkeys(
        (
            *(f"conv{axes}d" for axes in (1, 2, 3)),
            *(f"conv_transpose{axes}d" for axes in (1, 2, 3)),
            "convolution",
        ),
        (*_WINDOW, "groups", "weight_shape", "transposed", "output_padding", "bias"),
    ),
    **dict.fromkeys(
        (f"{kind}_pool{axes}d" for kind in ("max", "avg") for axes in (1, 2, 3)),
        (*_WINDOW, "kernel_size", "ceil_mode", "count_include_pad", "divisor_override", "return_indices"),
    ),
    "linear": ("weight_shape", "row", "bias"),
    **dict.fromkeys(("matmul", "mm", "bmm", "addmm", "baddbmm"), ("transposed",)),
    "slice": ("dim", "start", "end", "step"),
    "select": ("dim", "index"),
    "cat": ("dim",),
    "permute": ("dims",),
    "transpose": ("dim0", "dim1"),
    "split": ("dim", "split_size"),
    "chunk": ("dim", "chunks"),
    "pad": ("pad", "mode", "value"),
}
"""By operator, the attributes that layers or layer graphs depend on: names that must not be misspelt."""


def _check_spelling(data: Mapping[str, Any], known: tuple[str, ...], where: str) -> None:
    """Refuse a key that looks like a misspelt known one, whose value would be lost without notice.

    Other unknown keys are fine: exporters keep notes of their own.
    """
    for key in data:
        if key not in known and isinstance(key, str) and (hint := did_you_mean(key, known, cutoff=0.75)):
            raise InputError(where, f"a key among {', '.join(known)}, or another word", key, hint)


def _numbers(data: Any, where: str, key: str) -> Shape:
    """Whole numbers of at least 0 (a bare one is a list of one)."""
    numbers = [data] if isinstance(data, int) else data
    if not isinstance(numbers, list | tuple) or any(type(n) is not int or n < 0 for n in numbers):
        raise InputError(where, "whole numbers of at least 0", data, key=key)
    return tuple(numbers)


def _value(data: Any, where: str) -> Value:
    kind: ValueKind = _field(data, "kind", str, where)
    _check_spelling(data, _TENSOR_KEYS, where)
    if kind not in get_args(ValueKind):
        raise InputError(where, f"one of {get_args(ValueKind)}", kind, key="kind")
    return Value(_field(data, "name", str, where), _numbers(data.get("shape"), where, "shape"), kind)


def _rebatched(values: list[Value], batch: int | None) -> list[Value]:
    """The values of a graph exported at batch 1, with the first axis of activations ``batch`` times as long.

    Views are folded away in this format, so operators depend on the number of elements only. Scaling the
    first axis makes that right even where the batch has moved to another axis.
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
    _check_spelling(data, _OP_KEYS, f"op {name}")
    for tensor in (*inputs, *outputs):
        if not isinstance(tensor, str) or tensor not in shapes:
            raise InputError(f"op {name}", "tensors that the graph declares", tensor)
    kinds = kinds_of(operator)
    head, *tail = operator.split("+")
    attrs = {} if data.get("attrs") is None else data["attrs"]
    if not isinstance(attrs, dict):
        raise InputError(f"op {name}", "an object", attrs, key="attrs")
    try:  # null is how an exporter writes that a default holds
        attributes = Attributes({key: value for key, value in attrs.items() if value is not None})
    except InputError as error:
        raise error.at(f"op {name}") from None
    _check_spelling(attrs, _ATTRS.get(head, ()), f"op {name}: attrs")
    if kinds[0].nest == "convolution" and attributes.flag("transposed"):  # ATen has one name for both
        kinds = (TABLE["transposed_convolution"], *kinds[1:])
    count = _LAYERS.get(kinds[0].nest)
    if count and not (inputs and outputs):
        raise InputError(f"op {name}", f"inputs and outputs for {head}", f"{inputs} -> {outputs}")
    found, pooling = Counted(), None
    if count:
        found = _counted(count, name, [shapes[i] for i in inputs], shapes[outputs[0]], attributes)
    else:
        pooling = _pooling(name, attributes)
    parts = list(zip((head, *tail), kinds, strict=True))
    strange = [part for part, one in parts if one is UNKNOWN or (one.nest and one.nest not in _LAYERS)]
    strange += [part for part, one in parts[1:] if one.nest]
    uncounted = found.uncounted or (Uncounted(f"{strange[0]} is not supported") if strange else None)
    note = found.note
    return Node(name, operator, inputs, outputs, found.layers, pooling, attributes, uncounted, note, kinds)


def _counted(
    count: _Counting, name: str, inputs: list[Shape], output: Shape, attributes: Attributes
) -> Counted:
    """The layers of an operator; shapes that contradict each other become the reason why it has none."""
    try:
        return count(name, inputs, output, attributes)
    except InputError as error:
        why = f"expected {error.expected}, found {error.found}"
        return Counted(uncounted=Uncounted(why, error=error.at(f"op {name}")))


def _pooling(name: str, attrs: Attributes) -> Pooling | None:
    """The window of an operator that states a kernel size; its stride is its size where none is stated."""
    size, stride = (_numbers(attrs.get(key, []), f"op {name}", key) for key in ("kernel_size", "stride"))
    return Pooling(size, stride or size) if size else None


def _convolution(name: str, inputs: list[Shape], output: Shape, attrs: Attributes) -> Counted:
    weights = _weights(name, inputs, attrs)
    stride, dilation = (_numbers(attrs.get(key, []), f"op {name}", key) for key in ("stride", "dilation"))
    groups = attrs.number("groups", 1)
    window = Window.of(len(weights) - 2, stride, dilation, groups)
    return Counted((convolution_of(name, inputs[0], weights, output, window),))


def _transposed_convolution(name: str, inputs: list[Shape], output: Shape, attrs: Attributes) -> Counted:
    weights = _weights(name, inputs, attrs)
    stride, dilation = (_numbers(attrs.get(key, []), f"op {name}", key) for key in ("stride", "dilation"))
    window = Window.of(len(weights) - 2, stride, dilation, attrs.number("groups", 1))
    return transposed_convolution_of(name, inputs[0], weights, output, window)


def _weights(name: str, inputs: list[Shape], attrs: Attributes) -> Shape:
    """The shape of the weights: the attribute if it is stated, else that of the second input.

    Both must have the same number of elements.
    """
    second = inputs[1] if len(inputs) > 1 else ()
    weights = _numbers(attrs.get("weight_shape", second), f"op {name}", "weight_shape")
    if len(weights) < 2 or prod(weights) != prod(second):
        raise InputError(f"op {name}", f"a weight tensor of shape {weights} as second input", second)
    return weights


def _linear(name: str, inputs: list[Shape], output: Shape, attrs: Attributes) -> Counted:
    stated = _numbers(attrs.get("weight_shape", []), f"op {name}", "weight_shape")
    packed = inputs[1] if len(inputs) > 1 else ()
    if len(stated) == len(packed) == 2 and stated[1] == packed[1] and stated[0] < packed[0]:
        # a view, folded away, of some rows of a packed projection: the operator reads no others
        return Counted((linear_of(name, stated, output),))
    return Counted((linear_of(name, _weights(name, inputs, attrs), output),))


def _matmul(name: str, inputs: list[Shape], output: Shape, attrs: Attributes) -> Counted:
    if len(inputs) == 1:  # x @ x, or two views of one tensor
        inputs = [inputs[0], inputs[0]]
    a, b = inputs[-2], inputs[-1]
    if len(a) >= 2 and len(b) >= 2 and a[-1] == b[-2] and output[-2:] == (a[-2], b[-1]) and all(output):
        found = matmul_of(name, whole("a", a), whole("b", b))
        if found.layers[0].output.words(found.layers[0].sizes) == prod(output):
            return found
    return Counted((folded_matmul_of(name, a, b, output),))


def _einsum(name: str, inputs: list[Shape], output: Shape, attrs: Attributes) -> Counted:
    operands = [whole(f"operand {number}", shape) for number, shape in enumerate(inputs)]
    return einsum_of(name, attrs.text("equation", ""), operands) or Counted(uncounted=NO_EINSUM)


def _attention(name: str, inputs: list[Shape], output: Shape, attrs: Attributes) -> Counted:
    """The layers of fused attention, whose result is (..., heads, queries, width).

    Queries, keys and values are three operands, two (queries; packed keys and values) or one that packs all
    three. Where there are fewer key-value heads than query heads, consecutive query heads share one. Where
    views were folded away, the last axis of an operand has its heads side by side. The branches below derive
    the shapes of keys and values in each case; 0 stands for a length that does not come out whole.
    """
    if len(output) < 2 or 0 in output:
        raise InputError(f"op {name}", "an output (..., heads, queries, width)", output)
    batch, (heads, queries, width) = prod(output[:-3]), ((1, *output) if len(output) == 2 else output)[-3:]
    q: Shape = (batch, heads, queries, width)
    k: Shape
    v: Shape
    if len(inputs) == 1 or prod(inputs[0]) == 3 * prod(output):
        pairs, rest = divmod(prod(inputs[0]) - prod(output), 2 * batch * queries * width)
        k = v = (batch, pairs, 0 if rest else queries, width)
    elif len(inputs) == 2:
        pairs = inputs[1][-1] // (2 * width) if inputs[1] and inputs[1][-1] % (2 * width) == 0 else heads
        keys, rest = divmod(prod(inputs[1]), 2 * batch * max(pairs, 1) * width)
        k = v = (batch, pairs, 0 if rest else keys, width)
    elif len(inputs[1]) == len(inputs[2]) == len(output) and inputs[0][:-1] == output[:-1]:
        q, k, v = (_four(shape) for shape in inputs[:3])
    else:
        k, v = (_heads_side_by_side(shape, batch, width) for shape in inputs[1:3])
    fits = k[:3] == v[:3] and q[-1] == k[-1] and v[-1] == width and (q[0], k[0]) == (batch, batch)
    if not fits or not all((*k, *v)) or heads % k[1]:
        raise InputError(f"op {name}", f"queries, keys and values that fit {output}", inputs)
    return attention_of(name, whole("q", q), whole("k", k), whole("v", v))


def _four(shape: Shape) -> Shape:
    """The shape as (batch, heads, rows, width), where axes in front may be several or missing."""
    padded = (1, 1, *shape)[-max(len(shape), 3) :]
    return (prod(padded[:-3]), *padded[-3:])


def _heads_side_by_side(shape: Shape, batch: int, width: int) -> Shape:
    """The shape (..., rows, heads * width) as (batch, heads, rows, width); lengths of 0 if it is not such."""
    if not shape or shape[-1] % width or prod(shape) % (batch * shape[-1]):
        return (batch, 0, 0, width)
    return (batch, shape[-1] // width, prod(shape) // (batch * shape[-1]), width)


_LAYERS: dict[Nest | None, _Counting] = {
    "convolution": _convolution,
    "transposed_convolution": _transposed_convolution,
    "linear": _linear,
    "matmul": _matmul,
    "attention": _attention,
    "einsum": _einsum,
}
