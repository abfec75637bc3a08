"""State-space scans as layers of a chip: in numpy, as stated networks, and as programs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from costmodel.errors import InputError
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.reading.reader import layer_graph
from costmodel.schedule.layer_graph.stated import network_of, stated_graph
from costmodel.workload.library.builder import NetworkBuilder
from costmodel.workload.network import Network
from tests.costmodel.schedule.chip_cases import layer, recurrent
from tests.costmodel.schedule.program.program_counts import check_work, written

LIKE_MAMBA = {
    "architectures": ["Mamba2ForCausalLM"],
    "hidden_size": 16,
    "num_hidden_layers": 1,
    "vocab_size": 40,
    "hidden_act": "silu",
    "num_heads": 4,
    "head_dim": 8,
    "state_size": 4,
    "n_groups": 2,
    "expand": 2,
    "conv_kernel": 4,
    "chunk_size": 4,
}


@pytest.mark.slow
@pytest.mark.parametrize(
    "dims", [{"seq": 8}, {"seq": 7}, {"seq": 6, "past": 3}, {"seq": 1, "past": 4}], ids=str
)
def test_programs_of_a_block_run(tmp_path: Path, dims: dict[str, int]) -> None:
    file = tmp_path / "config.json"
    file.write_text(json.dumps(LIKE_MAMBA))
    graph = load_layer_graph(file, dims)
    programs = (written(graph, seed, idle=True) for seed in range(16))
    check_work(graph, [program for program in programs if program is not None])


def test_kinds_compute_what_a_recurrence_does() -> None:
    """Chunks with ``decay`` and ``carry`` in numpy, against the recurrence token by token with ``outer``."""
    random = np.random.default_rng(1)
    tokens, chunk, heads, width, numbers = 12, 4, 2, 3, 5
    for _ in range(10):
        x, decays = random.normal(size=(tokens, heads, width)), random.uniform(size=(tokens, heads))
        b, c = random.normal(size=(2, tokens, numbers))
        start = random.normal(size=(heads, width, numbers))
        state, expected = start, []
        for token in range(tokens):
            # outer: a channel's one element times every number; carry: one factor for a head
            state = state * decays[token][:, None, None] + x[token][:, :, None] * b[token]
            expected.append(state @ c[token])
        made, before = np.zeros((tokens, heads, width)), start
        for first in range(0, tokens, chunk):
            own = slice(first, first + chunk)
            # decay: what of token j is left at token i follows from the factors of all rows of the chunk
            left = np.array(
                [
                    [decays[own][j + 1 : i + 1].prod(axis=0) * (j <= i) for j in range(chunk)]
                    for i in range(chunk)
                ]
            )
            scores = (c[own] @ b[own].T)[:, :, None] * left
            within = np.einsum("ijh,jhw->ihw", scores, x[own])
            since = np.array([decays[own][: i + 1].prod(axis=0) for i in range(chunk)])
            across = np.einsum("in,hwn->ihw", c[own], before) * since[:, :, None]
            made[own] = within + across
            states = np.einsum("jhw,jh,jn->hwn", x[own], left[-1], b[own])
            # carry: one factor for each head, that of all rows of the chunk multiplied
            before = before * decays[own].prod(axis=0)[:, None, None] + states
        assert np.allclose(made, expected)
        assert np.allclose(before, state)


def test_a_step_of_a_recurrence_is_cut_along_all_of_its_outputs() -> None:
    """Each output follows from the same place of both inputs, and from all factors: no step is in a step."""
    step = layer("step", "carry", c=8, k=4, h=3, w=2, r=3, groups=2, external_c=8, weight_producers=(0,))
    space = step.space(2)
    axes = {tensor.name: [axis.steps for axis in tensor.axes] for tensor in space.tensors}
    assert axes["Inputs0"] == axes["Inputs1"] == axes["Outputs"]
    assert sorted(one.dim for steps in axes["Outputs"] for one in steps) == ["K", "N", "P", "Q"]
    assert [one.dim for steps in axes["Weights"] for one in steps] == ["C", "N", "R", "S"]
    assert (space.sizes["C"], space.sizes["R"], space.sizes["S"]) == (2, 1, 1)
    assert step.compulsory_elements(2) == (2 * 8 * 6, 2 * 2, 2 * 4 * 6)


def test_recurrent_graphs_are_networks() -> None:
    graph = recurrent()
    assert stated_graph(network_of(graph)) == graph


def carrying(wrong: str = "") -> Network:
    """Six tokens in two chunks of three, whose states are carried; with something ``wrong``."""
    build = NetworkBuilder("carrying", views_folded=False)
    ids = build.input("x", (1, 6, 8))
    factors = build.linear("factors", ids, 4 if wrong == "heads" else 2)
    states = build.linear("states", build.input("y", (1, 5, 8)), 2 * 2 * 3)
    apart = build.reshape("apart", states, (1, 5, 2, 2, 3))
    made = build.permute("made", apart, (0, 2, 3, 4, 1))
    chunk = 2 if wrong == "chunk" else 3
    read: tuple[str, ...] = (made, factors)
    if wrong == "before":
        read = (made, states, factors)
    attributes: dict[str, Any] = {"factors": "carried", "chunk": chunk}
    build.operator("carried", "addcmul", read, (1, 2, 2, 3, 5), **attributes)
    return build.network()


def test_states_are_carried_from_chunk_to_chunk() -> None:
    graph: LayerGraph = layer_graph(carrying())
    (carry,) = (one for one in graph.layers if one.kind == "carry")
    assert (carry.k, carry.h, carry.groups) == (6, 5, 2)
    names = [graph.layers[number].name for number in carry.producers]
    assert names == ["states[0]", "states[1]"]


@pytest.mark.parametrize("wrong", ["heads", "chunk", "before"])
def test_what_does_not_belong_together_is_refused(wrong: str) -> None:
    with pytest.raises(InputError, match=r"node carried \(addcmul\)"):
        layer_graph(carrying(wrong))
