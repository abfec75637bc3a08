"""Networks as a chip's scheduler sees them: operator graphs become layer graphs for one sample.

Convolutions and products become layers with weights, or with activations as weights (attention); pooling,
sums of several operands, softmax and normalisations layers of vector units. Sequences have tokens as rows.
Activations, batch normalisation and arithmetic with constants are done by the layer before where nobody else
reads it, else by a layer of their own. Views are folded: every consumer takes the data in the form it needs,
through a transposing layer where rows must become channels (the keys of attention, one for each head).
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod

from costmodel.chip.layers import LayerGraph
from costmodel.errors import InputError
from costmodel.frontends.layer_graph_data import Builder, Data
from costmodel.frontends.layer_graph_drafts import EXTERNAL, Slice, layer_graph_of
from costmodel.frontends.layer_graph_operators import Role, role_of
from costmodel.frontends.layer_graph_products import attention, product
from costmodel.workload import Network, Node, Value


def layer_graph(network: Network) -> LayerGraph:
    """The layers of ``network``, which is of one sample, and whose outputs each of them reads.

    Raises InputError naming the node that a schedule cannot have: one of an unknown operator, of three
    spatial axes, with a dilation, or that reads its input in a form that no layer here makes.
    """
    reader = _Reader(network)
    for node in network.nodes:
        try:
            reader.read(node)
        except InputError as error:
            where = f"network {network.name}: node {node.name} ({node.operator})"
            raise InputError(where, error.expected, error.found, error.remedy, key=error.key) from None
    graph = layer_graph_of(network.name, reader.builder.drafts, reader.results())
    if not graph.layers:
        raise InputError(f"network {network.name}", "layers to schedule", "none")
    return graph


_TAKE_STATISTICS = ("activation", "elementwise", "reduction", "view")
_TAKE_SEVERAL = ("products", "elementwise", "concatenation")


class _Reader:
    """What every value is, node by node; None: a constant, or numbers about shapes."""

    def __init__(self, network: Network) -> None:
        self._network = network
        self._values = {value.name: value for value in network.values}
        self._data: dict[str, Data | None] = {
            value.name: _external(value) if value.kind == "input" else None
            for value in network.values
            if value.kind in ("input", "parameter")
        }
        self._cut_until: dict[str, int] = {}
        self.builder = Builder()

    def results(self) -> list[Slice]:
        """What the network's outputs are made of, and what nobody reads."""
        read = {name for node in self._network.nodes for name in node.inputs}
        ends = [
            self._data.get(value.name)
            for value in self._network.values
            if value.kind == "output" or value.name not in read
        ]
        return [part for data in ends if data for part in data.parts]

    def read(self, node: Node) -> None:
        """Make the node's layers, and say what its outputs are."""
        head, *fused = node.operator.split("+")
        operands = [data for name in node.inputs if (data := self._data[name]) is not None]
        if not operands or head in ("shape", "Shape", "Size"):
            self._data.update(dict.fromkeys(node.outputs))
            return
        role = self._role(node, head, operands)
        if role == "cut":
            self._cut(node, operands[0])
            return
        made = self._made(node, role, operands)
        for part in fused:
            made = self._fused(node, part, made, operands)
        if role != "view":  # which may pad or repeat
            _check_size(made, self._values[node.outputs[0]])
        self._data.update({**dict.fromkeys(node.outputs), node.outputs[0]: made})

    def _role(self, node: Node, head: str, operands: Sequence[Data]) -> Role:
        """What the node is; InputError for one that no schedule can have."""
        role = role_of(head)
        if node.uncounted:
            raise InputError("", "an operator whose work is known", node.uncounted.why)
        if role is None:
            raise InputError("", "an operator that a chip's schedule can have", head)
        for name in node.outputs if role == "cut" else node.outputs[:1]:
            if not self._values[name].elements:
                raise InputError("", "an output of known shape", self._values[name].shape, key=name)
        if role not in _TAKE_STATISTICS and any(data.statistic for data in operands):
            raise InputError("", "numbers over all channels only within a normalisation", head)
        computed = {data.parts for data in operands if not data.external}
        if role not in _TAKE_SEVERAL and "+" not in node.operator and len(computed) > 1:
            raise InputError("", "one operand that the network computes", len(computed))
        return role

    def _made(self, node: Node, role: Role, operands: list[Data]) -> Data:
        value = self._values[node.outputs[0]]
        if role == "products":
            return self._products(node, operands)
        if role in ("activation", "normalisation"):
            return self.builder.pointwise(node.name, operands[0], foldable=role == "activation")
        if role == "elementwise":
            return self._elementwise(node.name, operands, value)
        if role == "pooling":
            if node.pooling is None and "adaptive" not in node.operator and "Global" not in node.operator:
                raise InputError("", "the size of its window", "none")
            return self.builder.pool(node.name, operands[0], node.pooling, value.shape[2:])
        if role == "reduction":
            return self._reduced(node, operands[0])
        if role == "concatenation":
            return self._concatenated(node, value)
        if role == "lookup":
            return self._looked_up(node, operands, value)
        return operands[0]

    def _products(self, node: Node, operands: list[Data]) -> Data:
        constants = [self._values[name] for name in node.inputs if self._data[name] is None]
        if len(node.layers) == 2:
            return attention(self.builder, node, operands)
        first = self._values[next(name for name in node.inputs if self._data[name] is not None)]
        return product(self.builder, node, operands, bool(constants), len(first.shape))

    def _fused(self, node: Node, part: str, made: Data, operands: Sequence[Data]) -> Data:
        """The next operator fused to a node: on what was made so far, and perhaps its last operand."""
        role, name = role_of(part), f"{node.name}.{part}"
        if (
            role == "elementwise"
            and len(operands) > 1
            and len(node.layers) == 1
            and "B" not in node.layers[0].sizes
        ):
            return self.builder.combined(name, [made, operands[-1]])
        if role not in ("activation", "normalisation", "elementwise"):
            raise InputError("", "element-wise operators, normalisations and softmax in a fused one", part)
        return self.builder.pointwise(name, made, foldable=role != "normalisation")

    def _elementwise(self, name: str, operands: list[Data], value: Value) -> Data:
        """Arithmetic; operands that are broadcast from the network's input (masks) count as constants."""
        inner = [data for data in operands if not data.external]
        whole = [data for data in operands if data.external and data.elements == value.elements]
        if not inner:
            return operands[0] if not whole else whole[0]
        kept = [data for data in operands if data in inner or data in whole]
        return self.builder.combined(name, kept)

    def _reduced(self, node: Node, data: Data) -> Data:
        """Means over an image or a sequence are poolings; those over channels are part of a normalisation."""
        read, made = (self._values[names[0]].shape for names in (node.inputs, node.outputs))
        if data.external or data.statistic:
            return data
        if prod(made) == data.h * data.w and (prod(made) != data.k or read[-1] == data.k):
            return self.builder.statistic(data)
        if prod(made) != data.k:
            raise InputError(
                "", "a reduction over all channels or over all rows and columns", f"{read} -> {made}"
            )
        return self.builder.pool(node.name, data, None, (1, 1))

    def _concatenated(self, node: Node, value: Value) -> Data:
        """Side by side: channels as they are, rows through copies that leave room for the others."""
        read = [(self._data[name], self._values[name]) for name in node.inputs]
        if len(value.shape) < 4 and any(v.shape[-1:] == value.shape[-1:] for _, v in read):
            pieces = [(data, prod(v.shape[:-1])) for data, v in read]
            return self.builder.stacked(node.name, pieces, value.shape)
        if missing := [v.name for data, v in read if data is None]:
            raise InputError("", "activations side by side", missing)
        return self.builder.side_by_side([data for data, _ in read if data])

    def _looked_up(self, node: Node, operands: list[Data], value: Value) -> Data:
        """Rows of a constant table come from DRAM as an input does; of activations they are a part."""
        if self._data[node.inputs[0]] is None:
            if not all(data.external for data in operands):
                raise InputError("", "indices that are the network's input", "indices that it computes")
            width = value.shape[-1]
            return self.builder.looked_up(node.name, width, value.elements // width)
        if value.elements == operands[0].elements or operands[0].external:
            return operands[0]
        return self._part(node.inputs[0], operands[0], value)

    def _cut(self, node: Node, data: Data) -> None:
        for name in node.outputs:
            self._data[name] = self._part(node.inputs[0], data, self._values[name])

    def _part(self, source: str, data: Data, value: Value) -> Data:
        """A part of ``data``: channels, those after the part that was taken last; or the leading rows."""
        if data.external or data.statistic or value.elements == data.elements:
            return data
        positions = data.h * data.w
        by_channels = value.elements % positions == 0 and (
            positions == 1 or data.h in value.shape or positions in value.shape
        )
        if by_channels:
            size = value.elements // positions
            first = self._cut_until.get(source, 0)
            first = first if first + size <= data.k else 0
            self._cut_until[source] = first + size
            return data.cut(first, first + size)
        if value.elements % data.k or data.w != 1:
            raise InputError("", f"some of {data.k} channels or of {data.h} rows", value.shape)
        return Data(data.parts, value.elements // data.k, 1)


def _external(value: Value) -> Data:
    """The network's input: an image (samples, channels, rows, columns), or (samples, rows, channels)."""
    if len(value.shape) == 4:
        _, k, h, w = value.shape
        return Data((Slice(EXTERNAL, 0, k),), h, w)
    k = value.shape[-1] if value.shape else 1
    rows = max(value.elements // max(k, 1), 1)
    return Data((Slice(EXTERNAL, 0, k),), rows, 1)


def _check_size(made: Data, value: Value) -> None:
    """Raises InputError if ``made`` is not all of the value, as where a network is of several samples."""
    if made.external or made.statistic or value.elements in (0, made.elements):
        return
    remedy = "Load it with a batch of 1: how many samples there are is the schedule's business"
    raise InputError("", f"an output of {made.elements} elements for one sample", value.shape, remedy)
