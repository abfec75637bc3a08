"""Numbers for graphs: the same operators run by NumPy as ONNX has them, and by the layers of a layer graph.

All numbers are modulo 2**64, and every layer multiplies by numbers of its own, so that two runs agree only if
every layer reads the same elements of the same layers. What reads nothing but the network's input makes
numbers by channel and position: where the input lies in DRAM nobody says. Constant weights may be in any
order, so they are the same for all inputs of a layer; activations as weights are multiplied as they are.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from functools import cache
from hashlib import blake2b
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer

Array = Any


@cache
def number(*names: object) -> np.uint64:
    """An odd number for every name."""
    digest = blake2b(repr(names).encode(), digest_size=8).digest()
    return np.uint64(int.from_bytes(digest, "little") | 1)


def source(name: str, k: int, h: int, w: int) -> Array:
    """What a layer computes from the network's input, by channel and position."""
    numbers = [[number(name, c, position) for position in range(h * w)] for c in range(k)]
    return np.array(numbers, dtype=np.uint64).reshape(k, h, w)


def slid(x: Array, window: tuple[int, ...], count: tuple[int, int], name: str) -> Array:
    """The sum under each window, every place with its weight; ``window``: r, s, strides, padding before."""
    r, s, stride_h, stride_w, above, left = window
    made = np.zeros((x.shape[0], *count), dtype=np.uint64)
    weights = [number(name, i) if name and i else np.uint64(1) for i in range(max(r, s))]
    for p in range(count[0]):
        for q in range(count[1]):
            for i in range(r):
                for j in range(s):
                    y, z = p * stride_h + i - above, q * stride_w + j - left
                    if 0 <= y < x.shape[1] and 0 <= z < x.shape[2]:
                        made[:, p, q] += x[:, y, z] * weights[i] * weights[j]
    return made


def filtered(x: Array, made: tuple[int, int, int], groups: int, window: tuple[int, ...], name: str) -> Array:
    """A convolution with constant weights to channels, rows and columns ``made``."""
    k, *count = made
    summed = slid(x, window, (count[0], count[1]), name).reshape(groups, -1, *count).sum(axis=1)
    each = k // groups
    same = groups == x.shape[0]
    weights = [number(name, "k", i % each if same else i) for i in range(k)]
    return np.array([summed[i // each] * weights[i] for i in range(k)], dtype=np.uint64)


@dataclass
class Made:
    """A model while it is made, and the numbers of its tensors."""

    nodes: list[onnx.NodeProto] = field(default_factory=list)
    parameters: list[onnx.TensorProto] = field(default_factory=list)
    inputs: list[onnx.ValueInfoProto] = field(default_factory=list)
    numbers: dict[str, Array] = field(default_factory=dict)
    computed: dict[str, Array] = field(default_factory=dict)
    """What layers compute, [channels, ...positions], by the node's name."""
    depthwise: dict[str, int] = field(default_factory=dict)

    def new(self) -> str:
        return f"t{len(self.nodes)}"

    def integers(self, *values: int) -> str:
        name = f"i{len(self.parameters)}"
        self.parameters.append(helper.make_tensor(name, TensorProto.INT64, [len(values)], values))
        return name

    def weights(self, *shape: int) -> str:
        name = f"w{len(self.parameters)}"
        tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=shape)
        tensor.data_location = TensorProto.EXTERNAL
        tensor.external_data.add(key="location", value="missing.bin")
        self.parameters.append(tensor)
        return name

    def operator(self, kind: str, reads: list[str], result: Array, **attributes: Any) -> str:
        name = self.new()
        self.nodes.append(helper.make_node(kind, reads, [name], name=name, **attributes))
        self.numbers[name] = result
        return name

    def image(self, k: int, h: int, w: int) -> str:
        """A convolution of an image of its own."""
        x = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(x, TensorProto.FLOAT, (1, 3, h, w)))
        made = source(self.new(), k, h, w)
        self.computed[self.new()] = made
        return self.operator("Conv", [x, self.weights(k, 3, 1, 1)], made[None])

    def tokens(self, rows: int, width: int) -> str:
        """A product of a sequence of its own."""
        x = f"x{len(self.inputs)}"
        self.inputs.append(helper.make_tensor_value_info(x, TensorProto.FLOAT, (1, rows, 5)))
        made = source(self.new(), width, rows, 1)
        self.computed[self.new()] = made
        return self.operator("MatMul", [x, self.weights(5, width)], made[None, :, :, 0].transpose(0, 2, 1))

    def convolved(self, x: str, k: int, groups: int, window: tuple[int, ...], behind: tuple[int, int]) -> str:
        """``window``: r, s, strides, padding before rows and columns; ``behind``: padding behind them."""
        read = self.numbers[x][0]
        r, s, stride_h, stride_w, above, left = window
        count = ((read.shape[1] + above + behind[0] - r) // stride_h + 1,
                 (read.shape[2] + left + behind[1] - s) // stride_w + 1)  # fmt: skip
        made = filtered(read, (k, *count), groups, window, self.new())
        self.computed[self.new()] = made
        if groups == read.shape[0]:
            self.depthwise[self.new()] = k // groups
        weights = self.weights(k, read.shape[0] // groups, r, s)
        pads = [above, left, *behind]
        strides = [stride_h, stride_w]
        return self.operator("Conv", [x, weights], made[None], pads=pads, strides=strides, group=groups)

    def pooled(self, x: str, window: tuple[int, ...], behind: tuple[int, int]) -> str:
        read = self.numbers[x][0]
        r, s, stride_h, stride_w, above, left = window
        count = ((read.shape[1] + above + behind[0] - r) // stride_h + 1,
                 (read.shape[2] + left + behind[1] - s) // stride_w + 1)  # fmt: skip
        made = slid(read, window, count, "")
        self.computed[self.new()] = made
        attributes = {"kernel_shape": [r, s], "strides": [stride_h, stride_w], "pads": [above, left, *behind]}
        return self.operator("AveragePool", [x], made[None], **attributes)

    def multiplied(self, x: str, n: int) -> str:
        """A product of the last axis with constant weights."""
        read = self.numbers[x]
        weights = np.array([number(self.new(), "k", i) for i in range(n)], dtype=np.uint64)
        made = read.sum(axis=-1, dtype=np.uint64)[..., None] * weights
        self.computed[self.new()] = np.moveaxis(made, -1, 0)
        return self.operator("MatMul", [x, self.weights(read.shape[-1], n)], made)

    def product(self, x: str, y: str) -> str:
        """A product of activations."""
        made = self.numbers[x] @ self.numbers[y]
        self.computed[self.new()] = made
        return self.operator("MatMul", [x, y], made)

    def saved(self, folder: Path) -> Path:
        read = {name for node in self.nodes for name in node.input}
        outputs = [onnx.ValueInfoProto(name=name) for name in self.numbers if name not in read]
        graph = helper.make_graph(self.nodes, "made", self.inputs, outputs, self.parameters)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)])
        path = folder / "made.onnx"
        path.write_bytes(model.SerializeToString())
        return path


def run(graph: LayerGraph, depthwise: dict[str, int]) -> dict[str, Array]:
    """What every layer of the graph computes, [k, h, w], the parts of one that was cut together again.

    ``depthwise``: which layers compute so many outputs from every input, by name.
    """
    parts: list[Array] = []
    whole: dict[str, list[Array]] = {}
    for layer in graph.layers:
        name = re.sub(r"\[\d+\]$", "", layer.name)
        first = sum(part.shape[0] for part in whole.get(name, []))
        total = sum(one.k for one in graph.layers if re.sub(r"\[\d+\]$", "", one.name) == name)
        made = _layer(graph, layer, parts, (name, first, total), depthwise)
        parts.append(made)
        whole.setdefault(name, []).append(made)
    return {name: np.concatenate(pieces) for name, pieces in whole.items()}


def _layer(
    graph: LayerGraph,
    layer: NetworkLayer,
    parts: list[Array],
    place: tuple[str, int, int],
    depthwise: dict[str, int],
) -> Array:
    name, first, total = place
    inputs, weights = graph.reads(layer)
    if layer.external_c == layer.c:
        return source(name, total, layer.h, layer.w)[first : first + layer.k]
    assert not layer.external_c
    h, w = layer.input_h, layer.input_w
    if layer.kind in ("eltwise", "ptp"):
        h, w = layer.h, layer.w
    x = np.concatenate([parts[one.producer][one.first : one.end, :h, :w] for one in inputs])
    window = (layer.r, layer.s, layer.stride_h, layer.stride_w, layer.pad_h, layer.pad_w)
    if layer.kind == "transpose":
        return x.transpose(layer.order)
    if layer.kind in ("eltwise", "ptp"):
        return x.reshape(layer.operands, layer.k, h, w).sum(axis=0, dtype=np.uint64)
    if layer.kind == "pool":
        return slid(x, window, (layer.h, layer.w), "")
    if weights:  # [outputs of a group, inputs]
        taken = np.concatenate([parts[one.producer][one.first : one.end] for one in weights])
        taken = taken.reshape(layer.groups, layer.group_k, -1)
        rows = x.reshape(layer.groups, layer.group_c, -1)
        return (taken @ rows).reshape(layer.k, layer.h, layer.w)
    if layer.kind == "fc":
        numbers = np.array([number(name, "k", first + i) for i in range(layer.k)], dtype=np.uint64)
        return (numbers * x.sum(dtype=np.uint64))[:, None, None]
    made = (layer.k, layer.h, layer.w)
    if name in depthwise:
        each = depthwise[name]
        summed = slid(x, window, made[1:], name)
        outputs = range(first, first + layer.k)
        products = [summed[i // each - first // each] * number(name, "k", i % each) for i in outputs]
        return np.array(products, dtype=np.uint64)
    summed = slid(x, window, made[1:], name).reshape(layer.groups, layer.group_c, *made[1:])
    summed = summed.sum(axis=1, dtype=np.uint64)
    factors = [number(name, "k", first + i) for i in range(layer.k)]
    return np.array([summed[i // layer.group_k] * factors[i] for i in range(layer.k)], dtype=np.uint64)
