"""A whole training step computed layer by layer, as its graph says, against gradients by differences.

The loss is half the sum of the squares of the network's result, so that the result is its own error, as the
graphs have it. Each weight's loss is a parabola: central differences are exact.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.layer_graph.training import training_graph
from costmodel.workload.network import Layer

Array = np.ndarray[Any, Any]


def layer(name: str, kind: str, c: int, k: int, size: int, *producers: int, **more: Any) -> NetworkLayer:
    """Square; outputs of ``size`` rows, as many inputs unless told otherwise."""
    r, stride, pad = more.pop("r", 1), more.pop("stride", 1), more.pop("pad", 0)
    read = more.pop("read", size)
    numbers = (c, k, size, size, r, r, stride, stride, pad, pad, read, read)
    return NetworkLayer(name, kind, *numbers, producers=producers, **more)


def network() -> LayerGraph:
    """Branches that are summed and concatenated, a stride, groups, pooling, and a layer that flattens."""
    layers = (
        layer("stem", "conv", 2, 3, 4, r=3, pad=1, external_c=2),
        layer("left", "conv", 3, 2, 4, 0),
        layer("right", "conv", 3, 1, 4, 0, r=2, pad=1),  # padded above and on the left only
        layer("joined", "eltwise", 6, 3, 4, 1, 2, 0, operands=2),
        layer("grouped", "groupconv", 3, 6, 4, 3, r=3, pad=1, groups=3),
        layer("pooled", "pool", 6, 6, 2, 4, r=2, stride=2, read=4),
        layer("depthwise", "groupconv", 3, 3, 2, 3, r=3, stride=2, pad=1, read=4, groups=3),
        layer("strided", "conv", 3, 2, 2, 3, r=3, stride=2, pad=1, read=4),
        layer("projected", "conv", 3, 2, 2, 3, stride=2, read=3),  # leaves every other row and column out
        layer("mixed", "conv", 13, 2, 2, 5, 6, 7, 8),
        layer("flattened", "fc", 2, 4, 1, 9, r=2, read=2),
        layer("last", "fc", 4, 3, 1, 10),
    )
    return LayerGraph("small", layers)


class Step:
    """Values [channels, rows, columns] of layers, and gradients of weights by the forward layers' names."""

    def __init__(self, graph: LayerGraph, image: Array, weights: dict[str, Array]) -> None:
        self._graph, self._image, self._weights = graph, image, weights
        self.values: list[Array] = []
        self.gradients: dict[str, Array] = {}
        for one in graph.layers:
            self._compute(one)

    def _compute(self, it: NetworkLayer) -> None:
        inputs, weights = self._graph.reads(it)
        read = [self.values[one.producer][one.first : one.end, : it.input_h, : it.input_w] for one in inputs]
        data = np.concatenate([self._image] * bool(it.external_c) + read)
        if it.part != "update":
            self.values.append(self._outputs(it, data))
            return
        (error,) = (self.values[one.producer][one.first : one.end] for one in weights)
        operands = {"Inputs": padded(it, data), "Outputs": error}
        self.gradients[it.name.removesuffix(".update")] = of_nest(it.nest(1), operands)

    def _outputs(self, it: NetworkLayer, data: Array) -> Array:
        if it.kind in ("eltwise", "ptp"):
            total: Array = data.reshape(it.operands, it.k, it.h, it.w).sum(axis=0)
            return total
        if it.kind == "pool":  # by sums
            return (
                spread(it, data) if it.scatters else gathered(it, data, np.ones((it.k, 1, it.r, it.s)), it.k)
            )
        weights = self._weights[it.name.removesuffix(".error")]
        if it.scatters:
            return placed(it, of_nest(it.nest(1), {"Weights": weights, "Outputs": data}))
        if it.part == "error":  # the filters turned around, inputs and outputs exchanged within groups
            grouped = weights.reshape(it.groups, it.group_c, it.group_k, it.r, it.s)[..., ::-1, ::-1]
            weights = grouped.swapaxes(1, 2).reshape(it.k, it.group_c, it.r, it.s)
        return gathered(it, data, weights, it.groups)


def padded(it: NetworkLayer, data: Array) -> Array:
    """With zeros before, and as many after as the windows of all outputs reach over."""
    rows, columns = (it.h - 1) * it.stride_h + it.r, (it.w - 1) * it.stride_w + it.s
    after = max(0, rows - it.pad_h - data.shape[1]), max(0, columns - it.pad_w - data.shape[2])
    return np.pad(data, ((0, 0), (it.pad_h, after[0]), (it.pad_w, after[1])))[:, :rows, :columns]


def gathered(it: NetworkLayer, data: Array, weights: Array, groups: int) -> Array:
    """Every output from its window; weights [K, C of a group, R, S]."""
    wide, found = padded(it, data), np.zeros((it.k, it.h, it.w))
    for k, row, column in np.ndindex(found.shape):
        first = k // (it.k // groups) * weights.shape[1]
        top, left = row * it.stride_h, column * it.stride_w
        window = wide[first : first + weights.shape[1], top : top + it.r, left : left + it.s]
        found[k, row, column] = (window * weights[k]).sum()
    return found


def placed(it: NetworkLayer, computed: Array) -> Array:
    """Windows, without what padding there was, where their strides say; zeros between them."""
    rows, columns = (it.input_h - 1) * it.stride_h + it.r, (it.input_w - 1) * it.stride_w + it.s
    wide = np.zeros((it.k, max(rows, it.pad_h + it.h), max(columns, it.pad_w + it.w)))
    for row, column in np.ndindex(it.input_h, it.input_w):
        top, left = row * it.stride_h, column * it.stride_w
        begin, start = row * min(it.stride_h, it.r), column * min(it.stride_w, it.s)
        window = computed[:, begin : begin + it.r, start : start + it.s]
        wide[:, top : top + it.r, left : left + it.s] = window
    return wide[:, it.pad_h : it.pad_h + it.h, it.pad_w : it.pad_w + it.w]


def spread(it: NetworkLayer, data: Array) -> Array:
    """Every input into its window of outputs."""
    found = np.zeros((it.k, it.h, it.w))
    for k, row, column in np.ndindex(data.shape):
        top, left = row * it.stride_h, column * it.stride_w
        found[k, top : top + it.r, left : left + it.s] += data[k, row, column]
    return found


def of_nest(nest: Layer, operands: dict[str, Array]) -> Array:
    """What a loop nest of one sample computes, MAC by MAC, in the layouts of this file."""
    given = {name: to_nest(nest, name, array) for name, array in operands.items()}
    result = np.zeros(nest.output.extents(nest.sizes))
    for numbers in np.ndindex(*(size for _, size in nest.dims)):
        at = dict(zip((dim for dim, _ in nest.dims), numbers, strict=True))
        places = {
            tensor.name: tuple(sum(step * at[dim] for dim, step in axis) for axis in tensor.terms)
            for tensor in nest.tensors
        }
        factors = [array[places[name]] for name, array in given.items()]
        result[places[nest.output.name]] += np.prod(factors)
    return from_nest(nest, result)


def to_nest(nest: Layer, name: str, array: Array) -> Array:
    """Nests have groups apart, K inside C in weights, a sample's axis, and columns before rows in outputs."""
    shape = nest.tensor(name).extents(nest.sizes)
    if name == "Weights" and "K" in nest.sizes:
        groups, c, k, r, s = (1, *shape) if len(shape) == 4 else shape
        array = array.reshape(groups, k, c, r, s).swapaxes(1, 2)
    return (array.swapaxes(-1, -2) if name == "Outputs" else array).reshape(shape)


def from_nest(nest: Layer, array: Array) -> Array:
    """Weights [K, C of a group, R, S]; else [channels, rows, columns]."""
    rows, columns = array.shape[-2:]
    if nest.output.name != "Weights":
        return array.reshape(-1, rows, columns)
    if "K" not in nest.sizes:
        return array[:, None]
    c, k = nest.sizes["C"], nest.sizes["K"]
    return array.reshape(-1, c, k, rows, columns).swapaxes(1, 2).reshape(-1, c, rows, columns)


def random_weights(graph: LayerGraph) -> dict[str, Array]:
    generator = np.random.default_rng(1)
    return {
        one.name: generator.integers(-2, 3, (one.k, one.group_c, one.r, one.s)).astype(float)
        for one in graph.layers
        if one.has_weights
    }


def test_every_gradient_of_a_network() -> None:
    graph = network()
    image, weights = np.random.default_rng(2).integers(-3, 4, (2, 4, 4)).astype(float), random_weights(graph)
    step = Step(training_graph(graph), image, weights)
    assert set(step.gradients) == set(weights)

    def loss() -> float:
        return float((Step(graph, image, weights).values[-1] ** 2).sum()) / 2

    generator = np.random.default_rng(3)
    for name, values in weights.items():
        for flat in generator.choice(values.size, min(values.size, 6), replace=False):
            place = np.unravel_index(flat, values.shape)
            before = values[place]
            losses = []
            for change in (1.0, -1.0):
                values[place] = before + change
                losses.append(loss())
            values[place] = before
            assert step.gradients[name][place] == (losses[0] - losses[1]) / 2, (name, place)


def test_the_error_of_the_image() -> None:
    graph = network()
    image, weights = np.random.default_rng(4).integers(-3, 4, (2, 4, 4)).astype(float), random_weights(graph)
    training = training_graph(graph, input_error=True)
    error = Step(training, image, weights).values[training.index["stem.error"]]
    for place in np.ndindex(image.shape):
        losses = []
        for change in (1.0, -1.0):
            changed = image.copy()
            changed[place] += change
            losses.append(float((Step(graph, changed, weights).values[-1] ** 2).sum()) / 2)
        assert error[place] == (losses[0] - losses[1]) / 2
