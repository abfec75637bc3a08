"""Which layers of a network hang together: those of its blocks, by what its graph says that they read."""

from __future__ import annotations

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.mapping.fused.layers.links import group_of
from costmodel.mapping.fused.layers.segments import attention_segments, hanging_together

BLOCK = {
    "gpt2": [
        ("key", "value", "attention.scores", "attention.values", "output"),
        ("expand", "contract"),
    ],
    "llama3_8b": [
        (
            "attention.key",
            "attention.value",
            "attention.scores",
            "attention.values",
            "attention.output",
        ),
        ("mlp.gate", "mlp.up", "mlp.down"),
    ],
}
"""Queries are read three layers later, so runs of three layers keep none. A residual ends a segment."""


@pytest.mark.parametrize(("name", "blocks"), [("gpt2", 12), ("llama3_8b", 32)])
def test_blocks_of_a_decoder_fall_into_attention_and_mlp(name: str, blocks: int) -> None:
    found = hanging_together(load_network(name), 3)
    expected = [tuple(f"block{n}.{layer}" for layer in part) for n in range(blocks) for part in BLOCK[name]]
    # what the last block makes is read by the head alone
    expected[-1] += ("lm_head",)
    assert list(found) == expected


def test_longer_runs_keep_queries_too() -> None:
    first = hanging_together(load_network("gpt2"), 4)[0]
    assert first == ("block0.query", *(f"block0.{layer}" for layer in BLOCK["gpt2"][0]))
    assert hanging_together(load_network("gpt2"), 1) == ()


def test_attention_is_what_a_softmax_stands_between() -> None:
    for name, blocks in (("gpt2", 12), ("vit_b_16.raw", 12), ("resnet18", 0), ("deepbench", 0)):
        segments = attention_segments(load_network(name))
        assert len(segments) == blocks
        assert all(segment[0].endswith(".scores") and segment[1].endswith(".values") for segment in segments)


@pytest.mark.parametrize("name", ["resnet18", "mobilenet_v2", "gpt2"])
def test_over_every_border_something_can_stay_on_the_chip(name: str) -> None:
    network, architecture = load_network(name), load_architecture("eyeriss")
    segments = hanging_together(network, 3)
    names = [name for segment in segments for name in segment]
    assert len(set(names)) == len(names) > 0
    for segment in segments:
        kept = [one for one in group_of(architecture, network, segment).intermediates if not one.leaves]
        near = [one for one in kept if one.last - one.producer < 3]
        borders = {border for one in near for border in range(one.producer, one.last)}
        assert borders == set(range(len(segment) - 1))
