"""Mappings: tiles, instances, and every reason why one does not fit."""

from __future__ import annotations

from dataclasses import replace
from math import prod
from pathlib import Path

import pytest

from costmodel.formats.cases.folder import read_cases
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.mapping import LevelMapping, Mapping, loops, violations
from costmodel.workload.network import gemm

ALL = frozenset({"A", "B", "Z"})
CHIP = Architecture(
    "chip",
    (
        StorageLevel("Register", 3, 16, 1, 1, 1, keeps=("inputs", "weights")),
        StorageLevel("Buffer", 64, 16, 1, 1, 1, fanout_x=4, fanout_y=2, multiple_buffering=2.0),
        StorageLevel("DRAM", None, 16, 1, 1, 1),
    ),
    Compute("MAC", 16, 1),
)
LAYER = gemm("g", M=4, N=6, K=8)
REGISTER = LevelMapping((), (), (), frozenset({"A", "B"}))
BUFFER = LevelMapping((("K", 2),), (("M", 4),), (("K", 2),), ALL)
DRAM = LevelMapping((("N", 6), ("K", 2)), (), (), ALL)
VALID = Mapping((REGISTER, BUFFER, DRAM))


def with_level(index: int, **changes: object) -> Mapping:
    levels = list(VALID.levels)
    levels[index] = replace(levels[index], **changes)  # type: ignore[arg-type]
    return Mapping(tuple(levels))


def test_tiles_and_instances() -> None:
    assert VALID.tiles == ({}, {"M": 4, "K": 4}, {"M": 4, "K": 8, "N": 6})
    assert VALID.utilized_instances == (8, 1, 1)


def test_loops_drops_bounds_of_one() -> None:
    assert loops({"M": 1, "N": 3, "K": 1}.items()) == (("N", 3),)


def test_a_valid_mapping_has_no_violations() -> None:
    assert violations(CHIP, LAYER, VALID) == []


@pytest.mark.parametrize(
    ("mapping", "reason"),
    [
        (Mapping(VALID.levels[1:]), "2 levels mapped, chip has 3"),
        (with_level(2, temporal=(("N", 6),)), "factors of K multiply to 4, the layer has K=8"),
        (with_level(2, temporal=(("N", 3), ("K", 2))), "factors of N multiply to 3"),
        (with_level(2, temporal=(("N", 2), ("N", 3), ("K", 2))), "DRAM: a dim stands twice in the temporal"),
        (with_level(1, spatial_x=(("K", 2), ("M", 2))), "Buffer: a dim stands twice in the spatial block"),
        (with_level(2, temporal=(("X", 6), ("K", 2))), "X is not a dim of the layer (M N K)"),
        (with_level(2, temporal=(("M", 1), ("N", 6))), "temporal factor M=1 is not a whole number above 1"),
        (with_level(2, temporal=(("N", 6.0), ("K", 2))), "N=6.0 is not a whole number"),
        (with_level(2, spatial_x=(("N", 6),)), "DRAM: spatial factors on X multiply to 6, the fan-out is 1"),
        (
            with_level(1, spatial_y=(("K", 4),)),
            "Buffer: spatial factors on Y multiply to 4, the fan-out is 2",
        ),
        (with_level(1, temporal=(("N", 6), ("K", 2))), "Buffer: tiles need 64 words (A 16, B 24, Z 24), 32"),
        (with_level(0, keep=ALL), "Register: keeps Z, but holds only inputs, weights"),
        (with_level(0, keep=frozenset({"Weights"})), "Register: keeps Weights, not a tensor of the layer"),
        (with_level(2, keep=frozenset({"A", "B"})), "DRAM: Z must be kept at the outermost level"),
    ],
)
def test_each_reason_is_named(mapping: Mapping, reason: str) -> None:
    assert any(reason in found for found in violations(CHIP, LAYER, mapping)), violations(
        CHIP, LAYER, mapping
    )


def test_bypassed_tiles_need_no_room() -> None:
    crowded = with_level(1, temporal=(("N", 6), ("K", 2)), keep=frozenset({"A"}))
    assert not any("words" in reason for reason in violations(CHIP, LAYER, crowded))


def test_every_case_is_valid_and_no_capacity_can_be_smaller(cases_folder: Path) -> None:
    """A level one word smaller than the tiles of a case must be named."""
    for case in list(read_cases(cases_folder / "A_eyeriss_like.jsonl.gz"))[:20]:
        assert violations(case.architecture, case.layer, case.mapping) == []
        kept = case.mapping.levels[1].keep
        tile = case.mapping.tiles[1]
        words = sum(tensor.words(tile) for tensor in case.layer.tensors if tensor.name in kept)
        if words < 2:
            continue
        inner, sram, dram = case.architecture.levels
        tight = replace(case.architecture, levels=(inner, replace(sram, size_words=words - 1), dram))
        assert [reason.split(":")[0] for reason in violations(tight, case.layer, case.mapping)] == ["SRAM"]


def test_random_mappings_cover_the_layer(random_mappings) -> None:  # type: ignore[no-untyped-def]
    for mapping in random_mappings(CHIP, LAYER, 50, 3):
        factors = [bound for level in mapping.levels for _, bound in level.loops]
        assert prod(factors) == LAYER.macs
