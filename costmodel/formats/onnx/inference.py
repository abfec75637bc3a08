"""The shape of every tensor: node by node, by ONNX's own rules with the constants that they lack."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import prod

import onnx
from google.protobuf.message import DecodeError, EncodeError  # type: ignore[import-untyped]
from onnx import TensorProto, numpy_helper, shape_inference
from onnx.helper import make_tensor_type_proto

from costmodel.errors import InputError
from costmodel.formats.onnx.constants import (
    STANDARD_DOMAINS,
    UNKNOWN,
    Constants,
    computed,
    is_filled,
    standard_opset,
    stated_constants,
)
from costmodel.formats.onnx.contributed import Contributed, contributed, result_shapes, sum_apart
from costmodel.formats.onnx.control_flow import WrittenOut, has_graphs
from costmodel.workload.digits import Shape
from costmodel.workload.products import einsum_shape, product_shape

Types = dict[str, onnx.TypeProto]

_FAILURES = (
    shape_inference.InferenceError,
    onnx.checker.ValidationError,
    onnx.defs.SchemaError,
    DecodeError,
    EncodeError,
    ValueError,
    RuntimeError,
)
_FLOATS = frozenset(
    {
        TensorProto.FLOAT,
        TensorProto.FLOAT16,
        TensorProto.BFLOAT16,
        TensorProto.DOUBLE,
        TensorProto.COMPLEX64,
        TensorProto.COMPLEX128,
    }
)

_ALIKE = ("GroupNormalization", "MeanVarianceNormalization")
"""Operators with a result like their first operand whose functions ONNX's inference does not see through."""


@dataclass
class Inferred:
    """What is known of the tensors of a graph.

    - ``shapes``: an axis whose length stays open is :data:`UNKNOWN`. ``types``: ONNX's types of elements.
    - ``constants``: the values of small tensors that do not depend on the inputs' elements.
    - ``missing``: the error to raise where a product's shape is not known, if an input has an axis of a
      symbolic length that nobody stated.
    """

    shapes: dict[str, Shape] = field(default_factory=dict)
    types: dict[str, int] = field(default_factory=dict)
    constants: Constants = field(default_factory=dict)
    missing: InputError | None = None


def infer(model: onnx.ModelProto) -> Inferred:
    """Infer every node of ``model`` in order, and write out its control flow and lists where they are known.

    Shapes that the file notes were true for the example that it was traced with. They are taken only from
    operators that are not ONNX's own, and only where all that these read is of known shape. What follows from
    values (the positions of nonzero elements) stays unknown. Raises InputError for operators whose shapes do
    not fit; a product of more query heads with fewer key-value heads fits here, though not in ONNX.
    """
    walk = _GraphWalk(model)
    walk.go()
    return walk.found


class _GraphWalk:
    """Inference node by node in topological order."""

    def __init__(self, model: onnx.ModelProto) -> None:
        self._graph = model.graph
        self._model = model
        self._opset = standard_opset(model)
        self._versions = {one.domain: one.version for one in model.opset_import}
        graph = model.graph
        self._noted = {value.name: value.type for value in (*graph.value_info, *graph.output)}
        self._types: Types = {value.name: value.type for value in graph.input}
        tensors = [*graph.initializer, *(sparse.values for sparse in graph.sparse_initializer)]
        self._types |= {one.name: make_tensor_type_proto(one.data_type, one.dims) for one in tensors}
        shapes = {name: _shape(kind) for name, kind in self._types.items() if _has_shape(kind)}
        self.found = Inferred(shapes, constants=stated_constants(graph))
        self._written = WrittenOut(self.found.constants, self.found.shapes, self._opset)

    def go(self) -> None:
        """Read all nodes; afterwards the model's graph has those that were written out in their place."""
        # What a node is written out as stands at the front of the queue, so that it is read like nodes of the
        # file, and written out further where there is control flow inside control flow.
        pending, done = deque(self._graph.node), list[onnx.NodeProto]()
        while pending:
            node = pending.popleft()
            instead = self._written.of(node)
            if instead is None:
                instead = sum_apart(node)
            for tensor in self._written.parameters():
                self._graph.initializer.append(tensor)
                self._learn({tensor.name: make_tensor_type_proto(tensor.data_type, tensor.dims)})
                self.found.constants |= stated_constants(onnx.GraphProto(initializer=[tensor]))
            if instead is not None:
                pending.extendleft(reversed(instead))
                continue
            node.input[:] = self._written.without_lists(node.input)
            self._read(node)
            done.append(node)
        if len(done) != len(self._graph.node) or any(
            a is not b for a, b in zip(done, self._graph.node, strict=True)
        ):
            # deleting the graph's nodes also ends those that are kept, so they are copied first
            copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in done]
            del self._graph.node[:]
            self._graph.node.extend(copies)
        self._results_without_lists()
        self.found.types = {name: kind.tensor_type.elem_type for name, kind in self._types.items()}

    def _results_without_lists(self) -> None:
        names = [value.name for value in self._graph.output]
        if (tensors := self._written.without_lists(names)) != names:
            del self._graph.output[:]
            self._graph.output.extend(onnx.ValueInfoProto(name=name) for name in tensors)

    def _read(self, node: onnx.NodeProto) -> None:
        """Learn the types of a node's results, and their values where they are small constants."""
        _plain_axes(node, self.found.shapes)
        try:
            self._learn(self._inferred(node))
        except _FAILURES as error:
            self._learn(self._of_one_type(node) or self._our_own(node, error))
        self._check_elements(node)
        self._take_noted(node)
        made = computed(node, self.found.constants, self.found.shapes, self._opset)
        self.found.constants |= made
        for name, value in made.items():
            self.found.shapes[name] = value.shape

    def _learn(self, found: Types) -> None:
        """Keep the types; one without a shape does not replace one that has it."""
        for name, kind in found.items():
            if not name or (name in self.found.shapes and not _has_shape(kind)):
                continue
            self._types[name] = kind
            if _has_shape(kind):
                self.found.shapes[name] = _shape(kind)

    def _inferred(self, node: onnx.NodeProto, instead: Mapping[str, onnx.TypeProto] | None = None) -> Types:
        """The types of a node's results; none where an operand's is unknown or ONNX has no such operator.

        ``instead`` are types that stand for those of some operands.
        """
        if row := contributed(node):
            return self._contributed(row, node)
        if node.op_type in _ALIKE and node.domain in STANDARD_DOMAINS:
            like = self._types.get(node.input[0])
            return {} if like is None else {node.output[0]: like}
        read = [name for name in node.input if name]
        # a node with graphs of its own that was not written out has shapes that only its run decides
        unknown = node.domain not in STANDARD_DOMAINS or not onnx.defs.has(node.op_type) or has_graphs(node)
        if unknown or any(name not in self._types for name in read):
            return {}
        constants = self.found.constants
        types = {name: self._types[name] for name in read} | dict(instead or {})
        stated = (name for name in read if name in constants and name not in (instead or {}))
        data = {name: numpy_helper.from_array(constants[name], name) for name in stated}
        opsets = [onnx.helper.make_opsetid("", self._opset)]
        schema = onnx.defs.get_schema(node.op_type, self._opset)
        node = _without_strange_attributes(node, schema)
        # Asking for one node is quick, but leaves out operators that ONNX defines by functions of others.
        found: Types = shape_inference.infer_node_outputs(schema, node, types, data, opset_imports=opsets)
        if node.op_type == "Einsum":
            return self._of_einsum(node) or found
        if all(name in found and _has_shape(found[name]) for name in node.output if name):
            return found
        return found | _of_whole_model(node, types, data, opsets)

    def _of_einsum(self, node: onnx.NodeProto) -> Types:
        """The type of an einsum's result, of which ONNX gets axes wrong that operands broadcast."""
        shapes = [self.found.shapes.get(name, (UNKNOWN,)) for name in node.input]
        equation = next((a.s.decode(errors="replace") for a in node.attribute if a.name == "equation"), "")
        if not all(is_filled(shape) for shape in shapes) or (shape := einsum_shape(equation, shapes)) is None:
            return {}
        kind = self._types[node.input[0]].tensor_type.elem_type
        return {node.output[0]: make_tensor_type_proto(kind, shape)}

    def _contributed(self, row: Contributed, node: onnx.NodeProto) -> Types:
        """The types of the results of one of ONNX Runtime's own operators."""
        like = node.input[min(row.like, len(node.input) - 1)]
        kind = self._types[like].tensor_type.elem_type if like in self._types else TensorProto.UNDEFINED
        shapes = result_shapes(row, node, self.found.shapes)
        return {name: make_tensor_type_proto(kind, shape) for name, shape in shapes.items()}

    def _of_one_type(self, node: onnx.NodeProto) -> Types:
        """The types of a node's results as if all floats were of one type; none if it does not fit even so.

        PyTorch's TorchScript exporter mixes them, and casts to types that ONNX's operators do not take
        (bfloat16 becomes complex128), which shapes do not depend on. The results are of the first one's type.
        """
        operands = {name: self._types[name] for name in node.input if name in self._types}
        floats = [name for name, kind in operands.items() if kind.tensor_type.elem_type in _FLOATS]
        casts = node.op_type == "Cast"
        if not floats and not casts:
            return {}
        meant = next((a.i for a in node.attribute if a.name == "to"), 0) if casts else 0
        meant = meant or operands[floats[0]].tensor_type.elem_type
        alike = onnx.NodeProto.FromString(node.SerializeToString())
        for attribute in alike.attribute:
            if casts and attribute.name == "to" and meant in _FLOATS:
                attribute.i = TensorProto.FLOAT
        try:
            found = self._inferred(alike, {name: _float_of(operands[name]) for name in floats})
        except _FAILURES:
            return {}
        for kind in found.values():
            if kind.tensor_type.elem_type == TensorProto.FLOAT:
                kind.tensor_type.elem_type = meant
        return found

    def _our_own(self, node: onnx.NodeProto, error: Exception) -> Types:
        """The type of a product of unequal heads, whose shape follows from sharing heads.

        That of another product which does not fit is what the file notes: its reader refuses to count it, but
        the network's tensors can be planned. Raises InputError, with ONNX's own reason, for any other node.
        """
        if node.op_type == "MatMul" and node.domain in STANDARD_DOMAINS:
            # ONNX broadcasts axes of length 1 only, and networks with shared heads multiply 32 heads by 8
            a, b = (self.found.shapes.get(name, (UNKNOWN,)) for name in node.input)
            if is_filled((*a, *b)) and (shape := product_shape(a, b)):
                kind = self._types[node.input[0]].tensor_type.elem_type
                return {node.output[0]: make_tensor_type_proto(kind, shape)}
            noted = self._noted.get(node.output[0])
            if noted is not None and is_filled((*a, *b)) and is_filled(_shape(noted)) and _has_shape(noted):
                return {node.output[0]: noted}
        raise InputError(_WHERE, _FITTING, self._misfit(node, error), _REMEDY)

    def _check_elements(self, node: onnx.NodeProto) -> None:
        """Raise InputError for a reshape to another number of elements, which ONNX's inference lets pass.

        A file that was traced at other lengths has such reshapes.
        """
        if node.op_type == "Reshape" and node.domain in STANDARD_DOMAINS:
            before, after = (self.found.shapes.get(x, (UNKNOWN,)) for x in (node.input[0], node.output[0]))
            if UNKNOWN not in (*before, *after) and prod(before) != prod(after):
                error = ValueError(f"{prod(before)} elements do not fill {after}")
                raise InputError(_WHERE, _FITTING, self._misfit(node, error), _REMEDY)

    def _misfit(self, node: onnx.NodeProto, error: Exception) -> str:
        """Which node does not fit and why, with the shapes that it reads."""
        shapes = ", ".join(str(self.found.shapes.get(name, "?")) for name in node.input if name)
        reason = re.sub(r"\[\w+\]|Inference error\(s\):|\s+", " ", str(error)).strip() or type(error).__name__
        return f"node {node.name or node.output[0]} ({node.op_type}) of {shapes}: {reason}"

    def _take_noted(self, node: onnx.NodeProto) -> None:
        """The types that the file notes for the results of an operator that is not ONNX's own."""
        foreign = node.domain not in STANDARD_DOMAINS or not onnx.defs.has(node.op_type)
        known = all(UNKNOWN not in self.found.shapes.get(name, (UNKNOWN,)) for name in node.input if name)
        if foreign and known:
            self._learn({name: self._noted[name] for name in node.output if name in self._noted})


_WHERE, _FITTING = "shape inference", "operators whose shapes fit"
_REMEDY = "If the file was traced at other lengths, export it with symbolic axes, or state no others"


def _without_strange_attributes(node: onnx.NodeProto, schema: onnx.defs.OpSchema) -> onnx.NodeProto:
    """The node without attributes that its operator does not have: exporters add their own."""
    if all(attribute.name in schema.attributes for attribute in node.attribute):
        return node
    known = [attribute for attribute in node.attribute if attribute.name in schema.attributes]
    made = onnx.NodeProto()
    made.CopyFrom(node)
    del made.attribute[:]
    made.attribute.extend(known)
    return made


def _of_whole_model(
    node: onnx.NodeProto,
    types: Types,
    data: Mapping[str, onnx.TensorProto],
    opsets: list[onnx.OperatorSetIdProto],
) -> Types:
    """The types of the results of a model of one node: of operators that ONNX defines by a function, too."""
    inputs = [onnx.helper.make_value_info(name, kind) for name, kind in types.items()]
    results = [onnx.ValueInfoProto(name=name) for name in node.output if name]
    graph = onnx.helper.make_graph([node], "one", inputs, results, list(data.values()))
    made = shape_inference.infer_shapes(
        onnx.helper.make_model(graph, opset_imports=opsets), strict_mode=True, data_prop=True
    )
    return {value.name: value.type for value in made.graph.output if value.type.WhichOneof("value")}


def _plain_axes(node: onnx.NodeProto, shapes: Mapping[str, Shape]) -> None:
    """Write the axes of a transpose that count from the end, as some exporters have them, from the front.

    ONNX's inference refuses them, though NumPy, PyTorch and ONNX's own reference know what they mean.
    """
    if node.op_type == "Transpose" and node.domain in STANDARD_DOMAINS:
        for attribute in node.attribute:
            if attribute.name == "perm" and min(attribute.ints, default=0) < 0:
                rank = len(attribute.ints)
                attribute.ints[:] = [axis + rank if -rank <= axis < 0 else axis for axis in attribute.ints]


def _float_of(kind: onnx.TypeProto) -> onnx.TypeProto:
    """The type with elements of 32 bits and the same shape."""
    made = onnx.TypeProto()
    made.CopyFrom(kind)
    made.tensor_type.elem_type = TensorProto.FLOAT
    return made


def _has_shape(kind: onnx.TypeProto) -> bool:
    return bool(kind.tensor_type.HasField("shape"))


def _shape(kind: onnx.TypeProto) -> Shape:
    return tuple(
        axis.dim_value if axis.HasField("dim_value") else UNKNOWN for axis in kind.tensor_type.shape.dim
    )
