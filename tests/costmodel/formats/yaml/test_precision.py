"""``precision:`` of an architecture file: widths, defaults, the law of MACs, overrides, what is refused."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.chips import load_chip
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.precision import Width
from costmodel.mapping.element_bits import mac_pj
from costmodel.workload.network import gemm

LAYER = gemm("g", M=2, N=2, K=2)


def simba(**precision: Any) -> Architecture:
    return load_architecture("simba", {"precision": precision})


def test_widths_by_number_name_and_keys() -> None:
    found = simba(weights={"bits": 4, "scale_bits": 16, "group": 128}, activations=8, partial_sums="int32")
    assert found.precision is not None
    assert found.precision.weights.per_element == Fraction(33, 8)
    assert (found.precision.activations, found.precision.caches) == (Width(8), Width(8))
    assert found.precision.partial_sums == Width(32)
    assert Width.named("mxfp4").per_element == Fraction(17, 4)
    assert Width.named("BF16") == Width(16)


def test_macs_follow_the_law_of_both_widths() -> None:
    own = load_architecture("simba").compute
    assert own.word_bits == 8
    assert mac_pj(simba(weights=8), LAYER) == own.energy_pj
    assert mac_pj(simba(weights=4), LAYER) == pytest.approx(own.energy_pj / 2)
    assert mac_pj(simba(weights=4, activations=16), LAYER) == pytest.approx(own.energy_pj)
    scaled = simba(weights={"bits": 4, "scale_bits": 16, "group": 32})
    assert mac_pj(scaled, LAYER) == pytest.approx(own.energy_pj / 2), "a scale is no part of an operand"


def test_the_second_operand_may_be_a_cache_and_the_network_may_say_its_bits() -> None:
    attention = replace(LAYER, caches=("B",), bits=(("A", 16), ("B", 2)))
    own = load_architecture("simba").compute.energy_pj
    assert mac_pj(simba(weights=4, caches=16), attention) == pytest.approx(2 * own)
    assert mac_pj(simba(weights=4, from_network=True), attention) == pytest.approx(own / 2)


def test_overrides_reach_one_width_and_json_keeps_all() -> None:
    found = load_architecture("simba", {"precision": {"activations": "fp8"}, "precision.weights": "int4"})
    assert found.precision is not None
    assert (found.precision.weights, found.precision.activations) == (Width(4), Width(8))
    assert Architecture.from_json(found.to_json()) == found
    assert "precision" not in load_architecture("simba").to_json(), "ids of stored answers stay"


@pytest.mark.parametrize(
    ("overrides", "said"),
    [
        ({"precision.weights": "int"}, "a format"),
        ({"precision.weights": 0}, "from 1"),
        ({"precision.weight": 4}, "a key of precision"),
        ({"precision": {"activations": 8, "partial_sums": 4}}, "at least the 8 bits"),
        ({"precision.weights": {"bits": 4, "group": 0}}, "at least 1|from 1|>= 1"),
    ],
)
def test_what_is_no_width_is_refused_by_its_key(overrides: dict[str, Any], said: str) -> None:
    with pytest.raises(InputError, match=said) as refused:
        load_architecture("simba", overrides)
    assert "precision" in str(refused.value)


def test_without_a_law_only_the_macs_own_width_will_do() -> None:
    assert load_architecture("C_two_level", {"precision.partial_sums": 32}).precision is not None
    with pytest.raises(InputError, match="whose energy has no law"):
        load_architecture("C_two_level", {"precision.weights": 4})


def test_timings_and_chips_have_none() -> None:
    with pytest.raises(InputError, match="no timing beside a precision"):
        load_architecture("gemmini", {"precision.partial_sums": 32})
    with pytest.raises(InputError, match="without a precision"):
        load_chip("set-edge", {"tile.architecture.precision": {"weights": 8}})
