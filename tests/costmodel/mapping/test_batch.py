"""Batches against ``evaluate``, row by row, and against Timeloop's own numbers."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import groupby
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from costmodel.formats.cases.folder import read_cases
from costmodel.formats.cases.results import expected_results, oracle_kind
from costmodel.hardware.architecture import ALL_ROLES, Architecture, Compute, StorageLevel
from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping, violations
from costmodel.workload.network import Layer, Tensor, batched_matmul, convolution, gemm

RandomMappings = Callable[[Architecture, Layer, int, int], Iterator[Mapping]]
INVALID_CYCLES = np.iinfo(np.int64).max

small = st.sampled_from([1, 1, 2, 3, 4, 6, 8, 12])
large = st.sampled_from([1, 2, 5, 7, 12, 16, 28, 56, 64, 96, 112])
filters = st.sampled_from([1, 1, 2, 3, 4, 5, 7])
steps = st.tuples(st.integers(1, 3), st.integers(1, 3))


@st.composite
def layers(draw: st.DrawFn) -> Layer:
    kind = draw(st.sampled_from(["dense", "depthwise", "grouped", "gemm", "batched"]))
    if kind == "gemm":
        return gemm("g", M=draw(large), N=draw(large), K=draw(large))
    if kind == "batched":
        return batched_matmul("b", B=draw(small), M=draw(large), N=draw(large), K=draw(large))
    groups = 1 if kind == "dense" else draw(st.sampled_from([2, 4, 6]))
    channels = 1 if kind == "depthwise" else draw(large)
    return convolution(
        "c",
        N=draw(small),
        K=groups * (1 if kind == "depthwise" else draw(large)),
        C=groups * channels,
        P=draw(large),
        Q=draw(large),
        R=draw(filters),
        S=draw(filters),
        stride=draw(steps),
        dilation=draw(steps),
        groups=groups,
    )


energies = st.sampled_from([0.0, 0.03, 0.56, 2.2, 128.0])
bandwidths = st.sampled_from([None, None, 0.25, 1.5, 4, 16, 64.0])
fanouts = st.sampled_from([1, 1, 2, 4, 7, 12])


@st.composite
def levels(draw: st.DrawFn, name: str, outermost: bool) -> StorageLevel:
    sizes = st.sampled_from([None, 1, 4, 64, 512, 10_000, 10**6])
    roles = st.lists(st.sampled_from(ALL_ROLES), min_size=1, unique=True).map(tuple)
    return StorageLevel(
        name,
        size_words=None if outermost else draw(sizes),
        word_bits=16,
        read_energy_pj=draw(energies),
        write_energy_pj=draw(energies),
        update_energy_pj=draw(energies),
        block_size=draw(st.sampled_from([1, 1, 4, 8, 64])),
        leakage_pj_per_cycle=draw(st.sampled_from([0.0, 0.125])),
        read_bandwidth=draw(bandwidths),
        write_bandwidth=draw(bandwidths),
        shared_bandwidth=draw(bandwidths),
        multiple_buffering=draw(st.sampled_from([1, 1, 1.5, 2])),
        fanout_x=draw(fanouts),
        fanout_y=draw(fanouts),
        keeps=ALL_ROLES if outermost else draw(st.one_of(st.just(ALL_ROLES), roles)),
    )


@st.composite
def architectures(draw: st.DrawFn) -> Architecture:
    count = draw(st.integers(1, 4))
    stack = tuple(draw(levels(f"L{index}", index == count - 1)) for index in range(count))
    return Architecture("random", stack, Compute("MAC", 16, draw(energies)))


def agree(architecture: Architecture, layer: Layer, mappings: list[Mapping]) -> None:
    batch = MappingBatch.of(mappings, architecture, layer)
    found = BatchEvaluator(architecture, layer).evaluate(batch)
    assert found.valid.all()
    for row, mapping in enumerate(mappings):
        expected = evaluate(architecture, layer, mapping)
        assert int(found.cycles[row]) == expected.cycles
        assert found.energy_pj[row] == pytest.approx(expected.energy_pj, rel=1e-12, abs=0)
        assert found.edp_pj_cycles[row] == pytest.approx(expected.edp_pj_cycles, rel=1e-12, abs=0)


@pytest.mark.slow
@given(architecture=architectures(), layer=layers(), begun=st.booleans(), seed=st.integers(0, 2**32))
@settings(
    deadline=None,
    max_examples=150,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_every_row_equals_evaluate(
    random_mappings: RandomMappings, architecture: Architecture, layer: Layer, begun: bool, seed: int
) -> None:
    layer = layer.continued if begun else layer
    agree(architecture, layer, list(random_mappings(architecture, layer, 8, seed)))


@pytest.mark.slow
@given(architecture=architectures(), layer=layers(), seed=st.integers(0, 2**32))
@settings(
    deadline=None,
    max_examples=40,
    suppress_health_check=[HealthCheck.function_scoped_fixture, HealthCheck.too_slow],
)
def test_valid_means_no_violations(
    random_mappings: RandomMappings, architecture: Architecture, layer: Layer, seed: int
) -> None:
    """Rows valid for roomy hardware, on hardware with tighter sizes, fan-outs and roles."""
    roomy = replace(
        architecture,
        levels=tuple(
            replace(level, size_words=None, fanout_x=16, fanout_y=16, keeps=ALL_ROLES)
            for level in architecture.levels
        ),
    )
    mappings = list(random_mappings(roomy, layer, 20, seed))
    found = BatchEvaluator(architecture, layer).evaluate(MappingBatch.of(mappings, architecture, layer))
    expected = [not violations(architecture, layer, mapping) for mapping in mappings]
    assert found.valid.tolist() == expected
    assert (found.cycles[~found.valid] == INVALID_CYCLES).all()
    assert np.isinf(found.energy_pj[~found.valid]).all()


@pytest.mark.parametrize("name", ["A_eyeriss_like", "B_simba_like", "D_tpu_like", "E_four_level"])
def test_cycles_and_energy_are_timeloops(cases_folder: Path, name: str) -> None:
    cases = [c for c in read_cases(cases_folder / f"{name}.jsonl.gz") if oracle_kind(c) == "exact"]
    assert len(cases) >= 20
    for _, same in groupby(cases, key=lambda case: case.layer.shape):
        group = list(same)
        architecture, layer = group[0].architecture, group[0].layer
        batch = MappingBatch.of([case.mapping for case in group], architecture, layer)
        found = BatchEvaluator(architecture, layer).evaluate(batch)
        assert found.valid.all()
        assert found.cycles.tolist() == [expected_results(case)["cycles"] for case in group]
        energies = [expected_results(case)["energy_pJ"] for case in group]
        assert found.energy_pj.tolist() == pytest.approx(energies, rel=1e-9)


def two_levels(**buffer: object) -> Architecture:
    inner = StorageLevel("Buffer", 64, 16, 1.0, 1.0, 1.0, fanout_x=4, fanout_y=2)
    dram = StorageLevel("DRAM", None, 16, 100.0, 100.0, 100.0)
    return Architecture("two", (replace(inner, **buffer), dram), Compute("MAC", 16, 1.0))  # type: ignore[arg-type]


LAYER = gemm("g", M=4, N=4, K=8)
EVERYTHING = frozenset({"A", "B", "Z"})
MAPPING = Mapping(
    (
        LevelMapping((("K", 2), ("M", 2)), (("N", 4),), (("M", 2),), EVERYTHING),
        LevelMapping((("K", 4),), (), (), EVERYTHING),
    )
)


def one_row() -> MappingBatch:
    return MappingBatch.of([MAPPING], two_levels(), LAYER)


def test_a_row_says_what_its_mapping_says() -> None:
    batch = one_row()
    assert batch.temporal[0].tolist() == [[2, 1, 2], [1, 1, 4]]
    assert batch.permutation[0].tolist() == [[2, 0, 1], [2, 0, 1]]
    assert (batch.spatial_x[0, 0].tolist(), batch.spatial_y[0, 0].tolist()) == ([1, 4, 1], [2, 1, 1])
    assert batch.mapping(0, LAYER) == MAPPING


def test_mappings_survive_the_way_through_rows(random_mappings: RandomMappings) -> None:
    architecture, layer = two_levels(size_words=5000), convolution("c", K=8, C=6, P=9, Q=4, R=3, S=2)
    mappings = list(random_mappings(architecture, layer, 50, 3))
    batch = MappingBatch.of(mappings, architecture, layer)
    order = [dim for dim, _ in layer.dims]
    for row, mapping in enumerate(mappings):
        again = batch.mapping(row, layer)
        for level, other in zip(mapping.levels, again.levels, strict=True):
            assert (level.temporal, level.keep) == (other.temporal, other.keep)
            by_dim = sorted(level.spatial_x, key=lambda loop: order.index(loop[0]))
            assert tuple(by_dim) == other.spatial_x


def broken(name: str) -> MappingBatch:
    batch = one_row()
    if name == "product too small":
        batch.temporal[0, 0, 2] = 1
    elif name == "product too large":
        batch.temporal[0, 1, 2] = 8
    elif name == "wraps around 64 bits":
        batch.temporal[0, :, 2] = 2**31 - 1
    elif name == "factor 0":
        batch.temporal[0, 0, 2] = 0
    elif name == "negative factors":
        batch.temporal[0, :, 2] *= -1
    elif name == "dim on X and Y":
        batch.spatial_x[0, 0, 1], batch.spatial_y[0, 0, 1] = 2, 2
        batch.spatial_y[0, 0, 0], batch.temporal[0, 0, 0] = 1, 4
    elif name == "fan-out":
        batch.spatial_y[0, 0, 0], batch.temporal[0, 0, 0] = 4, 1
    elif name == "loop twice":
        batch.permutation[0, 1] = [2, 2, 1]
    elif name == "no such loop":
        batch.permutation[0, 1] = [2, 3, 1]
    elif name == "outermost bypassed":
        batch.keep[0, 1, 2] = False
    return batch


@pytest.mark.parametrize(
    "name",
    [
        "product too small",
        "product too large",
        "wraps around 64 bits",
        "factor 0",
        "negative factors",
        "dim on X and Y",
        "fan-out",
        "loop twice",
        "no such loop",
        "outermost bypassed",
    ],
)
def test_broken_rows_are_invalid_and_do_no_harm(name: str) -> None:
    evaluator = BatchEvaluator(two_levels(), LAYER)
    good = evaluator.evaluate(one_row())
    both = MappingBatch(
        *(np.concatenate(pair) for pair in zip(broken(name).rows, one_row().rows, strict=True))
    )
    found = evaluator.evaluate(both)
    assert found.valid.tolist() == [False, True]
    assert found.cycles.tolist() == [INVALID_CYCLES, int(good.cycles[0])]
    assert found.energy_pj.tolist() == [np.inf, float(good.energy_pj[0])]


@pytest.mark.parametrize(
    ("size", "buffering", "valid"), [(32, 1, True), (31, 1, False), (64, 2, True), (63, 2, False)]
)
def test_capacity_counts_usable_words(size: int, buffering: float, valid: bool) -> None:
    """The tiles of MAPPING in the buffer are A 4x2, B 4x2 and Z 4x4: 32 words."""
    architecture = two_levels(size_words=size, multiple_buffering=buffering)
    assert BatchEvaluator(architecture, LAYER).evaluate(one_row()).valid.tolist() == [valid]


def test_a_role_the_level_cannot_keep_is_invalid() -> None:
    architecture = two_levels(keeps=("weights", "outputs"))
    assert not BatchEvaluator(architecture, LAYER).evaluate(one_row()).valid[0]


def test_counts_beyond_32_bits_are_exact() -> None:
    layer = gemm("huge", M=2**16, N=2**16, K=2**14)
    architecture = two_levels(size_words=None)
    keep = frozenset({"Z"})
    mapping = Mapping(
        (
            LevelMapping((("K", 2**14), ("M", 2**15)), (("N", 4),), (("M", 2),), keep),
            LevelMapping((("N", 2**14),), (), (), EVERYTHING),
        )
    )
    agree(architecture, layer, [mapping])
    assert evaluate(architecture, layer, mapping).cycles > 2**42


def test_slices_and_selections_are_batches() -> None:
    batch = MappingBatch.of([MAPPING] * 5, two_levels(), LAYER)
    assert (len(batch), len(batch[1:3]), len(batch[np.array([0, 4, 4])])) == (5, 2, 3)
    assert BatchEvaluator(two_levels(), LAYER).evaluate(batch[::2]).valid.all()
    assert len(BatchEvaluator(two_levels(), LAYER).evaluate(batch[:0]).cycles) == 0


def test_rows_of_another_shape_are_refused() -> None:
    evaluator = BatchEvaluator(two_levels(), convolution("c", K=4, C=4, P=4, Q=4, R=1, S=1))
    with pytest.raises(ValueError, match="2, 3"):
        evaluator.evaluate(one_row())


def test_evaluators_travel() -> None:
    evaluator = BatchEvaluator(two_levels(), LAYER)
    expected = evaluator.evaluate(one_row()).cycles.tolist()
    assert pickle.loads(pickle.dumps(evaluator)).evaluate(one_row()).cycles.tolist() == expected


@pytest.mark.parametrize("coefficients", [(1, 1, 1), (2, 3, 1), (4, 6, 9)])
def test_axes_that_sum_three_dims(
    random_mappings: RandomMappings, coefficients: tuple[int, int, int]
) -> None:
    axis = tuple(zip("MNK", coefficients, strict=True))
    layer = Layer(
        "odd", (("M", 12), ("N", 8), ("K", 6)), (Tensor.of_terms("A", (axis,), "inputs"), *LAYER.tensors[1:])
    )
    architecture = two_levels(size_words=4000, fanout_x=12, fanout_y=12)
    mappings = list(random_mappings(architecture, layer, 200, 2))
    assert sum(len(mapping.levels[0].spatial) == 3 for mapping in mappings) > 10
    agree(architecture, layer, mappings)


def test_outputs_with_strides(random_mappings: RandomMappings) -> None:
    """Shares of the output that do not divide exactly (item 9), outputs that slide."""
    strided = Tensor.of_terms("Z", ((("M", 3),), (("N", 2),)), "outputs")
    sliding = Tensor.of_terms("Z", ((("M", 2), ("N", 1)),), "outputs")
    architecture = two_levels(size_words=4000)
    for output in (strided, sliding):
        layer = Layer("odd", (("M", 12), ("N", 8), ("K", 6)), (*LAYER.tensors[:2], output))
        agree(architecture, layer, list(random_mappings(architecture, layer, 60, 5)))
