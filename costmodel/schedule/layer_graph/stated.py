"""A layer graph as a network, and back: networks that are published as lists of layers, and training steps.

Each layer is a node that states its numbers as attributes. What it reads is not stated again: producers are
the nodes whose values it reads.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from costmodel.errors import InputError
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.workload.attributes import Attributes
from costmodel.workload.digits import Shape
from costmodel.workload.network import Layer, Network, Node, Tensor, Value
from costmodel.workload.operators import TABLE

_ROWS: Mapping[str, str] = MappingProxyType(
    {
        "conv": "layer",
        "fc": "layer",
        "groupconv": "layer",
        "pool": "pooling_layer",
        "eltwise": "elementwise_layer",
        "ptp": "function_layer",
        "transpose": "transposing_layer",
        "topk": "choosing_layer",
        "dispatch": "dispatching_layer",
        "combine": "combining_layer",
        "scale": "scaling_layer",
        "decay": "scaling_layer",
        "outer": "scaling_layer",
        "carry": "scaling_layer",
    }
)
"""By kind of layer, its row in the table of operators."""
_READ = ("name", "producers", "weight_producers")
"""The fields of a layer that follow from the node's name and inputs."""
_OF_ACTIVATIONS = "weights_of_activations"
"""The attribute that says how many of the last inputs are weights that other nodes compute."""


def network_of(graph: LayerGraph, batch: int = 1) -> Network:
    """The network of a layer graph, for ``batch`` samples: a node for each layer, with that layer's name.

    A layer graph does not say which layers read the same channels of the network's input, so every layer that
    reads some of it has an input of its own.
    """
    names = [layer.name for layer in graph.layers]
    nodes, values = list[Node](), list[Value]()
    for layer in graph.layers:
        made, weights = (
            [names[number] for number in numbers] for numbers in (layer.producers, layer.weight_producers)
        )
        own = _own_values(layer, batch)
        given = [value.name for value in own if value.kind == "input"]
        parameters = [value.name for value in own if value.kind == "parameter"]
        stated = {key: value for key, value in layer.to_json().items() if key not in _READ}
        nodes.append(
            Node(
                layer.name,
                layer.kind,
                (*given, *made, *weights, *parameters),
                (layer.name,),
                (layer.nest(batch),) if layer.has_weights else (),
                attributes=Attributes({**stated, _OF_ACTIVATIONS: len(weights)}),
                kinds=(TABLE[_ROWS[layer.kind]],),
            )
        )
        values += own
    read = {name for node in nodes for name in node.inputs}
    values = [replace(one, kind="output") if one.name not in read else one for one in values]
    return Network(graph.name, tuple(nodes), tuple(values), views_folded=False)


def _own_values(layer: NetworkLayer, batch: int) -> list[Value]:
    """What a layer makes, and what it reads that no other layer makes; activations have samples first."""
    space = layer.space(batch)
    found = [Value(layer.name, _shape(space, space.output), "activation")]
    if layer.external_c:
        shape = (batch, layer.external_c, layer.input_h, layer.input_w)
        found.append(Value(f"{layer.name}.input", shape, "input"))
    if layer.has_weights and not layer.weight_producers:
        found.append(Value(f"{layer.name}.weights", _shape(space, space.tensor("Weights")), "parameter"))
    return found


def _shape(space: Layer, tensor: Tensor) -> Shape:
    first, second, *rest = (space.length(axis) for axis in tensor.axes)
    return (first, second, *rest) if tensor.name == "Weights" else (second, first, *rest)


def stated_graph(network: Network) -> LayerGraph | None:
    """The layer graph of a network of :func:`network_of`; None for any other.

    InputError for a network of several samples.
    """
    if not network.nodes or not all(_OF_ACTIVATIONS in node.attributes for node in network.nodes):
        return None
    if batches := {value.shape[0] for value in network.values if value.kind == "input"} - {1}:
        remedy = "Load it with a batch of 1: how many samples there are is the schedule's business"
        raise InputError(f"network {network.name}", "a graph for one sample", sorted(batches), remedy)
    number = {name: position for position, node in enumerate(network.nodes) for name in node.outputs}
    layers = []
    for node in network.nodes:
        stated = dict(node.attributes)
        producers = [number[name] for name in node.inputs if name in number]
        of_inputs = len(producers) - node.attributes.number(_OF_ACTIVATIONS)
        stated.pop(_OF_ACTIVATIONS)
        read = {"producers": producers[:of_inputs], "weight_producers": producers[of_inputs:]}
        layers.append(NetworkLayer.from_json({"name": node.name, **stated, **read}))
    return LayerGraph(network.name, tuple(layers))
