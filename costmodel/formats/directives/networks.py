"""The whole tensors of a network's layers, as the outermost level of their directives."""

from __future__ import annotations

from costmodel.formats.directives.values import Amounts, LevelScheme, TensorTile
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer


def memory_level(graph: LayerGraph, index: int, batch: int, name: str = "DRAM") -> LevelScheme:
    """The level that holds a layer's whole tensors.

    Names: a tensor has the name of the layer that computes it; the network's input is ``input``, and weights
    are ``w.`` and the layer's name. Weights that are activations have their producers' names. An element-wise
    layer reads one tensor for each operand.

    Dims: convolutions and fully connected layers have N, C and K. In depthwise, pooling and element-wise
    layers outputs have the dim C of the inputs (section III-B). Grouped convolutions also have G, their
    groups. Inputs include their padding.

    In training steps roles are exchanged: an update computes the tensor with the shape of the weights, and an
    error that scatters the one with the shape of the inputs.
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
    """The sizes of the tensor that windows slide over, for one operand.

    An error that scatters computes this tensor instead of reading it.
    """
    h, w = _windows(layer)
    stride_h, stride_w = layer.stride_h, layer.stride_w
    if layer.scatters:  # where strides exceed windows, elements between windows are not computed
        stride_h, stride_w = min(stride_h, layer.r), min(stride_w, layer.s)
    rows = (("Xi", (w - 1) * stride_w + layer.s), ("Yi", (h - 1) * stride_h + layer.r))
    return (("N", batch), *_channels(layer, "C"), *rows)


def _outputs(layer: NetworkLayer, batch: int) -> Amounts:
    """The sizes of the tensor that has one element for each window."""
    h, w = _windows(layer)
    return (("N", batch), *_channels(layer, "K"), ("Xo", w), ("Yo", h))


def _weights(layer: NetworkLayer) -> Amounts:
    channels = dict((*_channels(layer, "C"), *_channels(layer, "K")))
    return (*channels.items(), ("R", layer.s), ("S", layer.r))


def _windows(layer: NetworkLayer) -> tuple[int, int]:
    return (layer.input_h, layer.input_w) if layer.scatters else (layer.h, layer.w)


def _operands(graph: LayerGraph, layer: NetworkLayer) -> list[str]:
    """The names of the tensors that a layer reads.

    An element-wise layer reads each producer's tensor by itself; others read all producers' channels as one
    tensor, whose name joins theirs with ``+``.
    """
    producers = ["input"] * bool(layer.external_c) + [graph.layers[i].name for i in layer.producers]
    return producers if layer.kind == "eltwise" else ["+".join(producers)]


def _weights_name(graph: LayerGraph, layer: NetworkLayer) -> str:
    return "+".join(graph.layers[i].name for i in layer.weight_producers) or f"w.{layer.name}"


def _channels(layer: NetworkLayer, dim: str) -> Amounts:
    """The channel dims of inputs (``dim`` C) or outputs (K).

    Both have the same dim C where every output channel reads just the input channel of its number.
    """
    if not layer.has_weights or layer.groups == layer.c == layer.k > 1:
        return (("C", layer.k),)
    groups = (("G", layer.groups),) if layer.groups > 1 else ()
    of_inputs = (dim == "C") != layer.scatters
    return (*groups, (dim, layer.group_c if of_inputs else layer.group_k))
