"""What every scratchpad solver of the catalogue promises."""

from __future__ import annotations

import pickle

import pytest

from costmodel.scratchpad.graph import GraphTensor, Operator, OperatorGraph, ScratchpadSettings
from costmodel.scratchpad.plan import Plan
from solvers.budget import Budget, Deadline
from solvers.catalogue import CATALOGUE, Entry
from solvers.outcome import Outcome, Status
from solvers.scratchpad.cosma import integer_program as cosma_ilp
from solvers.scratchpad.problem import ScratchpadProblem, objective_of, violations
from tests.solvers.scratchpad import random_graphs

ENTRIES = [entry for entry in CATALOGUE if entry.family == "scratchpad"]
BUDGET = Budget(wall_seconds=30)
SETTINGS = (
    ScratchpadSettings(),
    ScratchpadSettings(parameters=True, inputs_on_host=True),
    ScratchpadSettings(parameters=True, alignment_bytes=2),
)
every_solver = pytest.mark.parametrize("entry", ENTRIES, ids=lambda entry: entry.name)


def solve(entry: Entry, problem: ScratchpadProblem) -> Outcome[Plan]:
    outcome: Outcome[Plan] = entry.load().solve(problem, BUDGET)
    return outcome


@every_solver
@pytest.mark.parametrize("seed", range(6))
def test_plans_replay_and_no_proof_is_wrong(entry: Entry, seed: int) -> None:
    graph = random_graphs.random_graph(seed, 6, SETTINGS[seed % 3])
    problem = ScratchpadProblem(graph, graph.required_bytes + seed % 2)
    least = random_graphs.least_bytes(graph, problem.capacity_bytes)
    outcome = solve(entry, problem)
    assert least is not None
    if outcome.solution is None:
        assert outcome.status is Status.UNKNOWN
        assert outcome.note
        return
    assert violations(problem, outcome.solution) == []
    assert outcome.objective == objective_of(problem, outcome.solution)
    assert outcome.objective >= least
    assert outcome.bound is not None
    assert outcome.bound <= outcome.objective
    assert outcome.status is not Status.OPTIMAL or outcome.bound == outcome.objective


@every_solver
def test_a_budget_below_the_requirement_names_operator_and_bytes(entry: Entry) -> None:
    graph = random_graphs.random_graph(3)
    outcome = solve(entry, ScratchpadProblem(graph, graph.required_bytes - 1))
    assert outcome.status is Status.INFEASIBLE
    assert graph.hungriest.name in outcome.note
    assert f"{graph.required_bytes} bytes (MR)" in outcome.note


@every_solver
def test_outcomes_travel(entry: Entry) -> None:
    graph = random_graphs.random_graph(1, 5)
    outcome = solve(entry, ScratchpadProblem(graph, 1000))
    assert outcome.objective == 0
    assert pickle.loads(pickle.dumps(outcome)) == outcome


@every_solver
@pytest.mark.parametrize("budget", [0, 10**30])
def test_tensors_without_bytes_and_budgets_without_end(entry: Entry, budget: int) -> None:
    size = 0 if budget == 0 else 5
    tensors = tuple(GraphTensor(f"t{index}", size, size, index == 0) for index in range(3))
    operators = (Operator("one", (0,), (1,), 0), Operator("two", (0, 1), (2,), 0))
    outcome = solve(entry, ScratchpadProblem(OperatorGraph("g", operators, tensors), budget))
    assert outcome.status is Status.OPTIMAL
    assert outcome.objective == 0


def test_a_program_that_takes_too_long_to_write_down_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """cosma_ilp's rows grow with the cube of the operators: the clock is looked at as they are written."""
    looks = []

    def in_time(self: Deadline) -> bool:
        looks.append(self)
        return len(looks) < 50

    monkeypatch.setattr(Deadline, "in_time", in_time)
    graph = random_graphs.random_graph(3, 60)
    outcome = cosma_ilp.solve(ScratchpadProblem(graph, graph.required_bytes), BUDGET)
    assert outcome.status is Status.UNKNOWN
    assert "not done in 30 s" in outcome.note
    assert len(looks) == 50
