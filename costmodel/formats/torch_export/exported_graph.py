"""PyTorch's exported programs as operator graphs: an operator for every ATen operation, views folded away."""

from __future__ import annotations

from collections.abc import Iterable
from math import prod
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from torch.export import ExportedProgram
    from torch.fx import Node

_VIEWS = frozenset(
    [
        "view",
        "reshape",
        "_unsafe_view",
        "flatten",
        "unflatten",
        "permute",
        "transpose",
        "t",
        "movedim",
        "unsqueeze",
        "squeeze",
        "expand",
        "expand_as",
        "contiguous",
        "clone",
        "alias",
        "detach",
        "dropout",
        "to",
        "_to_copy",
        "type_as",
        "narrow",
        "slice",
        "select",
        "split",
        "split_with_sizes",
        "chunk",
        "unbind",
        "getitem",
    ]
)
"""Operations that only look at a tensor in another way: who reads the view reads the tensor, at its full
size."""


def exported_graph(program: ExportedProgram, name: str, source: str) -> dict[str, Any]:
    """The operator graph of an exported program, in the form of :mod:`costmodel.formats.json.graph_json`.

    Operators stand in the program's order. An in-place operation has an output of its own, and what is
    computed of parameters alone (a position embedding, say) is a parameter. Sizes are those of one byte an
    element, whatever the program's types. ``source`` says where the program is from, for people.
    """
    reading = _Reading(program)
    ops = reading.operators()
    used = {tensor for op in ops for tensor in (*op["inputs"], *op["outputs"])}
    tensors = [
        {"name": node.name, "shape": shape, "bytes_int8": prod(shape), "kind": reading.kind(node)}
        for node in reading.kinds
        if node.name in used
        for shape in [list(node_value(node).shape)]
    ]
    inputs = [list(node_value(node).shape) for node in reading.kinds if reading.kinds[node] == "input"]
    return {
        "name": name,
        "source": source,
        "input_shape": inputs,
        "granularity": "raw",
        "ops": ops,
        "tensors": tensors,
    }


class _Reading:
    """A program while it is read.

    ``kinds``: of every tensor that has data of its own. ``looks_at``: by view, the tensor under it.
    ``leaving``: tensors that the program returns.
    """

    def __init__(self, program: ExportedProgram):
        # without a table of decompositions operations stay as they are, only in their functional form
        decomposed = program.run_decompositions({})
        self.nodes: Iterable[Node] = decomposed.graph.nodes
        self.inputs = set(decomposed.graph_signature.user_inputs)
        self.outputs = set(decomposed.graph_signature.user_outputs)
        self.kinds: dict[Node, str] = {}
        self.looks_at: dict[Node, Node] = {}
        self.leaving: set[Node] = set()

    def operators(self) -> list[dict[str, Any]]:
        """The operators in the program's order; the tensors become known on the way."""
        ops = []
        for node in self.nodes:
            if node.op == "placeholder":
                self.kinds[node] = "input" if node.name in self.inputs else "parameter"
            elif node.op == "output":
                self.leaving = {self.tensor(leaving) for leaving in node.all_input_nodes}
            elif node.op == "call_function" and operation(node) in _VIEWS:
                self.looks_at[node] = self.tensor(node.all_input_nodes[0])
            elif node.op == "call_function":
                # what is computed of parameters only is computed once, before the network runs: no operator
                operands = [self.tensor(operand) for operand in node.all_input_nodes]
                computed = any(self.kinds[operand] != "parameter" for operand in operands)
                self.kinds[node] = "activation" if computed else "parameter"
                if computed:
                    ops.append(self._operator(node, operands))
        return ops

    def tensor(self, node: Node) -> Node:
        """The tensor that a node is, or that it is a view of."""
        return self.looks_at.get(node, node)

    def kind(self, node: Node) -> str:
        return "output" if node in self.leaving and self.kinds[node] == "activation" else self.kinds[node]

    def _operator(self, node: Node, operands: list[Node]) -> dict[str, Any]:
        return {
            "name": node.name,
            "type": operation(node),
            "inputs": list(dict.fromkeys(operand.name for operand in operands)),
            "outputs": [node.name],
            "attrs": self._attributes(node),
        }

    def _attributes(self, node: Node) -> dict[str, Any]:
        """What the call states beside tensors, by the names of ATen's arguments, and the weights' shape."""
        names = [argument.name for argument in _schema(node).arguments]
        stated = dict(zip(names, node.args, strict=False)) | dict(node.kwargs)
        found = {key: _plain(value) for key, value in stated.items() if _plain(value) is not None}
        if operation(node) == "linear" or operation(node).startswith("conv"):
            found["weight_shape"] = list(node_value(node.args[1]).shape)
        return found


def _plain(value: Any) -> Any:
    """A number, a truth value, a text or a list of them, for JSON; None for what is a tensor or not
    stated."""
    if isinstance(value, list | tuple):
        return list(value) if value and all(_plain(item) is not None for item in value) else None
    return value if isinstance(value, bool | int | float | str) else None


def operation(node: Node) -> str:
    """The name of a call's operation without its name space and overload: ``conv2d`` of
    aten.conv2d.default."""
    target: Any = node.target
    return str(_schema(node).name.split("::")[-1] if hasattr(target, "_schema") else target.__name__)


def _schema(node: Node) -> Any:
    """ATen's declaration of an operation; PyTorch has no public way to it."""
    target: Any = node.target
    return target._schema  # noqa: SLF001


def node_value(node: Node) -> Any:
    """The tensor that a node stands for; of an operation with several results, the first."""
    value = node.meta["val"]
    return value[0] if isinstance(value, list | tuple) else value
