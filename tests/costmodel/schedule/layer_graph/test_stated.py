"""A layer graph as a network, and back: one network, whichever way it is looked at."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.layer_graphs import layer_graph_names, load_layer_graph
from costmodel.formats.networks import load_network
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.reading.reader import layer_graph
from costmodel.schedule.layer_graph.stated import network_of
from costmodel.scratchpad.graph import ScratchpadSettings, operator_graph

PUBLISHED = [name for name in layer_graph_names() if name.startswith(("set-", "kapla-"))]
TRAINED = ["kapla-resnet50.training", "set-alexnet.training", "resnet18.training", "mobilenet_v2.training"]


@pytest.mark.slow
@pytest.mark.parametrize("name", [*PUBLISHED, *TRAINED])
def test_the_layer_graph_of_a_network_is_the_one_that_it_was_made_of(name: str) -> None:
    graph = load_layer_graph(name)
    network = load_network(name)
    assert layer_graph(network) == graph
    assert [node.name for node in network.nodes] == [layer.name for layer in graph.layers]


@pytest.mark.parametrize("name", ["set-bert", "kapla-googlenet", "kapla-resnet50.training"])
def test_its_layers_are_the_nests_of_the_layers_with_weights(name: str) -> None:
    graph, network = load_layer_graph(name), load_network(name, 3)
    assert list(network.layers) == [layer.nest(3) for layer in graph.layers if layer.has_weights]
    assert network.macs == 3 * sum(layer.operations for layer in graph.layers if layer.has_weights)


@pytest.mark.parametrize("name", ["set-bert", "set-lstm", "kapla-googlenet", "kapla-resnet50.training"])
def test_operators_of_a_scratchpad_hold_what_layers_read_and_make(name: str) -> None:
    """Bytes of each operator, counted from the layers: its inputs, producers whole, weights and outputs."""
    graph = load_layer_graph(name)
    operators = operator_graph(load_network(name), ScratchpadSettings(parameters=True))
    made = [_outputs(graph, number) for number in range(len(graph.layers))]
    for number, (layer, operator) in enumerate(zip(graph.layers, operators.operators, strict=True)):
        reads = {*layer.producers, *layer.weight_producers}
        inputs = layer.external_c * layer.input_h * layer.input_w + sum(made[read] for read in reads)
        weights = 0 if layer.weight_producers or not layer.has_weights else _weights(graph, number)
        assert operators.working_bytes(operator) == inputs + weights + made[number], layer.name


def _outputs(graph: LayerGraph, number: int) -> int:
    layer = graph.layers[number]
    return _weights(graph, number) if layer.part == "update" else layer.k * layer.h * layer.w


def _weights(graph: LayerGraph, number: int) -> int:
    layer = graph.layers[number]
    return prod((layer.k, layer.c, layer.r, layer.s)) // layer.groups


def test_a_list_of_layers_in_a_file_is_a_network(tmp_path: Path) -> None:
    plain = {"K": 4, "pad_h": 1, "pad_w": 1}
    conv = {"type": "conv", "H": 6, "W": 6, "R": 3, "S": 3, "sH": 1, "sW": 1, "ifmap_real": [2, 6, 6]}
    pool = {"type": "pool", "H": 3, "W": 4, "R": 3, "S": 2, "sH": 2, "sW": 2, "ifmap_real": [4, 6, 6]}
    reads: tuple[dict[str, Any], ...] = {"external_C": 2}, {"external_C": 0, "ifm_prevs": [0]}
    layers = [{"name": n, **plain, **one, **of} for n, one, of in zip("ab", (conv, pool), reads, strict=True)]
    file = tmp_path / "two.json"
    file.write_text(json.dumps({"name": "two", "layers": layers}), encoding="utf-8")
    network = load_network(file, 5)
    assert [node.inputs for node in network.nodes] == [("a.input", "a.weights"), ("a",)]
    assert {value.name: value.shape for value in network.values} == {
        "a.input": (5, 2, 6, 6),
        "a.weights": (4, 2, 3, 3),
        "a": (5, 4, 6, 6),
        "b": (5, 4, 3, 4),
    }
    assert network.value("b").kind == "output"
    assert layer_graph(load_network(file)) == load_layer_graph(file)


def test_a_schedule_is_for_one_sample() -> None:
    graph = load_layer_graph("kapla-mlp-s")
    assert layer_graph(network_of(graph)) == graph
    with pytest.raises(InputError, match="a graph for one sample"):
        layer_graph(network_of(graph, 2))
