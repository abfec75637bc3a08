"""Networks from ONNX files, with weights or without them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import replace
from pathlib import Path

import onnx

from costmodel.errors import InputError
from costmodel.formats.onnx.attributes import attributes_of
from costmodel.formats.onnx.constants import UNKNOWN, bits_of, standard_opset
from costmodel.formats.onnx.inference import Inferred
from costmodel.formats.onnx.operators import counted, factors_of, kind_of, pooling_of
from costmodel.formats.onnx.shapes import (
    WHOLE_NUMBERS,
    graph_inputs,
    inferred_at,
    load_model,
    without_numbers,
)
from costmodel.formats.onnx.traced_rows import traced_rows
from costmodel.formats.onnx.uncounted import unsupported
from costmodel.formats.onnx.views import Views
from costmodel.workload.digits import Shape
from costmodel.workload.network import Network, Node, Uncounted, Value, ValueKind
from costmodel.workload.operators import UNKNOWN as UNKNOWN_OPERATOR
from costmodel.workload.products import Counted


def read_onnx(path: str | Path, batch: int | None = None, dims: Mapping[str, int] | None = None) -> Network:
    """The network of an ONNX file; weights may be inside, in another file, or missing.

    Parameters become values of kind ``parameter``, the graph's inputs ``input``, its results ``output``.
    ``batch`` is the length of the inputs' first axis; None keeps the file's, or makes a symbolic one 1.
    ``dims`` states the other symbolic lengths by their names. The file's own functions, choices with a
    constant condition, and loops with a constant number of rounds are written out. Other control flow and
    unsupported operators stay as opaque nodes with their tensors, and say why their work is not counted. An
    axis whose length shape inference cannot tell has the length 0.

    Raises InputError with the file (and node) for

    - a missing, truncated or contradictory file;
    - a batch that the file cannot take, and dims that its inputs lack;
    - a symbolic length that is not stated;
    - a product whose shape is stated in a file of weights that is not there.
    """
    model = load_model(path)
    try:
        return _network(Path(path), model, inferred_at(model, batch, dims))
    except UnicodeDecodeError as error:  # names are decoded when they are first looked at
        raise InputError(str(path), "names in UTF-8", error.object.hex()) from None
    except InputError as error:
        raise error.at(str(path), error.where) from None


def _network(path: Path, model: onnx.ModelProto, found: Inferred) -> Network:
    graph, shapes = model.graph, found.shapes
    parameters = {tensor.name for tensor in graph.initializer}
    parameters |= {tensor.values.name for tensor in graph.sparse_initializer}
    parameters |= {output for node in graph.node if node.op_type == "Constant" for output in node.output}
    lacking = without_numbers(graph, path.parent)
    reader = _NodeReader(str(path), model, found, parameters, lacking.keys())
    names = _names(graph)
    nodes = tuple(
        reader.read(node, names[i]) for i, node in enumerate(graph.node) if node.op_type != "Constant"
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
    unknown_results = any(UNKNOWN in shapes.get(value.name, (UNKNOWN,)) for value in graph.output)
    if found.missing and (reader.unknown_products or unknown_results):
        raise found.missing
    if reader.lacking:
        raise lacking[reader.lacking]
    values = tuple(
        Value(value, _told(shapes.get(value, (0,))), kind, bits_of(found.types.get(value, 0)))
        for value, kind in kinds.items()
    )
    return Network(path.stem, nodes, values, views_folded=False)


def _told(shape: Shape) -> Shape:
    """The shape as a network has it: 0 for a length that is not known."""
    return tuple(max(length, 0) for length in shape)


def _names(graph: onnx.GraphProto) -> list[str]:
    """A name for every node, all different: its own if no node before it has that name."""
    taken: set[str] = set()
    names = []
    for i, node in enumerate(graph.node):
        name = node.name or f"{node.op_type}_{i}"
        while name in taken:
            name = f"{name}_{i}"
        taken.add(name)
        names.append(name)
    return names


class _NodeReader:
    """Reads nodes in topological order, and keeps what is known of the tensors that they make."""

    def __init__(
        self,
        path: str,
        model: onnx.ModelProto,
        found: Inferred,
        parameters: set[str],
        without_numbers: Set[str],
    ) -> None:
        self._path = path
        self._opset = standard_opset(model)
        self._shapes = found.shapes
        self._types = found.types
        self._known = found.shapes.keys() | parameters
        self._constants = found.constants
        self._views = Views(self._shapes, self._constants)
        self._traced = traced_rows(model.graph.node, found)
        self.unknown_products = False
        """Whether a product was not counted because a shape is not known."""
        self.lacking = ""
        """The parameter without numbers that the shape of an uncounted product follows from, or empty."""
        self._unknown: dict[str, str] = {}
        """By tensor of unknown shape, the first node on the way to it whose result has none that is known."""
        self._lacking = {name: name for name in without_numbers}
        """By tensor whose shape or whole numbers are not known, the parameter without numbers behind it."""

    def read(self, node: onnx.NodeProto, name: str) -> Node:
        stated = tuple(filter(None, node.input))
        captured = dict.fromkeys(_captured(node, self._known))
        inputs = (*stated, *(read for read in captured if read not in stated))
        outputs = tuple(output for output in node.output if output)
        operator = f"{node.domain}.{node.op_type}" if node.domain else node.op_type
        attributes = attributes_of(node, self._constants, self._opset)
        made = Node(name, operator, inputs, outputs, (), pooling_of(node), attributes, kinds=(kind_of(node),))
        found = self._counted(node, made)
        made = replace(made, layers=found.layers, uncounted=found.uncounted, note=found.note)
        self._views.add(made)
        for output in outputs:
            if UNKNOWN in self._shapes.get(output, (UNKNOWN,)):
                self._unknown[output] = self._because(made)
            elif self._types.get(output) not in WHOLE_NUMBERS or output in self._constants:
                continue
            if lacking := self._lacks(made.inputs):
                self._lacking[output] = lacking
        return made

    def _lacks(self, names: Iterable[str]) -> str:
        """The first parameter without numbers that one of the tensors follows from; empty for none."""
        return next((self._lacking[name] for name in names if name in self._lacking), "")

    def _counted(self, node: onnx.NodeProto, made: Node) -> Counted:
        """The node's layers, or why there are none.

        Shapes that contradict each other are a reason, too, and not yet an error: the network's tensors can
        still be planned.
        """
        if made.kind is UNKNOWN_OPERATOR:
            return Counted(uncounted=unsupported(node, made, self._shapes))
        output = self._shapes.get(made.outputs[0], (UNKNOWN,)) if made.outputs else ()
        operands = [self._views.of(name) if name else None for name in node.input]
        factors = factors_of(node)
        multiplied = [node.input[i] for i in factors if node.input[i]]
        for name in (*multiplied, *made.outputs[: len(multiplied)]):
            if UNKNOWN in self._shapes.get(name, (UNKNOWN,)):
                self.unknown_products = True
                self.lacking = self.lacking or self._lacks((name, *made.inputs))
                why = self._unknown.get(name) or self._because(made)
                return Counted(uncounted=Uncounted(f"the shape of {name} is not known because of {why}"))
            if name in self._traced:
                return Counted(uncounted=Uncounted(self._traced[name]))
        if any(0 in self._shapes[name] for name in multiplied[:2]):
            return Counted()  # a product without elements, as of an empty cache
        try:
            return counted(node, made.name, operands, output)
        except InputError as error:
            where = f"node {made.name}"
            refused = InputError(self._path, error.expected, error.found, error.remedy, key=where)
            why = f"expected {error.expected}, found {error.found}"
            return Counted(uncounted=Uncounted(why, error=refused))

    def _because(self, node: Node) -> str:
        """The node that the message names for a result of unknown shape: the first on the way to it."""
        earlier = next((self._unknown[name] for name in node.inputs if name in self._unknown), "")
        return earlier or f"node {node.name} ({node.operator})"


def _captured(node: onnx.NodeProto, outside: set[str]) -> Iterator[str]:
    """The tensors of the surrounding graph that the bodies of a control-flow node read.

    They are inputs of the node, though it does not list them. ``outside`` are all tensors of that graph.
    """
    for attribute in node.attribute:
        for body in (attribute.g, *attribute.graphs):
            inside = {value.name for value in body.input} | {tensor.name for tensor in body.initializer}
            for inner in body.node:
                reads = (*inner.input, *_captured(inner, outside))
                yield from (read for read in reads if read in outside and read not in inside)
                inside.update(inner.output)
