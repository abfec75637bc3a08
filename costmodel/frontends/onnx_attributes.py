"""The attributes of ONNX nodes, and the operands that say axes, bounds and shapes as further attributes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from costmodel.attributes import Attributes
from costmodel.errors import InputError
from costmodel.frontends.onnx_shapes import UNKNOWN, Shape

Constants = dict[str, "np.ndarray[Any, Any]"]

STANDARD_DOMAINS = ("", "ai.onnx")
_MOST_ELEMENTS = 1024
"""Of a constant that says something about shapes or positions; larger ones are data."""

_STATEMENTS: Mapping[str, tuple[str, ...]] = {
    "CenterCropPad": ("shape",),
    "ConstantOfShape": ("input",),
    "CumSum": ("axis",),
    "Expand": ("shape",),
    "Gather": ("indices",),
    "GatherElements": ("indices",),
    "GatherND": ("indices",),
    "OneHot": ("depth",),
    "Pad": ("pads", "axes"),
    "Range": ("start", "limit", "delta"),
    "Reshape": ("shape",),
    "Resize": ("roi", "scales", "sizes"),
    "Slice": ("starts", "ends", "axes", "steps"),
    "Split": ("split",),
    "Squeeze": ("axes",),
    "Tile": ("repeats",),
    "TopK": ("K",),
    "Trilu": ("k",),
    "Unsqueeze": ("axes",),
    "Upsample": ("scales",),
}
"""The operands, by their names in ONNX, that say where or how and are no data; of reductions ``axes`` too."""

# what exporters compute shapes and bounds with; nothing here makes more elements than its shape says
_ARITHMETIC = frozenset(
    name
    for line in (
        "Abs Add And Cast Ceil Concat ConstantOfShape Div Equal Expand Flatten Floor Gather Greater Identity",
        "Less Max Min Mod Mul Neg Not Or Range ReduceMax ReduceMin ReduceProd ReduceSum Reshape Slice Split",
        "Squeeze Sub Tile Transpose Unsqueeze Where",
    )
    for name in line.split()
)


def standard_opset(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operator set that a model uses; 0 if it uses none."""
    return max((one.version for one in model.opset_import if one.domain in STANDARD_DOMAINS), default=0)


def constants_of(graph: onnx.GraphProto, shapes: Mapping[str, Shape], opset: int) -> Constants:
    """The small tensors of ``graph`` whose values are known: constants, and what follows from them.

    The shape of a tensor counts as known where none of its axes is :data:`UNKNOWN`.
    """
    found: Constants = {}
    for tensor in graph.initializer:
        if tensor.data_location != onnx.TensorProto.EXTERNAL and prod(tensor.dims) <= _MOST_ELEMENTS:
            found[tensor.name] = numpy_helper.to_array(tensor)
    for node in graph.node:
        if node.domain in STANDARD_DOMAINS and all(
            0 < prod(shapes.get(name, (0,))) <= _MOST_ELEMENTS for name in node.output if name
        ):
            found |= _computed(node, found, shapes, opset)
    return found


def _computed(node: onnx.NodeProto, known: Constants, shapes: Mapping[str, Shape], opset: int) -> Constants:
    """The results of a node, nothing where they follow from tensors whose values are not known."""
    if node.op_type in ("Shape", "Size"):
        shape = shapes.get(node.input[0], (UNKNOWN,))
        if UNKNOWN in shape:
            return {}
        if node.op_type == "Size":
            return {node.output[0]: np.array(prod(shape))}
        bounds = {attribute.name: attribute.i for attribute in node.attribute}
        return {node.output[0]: np.array(shape[bounds.get("start", 0) : bounds.get("end", len(shape))])}
    if node.op_type == "Constant":
        return _stated(node)
    if node.op_type not in _ARITHMETIC or any(name and name not in known for name in node.input):
        return {}
    read = {name: known[name] for name in node.input if name}
    reads, makes = ([onnx.ValueInfoProto(name=one) for one in names if one] for names in (read, node.output))
    graph = onnx.helper.make_graph([node], "constants", reads, makes)
    model = onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", opset)])
    try:
        with np.errstate(divide="raise", invalid="raise"):
            made = ReferenceEvaluator(model).run(None, read)
    except (ArithmeticError, IndexError, TypeError, ValueError) as error:
        where = f"node {node.name or node.op_type}"
        raise InputError(where, "constants that the operator can take", str(error)) from None
    return dict(zip(filter(None, node.output), map(np.asarray, list(made)), strict=True))


def _stated(node: onnx.NodeProto) -> Constants:
    for attribute in node.attribute:
        if attribute.name == "value" and attribute.t.data_location != onnx.TensorProto.EXTERNAL:
            return {node.output[0]: numpy_helper.to_array(attribute.t)}
        if attribute.name in ("value_int", "value_ints", "value_float", "value_floats"):
            return {node.output[0]: np.asarray(onnx.helper.get_attribute_value(attribute))}
    return {}


def attributes_of(node: onnx.NodeProto, constants: Constants, opset: int) -> Attributes:
    """What a node states, the defaults of its operator set, and constant operands by their names in ONNX.

    None for an operand that is not constant. Graphs (bodies of control flow) and large tensors are left out.
    """
    standard = node.domain in STANDARD_DOMAINS and onnx.defs.has(node.op_type)
    schema = _schema(node.op_type, opset) if standard else None
    values: dict[str, Any] = {}
    if schema is not None:
        for name, declared in schema.attributes.items():
            if declared.default_value.type != onnx.AttributeProto.UNDEFINED:
                values[name] = _value(declared.default_value)
    values |= {attribute.name: _value(attribute) for attribute in node.attribute}
    if schema is not None:
        statements = ("axes",) if node.op_type.startswith("Reduce") else _STATEMENTS.get(node.op_type, ())
        for operand, name in zip(schema.inputs, node.input, strict=False):
            if name and operand.name in statements:
                values[operand.name] = constants[name].tolist() if name in constants else None
    return Attributes({name: value for name, value in values.items() if value is not _LEFT_OUT})


def _schema(operator: str, opset: int) -> onnx.defs.OpSchema | None:
    """The operator as the file's operator set has it; None where it did not exist then."""
    try:
        return onnx.defs.get_schema(operator, opset)
    except onnx.defs.SchemaError:
        return None


_LEFT_OUT = object()


def _value(attribute: onnx.AttributeProto) -> Any:
    """Numbers, text (bytes that are no text as their hexadecimal digits) or lists of them."""
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        small = prod(value.dims) <= _MOST_ELEMENTS and value.data_location != onnx.TensorProto.EXTERNAL
        return numpy_helper.to_array(value).tolist() if small else _LEFT_OUT
    if isinstance(value, bytes):
        return _text(value)
    if isinstance(value, int | float):
        return value
    items: list[Any] = list(value) if isinstance(value, Sequence) else [_LEFT_OUT]
    if all(isinstance(item, bytes) for item in items):
        return [_text(item) for item in items]
    return items if all(isinstance(item, int | float) for item in items) else _LEFT_OUT


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.hex()
