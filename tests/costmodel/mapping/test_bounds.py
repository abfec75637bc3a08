"""Bounds hold for every mapping tried, and their parts equal enumeration."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import product
from math import prod
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.formats.architectures import load_architecture
from costmodel.formats.cases.folder import read_cases
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.bounds import sharing
from costmodel.mapping.bounds.bounds import Bounds, lower_bounds, touched_words
from costmodel.mapping.bounds.sharing import allocations, largest_product
from costmodel.mapping.counts.traffic import multicast_groups, nest_of
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer, Role, Tensor, batched_matmul, convolution, gemm

LAYERS = [
    convolution("halo", K=8, C=4, P=12, Q=6, R=3, S=3),
    convolution("strided", N=2, K=6, C=4, P=4, Q=4, R=2, S=1, stride=(3, 2), dilation=(1, 2)),
    convolution("depthwise", K=16, C=16, P=8, Q=8, R=3, S=3, groups=16),
    convolution("grouped", K=8, C=16, P=4, Q=4, R=3, S=1, groups=4),
    gemm("matrix", M=32, N=8, K=64),
    batched_matmul("batched", B=4, M=8, N=8, K=6),
]
ODD = Layer(
    "odd",
    (("X", 8), ("Y", 4), ("Z", 3)),
    (
        Tensor.of_terms("Kernel", ((("Y", 2),),), "weights"),
        Tensor.of_terms("Signal", ((("X", 3), ("Y", 5), ("Z", 1)),), "inputs"),
        Tensor.of_terms("Out", ((("X", 2), ("Z", 1)),), "outputs"),
    ),
)
LIBRARY = ["A_eyeriss_like", "B_simba_like", "C_two_level", "D_tpu_like", "E_four_level", "eyeriss", "simba"]


def hold(bounds: Bounds, architecture: Architecture, layer: Layer, mapping: Mapping) -> bool:
    evaluation = evaluate(architecture, layer, mapping)
    return (
        evaluation.cycles >= bounds.cycles
        and evaluation.energy_pj >= bounds.energy_pj
        and evaluation.edp_pj_cycles >= bounds.edp_pj_cycles
    )


@pytest.mark.slow
def test_bounds_hold_for_every_case(cases_folder: Path) -> None:
    for case in read_cases(cases_folder):
        bounds = lower_bounds(case.architecture, case.layer)
        assert hold(bounds, case.architecture, case.layer, case.mapping), case.id


@pytest.mark.parametrize("name", LIBRARY)
@pytest.mark.parametrize("layer", [*LAYERS, ODD], ids=lambda layer: layer.name)
def test_bounds_hold_for_random_mappings(
    name: str, layer: Layer, random_mappings: Callable[..., Any]
) -> None:
    architecture = load_architecture(name)
    bounds = lower_bounds(architecture, layer)
    for mapping in random_mappings(architecture, layer, 60, 1):
        assert hold(bounds, architecture, layer, mapping), mapping


COSTS = st.just(0.0) | st.floats(0.001, 100)
BANDWIDTH = st.none() | st.floats(0.1, 20)


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    def level(name: str, size: int | None) -> StorageLevel:
        roles: list[tuple[Role, ...]] = [
            ("weights", "inputs", "outputs"),
            ("weights",),
            ("inputs", "outputs"),
        ]
        return StorageLevel(
            name,
            size,
            16,
            draw(COSTS),
            draw(COSTS),
            draw(COSTS),
            block_size=draw(st.sampled_from([1, 4, 7])),
            leakage_pj_per_cycle=draw(st.sampled_from([0.0, 0.5])),
            read_bandwidth=draw(BANDWIDTH),
            write_bandwidth=draw(BANDWIDTH),
            shared_bandwidth=draw(BANDWIDTH),
            fanout_x=draw(st.sampled_from([1, 2, 3, 4])),
            fanout_y=draw(st.sampled_from([1, 1, 4])),
            keeps=roles[0] if size is None else draw(st.sampled_from(roles)),
        )

    inner = [level(f"L{index}", draw(st.integers(1, 500))) for index in range(draw(st.integers(0, 3)))]
    return Architecture("drawn", (*inner, level("DRAM", None)), Compute("MAC", 16, draw(COSTS)))


@pytest.mark.slow
@settings(deadline=None)
@given(architectures(), st.sampled_from([*LAYERS, ODD]), st.integers(0, 10**6))
def test_bounds_hold_on_any_architecture(
    random_mappings: Callable[..., Any], architecture: Architecture, layer: Layer, seed: int
) -> None:
    bounds = lower_bounds(architecture, layer)
    for mapping in random_mappings(architecture, layer, 8, seed):
        assert hold(bounds, architecture, layer, mapping), mapping


@pytest.mark.parametrize("name", LIBRARY)
@pytest.mark.parametrize("layer", [*LAYERS, ODD], ids=lambda layer: layer.name)
def test_some_allocation_covers_what_every_mapping_shares(
    name: str, layer: Layer, random_mappings: Callable[..., Any]
) -> None:
    architecture = load_architecture(name)
    ways = allocations(architecture, layer)
    for mapping in random_mappings(architecture, layer, 30, 2):
        nest = nest_of(mapping)
        shared = []
        reached = [1.0] * len(layer.tensors)
        for block in nest.spatial:
            children = prod(loop.bound for loop in block)
            groups = [multicast_groups(tensor, block) for tensor in layer.tensors]
            reached = [r * children / g for r, g in zip(reached, groups, strict=True)]
            shared.append(reached)
        assert (ways >= shared).all(axis=(1, 2)).any(), mapping


def deep() -> Architecture:
    """Eight fan-outs: too many ways to spend them to look at each."""
    inner = [StorageLevel(f"L{i}", 64 << i, 16, 1.0 + i, 1.0, 2.0, fanout_x=8, fanout_y=6) for i in range(4)]
    dram = StorageLevel("DRAM", None, 16, 100.0, 100.0, 100.0, read_bandwidth=4)
    return Architecture("deep", (*inner, dram), Compute("MAC", 16, 1.0))


@pytest.mark.parametrize("most", [1, 300, sharing.MOST_ALLOCATIONS])
def test_fewer_allocations_give_weaker_bounds_that_hold(
    most: int, monkeypatch: pytest.MonkeyPatch, random_mappings: Callable[..., Any]
) -> None:
    layer, chip = LAYERS[0], deep()
    full = lower_bounds(chip, layer)
    monkeypatch.setattr(sharing, "MOST_ALLOCATIONS", most)
    bounds = lower_bounds(chip, layer)
    assert bounds.energy_pj <= full.energy_pj
    assert bounds.edp_pj_cycles <= full.edp_pj_cycles
    for mapping in random_mappings(chip, layer, 50, 5):
        assert hold(bounds, chip, layer, mapping)


@given(st.integers(1, 5000), st.lists(st.integers(1, 12), max_size=3))
def test_largest_product_equals_enumeration(points: int, fanouts: list[int]) -> None:
    products = (prod(factors) for factors in product(*(range(1, f + 1) for f in fanouts)))
    assert largest_product(points, tuple(fanouts)) == max(p for p in products if points % p == 0)


@pytest.mark.parametrize("layer", [*LAYERS, ODD], ids=lambda layer: layer.name)
def test_touched_words_equal_enumeration(layer: Layer) -> None:
    names = [dim for dim, _ in layer.dims]
    for tensor in layer.tensors:
        used = [name for name in names if name in tensor.dims]
        words = set()
        for point in product(*(range(layer.sizes[name]) for name in used)):
            at = dict(zip(used, point, strict=True))
            words.add(tuple(sum(c * at[dim] for dim, c in axis) for axis in tensor.terms))
        assert touched_words(tensor, layer.sizes) == len(words)


# --- tightness: where the optimum is known, the bound is it


def small_chip(**dram: Any) -> Architecture:
    buffer = StorageLevel("Buffer", 10**6, 16, 1.0, 1.0, 1.0, fanout_x=4)
    return Architecture(
        "chip", (buffer, StorageLevel("DRAM", None, 16, 100.0, 100.0, 100.0, **dram)), Compute("MAC", 16, 1.0)
    )


@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_compute_roof_is_reached(layer: Layer, random_mappings: Callable[..., Any]) -> None:
    chip = small_chip()
    bounds = lower_bounds(chip, layer)
    best = min(evaluate(chip, layer, m).cycles for m in random_mappings(chip, layer, 300, 4))
    assert bounds.cycles == best == layer.macs // 4


def test_bandwidth_roof() -> None:
    layer = gemm("g", M=8, N=8, K=2)
    assert lower_bounds(small_chip(read_bandwidth=0.5), layer).cycles == 64
    assert lower_bounds(small_chip(write_bandwidth=0.5), layer).cycles == 128
    assert lower_bounds(small_chip(shared_bandwidth=0.5), layer).cycles == 192


def test_energy_of_a_dot_product_is_met_exactly(random_mappings: Callable[..., Any]) -> None:
    """One output of 8 products without fan-out: every access is forced."""
    chip = small_chip()
    narrow = replace(chip, levels=(replace(chip.levels[0], fanout_x=1), chip.levels[1]))
    layer = gemm("g", M=1, N=1, K=8)
    bounds = lower_bounds(narrow, layer)
    best = min(evaluate(narrow, layer, m).energy_pj for m in random_mappings(narrow, layer, 100, 4))
    assert bounds.energy_pj == pytest.approx(best, rel=1e-9)


def test_a_level_that_cannot_keep_a_tensor_does_not_lower_the_bound() -> None:
    layer = gemm("g", M=8, N=8, K=8)
    chip = small_chip()
    without = replace(chip, levels=(replace(chip.levels[0], keeps=("inputs", "outputs")), chip.levels[1]))
    assert lower_bounds(without, layer).energy_pj > lower_bounds(chip, layer).energy_pj


@given(st.lists(st.integers(1, 720), min_size=1, max_size=4), st.integers(1, 12), st.integers(1, 12))
def test_ways_to_spend_a_fan_out_are_those_that_no_other_way_covers(
    sizes: list[int], fanout_x: int, fanout_y: int
) -> None:
    """Every choice of a divisor of each size for each side, by the sizes themselves."""

    def spent(fanout: int) -> list[tuple[int, ...]]:
        divisors = [[one for one in range(1, fanout + 1) if size % one == 0] for size in sizes]
        return [way for way in product(*divisors) if prod(way) <= fanout]

    every = {
        tuple(min(a * b, size) for a, b, size in zip(across, along, sizes, strict=True))
        for across in spent(fanout_x)
        for along in spent(fanout_y)
    }
    covered = {
        way
        for way in every
        if any(all(a <= b for a, b in zip(way, other, strict=True)) for other in every - {way})
    }
    found = sharing._level_ways(tuple(sizes), fanout_x, fanout_y).tolist()
    assert sorted(map(tuple, found)) == sorted(every - covered)
