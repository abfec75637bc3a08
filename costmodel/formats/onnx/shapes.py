"""Reading an ONNX file and inferring every tensor's shape, at the file's batch or at another."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import suppress
from math import inf, prod
from pathlib import Path

import onnx
from google.protobuf.message import DecodeError  # type: ignore[import-untyped]
from onnx import external_data_helper, inliner, numpy_helper

from costmodel.errors import InputError
from costmodel.formats.onnx.control_flow import nested
from costmodel.formats.onnx.inference import Inferred, infer
from costmodel.formats.onnx.symbols import batch_symbols, check_dims, missing_lengths, set_lengths, value_of
from costmodel.formats.yaml.safe_yaml import read_bytes

MOST_BYTES = 2**31 - 1
"""The most bytes that one protobuf message can hold, weights included."""
MOST_NODES = 200_000
_LARGE = 1024
"""Elements above which a parameter is data, never a shape that inference has to read."""

WHOLE_NUMBERS = frozenset({onnx.TensorProto.INT32, onnx.TensorProto.INT64})
"""The types of elements that state shapes."""

_WIDEST = 16
"""Bytes of the widest element, a complex number."""

# by operator, the operand that states the shape of its result; as a constant it fixes the batch
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
    _keep_small_data(model.graph, Path(path))
    if model.functions:
        model = _without_functions(model)
        _keep_small_data(model.graph, Path(path))
    return model


def _keep_small_data(graph: onnx.GraphProto, path: Path) -> None:
    """Drop the data of weights, which nobody needs, and read what states shapes."""
    for name, tensor in _stated_tensors(graph):
        if min(tensor.dims, default=0) < 0:
            raise InputError(str(path), "axes of at least 0", list(tensor.dims), key=name)
        _drop_data(tensor)
        _read_small(tensor, path.parent)


def without_numbers(graph: onnx.GraphProto, folder: Path) -> dict[str, InputError]:
    """By the name of a parameter that may state a shape and has no numbers, the error to raise for it.

    These are small, and whole numbers or the scales of a resize. Nobody needs the numbers of weights.
    """
    scales = {
        name for node in graph.node if node.op_type in ("Resize", "Upsample") for name in node.input[1:]
    }
    return {
        name: _missing_numbers(name, tensor, folder)
        for name, tensor in _stated_tensors(graph)
        if tensor.data_location == onnx.TensorProto.EXTERNAL
        and prod(tensor.dims) <= _LARGE
        and (tensor.data_type in WHOLE_NUMBERS or name in scales)
    }


def _missing_numbers(name: str, tensor: onnx.TensorProto, folder: Path) -> InputError:
    stated = external_data_helper.ExternalDataInfo(tensor)
    file = folder / stated.location
    where = f"tensor {name}"
    if not stated.location:
        remedy = "Export the model again with its small constants inside"
        return InputError(where, "its numbers, which state a shape", "none in the file", remedy)
    expected = f"its {prod(tensor.dims)} numbers, which state a shape, in the file of weights {file}"
    remedy = f"Put {stated.location} into the folder of the ONNX file, or export the small constants inside"
    if not file.is_file():
        return InputError(where, expected, "no such file", remedy)
    begin, size = stated.offset or 0, file.stat().st_size
    found = f"{size:,} bytes, where the numbers are to start at byte {begin:,}"
    return InputError(where, expected, found, f"{remedy}. This one is another or was cut off")


def _stated_tensors(graph: onnx.GraphProto) -> Iterator[tuple[str, onnx.TensorProto]]:
    """The parameters and constants of a graph and of all graphs inside, with their names."""
    for one in nested(graph):
        yield from ((tensor.name, tensor) for tensor in one.initializer)
        for node in one.node:
            if node.op_type == "Constant" and node.output:
                yield from ((node.output[0], a.t) for a in node.attribute if a.HasField("t"))


def _without_functions(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with its own functions written out where they are called.

    Where that would be more than :data:`MOST_NODES` nodes (functions that call each other can grow without
    bound), or where ONNX cannot do it, the calls stay, and nobody counts what is inside.
    """
    if _written_out(model) <= MOST_NODES:
        with suppress(RuntimeError, ValueError, onnx.checker.ValidationError):
            model = inliner.inline_local_functions(model)
    del model.functions[:]
    return model


def _written_out(model: onnx.ModelProto) -> float:
    """How many nodes there are with all functions written out; infinitely many where one calls itself."""
    bodies = {(one.domain, one.name): one for one in model.functions}
    sizes: dict[tuple[str, str], float] = {}

    def size(node: onnx.NodeProto) -> float:
        key = (node.domain, node.op_type)
        if key in bodies and key not in sizes:
            sizes[key] = inf  # until it is known: whoever asks for it meanwhile is inside of it
            sizes[key] = sum(map(size, bodies[key].node))
        inner = (body for attribute in node.attribute for body in (attribute.g, *attribute.graphs))
        return sizes.get(key, 1) + sum(size(one) for body in inner for one in body.node)

    return sum(map(size, model.graph.node))


def _drop_data(tensor: onnx.TensorProto) -> None:
    if prod(tensor.dims) <= _LARGE or tensor.data_location == onnx.TensorProto.EXTERNAL:
        return
    for field in ("raw_data", "float_data", "int32_data", "int64_data", "double_data", "uint64_data"):
        tensor.ClearField(field)
    tensor.data_location = onnx.TensorProto.EXTERNAL


def _read_small(tensor: onnx.TensorProto, folder: Path) -> None:
    """Read a small parameter that lies in another file of the same folder: it may state a shape.

    It stays without data where that file is missing or shorter than the parameter: nobody may need it.
    """
    if tensor.data_location != onnx.TensorProto.EXTERNAL or prod(tensor.dims) > _LARGE:
        return
    length = external_data_helper.ExternalDataInfo(tensor).length
    if length is not None and 0 < length <= _LARGE * _WIDEST:
        with suppress(OSError, ValueError, onnx.checker.ValidationError):
            external_data_helper.load_external_data_for_tensor(tensor, str(folder))


def inferred_at(model: onnx.ModelProto, batch: int | None, dims: Mapping[str, int] | None = None) -> Inferred:
    """What can be told of every tensor; an axis whose length cannot has the length :data:`UNKNOWN`.

    ``dims`` gives symbolic lengths their values, also within sums and products. A symbolic first axis of the
    inputs that it does not state becomes ``batch`` (1 when None). A fixed first axis is replaced by
    ``batch``, and constants that state the shape of a tensor are scaled by the same factor. Every tensor that
    depends on an input must then have as many times more elements; else the file's batch cannot be changed,
    and InputError names the tensor. The graph's control flow is written out on the way.
    """
    dims = dims or {}
    as_read = onnx.ModelProto()
    if batch is not None:
        as_read.CopyFrom(model)
    original, missing = _set_lengths(model, None, dims)
    found = infer(model)
    found.missing = missing
    if batch is None or batch == original:
        return found
    if batch < 1:
        raise InputError("batch", "a whole number of at least 1", batch)
    model.CopyFrom(as_read)
    _set_lengths(model, batch, dims)
    # shapes noted in the file hold the old batch: inference must find all of them anew
    del model.graph.value_info[:]
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    dependent = _dependent_on_inputs(model.graph)
    _scale_constant_shapes(model.graph, dependent, batch, original)
    try:
        rebatched = infer(model)
        rebatched.missing = missing
    except InputError as error:
        raise InputError(f"batch {batch}", error.expected, error.found, _REMEDY) from None
    for name in dependent & found.shapes.keys():
        one, other = found.shapes[name], rebatched.shapes.get(name, ())
        if prod(other) * original != prod(one) * batch:
            shown = f"{one} at batch {original} and {other} at batch {batch}"
            raise InputError(f"tensor {name}", "elements in proportion to the batch", shown, _REMEDY)
    return rebatched


def graph_inputs(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    """The inputs without parameters, which old files list among them, too."""
    parameters = {tensor.name for tensor in graph.initializer}
    return [value for value in graph.input if value.name not in parameters]


def _axes(value: onnx.ValueInfoProto) -> list[onnx.TensorShapeProto.Dimension]:
    if value.type.WhichOneof("value") != "tensor_type" or not value.type.tensor_type.HasField("shape"):
        raise InputError(f"input {value.name}", "a tensor with a shape", value.type.WhichOneof("value"))
    return list(value.type.tensor_type.shape.dim)


def _set_lengths(
    model: onnx.ModelProto, batch: int | None, dims: Mapping[str, int]
) -> tuple[int, InputError | None]:
    """Write a length to every axis of the inputs; the file's batch, and the error for axes without one.

    That is the first axis of the first input, 1 where it is symbolic. ``batch`` (None: the file's own) is
    written to all first axes that are symbolic or as long as that one.
    """
    inputs = [(value, axes) for value in graph_inputs(model.graph) if (axes := _axes(value))]
    for axis in (axis for _, axes in inputs for axis in axes):
        if (
            axis.dim_value < 1 and not axis.dim_param
        ):  # how some exporters write a length that they do not know
            axis.ClearField("dim_value")
    values = check_dims([value for value, _ in inputs], dims)
    first = inputs[0][1][0] if inputs else onnx.TensorShapeProto.Dimension()
    stated = value_of(first.dim_param, values) if first.dim_param else None
    if stated and batch not in (None, stated):
        raise InputError("batch", f"the {stated} that dims states as {first.dim_param}, or none", batch)
    original = first.dim_value or stated or 1
    batch = batch or original
    for symbol in batch_symbols([value for value, _ in inputs], values):
        values[symbol] = batch
    set_lengths(model.graph, values)
    for _, axes in inputs:
        if axes[0].dim_value in (0, original) and not axes[0].dim_param:
            axes[0].dim_value = batch
    return original, missing_lengths([value for value, _ in inputs], values)


def _dependent_on_inputs(graph: onnx.GraphProto) -> set[str]:
    """The tensors that are computed from the inputs' elements, and not only from their shapes."""
    reached = {value.name for value in graph_inputs(graph)}
    for node in graph.node:
        if node.op_type not in ("Shape", "Size") and reached.intersection(node.input):
            reached.update(name for name in node.output if name)
    return reached


def _scale_constant_shapes(graph: onnx.GraphProto, dependent: set[str], batch: int, original: int) -> None:
    """Scale the first length of the constant shapes of all Reshapes (and Expands, Resizes) of batched data.

    Each node gets a constant of its own, as nodes may share one.
    """
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
    """Every node whose operand states its result's shape as a constant: node, operand's position, shape."""
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
