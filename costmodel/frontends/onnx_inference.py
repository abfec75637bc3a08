"""Every tensor's shape: ONNX's own inference, then node by node with the constants it does not follow."""

from __future__ import annotations

import re

import onnx
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]
from onnx import numpy_helper, shape_inference

from costmodel.errors import InputError
from costmodel.frontends.onnx_constants import (
    STANDARD_DOMAINS,
    UNKNOWN,
    Constants,
    computed,
    standard_opset,
    stated_constants,
)
from costmodel.frontends.views import Shape

_FAILURES = (shape_inference.InferenceError, DecodeError, EncodeError, ValueError, RuntimeError)


def inferred_shapes(model: onnx.ModelProto) -> dict[str, Shape]:
    """The shape of every tensor that has one; an axis that nobody can tell is :data:`UNKNOWN`.

    Exporters compute shapes with tens of small operators (a comparison and a choice around an expansion), of
    which ONNX's inference follows some. Where it leaves something unknown, the small constants are computed
    and each node is inferred once more with them. Raises InputError for operators whose shapes do not fit.
    """
    try:
        inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except _FAILURES as error:
        raise InputError("shape inference", "operators whose shapes fit", _sentence(error)) from None
    types = {value.name: value.type for value in (*model.graph.input, *inferred.graph.value_info)}
    types |= {value.name: value.type for value in inferred.graph.output}
    tensors = [*model.graph.initializer, *(sparse.values for sparse in model.graph.sparse_initializer)]
    types |= {one.name: onnx.helper.make_tensor_type_proto(one.data_type, one.dims) for one in tensors}
    shapes = {name: _shape(kind) for name, kind in types.items() if kind.tensor_type.HasField("shape")}
    if any(
        UNKNOWN in shapes.get(name, (UNKNOWN,)) for node in model.graph.node for name in node.output if name
    ):
        _complete(model, types, shapes)
    return shapes


def _complete(model: onnx.ModelProto, types: dict[str, onnx.TypeProto], shapes: dict[str, Shape]) -> None:
    """Infer the nodes with unknown results again, in order, with the constants known by then."""
    opset = standard_opset(model)
    constants = stated_constants(model.graph)
    for node in model.graph.node:
        if node.domain not in STANDARD_DOMAINS:
            continue
        if any(UNKNOWN in shapes.get(name, (UNKNOWN,)) for name in node.output if name):
            for name, kind in _inferred_again(node, types, constants, opset).items():
                if kind.tensor_type.HasField("shape"):
                    types[name], shapes[name] = kind, _shape(kind)
        constants |= computed(node, constants, shapes, opset)


def _inferred_again(
    node: onnx.NodeProto, types: dict[str, onnx.TypeProto], constants: Constants, opset: int
) -> dict[str, onnx.TypeProto]:
    """The types of a node's results; none where an operand's is not known or the operator tells nothing."""
    read = [name for name in node.input if name]
    if any(name not in types for name in read):
        return {}
    data = {name: numpy_helper.from_array(constants[name], name) for name in read if name in constants}
    try:
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
        found: dict[str, onnx.TypeProto] = shape_inference.infer_node_outputs(
            schema,
            node,
            {name: types[name] for name in read},
            data,
            opset_imports=[onnx.helper.make_opsetid("", opset)],
        )
    except (onnx.defs.SchemaError, *_FAILURES):  # it stays unknown, and whoever needs it names the node
        return {}
    return found


def _shape(kind: onnx.TypeProto) -> Shape:
    return tuple(max(axis.dim_value, UNKNOWN) for axis in kind.tensor_type.shape.dim)


def _sentence(error: Exception) -> str:
    """One line, without the bracketed error classes that ONNX nests."""
    return re.sub(r"\[\w+\]|Inference error\(s\):|\s+", " ", str(error)).strip() or type(error).__name__
