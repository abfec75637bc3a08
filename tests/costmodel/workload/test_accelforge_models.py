"""Blocks of the library's models on AccelForge's `snowcat`: the bits that have to cross DRAM's interface."""

from __future__ import annotations

import json
from math import prod
from pathlib import Path

import pytest

from costmodel.formats.networks import load_network
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from solvers.budget import Budget
from solvers.mapping import exact
from solvers.mapping.problem import MappingProblem
from solvers.outcome import Status

STATED: dict[str, int] = json.loads(
    (Path(__file__).parents[2] / "data" / "accelforge" / "snowcat.json").read_text(encoding="utf-8")
)
BITS = 16
SNOWCAT = Architecture(
    "snowcat",
    (
        StorageLevel("Buffer", 1 << 40, BITS, 0.0, 0.0, 0.0),
        StorageLevel("DRAM", None, BITS, 1.0 * BITS, 1.0 * BITS, 1.0 * BITS),
    ),
    Compute("MAC", BITS, 0.0),
)
"""DRAM takes one unit of energy a bit, all else nothing."""
VECTOR_WORK = ("softmax", "gated")
"""How the names of the vector operators end that AccelForge's files of the models have."""


@pytest.mark.parametrize("model", STATED)
def test_a_block_moves_the_bits_that_accelforge_states(model: str) -> None:
    """Products by proven mappings; vector operators read each operand and write their result once."""
    network = load_network(model, None, {"seq": 256, "blocks": 1})
    bits = 0.0
    for node in network.nodes:
        block, _, part = node.name.partition(".")
        if block != "block0" or ".router" in node.name:
            continue
        for layer in node.layers:
            outcome = exact.solve(MappingProblem(SNOWCAT, layer, "energy"), Budget())
            assert outcome.status is Status.OPTIMAL
            assert outcome.objective is not None
            bits += outcome.objective
        if part.endswith(VECTOR_WORK):
            values = [network.value(name) for name in (*node.inputs, *node.outputs)]
            bits += BITS * sum(prod(value.shape) for value in values)
    assert bits == STATED[model]
