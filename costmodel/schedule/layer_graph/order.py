"""Another order of a layer graph's layers: each layer without weights directly after those that it reads."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer


def local_layers_next(graph: LayerGraph) -> LayerGraph:
    """The same network with each layer without weights next after the last layer whose outputs it reads.

    This is nn-dataflow's order: its vertices are a layer with weights and the local layers that follow it. A
    scheduler that cuts the order into segments can then have both in one segment. Layers with weights keep
    their order.
    """
    reads = [tuple(dict.fromkeys((*layer.producers, *layer.weight_producers))) for layer in graph.layers]
    readers: list[list[int]] = [[] for _ in reads]
    for number, producers in enumerate(reads):
        for producer in producers:
            readers[producer].append(number)
    order: dict[int, None] = {}  # an ordered set
    for number in range(len(reads)):
        if number not in order:
            _append(order, number, graph, reads, readers)
    positions = {number: position for position, number in enumerate(order)}
    return LayerGraph(graph.name, tuple(_moved(graph.layers[number], positions) for number in order))


def _append(
    order: dict[int, None],
    number: int,
    graph: LayerGraph,
    reads: Sequence[Sequence[int]],
    readers: Sequence[Sequence[int]],
) -> None:
    """Append a layer, then, depth first, consumers without weights whose producers are all in ``order``.

    ``reads``: the producers of each layer; ``readers``: its consumers.
    """
    order[number] = None
    for consumer in readers[number]:
        ready = all(producer in order for producer in reads[consumer])
        if ready and not graph.layers[consumer].has_weights and consumer not in order:
            _append(order, consumer, graph, reads, readers)


def _moved(layer: NetworkLayer, positions: dict[int, int]) -> NetworkLayer:
    """The layer with its producers by their new positions."""
    producers, weights = (
        tuple(positions[number] for number in numbers)
        for numbers in (layer.producers, layer.weight_producers)
    )
    return replace(layer, producers=producers, weight_producers=weights)
