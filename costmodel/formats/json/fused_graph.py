"""Operator graphs with fused operators, from graphs that have an operator for every ATen operation.

Compilers run an element-wise operation together with the operation that makes its operand, and fold batch
normalisation into the weights before it, so that the tensors in between never exist. COSMA's paper does not
say how far its graphs were fused; its authors' numbers are compared with both.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import Any

Operator = Mapping[str, Any]
"""An operator of a graph in JSON: name, type, inputs, outputs, attrs."""

_BATCH_NORM = "_native_batch_norm_legit_no_training"
"""ATen's name for batch normalisation with stored statistics, as networks in evaluation mode have it."""

_ELEMENT_WISE = frozenset(
    [
        "relu",
        "relu6",
        "hardtanh",
        "hardswish",
        "hardsigmoid",
        "sigmoid",
        "tanh",
        "gelu",
        "silu",
        "elu",
        "leaky_relu",
        "softmax",
        "add",
        "sub",
        "mul",
        "div",
        "clamp",
        "pow",
        "sqrt",
        "rsqrt",
        "exp",
        "neg",
    ]
)
"""Operators that can be fused into the producer of their operand, if only one operand is an activation: an
addition of two activations has two, of an activation and a parameter one. Softmax is among them as every
row is at hand."""

_PADDING_ITSELF = ("conv", "max_pool", "avg_pool")
"""How the types of operators begin that can pad their operand themselves."""


def fused_graph(graph: Mapping[str, Any]) -> dict[str, Any]:
    """The graph with batch normalisation, element-wise operators and padding fused; ``graph`` is not changed.

    ``graph`` and the result are operator graphs (:mod:`costmodel.formats.json.graph_json`). An operator
    stays apart where several operators read its operand, or where its operand leaves the network: the
    tensor in between has to exist then. A concatenation takes nothing in, because its operands' producers
    write the parts. A fused operator's type names its parts (``conv2d+relu``); it has the first part's name
    and the last part's output. Batch normalisation after a convolution loses its parameters, which go into
    the weights.
    """
    kinds = {tensor["name"]: tensor["kind"] for tensor in graph["tensors"]}
    readers = Counter(name for op in graph["ops"] for name in set(op["inputs"]))
    made: dict[str, dict[str, Any]] = {}  # operators so far by their output, which a later part may replace
    position: dict[str, int] = {}  # by output, where the operator's first part is in the order of the graph
    for index, op in enumerate(graph["ops"]):
        activations = [name for name in op["inputs"] if kinds[name] != "parameter"]
        operand = activations[0] if activations else ""
        only_reader = len(activations) == 1 and readers[operand] == 1 and kinds[operand] != "output"
        producer = made.get(operand) if only_reader else None
        output = op["outputs"][0]
        if producer is not None and _joins(op, producer):
            del made[operand]
            made[output] = _joined(producer, op, operand)
            position[output] = position[operand]
        elif producer is not None and producer["type"] == "pad" and op["type"].startswith(_PADDING_ITSELF):
            del made[operand]
            made[output] = _padding_itself(op, producer)
            position[output] = index
        else:
            made[output] = dict(op)
            position[output] = index
    ops = [made[output] for output in sorted(made, key=position.__getitem__)]
    used = {name for op in ops for name in (*op["inputs"], *op["outputs"])}
    tensors = [tensor for tensor in graph["tensors"] if tensor["name"] in used]
    return dict(graph) | {"granularity": "fused", "ops": ops, "tensors": tensors}


def _joins(op: Operator, producer: Operator) -> bool:
    """Whether ``op`` can be fused into the producer of its only activation."""
    first = producer["type"].split("+")[0]
    if first in ("cat", "pad"):
        return False
    if op["type"] == _BATCH_NORM:
        return "+" not in producer["type"] and first.startswith(("conv", "linear"))
    return op["type"] in _ELEMENT_WISE


def _joined(producer: Operator, op: Operator, operand: str) -> dict[str, Any]:
    """The producer with ``op`` as its last part, which reads ``operand`` no longer from memory."""
    parameters = [] if op["type"] == _BATCH_NORM else [name for name in op["inputs"] if name != operand]
    return dict(producer) | {
        "type": f"{producer['type']}+{op['type']}",
        "inputs": [*producer["inputs"], *parameters],
        "outputs": list(op["outputs"]),
    }


def _padding_itself(op: Operator, pad: Operator) -> dict[str, Any]:
    """The operator with the input and the widths of the padding that was in front of it."""
    inputs = [pad["inputs"][0] if name == pad["outputs"][0] else name for name in op["inputs"]]
    return dict(op) | {"inputs": inputs, "attrs": dict(op["attrs"]) | {"fused_pad": pad["attrs"]["pad"]}}
