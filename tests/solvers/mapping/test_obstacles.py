"""Why a space is empty: each reason with its numbers, and never for a space that has a mapping."""

from __future__ import annotations

from itertools import product
from typing import Any

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from costmodel.workload.network import gemm
from solvers.mapping.exhaustive import Enumeration
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.obstacles import obstacle
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules
from solvers.mapping.space.space import MappingSpace

LAYER = gemm("g", M=8, N=4, K=4)


def fixed(dim: str, factor: int) -> FactorRule:
    return FactorRule(dim, factor, factor)


def reason(architecture: Architecture, *levels: LevelRules, keep: Any = "fitting") -> str:
    return obstacle(MappingSpace(architecture, LAYER, SpaceRules(keep, levels)))


@pytest.mark.parametrize(
    ("levels", "expected"),
    [
        (
            [LevelRules("Buffer", (fixed("M", 3),))],
            "Buffer: no temporal factor M = 3 divides M=8",
        ),
        (
            [LevelRules("Buffer", (FactorRule("M", 5, 7),))],
            "Buffer: no temporal factor M from 5 to 7 divides M=8",
        ),
        (
            [LevelRules("Register", spatial=(FactorRule("M", 2),))],
            "Register: spatial factor M >= 2 asked, there is no fan-out",
        ),
        (
            [LevelRules("Buffer", spatial=(FactorRule("M", 4),))],
            "Buffer: spatial factor M >= 4 asked, its fan-out is 2 x 2, 2 at most on the sides allowed",
        ),
        (
            [LevelRules("Buffer", (fixed("M", 4),)), LevelRules("DRAM", (fixed("M", 4),))],
            "M=8 is no product of factors within Buffer spatial 1 to 2; Buffer temporal 4 to 4; "
            "DRAM temporal 4 to 4",
        ),
        (
            [
                LevelRules(
                    "Buffer", spatial=(fixed("M", 2), fixed("N", 2)), spatial_x=("M", "N"), spatial_y=()
                )
            ],
            "Buffer: spatial factors of at least M 2, N 2 are asked, which do not fit the fan-out of 2 x 2 "
            "on the sides allowed",
        ),
        (
            [LevelRules("Register", (fixed("M", 2),))],
            "Register: the constraints make tiles of at least M2, that is 5 words (A 2, B 1, Z 2), "
            "3 are usable",
        ),
        (
            [LevelRules("DRAM", (fixed("M", 1), fixed("K", 1)))],
            "Buffer: the constraints make tiles of at least M8 K4, that is 44 words (A 32, B 4, Z 8), "
            "24 are usable",
        ),
    ],
)
def test_reasons(three_levels: Architecture, levels: list[LevelRules], expected: str) -> None:
    assert reason(three_levels, *levels) == expected


def test_a_level_that_must_keep_too_much() -> None:
    simba = load_architecture("B_simba_like")
    asked = LevelRules("Registers", keep=("A", "B"))
    expected = "Registers: tiles of one word each of A, B need 2 words, 1 are usable"
    assert reason(simba, asked) == expected
    assert reason(simba, keep="all").startswith("Registers: tiles of one word each of A, B, Z need 3 words")


FACTORS = [(), (fixed("M", 2),), (fixed("M", 4), FactorRule("N", 2)), (FactorRule("K", most=1),)]


@pytest.mark.slow
@pytest.mark.parametrize("keep", ["fitting", "free"])
def test_an_obstacle_is_a_proof(two_levels: Architecture, keep: Any) -> None:
    """Over a grid of constraints: where there is an obstacle, enumeration finds nothing either."""
    layer = gemm("g", M=4, N=2, K=2)
    found = {True: 0, False: 0}
    for inner, outer, spatial in product(FACTORS, FACTORS, FACTORS):
        levels = (LevelRules("Buffer", inner, spatial), LevelRules("DRAM", outer))
        rules = SpaceRules(keep, levels)
        blocked = bool(obstacle(MappingSpace(two_levels, layer, rules)))
        found[blocked] += 1
        mappings = sum(
            len(rows) for rows in Enumeration(MappingProblem(two_levels, layer, rules=rules)).mappings()
        )
        assert not (blocked and mappings)
    assert min(found.values()) > 5
