"""Solvers that choose layouts: against enumeration in every layout, bounds, and what needs no choice."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import islice, product

import pytest

from costmodel.hardware.timing import Layouts, Timing
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Role, gemm
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping import exhaustive
from solvers.mapping.exact import solver as exact
from solvers.mapping.exact.params import Params
from solvers.mapping.problem import MappingProblem, executed_layer, objective_of, violations
from solvers.mapping.space.layouts import layout_choices
from solvers.mapping.space.rules import SpaceRules
from solvers.mapping.space.space_bounds import space_bound
from solvers.outcome import Outcome, Status
from tests.solvers.mapping.random_problems import timed_problems

PERMITTED: dict[Role, tuple[tuple[str, ...], ...]] = {
    "inputs": (("N", "C", "Q", "P"), ("N", "Q", "P", "C"), ("N", "C", "Q", "P", "4C")),
    "outputs": (("N", "K", "Q", "P"), ("N", "Q", "P", "K")),
    "weights": (("R", "S", "C", "K"), ("K", "C", "R", "S")),
}


def timing_of(problem: MappingProblem) -> Timing:
    assert problem.architecture.timing is not None
    return problem.architecture.timing


def problems_with_choices(seed: int) -> Iterator[MappingProblem]:
    """Random machines with timing, each of which permits two or three layouts of one tensor or two."""
    rng = random.Random(seed)
    for problem in timed_problems(seed):
        roles = rng.sample(sorted(PERMITTED), rng.choice([1, 2]))
        permitted = tuple((role, PERMITTED[role]) for role in roles)
        timing = replace(timing_of(problem), permitted_layouts=permitted)
        yield replace(problem, architecture=replace(problem.architecture, timing=timing))


def in_every_layout(problem: MappingProblem) -> dict[Layouts, MappingProblem]:
    """A problem for each choice of layouts, on a machine whose file has them and permits no others."""
    plain = replace(timing_of(problem), permitted_layouts=())
    found = {}
    choices = dict(timing_of(problem).permitted_layouts)
    own = {role: timing_of(problem).layout(role) for role in choices}
    for chosen in product(*({own[role], *layouts} for role, layouts in choices.items())):
        layouts = dict(zip(choices, chosen, strict=True))
        machine = replace(problem.architecture, timing=plain.with_layouts(layouts))
        found[plain.others(layouts)] = replace(problem, architecture=machine)
    return found


def enumerated(problem: MappingProblem) -> dict[Layouts, Outcome[Mapping]]:
    """The best mapping in every layout; empty where there is none, or too many to look at for a test."""
    found = {}
    for layouts, one in in_every_layout(problem).items():
        found[layouts] = exhaustive.solve(one, Budget(60.0, None, 0), exhaustive.Params(limit=3_000))
        if found[layouts].status is not Status.OPTIMAL:
            return {}
    return found


@pytest.mark.slow
def test_exact_chooses_the_best_of_all_mappings_in_all_layouts() -> None:
    compared = chosen = 0
    for problem in islice(problems_with_choices(5), 17):
        if not (every := enumerated(problem)):
            continue
        assert set(layout_choices(problem)) == set(every)
        least = min(outcome.objective for outcome in every.values() if outcome.objective is not None)
        best = exact.solve(problem, Budget(20.0, None, 0))
        assert best.status is Status.OPTIMAL
        assert best.bound == best.objective == pytest.approx(least, rel=1e-12)
        assert best.solution is not None
        assert not violations(problem, best.solution)
        counted = evaluate(problem.architecture, problem.layer, best.solution)
        assert objective_of(counted, problem.objective) == best.objective
        assert every[best.solution.layouts].objective == pytest.approx(least, rel=1e-12)
        compared += 1
        own = every[()].objective
        chosen += own is not None and least < own
    assert compared > 8
    assert chosen > 2, "machines whose own layouts are the best show nothing"


@pytest.mark.slow
def test_a_search_that_is_cut_short_keeps_a_bound_for_every_layout() -> None:
    looked = 0
    for problem in islice(problems_with_choices(9), 7):
        if not (every := enumerated(problem)):
            continue
        least = min(outcome.objective for outcome in every.values() if outcome.objective is not None)
        assert space_bound(problem) <= least * (1 + 1e-12)
        for budget, params in (
            (Budget(20.0, 1, 0), Params()),
            (Budget(1e-6, None, 0), Params()),
            (Budget(20.0, None, 0), Params(tolerance=0.2)),
        ):
            outcome = exact.solve(problem, budget, params)
            assert outcome.bound is not None
            assert outcome.bound <= least * (1 + 1e-12)
            if outcome.objective is not None:
                assert outcome.objective >= least * (1 - 1e-12)
                assert outcome.objective * (1 - params.tolerance) <= least * (1 + 1e-12) or params == Params()
        looked += 1
    assert looked > 3


@pytest.mark.slow
@pytest.mark.parametrize("name", ["random_search", "cosa", "kapla", "thistle", "hybrid", "auto"])
def test_every_solver_answers_in_layouts_that_the_machine_permits(name: str) -> None:
    problem = next(
        one for one in problems_with_choices(2) if len(in_every_layout(one)) == 2 and enumerated(one)
    )
    outcome = solver(name).load().solve(problem, Budget(4.0, 4, 0))
    assert outcome.solution is not None
    assert not violations(problem, outcome.solution)
    counted = evaluate(problem.architecture, executed_layer(problem, outcome.solution), outcome.solution)
    assert outcome.objective == pytest.approx(objective_of(counted, problem.objective), rel=1e-12)
    assert "combinations of layouts" in outcome.note
    best = exact.solve(problem, Budget(20.0, None, 0))
    assert best.objective is not None
    assert outcome.bound is not None
    assert outcome.bound <= best.objective * (1 + 1e-12) <= outcome.objective * (1 + 1e-9)


@pytest.mark.slow
def test_padding_and_a_known_mapping_go_with_layouts() -> None:
    problem = next(one for one in problems_with_choices(4) if len(in_every_layout(one)) == 2)
    problem = replace(problem, layer=gemm("g", M=6, N=4, K=5), rules=SpaceRules(padding=0.25))
    outcome = exact.solve(problem, Budget(20.0, None, 0))
    assert outcome.solution is not None
    assert not violations(problem, outcome.solution)
    again = exact.solve(problem, Budget(20.0, None, 0), start=outcome.solution)
    assert again.objective == pytest.approx(outcome.objective)
    assert outcome.status is again.status is Status.OPTIMAL


def test_layouts_are_no_choice_where_they_change_nothing() -> None:
    problem = next(problems_with_choices(1))
    levels = tuple(replace(level, leakage_pj_per_cycle=0.0) for level in problem.architecture.levels)
    energy = replace(problem, objective="energy", architecture=replace(problem.architecture, levels=levels))
    assert layout_choices(energy) == [()]
    assert len(layout_choices(replace(energy, objective="cycles"))) > 1
    leaking = replace(levels[-1], leakage_pj_per_cycle=1.0)
    leaks = replace(energy.architecture, levels=(*levels[:-1], leaking))
    assert len(layout_choices(replace(energy, architecture=leaks))) > 1
    untimed = replace(problem, architecture=replace(problem.architecture, timing=None))
    assert layout_choices(untimed) == [()]
    own, *_ = layout_choices(problem)
    assert own == ()
