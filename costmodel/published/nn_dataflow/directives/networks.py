"""The whole tensors of a network's layers, which bound the directives of their innermost levels."""

from __future__ import annotations

from costmodel.published.nn_dataflow.directives.values import Amounts, LevelScheme, TensorTile
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer


def memory_level(graph: LayerGraph, index: int, batch: int, name: str = "DRAM") -> LevelScheme:
    """The level that holds a layer's whole tensors; a tensor is called by the layer that computes it.

    ``input`` is the network's, weights are called ``w.`` and the layer. Convolutions and fully connected
    layers have dims N, C, K; in depthwise ones, pooling and element-wise layers C is that of the outputs, too
    (section III-B); grouped convolutions have G groups. An element-wise layer reads a tensor an operand, a
    product of activations takes those that are its weights from their producers. Inputs hold their padding.
    In training steps an update computes the tensor of the weights, and an error that scatters that of the
    inputs.
    """
    layer = graph.layers[index]
    inputs, outputs, weights = _inputs(layer, batch), _outputs(layer, batch), _weights(layer)
    computed = outputs
    if layer.part == "update":
        weights, computed = outputs, weights
    if layer.scatters:
        inputs, computed = outputs, inputs
    tiles = [TensorTile(operand, inputs) for operand in _operands(graph, layer)]
    if layer.has_weights:
        tiles.append(TensorTile(_weights_name(graph, layer), weights))
    return LevelScheme(name, (*tiles, TensorTile(layer.name, computed, output=True)))


def _inputs(layer: NetworkLayer, batch: int) -> Amounts:
    """The tensor that windows slide over, of one operand: of an error that scatters what it computes."""
    h, w = _windows(layer)
    stride_h, stride_w = layer.stride_h, layer.stride_w
    if layer.scatters:  # what no window reaches is not computed
        stride_h, stride_w = min(stride_h, layer.r), min(stride_w, layer.s)
    rows = (("Xi", (w - 1) * stride_w + layer.s), ("Yi", (h - 1) * stride_h + layer.r))
    return (("N", batch), *_channels(layer, "C"), *rows)


def _outputs(layer: NetworkLayer, batch: int) -> Amounts:
    """The tensor with an element a window."""
    h, w = _windows(layer)
    return (("N", batch), *_channels(layer, "K"), ("Xo", w), ("Yo", h))


def _weights(layer: NetworkLayer) -> Amounts:
    channels = dict((*_channels(layer, "C"), *_channels(layer, "K")))
    return (*channels.items(), ("R", layer.s), ("S", layer.r))


def _windows(layer: NetworkLayer) -> tuple[int, int]:
    return (layer.input_h, layer.input_w) if layer.scatters else (layer.h, layer.w)


def _operands(graph: LayerGraph, layer: NetworkLayer) -> list[str]:
    """What an element-wise layer reads one by one; others read all producers' channels as one tensor."""
    producers = ["input"] * bool(layer.external_c) + [graph.layers[i].name for i in layer.producers]
    return producers if layer.kind == "eltwise" else ["+".join(producers)]


def _weights_name(graph: LayerGraph, layer: NetworkLayer) -> str:
    return "+".join(graph.layers[i].name for i in layer.weight_producers) or f"w.{layer.name}"


def _channels(layer: NetworkLayer, dim: str) -> Amounts:
    """Channel dims of inputs (C) or outputs (K); one for both where a channel reads that of its number."""
    if not layer.has_weights or layer.groups == layer.c == layer.k > 1:
        return (("C", layer.k),)
    groups = (("G", layer.groups),) if layer.groups > 1 else ()
    of_inputs = (dim == "C") != layer.scatters
    return (*groups, (dim, layer.group_c if of_inputs else layer.group_k))
