"""Limits of mapping solvers: the note says when one was reached, and a bound holds all the same."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from importlib import import_module
from itertools import islice
from typing import Any

import pytest

from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.mapping.bounds import sharing
from costmodel.mapping.bounds.bounds import lower_bounds
from costmodel.workload.network import Layer, convolution, gemm
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.mapping import exhaustive
from solvers.mapping.exact import spatial
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.rules import FactorRule, LevelRules, SpaceRules
from solvers.outcome import Outcome, Status
from tests.solvers.mapping import random_problems
from tests.thorough import also, how_many

CONVOLUTION = convolution("c", K=4, C=6, P=4, Q=3, R=3, S=1)
PRODUCT = gemm("g", M=4, N=6, K=4)
FITTING = SpaceRules()
FREE, PADDED, UNEVEN = SpaceRules("free"), SpaceRules(padding=0.5), SpaceRules(uneven=True)
NOTHING_AT_DRAM = SpaceRules(levels=(LevelRules("DRAM", temporal=(FactorRule("M", 1, 1),)),))
AT_ONCE, SHORT = Budget(wall_seconds=1e-9), Budget(iterations=20)


@pytest.fixture(autouse=True)
def _nothing_remembered() -> Iterator[None]:
    """Bounds that were computed within one test's limits are not for another's."""
    forget()
    yield
    forget()


def forget() -> None:
    lower_bounds.cache_clear()  # type: ignore[attr-defined]
    sharing._any_ways.cache_clear()  # type: ignore[attr-defined]


def machine(fanout: int = 2) -> Architecture:
    """Registers of six words below a buffer of 40, whose fan-out is square, below DRAM that is slow."""
    levels = (
        StorageLevel("Register", 6, 16, 0.05, 0.06, 0.07),
        StorageLevel("Buffer", 40, 16, 1.0, 1.25, 1.5, fanout_x=fanout, fanout_y=fanout),
        StorageLevel("DRAM", None, 16, 90.0, 80.0, 100.0, shared_bandwidth=0.5),
    )
    return Architecture("machine", levels, Compute("MAC", 16, 0.5))


@dataclass(frozen=True)
class Case:
    """A limit, by the module and name of its constant or the solver's parameter, and a solve that reaches it
    at ``value``; ``what`` is counted, and the solve with ``wide``, or the usual value, stays below."""

    limit: str
    value: Any
    what: str
    solver: str
    layer: Layer = PRODUCT
    rules: SpaceRules = FITTING
    budget: Budget = SHORT
    params: tuple[tuple[str, Any], ...] = ()
    wide: Any = None
    below: SpaceRules | None = None
    """Other rules with which the limit is not reached, for one that any choice of kept tensors reaches."""

    @property
    def shown(self) -> int:
        return self.value if isinstance(self.value, int) else len(self.value)

    def outcome(self, monkeypatch: pytest.MonkeyPatch, value: Any, rules: SpaceRules) -> Outcome[Any]:
        """The solve with the limit at ``value``, None: as it is."""
        module, params = solver(self.solver).load(), dict(self.params)
        place, _, name = self.limit.rpartition(".")
        if value is not None and place:
            monkeypatch.setattr(import_module(place), name, value)
        elif value is not None:
            params[name] = value
        problem = MappingProblem(machine(), self.layer, "energy", rules)
        outcome: Outcome[Any] = module.solve(problem, self.budget, module.Params(**params))
        return outcome


DRAWN = (("learn", False), ("batch", 8), ("steps", 4))
CASES = [
    Case(
        "costmodel.mapping.bounds.sharing.MOST_ALLOCATIONS", 1, "ways to spend the fan-outs", "random_search"
    ),
    Case(
        "costmodel.mapping.bounds.sharing.MOST_EXACT_FANOUT",
        1,
        "instances of a fan-out that are divided exactly",
        "random_search",
        rules=PADDED,
    ),
    Case(
        "solvers.mapping.space.starts.DRAWN_BLOCKS",
        0,
        "blocks of drawn mappings",
        "thistle",
        rules=NOTHING_AT_DRAM,
        budget=AT_ONCE,
    ),
    Case(
        "solvers.mapping.space.space.ATTEMPTS",
        1,
        "draws of a row's spatial factors until they fit",
        "random_search",
    ),
    Case(
        "solvers.mapping.learned_annealing.annealing.START_ROUNDS",
        0,
        "batches of drawn mappings",
        "learned_annealing",
        params=DRAWN,
    ),
    Case(
        "solvers.mapping.learned_annealing.search.IDLE_ROUNDS",
        1,
        "rounds in a row without a new mapping",
        "learned_annealing",
        layer=gemm("tiny", M=1, N=2, K=1),
        budget=Budget(),
        params=(*DRAWN, ("batches", 50), ("patience", 50)),  # without patience all wall seconds pass
        wide=10**6,
    ),
    Case(
        "solvers.mapping.cosa.cost_program.MOST_ROUNDS",
        0,
        "solves of CoSA's program of costs",
        "cosa",
        params=(("surrogate", "cost"), ("polish", False)),
    ),
    Case("solvers.mapping.kapla.filling.MOST_PRODUCTS", 1, "products of divisors in one pass", "kapla"),
    Case(
        "solvers.mapping.exact.aggregate.MOST_KEEP_SETS",
        1,
        "choices of what levels keep",
        "exact",
        rules=FREE,
        budget=Budget(iterations=1),
    ),
    Case(
        "solvers.mapping.exact.assignments.MOST_WAITING",
        2,
        "assignments of spatial factors that wait",
        "exact",
        rules=FREE,
    ),
    Case("solvers.mapping.exact.solver.MOST_VECTORS", 1, "tiles to tell apart", "exact"),
    Case(
        "solvers.mapping.exact.solver.MOST_TABLES",
        1,
        "tiles to tell apart in the parts of levels",
        "exact",
        rules=UNEVEN,
    ),
    Case(
        "solvers.mapping.exact.spatial.MOST_SPREADS", 1, "ways to spread the layer over the fan-outs", "exact"
    ),
    Case("keep_choices", 1, "choices of what levels keep", "cosa", rules=FREE, wide=10**6),
    Case("keeps", 1, "choices of what levels keep", "thistle", rules=FREE),
    Case("programs", 1, "programs to solve", "thistle", layer=CONVOLUTION, budget=Budget()),
    Case("solvers.mapping.thistle.search.proof.MOST_PROGRAMS", 1, "programs to solve for a proof", "thistle"),
    Case(
        "solvers.mapping.thistle.search.proof.MOST_PIECES",
        6,
        "ranges of the number of copies of the outputs",
        "thistle",
        rules=FREE,
        below=SpaceRules("all"),
    ),
    Case(
        "solvers.mapping.space.padding.SOLVE_DIVISORS",
        (),
        "solves of a padded size",
        "exact",
        layer=gemm("primes", M=7, N=7, K=7),
        rules=PADDED,
        budget=Budget(),
    ),
]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.limit)
def test_the_note_says_that_a_limit_was_reached(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = case.outcome(monkeypatch, case.value, case.rules)
    assert outcome.status in (Status.FEASIBLE, Status.UNKNOWN)
    sentence = f"limit of {case.shown} {case.what} reached: "
    assert outcome.note.count(sentence) == 1, outcome.note
    before, after = outcome.note.split(sentence)
    assert after.partition(";")[0]
    # in a portfolio's words the member's name stands before
    assert before == "" or before.endswith("; ")


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.limit)
def test_the_note_is_empty_below_the_limit(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = case.outcome(monkeypatch, case.wide, case.below or case.rules)
    assert f" {case.what} reached" not in outcome.note, outcome.note


def test_a_proven_answer_was_not_kept_from_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "MOST_ALLOCATIONS", 1)
    outcome = solver("exact").load().solve(MappingProblem(machine(), PRODUCT), Budget())
    assert (outcome.status, outcome.note) == (Status.OPTIMAL, "")


def test_a_remembered_bound_comes_with_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sharing, "MOST_ALLOCATIONS", 1)
    module, problem = solver("random_search").load(), MappingProblem(machine(), PRODUCT)
    notes = [module.solve(problem, SHORT).note for _ in range(2)]
    assert notes[0] == notes[1] != ""


def test_a_portfolio_says_what_its_members_reached_once(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(spatial, "MOST_SPREADS", 1)
    module = solver("auto").load()
    params = module.Params(members=("exact", "random_search"))
    outcome = module.solve(MappingProblem(machine(), PRODUCT), SHORT, params)
    assert outcome.note.count("exact: limit of 1 ways to spread the layer over the fan-outs reached") == 1
    assert outcome.note.count("ways to spread the layer") == 1


LOWERED = {
    "costmodel.mapping.bounds.sharing.MOST_ALLOCATIONS": 1,
    "costmodel.mapping.bounds.sharing.MOST_EXACT_FANOUT": 1,
    "solvers.mapping.exact.aggregate.MOST_KEEP_SETS": 0,
    "solvers.mapping.exact.assignments.MOST_WAITING": 3,
    "solvers.mapping.thistle.search.proof.MOST_PROGRAMS": 2,
    "solvers.mapping.thistle.search.proof.MOST_PIECES": 1,
    "solvers.mapping.kapla.filling.MOST_PRODUCTS": 1,
    "solvers.mapping.space.space.ATTEMPTS": 1,
}
SEARCHES: dict[str, Callable[[], Any]] = {
    "exact": lambda: solver("exact").load().Params(),
    "thistle": lambda: solver("thistle").load().Params(keeps=64, programs=3, classes=2, kicks=0),
    "cosa": lambda: solver("cosa").load().Params(keep_choices=1, kicks=0),
    "kapla": lambda: solver("kapla").load().Params(),
    "random_search": lambda: solver("random_search").load().Params(),
    "hybrid": lambda: solver("hybrid").load().Params(),
}


@pytest.mark.slow
@pytest.mark.parametrize(
    ("objective", "padding"),
    [("edp", 0.0), ("energy", 0.4), *also(("energy", 0.0), ("cycles", 0.0), ("cycles", 0.4), ("edp", 0.4))],
)
def test_bounds_hold_with_every_limit_lowered(
    objective: Any, padding: float, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the optimum of an enumeration, which knows none of these limits."""
    checked = open_ones = limited = 0
    for problem in islice(random_problems.problems(11), how_many(8, thorough=14)):
        rules = replace(problem.rules, padding=padding)
        asked = replace(problem, objective=objective, rules=rules)
        with monkeypatch.context() as usual:
            best = exhaustive.solve(asked, Budget(wall_seconds=5), exhaustive.Params(limit=150_000))
            if best.status is not Status.OPTIMAL:
                continue
            for limit, value in LOWERED.items():
                place, _, name = limit.rpartition(".")
                usual.setattr(import_module(place), name, value)
            forget()
            for name, params in SEARCHES.items():
                found = solver(name).load().solve(asked, Budget(wall_seconds=2, iterations=64), params())
                assert found.bound is not None
                assert best.objective is not None
                assert found.bound <= best.objective * (1 + 1e-9), (name, asked)
                checked += 1
                open_ones += found.status is not Status.OPTIMAL
                limited += "limit of" in found.note
            forget()
    assert checked >= how_many(12, thorough=25)
    assert open_ones >= how_many(3, thorough=5)
    assert limited >= how_many(3, thorough=5)
