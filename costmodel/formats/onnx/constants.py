"""The small constants of an ONNX graph, and the shapes, bounds and positions that are computed from them."""

from __future__ import annotations

import re
from collections.abc import Mapping
from math import prod
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper
from onnx.reference import ReferenceEvaluator

from costmodel.errors import InputError
from costmodel.workload.digits import Shape

Constants = dict[str, "np.ndarray[Any, Any]"]

STANDARD_DOMAINS = ("", "ai.onnx")
UNKNOWN = -1
"""The length that stands for one that inference cannot tell; 0 is that of a tensor without elements."""


def is_filled(shape: Shape) -> bool:
    """Whether a tensor of this shape is known to have elements."""
    return min(shape, default=1) > 0


MOST_ELEMENTS = 1024
"""The most elements of a constant that states shapes or positions; larger ones are data, and not read."""

# what exporters compute shapes and bounds with; nothing here makes more elements than its shape says
_ARITHMETIC = frozenset(
    name
    for line in (
        "Abs Add And Cast CastLike Ceil Clip Concat ConstantOfShape CumSum Div Equal Expand Flatten",
        "Floor Gather GatherElements GatherND Greater GreaterOrEqual Identity Less LessOrEqual Max Min",
        "Mod Mul Neg NonZero Not OneHot Or Pow Range ReduceMax ReduceMin ReduceProd ReduceSum Reshape",
        "Round ScatterElements ScatterND Sign Slice Split Sqrt Squeeze Sub Tile Transpose Trilu",
        "Unsqueeze Where Xor",
    )
    for name in line.split()
)


_BITS = {"BOOL": 8, "FLOAT": 32, "DOUBLE": 64, "STRING": None, "UNDEFINED": None}
"""Bits of an element by the names of those of ONNX's types that do not say them, as INT4 and BFLOAT16 do."""


def bits_of(kind: int) -> int | None:
    """Bits of a stored element of ONNX's type ``kind``; None for text, and where there is no type."""
    name = onnx.TensorProto.DataType.Name(kind)
    return _BITS[name] if name in _BITS else int(re.findall(r"\d+", name)[0])


def standard_opset(model: onnx.ModelProto) -> int:
    """The version of ONNX's own operator set that a model uses; 0 if it uses none."""
    return max((one.version for one in model.opset_import if one.domain in STANDARD_DOMAINS), default=0)


def stated_constants(graph: onnx.GraphProto) -> Constants:
    """The small parameters whose values are in the file."""
    return {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in graph.initializer
        if tensor.data_location != onnx.TensorProto.EXTERNAL and prod(tensor.dims) <= MOST_ELEMENTS
    }


def computed(node: onnx.NodeProto, known: Constants, shapes: Mapping[str, Shape], opset: int) -> Constants:
    """The values of a node's results; none where one is large, or follows from a value that is not known.

    The shape of a tensor is a constant, too, where none of its axes is :data:`UNKNOWN`.
    ONNX's reference evaluator computes them, on a graph of this one node.
    """
    results = [shapes.get(name, (UNKNOWN,)) for name in node.output if name]
    counted = node.op_type == "NonZero"  # its results are at most as many as its operand's axes and elements
    small = counted or all(UNKNOWN not in one and prod(one) <= MOST_ELEMENTS for one in results)
    if node.domain not in STANDARD_DOMAINS or not small:
        return {}
    if node.op_type in ("Shape", "Size"):
        shape = shapes.get(node.input[0], (UNKNOWN,))
        if UNKNOWN in shape:
            return {}
        if node.op_type == "Size":
            return {node.output[0]: np.array(prod(shape), np.int64)}
        bounds = {attribute.name: attribute.i for attribute in node.attribute}
        part = shape[bounds.get("start", 0) : bounds.get("end", len(shape))]
        return {node.output[0]: np.array(part, np.int64)}  # that of a scalar has no number to tell the type
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
    except (IndexError, NotImplementedError, RuntimeError, TypeError, ValueError):
        return {}  # the reference has no rule for it; who needs the value says so
    except ArithmeticError as error:
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
