"""The small constants of an ONNX graph, and the shapes, bounds and positions that are computed from them."""

from __future__ import annotations

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
UNKNOWN = 0
"""The length that stands for one that inference cannot tell."""
MOST_ELEMENTS = 1024
"""The most elements of a constant that states shapes or positions; larger ones are data, and not read."""

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
    """The values of the small tensors of ``graph`` that are constants, or are computed from constants.

    The shape of a tensor is a constant, too, where none of its axes is :data:`UNKNOWN`.
    """
    found = stated_constants(graph)
    for node in graph.node:
        found |= computed(node, found, shapes, opset)
    return found


def stated_constants(graph: onnx.GraphProto) -> Constants:
    """The small parameters whose values are in the file."""
    return {
        tensor.name: numpy_helper.to_array(tensor)
        for tensor in graph.initializer
        if tensor.data_location != onnx.TensorProto.EXTERNAL and prod(tensor.dims) <= MOST_ELEMENTS
    }


def computed(node: onnx.NodeProto, known: Constants, shapes: Mapping[str, Shape], opset: int) -> Constants:
    """The values of a node's results; none where one is large, or follows from a value that is not known.

    ONNX's reference evaluator computes them, on a graph of this one node.
    """
    results = [shapes.get(name, (UNKNOWN,)) for name in node.output if name]
    if node.domain not in STANDARD_DOMAINS or not all(0 < prod(one) <= MOST_ELEMENTS for one in results):
        return {}
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
