"""Models on AccelForge's `snowcat` (the bits that have to cross DRAM's interface) and `simple` machines."""

from __future__ import annotations

import json
from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

import costmodel
from costmodel.formats.networks import load_network
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.hardware.precision import Precision, Width
from costmodel.workload.network import Layer, gemm
from solvers.budget import Budget
from solvers.mapping import exact
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.rules import SpaceRules
from solvers.outcome import Status

DATA = Path(__file__).parents[2] / "data" / "accelforge"
STATED: dict[str, int] = json.loads((DATA / "snowcat.json").read_text(encoding="utf-8"))
DEEPSEEK = STATED.pop("deepseek_v3")
SIMPLE: dict[str, dict[str, float]] = json.loads((DATA / "simple.json").read_text(encoding="utf-8"))
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


CONFIGURATIONS = Path(costmodel.__file__).parent / "workload" / "library" / "configurations"
WIDE = frozenset(
    ["QK", "QK_softmax", "CKV", "Q_latent", "FFG", "FFU", "FFB", "SFG", "SFU", "SFB", "FFD", "RFFB"]
)
"""Tensors of AccelForge's DeepSeek-V3 that have 16 bits a value; all others have 8."""


def test_deepseek_moves_the_bits_that_accelforge_states() -> None:
    """Its latent attention in the absorbed form, which the library's block has not: queries are multiplied
    into the latent space, where scores and values stay, without the part that turns. Tokens that are
    scattered to experts and gathered again move nothing there."""
    content = json.loads((CONFIGURATIONS / "deepseek_v3.json").read_text(encoding="utf-8"))["configuration"]
    tokens, heads, hidden = 256, content["num_attention_heads"], content["hidden_size"]
    head, value = content["qk_nope_head_dim"], content["v_head_dim"]
    queries, latent = content["q_lora_rank"], content["kv_lora_rank"]
    inside, experts = content["moe_intermediate_size"], content["n_routed_experts"]
    routed = tokens * content["num_experts_per_tok"] // experts
    # operand, weights, result; then M, N, K, and how many there are
    products = [
        ("I", "WCQ", "CQ", tokens, queries, hidden, 1),
        ("I", "WCKV", "CKV", tokens, latent, hidden, 1),
        ("CQ", "WQ", "Q", tokens, heads * head, queries, 1),
        ("Q", "WK", "Q_latent", tokens, latent, head, heads),
        ("Q_latent", "CKV", "QK", tokens * heads, tokens, latent, 1),
        ("QK_softmax", "CKV", "AV_latent", tokens * heads, latent, tokens, 1),
        ("AV_latent", "WV", "AV", tokens, value, latent, heads),
        ("AV", "WZ", "Z", tokens, hidden, heads * value, 1),
        ("Z", "WSFG", "SFG", tokens, inside, hidden, 1),
        ("Z", "WSFU", "SFU", tokens, inside, hidden, 1),
        ("SFH", "WSFD", "SFB", tokens, hidden, inside, 1),
        ("Z_per_expert", "WFFG", "FFG", routed, inside, hidden, experts),
        ("Z_per_expert", "WFFU", "FFU", routed, inside, hidden, experts),
        ("FFH", "WFFD", "FFD", routed, hidden, inside, experts),
    ]
    moved = sum(
        many * bits_of_product(names, sizes) for *names, m, n, k, many in products for sizes in [(m, n, k)]
    )
    scores, shared, chosen = tokens * tokens * heads, tokens * inside, experts * routed * inside
    elementwise = [
        ("QK QK_softmax", scores),
        ("SFG SFU SFH", shared),
        ("FFG FFU FFH", chosen),
        ("SFB RFFB FFB", tokens * hidden),
    ]
    moved += sum(width_of(name) * elements for names, elements in elementwise for name in names.split())
    assert moved == DEEPSEEK


def width_of(name: str) -> int:
    return 16 if name in WIDE else 8


def bits_of_product(names: list[str], sizes: tuple[int, int, int]) -> float:
    """The bits of DRAM of a product's proven mapping, its tensors as wide as AccelForge states."""
    m, n, k = sizes
    bits = tuple(zip("ABZ", map(width_of, names), strict=True))
    layer = replace(gemm("product", M=m, N=n, K=k), bits=bits)
    wide = Width(BITS)
    machine = replace(
        SNOWCAT, precision=Precision(wide, wide, wide, wide, from_network=True, pj_per_bit_product=0.0)
    )
    outcome = exact.solve(MappingProblem(machine, layer, "energy"), Budget())
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective is not None
    return outcome.objective


def test_a_block_of_gpt3_takes_what_accelforge_states_on_its_simple_machine() -> None:
    """A token behind 2,047 on a machine whose DRAM takes as much for a bit as its buffer: the buffer is of
    no use, and every product reads from DRAM and writes there. A MAC takes one unit of energy and of time,
    and so does a score of softmax, which is read and written once. Values have 16 bits.
    """
    hidden, heads, cached = 12_288, 96, 2_047
    head = hidden // heads
    # N, K, and how many products of one row there are
    products = [
        (hidden, hidden, 4),
        (cached, head, heads),
        (head, cached, heads),
        (4 * hidden, hidden, 1),
        (hidden, 4 * hidden, 1),
    ]
    layers = [(gemm("product", M=1, N=n, K=k), many) for n, k, many in products]
    scores = heads * cached
    energy = sum(many * simple_energy(layer, 16) for layer, many in layers) + scores * (1 + 2 * 16)
    assert energy == SIMPLE["gpt3_175B"]["energy"]
    assert sum(many * layer.macs for layer, many in layers) + scores == SIMPLE["gpt3_175B"]["latency"]


@pytest.mark.parametrize(("case", "size", "count"), [("matmuls", 64, 2), ("three_matmuls", 128, 3)])
def test_products_take_what_accelforge_states_on_its_simple_machine(case: str, size: int, count: int) -> None:
    layer = gemm("product", M=size, N=size, K=size)
    assert count * simple_energy(layer, 8) == SIMPLE[case]["energy"]
    assert count * layer.macs == SIMPLE[case]["latency"]


def simple_energy(layer: Layer, bits: int) -> float:
    """The proven least energy of a layer on AccelForge's `simple` machine."""
    levels = (
        StorageLevel("Buffer", 1 << 40, bits, 1.0 * bits, 1.0 * bits, 1.0 * bits),
        StorageLevel("DRAM", None, bits, 1.0 * bits, 1.0 * bits, 1.0 * bits),
    )
    machine = Architecture("simple", levels, Compute("MAC", bits, 1.0))
    outcome = exact.solve(MappingProblem(machine, layer, "energy", SpaceRules(keep="free")), Budget())
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective is not None
    return outcome.objective
