"""Tasks of no design: solved as by their solvers, stored, found again; one that fails ends no other."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import architecture_file
from costmodel.formats.networks import load_layer, load_network
from costmodel.scratchpad.graph import operator_graph
from costmodel.workload.network import gemm
from results.store.folder import RunFolder
from solvers.budget import Budget
from solvers.catalogue import solver
from solvers.codesign import thistle
from solvers.codesign.family import ArchitectureFamily
from solvers.codesign.problem import CodesignProblem
from solvers.scratchpad.problem import ScratchpadProblem
from sweep.run.session import RuntimeChoice
from sweep.run.task_run import run_tasks
from sweep.study.identity import canonical_json
from sweep.tasks.codesign import CodesignTask, problem_of, run_codesign_task
from sweep.tasks.mapping import MappingTask, SolveSettings, VersionMismatchError
from sweep.tasks.scratchpad import PlannedGraph, ScratchpadSolve, ScratchpadTask

HERE = RuntimeChoice(in_process=True)
BUDGET = Budget(60.0)
PROBLEM = CodesignProblem.of(ArchitectureFamily("eyeriss"), [gemm("product", M=16, N=12, K=32)], 40_000.0)


def stated(name: str, **params: Any) -> str:
    return canonical_json(asdict(solver(name).load().Params(**params)))


def plan_task() -> ScratchpadTask:
    graph = operator_graph(load_network("alexnet"))
    solve = ScratchpadSolve("cosma", stated("cosma"), BUDGET)
    return ScratchpadTask(PlannedGraph(graph), graph.required_bytes, solve)


def codesign_task() -> CodesignTask:
    return CodesignTask(PROBLEM, "thistle_codesign", stated("thistle_codesign", judged=1), BUDGET)


def mapping_task() -> MappingTask:
    settings = SolveSettings("random_search", "energy", stated("random_search", victory=20), BUDGET)
    return MappingTask(PROBLEM.family.base, load_layer("alexnet/conv3"), settings)


@pytest.mark.slow
def test_rows_are_what_the_solvers_answer(tmp_path: Path) -> None:
    plan, design, mapping = plan_task(), codesign_task(), mapping_task()
    rows: Any = run_tasks("some", [plan, design, mapping, plan], tmp_path / "some", HERE)
    assert set(rows) == {plan.id, design.id, mapping.id}
    cosma = solver("cosma").load()
    problem = ScratchpadProblem(plan.planned.graph, plan.budget_bytes)
    assert rows[plan.id]["objective_bytes"] == cosma.solve(problem, BUDGET, cosma.Params()).objective
    outcome = thistle.solve(PROBLEM, BUDGET, thistle.Params(judged=1))
    row = rows[design.id]
    assert (row["objective"], row["bound"]) == (outcome.objective, outcome.bound)
    assert outcome.solution is not None
    levels = {level.name: level for level in outcome.solution.architecture.levels}
    for key, value in row["overrides"].items():
        name, _, quantity = key.partition(".")
        level = levels[name]
        assert value == (
            f"{level.size_words} words" if quantity == "size" else [level.fanout_x, level.fanout_y]
        )
    assert row["energy_pj"] == sum(layer["energy_pj"] for layer in row["layers"])
    assert rows[mapping.id]["energy_pj"] > 0
    # stored beside: another folder solves nothing and has the rows all the same
    again: Any = run_tasks("others", [plan, design], tmp_path / "others", HERE)
    assert all(again[task.id]["cached"] for task in (plan, design))
    assert again[design.id]["overrides"] == row["overrides"]
    assert len(RunFolder(tmp_path / "others").read("codesigns")) == 1
    with pytest.raises(InputError, match="a folder for study others"):
        run_tasks("others", [plan], tmp_path / "some", HERE)


def test_a_solve_that_fails_has_a_row_and_ends_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("no such luck")

    monkeypatch.setattr("solvers.codesign.thistle.solve", broken)
    plan, design = plan_task(), codesign_task()
    rows: Any = run_tasks("some", [design, plan], tmp_path / "some", HERE)
    assert rows[design.id]["status"] == "failed"
    assert "no such luck" in rows[design.id]["error"]
    assert rows[plan.id]["status"] == "optimal"


def test_a_codesign_task_carries_its_problem_and_refuses_another_base(tmp_path: Path) -> None:
    task = codesign_task()
    assert problem_of(task.content) == PROBLEM
    larger = CodesignTask(replace(PROBLEM, area_um2=50_000.0), task.solver, task.params, BUDGET)
    assert larger.id != task.id
    with pytest.raises(VersionMismatchError, match="eyeriss"):
        run_codesign_task({**task.content, "base_id": "another"})
    file = tmp_path / "mine.yaml"
    file.write_text(architecture_file("eyeriss").read_text())
    with pytest.raises(ValueError, match="library"):
        CodesignTask(replace(PROBLEM, family=ArchitectureFamily(str(file))), task.solver, task.params, BUDGET)
