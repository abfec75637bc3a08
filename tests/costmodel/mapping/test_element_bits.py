"""Elements with widths of their own: what levels hold and move, counted in bits, against a literal walk."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from itertools import permutations, product

import numpy as np
import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.hardware.precision import Precision, Width
from costmodel.mapping.batch.batch import BatchEvaluator
from costmodel.mapping.bounds.bounds import lower_bounds
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping, violations
from costmodel.workload.network import Layer, convolution, gemm
from solvers.budget import Budget
from solvers.mapping import exact, exhaustive
from solvers.mapping.problem import MappingProblem, Objective
from solvers.mapping.space.rules import SpaceRules
from solvers.mapping.space.space import MappingSpace
from tests.costmodel.mapping.literal_bits import Bits, cost

INT4_SCALED, INT8, INT32 = Width(4, 16, 128), Width(8), Width(32)
LAW = 0.02


def precision(weights: Width, activations: Width, sums: Width, law: float | None = LAW) -> Precision:
    return Precision(weights, activations, sums, activations, pj_per_bit_product=law)


PRECISIONS = {
    "int8 with 32-bit sums": precision(INT8, INT8, INT32),
    "int4 weights with scales": precision(INT4_SCALED, INT8, INT32),
    "mxfp4, sums as narrow": precision(Width.named("mxfp4"), Width.named("mxfp4"), Width.named("mxfp4")),
    "bf16 activations": precision(Width.named("fp8"), Width.named("bf16"), INT32),
}

SMALL = Architecture(
    "small",
    (
        StorageLevel("Registers", 6, 16, 0.5, 0.6, 0.7, fanout_x=1, read_bandwidth=1.5),
        StorageLevel(
            "Buffer", 14, 32, 3.0, 3.5, 4.0, block_size=2, fanout_x=2, shared_bandwidth=1.25,
            leakage_pj_per_cycle=0.25,
        ),
        StorageLevel("DRAM", None, 64, 100.0, 110.0, 120.0, read_bandwidth=0.25, write_bandwidth=0.5),
    ),
    Compute("MAC", 16, 2.0),
)  # fmt: skip


def with_precision(architecture: Architecture, one: Precision) -> Architecture:
    return replace(architecture, precision=one)


def bits_of(one: Precision) -> Bits:
    def exactly(width: Width) -> Fraction:
        return Fraction(width.bits * width.group + width.scale_bits, width.group)

    return Bits(
        exactly(one.activations), exactly(one.weights), exactly(one.activations), exactly(one.partial_sums)
    )


def mac_pj(one: Precision) -> float:
    both = {one.weights.bits, one.activations.bits}
    return 2.0 if both == {16} else one.weights.bits * one.activations.bits * LAW


def splits(size: int, slots: int) -> Iterator[tuple[int, ...]]:
    """Every way to write ``size`` as a product of ``slots`` factors in order."""
    if slots == 1:
        yield (size,)
        return
    for factor in range(1, size + 1):
        if size % factor == 0:
            for rest in splits(size // factor, slots - 1):
                yield factor, *rest


def every_mapping(layer: Layer, keeps: list[frozenset[str]]) -> Iterator[Mapping]:
    """All mappings on SMALL that keep ``keeps`` at its inner levels, at most two MACs at once."""
    sizes = dict(layer.dims)
    for factors in product(*(list(splits(sizes[dim], 4)) for dim in "MNK")):
        # the slots of a dim: registers, fan-out of the buffer, buffer, DRAM
        spread = {dim: of[1] for dim, of in zip("MNK", factors, strict=True) if of[1] > 1}
        if np.prod(list(spread.values()) or [1]) > 2:
            continue
        blocks = [
            [(dim, of[slot]) for dim, of in zip("MNK", factors, strict=True) if of[slot] > 1]
            for slot in (0, 2, 3)
        ]
        for orders in product(*(list(permutations(block)) for block in blocks)):
            kept = [*keeps, frozenset("ABZ")]
            x = [(), tuple(spread.items()), ()]
            yield Mapping(
                tuple(LevelMapping(tuple(o), s, (), k) for o, s, k in zip(orders, x, kept, strict=True))
            )


TINY = gemm("tiny", M=2, N=2, K=4)
KEEPS = [
    [frozenset("ABZ"), frozenset("ABZ")],
    [frozenset("Z"), frozenset("AB")],
    [frozenset("AB"), frozenset("Z")],
    [frozenset("A"), frozenset("ABZ")],
]


@pytest.mark.slow
@pytest.mark.parametrize("name", PRECISIONS)
def test_bits_are_those_of_a_literal_walk(name: str) -> None:
    """Every mapping of a tiny product with some keep sets: fits or not, energy and cycles."""
    one = PRECISIONS[name]
    architecture, bits = with_precision(SMALL, one), bits_of(one)
    fitting = misfits = 0
    for keeps in KEEPS:
        # some of them, for a literal walk takes a millisecond
        for mapping in list(every_mapping(TINY, keeps))[::5]:
            literal = cost(SMALL, TINY, mapping, bits, mac_pj(one))
            assert literal.fits == (not violations(architecture, TINY, mapping)), mapping
            if not literal.fits:
                misfits += 1
                continue
            fitting += 1
            found = evaluate(architecture, TINY, mapping)
            # the model divides in floating point, and may round up a demand that divides exactly
            more = found.cycles - literal.cycles
            assert more in (0, 1)
            leaked = more * literal.leakage_pj_per_cycle
            assert found.energy_pj == pytest.approx(literal.energy_pj + leaked, rel=1e-12), mapping
    assert fitting > 100
    assert misfits > 10 or name.startswith("mxfp4")


@pytest.mark.parametrize("name", PRECISIONS)
@pytest.mark.parametrize("machine", ["eyeriss", "simba"])
def test_batches_count_bits_as_evaluate_does(machine: str, name: str) -> None:
    one = replace(PRECISIONS[name], pj_per_bit_product=0.01)
    architecture = with_precision(load_architecture(machine), one)
    for layer in (convolution("c", K=8, C=6, P=4, Q=4, R=3, S=3, stride=(2, 1)), gemm("g", M=12, N=16, K=24)):
        batch = MappingSpace(architecture, layer, SpaceRules("free")).sample(range(2), 3, 64)
        found = BatchEvaluator(architecture, layer).evaluate(batch)
        bounds = lower_bounds(architecture, layer)
        assert found.valid.any()
        for row in range(len(batch)):
            mapping = batch.mapping(row, layer)
            assert bool(found.valid[row]) == (not violations(architecture, layer, mapping))
            if found.valid[row]:
                one_by_one = evaluate(architecture, layer, mapping)
                assert found.cycles[row] == one_by_one.cycles
                assert found.energy_pj[row] == pytest.approx(one_by_one.energy_pj, rel=1e-12)
                assert bounds.energy_pj <= one_by_one.energy_pj
                assert bounds.cycles <= one_by_one.cycles


def test_one_width_everywhere_changes_no_bit_of_any_count() -> None:
    """eyeriss has 16-bit words throughout, so 16 bits for all is what it counts without a precision."""
    plain, sixteen = load_architecture("eyeriss"), Width(16)
    same = with_precision(plain, precision(sixteen, sixteen, sixteen, None))
    layer = convolution("c", K=8, C=6, P=4, Q=4, R=3, S=3)
    batch = MappingSpace(plain, layer, SpaceRules("free")).sample(range(2), 7, 64)
    ours, theirs = (BatchEvaluator(one, layer).evaluate(batch) for one in (plain, same))
    assert (ours.cycles == theirs.cycles).all()
    assert (ours.energy_pj == theirs.energy_pj).all()
    row = int(np.flatnonzero(ours.valid)[0])
    mapping = batch.mapping(row, layer)
    assert evaluate(plain, layer, mapping) == evaluate(same, layer, mapping)
    assert lower_bounds(plain, layer) == lower_bounds(same, layer)


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["energy", "cycles", "edp"])
@pytest.mark.parametrize("name", PRECISIONS)
def test_exact_proves_what_an_enumeration_finds(name: str, objective: Objective) -> None:
    """The least of every mapping that keeps all it can, each costed by the literal walk.

    Energies are those of a machine without bandwidths, whose cycles no rounding moves."""
    one, plain = PRECISIONS[name], SMALL
    if objective != "cycles":
        levels = [
            replace(level, read_bandwidth=None, write_bandwidth=None, shared_bandwidth=None)
            for level in SMALL.levels
        ]
        plain = replace(SMALL, levels=tuple(levels))
    architecture, bits = with_precision(plain, one), bits_of(one)
    best = float("inf")
    for mapping in every_mapping(TINY, [frozenset("ABZ"), frozenset("ABZ")]):
        literal = cost(plain, TINY, mapping, bits, mac_pj(one))
        if literal.fits:
            values = {"energy": literal.energy_pj, "cycles": literal.cycles}
            values["edp"] = values["energy"] * values["cycles"]
            best = min(best, values[objective])
    problem = MappingProblem(architecture, TINY, objective, SpaceRules("all"))
    outcome = exact.solve(problem, Budget(30))
    assert outcome.status == "optimal"
    assert outcome.objective == pytest.approx(best, rel=1e-12, abs=1 if objective == "cycles" else 0)
    assert outcome.bound == outcome.objective


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "objective"),
    [
        ("int4 weights with scales", "edp"),
        ("int8 with 32-bit sums", "energy"),
        pytest.param("int8 with 32-bit sums", "cycles", marks=pytest.mark.slow),
        pytest.param("mxfp4, sums as narrow", "edp", marks=pytest.mark.slow),
        pytest.param("bf16 activations", "edp", marks=pytest.mark.slow),
    ],
)
def test_exact_and_exhaustive_agree_with_any_bypass(name: str, objective: Objective) -> None:
    layer = gemm("g", M=2, N=2, K=6)
    rules = SpaceRules("free")
    problem = MappingProblem(with_precision(SMALL, PRECISIONS[name]), layer, objective, rules)
    one, other = exact.solve(problem, Budget(30)), exhaustive.solve(problem, Budget(60))
    assert one.status == other.status == "optimal"
    assert one.objective == pytest.approx(other.objective, rel=1e-12)


def test_windows_and_strides_are_proven_too() -> None:
    layer = convolution("c", K=2, C=2, P=2, Q=1, R=2, S=1)
    problem = MappingProblem(
        with_precision(SMALL, PRECISIONS["int4 weights with scales"]), layer, "edp", SpaceRules("fitting")
    )
    one, other = exact.solve(problem, Budget(30)), exhaustive.solve(problem, Budget(60))
    assert one.status == other.status == "optimal"
    assert one.objective == pytest.approx(other.objective, rel=1e-12)


def test_what_has_no_law_is_refused() -> None:
    without = with_precision(SMALL, precision(INT8, INT8, INT32, None))
    mapping = next(every_mapping(TINY, KEEPS[0]))
    with pytest.raises(InputError, match=re.escape("a law of the energy of MACs, found operands of 8 and 8")):
        evaluate(without, TINY, mapping)
