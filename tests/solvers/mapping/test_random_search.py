"""Random search against a literal loop over its own draws, and against exhaustive search."""

from __future__ import annotations

from math import inf

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import convolution, gemm
from solvers.budget import Budget
from solvers.mapping import exhaustive
from solvers.mapping.problem import OBJECTIVES, MappingProblem, objective_of, violations
from solvers.mapping.random_search import BLOCK_ROWS, Params, solve
from solvers.mapping.space.rules import KeepRule, SpaceRules
from solvers.mapping.space.space import MappingSpace
from solvers.outcome import Status


def literal(problem: MappingProblem, seed: int, victory: int, draws: int) -> tuple[Mapping | None, float]:
    """One draw after the other; stop after ``victory`` valid ones without a better one."""
    space = MappingSpace(problem.architecture, problem.layer, problem.rules)
    batch = space.sample(range(-(-draws // BLOCK_ROWS)), seed, BLOCK_ROWS)
    best, lowest, unbeaten = None, inf, 0
    for row in range(draws):
        mapping = batch.mapping(row, problem.layer)
        if violations(problem, mapping):
            continue
        unbeaten += 1
        value = objective_of(evaluate(problem.architecture, problem.layer, mapping), problem.objective)
        if value < lowest * (1 - 1e-12):
            best, lowest, unbeaten = mapping, value, 0
        if unbeaten == victory:
            break
    return best, lowest


@pytest.mark.slow
@pytest.mark.parametrize("objective", OBJECTIVES)
@pytest.mark.parametrize("victory", [1, 5, 40, 300, 10**6])
def test_it_stops_where_the_literal_loop_stops(
    medium_problem: MappingProblem, objective: str, victory: int
) -> None:
    layer, architecture = medium_problem.layer, medium_problem.architecture
    problem = MappingProblem(architecture, layer, objective)  # type: ignore[arg-type]
    draws = 5000
    mapping, value = literal(problem, 3, victory, draws)
    outcome = solve(problem, Budget(iterations=draws, seed=3), Params(victory=victory))
    assert outcome.objective == pytest.approx(value, rel=1e-12)
    if objective != "cycles":  # equal cycles of different mappings: both take the first
        assert outcome.solution == mapping


def test_it_finds_what_exhaustive_search_proves(small_problem: MappingProblem) -> None:
    proven = exhaustive.solve(small_problem, Budget())
    outcome = solve(small_problem, Budget(seed=1), Params(victory=60_000))
    assert outcome.objective == pytest.approx(proven.objective, rel=1e-12)
    assert outcome.status is Status.FEASIBLE
    assert outcome.gap is not None
    assert outcome.gap > 0


@pytest.mark.parametrize("iterations", [1, 100, 4096, 5000])
def test_iterations_are_draws(medium_problem: MappingProblem, iterations: int) -> None:
    outcome = solve(medium_problem, Budget(iterations=iterations), Params(victory=10**9))
    assert outcome.evaluations == iterations


def test_more_draws_are_never_worse(medium_problem: MappingProblem) -> None:
    values = [
        solve(medium_problem, Budget(iterations=draws), Params(victory=10**9)).objective
        for draws in (500, 5000, 50_000)
    ]
    assert None not in values
    assert values == sorted(values, reverse=True)  # type: ignore[type-var]
    assert values[0] > values[-1]  # type: ignore[operator]


def test_time_ends_the_search(medium_problem: MappingProblem) -> None:
    outcome = solve(medium_problem, Budget(wall_seconds=1e-9), Params(victory=10**9))
    assert outcome.status is Status.FEASIBLE
    assert outcome.evaluations > 0


@pytest.mark.parametrize(
    ("keep", "kept"),
    [("fitting", {1}), ("free", {0, 1})],
)
def test_keep_rules(keep: KeepRule, kept: set[int]) -> None:
    """Registers of one word hold exactly one tensor, or with "free" perhaps none."""
    layer, rules = gemm("g", M=16, N=16, K=16), SpaceRules(keep)
    problem = MappingProblem(load_architecture("B_simba_like"), layer, "energy", rules)
    seen = set()
    for seed in range(6):
        outcome = solve(problem, Budget(iterations=300, seed=seed))
        assert outcome.solution is not None
        seen.add(len(outcome.solution.levels[0].keep))
    assert seen <= kept


def test_all_that_cannot_be_kept_is_proven(two_levels: Architecture) -> None:
    layer, rules = gemm("g", M=4, N=4, K=4), SpaceRules("all")
    outcome = solve(MappingProblem(load_architecture("B_simba_like"), layer, rules=rules), Budget())
    assert outcome.status is Status.INFEASIBLE
    assert outcome.note == "Registers: tiles of one word each of A, B, Z need 3 words, 1 are usable"


@pytest.mark.slow
def test_no_valid_draw_proves_nothing(three_levels: Architecture) -> None:
    layer = convolution("c", K=64, C=64, P=64, Q=64, R=4, S=4)
    problem = MappingProblem(three_levels, layer)
    outcomes = [solve(problem, Budget(iterations=1, seed=seed)) for seed in range(60)]
    unknown = [outcome for outcome in outcomes if outcome.status is Status.UNKNOWN]
    assert 0 < len(unknown) < 60
    assert unknown[0].note == "none of 1 mappings drawn was valid; nothing shows that there is none"
    assert unknown[0].bound is not None


@pytest.mark.parametrize("given", [{"victory": 0}, {"victory": 1.5}, {"victory": True}])
def test_wrong_parameters(given: dict[str, object]) -> None:
    (key,) = given
    with pytest.raises(InputError, match=f"random_search: {key}: expected"):
        Params(**given)  # type: ignore[arg-type]
