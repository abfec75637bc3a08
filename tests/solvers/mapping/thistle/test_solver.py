"""Thistle's answers: the paper's numbers, every switch, rules and bypass."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.hardware.architecture import Architecture
from costmodel.workload.network import Layer, convolution, gemm
from solvers.budget import Budget
from solvers.mapping import thistle
from solvers.mapping.problem import MappingProblem, Objective, violations
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules
from solvers.outcome import Status


@pytest.mark.slow
def test_eyeriss_spends_20_to_30_pj_per_mac() -> None:
    """Thistle, Fig. 4: the paper's architecture, energies and layers (every third here)."""
    eyeriss = load_architecture("eyeriss")
    for layer in load_network("thistle_resnet18").layers[1::3]:
        outcome = thistle.solve(MappingProblem(eyeriss, layer, "energy"), Budget())
        assert outcome.objective is not None
        assert outcome.bound is not None
        assert 20 <= outcome.objective / layer.macs <= 30
        assert outcome.objective <= 1.3 * outcome.bound


@pytest.mark.slow
def test_eyeriss_is_proven_to_need_so_many_cycles() -> None:
    """Sides of 14 and 12 units leave products of divisors: the relaxed 168 units are 112, and no more."""
    layer = load_network("thistle_resnet18").layers[5]
    outcome = thistle.solve(MappingProblem(load_architecture("eyeriss"), layer, "cycles"), Budget())
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective == layer.macs / 168


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["cycles", "energy", "edp"])
def test_an_architecture_may_state_times_only(objective: Objective) -> None:
    """Without energies there is no program of energy; the one of cycles finds what takes fewest."""
    problem = MappingProblem(load_architecture("nvdla-full"), gemm("g", M=64, N=128, K=64), objective)
    outcome = thistle.solve(problem, Budget())
    assert outcome.status is Status.OPTIMAL
    assert (outcome.objective == 0) == (objective != "cycles")


SWITCHES = (
    {"spread_windows": False},
    {"mirror": False},
    {"carry_over": False},
    {"prune": False},
    {"guide": False},
    {"prove": False},
    {"polish": 0},
    {"kicks": 0},
    {"programs": 3},
    {"keeps": 1},
    {"classes": 1, "nearest": 3, "candidates": 100, "least_utilization": 0.5},
)


@pytest.mark.slow
@pytest.mark.parametrize("switched", SWITCHES, ids=str)
def test_every_switch_leaves_mappings_and_bounds(switched: dict[str, int | float]) -> None:
    problem = MappingProblem(load_architecture("eyeriss"), convolution("c", K=32, C=16, P=14, Q=14, R=3, S=3))
    outcome = thistle.solve(problem, Budget(), thistle.Params(**switched))  # type: ignore[arg-type]
    usual = thistle.solve(problem, Budget())
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    assert usual.bound is not None
    assert outcome.objective is not None
    assert usual.objective is not None
    assert outcome.objective >= usual.bound


@pytest.mark.slow
def test_half_of_the_classes_are_enough_where_height_and_width_are_the_same() -> None:
    """Each class or its mirror image: the same best mapping without polish."""
    problem = MappingProblem(load_architecture("eyeriss"), convolution("c", K=32, C=16, P=14, Q=14, R=3, S=3))
    params = thistle.Params(prune=False, classes=1000, programs=1000, polish=0, prove=False)
    all_of_them = thistle.solve(problem, Budget(), replace(params, mirror=False))
    half = thistle.solve(problem, Budget(), params)
    assert half.program_proven
    assert all_of_them.program_proven
    assert half.objective == pytest.approx(all_of_them.objective, rel=0.02)
    assert half.evaluations < 0.9 * all_of_them.evaluations


@pytest.mark.slow
def test_the_rules_are_kept() -> None:
    asked = LevelRules(
        "SRAM",
        temporal=(FactorRule("K", 2, 4),),
        spatial=(FactorRule("C", 8, 8),),
        innermost=("Q", "P"),
        spatial_x=("C",),
    )
    layer = convolution("c", K=32, C=16, P=14, Q=14, R=3, S=3)
    problem = MappingProblem(load_architecture("eyeriss"), layer, "energy", SpaceRules(levels=(asked,)))
    outcome = thistle.solve(problem, Budget())
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    free = thistle.solve(replace(problem, rules=SpaceRules()), Budget())
    assert outcome.objective is not None
    assert free.objective is not None
    assert free.objective <= outcome.objective


@pytest.mark.slow
def test_bypass_is_searched_where_the_rules_leave_it_free() -> None:
    """Eyeriss's registers cost more than its SRAM: whoever may pass them by spends less than half."""
    layer = load_network("thistle_resnet18").layers[7]
    kept = MappingProblem(load_architecture("eyeriss"), layer, "energy")
    free = replace(kept, rules=SpaceRules(keep="free"))
    answers = [thistle.solve(problem, Budget()) for problem in (kept, free)]
    assert answers[0].objective is not None
    assert answers[1].objective is not None
    assert answers[1].objective < 0.6 * answers[0].objective


def test_single_macs_and_windows_too_large_for_any_buffer(two_levels: Architecture) -> None:
    wide = convolution("wide", K=2, C=2, P=2, Q=2, R=7, S=7)
    layers: tuple[Layer, ...] = (gemm("one", M=1, N=1, K=1), wide)
    for layer in layers:
        problem = MappingProblem(two_levels, layer)
        outcome = thistle.solve(problem, Budget())
        assert outcome.solution is not None
        assert violations(problem, outcome.solution) == []
