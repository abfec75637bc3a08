"""Thistle's bound and answers among all mappings of small spaces; attacks on the bound of random problems."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import numpy as np
import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.batch.batch import BatchEvaluator
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer, Tensor, batched_matmul, convolution, gemm
from costmodel.workload.projection import Projection, Stride
from solvers.budget import Budget
from solvers.mapping import exact, exhaustive, thistle
from solvers.mapping.problem import OBJECTIVES, MappingProblem, Objective, objective_values
from solvers.mapping.space.obstacles import obstacle
from solvers.mapping.space.rules import SpaceRules
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.thistle.search.proof import least_layer, proven_bound
from solvers.mapping.thistle.solver import keep_choices
from tests.solvers.mapping import random_problems
from tests.thorough import how_many

SLACK = 1 - 1e-9
"""A bound may lie above a cost by the rounding of sums, never by more."""

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


@pytest.mark.slow
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


@pytest.mark.slow
@every_objective
@pytest.mark.parametrize("kind", TINY)
def test_answers_are_close_to_the_best_of_all_mappings(
    kind: str, objective: Objective, three_levels: Architecture
) -> None:
    problem = MappingProblem(three_levels, TINY[kind], objective)
    best = exhaustive.solve(problem, Budget()).objective
    found = thistle.solve(problem, Budget())
    assert best is not None
    assert found.objective is not None
    assert best * SLACK <= found.objective <= 1.02 * best


def test_the_bound_is_met_where_nothing_is_lost() -> None:
    """One level of traffic, all dims free to be split: the relaxed optimum is a mapping."""
    buffer = StorageLevel("Buffer", 3 * 16, 16, 1.0, 1.0, 1.0)
    dram = StorageLevel("DRAM", None, 16, 100.0, 100.0, 100.0)
    architecture = Architecture("plain", (buffer, dram), Compute("MAC", 16, 1.0))
    problem = MappingProblem(architecture, gemm("g", M=16, N=16, K=4), "energy")
    best = exhaustive.solve(problem, Budget()).objective
    assert best is not None
    assert best * 0.93 <= bound(problem) <= best


@pytest.mark.slow
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
        replace(one, axes=(*one.axes[:-1], Projection((Stride("P", 2),)))) if one.is_output else one
        for one in layer.tensors
    )
    assert bound(MappingProblem(load_architecture("eyeriss"), replace(layer, tensors=tensors))) == 0.0


def attacked(problem: MappingProblem, seed: int) -> int:
    """No mapping found is below a bound on its objective; how many of the bounds claim something."""
    if obstacle(MappingSpace(problem.architecture, problem.layer, problem.rules)):
        return 0
    attack, claims = random_problems.Attack(problem), 0
    attack.sample(4000, seed)
    for objective in OBJECTIVES:
        asked = replace(problem, objective=objective)
        found = exact.solve(asked, Budget(wall_seconds=0.3)).solution
        if isinstance(found, Mapping):
            attack.descend(found, 2)
        lowest = bound(asked)
        claims += lowest > 0
        assert lowest * SLACK <= attack.least[objective], (asked, lowest, attack.least)
    return claims


@pytest.mark.slow
@pytest.mark.parametrize("keep", random_problems.KEEPS)
def test_random_problems_have_no_mapping_below_the_bound(keep: str) -> None:
    drawn = enumerate(islice(random_problems.problems(seed=20), how_many(4, thorough=8)))
    rules = SpaceRules(keep=keep)  # type: ignore[arg-type]
    claims = sum(attacked(replace(problem, rules=rules), number) for number, problem in drawn)
    assert claims >= how_many(3, thorough=6)


def test_tensors_may_stay_through_several_levels_without_loops_of_theirs() -> None:
    """W and I stay in the registers while the 7 of K pass by outside two levels that do not iterate."""
    level = StorageLevel("Register", 4, 16, 1.0, 1.0, 1.0)
    levels = (
        level,
        replace(level, name="L1", size_words=12, read_bandwidth=1.0, fanout_x=6),
        replace(level, name="L2", size_words=12),
        replace(level, name="DRAM", size_words=None),
    )
    architecture = Architecture("four levels", levels, Compute("MAC", 16, 1.0))
    over_b, over_k = ((("B", 1),),), ((("K", 1),),)
    tensors = (
        Tensor.of_terms("W", over_b, "weights"),
        Tensor.of_terms("I", over_b, "inputs"),
        Tensor.of_terms("S", over_k, "inputs"),
        Tensor.of_terms("O", over_k, "outputs"),
    )
    problem = MappingProblem(architecture, Layer("sum", (("B", 5), ("K", 7)), tensors), "cycles")
    assert exhaustive.solve(problem, Budget()).objective == 5 + 5 + 7
    assert bound(problem) == 5 + 5 + 7
