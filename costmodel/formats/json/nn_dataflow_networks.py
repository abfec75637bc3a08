"""The networks of nn-dataflow and KAPLA, as these programs build them, read into layer graphs."""

from __future__ import annotations

from dataclasses import replace
from functools import cache
from math import ceil
from pathlib import Path
from typing import Any

from costmodel.errors import InputError, did_you_mean
from costmodel.formats.json.json_fields import field, whole_number
from costmodel.formats.json.safe_json import load_json
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer

FILE = Path(__file__).parents[2] / "workload" / "library" / "nn_dataflow_networks.json.gz"
"""All networks of both repositories; names that end in ``_bp`` are training graphs, written by hand there."""
KINDS = {
    "ConvLayer": "conv",
    "FCLayer": "fc",
    "DepthwiseConvolutionLayer": "groupconv",
    "PoolingLayer": "pool",
    "EltwiseLayer": "eltwise",
}


def network_names() -> list[str]:
    """The forward networks, sorted."""
    return sorted(name for name in _content() if not name.endswith("_bp"))


def load_network(name: str) -> LayerGraph:
    """A forward network by name, such as ``vgg_net`` or ``lstm_gnmt``."""
    if name not in network_names():
        known = network_names()
        raise InputError("network", f"one of {', '.join(known)}", name, did_you_mean(name, known))
    return graph_of(name, _content()[name])


@cache
def _content() -> dict[str, Any]:
    content: dict[str, Any] = load_json(FILE)
    return content


def graph_of(name: str, content: Any) -> LayerGraph:
    """The layer graph of one network of the file; InputError for a layer of a training graph.

    The file counts padding among a layer's input rows and columns. What exceeds the rows and columns that the
    producers have is padding, half of it on either side. A layer may also read fewer rows than there are.
    """
    given = field(content, "input", dict, name)
    layers: list[NetworkLayer] = []
    for item in field(content, "layers", list, name):
        where = f"{name}: {item.get('name')}"
        index = {layer.name: number for number, layer in enumerate(layers)}
        producers = tuple(sorted(index[one] for one in field(item, "prevs", list, where) if one in index))
        sizes = [(layers[i].h, layers[i].w) for i in producers] or [(given["hofm"], given["wofm"])]
        layers.append(_layer(item, producers, (min(h for h, _ in sizes), min(w for _, w in sizes)), where))
        known = sum(layers[i].k for i in producers)
        layers[-1] = replace(layers[-1], external_c=layers[-1].c - known)
    return LayerGraph(name, tuple(layers))


def _layer(
    item: dict[str, Any], producers: tuple[int, ...], source: tuple[int, int], where: str
) -> NetworkLayer:
    kind = field(item, "kind", str, where)
    if kind not in KINDS:
        raise InputError(where, f"one of {', '.join(KINDS)}", kind, key="kind")

    def size(key: str) -> int:
        return whole_number(item.get(key), where, key)

    window = ("hreg", "wreg") if KINDS[kind] in ("pool", "eltwise") else ("hfil", "wfil")
    read = min(size("hi"), source[0]), min(size("wi"), source[1])
    return NetworkLayer(
        name=field(item, "name", str, where),
        kind=KINDS[kind],
        c=size("N_in_fmaps"),
        k=size("N_out_fmaps"),
        h=size("ho"),
        w=size("wo"),
        r=size(window[0]),
        s=size(window[1]),
        stride_h=size("htrd"),
        stride_w=size("wtrd"),
        pad_h=ceil((size("hi") - read[0]) / 2),
        pad_w=ceil((size("wi") - read[1]) / 2),
        input_h=read[0],
        input_w=read[1],
        operands=size("nreg") if kind == "EltwiseLayer" else 1,
        groups=size("N_in_fmaps") if kind == "DepthwiseConvolutionLayer" else 1,
        producers=producers,
    )
