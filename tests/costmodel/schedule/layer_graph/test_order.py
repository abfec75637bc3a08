"""Layers without weights next after what they read: the same networks, in another order."""

from __future__ import annotations

import pytest

from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.order import local_layers_next


@pytest.mark.slow
@pytest.mark.parametrize("name", ["set-googlenet", "set-pnasnet", "googlenet", "bert_base"])
def test_only_layers_without_weights_move_and_only_forward(name: str) -> None:
    graph = load_layer_graph(name)
    ordered = local_layers_next(graph)
    assert _read(ordered) == _read(graph)
    assert sorted(layer.operations for layer in ordered.layers) == sorted(
        layer.operations for layer in graph.layers
    )
    assert _with_weights(ordered) == _with_weights(graph)
    for place, layer in enumerate(ordered.layers):
        if not layer.has_weights:
            last = max((*layer.producers, *layer.weight_producers), default=place - 1)
            assert not any(one.has_weights for one in ordered.layers[last + 1 : place])


def _read(graph: LayerGraph) -> dict[str, list[str]]:
    """What every layer reads, in the order of channels, then its weights."""
    return {
        layer.name: [graph.layers[one].name for one in (*layer.producers, *layer.weight_producers)]
        for layer in graph.layers
    }


def _with_weights(graph: LayerGraph) -> list[str]:
    return [layer.name for layer in graph.layers if layer.has_weights]


def test_alexnet_pools_follow_their_halves() -> None:
    names = [layer.name for layer in load_layer_graph("kapla-alexnet").layers]
    assert names[:8] == [
        "conv1_a",
        "pool1_a",
        "conv1_b",
        "pool1_b",
        "conv2_a",
        "pool2_a",
        "conv2_b",
        "pool2_b",
    ]
