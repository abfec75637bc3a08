"""The attributes of ONNX nodes; operands that state axes, bounds or shapes become attributes, too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import prod
from typing import Any

import onnx
from onnx import numpy_helper

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.onnx.constants import MOST_ELEMENTS, STANDARD_DOMAINS, Constants
from costmodel.formats.onnx.contributed import contributed
from costmodel.workload.attributes import Attributes

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
"""By operator, the operands that state where or how and are no data, by their names in ONNX.

Those of reductions, ``axes``, are added in the code.
"""


def attributes_of(node: onnx.NodeProto, constants: Constants, opset: int) -> Attributes:
    """The attributes that a node states, the defaults of its operator set, and constant operands.

    An operand has its name in ONNX, and the value None if it is not constant. Graphs (bodies of control flow)
    and large tensors are left out.
    """
    standard = node.domain in STANDARD_DOMAINS and onnx.defs.has(node.op_type)
    schema = _schema(node.op_type, opset) if standard else None
    row = contributed(node)
    values: dict[str, Any] = dict(row.defaults) if row else {}
    if schema is not None:
        for name, declared in schema.attributes.items():
            if declared.default_value.type != onnx.AttributeProto.UNDEFINED:
                values[name] = _value(declared.default_value)
    values |= {attribute.name: _value(attribute) for attribute in node.attribute}
    if schema is not None:
        _check_spelling(node, schema)
    if schema is not None:
        statements = ("axes",) if node.op_type.startswith("Reduce") else _STATEMENTS.get(node.op_type, ())
        for operand, name in zip(schema.inputs, node.input, strict=False):
            if name and operand.name in statements:
                values[operand.name] = constants[name].tolist() if name in constants else None
    return Attributes({name: value for name, value in values.items() if value is not _LEFT_OUT})


def _check_spelling(node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> None:
    """Refuse an attribute that looks like a misspelt one, whose statement would be lost without notice.

    Other unknown attributes are fine: exporters add their own, and keep those of older operator sets.
    """
    stated = {attribute.name for attribute in node.attribute}
    missing = [name for name in schema.attributes if name not in stated]
    for name in sorted(stated - set(schema.attributes)):
        if hint := did_you_mean(name, missing, cutoff=0.75):
            expected = f"attributes among {', '.join(sorted(schema.attributes))}"
            raise InputError(f"node {node.name or node.output[0]} ({node.op_type})", expected, name, hint)


def _schema(operator: str, opset: int) -> onnx.defs.OpSchema | None:
    """The operator's schema in the file's operator set; None where that set lacks it."""
    try:
        return onnx.defs.get_schema(operator, opset)
    except onnx.defs.SchemaError:
        return None


_LEFT_OUT = object()


def _value(attribute: onnx.AttributeProto) -> Any:
    """An attribute's value as numbers, text or lists of them; other bytes as hexadecimal digits."""
    value = onnx.helper.get_attribute_value(attribute)
    if isinstance(value, onnx.TensorProto):
        small = prod(value.dims) <= MOST_ELEMENTS and value.data_location != onnx.TensorProto.EXTERNAL
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
