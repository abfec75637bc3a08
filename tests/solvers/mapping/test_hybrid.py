"""The hybrid search against a literal loop over its own draws, and against exhaustive search."""

from __future__ import annotations

from itertools import permutations, product
from math import inf
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import LevelMapping, Mapping
from solvers.budget import Budget
from solvers.mapping import exhaustive
from solvers.mapping.hybrid import THREAD_BLOCKS, Params, solve
from solvers.mapping.problem import OBJECTIVES, MappingProblem, objective_of, violations
from solvers.mapping.space.space import MappingSpace
from solvers.outcome import Status


def literal_thread(problem: MappingProblem, seed: int, thread: int, victory: int) -> tuple[float, int]:
    """One thread, mapping by mapping: its lowest objective, and how many mappings it looked at."""
    space = MappingSpace(problem.architecture, problem.layer, problem.rules)
    lowest, unbeaten, looked_at, block = inf, 0, 0, thread * THREAD_BLOCKS
    while True:
        drawn = space.sample(range(block, block + 1), seed, 1).mapping(0, problem.layer)
        block += 1
        if violations(problem, drawn):
            looked_at += 1
            continue
        for mapping in reordered(drawn, list(problem.layer.sizes)):
            looked_at += 1
            value = objective_of(evaluate(problem.architecture, problem.layer, mapping), problem.objective)
            unbeaten += 1
            if value < lowest:
                lowest, unbeaten = value, 0
            if unbeaten == victory:
                return lowest, looked_at


def reordered(mapping: Mapping, dims: list[str]) -> list[Mapping]:
    """The mapping with its loops in every order; the orders of the innermost level change first."""
    orders = [
        list(permutations(sorted(level.temporal, key=lambda loop: dims.index(loop[0]))))
        for level in mapping.levels
    ]
    return [
        Mapping(
            tuple(
                LevelMapping(order, level.spatial_x, level.spatial_y, level.keep)
                for order, level in zip(reversed(chosen), mapping.levels, strict=True)
            )
        )
        for chosen in product(*reversed(orders))
    ]


@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("victory", [1, 7, 60])
def test_it_looks_where_the_literal_loop_looks(
    small_problem: MappingProblem, objective: Any, victory: int
) -> None:
    problem = MappingProblem(small_problem.architecture, small_problem.layer, objective)
    threads = [literal_thread(problem, 3, thread, victory) for thread in range(3)]
    outcome = solve(problem, Budget(seed=3), Params(threads=3, victory=victory))
    assert outcome.objective == pytest.approx(min(lowest for lowest, _ in threads), rel=1e-12)
    assert outcome.evaluations == sum(looked_at for _, looked_at in threads)


@pytest.mark.slow
def test_it_finds_what_exhaustive_search_proves(small_problem: MappingProblem) -> None:
    proven = exhaustive.solve(small_problem, Budget())
    outcome = solve(small_problem, Budget(seed=1), Params(victory=20_000, threads=2))
    assert outcome.objective == pytest.approx(proven.objective, rel=1e-12)


@pytest.mark.parametrize("iterations", [1, 2, 700])
def test_iterations_are_those_of_all_threads(medium_problem: MappingProblem, iterations: int) -> None:
    outcome = solve(medium_problem, Budget(iterations=iterations), Params(threads=3, victory=10**6))
    assert outcome.evaluations == iterations


@pytest.mark.slow
def test_few_orders_of_each_factorisation(medium_problem: MappingProblem) -> None:
    """More factorisations are drawn for as many valid mappings, so more of the looks are at unfit ones."""
    few = solve(medium_problem, Budget(), Params(threads=1, orders=1, victory=200))
    every = solve(medium_problem, Budget(), Params(threads=1, victory=200))
    assert few.objective is not None
    assert every.objective is not None
    assert few.evaluations > every.evaluations


def test_threads_draw_different_mappings(medium_problem: MappingProblem) -> None:
    one, many = (solve(medium_problem, Budget(), Params(threads=n, victory=50)) for n in (1, 8))
    assert one.objective is not None
    assert many.objective is not None
    assert many.objective < one.objective
    assert many.evaluations > 4 * one.evaluations
    assert many.status is not Status.UNKNOWN


@pytest.mark.parametrize("wrong", [{"threads": 0}, {"victory": 0}, {"orders": -1}, {"victory": True}])
def test_wrong_params(wrong: dict[str, Any]) -> None:
    with pytest.raises(InputError) as caught:
        Params(**wrong)
    assert [caught.value.key] == list(wrong)
