"""What every mapping solver of the catalogue promises."""

from __future__ import annotations

import pickle
from dataclasses import fields, replace
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import convolution, gemm
from solvers.budget import Budget
from solvers.catalogue import Entry, entries
from solvers.mapping.exhaustive import solve as look_at_all
from solvers.mapping.problem import (
    OBJECTIVES,
    MappingProblem,
    executed_layer,
    objective_of,
    violations,
)
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules
from solvers.outcome import Outcome, Status
from tests.thorough import also

ENTRIES = entries("mapping")
"""Ours, and those of plug-ins that are installed: their authors run these tests with -k NAME."""
BUDGET = Budget(wall_seconds=120, seed=5)
FEW = Budget(wall_seconds=120, iterations=20_000, seed=5)
SLACK = 1 + 1e-9
LIGHT: dict[str, dict[str, Any]] = {"learned_annealing": {"batches": 6}, "thistle": {"programs": 40}}
"""Parameters here of solvers that spend by default what a promise does not need."""

every_solver = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)
every_objective = pytest.mark.parametrize("objective", OBJECTIVES)


def solve(entry: Entry, problem: MappingProblem, budget: Budget = BUDGET, **params: Any) -> Outcome[Mapping]:
    module = entry.load()
    asked = module.Params(**LIGHT.get(entry.name, {}) | params)
    outcome: Outcome[Mapping] = module.solve(problem, budget, asked)
    return outcome


def check(problem: MappingProblem, outcome: Outcome[Mapping]) -> None:
    """An outcome that claims no more than it has."""
    assert outcome.cpu_seconds >= 0
    assert outcome.wall_seconds >= 0
    assert outcome.evaluations >= 0
    if outcome.solution is None:
        assert outcome.note
        assert outcome.gap is None
        assert (outcome.bound is None) == (outcome.status is Status.INFEASIBLE)
        return
    assert violations(problem, outcome.solution) == []
    again = evaluate(problem.architecture, executed_layer(problem, outcome.solution), outcome.solution)
    assert outcome.objective == objective_of(again, problem.objective)
    assert outcome.bound is not None
    assert outcome.objective is not None
    assert 0 < outcome.bound <= outcome.objective
    assert outcome.gap is not None
    assert outcome.gap >= 0
    assert (outcome.status is Status.OPTIMAL) == (outcome.gap == 0)


@pytest.mark.slow
@every_solver
@every_objective
def test_a_small_problem(entry: Entry, objective: Any, small_problem: MappingProblem) -> None:
    """All mappings are known here: nobody is better than the best, the provers reach it."""
    problem = replace(small_problem, objective=objective)
    compare(entry, problem, solve(entry, problem), look_at_all(problem, Budget()).objective)


def compare(entry: Entry, problem: MappingProblem, outcome: Outcome[Mapping], best: float | None) -> None:
    """The outcome against the cost of the best mapping there is."""
    check(problem, outcome)
    assert best is not None
    assert outcome.objective is not None
    assert outcome.bound is not None
    assert outcome.bound <= best * SLACK <= outcome.objective * SLACK**2
    if entry.proves_optimality:
        assert outcome.status is Status.OPTIMAL
    if outcome.status is Status.OPTIMAL:
        assert outcome.objective == pytest.approx(best, rel=1e-9)


RULES = [
    SpaceRules("free"),
    SpaceRules("all"),
    SpaceRules(levels=(LevelRules("Buffer", keep=("A",), bypass=("outputs",)),)),
    SpaceRules(levels=(LevelRules("Buffer", temporal=(FactorRule("M", 2, 2),), innermost=("K", "N")),)),
    SpaceRules(levels=(LevelRules("Buffer", spatial=(FactorRule("N", 2),), spatial_x=("N",), spatial_y=()),)),
    SpaceRules(levels=(LevelRules("DRAM", (FactorRule("N", most=1),), innermost=("M",), outermost=("K",)),)),
]


@pytest.mark.slow
@every_solver
@pytest.mark.parametrize("rules", RULES, ids=SpaceRules.describe)
def test_rules_of_the_space(entry: Entry, rules: SpaceRules, small_problem: MappingProblem) -> None:
    """Every solver stays in the space or says that it cannot, and names others; nobody's bound leaves it."""
    problem = replace(small_problem, rules=rules)
    try:
        outcome = solve(entry, problem)
    except InputError as refusal:
        assert "exhaustive" in str(refusal)  # noqa: PT017 - the refusal is one of two right answers
        return
    compare(entry, problem, outcome, look_at_all(problem, Budget()).objective)


@pytest.mark.slow
@every_solver
@every_objective
def test_padded_dims(entry: Entry, objective: Any, two_levels: Architecture) -> None:
    """Of all sizes that M and N may have: nobody is better than the best of the best; provers reach it."""
    rules = SpaceRules(padding=0.2)
    problem = MappingProblem(two_levels, gemm("primes", M=5, N=7, K=2), objective, rules)
    best = [
        look_at_all(replace(problem, layer=gemm("g", M=m, N=n, K=2), rules=SpaceRules()), Budget()).objective
        for m in (5, 6)
        for n in (7, 8)
    ]
    outcome = solve(entry, problem)
    compare(entry, problem, outcome, min(value for value in best if value is not None))
    assert "padded sizes solved" in outcome.note


IMPOSSIBLE = [
    (LevelRules("Buffer", (FactorRule("M", 3, 3),)), "no temporal factor M = 3 divides M=4"),
    (
        LevelRules("Buffer", spatial=(FactorRule("N", 3),)),
        "N >= 3 asked, its fan-out is 2 x 2",
    ),
    (LevelRules("Buffer", spatial=(FactorRule("M", 2), FactorRule("N", 2), FactorRule("K", 2))), "2 x 2"),
    (LevelRules("Buffer", (FactorRule("M", 4), FactorRule("N", 6))), "24 are usable"),
]


@every_solver
@pytest.mark.parametrize(("rules", "reason"), IMPOSSIBLE, ids=[reason for _, reason in IMPOSSIBLE])
def test_impossible_constraints_are_named(
    entry: Entry, rules: LevelRules, reason: str, small_problem: MappingProblem
) -> None:
    outcome = solve(entry, replace(small_problem, rules=SpaceRules(levels=(rules,))))
    assert outcome.status is Status.INFEASIBLE
    assert "Buffer" in outcome.note
    assert reason in outcome.note


@pytest.mark.slow
@every_solver
@pytest.mark.parametrize("name", ["eyeriss", "E_four_level", *also("B_simba_like", "D_tpu_like")])
def test_real_layers(entry: Entry, name: str) -> None:
    """Strides, one-word registers, double buffers, leakage; provers may refuse with a reason."""
    architecture = load_architecture(name)
    for layer in (
        convolution("strided", K=32, C=16, P=14, Q=14, R=3, S=3, stride=(2, 2)),
        convolution("depthwise", K=32, C=32, P=14, Q=7, R=3, S=3, groups=32),
        gemm("product", M=50, N=64, K=96),
    ):
        problem = MappingProblem(architecture, layer)
        outcome = solve(entry, problem, FEW)
        check(problem, outcome)
        if not entry.proves_optimality:
            assert outcome.solution is not None


@pytest.mark.slow
@every_solver
def test_a_layer_of_one_mac(entry: Entry, two_levels: Architecture) -> None:
    problem = MappingProblem(two_levels, gemm("one", M=1, N=1, K=1))
    outcome = solve(entry, problem, FEW)
    check(problem, outcome)
    assert outcome.solution is not None
    assert all(level.loops == () for level in outcome.solution.levels)


@pytest.mark.slow
@every_solver
def test_primes(entry: Entry, two_levels: Architecture) -> None:
    problem = MappingProblem(two_levels, gemm("primes", M=13, N=1, K=7), "cycles")
    outcome = solve(entry, problem, FEW)
    check(problem, outcome)
    assert outcome.solution is not None


@pytest.mark.slow
@every_solver
def test_the_same_answer_for_the_same_seed(entry: Entry, small_problem: MappingProblem) -> None:
    first, second = (solve(entry, small_problem, FEW) for _ in range(2))
    assert replace(first, cpu_seconds=0.0, wall_seconds=0.0) == replace(
        second, cpu_seconds=0.0, wall_seconds=0.0
    )


@pytest.mark.slow
@every_solver
def test_names_of_layer_and_architecture_do_not_matter(entry: Entry, small_problem: MappingProblem) -> None:
    renamed = replace(
        small_problem,
        layer=replace(small_problem.layer, name="<b>other</b>"),
        architecture=replace(small_problem.architecture, name="another"),
    )
    assert solve(entry, renamed, FEW).solution == solve(entry, small_problem, FEW).solution


@every_solver
def test_problems_and_outcomes_travel(entry: Entry, small_problem: MappingProblem) -> None:
    """As between driver and workers."""
    problem = pickle.loads(pickle.dumps(small_problem))
    outcome = solve(entry, problem, FEW)
    assert pickle.loads(pickle.dumps(outcome)) == outcome


@every_solver
@pytest.mark.parametrize(
    "budget", [Budget(wall_seconds=1e-6), Budget(iterations=1)], ids=["time", "iterations"]
)
def test_a_budget_of_nearly_nothing(entry: Entry, budget: Budget, medium_problem: MappingProblem) -> None:
    """Whatever was found by then, or a note; far less work than an unlimited solve does."""
    outcome = solve(entry, medium_problem, budget)
    check(medium_problem, outcome)
    assert outcome.evaluations <= 20_000


@every_solver
def test_nothing_fits(entry: Entry) -> None:
    """Registers of one word cannot keep three tensors: solvers told to keep all must say why not."""
    architecture, rules = load_architecture("B_simba_like"), SpaceRules("all")
    outcome = solve(entry, MappingProblem(architecture, gemm("g", M=4, N=4, K=4), rules=rules), FEW)
    assert outcome.status is Status.INFEASIBLE
    assert outcome.solution is None
    assert "Registers" in outcome.note
    assert "3 words" in outcome.note
    assert "1 are usable" in outcome.note


@every_solver
def test_parameters_are_checked_when_built(entry: Entry) -> None:
    params = entry.load().Params
    known = [field.name for field in fields(params)]
    assert known
    for name in known:
        for wrong in (object(), "nonsense", -1):
            with pytest.raises(InputError) as raised:
                params(**{name: wrong})
            assert name in str(raised.value)
    with pytest.raises(AttributeError):
        setattr(params(), known[0], 1)


@every_solver
def test_parameters_are_plain_data(entry: Entry) -> None:
    """A study writes them as JSON, and two equal ones are one task."""
    import json
    from dataclasses import asdict

    params = entry.load().Params
    assert params(**json.loads(json.dumps(asdict(params())))) == params()


@every_solver
def test_the_module_has_a_version(entry: Entry) -> None:
    assert isinstance(entry.load().VERSION, str)
    assert entry.load().VERSION


class FewLooks:
    """A clock that stands until it has been looked at so many times, and then is far beyond every limit."""

    def __init__(self, looks: int) -> None:
        self.left = looks
        self.after = 0

    def __call__(self) -> float:
        self.left -= 1
        if self.left >= 0:
            return 0.0
        self.after += 1
        return 1e9


HOSTILE = {
    "a large prime": gemm("prime", M=1_000_000_007, N=64, K=64),
    "many divisors": gemm("divisors", M=5040, N=5040, K=720),
    "many dims": convolution("convolution", K=720, C=720, P=60, Q=60, R=3, S=3),
}


@pytest.mark.slow
@every_solver
@pytest.mark.parametrize("padding", [0.001, *also(0.0)])
@pytest.mark.parametrize("name", HOSTILE)
def test_the_clock_is_honoured(
    entry: Entry, name: str, padding: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once the time is up, little more is done: the clock is looked at a few times and that is it.

    Each look stands for the work between two of them, which tests of the parts bound; no second is measured.
    """
    problem = MappingProblem(
        load_architecture("eyeriss"), HOSTILE[name], "energy", SpaceRules(padding=padding)
    )
    solve(entry, replace(problem, layer=gemm("small", M=8, N=8, K=8)))  # loads compiled code
    clock = FewLooks(40)
    monkeypatch.setattr("time.perf_counter", clock)
    outcome = solve(entry, problem, Budget(wall_seconds=5))
    monkeypatch.undo()
    assert outcome.status in (Status.FEASIBLE, Status.OPTIMAL, Status.UNKNOWN)
    assert clock.after <= 300
