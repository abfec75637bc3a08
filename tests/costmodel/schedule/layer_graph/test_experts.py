"""Experts with routing as layers of a chip: by counting, in numpy, and as programs."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.errors import InputError
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.formats.networks import load_network
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.reading.reader import layer_graph
from costmodel.schedule.layer_graph.stated import network_of, stated_graph
from costmodel.schedule.layer_graph.training import training_graph
from costmodel.workload.library.builder import NetworkBuilder
from costmodel.workload.network import Network
from tests.costmodel.schedule.chip_cases import layer, routed
from tests.costmodel.schedule.program.program_counts import check_work, written

LIKE_MIXTRAL: dict[str, Any] = {
    "architectures": ["MixtralForCausalLM"],
    "hidden_size": 32,
    "num_hidden_layers": 1,
    "vocab_size": 40,
    "hidden_act": "silu",
    "intermediate_size": 24,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "num_local_experts": 4,
    "num_experts_per_tok": 2,
}


@pytest.fixture
def configured(tmp_path: Path) -> Path:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LIKE_MIXTRAL))
    return file


def of_kind(graph: LayerGraph, kind: str) -> list[Any]:
    return [one for one in graph.layers if one.kind == kind]


@pytest.mark.parametrize(
    ("dims", "loads"),
    [
        ({"seq": 8}, {4: 4}),
        ({"seq": 7}, {4: 2, 3: 2}),  # 14 rows for 4 experts
        ({"seq": 1, "past": 8}, {1: 2}),  # a token reaches two of the four
    ],
    ids=str,
)
def test_every_expert_is_sent_the_rows_that_the_network_states(
    configured: Path, dims: dict[str, int], loads: dict[int, int]
) -> None:
    network, graph = load_network(configured, None, dims), load_layer_graph(configured, dims)
    tokens, top, width = dims["seq"], 2, 32
    assert sum(one.operations for one in graph.layers if one.has_weights) == network.macs
    (choice,) = of_kind(graph, "topk")
    assert (choice.c, choice.k, choice.h) == (4, top, tokens)
    assert choice.operations == 4 * top * tokens
    sent = of_kind(graph, "dispatch")
    assert Counter(one.h for one in sent) == loads
    number = graph.index[choice.name]
    for one in sent:
        assert (one.c, one.k, one.input_h, one.weight_producers) == (width, width, tokens, (number,))
    back = of_kind(graph, "combine")
    assert sorted((one.c // width, one.input_h) for one in back) == sorted(
        (n, load) for load, n in loads.items()
    )
    least = tokens * top * width  # every row of an expert is added once
    added = sum(one.operations for one in back)
    assert least <= added <= least + (len(back) - 1) * tokens * width
    assert (added == least) == (len(loads) == 1)


@pytest.mark.slow
@pytest.mark.parametrize("dims", [{"seq": 4}, {"seq": 7}, {"seq": 1, "past": 4}], ids=str)
def test_programs_of_a_block_run(configured: Path, dims: dict[str, int]) -> None:
    graph = load_layer_graph(configured, dims)
    programs = (written(graph, seed) for seed in range(8))
    check_work(graph, [program for program in programs if program is not None])


def test_kinds_compute_what_experts_do() -> None:
    """The three kinds in numpy, against every expert on every row: rows, weights and operations."""
    random = np.random.default_rng(1)
    tokens, width, experts, top = 6, 4, 3, 2
    for _ in range(20):
        x, scores = random.normal(size=(tokens, width)), random.normal(size=(tokens, experts))
        matrices = random.normal(size=(experts, width, width))
        order = np.argsort(-scores, axis=1)
        chosen = order[:, :top]  # topk: of all scores of a token
        weights = np.take_along_axis(scores, chosen, axis=1)
        added, operations = np.zeros((tokens, width)), 0
        for expert in range(experts):
            rows, place = np.nonzero(chosen == expert)  # of any rows: dispatch
            made = x[rows] @ matrices[expert]
            for row, token, at in zip(made, rows, place, strict=True):  # of any expert: combine
                added[token] += weights[token, at] * row
                operations += width
        dense = np.einsum(
            "tc,eck,te->tk", x, matrices, np.where(scores >= weights.min(axis=1)[:, None], scores, 0)
        )
        assert np.allclose(added, dense)
        load = tokens * top // experts
        sizes: dict[str, Any] = {"c": experts * width, "k": width, "h": tokens, "w": 1, "r": top}
        sizes |= {"groups": top, "input_h": load, "input_w": 1, "external_c": experts * width}
        combine = layer("back", "combine", **sizes, weight_producers=(0,))
        assert operations == combine.operations


def test_routed_graphs_are_networks_and_have_no_training_step() -> None:
    graph = routed()
    assert stated_graph(network_of(graph)) == graph
    with pytest.raises(InputError, match="a choice of the largest"):
        training_graph(graph)


def choosing(wrong: str = "") -> Network:
    """Six tokens, of which each takes one of two experts; with something ``wrong``."""
    build = NetworkBuilder("choosing", views_folded=False)
    x = build.linear("in", build.input("x", (1, 6, 8)), 8)
    router = build.linear("router", x, 2)
    top = build.operator("top", "topk", (router,), (1, 6, 1), k=1, dim=-1)
    load = 7 if wrong == "load" else 3
    tokens = build.operator("tokens", "index_select", (x, top), (2, load, 8))
    rows = build.reshape("rows", build.pointwise("made", "silu", tokens), (2 * load, 8))
    back = build.operator("back", "index_select", (rows, top), (1, 6, 1, 8))
    back = build.operator("weighted", "mul", (back, top), (1, 6, 1, 8))
    if wrong == "read":
        back = build.pointwise("read", "silu", back)
    build.operator("sum", "sum", (back,), (1, 6, 8), dim=1 if wrong == "axis" else 2)
    return build.network()


def test_a_choice_of_one() -> None:
    graph = layer_graph(choosing())
    assert [one.kind for one in graph.layers] == ["conv", "conv", "topk", "dispatch", "dispatch", "combine"]


@pytest.mark.parametrize(
    ("wrong", "node", "expected"),
    [
        ("load", "tokens", "no more rows than the tokens choose"),
        ("read", "read", "looked up, weighted and summed"),
        ("axis", "sum", "looked up, weighted and summed"),
    ],
)
def test_other_routings_are_refused(wrong: str, node: str, expected: str) -> None:
    with pytest.raises(InputError) as caught:
        layer_graph(choosing(wrong))
    assert f"node {node} " in str(caught.value)
    assert expected in str(caught.value)


def test_a_choice_has_a_layer_that_makes_it() -> None:
    tokens, top, sent, *_ = (routed().layers[number] for number in (0, 2, 3))
    external = LayerGraph("alone", (tokens,))
    assert external.layers[0] == tokens
    with pytest.raises(InputError, match="2 channels of 3 x 2 between the producers"):
        LayerGraph("no choice", (tokens, layer(sent.name, sent.kind, **_numbers(sent, ()))))
    assert top.factors == (1, 3, 2)


def _numbers(one: Any, choices: tuple[int, ...]) -> dict[str, Any]:
    sizes = {
        key: getattr(one, key) for key in ("c", "k", "h", "w", "input_h", "input_w", "groups", "producers")
    }
    return sizes | {"weight_producers": choices}
