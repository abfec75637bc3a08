"""The rules of a mapping space: what they refuse, how they travel, what they say of a mapping."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.mapping import LevelMapping, Mapping
from costmodel.workload.network import convolution, gemm
from solvers.mapping.problem import MappingProblem, executed_layer, padded_dims, violations
from solvers.mapping.space.rule_violations import rule_violations
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules, allowed_keeps
from solvers.mapping.space.space import MappingSpace

GEMM = gemm("g", M=8, N=4, K=4)
ALL = frozenset("ABZ")
MAPPING = Mapping(
    (
        LevelMapping((("M", 2), ("K", 2)), (("N", 2),), (("M", 2),), ALL),
        LevelMapping((("K", 2), ("M", 2), ("N", 2)), (), (), ALL),
    )
)


def asked(**buffer: Any) -> SpaceRules:
    return SpaceRules(levels=(LevelRules("Buffer", **buffer),))


@pytest.mark.parametrize(
    ("rules", "reason"),
    [
        (asked(temporal=(FactorRule("M", 2, 2), FactorRule("N", most=1))), ""),
        (asked(temporal=(FactorRule("K", 4),)), "Buffer: temporal factor K=2, the constraint is K >= 4"),
        (asked(temporal=(FactorRule("N", 2),)), "Buffer: temporal factor N=1, the constraint is N >= 2"),
        (asked(spatial=(FactorRule("M", 1, 1),)), "Buffer: spatial factor M=2, the constraint is M = 1"),
        (asked(spatial_x=("N",), spatial_y=("M", "K")), ""),
        (asked(spatial_x=("M",)), "Buffer: N is spread on X, the constraint does not allow it there"),
        (asked(spatial_y=()), "Buffer: M is spread on Y, the constraint does not allow it there"),
        (asked(innermost=("N", "M")), ""),
        (asked(innermost=("K",)), "Buffer: loops M, K (innermost first), asked innermost are K"),
        (asked(outermost=("K", "M")), ""),
        (asked(outermost=("M",)), "Buffer: loops M, K (innermost first), asked outermost are M"),
        (asked(keep=("A", "outputs")), ""),
        (asked(bypass=("weights",)), "Buffer: keeps A, B, Z, which is no set that 'fitting' allows"),
    ],
)
def test_what_the_checker_says(two_levels: Architecture, rules: SpaceRules, reason: str) -> None:
    problem = MappingProblem(two_levels, GEMM, rules=rules)
    assert violations(problem, MAPPING) == ([reason] if reason else [])


def test_a_rule_asks_for_a_set_that_fits(two_levels: Architecture) -> None:
    small = replace(two_levels.levels[0], size_words=2)
    chosen = allowed_keeps(asked(keep=("Z",)), small, GEMM)
    assert chosen == (frozenset("AZ"), frozenset("BZ"))
    assert allowed_keeps(SpaceRules("all"), small, GEMM) == ()
    assert len(allowed_keeps(SpaceRules("free"), small, GEMM)) == 7


@pytest.mark.parametrize(
    ("build", "part"),
    [
        (lambda: FactorRule("M", 0), "a whole factor of at least 1"),
        (lambda: FactorRule("M", 4, 2), "found at least 4, at most 2"),
        (lambda: LevelRules("L", innermost=("M",), outermost=("M",)), "innermost and outermost"),
        (lambda: LevelRules("L", keep=("A",), bypass=("A",)), "keep and bypass"),
        (lambda: LevelRules("L", (FactorRule("M"), FactorRule("M", 2))), "temporal"),
        (lambda: SpaceRules("most"), "one of fitting, free, all"),  # type: ignore[arg-type]
        (lambda: SpaceRules(padding=-0.1), "padding"),
        (lambda: SpaceRules(padding=float("nan")), "padding"),
        (lambda: SpaceRules(levels=(LevelRules("L"), LevelRules("L"))), "one constraint a level"),
    ],
)
def test_contradictions_are_refused_when_built(build: Any, part: str) -> None:
    with pytest.raises(InputError) as raised:
        build()
    assert part in str(raised.value)


@pytest.mark.parametrize(
    ("rules", "part"),
    [
        (
            SpaceRules(levels=(LevelRules("Bufer"),)),
            "level: expected a level of two levels: Buffer, DRAM, found Bufer. Did you mean Buffer?",
        ),
        (asked(innermost=("P",)), "dims of the layer among ['M', 'N', 'K'], found P"),
        (asked(keep=("Weights",)), "found Weights"),
        (asked(keep=("A",), bypass=("inputs",)), "a tensor either in keep or in bypass"),
        (SpaceRules(levels=(LevelRules("DRAM", bypass=("A",)),)), "the outermost level keeps all"),
        (SpaceRules(padding=0.1, padded_dims=("Q",)), "padded_dims"),
    ],
)
def test_names_that_there_are_not(two_levels: Architecture, rules: SpaceRules, part: str) -> None:
    with pytest.raises(InputError) as raised:
        MappingProblem(two_levels, GEMM, rules=rules)
    assert part in str(raised.value)


def test_a_level_cannot_keep_what_it_cannot_hold() -> None:
    rules = SpaceRules(levels=(LevelRules("WeightBuffer", keep=("inputs",)),))
    with pytest.raises(InputError, match=r"roles that it can hold \(weights\), found A \(inputs\)"):
        MappingProblem(load_architecture("simba"), GEMM, rules=rules)


FULL = SpaceRules(
    "free",
    (
        LevelRules("Buffer", (FactorRule("M", 2, 4),), (FactorRule("K", 1, 1),), ("N",), ("K",), ("M",), ()),
        LevelRules("DRAM", keep=("A",)),
    ),
    0.25,
    ("M",),
)


@pytest.mark.parametrize("rules", [SpaceRules(), SpaceRules("all", padding=1), FULL])
def test_rules_travel_as_json(rules: SpaceRules) -> None:
    assert SpaceRules.from_json(json.loads(json.dumps(rules.to_json()))) == rules


def test_the_order_of_levels_in_a_file_does_not_matter() -> None:
    turned = replace(FULL, levels=FULL.levels[::-1])
    assert turned.to_json() == FULL.to_json()


def test_the_sentence_names_everything() -> None:
    assert SpaceRules().describe() == (
        "perfect factors; every level keeps all it can hold, or the largest sets whose unit tiles fit"
    )
    assert FULL.describe() == (
        "dims M padded by at most 25 %; any bypass; Buffer: temporal 2 <= M <= 4, spatial K = 1, "
        "on X only M, nothing on Y, innermost N, outermost K; DRAM: keep A"
    )


def test_a_layer_gets_the_rules_that_speak_of_it() -> None:
    rules = SpaceRules(
        levels=(
            LevelRules("Buffer", (FactorRule("M", 2), FactorRule("P", 2)), spatial_x=("K", "P")),
            LevelRules("DRAM", innermost=("R", "S")),
        ),
        padding=0.1,
        padded_dims=("P", "K"),
    )
    assert rules.for_layer(GEMM) == SpaceRules(
        levels=(LevelRules("Buffer", (FactorRule("M", 2),), spatial_x=("K",)),),
        padding=0.1,
        padded_dims=("K",),
    )


def test_a_padded_answer_says_its_sizes(two_levels: Architecture) -> None:
    problem = MappingProblem(two_levels, gemm("g", M=7, N=4, K=4), rules=SpaceRules(padding=0.15))
    assert executed_layer(problem, MAPPING).sizes == {"M": 8, "N": 4, "K": 4}
    assert padded_dims(problem, MAPPING) == {"M": 8}
    assert violations(problem, MAPPING) == []
    for rules in (SpaceRules(), SpaceRules(padding=0.14), SpaceRules(padding=0.2, padded_dims=("N",))):
        reasons = violations(replace(problem, rules=rules), MAPPING)
        assert reasons == ["factors of M multiply to 8, the layer has M=7"]
    smaller = replace(problem, layer=gemm("g", M=9, N=4, K=4))
    assert violations(smaller, MAPPING) == ["factors of M multiply to 8, the layer has M=9"]


dims = st.sampled_from("NKCPQRS")
names = st.lists(dims, unique=True, max_size=3).map(tuple)
bounds = st.lists(dims, unique=True, max_size=2).flatmap(
    lambda chosen: st.tuples(*(st.builds(FactorRule, st.just(d), st.integers(1, 2)) for d in chosen))
)


def test_the_fast_check_sees_orders_across_a_loop_that_is_not_there(two_levels: Architecture) -> None:
    """Asked is M, K, N from outside inwards; without a loop over K, N must still be inside M."""
    rules = SpaceRules("free", (LevelRules("DRAM", outermost=("M", "K", "N")),))
    keep = LevelMapping((), (), (), ALL)
    orders = [replace(keep, temporal=(("N", 4), ("M", 8))), replace(keep, temporal=(("M", 8), ("N", 4)))]
    mappings = [Mapping((replace(keep, temporal=(("K", 4),)), order)) for order in orders]
    space = MappingSpace(two_levels, GEMM, rules)
    rows = MappingBatch.of(mappings, two_levels, GEMM)
    assert space.allowed(rows).tolist() == [True, False]
    assert [not list(rule_violations(rules, two_levels, GEMM, m)) for m in mappings] == [True, False]


@pytest.mark.slow
@given(
    keep=st.sampled_from(["fitting", "free", "all"]),
    temporal=bounds,
    sides=st.tuples(st.none() | names, st.none() | names),
    ends=names,
    data=st.data(),
)
@settings(deadline=None, max_examples=40)
def test_what_is_drawn_obeys_the_rules(
    keep: Any, temporal: Any, sides: Any, ends: Any, data: st.DataObject
) -> None:
    """No drawn mapping breaks a rule; of those drawn freely the fast check lets the right ones through."""
    architecture = load_architecture("eyeriss")
    layer = convolution("c", K=8, C=4, P=6, Q=4, R=3, S=3, N=2)
    split = data.draw(st.integers(0, len(ends)))
    level = data.draw(st.sampled_from(["SRAM", "DRAM"]))
    order = {"innermost": ends[:split], "outermost": ends[split:]}
    rules = SpaceRules(keep, (LevelRules(level, temporal, (), *order.values(), *sides),))
    space = MappingSpace(architecture, layer, rules)
    batch = space.sample(range(4), seed=1, rows_per_block=8)
    valid = BatchEvaluator(architecture, layer).evaluate(batch).valid
    for row in valid.nonzero()[0]:
        assert not list(rule_violations(rules, architecture, layer, batch.mapping(int(row), layer)))
    assert space.allowed(batch)[valid].all()
    free = MappingSpace(architecture, layer, SpaceRules("free")).sample(range(8), seed=2, rows_per_block=8)
    valid = BatchEvaluator(architecture, layer).evaluate(free).valid
    allowed = space.allowed(free)
    for row in valid.nonzero()[0]:
        broken = list(rule_violations(rules, architecture, layer, free.mapping(int(row), layer)))
        assert allowed[row] == (not broken), broken
