"""The exact mapper against enumeration, and every bound against mappings that try to get below it."""

from __future__ import annotations

from dataclasses import replace
from itertools import islice

import pytest

from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_layer
from costmodel.mapping.bounds.bounds import lower_bounds
from costmodel.mapping.evaluate import evaluate
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping import exact, exhaustive
from solvers.mapping.problem import (
    OBJECTIVES,
    MappingProblem,
    objective_of,
    violations,
)
from solvers.outcome import Status
from tests.solvers.mapping import random_problems
from tests.thorough import how_many

SLACK = 1 - 1e-9
"""A bound may lie above a cost by the rounding of sums, never by more."""


def same_as_enumerated(problem: MappingProblem, most: int) -> bool:
    """Whether the problem could be enumerated; then the exact mapper must have the same answer."""
    every = exhaustive.solve(problem, Budget(), exhaustive.Params(limit=most))
    if every.status not in (Status.OPTIMAL, Status.INFEASIBLE):
        return False
    found = exact.solve(problem, Budget(wall_seconds=120))
    assert found.status is every.status, (problem, found.note)
    if found.status is Status.OPTIMAL:
        assert found.solution is not None
        assert violations(problem, found.solution) == []
        counted = evaluate(problem.architecture, problem.layer, found.solution)
        assert found.objective == found.bound == objective_of(counted, problem.objective)
        # sums of the same numbers in another order may differ in the last digit
        assert found.objective == pytest.approx(every.objective, rel=1e-12), problem
    return True


@pytest.mark.slow
def test_small_problems_have_the_enumerated_optimum() -> None:
    drawn = islice(random_problems.problems(seed=1), 32)
    assert sum(same_as_enumerated(problem, 20_000) for problem in drawn) >= 16


@pytest.mark.slow
def test_constrained_problems_have_the_enumerated_optimum() -> None:
    drawn = enumerate(islice(random_problems.problems(seed=6), 32))
    constrained = [random_problems.constrained(problem, number) for number, problem in drawn]
    assert sum(same_as_enumerated(problem, 20_000) for problem in constrained) >= 24


@pytest.mark.slow
def test_machines_of_any_kind_have_the_enumerated_optimum() -> None:
    """2 to 6 levels, fan-outs and bypasses anywhere."""
    drawn = islice(random_problems.invented_problems(seed=7), 40)
    assert sum(same_as_enumerated(problem, 20_000) for problem in drawn) >= 20


@pytest.mark.slow
def test_layers_that_add_to_sums_have_the_enumerated_optimum() -> None:
    count = how_many(30, thorough=150)
    costs = []
    for draw in (random_problems.problems, random_problems.invented_problems):
        for problem in islice(draw(8), count):
            begun = replace(problem, layer=problem.layer.continued)
            if same_as_enumerated(begun, 20_000):
                costs.append([exact.solve(one, Budget()).objective for one in (problem, begun)])
    found = [(fresh, sums) for fresh, sums in costs if fresh is not None and sums is not None]
    assert len(found) >= how_many(36, thorough=180)
    assert all(fresh <= sums for fresh, sums in found)
    assert sum(fresh < sums for fresh, sums in found) > len(found) // 2


@pytest.mark.slow
def test_larger_problems_have_the_enumerated_optimum() -> None:
    """Hundreds of them: ``benchmarks/exact_attack.py``."""
    count = how_many(12, thorough=80)
    drawn = islice(random_problems.problems(seed=2), count)
    assert sum(same_as_enumerated(problem, 50_000) for problem in drawn) >= how_many(6, thorough=50)


def bounds_hold(problem: MappingProblem, mappings: int, seed: int) -> None:
    """No bound of the cost model or of a solver lies above a mapping that was found."""
    attack = random_problems.Attack(problem)
    attack.sample(mappings, seed)
    bounds = {}
    for name in ("cosa", "thistle", "exact"):
        outcome = solver(name).load().solve(problem, Budget(wall_seconds=2, iterations=30))
        if outcome.bound is not None:
            bounds[name] = outcome.bound
        if outcome.solution is not None:
            attack.descend(outcome.solution, steps=3)
    proven = lower_bounds(problem.architecture, problem.layer)
    for objective in OBJECTIVES:
        assert objective_of(proven, objective) * SLACK <= attack.least[objective], (problem, objective)
    for name, bound in bounds.items():
        assert bound * SLACK <= attack.least[problem.objective], (name, problem)


@pytest.mark.slow
@pytest.mark.parametrize("seed", [3, 4])
def test_bounds_hold_on_small_nasty_problems(seed: int) -> None:
    for number, problem in enumerate(islice(random_problems.problems(seed), 9)):
        bounds_hold(problem, 10_000, number)


def test_an_attack_that_should_succeed_does() -> None:
    """The attack itself can find what lies below a wrong bound: the optimum, from any mapping."""
    problem = MappingProblem(load_architecture("C_two_level"), load_layer("resnet18/fc"), "energy")
    best = exact.solve(problem, Budget())
    assert best.objective is not None
    attack = random_problems.Attack(problem)
    attack.sample(20_000, seed=0)
    assert attack.valid > 1000
    assert best.objective * SLACK <= attack.least["energy"] <= 1.3 * best.objective


@pytest.mark.slow
@pytest.mark.parametrize(
    ("architecture", "layer", "objective"),
    [
        ("eyeriss", "resnet18/layer1.0.conv1", "energy"),
        ("A_eyeriss_like", "mobilenet_v2/block2.0.depthwise", "edp"),
        ("E_four_level", "resnet18/conv1", "edp"),
        ("tpu-like", "bert_base/block0.attention.scores", "cycles"),
    ],
)
def test_bounds_hold_on_layers_of_networks(architecture: str, layer: str, objective: str) -> None:
    problem = MappingProblem(load_architecture(architecture), load_layer(layer), objective)  # type: ignore[arg-type]
    bounds_hold(problem, 200_000, seed=5)
