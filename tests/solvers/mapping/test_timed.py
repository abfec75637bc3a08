"""Machines with timing: the compiled cycles against ``evaluate``, bounds and proofs against enumeration."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import islice, permutations, product
from math import inf

import numpy as np
import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.mapping.batch.batch import BatchEvaluator
from costmodel.mapping.bounds.bounds import lower_bounds
from costmodel.mapping.evaluate import Evaluation, evaluate
from costmodel.mapping.timing.counts import step_counts
from costmodel.mapping.timing.cycles import cycles_of
from costmodel.mapping.timing.walk import rounded
from costmodel.workload.network import Layer, convolution, gemm
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.divisors import divisors
from solvers.mapping import exhaustive
from solvers.mapping.exact.solver import solve
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.rules import LevelRules, SpaceRules
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.space_bounds import space_bounds
from solvers.mapping.untimed import NOTE
from solvers.outcome import Status
from tests.solvers.mapping.random_problems import processing_problems, timed_problems

GEMMINI = load_architecture("gemmini")
LAYERS = (
    convolution("3 x 3", K=64, C=48, P=28, Q=28, R=3, S=3),
    convolution("7 x 7 of stride 2", K=64, C=3, P=112, Q=112, R=7, S=7, stride=(2, 2)),
    convolution("dilated", K=16, C=8, P=12, Q=6, R=3, S=3, stride=(2, 1), dilation=(2, 3)),
    convolution("even and oblong", N=2, K=8, C=12, P=7, Q=9, R=2, S=3, stride=(2, 3)),
    convolution("depthwise", K=32, C=32, P=14, Q=14, R=3, S=3, groups=32),
    gemm("product", M=512, N=768, K=100),
)
WEIGHT_STATIONARY = SpaceRules(
    levels=(LevelRules("Scratchpad", spatial_x=("K",)), LevelRules("Accumulator", spatial_y=("C",)))
)


def agree(problem: MappingProblem, blocks: int, most: int) -> list[Evaluation]:
    """Up to ``most`` random mappings, each counted by both evaluators."""
    architecture, layer = problem.architecture, problem.layer
    batch = MappingSpace(architecture, layer, problem.rules).sample(range(blocks), seed=7)
    found = BatchEvaluator(architecture, layer).evaluate(batch)
    evaluations = []
    for row in np.flatnonzero(found.valid)[:most].tolist():
        evaluation = evaluate(architecture, layer, batch.mapping(row, layer))
        assert found.cycles[row] == evaluation.cycles
        assert found.energy_pj[row] == pytest.approx(evaluation.energy_pj, rel=1e-12, abs=0)
        evaluations.append(evaluation)
    return evaluations


@pytest.mark.slow
@pytest.mark.parametrize("layer", LAYERS, ids=lambda layer: layer.name)
def test_batches_count_the_cycles_of_gemmini(layer: Layer) -> None:
    evaluations = agree(MappingProblem(GEMMINI, layer), 2, 250)
    assert len(evaluations) > 100
    assert len({evaluation.timed.binding for evaluation in evaluations if evaluation.timed}) > 1


@pytest.mark.slow
@pytest.mark.parametrize("problems", [timed_problems, processing_problems])
def test_batches_and_bounds_on_machines_of_every_kind(
    problems: Callable[[int], Iterator[MappingProblem]],
) -> None:
    counted = 0
    for problem in islice(problems(3), 60):
        bounds = [lower_bounds(problem.architecture, problem.layer), space_bounds(problem)]
        for evaluation in agree(problem, 1, 20):
            counted += 1
            for bound in bounds:
                assert bound.cycles <= evaluation.cycles
                assert bound.energy_pj <= evaluation.energy_pj * (1 + 1e-12)
                assert bound.edp_pj_cycles <= evaluation.edp_pj_cycles * (1 + 1e-12)
    assert counted > 500


@pytest.mark.slow
@pytest.mark.parametrize("problems", [timed_problems, processing_problems])
def test_exact_is_as_good_as_the_best_of_all_mappings(
    problems: Callable[[int], Iterator[MappingProblem]],
) -> None:
    compared = 0
    for problem in islice(problems(11), 25):
        every, best = (one.solve(problem, Budget(10.0, None, 0)) for one in (exhaustive, _Exact))
        if every.status is not Status.OPTIMAL:
            continue
        compared += 1
        assert best.status is Status.OPTIMAL
        assert best.objective == pytest.approx(every.objective, rel=1e-12)
    assert compared > 15


class _Exact:
    solve = staticmethod(solve)


@pytest.mark.slow
@pytest.mark.parametrize("reloads", [True, False])
def test_the_least_cycles_of_all_walks_of_gemmini(reloads: bool) -> None:
    """Every tile and every order of its loops, by the readable counter, and no solver's code."""
    layer = convolution("c", K=16, C=4, P=4, Q=2, R=3, S=1)
    timing = GEMMINI.timing
    assert timing is not None
    if not reloads:
        timing = replace(timing, reloads=(), caches=tuple(replace(c, size_bytes=1024) for c in timing.caches))
    architecture = replace(GEMMINI, timing=timing)
    least = inf
    for tile in product(*(divisors(size) for _, size in layer.dims)):
        loops = [
            (dim, size // points)
            for (dim, size), points in zip(layer.dims, tile, strict=True)
            if size > points
        ]
        own = dict(zip(layer.sizes, tile, strict=True))
        for order in permutations(loops) if not reloads else [tuple(loops)]:
            walk = rounded(timing, layer, own, tuple(order))
            least = min(least, cycles_of(timing, step_counts(architecture, timing, walk)).cycles)
    outcome = solve(MappingProblem(architecture, layer, "cycles", WEIGHT_STATIONARY), Budget(30.0, None, 0))
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective == outcome.bound
    # The levels inside can only add to what the walk takes.
    assert outcome.objective is not None
    assert outcome.objective >= least if reloads else outcome.objective == least


@pytest.mark.parametrize("objective", ["cycles", "edp"])
def test_no_drawn_mapping_beats_a_proof(objective: str) -> None:
    layer = convolution("c", K=128, C=64, P=28, Q=28, R=3, S=3)
    problem = MappingProblem(GEMMINI, layer, objective, WEIGHT_STATIONARY)  # type: ignore[arg-type]
    outcome = solve(problem, Budget(60.0, None, 0))
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective is not None
    batch = MappingSpace(GEMMINI, layer, WEIGHT_STATIONARY).sample(range(200), seed=1)
    found = BatchEvaluator(GEMMINI, layer).evaluate(batch)
    costs = found.cycles[found.valid] if objective == "cycles" else found.edp_pj_cycles[found.valid]
    assert len(costs) > 1000
    assert outcome.objective <= costs.min() * (1 + 1e-9)


@pytest.mark.parametrize("name", ["cosa", "kapla"])
def test_solvers_that_know_no_timing_say_so(name: str) -> None:
    layer = convolution("c", K=32, C=32, P=14, Q=14, R=3, S=3)
    module = solver(name).load()
    timed = module.solve(MappingProblem(GEMMINI, layer, "edp", WEIGHT_STATIONARY), Budget(5.0, 2, 0))
    untimed = replace(GEMMINI, timing=None)
    other = module.solve(MappingProblem(untimed, layer, "edp", WEIGHT_STATIONARY), Budget(5.0, 2, 0))
    assert (NOTE in timed.note) == (timed.status is Status.FEASIBLE)
    assert NOTE not in other.note
    assert timed.objective == evaluate(GEMMINI, layer, timed.solution).edp_pj_cycles
