"""Fused operator graphs: by rule on small graphs, and against graphs that were fused by another program."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from costmodel.formats.json.fused_graph import fused_graph
from costmodel.formats.json.graph_json import network_of_graph
from costmodel.formats.json.safe_json import load_json
from costmodel.formats.torch_export import EXPORTED

REFERENCE = Path(__file__).parents[3] / "data" / "graphs"
NETWORKS = sorted(path.name.removesuffix(".raw.json.gz") for path in EXPORTED.glob("*.raw.json.gz"))
FUSED_ELSEWHERE = [name for name in NETWORKS if (REFERENCE / f"{name}.json.gz").is_file()]


def structure(graph: dict[str, Any]) -> list[tuple[str, list[str], list[str]]]:
    """Every operator's type, the activations that it reads, and what it makes."""
    kinds = {tensor["name"]: tensor["kind"] for tensor in graph["tensors"]}
    return [
        (op["type"], [name for name in op["inputs"] if kinds[name] != "parameter"], op["outputs"])
        for op in graph["ops"]
    ]


def test_the_evaluation_of_cosma_is_there() -> None:
    assert len(NETWORKS) == 14
    assert len(FUSED_ELSEWHERE) >= 9


@pytest.mark.parametrize("name", FUSED_ELSEWHERE)
def test_fused_as_another_program_does(name: str) -> None:
    ours = fused_graph(load_json(EXPORTED / f"{name}.raw.json.gz"))
    theirs = load_json(REFERENCE / f"{name}.json.gz")
    # Inputs have the names of the modules that were exported.
    inputs = [tensor["name"] for tensor in theirs["tensors"] if tensor["kind"] == "input"]
    assert inputs == [tensor["name"] for tensor in ours["tensors"] if tensor["kind"] == "input"] or (
        len(inputs) == 1
    )
    mine = next(tensor["name"] for tensor in ours["tensors"] if tensor["kind"] == "input")
    renamed = [
        (kind, [inputs[0] if tensor == mine else tensor for tensor in reads], makes)
        for kind, reads, makes in structure(ours)
    ]
    assert renamed == structure(theirs)


@pytest.mark.slow
@pytest.mark.parametrize("name", NETWORKS)
def test_an_exported_graph_is_a_network(name: str) -> None:
    raw = load_json(EXPORTED / f"{name}.raw.json.gz")
    layers = [
        [layer.macs for node in network_of_graph(graph).nodes for layer in node.layers]
        for graph in (raw, fused_graph(raw))
    ]
    assert layers[0] == layers[1]  # what is fused changes no layer
    assert sum(layers[0]) > 1e8


def graph(*ops: tuple[str, str, list[str]], kinds: dict[str, str]) -> dict[str, Any]:
    """A graph of operators (name, type, inputs), each of which makes a tensor of its name."""
    return {
        "name": "small",
        "granularity": "raw",
        "ops": [
            {"name": name, "type": kind, "inputs": inputs, "outputs": [name], "attrs": {"pad": [1, 1]}}
            for name, kind, inputs in ops
        ],
        "tensors": [
            {"name": name, "shape": [1, 8], "kind": kinds.get(name, "activation")}
            for name in dict.fromkeys([*kinds, *(op[0] for op in ops)])
        ],
    }


def types(fused: dict[str, Any]) -> list[str]:
    return [op["type"] for op in fused["ops"]]


def test_what_two_operators_read_stays() -> None:
    kinds = {"x": "input", "w": "parameter", "sum": "output"}
    both = graph(
        ("conv", "conv2d", ["x", "w"]),
        ("relu", "relu", ["conv"]),
        ("sum", "add", ["relu", "conv"]),
        kinds=kinds,
    )
    assert types(fused_graph(both)) == ["conv2d", "relu", "add"]


def test_a_sum_with_a_parameter_is_fused_and_one_with_an_activation_is_not() -> None:
    kinds = {"x": "input", "w": "parameter", "b": "parameter", "out": "output"}
    found = fused_graph(
        graph(
            ("conv", "conv2d", ["x", "w"]),
            ("biased", "add", ["conv", "b"]),
            ("out", "add", ["biased", "x"]),
            kinds=kinds,
        )
    )
    assert types(found) == ["conv2d+add", "add"]
    assert found["ops"][0]["inputs"] == ["x", "w", "b"]
    assert found["ops"][0]["outputs"] == ["biased"]


def test_an_output_of_the_network_exists() -> None:
    kinds = {"x": "input", "w": "parameter", "conv": "output", "relu": "output"}
    leaves = graph(("conv", "conv2d", ["x", "w"]), ("relu", "relu", ["conv"]), kinds=kinds)
    assert types(fused_graph(leaves)) == ["conv2d", "relu"]


def test_a_pooling_pads_itself() -> None:
    kinds = {"x": "input", "pool": "output"}
    found = fused_graph(graph(("pad", "pad", ["x"]), ("pool", "max_pool2d", ["pad"]), kinds=kinds))
    assert types(found) == ["max_pool2d"]
    assert found["ops"][0]["inputs"] == ["x"]
    assert found["ops"][0]["attrs"]["fused_pad"] == [1, 1]


def test_nothing_is_fused_into_a_concatenation() -> None:
    kinds = {"x": "input", "y": "input", "relu": "output"}
    joined = graph(("cat", "cat", ["x", "y"]), ("relu", "relu", ["cat"]), kinds=kinds)
    assert types(fused_graph(joined)) == ["cat", "relu"]
