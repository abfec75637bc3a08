"""Thistle's answers and bounds: all mappings of small spaces, random ones of real ones, every switch."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from costmodel.architecture import Architecture, Compute, StorageLevel
from costmodel.architectures import load_architecture
from costmodel.batch import BatchEvaluator
from costmodel.networks import load_network
from costmodel.workload import Layer, batched_matmul, convolution, gemm
from solvers.budget import Budget
from solvers.mapping import exhaustive, thistle
from solvers.mapping.problem import OBJECTIVES, MappingProblem, Objective, objective_values, violations
from solvers.mapping.rules import FactorRule, LevelRules, SpaceRules
from solvers.mapping.space import MappingSpace
from solvers.mapping.thistle.proof import least_layer, proven_bound
from solvers.mapping.thistle.solver import keep_choices
from solvers.outcome import Status

every_objective = pytest.mark.parametrize("objective", OBJECTIVES)

TINY = {
    "gemm": gemm("gemm", M=4, N=6, K=4),
    "batched matmul": batched_matmul("bmm", B=2, M=2, N=4, K=4),
    "convolution": convolution("conv", K=2, C=2, P=4, Q=1, R=3, S=1),
    "dense window": convolution("window", K=2, C=2, P=2, Q=1, R=4, S=1),
    "strided": convolution("strided", K=2, C=2, P=4, Q=1, R=2, S=1, stride=(2, 1)),
    "gaps": convolution("gaps", K=4, C=2, P=4, Q=2, R=1, S=1, stride=(3, 2)),
    "dilated": convolution("dilated", K=2, C=2, P=4, Q=1, R=2, S=1, dilation=(3, 1)),
    "two axes": convolution("two axes", K=2, C=1, P=2, Q=2, R=2, S=2),
    "depthwise": convolution("dw", K=4, C=4, P=4, Q=1, R=2, S=1, groups=4),
}


def bound(problem: MappingProblem) -> float:
    space = MappingSpace(problem.architecture, problem.layer, problem.rules)
    return proven_bound(problem, keep_choices(space, 1000), lambda: True)


@pytest.fixture(scope="module")
def roomy(two_levels: Architecture) -> Architecture:
    """Registers of six words under the buffer's fan-out: tiles of several words at two levels."""
    register = StorageLevel("Register", 6, 16, 0.5, 0.6, 0.7)
    return replace(two_levels, name="roomy", levels=(register, *two_levels.levels))


@every_objective
@pytest.mark.parametrize("kind", TINY)
@pytest.mark.parametrize("keep", ["fitting", "free"])
def test_no_mapping_is_below_the_bound(
    kind: str, objective: Objective, keep: str, roomy: Architecture, two_levels: Architecture
) -> None:
    """Every mapping of a small space, those of a larger one drawn."""
    rules = SpaceRules(keep=keep)  # type: ignore[arg-type]
    problem = MappingProblem(two_levels, TINY[kind], objective, rules)
    best = exhaustive.solve(problem, Budget()).objective
    assert best is not None
    assert 0 < bound(problem) <= best
    larger = replace(problem, architecture=roomy)
    batch = MappingSpace(roomy, TINY[kind], rules).sample(range(40), 1)
    values = objective_values(BatchEvaluator(roomy, TINY[kind]).evaluate(batch), objective)
    assert np.isfinite(values).sum() > 10
    assert 0 < bound(larger) <= values.min()


def test_the_bound_is_met_where_nothing_is_lost() -> None:
    """One level of traffic, all dims free to be split: the relaxed optimum is a mapping."""
    buffer = StorageLevel("Buffer", 3 * 16, 16, 1.0, 1.0, 1.0)
    dram = StorageLevel("DRAM", None, 16, 100.0, 100.0, 100.0)
    architecture = Architecture("plain", (buffer, dram), Compute("MAC", 16, 1.0))
    problem = MappingProblem(architecture, gemm("g", M=16, N=16, K=4), "energy")
    best = exhaustive.solve(problem, Budget()).objective
    assert best is not None
    assert best * 0.93 <= bound(problem) <= best


@pytest.mark.parametrize("name", ["eyeriss", "E_four_level"])
def test_random_mappings_of_real_layers_are_above_the_bound(name: str) -> None:
    architecture = load_architecture(name)
    for layer in (
        convolution("c", K=32, C=16, P=14, Q=14, R=3, S=3),
        convolution("s", K=16, C=16, P=14, Q=14, R=3, S=3, stride=(2, 2)),
        convolution("d", K=32, C=32, P=14, Q=7, R=3, S=3, groups=32),
        gemm("g", M=64, N=48, K=96),
    ):
        batch = MappingSpace(architecture, layer).sample(range(40), 7)
        evaluation = BatchEvaluator(architecture, layer).evaluate(batch)
        for objective in OBJECTIVES:
            problem = MappingProblem(architecture, layer, objective)
            assert bound(problem) <= objective_values(evaluation, objective).min()


def test_the_least_layer() -> None:
    layer, unseen = least_layer(convolution("c", K=4, C=3, P=8, Q=6, R=3, S=5, N=2, stride=(2, 1)))
    assert layer.sizes == {"R*S": 15, "P*Q*N": 96, "C": 3, "K": 4}
    assert unseen == {("Inputs", "R*S")}
    assert layer.macs == 4 * 3 * 8 * 6 * 3 * 5 * 2
    plain, nothing = least_layer(gemm("g", M=4, N=6, K=8))
    assert (plain.sizes, nothing) == ({"M": 4, "N": 6, "K": 8}, frozenset())


def test_no_bound_is_claimed_for_outputs_that_slide() -> None:
    layer = convolution("c", K=4, C=4, P=4, Q=4, R=1, S=1)
    tensors = tuple(
        replace(tensor, axes=(*tensor.axes[:-1], (("P", 2),))) if tensor.is_output else tensor
        for tensor in layer.tensors
    )
    assert bound(MappingProblem(load_architecture("eyeriss"), replace(layer, tensors=tensors))) == 0.0


def test_eyeriss_spends_20_to_30_pj_per_mac() -> None:
    """Thistle, Fig. 4: the paper's architecture, energies and layers (every third here)."""
    eyeriss = load_architecture("eyeriss")
    for layer in load_network("thistle_resnet18").layers[1::3]:
        outcome = thistle.solve(MappingProblem(eyeriss, layer, "energy"), Budget())
        assert outcome.objective is not None
        assert outcome.bound is not None
        assert 20 <= outcome.objective / layer.macs <= 30
        assert outcome.objective <= 1.3 * outcome.bound


def test_eyeriss_is_proven_to_need_so_many_cycles() -> None:
    """Sides of 14 and 12 units leave products of divisors: the relaxed 168 units are 112, and no more."""
    layer = load_network("thistle_resnet18").layers[5]
    outcome = thistle.solve(MappingProblem(load_architecture("eyeriss"), layer, "cycles"), Budget())
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective == layer.macs / 168


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
