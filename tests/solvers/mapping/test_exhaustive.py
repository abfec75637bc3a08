"""Exhaustive search against nested loops over everything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import combinations, permutations, product
from math import prod

import pytest

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Loop, Mapping, violations
from costmodel.workload.network import Layer, convolution, gemm
from solvers.budget import Budget
from solvers.mapping.exhaustive import Enumeration, Params, solve
from solvers.mapping.problem import OBJECTIVES, MappingProblem, objective_of
from solvers.mapping.problem import violations as problem_violations
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules
from solvers.outcome import Status

Cost = tuple[int, float]


def factorings(size: int, slots: int) -> list[tuple[int, ...]]:
    return [way for way in product(range(1, size + 1), repeat=slots) if prod(way) == size]


def every_order(bounds: list[Loop]) -> list[tuple[Loop, ...]]:
    return list(permutations([loop for loop in bounds if loop[1] > 1]))


def every_mapping(architecture: Architecture, layer: Layer) -> Iterator[Mapping]:
    """All valid mappings: three slots a level (temporal, X, Y), all orders, all sets of kept tensors."""
    levels = range(len(architecture.levels))
    names = [dim for dim, _ in layer.dims]
    tensors = [tensor.name for tensor in layer.tensors]
    subsets = [frozenset(c) for n in range(len(tensors) + 1) for c in combinations(tensors, n)]
    for ways in product(*(factorings(size, 3 * len(levels)) for _, size in layer.dims)):
        blocks = [
            list(zip(names, (way[slot] for way in ways), strict=True)) for slot in range(3 * len(levels))
        ]
        spatial = [[loop for loop in blocks[slot] if loop[1] > 1] for slot in range(3 * len(levels))]
        for keeps in product(*([subsets] * (len(levels) - 1)), [frozenset(tensors)]):
            plain = Mapping(
                tuple(
                    LevelMapping(
                        tuple(spatial[3 * level]),
                        tuple(spatial[3 * level + 1]),
                        tuple(spatial[3 * level + 2]),
                        keeps[level],
                    )
                    for level in levels
                )
            )
            if violations(architecture, layer, plain):
                continue
            for orders in product(*(every_order(blocks[3 * level]) for level in levels)):
                yield Mapping(
                    tuple(
                        replace(part, temporal=order)
                        for part, order in zip(plain.levels, orders, strict=True)
                    )
                )


def costs_of(architecture: Architecture, layer: Layer, mappings: Iterator[Mapping]) -> set[Cost]:
    found = (evaluate(architecture, layer, mapping) for mapping in mappings)
    return {(evaluation.cycles, round(evaluation.energy_pj, 6)) for evaluation in found}


CASES = [
    ("two_levels", gemm("g", M=2, N=3, K=2)),
    ("two_levels", gemm("g", M=4, N=1, K=2)),
    ("two_levels", convolution("c", K=1, C=2, P=4, Q=1, R=2, S=1)),
    ("two_levels", convolution("c", K=2, C=1, P=3, Q=1, R=3, S=1, stride=(2, 1))),
    ("three_levels", gemm("g", M=2, N=2, K=1)),
    ("three_levels", convolution("c", K=1, C=1, P=2, Q=1, R=2, S=1)),
]


@pytest.mark.slow
@pytest.mark.parametrize(("name", "layer"), CASES)
def test_every_cost_that_a_mapping_can_have_is_met(
    request: pytest.FixtureRequest, name: str, layer: Layer
) -> None:
    architecture = request.getfixturevalue(name)
    problem = MappingProblem(architecture, layer, rules=SpaceRules("free"))
    expected = costs_of(architecture, layer, every_mapping(architecture, layer))
    assert costs_of(architecture, layer, searched(problem)) == expected
    assert len(expected) > 5


def searched(problem: MappingProblem) -> Iterator[Mapping]:
    """The mappings that the search looks at."""
    for batch in Enumeration(problem).mappings():
        yield from (batch.mapping(row, problem.layer) for row in range(len(batch)))


ASKED = [
    SpaceRules("fitting"),
    SpaceRules("all"),
    SpaceRules("free", (LevelRules("Buffer", keep=("A",), bypass=("outputs",)),)),
    SpaceRules("free", (LevelRules("Buffer", temporal=(FactorRule("M", 2, 2), FactorRule("K", 1, 1))),)),
    SpaceRules("free", (LevelRules("Buffer", spatial=(FactorRule("N", 2),), spatial_x=("N",)),)),
    SpaceRules("free", (LevelRules("Buffer", spatial_x=(), spatial_y=("K", "M")),)),
    SpaceRules("all", (LevelRules("DRAM", innermost=("M",), outermost=("N", "K")),)),
    SpaceRules("free", (LevelRules("DRAM", (FactorRule("M", 1, 2),), innermost=("N",)),)),
    SpaceRules("free", (LevelRules("DRAM", outermost=("M",)), LevelRules("Buffer", innermost=("K", "N")))),
]


@pytest.mark.slow
@pytest.mark.parametrize("rules", ASKED, ids=SpaceRules.describe)
def test_rules_leave_what_obeys_them(two_levels: Architecture, rules: SpaceRules) -> None:
    """The mappings of the restricted search cost what those cost that the checker lets through."""
    layer = gemm("g", M=4, N=2, K=2)
    problem = MappingProblem(two_levels, layer, rules=rules)
    obeying = (m for m in every_mapping(two_levels, layer) if not problem_violations(problem, m))
    expected = costs_of(two_levels, layer, obeying)
    found = list(searched(problem))
    assert all(problem_violations(problem, mapping) == [] for mapping in found)
    assert costs_of(two_levels, layer, iter(found)) == expected
    everything = MappingProblem(two_levels, layer, rules=SpaceRules("free"))
    assert 0 < len(expected) < len(costs_of(two_levels, layer, searched(everything)))


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_the_best_is_proven(two_levels: Architecture, objective: str) -> None:
    layer = gemm("g", M=2, N=4, K=2)
    problem = MappingProblem(two_levels, layer, objective, SpaceRules("free"))  # type: ignore[arg-type]
    outcome = solve(problem, Budget())
    best = min(
        objective_of(evaluate(two_levels, layer, mapping), problem.objective)
        for mapping in every_mapping(two_levels, layer)
    )
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective == outcome.bound
    assert outcome.objective == pytest.approx(best, rel=1e-12)
    assert outcome.gap == 0
    assert outcome.evaluations > 100


def test_a_large_space_is_refused_unseen(medium_problem: MappingProblem) -> None:
    outcome = solve(medium_problem, Budget(), Params(limit=1000))
    assert (outcome.status, outcome.solution, outcome.evaluations) == (Status.UNKNOWN, None, 0)
    assert outcome.note.startswith("at least ")
    assert outcome.note.endswith(" factorisations, 1000 mappings may be evaluated")
    assert outcome.bound is not None


def test_the_limit_can_be_met_on_the_way(small_problem: MappingProblem) -> None:
    whole = solve(small_problem, Budget())
    for budget, params in (
        (Budget(), Params(limit=whole.evaluations - 1)),
        (Budget(iterations=whole.evaluations - 1), Params()),
    ):
        outcome = solve(small_problem, budget, params)
        assert outcome.status is Status.FEASIBLE
        assert outcome.note == f"more than {whole.evaluations - 1} mappings, the limit"
        assert outcome.evaluations < whole.evaluations
        assert outcome.objective is not None
        assert whole.objective is not None
        assert outcome.bound is not None
        assert outcome.bound <= whole.objective <= outcome.objective
    exact = solve(small_problem, Budget(iterations=whole.evaluations))
    assert (exact.status, exact.solution) == (Status.OPTIMAL, whole.solution)


def test_time_ends_the_search(small_problem: MappingProblem) -> None:
    outcome = solve(small_problem, Budget(wall_seconds=1e-9))
    assert outcome.status in (Status.UNKNOWN, Status.FEASIBLE)
    assert outcome.note == "not all mappings in 1e-09 s"


@pytest.mark.parametrize("limit", [0, -1, 2.5, True, "many"])
def test_a_limit_is_a_number(limit: int) -> None:
    with pytest.raises(InputError, match="exhaustive: limit: expected a whole number of at least 1"):
        Params(limit=limit)
