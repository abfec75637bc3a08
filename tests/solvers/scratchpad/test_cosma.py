"""COSMA's answers: the reference's proven optima, the paper's own program, and enumeration in place."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.scratchpad.graph import GraphTensor, Operator, OperatorGraph, ScratchpadSettings
from costmodel.scratchpad.plan import IDLE
from solvers.budget import Budget
from solvers.outcome import Status
from solvers.scratchpad import comparison, fixed_schedule
from solvers.scratchpad.budgets import NAMES, budget_bytes
from solvers.scratchpad.cosma import integer_program as cosma_ilp
from solvers.scratchpad.cosma import solver as cosma
from solvers.scratchpad.problem import ScratchpadProblem, violations
from tests.solvers.scratchpad import random_graphs

BUDGET = Budget(wall_seconds=60)
NETWORKS = ("resnet50", "densenet121", "lraspp_mobilenet_v3", "transformer", "vit_b_16", "amoebanet_d")
Load = Callable[..., OperatorGraph]


@pytest.mark.slow
@pytest.mark.parametrize("parameters", [False, True])
@pytest.mark.parametrize("network", NETWORKS)
def test_reference_optima_are_proven_and_packed(
    network: str, parameters: bool, reference_graph: Load, optima: list[dict[str, Any]]
) -> None:
    graph = reference_graph(network, parameters=parameters)
    cases = [case for case in optima if (case["network"], case["parameters"]) == (network, parameters)]
    assert [case["budget"] for case in cases] == list(NAMES)
    for case in cases:
        assert budget_bytes(graph, case["budget"]) == (case["budget_bytes"], "")
        problem = ScratchpadProblem(graph, case["budget_bytes"])
        outcome = cosma.solve(problem, BUDGET)
        assert outcome.status is Status.OPTIMAL
        assert outcome.objective == outcome.bound == case["optimal"]
        assert outcome.solution is not None
        assert violations(problem, outcome.solution) == []


@pytest.mark.parametrize(
    "network", ["resnet50", "transformer", pytest.param("amoebanet_d", marks=pytest.mark.slow)]
)
def test_fixed_schedule_optima_are_the_reference_s(
    network: str, reference_graph: Load, optima: list[dict[str, Any]]
) -> None:
    for case in optima:
        if case["network"] == network:
            graph = reference_graph(network, parameters=case["parameters"])
            outcome = fixed_schedule.solve(ScratchpadProblem(graph, case["budget_bytes"]), BUDGET)
            assert outcome.objective == case["fixed_default"]
            assert outcome.program_proven


@pytest.mark.parametrize("seed", range(16))
def test_the_paper_s_program_has_the_same_optimum(seed: int) -> None:
    settings = ScratchpadSettings(
        parameters=seed % 2 == 1, inputs_on_host=seed % 3 == 0, alignment_bytes=1 + seed % 2
    )
    graph = random_graphs.random_graph(seed, 8, settings)
    problem = ScratchpadProblem(graph, graph.required_bytes + seed % 3)
    exact, program = cosma.solve(problem, BUDGET), cosma_ilp.solve(problem, BUDGET)
    assert exact.status is program.status is Status.OPTIMAL
    assert exact.objective == program.objective


def test_the_paper_s_program_without_addresses_gives_a_bound() -> None:
    graph = random_graphs.random_graph(11, 7)
    problem = ScratchpadProblem(graph, graph.required_bytes)
    outcome = cosma_ilp.solve(problem, BUDGET, cosma_ilp.Params(allocation=False))
    assert outcome.status is Status.UNKNOWN
    assert outcome.bound == random_graphs.least_bytes(graph, problem.capacity_bytes)


def test_a_plan_with_an_idle_step_where_the_paper_s_program_has_no_solution() -> None:
    """Eight tensors that stay from the first step to the last one that needs them, and fill five bytes."""
    lives = ((0, 1, 2), (0, 2, 3), (2, 3, 1), (1, 3, 1), (1, 4, 1), (2, 4, 2), (3, 5, 2), (4, 5, 3))
    operators = tuple(
        Operator(
            f"o{step}",
            tuple(t for t, (first, end, _) in enumerate(lives) if first < step < end),
            tuple(t for t, (first, _, _) in enumerate(lives) if first == step),
            0,
        )
        for step in range(5)
    )
    tensors = tuple(GraphTensor(f"t{t}", size, size, False) for t, (_, _, size) in enumerate(lives))
    problem = ScratchpadProblem(OperatorGraph("pinned", operators, tensors, ScratchpadSettings()), 5)
    assert problem.graph.required_bytes == 5
    program, plan = cosma_ilp.solve(problem, BUDGET), comparison.solve(problem, BUDGET)
    assert (program.status, program.bound) == (Status.UNKNOWN, 0)
    assert plan.solution is not None
    assert IDLE in plan.solution.order


def test_the_paper_s_program_lets_nothing_come_back_that_was_not_away() -> None:
    """Retrieving an empty tensor costs nothing, so nothing but the constraint forbids it."""
    tensors = tuple(GraphTensor(f"t{t}", size, size, t == 0) for t, size in enumerate((0, 3, 3, 3, 3)))
    inputs = ((0,), (0, 1), (0, 1), (0, 2, 3))
    operators = tuple(Operator(f"o{v}", own, (v + 1,), 0) for v, own in enumerate(inputs))
    settings = ScratchpadSettings(inputs_on_host=True)
    problem = ScratchpadProblem(OperatorGraph("empty input", operators, tensors, settings), 9)
    for seed in range(8):
        outcome = cosma_ilp.solve(problem, Budget(seed=seed))
        assert outcome.status is Status.OPTIMAL
        assert outcome.objective == 0


def test_the_paper_s_program_has_no_in_place_operators() -> None:
    graph = random_graphs.random_graph(1, 5, ScratchpadSettings(in_place=True))
    with pytest.raises(InputError, match="in_place"):
        cosma_ilp.solve(ScratchpadProblem(graph, 100), BUDGET)


@pytest.mark.parametrize("seed", range(20))
def test_in_place_plans_replay_and_match_enumeration(seed: int) -> None:
    graph = random_graphs.random_graph(seed, 6, ScratchpadSettings(in_place=True))
    problem = ScratchpadProblem(graph, graph.required_bytes)
    least = random_graphs.least_bytes(graph, problem.capacity_bytes)
    outcome = cosma.solve(problem, BUDGET)
    if least is None:
        assert outcome.status is Status.INFEASIBLE
        assert "no order" in outcome.note
    else:
        assert outcome.status is Status.OPTIMAL
        assert outcome.objective == least


@pytest.mark.slow
def test_kinder_settings_never_cost_more(reference_graph: Load) -> None:
    literal = reference_graph("transformer")
    budget = literal.required_bytes
    found = [
        cosma.solve(ScratchpadProblem(graph, budget), BUDGET).objective
        for graph in (
            literal,
            reference_graph("transformer", inputs_on_host=True),
            reference_graph("transformer", in_place=True),
        )
    ]
    costs = [cost for cost in found if cost is not None]
    assert len(costs) == 3
    assert costs[0] == 4915200
    assert max(costs[1:]) <= costs[0]


@pytest.mark.slow
def test_a_search_cut_short_still_plans_and_states_its_gap(reference_graph: Load) -> None:
    graph = reference_graph("transformer")
    problem = ScratchpadProblem(graph, graph.required_bytes)
    outcome = cosma.solve(problem, Budget(wall_seconds=0.05))
    assert outcome.status in (Status.FEASIBLE, Status.OPTIMAL)
    assert outcome.bound is not None
    assert outcome.bound <= 4915200 <= (outcome.objective or 0)
    whole = cosma.solve(problem, BUDGET, cosma.Params(serial_parts=False))
    assert whole.objective == whole.bound == 4915200
