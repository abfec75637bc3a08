"""Networks and layers by name or from a file, whatever its format."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from costmodel.errors import InputError, NotFoundError, did_you_mean
from costmodel.formats.layer_graphs import layer_graph_names, load_layer_graph
from costmodel.formats.operator_networks import (
    SUFFIXES,
    TRAINING,
    check_dims,
    configured_names,
    exported_names,
    network_file,
    network_names,
    operator_network,
)
from costmodel.formats.yaml.safe_yaml import names_a_file
from costmodel.hardware.architecture import Architecture
from costmodel.schedule.layer_graph.stated import network_of
from costmodel.workload.counting import mapped_layers
from costmodel.workload.network import Layer, Network
from costmodel.workload.stored_bits import StoredBits


def load_network(
    name_or_path: str | Path, batch: int | None = None, dims: Mapping[str, int] | None = None
) -> Network:
    """A network of the library or a plug-in by name, or the network of a file: ``.onnx``, ``.pt2`` of
    ``torch.export``, operator-graph ``.json`` or ``.json.gz``, Hugging Face's ``config.json``, Timeloop
    problem ``.yaml`` (one node).
    NETWORK.fused and NETWORK.raw are the graphs of
    :func:`costmodel.formats.operator_networks.exported_names`.

    ``batch`` is the number of images or sequences; None is 1 for a built-in network and a file's own
    otherwise. ``dims`` states the symbolic lengths of an ONNX or ``.pt2`` file, by their names in it, or the
    lengths of a model by its configuration (``seq``, ``past``). Networks for chips
    (:func:`costmodel.formats.layer_graphs.layer_graph_names`) have a node for each layer, and so has the
    training step of any network, NAME.training. Raises InputError for an unknown name (with near
    names), a file that cannot be read, a batch that the file cannot take, and dims that it does not have.
    """
    name_or_path = network_file(name_or_path)
    if batch is not None and (type(batch) is not int or batch < 1):
        raise InputError(f"network {name_or_path}", "a whole batch of at least 1", batch, key="batch")
    check_dims(name_or_path, dims)
    network = operator_network(name_or_path, batch, dims)
    return _from_layer_graph(str(name_or_path), batch or 1, dims) if network is None else network


def load_layer(spec: str, dims: Mapping[str, int] | None = None) -> Layer:
    """One layer: ``NETWORK/LAYER`` (built-in or file), a file that holds one layer, or inline JSON.

    A file of one layer is a Timeloop problem (``.yaml``) or a problem in JSON
    (``{"shape", "dims", "coeffs"}``), the form inline JSON has too. ``dims`` as of :func:`load_network`.
    Raises InputError naming what is wrong and what there is.
    """
    if spec.lstrip().startswith("{"):
        return _problem_json(spec, "layer")
    if spec.endswith(SUFFIXES):
        return _only_layer(spec, dims)
    network, layer = _split(spec)
    if not network or "/" not in spec:
        remedy = f"Networks by name: {', '.join(network_names())}"
        raise InputError(f"layer {spec}", "NETWORK/LAYER, a file, or a problem in JSON", spec, remedy)
    return _named_layer(load_network(network, None, dims), layer)


def network_around(spec: str, dims: Mapping[str, int] | None = None) -> Network | None:
    """The network that ``NETWORK/LAYER`` is of; None for a layer of its own."""
    if spec.lstrip().startswith("{") or spec.endswith(SUFFIXES):
        return None
    return load_network(_split(spec)[0], None, dims)


def load_layer_for(architecture: Architecture, spec: str, dims: Mapping[str, int] | None = None) -> Layer:
    """:func:`load_layer` for an architecture: where that has a precision, with what the layer's network says
    of the bits of its tensors and of operands that are no parameters."""
    layer = load_layer(spec, dims)
    network = None if architecture.precision is None else network_around(spec, dims)
    if network is None:
        return layer
    return next((one for one in StoredBits(network).stated() if one.name == layer.name), layer)


def _from_layer_graph(name: str, batch: int, dims: Mapping[str, int] | None) -> Network:
    """A network for chips, or a training step, as a network; InputError for what is neither."""
    if not name.endswith(TRAINING) and name not in layer_graph_names():
        raise _unknown(name)
    return network_of(load_layer_graph(name, dims), batch)


def _unknown(name: str) -> InputError:
    if name and _exists(name):
        return NotFoundError(f"network {name}", f"a file ending in one of {', '.join(SUFFIXES)}", name)
    known = (*network_names(), *configured_names(), *exported_names())
    near = did_you_mean(name.replace("-", "_"), known, cutoff=0.5, most=3)
    remedy = f"{near} Built in: {', '.join(network_names())}".lstrip()
    return NotFoundError(f"network {name}", "a built-in network or a file", name, remedy)


def _exists(name: str) -> bool:
    try:
        return Path(name).exists()
    except (OSError, ValueError):  # too long for a path, or with a zero byte in it
        return False


def _problem_json(text: str, where: str) -> Layer:
    from costmodel.formats.json.safe_json import parse_json

    return _layer_from_problem(parse_json(text, where), where)


def _layer_from_problem(data: Any, where: str) -> Layer:
    from costmodel.formats.cases.problem import layer_from_problem

    if isinstance(data, dict) and isinstance(data.get("problem"), dict):
        data = data["problem"]
    return layer_from_problem(data, where)


def _only_layer(path: str, dims: Mapping[str, int] | None) -> Layer:
    if path.endswith((".json", ".json.gz")):
        from costmodel.formats.json.safe_json import load_json

        data = load_json(path)
        if not (isinstance(data, dict) and ("ops" in data or "architectures" in data)):
            return _layer_from_problem(data, path)
    network = load_network(path, None, dims)
    layers = mapped_layers(network)
    if len(layers) != 1:
        raise InputError(path, f"{path}/LAYER: one of its {len(layers)} layers", _some(network))
    return layers[0]


def _split(spec: str) -> tuple[str, str]:
    """Network and layer of ``NETWORK/LAYER``; a file's path may hold slashes, its layers' names too."""
    for i, character in enumerate(spec):
        file = spec[:i].removesuffix(TRAINING)
        if character == "/" and file.endswith(SUFFIXES) and names_a_file(file):
            return spec[:i], spec[i + 1 :]
    network, _, layer = spec.partition("/")
    return network, layer


def _named_layer(network: Network, name: str) -> Layer:
    for layer in network.layers:
        if layer.name == name:
            return layer
    for node in network.nodes:
        if node.name == name and node.uncounted:
            found = f"{node.operator}: {node.uncounted.why}"
            raise InputError(f"network {network.name}", "an operator that is counted", found, key=name)
    near = did_you_mean(name, [layer.name for layer in network.layers], cutoff=0.5, most=3)
    remedy = f"{near} It has {_some(network)}".lstrip()
    raise InputError(f"network {network.name}", "the name of one of its layers", name, remedy)


def _some(network: Network, most: int = 12) -> str:
    names = [layer.name for layer in network.layers]
    return ", ".join(names[:most]) + (f" and {len(names) - most} more" if len(names) > most else "")
