"""Training graphs: gradients checked by number, and the hand-written graphs of KAPLA layer by layer."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.errors import InputError
from costmodel.formats.json.nn_dataflow_networks import FILE, graph_of, load_network, network_names
from costmodel.formats.json.safe_json import load_json
from costmodel.formats.layer_graphs import layer_graph_names, load_layer_graph
from costmodel.formats.networks import load_layer
from costmodel.formats.networks import load_network as load_library_network
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer, Read
from costmodel.schedule.layer_graph.layer import Part
from costmodel.schedule.layer_graph.reading.reader import layer_graph
from costmodel.schedule.layer_graph.training import training_graph
from costmodel.workload.network import Layer, Tensor

CONTENT: dict[str, Any] = load_json(FILE)
TRAINED = [name.removesuffix("_bp") for name in CONTENT if name.endswith("_bp")]
HALVED = ("lstm_gnmt",)
"""Graphs in which KAPLA gives a product of two concatenated vectors the backward layers of one of them."""


# --- the networks as data


@pytest.mark.slow
@pytest.mark.parametrize("name", network_names())
def test_networks_have_the_operations_that_the_tools_count(name: str) -> None:
    graph, told = load_network(name), CONTENT[name]
    found = {layer.name: layer.operations for layer in graph.layers}
    assert found == {item["name"]: item["macs_batch1"] for item in told["layers"]}
    filters = {item["name"]: item["filter_words"] for item in told["layers"] if "filter_words" in item}
    for layer in graph.layers:
        if layer.has_weights:
            nest = layer.nest(1)
            assert nest.tensor("Weights").words(nest.sizes) == filters[layer.name]
            assert nest.macs == layer.operations


def test_padding_is_what_exceeds_the_producers() -> None:
    layers = load_network("resnet50").layers
    assert (layers[0].input_h, layers[0].pad_h) == (224, 3)
    assert {(one.r, one.pad_h) for one in layers if one.kind == "conv" and one.r == 3} == {(3, 1)}
    with pytest.raises(InputError, match=r"fc3_back: kind: expected one of ConvLayer"):
        graph_of("alex_net_bp", CONTENT["alex_net_bp"])
    with pytest.raises(InputError, match="Did you mean vgg_net"):
        load_network("vggnet")


# --- gradients by number


def index(tensor: Tensor, point: dict[str, int]) -> tuple[int, ...]:
    return tuple(sum(c * point[dim] for dim, c in axis) for axis in tensor.terms)


def run(nest: Layer, operands: dict[str, np.ndarray[Any, Any]]) -> np.ndarray[Any, Any]:
    """The nest's result, one MAC after the other."""
    result = np.zeros(nest.output.extents(nest.sizes))
    first, second = (tensor for tensor in nest.tensors if not tensor.is_output)
    for point in product(*(range(size) for _, size in nest.dims)):
        at = dict(zip((dim for dim, _ in nest.dims), point, strict=True))
        result[index(nest.output, at)] += (
            operands[first.name][index(first, at)] * operands[second.name][index(second, at)]
        )
    return result


def small(kind: str, c: int, k: int, stride: int, groups: int = 1) -> NetworkLayer:
    reach = 2 * stride + 3
    return NetworkLayer("l", kind, c, k, 3, 2, 3, 2, stride, 1, 0, 0, reach, 3, groups=groups, external_c=c)


@pytest.mark.slow
@pytest.mark.parametrize(
    "layer",
    [
        small("conv", 2, 3, 1),
        small("conv", 3, 2, 2),
        small("groupconv", 4, 4, 2, 4),
        small("groupconv", 4, 6, 1, 2),
    ],
)
def test_nests_compute_the_gradients(layer: NetworkLayer) -> None:
    """Outputs are linear in inputs and in weights: the gradient is the change for a unit of each."""
    generator, nest = np.random.default_rng(0), layer.nest(1)
    values = {t.name: generator.integers(-5, 5, t.extents(nest.sizes)).astype(float) for t in nest.tensors}
    errors = values.pop("Outputs")
    graph = training_graph(LayerGraph("one", (layer,)), input_error=True)
    for part, of, other in (("error", "Inputs", "Weights"), ("update", "Weights", "Inputs")):
        (backward,) = (one for one in graph.layers if one.part == part)
        found = run(backward.nest(1), {"Outputs": errors, other: values[other]})
        for place in np.ndindex(found.shape):
            unit = np.zeros(found.shape)
            unit[place] = 1
            assert found[place] == (run(nest, values | {of: unit}) * errors).sum()


# --- KAPLA's hand-written graphs

Key = tuple[str, int, int, int, int, int, int]


def theirs(name: str) -> dict[Key, list[dict[str, Any]]]:
    """Backward layers with weights by part, channels of errors out and in, filter, stride, error rows."""
    found: dict[Key, list[dict[str, Any]]] = {}
    forward = {item["name"] for item in CONTENT[name]["layers"]}
    for item in CONTENT[f"{name}_bp"]["layers"]:
        if item["name"] in forward or "Back" not in item["kind"] or "hfil" not in item:
            continue
        part = "error" if "Act" in item["kind"] else "update"
        channels = item["N_out_fmaps"], item["N_in_fmaps"]
        found.setdefault((part, *channels, item["hfil"], item["wfil"], item["htrd"], item["ho"]), []).append(
            item
        )
    return found


def ours(training: LayerGraph, layer: NetworkLayer) -> Key:
    """By the forward layer's channels: an error's are exchanged, and an update has its forward layer's."""
    filters = layer.r, layer.s, layer.stride_h
    if layer.part == "error":
        return layer.part, layer.k, layer.c, *filters, layer.h
    rows = training.layers[layer.producers[0]].h if layer.producers else layer.input_h
    return layer.part, layer.c, layer.k, *filters, rows


def backward_products(graph: LayerGraph) -> dict[str, tuple[NetworkLayer, Key]]:
    """Layers of its training step by name, with their keys."""
    training = training_graph(graph, input_error=True)
    backward = [layer for layer in training.layers if layer.has_weights and layer.part != "forward"]
    return {layer.name: (layer, ours(training, layer)) for layer in backward}


@pytest.mark.parametrize("name", [name for name in TRAINED if name not in ("alex_net", *HALVED)])
def test_layers_are_those_written_by_hand(name: str) -> None:
    """All of them but the projections of ResNet-50's four residual branches, which KAPLA forgets."""
    graph, told = load_network(name), theirs(name)
    derived = Counter(key for _, key in backward_products(graph).values())
    written = Counter({key: len(items) for key, items in told.items()})
    assert written - derived == Counter()
    missing = derived - written
    assert missing.total() == (8 if name == "resnet50" else 0)


def test_a_layer_of_two_producers_is_written_as_two() -> None:
    """AlexNet's fc1 reads both halves: one layer of 256 channels here, two of 128 there."""
    graph, told = load_network("alex_net"), theirs("alex_net")
    derived = Counter(key for _, key in backward_products(graph).values())
    written = Counter({key: len(items) for key, items in told.items()})
    assert written - derived == {(part, 128, 4096, 6, 6, 1, 6): 2 for part in ("error", "update")}
    assert derived - written == {(part, 256, 4096, 6, 6, 1, 6): 1 for part in ("error", "update")}


@pytest.mark.parametrize("name", TRAINED)
def test_macs_are_theirs_where_they_do_not_approximate(name: str) -> None:
    """Theirs are those of an error map that is computed back from the input without its padding.

    Without padding, and with a stride that divides, that is the forward layer's output and MACs are equal.
    """
    graph, told = load_network(name), theirs(name)
    compared = 0
    for layer, key in backward_products(graph).values():
        forward = graph.layers[graph.index[layer.name.rpartition(".")[0]]]
        for item in told.get(key, []):
            rows = (key[-1] - forward.r) // forward.stride_h + 1
            columns = (key[-1] - forward.s) // forward.stride_w + 1
            exact = layer.operations // (forward.h * forward.w)
            assert item["macs_batch1"] == exact * rows * columns
            if (rows, columns) == (forward.h, forward.w):
                assert item["macs_batch1"] == layer.operations
                compared += 1
    assert compared or name in HALVED


def test_halved_products_are_halved() -> None:
    for name in HALVED:
        told = [item for items in theirs(name).values() for item in items]
        derived = backward_products(load_network(name))
        assert sum(layer.operations for layer, _ in derived.values()) == 2 * sum(
            item["macs_batch1"] for item in told
        )


# --- derivation


def conv(name: str, *producers: int, external: int = 0) -> NetworkLayer:
    return NetworkLayer(
        name, "conv", 4, 4, 5, 5, 1, 1, 1, 1, 0, 0, 5, 5, external_c=external, producers=producers
    )


def macs(graph: LayerGraph) -> int:
    return sum(layer.operations for layer in graph.layers if layer.has_weights)


def read(graph: LayerGraph, *parts: Part) -> dict[str, tuple[str, ...]]:
    """Of every layer of these parts the layers that it reads."""
    return {
        layer.name: tuple(graph.layers[i].name for i in (*layer.producers, *layer.weight_producers))
        for layer in graph.layers
        if layer.part in parts
    }


def test_errors_of_branches_are_summed() -> None:
    joined = NetworkLayer("join", "eltwise", 8, 4, 5, 5, 1, 1, 1, 1, 0, 0, 5, 5, operands=2, producers=(0, 1))
    graph = LayerGraph("residual", (conv("a", external=4), conv("b", 0), joined, conv("c", 2)))
    training = training_graph(graph)
    assert training.layers[:4] == graph.layers
    assert read(training, "error") == {
        "c.error": ("c",),
        "join.error.a": ("c.error",),
        "join.error.b": ("c.error",),
        "b.error": ("join.error.b",),
        "a.error_sum": ("join.error.a", "b.error"),
    }
    assert read(training, "update") == {
        "c.update": ("join", "c"),
        "b.update": ("a", "join.error.b"),
        "a.update": ("a.error_sum",),
    }
    assert training.layers[-1].external_c == 4
    assert "a.error" in read(training_graph(graph, input_error=True), "error")
    assert macs(training) == 3 * 3 * 400 - 400


def test_errors_are_before_updates_which_run_alone() -> None:
    """So that a pipeline of errors is possible: nothing between them has to be alone on the chip."""
    training = training_graph(layer_graph(load_library_network("resnet18")))
    order = [layer.part for layer in training.layers]
    assert order == sorted(order, key=("forward", "error", "update").index)
    assert all(
        layer.needs_whole_chip == (layer.part == "update" or layer.scatters) for layer in training.layers
    )
    scattering = {layer.name for layer in training.layers if layer.scatters}
    strided = {f"layer{i}.0.{of}.error" for i in (2, 3, 4) for of in ("conv1", "downsample")}
    assert scattering == {"maxpool.error", "avgpool.error", *strided}


@pytest.mark.parametrize("name", ["resnet50", "alexnet", "googlenet"])
def test_training_the_librarys_networks(name: str) -> None:
    """Three times the forward MACs, but for the errors of layers that read the network's input."""
    network = load_library_network(name)
    graph = layer_graph(network)
    first = sum(one.operations for one in graph.layers if one.has_weights and not one.producers)
    training = load_layer_graph(f"{name}.training")
    assert training == training_graph(graph)
    assert macs(training) == 3 * network.macs - first
    assert all(one.nest(2).macs == 2 * one.operations for one in training.layers if one.has_weights)


@pytest.mark.parametrize("name", [name for name in layer_graph_names() if name.startswith("kapla-")])
def test_training_kaplas_networks(name: str) -> None:
    """Saved activations, errors and the gradients: what every training step moves, by closed forms."""
    graph, training = load_layer_graph(name), load_layer_graph(f"{name}.training")
    first = sum(one.operations for one in graph.layers if one.has_weights and not one.producers)
    assert macs(training) == 3 * macs(graph) - first
    gradients = [one.compulsory_elements(8).outputs for one in training.layers if one.part == "update"]
    assert sum(gradients) == sum(one.compulsory_elements(1).weights for one in graph.layers)
    assert graph_from_json_of(training) == training


def graph_from_json_of(graph: LayerGraph) -> LayerGraph:
    layers = json.loads(json.dumps([layer.to_json() for layer in graph.layers]))
    return LayerGraph(graph.name, tuple(map(NetworkLayer.from_json, layers)))


def test_layers_of_inferences_have_the_data_that_they_had() -> None:
    """Stored answers of schedules are found by it."""
    assert not {"part", "channels"} & conv("a", external=4).to_json().keys()


def test_training_by_name() -> None:
    """``NETWORK.training`` wherever a network's name may stand, and its layers after it."""
    forward, training = load_library_network("resnet18", 4), load_library_network("resnet18.training", 4)
    assert training.name == "resnet18.training"
    assert len(training.layers) == 3 * len(forward.layers) - 1
    assert training.macs == 3 * forward.macs - forward.layers[0].macs
    update = load_layer("resnet18.training/layer1.0.conv1.update")
    assert update.output.name == "Weights"
    assert update.macs == load_layer("resnet18/layer1.0.conv1").macs


def test_training_of_a_file(tmp_path: Path) -> None:
    path = tmp_path / "net.json"
    sizes = {"K": 8, "H": 4, "W": 4, "R": 1, "S": 1, "sH": 1, "sW": 1, "pad_h": 0, "pad_w": 0}
    layer = {"name": "a", "type": "conv", "ifmap_real": [3, 4, 4], "external_C": 3, **sizes}
    path.write_text(json.dumps({"name": "net", "layers": [layer]}))
    assert [one.name for one in load_layer_graph(f"{path}.training").layers] == ["a", "a.update"]
    assert load_layer(f"{path}.training/a.update").macs == 8 * 3 * 16


def test_networks_of_kapla_by_name() -> None:
    graph = load_layer_graph("kapla-mobilenet")
    assert graph == load_network("mobilenet")
    forward, training = (
        load_library_network("kapla-mobilenet", 2),
        load_library_network("kapla-mobilenet.training"),
    )
    assert forward.macs == 2 * macs(graph)
    assert training.macs == macs(training_graph(graph))
    with pytest.raises(InputError, match="Did you mean kapla-mobilenet"):
        load_layer_graph("kapla-mobilnet.training")
    with pytest.raises(InputError, match="network nothing"):
        load_library_network("nothing")


def test_what_cannot_be_trained_is_refused() -> None:
    graph = layer_graph(load_library_network("bert_base"))
    with pytest.raises(InputError, match="weights that are parameters"):
        training_graph(graph)
    with pytest.raises(InputError, match=r"forward layers.*found error"):
        load_layer_graph("kapla-mlp.training.training")
    wide = NetworkLayer("wide", "eltwise", 8, 2, 5, 5, 1, 1, 1, 1, 0, 0, 5, 5, operands=4, producers=(0, 1))
    with pytest.raises(InputError, match="producers of at most 2 channels"):
        training_graph(LayerGraph("wide", (conv("a", external=4), conv("b", 0), wide)))


def test_layers_without_products_have_no_nest() -> None:
    training = training_graph(load_network("alex_net"))
    pool = next(layer for layer in training.layers if layer.kind == "pool" and layer.part == "error")
    with pytest.raises(InputError, match="a layer with weights"):
        pool.nest(1)


def test_channels_that_are_read_are_checked() -> None:
    def reading(*channels: tuple[int, int], producers: tuple[int, ...] = (0,), **changes: Any) -> LayerGraph:
        reader = replace(conv("b", *producers), channels=channels, **changes)
        return LayerGraph("parts", (conv("a", external=4), reader))

    inputs, weights = reading((1, 3), c=2).reads(reading((1, 3), c=2).layers[1])
    assert (inputs, weights) == ([Read(0, 1, 3)], [])
    for wrong in (((0, 5),), ((2, 2),), ((0, 4), (0, 4))):
        with pytest.raises(InputError, match="channels of producers"):
            reading(*wrong)
    with pytest.raises(InputError, match="whole producers or of one"):
        reading((0, 2), (2, 4), producers=(0, 0))
    with pytest.raises(InputError, match="part: expected one of"):
        replace(conv("a", external=4), part="backward")  # type: ignore[arg-type]
