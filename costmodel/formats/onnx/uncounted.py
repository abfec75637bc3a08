"""ONNX operators that have no layers: the reason, and their multiply-accumulates where shapes tell them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from math import prod

import onnx

from costmodel.formats.onnx.constants import STANDARD_DOMAINS, UNKNOWN
from costmodel.formats.onnx.contributed import MICROSOFT
from costmodel.workload.digits import Shape
from costmodel.workload.network import Node, Uncounted


def unsupported(node: onnx.NodeProto, made: Node, shapes: Mapping[str, Shape]) -> Uncounted:
    """Why an operator is not counted, and how many multiply-accumulates are missing where shapes tell."""
    if any(attribute.type == onnx.AttributeProto.GRAPH for attribute in node.attribute):
        return Uncounted("how often the graphs inside a control-flow operator run is known only when it runs")
    if node.domain in STANDARD_DOMAINS and not onnx.defs.has(node.op_type):
        return Uncounted("no operator of ONNX has this name")
    if node.domain not in (*STANDARD_DOMAINS, MICROSOFT):
        return Uncounted("an operator, or a function of the file, that is not supported")
    operands = [shapes.get(name, (UNKNOWN,)) if name else () for name in node.input]
    results = [shapes.get(name, (UNKNOWN,)) if name else () for name in node.output]
    macs = None
    if (count := _MACS.get(made.operator)) and len(operands) > 1:
        numbers = {attribute.name: attribute.i for attribute in node.attribute}
        known = all(operands[:2]) and UNKNOWN not in (*operands[0], *operands[1])
        macs = count(operands, results, numbers) if known else None
    return Uncounted("the operator is not supported", macs)


Shapes = Sequence[Shape]
Numbers = Mapping[str, int]


def _deformable_convolution(operands: Shapes, results: Shapes, numbers: Numbers) -> int | None:
    """Every output element times a filter, without the interpolation: weights (K, C / groups, *filter)."""
    return None if UNKNOWN in results[0] else prod(results[0]) * prod(operands[1][1:])


def _recurrent(operands: Shapes, results: Shapes, numbers: Numbers) -> int | None:
    """Each step of each sample multiplies by all input weights, (directions, gates * hidden, inputs), and by
    all recurrent weights. The input's first two axes are steps and samples, in either order (``layout``).
    """
    if len(operands) < 3 or len(operands[0]) != 3 or UNKNOWN in operands[2]:
        return None
    if numbers.get("layout", 0) not in (0, 1):
        return None
    steps_and_samples = prod(operands[0][:2])
    return steps_and_samples * (prod(operands[1]) + prod(operands[2]))


_MACS: dict[str, Callable[[Shapes, Shapes, Numbers], int | None]] = {
    "DeformConv": _deformable_convolution,
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
}
