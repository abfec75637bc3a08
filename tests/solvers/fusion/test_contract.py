"""What every fusion solver of the catalogue promises."""

from __future__ import annotations

import pickle
from random import Random
from typing import Any, cast

import pytest

from costmodel.errors import InputError
from costmodel.formats.json.fusion_json import problem_from_json
from costmodel.mapping.fused.mapping import FusedMapping
from solvers.budget import LEAST_SECONDS, Budget
from solvers.catalogue import CATALOGUE, Entry
from solvers.fusion.problem import OBJECTIVES, FusionProblem, objective_of, violations
from solvers.outcome import Outcome, Status
from tests.costmodel.mapping.fused import random_fused

ENTRIES = [entry for entry in CATALOGUE if entry.family == "fusion"]
every_solver = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


def problem(
    random: Random, objective: str, count: int = 2, levels: int = 3, *, roomy: bool = False
) -> FusionProblem:
    """A chain of matrix products in memories that may be too small."""
    content = {
        "einsums": random_fused.products(random, count),
        "levels": random_fused.levels(random, levels, room=not roomy),
        "mac_pj": 1,
    }
    return FusionProblem(problem_from_json(content, "drawn"), cast(Any, objective))


def solve(entry: Entry, question: FusionProblem, seconds: float = 60) -> Outcome[FusedMapping]:
    outcome: Outcome[FusedMapping] = entry.load().solve(question, Budget(seconds))
    return outcome


@every_solver
@pytest.mark.parametrize("objective", OBJECTIVES)
def test_mappings_are_some_and_cost_what_is_said(entry: Entry, objective: str) -> None:
    random, found = Random(objective), 0
    for number in range(12):
        question = problem(random, objective, 1 + number % 3, 2 + number % 2)
        outcome = solve(entry, question)
        if outcome.solution is None:
            assert outcome.status is Status.INFEASIBLE
            assert "which has a capacity of" in outcome.note
            continue
        found += 1
        assert violations(question, outcome.solution) == []
        assert outcome.objective == objective_of(question, outcome.solution)
        assert outcome.bound is not None
        assert outcome.bound <= outcome.objective
        assert outcome.status is not Status.OPTIMAL or outcome.bound == outcome.objective
        assert pickle.loads(pickle.dumps(outcome)) == outcome
    assert found >= 5


@every_solver
def test_a_solve_that_is_stopped_says_so_and_its_bound_holds(entry: Entry) -> None:
    question = problem(Random(4), "edp", 3, roomy=True)
    best = solve(entry, question)
    assert best.objective is not None
    for seconds in (LEAST_SECONDS, 5e-3, 2e-2):
        outcome = solve(entry, question, seconds)
        assert outcome.bound is not None
        assert outcome.bound <= best.objective
        # the rooms are large enough for the einsums one after the other: there is an answer at once
        assert outcome.status in (Status.FEASIBLE, Status.OPTIMAL)
        if outcome.status is not Status.OPTIMAL:
            assert "time was up" in outcome.note


@every_solver
def test_equal_problems_get_equal_answers(entry: Entry) -> None:
    ones, others = (solve(entry, problem(Random(8), "edp", 3, roomy=True)) for _ in range(2))
    assert ones.solution == others.solution


def test_what_is_counted_but_not_searched_is_refused() -> None:
    einsums, halo = random_fused.windows(Random(2))
    content = {
        "einsums": einsums,
        "levels": random_fused.levels(Random(2), 2),
        "mac_pj": 1,
        "halo": halo,
    }
    with pytest.raises(InputError, match="no solver searches them"):
        FusionProblem(problem_from_json(content, "drawn"), "edp")
