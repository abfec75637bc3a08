"""The order of a layer graph's layers: those without weights directly after what they read."""

from __future__ import annotations

from dataclasses import replace

from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer


def local_layers_next(graph: LayerGraph) -> LayerGraph:
    """The same network with each layer without weights next after the last layer whose outputs it reads.

    So nn-dataflow orders them, whose vertices are a layer with weights and the local layers that follow it:
    schedulers that cut the order into segments can have both in one. All else stays in its order.
    """
    order: list[int] = []
    for number in range(len(graph.layers)):
        if number not in order:
            _append(order, number, graph)
    positions = {number: position for position, number in enumerate(order)}
    return LayerGraph(graph.name, tuple(_moved(graph.layers[number], positions) for number in order))


def _append(order: list[int], number: int, graph: LayerGraph) -> None:
    """A layer, and what can follow it without weights of its own."""
    order.append(number)
    for consumer, layer in enumerate(graph.layers):
        read = {*layer.producers, *layer.weight_producers}
        if number in read and not layer.has_weights and consumer not in order and read <= set(order):
            _append(order, consumer, graph)


def _moved(layer: NetworkLayer, positions: dict[int, int]) -> NetworkLayer:
    producers, weights = (
        tuple(positions[number] for number in numbers)
        for numbers in (layer.producers, layer.weight_producers)
    )
    return replace(layer, producers=producers, weight_producers=weights)
