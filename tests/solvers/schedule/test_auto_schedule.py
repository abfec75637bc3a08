"""The portfolio of schedule solvers: no worse than any member, whoever refuses; one answer, however asked."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from released_model import ReleasedModel

from costmodel.errors import InputError
from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.schedule.layer_graph.graph import LayerGraph
from solvers.budget import MOST_SECONDS, Budget
from solvers.outcome import Outcome, Status
from solvers.schedule import auto, kapla, layer_pipeline, layer_sequential, segment_chain
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, violations
from solvers.schedule.set import solver as set_annealing
from solvers.schedule.set.params import PatternParams
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, chip, every_kind

SHORT = auto.Params(beta=10, annealings=2)


def problem_of(graph: LayerGraph, buffer: int = 2000) -> ScheduleProblem:
    return ScheduleProblem(graph, ChipModel(chip(2, 2, buffer), FormulaCosts(graph)), 4, Objective(1, 1))


@pytest.mark.slow
@pytest.mark.parametrize(
    "graph", [chain(5), LayerGraph("kinds", every_kind().layers[:6])], ids=["chain", "kinds"]
)
def test_the_answer_is_no_worse_than_any_members(graph: LayerGraph) -> None:
    problem = problem_of(graph)
    found = auto.solve(problem, Budget(), SHORT)
    assert found.solution is not None
    assert found.objective is not None
    assert violations(problem, found.solution) == []
    narrow = PatternParams(beta=2.5)
    alone = [
        kapla.solve(problem, Budget()),
        segment_chain.solve(problem, Budget()),
        *(set_annealing.solve(problem, Budget(seed=seed), SHORT.annealing) for seed in (0, 1)),
        layer_pipeline.solve(problem, Budget(), narrow),
        layer_sequential.solve(problem, Budget(), narrow),
    ]
    assert all(one.objective is not None and found.objective <= one.objective for one in alone)
    assert found.bound == max(one.bound for one in alone if one.bound is not None)
    assert found.solved_by in {"refinement", *auto.MEMBERS}
    # the two patterns, two seeds, and the one that goes on from the best tree
    every = 10 * len(graph.layers)
    few, last = max(1, round(0.25 * every)), round(0.25 * every)
    assert [phase.rounds for phase in found.solution.phases[:4]] == [few, few, every, every]
    assert sum(count.tried for count in found.solution.phases[4].operators) == last
    for member in auto.MEMBERS:
        assert f"{member}: " in found.note


def test_kapla_costs_few_schemes_beside_a_chain_that_has_counted_all_segments(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[int | None] = []

    def noted(problem: ScheduleProblem, budget: Budget) -> Outcome[ScheduleSolution]:
        asked.append(budget.iterations)
        return original(problem, budget)

    original = kapla.solve
    monkeypatch.setattr(kapla, "solve", noted)
    problem = problem_of(chain(4))
    auto.solve(problem, Budget(), SHORT)
    auto.solve(problem, Budget(iterations=7), SHORT)
    auto.solve(problem, Budget(), replace(SHORT, members=("kapla_schedule",)))
    assert asked == [auto.FEW_SCHEMES, 7, None]


@pytest.mark.slow
def test_every_seed_gives_the_same_answer() -> None:
    problem = problem_of(chain(4))
    first, second = (auto.solve(problem, Budget(seed=seed), SHORT) for seed in (0, 9))
    assert first.solution is not None
    assert second.solution is not None
    assert first.solution.text == second.solution.text


def test_a_member_that_refuses_is_noted_and_others_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    def refusing(problem: ScheduleProblem, budget: Budget) -> None:
        raise InputError("kapla_schedule", "layers on the whole chip to be offered", "not offered")

    monkeypatch.setattr(kapla, "solve", refusing)
    found = auto.solve(problem_of(chain(3)), Budget(), SHORT)
    assert found.status in (Status.FEASIBLE, Status.OPTIMAL)
    assert (
        "kapla_schedule refuses the problem: kapla_schedule: expected layers on the whole chip" in found.note
    )


def test_only_members_that_are_asked_for_take_part() -> None:
    params = replace(SHORT, members=("segment_chain",), refinement=0)
    problem = problem_of(chain(3))
    found, alone = auto.solve(problem, Budget(), params), segment_chain.solve(problem, Budget())
    assert found.solved_by == "segment_chain"
    assert found.objective == alone.objective
    assert "kapla_schedule" not in found.note


def test_the_longest_budget_is_no_reason_to_refuse() -> None:
    found = auto.solve(problem_of(chain(3)), Budget(wall_seconds=MOST_SECONDS), SHORT)
    assert found.solution is not None
    assert "refuses" not in found.note


def test_without_time_members_say_so(monkeypatch: pytest.MonkeyPatch) -> None:
    # members get a little time in any case, in which a quick machine may find a tree of so small a problem
    monkeypatch.setattr(auto, "LEAST_SECONDS", 1e-9)
    found = auto.solve(problem_of(chain(4)), Budget(wall_seconds=1e-9), SHORT)
    assert found.status is Status.UNKNOWN
    assert "not done in" in found.note


def test_what_no_chip_runs_has_no_tree() -> None:
    found = auto.solve(problem_of(chain(4), buffer=12), Budget(), SHORT)
    assert found.status is Status.UNKNOWN
    assert "no tree" in found.note


def test_other_models_are_refused() -> None:
    graph = LayerGraph("resnet2", load_graph("resnet").layers[:2])
    with pytest.raises(InputError, match="the chip model"):
        auto.solve(ScheduleProblem(graph, ReleasedModel.named("edge"), 4, Objective(1, 1)), Budget())


@pytest.mark.parametrize(
    ("wrong", "key"),
    [
        ({"members": ()}, "members"),
        ({"members": ("exact",)}, "members"),
        ({"beta": 0}, "beta"),
        ({"annealings": 0}, "annealings"),
        ({"refinement": 2}, "refinement"),
    ],
)
def test_wrong_parameters_are_named(wrong: dict[str, Any], key: str) -> None:
    with pytest.raises(InputError) as error:
        auto.Params(**wrong)
    assert error.value.key == key
