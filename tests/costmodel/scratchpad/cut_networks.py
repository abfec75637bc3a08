"""Small networks of stated operators, one with every kind that can be cut, and the numbers of its pieces."""

from __future__ import annotations

from random import Random
from typing import Any

import numpy as np

from costmodel.formats.json.graph_json import network_of_graph
from costmodel.scratchpad.cut import CutGraph, TensorCut, may_recompute
from costmodel.scratchpad.divisions import Box, DivisibleGraph
from costmodel.workload.network import Network, Node

Numbers = np.ndarray[Any, np.dtype[np.float64]]
CHANNELS, ROWS, COLUMNS = 4, 6, 3


def mixed_network() -> Network:
    """A strided convolution, one in groups, a depthwise one, pooling, a gate, a sum, and tensors joined."""
    half = ROWS // 2
    shapes: dict[str, list[int]] = {
        "image": [1, 2, ROWS, COLUMNS],
        "dense.w": [CHANNELS, 2, 3, 3],
        "dense.b": [CHANNELS],
        "groups.w": [CHANNELS, 2, 3, 3],
        "deep.w": [CHANNELS, 1, 3, 3],
        "gate.w": [CHANNELS, CHANNELS, 1, 1],
        "wide.w": [CHANNELS, 2 * CHANNELS, 1, 1],
        "dense": [1, CHANNELS, ROWS, COLUMNS],
        "groups": [1, CHANNELS, ROWS, COLUMNS],
        "deep": [1, CHANNELS, ROWS, COLUMNS],
        "mean": [1, CHANNELS, 1, 1],
        "gate": [1, CHANNELS, 1, 1],
        "scaled": [1, CHANNELS, ROWS, COLUMNS],
        "sum": [1, CHANNELS, ROWS, COLUMNS],
        "joined": [1, 2 * CHANNELS, ROWS, COLUMNS],
        "wide": [1, CHANNELS, half, COLUMNS],
        "pool": [1, CHANNELS, half - 1, COLUMNS],
    }
    same: dict[str, Any] = {"padding": [1, 1]}
    nodes: list[tuple[str, str, list[str], dict[str, Any]]] = [
        ("dense", "conv2d", ["image", "dense.w", "dense.b"], same),
        ("groups", "conv2d", ["dense", "groups.w"], {**same, "groups": 2}),
        ("deep", "conv2d", ["groups", "deep.w"], {**same, "groups": CHANNELS}),
        ("mean", "adaptive_avg_pool2d", ["deep"], {"output_size": [1, 1]}),
        ("gate", "conv2d", ["mean", "gate.w"], {}),
        ("scaled", "mul", ["deep", "gate"], {}),
        ("sum", "add", ["scaled", "groups"], {}),
        ("joined", "cat", ["sum", "dense"], {"dim": 1}),
        ("wide", "conv2d", ["joined", "wide.w"], {"stride": [2, 1]}),
        ("pool", "max_pool2d", ["wide"], {"kernel_size": [2, 1], "stride": [1, 1]}),
    ]
    kinds = {name: "parameter" for name in shapes if "." in name} | {"image": "input"}
    return network_of_graph(
        {
            "name": "mixed",
            "ops": [
                {"name": name, "type": kind, "inputs": inputs, "outputs": [name], "attrs": attrs}
                for name, kind, inputs, attrs in nodes
            ],
            "tensors": [
                {"name": name, "shape": shape, "kind": kinds.get(name, "activation")}
                for name, shape in shapes.items()
            ],
        }
    )


def random_cuts(divisible: DivisibleGraph, seed: int) -> dict[str, TensorCut]:
    """Of each tensor a few rows and channels at random, or bands for its reader."""
    random, cuts = Random(seed), dict[str, TensorCut]()
    for number, (tensor, extent) in enumerate(zip(divisible.whole.tensors, divisible.extents, strict=True)):
        if random.random() < 0.3 and may_recompute(divisible, number):
            bands = random.randint(1, min(extent.channels, 3))
            cuts[tensor.name] = TensorCut(channels=bands, recomputed=True)
        else:
            cuts[tensor.name] = TensorCut(
                random.randint(1, min(extent.rows, 4)), random.randint(1, min(extent.channels, 3))
            )
    return cuts


def numbers_of(network: Network, seed: int = 0) -> dict[str, Numbers]:
    """Random numbers for inputs and parameters, and what the whole operators make of them."""
    draws, found = np.random.default_rng(seed), dict[str, Numbers]()
    for value in network.values:
        if value.kind in ("input", "parameter"):
            found[value.name] = draws.normal(size=value.shape)
    for node in network.nodes:
        shape = network.value(node.outputs[0]).shape
        inputs = [found[name] for name in node.inputs]
        whole = Box((0, shape[2]), (0, shape[1]))
        found[node.outputs[0]] = computed(node, inputs, shape, whole, range(inputs[0].shape[1]), None)
    return found


def computed(
    node: Node, inputs: list[Numbers], shape: tuple[int, ...], made: Box, summed: range, rows: range | None
) -> Numbers:
    """The box of the output by the operator's definition, element by element, elsewhere NaN.

    Of a convolution only products of the input channels ``summed`` are in it, of an average only ``rows``.
    """
    out = np.full(shape, np.nan)
    attributes, kind = node.attributes, node.kinds[0].name
    for channel in range(*made.channels):
        for row in range(*made.rows):
            for column in range(shape[3]):
                at = (0, channel, row, column)
                if kind == "convolution":
                    out[at] = _convolved(inputs, attributes, at, shape, summed)
                elif kind == "max_pool":
                    out[at] = inputs[0][0, channel, row : row + 2, column].max()
                elif kind == "adaptive_avg_pool":
                    over = rows or range(inputs[0].shape[2])
                    out[at] = inputs[0][0, channel, over.start : over.stop].sum() / ROWS / COLUMNS
                elif kind == "cat":
                    first = inputs[0].shape[1]
                    source, own = (inputs[0], channel) if channel < first else (inputs[1], channel - first)
                    out[at] = source[0, own, row, column]
                else:
                    one, two = (np.broadcast_to(array, shape)[at] for array in inputs)
                    out[at] = one * two if kind == "mul" else one + two
    return out


def _convolved(
    inputs: list[Numbers], attributes: Any, at: tuple[int, ...], shape: tuple[int, ...], summed: range
) -> float:
    source, weights = inputs[:2]
    _, channel, row, column = at
    stride, padding = attributes.get("stride", (1, 1)), attributes.get("padding", (0, 0))
    group = channel * attributes.get("groups", 1) // shape[1]
    total = float(inputs[2][channel]) if len(inputs) > 2 and summed.start == 0 else 0.0
    for tap in np.ndindex(*weights.shape[1:]):
        y = row * stride[0] - padding[0] + tap[1]
        x = column * stride[1] - padding[1] + tap[2]
        read = group * weights.shape[1] + tap[0]
        if 0 <= y < source.shape[2] and 0 <= x < source.shape[3] and read in summed:
            total += source[0, read, y, x] * weights[channel, *tap]
    return total


def run_pieces(network: Network, cut: CutGraph, whole: dict[str, Numbers]) -> dict[str, Numbers]:
    """What the pieces make, in the graph's order, each from nothing but the bands that it reads.

    What a piece does not read is NaN for it, and so is all that it makes of that.
    """
    held: dict[int, Numbers] = {}
    names = [tensor.name for tensor in cut.divisible.whole.tensors]
    made: dict[str, Numbers] = {}
    for operator, piece in zip(cut.graph.operators, cut.pieces, strict=True):
        node = network.nodes[piece.operator]
        read = {t: held.get(t, whole.get(names[cut.contents[t].of])) for t in operator.inputs}
        inputs = [_seen(cut, name, names, read, whole) for name in node.inputs]
        if cut.graph.settings.parameters and not operator.parameter_bytes:
            inputs = [_weights(cut, operator.inputs, node, n, a) for n, a in enumerate(inputs)]
        shape = network.value(node.outputs[0]).shape
        box = piece.made or Box((0, shape[2]), (0, shape[1]))
        sums = cut.divisible.divisions[piece.operator].sums
        span = range(*piece.added) if piece.added else None
        channels = span if span and sums == "channels" else range(inputs[0].shape[1])
        result = computed(node, inputs, shape, box, channels, span if sums == "rows" else None)
        for tensor in operator.inputs:
            if cut.contents[tensor].summed and cut.contents[tensor].of >= 0:
                result = result + held[tensor]
        for tensor in operator.outputs:
            own = cut.contents[tensor].box
            kept = np.full(shape, np.nan)
            cells = (slice(None), slice(*own.channels), slice(*own.rows))
            kept[cells] = result[cells]
            held[tensor] = kept
            if not cut.contents[tensor].summed:
                all_of = made.setdefault(node.outputs[0], np.full(shape, np.nan))
                all_of[cells] = result[cells]
    return made


def _seen(
    cut: CutGraph,
    name: str,
    names: list[str],
    read: dict[int, Numbers | None],
    whole: dict[str, Numbers],
) -> Numbers:
    if name not in names:
        return whole[name]
    seen = np.full(whole[name].shape, np.nan)
    for tensor, array in read.items():
        content = cut.contents[tensor]
        if content.of == names.index(name) and not content.summed and array is not None:
            cells = (slice(None), slice(*content.box.channels), slice(*content.box.rows))
            seen[cells] = array[cells]
    return seen


def _weights(cut: CutGraph, read: tuple[int, ...], node: Node, number: int, array: Numbers) -> Numbers:
    """Of an operand that is a parameter only the output channels (and summed ones) that the piece reads."""
    if "." not in node.inputs[number]:
        return array
    seen = np.full(array.shape, np.nan)
    for tensor in read:
        content = cut.contents[tensor]
        if content.of < 0:
            cells = (slice(*content.box.channels),)
            seen[cells] = array[cells]
    return seen


def graph_of(
    *ops: tuple[str, str, list[str], list[int], dict[str, Any]], image: list[int], **parameters: list[int]
) -> Network:
    """A network of (name, type, inputs, shape of the output, attributes), and shapes of parameters."""
    weights = {"w3": [2, 2, 3, 3], "w1": [2, 2, 1, 1], **parameters}
    shapes = {"image": image, **weights} | {name: shape for name, _, _, shape, _ in ops}
    kinds = {"image": "input", **dict.fromkeys(weights, "parameter")}
    return network_of_graph(
        {
            "name": "small",
            "ops": [
                {"name": name, "type": kind, "inputs": inputs, "outputs": [name], "attrs": attrs}
                for name, kind, inputs, _, attrs in ops
            ],
            "tensors": [
                {"name": name, "shape": shape, "kind": kinds.get(name, "activation")}
                for name, shape in shapes.items()
            ],
        }
    )


def random_network(seed: int) -> Network:
    """Two to five operators on tensors of at most 6 rows and a few channels: convolutions with and without a
    window or a stride, depthwise ones, pooling, sums, and tensors joined."""
    random, shapes = Random(seed), dict[str, list[int]]()
    shapes["image"] = [1, random.randint(1, 3), random.randint(3, 6), random.randint(1, 2)]
    ops: list[tuple[str, str, list[str], list[int], dict[str, Any]]] = []
    weights: dict[str, list[int]] = {}
    for number in range(random.randint(2, 5)):
        source = random.choice(list(shapes)[-2:])
        _, channels, rows, columns = shapes[source]
        alike = [name for name, shape in shapes.items() if name != source and shape == shapes[source]]
        joinable = [name for name, shape in shapes.items() if name != source and shape[2] == rows]
        kinds = ["window", "window", "depthwise", "single"]
        kinds += ["strided", "pool"] * (rows >= 3) + ["add"] * bool(alike) + ["cat"] * bool(joinable)
        kind, name, weight = random.choice(kinds), f"made{number}", f"w{number}"
        if kind in ("window", "single", "strided"):
            size = 3 if kind == "window" else 1 if kind == "single" else random.choice((1, 3))
            stride, out = 1 + (kind == "strided"), random.randint(1, 3)
            weights[weight] = [out, channels, size, 1]
            made = [1, out, (rows + 2 * (size // 2) - size) // stride + 1, columns]
            attributes: dict[str, Any] = {"stride": [stride, 1], "padding": [size // 2, 0]}
            ops.append((name, "conv2d", [source, weight], made, attributes))
        elif kind == "depthwise":
            weights[weight] = [channels, 1, 3, 1]
            attributes = {"padding": [1, 0], "groups": channels}
            ops.append((name, "conv2d", [source, weight], shapes[source], attributes))
        elif kind == "pool":
            made = [1, channels, (rows - 2) // 2 + 1, columns]
            attributes = {"kernel_size": [2, 1], "stride": [2, 1]}
            ops.append((name, "max_pool2d", [source], made, attributes))
        elif kind == "add":
            ops.append((name, "add", [source, random.choice(alike)], shapes[source], {}))
        else:
            other = random.choice(joinable)
            ops.append(
                (name, "cat", [source, other], [1, channels + shapes[other][1], rows, columns], {"dim": 1})
            )
        shapes[name] = ops[-1][3]
    return graph_of(*ops, image=shapes["image"], **weights)
