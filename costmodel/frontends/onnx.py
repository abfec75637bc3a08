"""Networks from ONNX files, with weights or without them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

import onnx

from costmodel.attributes import Attributes
from costmodel.errors import InputError
from costmodel.frontends.onnx_attributes import STANDARD_DOMAINS, attributes_of, constants_of
from costmodel.frontends.onnx_operators import layers_of, pooling_of
from costmodel.frontends.onnx_shapes import Shape, graph_inputs, load_model, shapes_of
from costmodel.workload import Network, Node, Value, ValueKind


def read_onnx(path: str | Path, batch: int | None = None) -> Network:
    """The network of an ONNX file; weights may be inside, in another file, or missing.

    Parameters become values of kind ``parameter``, the graph's inputs ``input``, its results ``output``.
    ``batch`` replaces the first axis of the inputs (a symbolic one is 1 when it is None). An unsupported
    operator, control flow and a call of a local function stay as opaque nodes with their tensors, see
    :func:`costmodel.frontends.operators.unsupported_operators`; an axis whose length shape
    inference cannot tell counts 0. Raises InputError with the file (and node) for a missing, truncated or
    contradictory file, and for a batch that the file cannot take.
    """
    model = load_model(path)
    try:
        shapes = shapes_of(model, batch)
        return _network(Path(path).stem, model, shapes)
    except UnicodeDecodeError as error:  # names are decoded when they are first looked at
        raise InputError(str(path), "names in UTF-8", error.object.hex()) from None
    except InputError as error:
        raise error.at(str(path), error.where) from None


def _network(name: str, model: onnx.ModelProto, shapes: Mapping[str, Shape]) -> Network:
    graph = model.graph
    opset = max((one.version for one in model.opset_import if one.domain in STANDARD_DOMAINS), default=0)
    constants = constants_of(graph, shapes, opset)
    parameters = {tensor.name for tensor in graph.initializer}
    parameters |= {tensor.values.name for tensor in graph.sparse_initializer}
    parameters |= {output for node in graph.node if node.op_type == "Constant" for output in node.output}
    names = _names(graph)
    nodes = tuple(
        _node(node, names[i], shapes, parameters, attributes_of(node, constants, opset))
        for i, node in enumerate(graph.node)
        if node.op_type != "Constant"
    )
    kinds: dict[str, ValueKind] = {value.name: "input" for value in graph_inputs(graph)}
    results = {value.name for value in graph.output}
    for node in nodes:
        kinds |= {read: "parameter" for read in node.inputs if read in parameters}
        kinds |= {made: "output" if made in results else "activation" for made in node.outputs}
    for result in results - kinds.keys():
        if result not in parameters:
            raise InputError(f"output {result}", "a tensor that some node makes", "none that does")
        kinds[result] = "parameter"
    values = tuple(Value(value, shapes.get(value, (0,)), kind) for value, kind in kinds.items())
    return Network(name, nodes, values)


def _names(graph: onnx.GraphProto) -> list[str]:
    """A name for every node, its own where it has one nobody else has."""
    taken: set[str] = set()
    names = []
    for i, node in enumerate(graph.node):
        name = node.name or f"{node.op_type}_{i}"
        while name in taken:
            name = f"{name}_{i}"
        taken.add(name)
        names.append(name)
    return names


def _node(
    node: onnx.NodeProto,
    name: str,
    shapes: Mapping[str, Shape],
    parameters: set[str],
    attributes: Attributes,
) -> Node:
    outputs = tuple(output for output in node.output if output)
    stated = tuple(filter(None, node.input))
    captured = dict.fromkeys(_captured(node, shapes.keys() | parameters))
    inputs = (*stated, *(read for read in captured if read not in stated))
    operands = [shapes.get(value, ()) for value in node.input]
    layers = layers_of(node, name, operands, shapes.get(outputs[0], ()) if outputs else ())
    operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
    return Node(name, operator, inputs, outputs, layers or (), layers is None, pooling_of(node), attributes)


def _captured(node: onnx.NodeProto, outside: set[str]) -> Iterator[str]:
    """Tensors of the graph around it that the bodies of a control-flow node read."""
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            inside = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
            for inner in body.node:
                reads = (*inner.input, *_captured(inner, outside))
                yield from (read for read in reads if read in outside and read not in inside)
                inside.update(inner.output)
