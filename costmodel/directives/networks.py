"""The whole tensors of a network's layers, which bound the directives of their innermost levels."""

from __future__ import annotations

from costmodel.chip.layers import LayerGraph, NetworkLayer
from costmodel.directives.values import Amounts, LevelScheme, TensorTile


def memory_level(graph: LayerGraph, index: int, batch: int, name: str = "DRAM") -> LevelScheme:
    """The level that holds a layer's whole tensors; a tensor is called by the layer that computes it.

    ``input`` is the network's, weights are called ``w.`` and the layer. Convolutions and fully connected
    layers have dims N, C, K; in depthwise ones, pooling and element-wise layers C is that of the outputs, too
    (section III-B); grouped convolutions have G groups. An element-wise layer reads a tensor an operand, a
    product of activations takes those that are its weights from their producers. Inputs hold their padding.
    """
    layer = graph.layers[index]
    rows = (
        ("Xi", (layer.w - 1) * layer.stride_w + layer.s),
        ("Yi", (layer.h - 1) * layer.stride_h + layer.r),
    )
    inputs = (("N", batch), *_channels(layer, "C"), *rows)
    outputs = (("N", batch), *_channels(layer, "K"), ("Xo", layer.w), ("Yo", layer.h))
    tiles = [TensorTile(operand, inputs) for operand in _operands(graph, layer)]
    if layer.has_weights:
        channels = dict((*_channels(layer, "C"), *_channels(layer, "K")))
        tiles.append(TensorTile(_weights(graph, layer), (*channels.items(), ("R", layer.s), ("S", layer.r))))
    return LevelScheme(name, (*tiles, TensorTile(layer.name, outputs, output=True)))


def _operands(graph: LayerGraph, layer: NetworkLayer) -> list[str]:
    """What an element-wise layer reads one by one; others read all producers' channels as one tensor."""
    producers = ["input"] * bool(layer.external_c) + [graph.layers[i].name for i in layer.producers]
    return producers if layer.kind == "eltwise" else ["+".join(producers)]


def _weights(graph: LayerGraph, layer: NetworkLayer) -> str:
    return "+".join(graph.layers[i].name for i in layer.weight_producers) or f"w.{layer.name}"


def _channels(layer: NetworkLayer, dim: str) -> Amounts:
    """Channel dims of inputs (C) or outputs (K); one for both where a channel reads that of its number."""
    if not layer.has_weights or layer.groups == layer.c == layer.k > 1:
        return (("C", layer.k),)
    groups = (("G", layer.groups),) if layer.groups > 1 else ()
    return (*groups, (dim, layer.group_c if dim == "C" else layer.group_k))
