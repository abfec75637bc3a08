"""Another order of a layer graph's layers: each layer without weights directly after those that it reads."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer

if TYPE_CHECKING:
    import networkx as nx


def local_layers_next(graph: LayerGraph) -> LayerGraph:
    """The same network with each layer without weights next after the last layer whose outputs it reads.

    This is nn-dataflow's order: its vertices are a layer with weights and the local layers that follow it. A
    scheduler that cuts the order into segments can then have both in one segment. Layers with weights keep
    their order.
    """
    import networkx as nx

    reads = nx.DiGraph()
    reads.add_nodes_from(range(len(graph.layers)))
    for number, layer in enumerate(graph.layers):
        reads.add_edges_from((producer, number) for producer in (*layer.producers, *layer.weight_producers))
    order: dict[int, None] = {}  # an ordered set
    for number in reads:
        if number not in order:
            _append(order, number, graph, reads)
    positions = {number: position for position, number in enumerate(order)}
    return LayerGraph(graph.name, tuple(_moved(graph.layers[number], positions) for number in order))


def _append(order: dict[int, None], number: int, graph: LayerGraph, reads: nx.DiGraph) -> None:
    """Append a layer, then, depth first, consumers without weights whose producers are all in ``order``."""
    order[number] = None
    for consumer in reads.successors(number):
        ready = all(producer in order for producer in reads.predecessors(consumer))
        if ready and not graph.layers[consumer].has_weights and consumer not in order:
            _append(order, consumer, graph, reads)


def _moved(layer: NetworkLayer, positions: dict[int, int]) -> NetworkLayer:
    """The layer with its producers by their new positions."""
    producers, weights = (
        tuple(positions[number] for number in numbers)
        for numbers in (layer.producers, layer.weight_producers)
    )
    return replace(layer, producers=producers, weight_producers=weights)
