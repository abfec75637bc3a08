"""Searches that go on from a known tree: the end of an annealing, never worse than where it starts."""

from __future__ import annotations

import pytest
from released_model import ReleasedModel

from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tree.tree import Leaf
from solvers.budget import Budget
from solvers.outcome import Status
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, violations
from solvers.schedule.set.canonical import sequential_tree
from solvers.schedule.set.params import SetParams
from solvers.schedule.set.refinement import last_rounds, solve_from
from solvers.schedule.set.search import AnnealingPlan

PLAN = AnnealingPlan(("layer_pipeline", "paper"), SetParams(beta=10), 120)


@pytest.fixture(scope="module")
def problem() -> ScheduleProblem:
    graph = LayerGraph("goog12", load_graph("goog").layers[:12])
    return ScheduleProblem(graph, ReleasedModel.named("edge"), 4, Objective(1, 1))


def test_the_end_of_an_annealing_is_searched(problem: ScheduleProblem) -> None:
    start = sequential_tree([layer.name for layer in problem.graph.layers], 4, 1)
    cost = problem.judge().evaluate(start)
    found = solve_from(problem, Budget(seed=3), PLAN, start, 0.25)
    assert (found.status, found.note) == (Status.FEASIBLE, "")
    assert found.solution is not None
    assert violations(problem, found.solution) == []
    assert found.objective is not None
    assert found.objective < problem.objective.value(cost.energy_pj, cost.cycles)
    (phase,) = found.solution.phases
    assert (phase.name, phase.rounds, phase.trajectory[0][0]) == ("paper", 120, 90)
    assert sum(count.tried for count in phase.operators) == 30
    again = solve_from(problem, Budget(seed=3), PLAN, start, 0.25)
    assert again.solution is not None
    assert again.solution.text == found.solution.text
    other = solve_from(problem, Budget(seed=4), PLAN, found.solution.tree, 0.25)
    assert other.objective is not None
    assert other.objective <= found.objective


def test_out_of_time_the_answer_is_the_tree_it_started_from(problem: ScheduleProblem) -> None:
    start = sequential_tree([layer.name for layer in problem.graph.layers], 4, 1)
    found = solve_from(problem, Budget(1e-6), PLAN, start, 0.5)
    assert found.solution is not None
    assert found.solution.tree == start
    assert "stopped after 5e-07 s" in found.note


def test_a_tree_that_the_chip_cannot_run_is_no_start() -> None:
    graph = LayerGraph("resnet1", load_graph("resnet").layers[:1])
    problem = ScheduleProblem(graph, ReleasedModel.named("edge"), 4096, Objective(1, 1))
    found = solve_from(problem, Budget(), PLAN, Leaf(graph.layers[0].name, 4096), 0.25)
    assert (found.status, found.solution) == (Status.UNKNOWN, None)
    assert "the tree to start from" in found.note


def test_at_least_one_round_and_at_most_all_are_left() -> None:
    assert [last_rounds(120, part) for part in (0.25, 0.001, 1.0)] == [30, 1, 120]
