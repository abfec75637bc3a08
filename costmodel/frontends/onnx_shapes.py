"""Reading an ONNX file and inferring every tensor's shape, at the file's batch or at another."""

from __future__ import annotations

import re
from collections.abc import Iterator
from math import prod
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]
from onnx import numpy_helper, shape_inference

from costmodel.errors import InputError
from costmodel.frontends.safe_yaml import read_bytes

Shape = tuple[int, ...]

MOST_BYTES = 2**31 - 1
"""What one protobuf message can hold, weights included."""
MOST_NODES = 200_000
_LARGE = 1024
"""Elements above which a parameter is data, never a shape that inference has to read."""
UNKNOWN = 0
"""Stands for the length of an axis that inference cannot tell."""

# where an operator holds the shape of its result as a constant, which has the batch baked in
_SHAPE_INPUT = {"Reshape": 1, "Expand": 1, "Resize": 3}
_REMEDY = "Export the model with a symbolic batch axis, or at the batch you want"


def load_model(path: str | Path) -> onnx.ModelProto:
    """The model of an ONNX file without its weights' data; InputError when the file is damaged."""
    data = read_bytes(path, MOST_BYTES)
    try:
        model = onnx.load_model_from_string(data)
    except (DecodeError, UnicodeDecodeError) as error:
        raise InputError(str(path), "a whole ONNX file", f"{len(data):,} bytes: {error}") from None
    if not model.graph.node or not model.opset_import:
        found = f"{len(model.graph.node)} nodes, {len(model.opset_import)} operator sets"
        raise InputError(str(path), "an ONNX model with a graph and its operator set", found)
    if len(model.graph.node) > MOST_NODES:
        raise InputError(str(path), f"at most {MOST_NODES:,} nodes", f"{len(model.graph.node):,}")
    for tensor in model.graph.initializer:
        if min(tensor.dims, default=0) < 0:
            raise InputError(str(path), "axes of at least 0", list(tensor.dims), key=tensor.name)
        _drop_data(tensor)
    # a local function is not inlined (nested ones could grow without bound): its calls stay opaque
    del model.functions[:]
    return model


def _drop_data(tensor: onnx.TensorProto) -> None:
    if prod(tensor.dims) <= _LARGE or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return
    for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        tensor.ClearField(field)
    tensor.data_location = onnx.TensorProto.EXTERNAL


def shapes_of(model: onnx.ModelProto, batch: int | None) -> dict[str, Shape]:
    """Every tensor's shape; axes that cannot be told are :data:`UNKNOWN`, tensors without any are left out.

    A symbolic first axis of the inputs becomes ``batch`` (1 when None). A fixed one is replaced by it: the
    constants that hold a tensor's shape are scaled along, and every tensor that depends on an input
    must come out scaled by the same factor, else the file's batch cannot be changed.
    """
    original = _first_axis(model)
    _set_first_axes(model, original or 1)
    shapes = _inferred(model)
    if batch is None or batch == (original or 1):
        return shapes
    if batch < 1:
        raise InputError("batch", "a whole number of at least 1", batch)
    _set_first_axes(model, batch)
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    dependent = _dependent_on_inputs(model.graph)
    _scale_constant_shapes(model.graph, dependent, batch, original or 1)
    try:
        rebatched = _inferred(model)
    except InputError as error:
        raise InputError(f"batch {batch}", error.expected, error.found, _REMEDY) from None
    for name in dependent & shapes.keys():
        if prod(rebatched.get(name, ())) * (original or 1) != prod(shapes[name]) * batch:
            found = f"{shapes[name]} at batch {original or 1} and {rebatched.get(name)} at batch {batch}"
            raise InputError(f"tensor {name}", "elements in proportion to the batch", found, _REMEDY)
    return rebatched


def graph_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """The inputs that are fed: old files list their parameters among the inputs too."""
    parameters = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in parameters]


def _axes(value: onnx.ValueInfoProto) -> list[onnx.TensorShapeProto.Dimension]:
    if value.type.WhichOneof("value") != "tensor_type" or not value.type.tensor_type.HasField("shape"):
        raise InputError(f"input {value.name}", "a tensor with a shape", value.type.WhichOneof("value"))
    return list(value.type.tensor_type.shape.dim)


def _first_axis(model: onnx.ModelProto) -> int | None:
    """The batch of the file: the first axis of its first input that has axes; None when it is symbolic."""
    for value in graph_inputs(model.graph):
        if axes := _axes(value):
            return axes[0].dim_value or None
    return None


def _set_first_axes(model: onnx.ModelProto, batch: int) -> None:
    """Write ``batch`` as first axis of every input whose first axis is symbolic or equal to the first's."""
    inputs = [(value, axes) for value in graph_inputs(model.graph) if (axes := _axes(value))]
    original = inputs[0][1][0].dim_value if inputs else 0
    for value, axes in inputs:
        if axes[0].dim_value in (0, original):
            if axes[0].dim_param:
                _resolve(model.graph, axes[0].dim_param, batch)
            axes[0].dim_value = batch
        for i, axis in enumerate(axes):
            if axis.dim_value < 1:
                raise InputError(
                    f"input {value.name}",
                    "axes of known length (only the first may be symbolic, the batch)",
                    axis.dim_param or axis.dim_value or "an axis without length",
                    "Fix the axis when exporting the model",
                    key=f"axis {i}",
                )


def _resolve(graph: onnx.GraphProto, symbol: str, length: int) -> None:
    for value in (*graph.input, *graph.value_info, *graph.output):
        for axis in value.type.tensor_type.shape.dim:
            if axis.dim_param == symbol:
                axis.dim_value = length


def _inferred(model: onnx.ModelProto) -> dict[str, Shape]:
    try:
        inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except (shape_inference.InferenceError, DecodeError, EncodeError, ValueError, RuntimeError) as error:
        raise InputError("shape inference", "operators whose shapes fit", _sentence(error)) from None
    graph = inferred.graph
    shapes = {tensor.name: tuple(tensor.dims) for tensor in graph.initializer}
    shapes |= {tensor.values.name: tuple(tensor.dims) for tensor in graph.sparse_initializer}
    for value in (*graph.input, *graph.value_info, *graph.output):
        if value.type.tensor_type.HasField("shape"):
            axes = value.type.tensor_type.shape.dim
            shapes.setdefault(value.name, tuple(max(axis.dim_value, UNKNOWN) for axis in axes))
    return shapes


def _sentence(error: Exception) -> str:
    """One line, without the bracketed error classes that ONNX nests."""
    return re.sub(r"\[\w+\]|Inference error\(s\):|\s+", " ", str(error)).strip() or type(error).__name__


def _dependent_on_inputs(graph: onnx.GraphProto) -> set[str]:
    """Tensors computed from the fed inputs' data (not from their shapes alone)."""
    reached = {value.name for value in graph_inputs(graph)}
    for node in graph.node:
        if node.op_type not in ("Shape", "Size") and reached.intersection(node.input):
            reached.update(name for name in node.output if name)
    return reached


def _scale_constant_shapes(graph: onnx.GraphProto, dependent: set[str], batch: int, original: int) -> None:
    """Give every Reshape (or like) of batched data a constant shape with its first axis scaled."""
    for node, position, shape in _constant_shapes(graph):
        first = shape[0]
        if node.input[0] not in dependent or first < 1 or (node.op_type != "Reshape" and first != original):
            continue
        if first * batch % original:
            raise InputError(
                f"node {node.name}",
                f"a shape that can hold batch {batch}",
                f"{shape} at batch {original}",
                _REMEDY,
            )
        name = f"{node.output[0]}/shape at batch {batch}"
        values = [first * batch // original, *shape[1:]]
        graph.initializer.append(onnx.helper.make_tensor(name, onnx.TensorProto.INT64, [len(values)], values))
        node.input[position] = name


def _constant_shapes(graph: onnx.GraphProto) -> Iterator[tuple[onnx.NodeProto, int, list[int]]]:
    constants = {tensor.name: tensor for tensor in graph.initializer}
    for node in graph.node:
        for attribute in node.attribute:
            if node.op_type == "Constant" and attribute.name == "value":
                constants[node.output[0]] = attribute.t
    for node in list(graph.node):
        position = _SHAPE_INPUT.get(node.op_type, len(node.input))
        tensor = constants.get(node.input[position]) if position < len(node.input) else None
        if tensor is not None and len(tensor.dims) == 1 and 0 < tensor.dims[0] <= _LARGE:
            yield node, position, [int(n) for n in numpy_helper.to_array(tensor)]
