"""The shape of every tensor: by ONNX's own inference, then node by node with constants that it lacks."""

from __future__ import annotations

import re

import onnx
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]
from onnx import numpy_helper, shape_inference
from onnx.helper import make_tensor_type_proto

from costmodel.errors import InputError
from costmodel.formats.onnx.constants import (
    STANDARD_DOMAINS,
    UNKNOWN,
    computed,
    standard_opset,
    stated_constants,
)
from costmodel.workload.digits import Shape
from costmodel.workload.products import product_shape

Types = dict[str, onnx.TypeProto]

_FAILURES = (
    shape_inference.InferenceError,
    onnx.defs.SchemaError,
    DecodeError,
    EncodeError,
    ValueError,
    RuntimeError,
)


def inferred_shapes(model: onnx.ModelProto) -> dict[str, Shape]:
    """The shape of every tensor that has one; an axis whose length stays open is :data:`UNKNOWN`.

    Exporters compute shapes with tens of small operators (a comparison and a choice around an expansion), of
    which ONNX's inference follows only some. Where it leaves a length open, the small constants are computed
    and the nodes concerned are inferred once more with them. Raises InputError for operators whose shapes do
    not fit. A product of more query heads with fewer key-value heads fits here, though not in ONNX.
    """
    try:
        inferred = shape_inference.infer_shapes(model, strict_mode=True, data_prop=True)
    except _FAILURES as error:
        refused = InputError("shape inference", "operators whose shapes fit", _sentence(error))
        return _mended(model, refused)
    by_node = _ByNode(model, inferred.graph)
    if any(by_node.unknown(node) for node in model.graph.node):
        by_node.complete()
    return by_node.shapes


def _mended(model: onnx.ModelProto, refused: InputError) -> dict[str, Shape]:
    """The shapes of a graph that ONNX refuses only because of products of unequal heads.

    Raises ``refused``, ONNX's own error, where there is any other reason.
    """
    try:
        inferred = shape_inference.infer_shapes(model, strict_mode=False, data_prop=True)
    except _FAILURES:
        raise refused from None
    by_node = _ByNode(model, inferred.graph)
    by_node.mend(refused)
    return by_node.shapes


class _ByNode:
    """Inference node by node in topological order, on top of what ONNX found for the whole graph."""

    def __init__(self, model: onnx.ModelProto, inferred: onnx.GraphProto) -> None:
        self._nodes = model.graph.node
        self._opset = standard_opset(model)
        self._constants = stated_constants(model.graph)
        self._types = {value.name: value.type for value in (*model.graph.input, *inferred.value_info)}
        self._types |= {value.name: value.type for value in inferred.output}
        tensors = [*model.graph.initializer, *(sparse.values for sparse in model.graph.sparse_initializer)]
        self._types |= {one.name: make_tensor_type_proto(one.data_type, one.dims) for one in tensors}
        self.shapes = {
            name: _shape(kind) for name, kind in self._types.items() if kind.tensor_type.HasField("shape")
        }

    def unknown(self, node: onnx.NodeProto) -> bool:
        """Whether a length of some result is not known."""
        return any(UNKNOWN in self.shapes.get(name, (UNKNOWN,)) for name in node.output if name)

    def complete(self) -> None:
        """Infer each node with unknown results again, with the constants that the nodes before it give."""
        for node in self._nodes:
            if node.domain in STANDARD_DOMAINS:
                if self.unknown(node):
                    try:
                        self._learn(self._inferred(node))
                    except _FAILURES:  # it stays unknown, and whoever needs it names the node
                        continue
                self._constants |= computed(node, self._constants, self.shapes, self._opset)

    def mend(self, refused: InputError) -> None:
        """Infer every node of a graph that ONNX refuses, and give products of unequal heads their shape.

        Raises ``refused`` if any other operator's shapes do not fit, and if there is no such product.
        """
        mended = False
        for node in self._nodes:
            if node.domain not in STANDARD_DOMAINS:
                continue
            try:
                self._learn(self._inferred(node))
            except _FAILURES:
                if node.op_type != "MatMul":
                    raise refused from None
                mended = True
                self._learn(self._shared(node, refused))
            self._constants |= computed(node, self._constants, self.shapes, self._opset)
        if not mended:
            raise refused

    def _learn(self, found: Types) -> None:
        """Keep the types that have a shape; the others would hide what is known already."""
        for name, kind in found.items():
            if kind.tensor_type.HasField("shape"):
                self._types[name], self.shapes[name] = kind, _shape(kind)

    def _shared(self, node: onnx.NodeProto, refused: InputError) -> Types:
        """The type of a product of unequal heads: its shape follows from sharing heads, or is in the file."""
        a, b = (self.shapes.get(name, (UNKNOWN,)) for name in node.input)
        shape = product_shape(a, b) or self.shapes.get(node.output[0])
        if shape is None or UNKNOWN in shape:
            raise refused
        kind = self._types[node.input[0]].tensor_type.elem_type
        return {node.output[0]: make_tensor_type_proto(kind, shape)}

    def _inferred(self, node: onnx.NodeProto) -> Types:
        """The types of a node's results; none where an operand's is unknown or ONNX has no such operator."""
        read = [name for name in node.input if name]
        if any(name not in self._types for name in read) or not onnx.defs.has(node.op_type):
            return {}
        data = {name: self._constants[name] for name in read if name in self._constants}
        found: Types = shape_inference.infer_node_outputs(
            onnx.defs.get_schema(node.op_type, self._opset),
            node,
            {name: self._types[name] for name in read},
            {name: numpy_helper.from_array(array, name) for name, array in data.items()},
            opset_imports=[onnx.helper.make_opsetid("", self._opset)],
        )
        return found


def _shape(kind: onnx.TypeProto) -> Shape:
    return tuple(max(axis.dim_value, UNKNOWN) for axis in kind.tensor_type.shape.dim)


def _sentence(error: Exception) -> str:
    """One line, without the bracketed error classes that ONNX nests."""
    return re.sub(r"\[\w+\]|Inference error\(s\):|\s+", " ", str(error)).strip() or type(error).__name__
