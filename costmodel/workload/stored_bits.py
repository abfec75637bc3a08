"""How many bits the elements of a layer's tensors have, as the network's file states them."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import log2, prod

from costmodel.workload.library.builder import SCALES
from costmodel.workload.network import Layer, Network, Node

_PACKED = ("bits", "expert_weight_bits")
"""Attributes that state the bits of weights which lie packed in bytes."""
_PACKED_WITH_SCALES = "MatMulNBits"
"""The operator whose third and fourth operands are scales and zero points of ``block_size`` weights each."""


class StoredBits:
    """The widths of the tensors that the layers of one network read and write.

    A product of dequantized operands reads what is stored: behind a ``dequantize_linear``, and behind views
    of its result, the width is that of the integers. A result that is only quantized is as wide as the
    integers that are made of it. None stands for a width that the file does not state.
    """

    def __init__(self, network: Network) -> None:
        self._network = network
        self._bits = {value.name: value.bits for value in network.values}
        self._shapes = {value.name: value.shape for value in network.values}
        self._parameters = {value.name for value in network.values if value.kind == "parameter"}
        self._makers = {output: node for node in network.nodes for output in node.outputs}
        self._readers: Mapping[str, list[Node]] = defaultdict(list)
        for node in network.nodes:
            for name in dict.fromkeys(node.inputs):
                self._readers[name].append(node)

    def of(self, node: Node, layer: Layer) -> dict[str, int | None]:
        """Bits of an element of each tensor of ``layer``, one of ``node``'s, by the tensor's name."""
        number = next(i for i, one in enumerate(node.layers) if one.name == layer.name)
        by_role = {"outputs": self._made(node.outputs[0]) if node.outputs else None}
        by_role |= dict(zip(("inputs", "weights"), self._read(node, number), strict=True))
        if number < len(node.layers) - 1:  # attention's scores, say, which no value of the network is
            by_role["outputs"] = self._plain(node)
        return {tensor.name: by_role[tensor.role] for tensor in layer.tensors}

    def stated(self) -> tuple[Layer, ...]:
        """The network's layers with what an architecture of a precision asks of them: the bits that the file
        states, the scales that weights share, and which of the second operands are no parameters."""
        return tuple(
            replace(
                layer,
                bits=tuple((name, bits) for name, bits in self.of(node, layer).items() if bits is not None),
                caches=self._caches(node, layer),
                scales=self._scales(node, layer),
            )
            for node in self._network.nodes
            for layer in node.layers
        )

    def _caches(self, node: Node, layer: Layer) -> tuple[str, ...]:
        """The tensors with the role of weights that an operator or the network's caller makes, if any."""
        second = _second(node, layer)
        # where the file leaves out a second operand, it is a parameter of the operator
        if second is None or self._is_parameter(second):
            return ()
        return tuple(tensor.name for tensor in layer.tensors if tensor.role == "weights")

    def _scales(self, node: Node, layer: Layer) -> tuple[tuple[str, int, int], ...]:
        """The scales of a layer's weights, as :attr:`Layer.scales` has them.

        They stand beside the weights, as do zero points: those of ONNX's dequantization, of products with
        weights that lie packed in bytes, and of the library's networks. A single scale for the whole tensor
        is not counted.
        """
        second = _second(node, layer)
        if not second or self._bits[second] is None:
            return ()
        weights, beside = self._scaled(node, second)
        beside = [name for name in beside if name]
        bits = [self._bits[name] for name in beside]
        if not beside or None in bits or (groups := prod(self._shapes[beside[0]])) == 1:
            return ()
        held = sum(prod(self._shapes[name]) * (one or 0) for name, one in zip(beside, bits, strict=True))
        elements, some = divmod(prod(self._shapes[weights]), groups)
        if node.kind.nest == "fused":
            elements = node.attributes.number("block_size") or 0
        elif some:
            # blocks at the edge are partial; whole ones have some power of two of elements
            elements = 2 ** round(log2(elements))
        return tuple(
            (tensor.name, held // groups, elements) for tensor in layer.tensors if tensor.role == "weights"
        )

    def _scaled(self, node: Node, name: str) -> tuple[str, Sequence[str]]:
        """The stored weights behind an operand of a node, and the names of their scales and zero points."""
        while (maker := self._makers.get(name)) is not None and maker.inputs:
            if maker.kind.name == "dequantize_linear":
                return maker.inputs[0], maker.inputs[1:3]
            if maker.kind.role not in ("view", "cut"):
                break
            name = maker.inputs[0]
        if node.operator.endswith(_PACKED_WITH_SCALES):
            return name, node.inputs[2:4]
        return name, [one for one in node.inputs if one == name.removesuffix(".weight") + SCALES]

    def _is_parameter(self, name: str) -> bool:
        """Whether a value is a parameter, or a view or the dequantized integers of one."""
        while (maker := self._makers.get(name)) is not None and maker.inputs:
            if maker.kind.name != "dequantize_linear" and maker.kind.role not in ("view", "cut"):
                return False
            name = maker.inputs[0]
        return name in self._parameters

    def _read(self, node: Node, number: int) -> tuple[int | None, int | None]:
        """The widths of the two operands of a node's layer: what the layer before made is one of them."""
        if node.kind.nest in (None, "stated"):
            return None, None
        positions = range(len(node.inputs)) if node.kind.nest == "einsum" else node.kind.factors
        operands = [node.inputs[i] for i in positions if i < len(node.inputs)]
        if not operands:
            return None, None
        if len(operands) == 1:
            operands *= 2  # a product of a tensor with itself
        stated = [key for key in _PACKED if node.kind.nest == "fused" and key in node.attributes]
        packed = node.attributes.number(stated[0]) if stated else None
        if number == 0:
            return self._stored(operands[0]), packed or self._stored(operands[1])
        right = operands[number + 1] if number + 1 < len(operands) else operands[-1]
        return self._plain(node), packed or self._stored(right)

    def _plain(self, node: Node) -> int | None:
        return self._bits[node.inputs[node.kind.factors[0]]] if node.inputs else None

    def _stored(self, name: str) -> int | None:
        behind = name
        while (maker := self._makers.get(behind)) is not None and maker.inputs:
            if maker.kind.name == "dequantize_linear":
                return self._bits[maker.inputs[0]]
            if maker.kind.role not in ("view", "cut"):
                break
            behind = maker.inputs[0]
        return self._bits[name]

    def _made(self, name: str) -> int | None:
        readers = self._readers[name]
        if readers and all(node.kind.name == "quantize_linear" for node in readers):
            widths = {self._bits[node.outputs[0]] for node in readers}
            return widths.pop() if len(widths) == 1 else self._bits[name]
        return self._bits[name]


def _second(node: Node, layer: Layer) -> str | None:
    """The second operand of one of a node's layers; None where the file leaves it out."""
    number = next(i for i, one in enumerate(node.layers) if one.name == layer.name)
    positions = range(len(node.inputs)) if node.kind.nest == "einsum" else node.kind.factors
    second = positions[number + 1] if number + 1 < len(positions) else None
    return None if second is None or second >= len(node.inputs) else node.inputs[second]
