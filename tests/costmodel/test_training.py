"""Training graphs: gradients checked by number, and the hand-written graphs of KAPLA layer by layer."""

from __future__ import annotations

from collections import Counter
from itertools import product
from typing import Any

import numpy as np
import pytest

from costmodel.chip.layers import LayerGraph, NetworkLayer
from costmodel.conventions.nn_dataflow.networks import FILE, graph_of, load_network, network_names
from costmodel.errors import InputError
from costmodel.frontends.layer_graph import layer_graph
from costmodel.frontends.safe_json import load_json
from costmodel.networks import load_layer
from costmodel.networks import load_network as load_library_network
from costmodel.networks.layer_graphs import load_layer_graph
from costmodel.networks.training import TrainingGraph, TrainingLayer, forward_nest, training_graph
from costmodel.workload import Layer, Tensor

CONTENT: dict[str, Any] = load_json(FILE)
TRAINED = [name.removesuffix("_bp") for name in CONTENT if name.endswith("_bp")]
HALVED = ("lstm_gnmt",)
"""Graphs in which KAPLA gives a product of two concatenated vectors the backward layers of one of them."""


# --- the networks as data


@pytest.mark.parametrize("name", network_names())
def test_networks_have_the_operations_that_the_tools_count(name: str) -> None:
    graph, told = load_network(name), CONTENT[name]
    found = {layer.name: layer.operations for layer in graph.layers}
    assert found == {item["name"]: item["macs_batch1"] for item in told["layers"]}
    filters = {item["name"]: item["filter_words"] for item in told["layers"] if "filter_words" in item}
    for layer in graph.layers:
        if layer.has_weights:
            nest = forward_nest(layer, 1)
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
    return tuple(sum(c * point[dim] for dim, c in axis) for axis in tensor.axes)


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
    generator, nest = np.random.default_rng(0), forward_nest(layer, 1)
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


def ours(graph: LayerGraph, layer: TrainingLayer) -> Key:
    forward = layer.forward
    rows = graph.layers[forward.producers[0]].h if forward.producers else forward.input_h
    return layer.part, forward.c, forward.k, forward.r, forward.s, forward.stride_h, rows


def backward_products(graph: LayerGraph) -> list[TrainingLayer]:
    training = training_graph(graph, input_error=True)
    return [layer for layer in training.layers if layer.has_products and layer.part != "forward"]


@pytest.mark.parametrize("name", [name for name in TRAINED if name not in ("alex_net", *HALVED)])
def test_layers_are_those_written_by_hand(name: str) -> None:
    """All of them but the projections of ResNet-50's four residual branches, which KAPLA forgets."""
    graph, told = load_network(name), theirs(name)
    derived = Counter(ours(graph, layer) for layer in backward_products(graph))
    written = Counter({key: len(items) for key, items in told.items()})
    assert written - derived == Counter()
    missing = derived - written
    assert missing.total() == (8 if name == "resnet50" else 0)


def test_a_layer_of_two_producers_is_written_as_two() -> None:
    """AlexNet's fc1 reads both halves: one layer of 256 channels here, two of 128 there."""
    graph, told = load_network("alex_net"), theirs("alex_net")
    derived = Counter(ours(graph, layer) for layer in backward_products(graph))
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
    for layer in backward_products(graph):
        forward, key = layer.forward, ours(graph, layer)
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
        assert sum(layer.operations for layer in derived) == 2 * sum(item["macs_batch1"] for item in told)


# --- derivation


def parts(graph: TrainingGraph) -> dict[str, tuple[str, ...]]:
    return {layer.name: layer.producers for layer in graph.layers if layer.part != "forward"}


def test_errors_of_branches_are_summed() -> None:
    def conv(name: str, *producers: int, external: int = 0) -> NetworkLayer:
        return NetworkLayer(
            name, "conv", 4, 4, 5, 5, 1, 1, 1, 1, 0, 0, 5, 5, external_c=external, producers=producers
        )

    joined = NetworkLayer("join", "eltwise", 8, 4, 5, 5, 1, 1, 1, 1, 0, 0, 5, 5, operands=2, producers=(0, 1))
    graph = LayerGraph("residual", (conv("a", external=4), conv("b", 0), joined, conv("c", 2)))
    assert parts(training_graph(graph)) == {
        "c.error": ("c",),
        "c.update": ("c",),
        "join.error.a": ("c.error",),
        "join.error.b": ("c.error",),
        "b.error": ("join.error.b",),
        "b.update": ("join.error.b",),
        "a.error_sum": ("join.error.a", "b.error"),
        "a.update": ("a.error_sum",),
    }
    training = training_graph(graph)
    saved = {layer.name: layer.saved for layer in training.of("update")}
    assert saved == {"c.update": ("join",), "b.update": ("a",), "a.update": ("input",)}
    assert "a.error" in parts(training_graph(graph, input_error=True))
    assert training.macs == 3 * 3 * 400 - 400


@pytest.mark.parametrize("name", ["resnet50", "alexnet", "googlenet"])
def test_training_the_librarys_networks(name: str) -> None:
    """Three times the forward MACs, but for the errors of layers that read the network's input."""
    network = load_library_network(name)
    training = training_graph(layer_graph(network))
    first = sum(one.operations for one in training.of("forward") if one.has_products and not one.producers)
    assert training.macs == 3 * network.macs - first


def test_training_by_name() -> None:
    """``NETWORK.training`` wherever a network's name may stand, and its layers after it."""
    forward, training = load_library_network("resnet18", 4), load_library_network("resnet18.training", 4)
    assert training.name == "resnet18.training"
    assert len(training.layers) == 3 * len(forward.layers) - 1
    assert training.macs == 3 * forward.macs - forward.layers[0].macs
    update = load_layer("resnet18.training/layer1.0.conv1.update")
    assert update.output.name == "Weights"
    assert update.macs == load_layer("resnet18/layer1.0.conv1").macs


def test_networks_of_kapla_by_name() -> None:
    graph = load_layer_graph("kapla-mobilenet")
    assert graph == load_network("mobilenet")
    forward, training = (
        load_library_network("kapla-mobilenet", 2),
        load_library_network("kapla-mobilenet.training"),
    )
    assert forward.macs == 2 * sum(one.operations for one in graph.layers if one.has_weights)
    assert training.macs == training_graph(graph).macs
    with pytest.raises(InputError, match="Did you mean kapla-mobilenet"):
        load_layer_graph("kapla-mobilnet")
    with pytest.raises(InputError, match="network nothing"):
        load_library_network("nothing")


def test_products_of_activations_are_refused() -> None:
    graph = layer_graph(load_library_network("bert_base"))
    with pytest.raises(InputError, match="weights that are parameters"):
        training_graph(graph)


def test_layers_without_products_have_no_nest() -> None:
    training = training_graph(load_network("alex_net"))
    pool = next(layer for layer in training.layers if layer.forward.kind == "pool" and layer.part == "error")
    with pytest.raises(InputError, match="a layer with weights"):
        pool.nest(1)
