"""Networks for chips, by name or from a file of any format: layer graphs for one sample."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costmodel.errors import NotFoundError, did_you_mean
from costmodel.formats.operator_networks import (
    SUFFIXES,
    TRAINING,
    check_dims,
    configured_names,
    exported_names,
    network_file,
    network_names,
    operator_network,
    published_networks,
)
from costmodel.schedule.layer_graph.graph import LayerGraph


def layer_graph_names() -> list[str]:
    """The networks that :func:`load_layer_graph` knows by name: SET's, KAPLA's, then the library's."""
    published = published_networks()
    return [*published["set"], *published["kapla"], *network_names()]


def load_layer_graph(name_or_path: str | Path, dims: Mapping[str, int] | None = None) -> LayerGraph:
    """The layers of a network for one sample, and whose outputs each of them reads.

    The network is one of :func:`layer_graph_names` (or has the released SET program's name), a layer graph in
    JSON, or any file that :func:`costmodel.formats.networks.load_network` reads, such as ONNX. With
    ``.training`` behind any of them it is the training step. ``dims`` states symbolic lengths. Raises
    InputError for an unknown name, a file that cannot be read, a node that no schedule can have, and a
    network that cannot be trained.
    """
    if str(name_or_path).endswith(TRAINING):
        from costmodel.schedule.layer_graph.training import training_graph

        return training_graph(load_layer_graph(str(name_or_path).removesuffix(TRAINING), dims))
    return _forward_graph(network_file(name_or_path), dims or {})


def _forward_graph(name: str, dims: Mapping[str, int]) -> LayerGraph:
    from costmodel.formats.json.layer_graph_json import graph_from_json, load_graph
    from costmodel.schedule.layer_graph.reading.reader import layer_graph

    check_dims(name, dims)
    of_set, of_kapla = published_networks()["set"], published_networks()["kapla"]
    if name in (*of_set, *of_set.values()) and name not in network_names():
        return load_graph(of_set.get(name, name))
    if name in of_kapla:
        from costmodel.formats.json.nn_dataflow_networks import load_network as load_kapla_network
        from costmodel.schedule.layer_graph.order import local_layers_next

        return local_layers_next(load_kapla_network(of_kapla[name]))
    if name.endswith((".json", ".json.gz")) and "layers" in (content := _json(name)):
        return graph_from_json(content, name)
    stated = name.endswith(SUFFIXES) or name in (*network_names(), *configured_names(), *exported_names())
    network = operator_network(name, None, dims) if stated else None
    if network is None:
        known = layer_graph_names()
        raise NotFoundError(
            "network", f"a file, or one of {', '.join(known)}", name, did_you_mean(name, known)
        )
    return layer_graph(network)


def _json(path: str) -> Any:
    from costmodel.formats.json.safe_json import load_json

    content = load_json(path)
    return content if isinstance(content, dict) else {}
