"""Limits of scratchpad solvers: the note says when one was reached, and a bound holds all the same."""

from __future__ import annotations

from collections.abc import Mapping
from importlib import import_module
from typing import Any

import pytest

from costmodel.scratchpad.graph import OperatorGraph
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.outcome import Outcome, Status
from solvers.scratchpad.problem import ScratchpadProblem
from tests.solvers.scratchpad import random_graphs

SEARCH, ESTIMATE = "solvers.scratchpad.cosma.search.MOST_ENTRIES", "solvers.scratchpad.cosma.estimate.REACH"
TRIES, ORDERS = "solvers.scratchpad.packed.TRIES_PER_SCHEDULE", "solvers.scratchpad.cosma.solver.ORDERS"
IDLE = "solvers.scratchpad.divide.IDLE_ROUNDS"
SECONDS = "solvers.scratchpad.divide.REPLACEMENT_SECONDS"
CASES: list[tuple[str, dict[str, float], str, str]] = [
    ("cosma", {SEARCH: 0}, "0 states that wait in the search", "states that wait in the search"),
    ("cosma", {ESTIMATE: 1, SEARCH: 0}, "1 operators past a tensor's first reader", "first reader"),
    ("fixed_schedule", {TRIES: 0}, "0 replacements of an order", "replacements of an order"),
    ("cosma", {SEARCH: 0, ORDERS: 2}, "2 orders of equal cost", "orders of equal cost"),
    (
        "divide",
        {SECONDS: 1e-5},
        "1e-05 seconds for the replacement of an order",
        "seconds for the replacement",
    ),
    ("divide", {IDLE: 0}, "0 rounds in a row without a better order", "rounds in a row without"),
]


def solved(
    name: str, graph: OperatorGraph, limits: Mapping[str, float], monkeypatch: pytest.MonkeyPatch
) -> Outcome[Any]:
    for limit, value in limits.items():
        place, _, constant = limit.rpartition(".")
        monkeypatch.setattr(import_module(place), constant, value)
    module = solver(name).load()
    problem = ScratchpadProblem(graph, graph.required_bytes)
    outcome: Outcome[Any] = module.solve(problem, Budget(wall_seconds=10), module.Params())
    return outcome


@pytest.mark.parametrize(("name", "limits", "said", "_what"), CASES)
def test_the_note_says_that_a_limit_was_reached(
    name: str, limits: dict[str, float], said: str, _what: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    outcome = solved(name, random_graphs.random_graph(0, 10), limits, monkeypatch)
    assert outcome.status in (Status.FEASIBLE, Status.UNKNOWN)
    assert outcome.note.count(f"limit of {said} reached: ") == 1, outcome.note


@pytest.mark.parametrize(("name", "what"), sorted({(name, what) for name, _, _, what in CASES}))
def test_the_note_is_empty_below_the_limit(name: str, what: str, monkeypatch: pytest.MonkeyPatch) -> None:
    outcome = solved(name, random_graphs.random_graph(3, 4), {IDLE: 10**6}, monkeypatch)
    assert outcome.solution is not None
    assert "limit of" not in outcome.note, (what, outcome.note)


@pytest.mark.parametrize("seed", range(40, 60))
@pytest.mark.parametrize("limits", [{SEARCH: 3}, {SEARCH: 12, ESTIMATE: 1}, {TRIES: 0, ORDERS: 1}])
def test_bounds_hold_with_limits_lowered(
    seed: int, limits: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Against the least of all orders and replacements, listed."""
    graph = random_graphs.random_graph(seed, 6)
    least = random_graphs.least_bytes(graph, graph.required_bytes)
    assert least is not None
    for name in ("cosma", "divide", "fixed_schedule"):
        found = solved(name, graph, limits, monkeypatch)
        assert found.bound is not None
        assert found.bound <= least
        assert found.objective is None or found.objective >= least
