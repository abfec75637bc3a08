"""Schedulers that ask for costs as they go: asked in rounds or told all at once, the answer is the same.

A solver of the paper's whole table is made to ask, here in the worker: first for a sample of each layer on a
tile, then for half of what it needs, then for all of it.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from clusters.in_process import InProcessRuntime
from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.hardware.chip import Tile
from costmodel.schedule.layer_graph.graph import LayerGraph
from results.report.data import RunData
from results.report.page import build_page
from results.store.folder import RunFolder, RunWriter
from results.store.schema.rows import AnswerRow
from solvers.catalogue import solver
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import Pruning, Request, TilePart, batches_of, requested_parts
from solvers.schedule.tiles.mapper import TileMapper
from sweep.design.schedule_bounds import bounds_before
from sweep.design.workload import workload_of
from sweep.forecast.plan import plan
from sweep.forecast.prediction import predict
from sweep.run.progress.observer import RunObserver
from sweep.run.run import StudyRun
from sweep.run.session import RuntimeChoice, run_study
from sweep.search.search import designs, search_of
from sweep.study.study import MappingChoice, Study, load_study
from sweep.tasks.chips.schedule import ScheduleSolve, ScheduleTask
from sweep.tasks.kinds import answer_task

pytestmark = pytest.mark.slow

HERE = RuntimeChoice(in_process=True)
MakeRuntime = Callable[[Callable[[Any], Any]], InProcessRuntime]
Row = dict[str, Any]
BATCH, TILES = 2, 2

STUDY = f"""
name: asking
networks: [chain.json]
chip: set-edge
axes:
  mesh: {{choices: [[{TILES}, 1]]}}
  noc.link_bandwidth: {{choices: [8 B/cycle, 64 B/cycle]}}
objectives: [energy_pj, cycles]
mapping: {{solver: nvdla}}
schedule: {{solver: layer_sequential, batch: {BATCH}, seeds: 1, params: {{beta: 3}}}}
"""


def layer(name: str, c: int, k: int, before: list[int]) -> Row:
    sizes = {"C": c, "K": k, "H": 8, "W": 8, "R": 1, "S": 1, "sH": 1, "sW": 1, "pad_h": 0, "pad_w": 0}
    inputs = {"ifmap_real": [c, 8, 8], "ifm_prevs": before, "external_C": 0 if before else c}
    return {"name": name, "type": "conv", "N": 1, **sizes, **inputs}


CHAIN = [layer("a", 16, 32, []), layer("b", 32, 64, [0]), layer("c", 64, 32, [1])]


@pytest.fixture
def study(tmp_path: Path) -> Study:
    (tmp_path / "chain.json").write_text(json.dumps({"layers": CHAIN}))
    (tmp_path / "asking.yaml").write_text(STUDY)
    return load_study(str(tmp_path / "asking.yaml"))


class Asking(RunObserver):
    """Workers whose schedulers ask in rounds; what they were told, and what was announced and solved."""

    def __init__(self, graph: LayerGraph, tile: Tile) -> None:
        every = [Request(n, b, t) for n in range(3) for b in batches_of(BATCH) for t in range(1, TILES + 1)]
        self.stages = [[Request(n, 1, 1) for n in range(3)], every[::2], every]
        self.tile_parts = {one: requested_parts(graph, one, tile, Pruning()) for one in every}
        self.told: list[int] = []
        self.announced = 0
        self.solved: list[Row] = []

    def work(self, content: Any) -> Any:
        if content["kind"] == "schedule":
            known = {tuple(row[: len(TilePart._fields)]) for row in content["tile_costs"]}
            self.told.append(len(known))
            for stage in self.stages:
                if any(part not in known for one in stage for part in self.tile_parts[one]):
                    return {"needs": [one.numbers for one in stage], "cpu_seconds": 1e3, "wall_seconds": 2e3}
        return answer_task(content)

    def asked(self, solves: int) -> None:
        self.announced += solves

    def answered(self, row: AnswerRow) -> None:
        self.solved.append(dict(row))


@pytest.fixture
def asking(study: Study, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Asking:
    monkeypatch.setattr(ScheduleSolve, "asks", True)
    return Asking(load_layer_graph(tmp_path / "chain.json"), load_chip("set-edge").tile)


def explored(study: Study, path: Path, observer: RunObserver, runtime: InProcessRuntime) -> RunFolder:
    with RunWriter(path) as writer:
        StudyRun(study, search_of(study), writer, observer, path.parent).explore(runtime)
    return RunFolder(path)


def found(folder: RunFolder) -> dict[str, Any]:
    return {row["task_id"]: (row["tree"], row["objective"]) for row in folder.read_rows("schedules")}


def test_asked_in_rounds_the_answers_are_those_of_the_whole_table(
    study: Study, asking: Asking, in_process: MakeRuntime, tmp_path: Path
) -> None:
    folder = explored(study, tmp_path / "asked" / "study", asking, in_process(asking.work))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(ScheduleSolve, "asks", False)
        whole = run_study(study, tmp_path / "whole" / "study", HERE)
    assert found(folder) == found(whole)
    assert len(found(folder)) == 2
    # every round of both designs is told what it asked for, and nothing else
    sizes = [len({part for one in stage for part in asking.tile_parts[one]}) for stage in asking.stages]
    assert sorted(asking.told) == sorted(2 * [0, *sizes])
    for row in folder.read_rows("schedules"):
        assert 3000 < row["cpu_seconds"] < 3010
        assert 6000 < row["wall_seconds"] < 6010
    # one task a request, less what is known: no tile part twice, and none of two requests together
    lots = folder.read_rows("tile_costs")
    tile_parts = [tuple(part) for row in lots for part, *_ in row["costs"]]
    assert len(tile_parts) == len(set(tile_parts)) == sizes[-1]
    for row in lots:
        mine = {TilePart(*part) for part, *_ in row["costs"]}
        assert any(mine <= set(tile_parts) for tile_parts in asking.tile_parts.values())
    # beside the tile costs, the programs of both designs' schedules are announced and answered
    assert asking.announced == len(lots) + 2
    assert len(asking.solved) == len(lots) + 4


def test_a_second_study_and_a_killed_one_solve_only_what_is_not_there(
    study: Study, asking: Asking, in_process: MakeRuntime, tmp_path: Path
) -> None:
    class Interrupted(Asking):
        def answered(self, row: AnswerRow) -> None:
            super().answered(row)
            if len(self.solved) == 4:
                raise KeyboardInterrupt

    first = Interrupted(load_layer_graph(tmp_path / "chain.json"), load_chip("set-edge").tile)
    path = tmp_path / "runs" / "study"
    with pytest.raises(KeyboardInterrupt):
        explored(study, path, first, in_process(first.work))
    folder = explored(study, path, asking, in_process(asking.work))
    tile_parts = [tuple(part) for row in folder.read_rows("tile_costs") for part, *_ in row["costs"]]
    assert len(tile_parts) == len(set(tile_parts))
    assert not {row["task_id"] for row in first.solved} & {row["task_id"] for row in asking.solved}
    again = Asking(load_layer_graph(tmp_path / "chain.json"), load_chip("set-edge").tile)
    renamed = study.model_copy(update={"name": "again"})
    explored(renamed, tmp_path / "runs" / "again", again, in_process(again.work))
    assert again.told == []


def test_costs_that_fail_fail_the_schedule_and_are_tried_again(
    study: Study, asking: Asking, in_process: MakeRuntime, tmp_path: Path
) -> None:
    def broken(content: Any) -> Any:
        if content["kind"] == "tile_costs" and len(content["tile_parts"]) > 1:
            raise RuntimeError("no tiles today")
        return asking.work(content)

    path = tmp_path / "runs" / "study"
    folder = explored(study, path, asking, in_process(broken))
    for row in folder.read_rows("schedules"):
        assert row["status"] == "failed"
        assert "tile costs could not be had" in row["error"]
        assert row["cpu_seconds"] >= 1000
    explored(study, path, asking, in_process(asking.work))
    assert {row["status"] for row in folder.read_rows("designs")} == {"complete"}


def test_all_rounds_of_a_scheduler_have_one_time_limit(
    study: Study, asking: Asking, in_process: MakeRuntime, tmp_path: Path
) -> None:
    """600 s: rounds that took 250 s each leave 350 and 100 for the next two, and never less than a tenth."""
    limits: list[float] = []

    def slowly(content: Any) -> Any:
        answered = asking.work(content)
        if content["kind"] == "schedule":
            limits.append(content["budget"]["wall_seconds"])
            if "needs" in answered:
                answered["wall_seconds"] = 250.0
        return answered

    folder = explored(study, tmp_path / "runs" / "study", asking, in_process(slowly))
    assert sorted(limits) == sorted(2 * [600.0, 350.0, 100.0, 60.0])
    # what the study asked for is the row's, whatever the last round was left with
    params = [row["params"] for row in folder.read_rows("schedules")]
    stated = [json.loads(one) if isinstance(one, str) else one for one in params]
    assert {one["budget"]["wall_seconds"] for one in stated} == {600.0}


def test_a_scheduler_that_asks_for_what_it_has_is_stopped(
    study: Study, asking: Asking, in_process: MakeRuntime, tmp_path: Path
) -> None:
    def again_and_again(content: Any) -> Any:
        if content["kind"] == "schedule":
            return {"needs": [[0, 1, 1]], "cpu_seconds": 1.0, "wall_seconds": 1.0}
        return asking.work(content)

    folder = explored(study, tmp_path / "runs" / "study", asking, in_process(again_and_again))
    errors = {row["error"] for row in folder.read_rows("schedules")}
    assert errors == {"layer_sequential asked again for costs that it had"}


def test_layers_are_mapped_on_the_whole_chip_and_counted_again(study: Study, tmp_path: Path) -> None:
    assert study.schedule is not None
    schedule = study.schedule.model_copy(update={"whole_chip": True, "most_partitions": 1})
    mapping = MappingChoice(solver="random_search", iterations=2000)
    changed = study.model_copy(update={"schedule": schedule, "mapping": mapping})
    folder = run_study(changed, tmp_path / "runs" / "study", HERE)
    graph, mapped = load_layer_graph(tmp_path / "chain.json"), folder.read_rows("layers")
    # a layer and batch each, solved once for both chips: their links do not matter to mappings
    assert len(mapped) == len(graph.layers) * len(batches_of(BATCH))
    had_the_chip = 0
    for row in folder.read_rows("schedules"):
        assert 0 < row["energy_bound_pj"] <= row["energy_pj"]
        assert 0 < row["cycles_bound"] <= row["cycles"]
        had_the_chip += sum(leaf.get("whole_chip", False) for leaf in row["spatial_temporal"])
    assert had_the_chip
    assert "whole chip, from DRAM" in build_page(RunData.read(folder.path))
    known = plan(changed, tmp_path / "runs")
    assert (known.open, known.cost_solves, known.asking) == (0, 0, 0)
    # another seed is another schedule, of layers that are known
    later = changed.model_copy(update={"schedule": schedule.model_copy(update={"seed": 1})})
    assert plan(later, tmp_path / "runs").cost_solves == 0
    other = run_study(later, tmp_path / "runs" / "later", HERE)
    assert {row["status"] for row in other.read_rows("designs")} == {"complete"}
    assert other.read_rows("layers") == other.read_rows("tile_costs") == []


KAPLA = """
name: kapla
networks: [chain.json]
chip: set-edge
axes:
  mesh: {choices: [[2, 2], [4, 2]]}
objectives: [energy_pj, cycles]
mapping: {solver: random_search, iterations: 20}
schedule: {solver: kapla_schedule, batch: 4}
"""


@pytest.fixture(scope="module")
def kapla(tmp_path_factory: pytest.TempPathFactory) -> tuple[Study, RunFolder]:
    """A study by the solver that really asks, and its run."""
    folder = tmp_path_factory.mktemp("kapla")
    (folder / "chain.json").write_text(json.dumps({"layers": CHAIN}))
    (folder / "kapla.yaml").write_text(KAPLA)
    study = load_study(str(folder / "kapla.yaml"))
    return study, run_study(study, folder / "runs" / "kapla", HERE)


def schedule_tasks(study: Study) -> dict[str, ScheduleTask]:
    tasks = (task for design in designs(study) for task in workload_of(study).tasks(design))
    return {task.id: task for task in tasks if isinstance(task, ScheduleTask)}


@pytest.mark.slow
def test_kapla_finds_what_it_finds_in_one_process_without_tasks(kapla: tuple[Study, RunFolder]) -> None:
    study, folder = kapla
    tasks, rows = schedule_tasks(study), folder.read_rows("schedules")
    assert len(rows) == len(tasks) == 2
    mapper = TileMapper("random_search", "edp", budget=study.mapping.budget)
    for row in rows:
        task = tasks[row["task_id"]]
        costs = solved_costs(task.demand, mapper, task.on.chip)
        problem = ScheduleProblem(
            task.demand.graph, ChipModel(task.on.chip, costs), task.batch, Objective.named("edp")
        )
        outcome = solver("kapla_schedule").load().solve(problem, task.solve.budget)
        assert outcome.solution.text == row["tree"]
        assert outcome.objective == pytest.approx(row["objective"], rel=1e-12)


@pytest.mark.slow
def test_kapla_asks_for_a_part_of_the_table(kapla: tuple[Study, RunFolder]) -> None:
    study, folder = kapla
    every = (replace(task.demand, pruning=Pruning()) for task in schedule_tasks(study).values())
    table = {part for demand in every for part in demand.tile_parts()}
    solved = [tuple(part) for row in folder.read_rows("tile_costs") for part, *_ in row["costs"]]
    assert len(solved) == len(set(solved))
    assert set(solved) < table
    assert 2 * len(solved) <= len(table)
    # and no layer twice on a whole chip
    on_chips = folder.read_rows("layers")
    assert len({(row["architecture_id"], str(row["layer_shape"])) for row in on_chips}) == len(on_chips) > 0
    for design in folder.read_rows("designs"):
        assert 0 < design["energy_bound_pj"] <= design["energy_pj"]
        assert 0 < design["cycles_bound"] <= design["cycles"]


def test_what_is_bounded_before_anything_is_asked_is_below_what_is_found(
    kapla: tuple[Study, RunFolder],
) -> None:
    study, folder = kapla
    tasks = schedule_tasks(study)
    for row in folder.read_rows("schedules"):
        energy_pj, cycles = bounds_before(tasks[row["task_id"]])
        assert 0 < energy_pj <= row["energy_bound_pj"] * (1 + 1e-9)
        assert 0 < cycles <= row["cycles_bound"] * (1 + 1e-9)


def test_plans_say_that_schedules_ask_and_rehearse_how_much(
    kapla: tuple[Study, RunFolder], tmp_path: Path
) -> None:
    study, folder = kapla
    planned = plan(study, tmp_path)
    assert (planned.distinct, planned.open, planned.cost_solves, planned.asking) == (2, 2, 0, 2)
    predicted = predict(study, planned, tmp_path)
    assert predicted.open > planned.open
    known = plan(study, folder.path.parent)
    assert (known.open, known.asking) == (0, 0)
    assert predict(study, known, folder.path.parent).open == 0
