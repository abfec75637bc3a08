"""What ``archsweep list layers/NETWORK`` does: a network's layers, and what of its work is not counted."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from costmodel.formats.networks import load_network
from costmodel.workload.counting import counting_warnings, mapped_layers, uncounted_rows
from costmodel.workload.network import Layer, Network, distinct_layers
from costmodel.workload.stored_bits import StoredBits
from sweep.cli.evaluate.evaluate import print_rows
from sweep.cli.messages import warn


def list_layers(name: str, dims: Mapping[str, int], as_json: bool) -> None:
    """Print the layers of a network and its uncounted operators; one warning line on standard error.

    As JSON every layer is an entry, with the bits of an element of each of its tensors (null where the file
    does not state them), and the last entry holds ``total_macs`` and ``uncounted``; as text equal layers are
    one row. Raises InputError for a network none of whose layers is counted, unless it is to be JSON.
    """
    network = load_network(name, None, dims)
    layers = network.layers if as_json else mapped_layers(network)
    for warning in counting_warnings(network):
        warn(warning)
    rows = uncounted_rows(network)
    if as_json:
        print(json.dumps([*_entries(name, network), {"total_macs": network.macs, "uncounted": rows}]))
        return
    kinds = {layer.shape: node.operator for node in network.nodes for layer in node.layers}
    print_rows(
        [
            {
                "name": f"{name}/{layer.name}",
                "kind": kinds[layer.shape],
                "count": count,
                "macs": layer.macs,
                "dims": " ".join(f"{dim}={size}" for dim, size in layer.dims),
            }
            for layer, count in distinct_layers(layers)
        ]
    )
    print(f"total MACs: {network.macs:,}")
    for row in rows:
        macs = f", {row['macs']:,} MACs" if "macs" in row else ""
        print(f"not counted: {row['node']} ({row['kind']}{macs}): {row['why']}")


def _entries(name: str, network: Network) -> list[dict[str, Any]]:
    stored = StoredBits(network)
    return [
        {
            "name": f"{name}/{layer.name}",
            "kind": node.operator,
            "count": 1,
            "dims": dict(layer.dims),
            "strides": _strides(layer),
            "macs": layer.macs,
            "bits": stored.of(node, layer),
        }
        for node in network.nodes
        for layer in node.layers
    ]


def _strides(layer: Layer) -> dict[str, int]:
    """By how many rows or columns of its input a step of an output's dim moves a window."""
    outputs = layer.output.dims
    windows = [axis for tensor in layer.tensors for axis in tensor.terms if len(axis) > 1]
    return {dim: coefficient for axis in windows for dim, coefficient in axis if dim in outputs}
