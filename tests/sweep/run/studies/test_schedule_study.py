"""Studies of chips: what their rows count, checked by counting the stored trees again, and what is solved.

The network: a -> b -> c -> a + c, 1 x 1 convolutions over 8 x 8 pixels, two samples, on 2 or 4 tiles.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import partial
from pathlib import Path
from shutil import copytree, rmtree
from typing import Any

import pytest

from clusters.in_process import InProcessRuntime
from costmodel.errors import InputError
from costmodel.formats.chips import FOLDER as CHIPS
from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.formats.tiles import TILES
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.tree.text import format_tree, parse_tree
from results.front.pareto import front_table
from results.report.data import RunData
from results.report.page import build_page
from results.store.folder import RunFolder, RunWriter
from results.store.schema.rows import AnswerRow
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.set.search import AnnealingPlan
from solvers.schedule.set.solver import Params
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import Pruning, TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper
from sweep.cli.jobs.submit_job import stage_study
from sweep.design.schedule_bounds import ideal_cost
from sweep.design.schedule_workload import tile_mapping_settings
from sweep.design.workload import workload_of
from sweep.forecast.plan import plan
from sweep.forecast.prediction import predict
from sweep.run.progress.observer import RunObserver
from sweep.run.run import StudyRun
from sweep.run.session import RuntimeChoice, run_study
from sweep.search.search import designs, search_of
from sweep.study.lock import lock_content
from sweep.study.study import MappingChoice, Study, load_study
from sweep.tasks.chips.schedule import ScheduleTask
from sweep.tasks.chips.tile_costs import TileCostTask
from sweep.tasks.kinds import answer_task
from tests.solvers.schedule.set.annealed_together import anneal_together

HERE = RuntimeChoice(in_process=True)
MakeRuntime = Callable[[Callable[[Any], Any]], InProcessRuntime]
Row = dict[str, Any]

STUDY = """
name: skip
networks: [{network: skip.json, weight: 3}]
chip: set-edge
axes:
  mesh: {choices: [[2, 1], [2, 2]]}
  dram.bandwidth: {choices: [2 B/cycle, 16 B/cycle]}
objectives: [energy_pj, cycles, area_um2, dram_bytes]
mapping: {solver: nvdla}
schedule: {solver: set, batch: 2, seeds: 2, objective: e2d, most_partitions: 1, params: {beta: 2}}
"""


def layer(name: str, c: int, k: int, before: tuple[int, ...], kind: str = "conv") -> Row:
    """A layer of 8 x 8 pixels that reads ``before`` or, without any, the network's input."""
    sizes = {"C": c, "K": k, "H": 8, "W": 8, "R": 1, "S": 1, "sH": 1, "sW": 1, "pad_h": 0, "pad_w": 0}
    inputs = {"ifmap_real": [c, 8, 8], "ifm_prevs": list(before), "external_C": 0 if before else c}
    return {"name": name, "type": kind, **sizes, **inputs, "N": len(before) if kind == "eltwise" else 1}


SKIP = {
    "name": "skip",
    "layers": [
        layer("a", 16, 32, ()),
        layer("b", 32, 64, (0,)),
        layer("c", 64, 32, (1,)),
        layer("sum", 64, 32, (0, 2), "eltwise"),
    ],
}


class Counter(RunObserver):
    def __init__(self) -> None:
        self.solved: list[str] = []
        self.cached: list[str] = []
        self.programs: list[str] = []

    def answered(self, row: AnswerRow) -> None:
        if "schedule_id" in row:
            self.programs.append(row["task_id"])
            return
        (self.cached if row["cached"] else self.solved).append(row["task_id"])


COUNTED = Counter()
"""What happened while the study was solved."""


def write(folder: Path, text: str = STUDY) -> Path:
    (folder / "skip.json").write_text(json.dumps(SKIP))
    path = folder / "skip.yaml"
    path.write_text(text)
    return path


@pytest.fixture
def write_study(tmp_path: Path) -> Callable[[str], Path]:
    return partial(write, tmp_path)


@pytest.fixture
def study(tmp_path: Path) -> Study:
    return load_study(str(write(tmp_path)))


@pytest.fixture(scope="module")
def solved(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The run folder of the study, solved once for the tests that look at it."""
    folder = tmp_path_factory.mktemp("solved")
    return run_study(load_study(str(write(folder))), folder / "runs" / "skip", HERE, observer=COUNTED).path


@pytest.fixture
def with_tiles(solved: Path, tmp_path: Path) -> Path:
    """A run folder that is not there yet, beside one that knows the tile costs and nothing else."""
    copytree(solved / "tile_costs", tmp_path / "runs" / "tiles" / "tile_costs")
    return tmp_path / "runs" / "skip"


def by_id(folder: RunFolder, table: str = "schedules") -> dict[str, Row]:
    return {row["task_id"]: row for row in folder.read_rows(table)}


@pytest.mark.slow
def test_designs_count_what_the_best_of_their_trees_cost(solved: Path) -> None:
    folder = RunFolder(solved)
    rows, found = by_id(folder), folder.read_rows("designs")
    assert (len(found), len(rows)) == (4, 8)
    for design in found:
        network = design["networks"]["skip.json"]
        seeds = [rows[task_id] for task_id in network["seeds"]]
        best = min(seeds, key=lambda row: row["objective"])
        assert (design["status"], network["schedule"]) == ("complete", best["task_id"])
        for name in ("energy_pj", "cycles", "dram_bytes", "noc_hop_bytes"):
            assert design[name] == pytest.approx(3 * best[name], abs=0.5)
        assert sum(design["energy_by_level_pj"].values()) == pytest.approx(design["energy_pj"])
        assert design["chip"]["columns"] == design["axes"]["mesh"][0]
        assert design["latency_seconds"] == pytest.approx(design["cycles"] / 1e9)
        chip = load_chip("set-edge", design["axes"])
        assert chip.tile.architecture is not None
        assert design["area_um2"] == pytest.approx(chip.area_um2)


@pytest.mark.slow
def test_every_row_is_what_its_tree_costs_counted_again(solved: Path, study: Study, tmp_path: Path) -> None:
    folder = RunFolder(solved)
    graph, rows = load_layer_graph(tmp_path / "skip.json"), by_id(folder)
    for design in folder.read_rows("designs"):
        chip = load_chip("set-edge", design["axes"])
        demand = TileCostDemand(graph, chip.tile, chip.tiles, 2, Pruning(most=1))
        judge = ChipEvaluator(graph, chip, 2, solved_costs(demand, TileMapper("nvdla")), (2.0, 1.0))
        for row in (rows[task_id] for task_id in design["networks"]["skip.json"]["seeds"]):
            cost = judge.evaluate(parse_tree(row["tree"]))
            assert (row["energy_pj"], row["cycles"]) == (pytest.approx(cost.energy_pj), cost.cycles)
            assert row["objective"] == pytest.approx(cost.energy_pj**2 * cost.cycles)
            assert row["energy_by_part_pj"] == pytest.approx(cost.parts_pj)
            assert row["dram_bytes"] == cost.dram_bytes
            assert 0 < row["energy_bound_pj"] <= row["energy_pj"]
            assert 0 < row["cycles_bound"] <= row["cycles"]
            assert row["bound"] == pytest.approx(row["energy_bound_pj"] ** 2 * row["cycles_bound"])
            assert row["gap"] == pytest.approx(1 - row["bound"] / row["objective"])
            check_chart(row, chip.tiles)


def check_chart(row: Row, tiles: int) -> None:
    """Every layer computes every sample once, within the chip and the latency."""
    assert {leaf["layer"] for leaf in row["spatial_temporal"]} == {"a", "b", "c", "sum"}
    for leaf in row["spatial_temporal"]:
        assert leaf["samples"] * len(leaf["starts"]) == row["batch"]
        assert 0 <= leaf["tiles"][0] < leaf["tiles"][1] <= tiles
        assert leaf["starts"] == sorted(leaf["starts"])
        assert leaf["starts"][-1] + leaf["cycles"] <= row["cycles"]
    assert 0 < row["utilization"] <= 1


def test_tile_costs_are_solved_once_for_all_seeds_and_meshes(solved: Path, study: Study) -> None:
    lots = by_id(RunFolder(solved), "tile_costs")
    assert len(COUNTED.solved) == len(set(COUNTED.solved)) == 8 + len(lots)
    assert len(COUNTED.programs) == len(set(COUNTED.programs)) == 4
    tile_parts = [tuple(part) for row in lots.values() for part, *_ in row["costs"]]
    assert len(tile_parts) == len(set(tile_parts))
    needed = {
        part
        for design in designs(study)
        for task in workload_of(study).tasks(design)
        if isinstance(task, ScheduleTask)
        for part in task.demand.tile_parts()
    }
    assert set(tile_parts) == needed


@pytest.mark.slow
def test_a_second_run_another_study_and_other_seeds_reuse_what_there_is(
    solved: Path, study: Study, tmp_path: Path
) -> None:
    before = by_id(RunFolder(copytree(solved, tmp_path / "runs" / "skip")))
    again, other, more = Counter(), Counter(), Counter()
    run_study(study, tmp_path / "runs" / "skip", HERE, observer=again)
    renamed = study.model_copy(update={"name": "other"})
    folder = run_study(renamed, tmp_path / "runs" / "other", HERE, observer=other)
    assert again.solved == other.solved == []
    assert {row["from_study"] for row in folder.read_rows("schedules")} == {"skip"}
    assert {i: row["tree"] for i, row in by_id(folder).items()} == {i: r["tree"] for i, r in before.items()}
    assert study.schedule is not None
    later = study.schedule.model_copy(update={"seed": 1})
    folder = run_study(
        study.model_copy(update={"schedule": later}), tmp_path / "runs" / "seeds", HERE, observer=more
    )
    # seed 1 is known, seed 2 is new; tile costs are all there
    assert (len(more.cached), len(more.solved)) == (4, 4)
    assert folder.read_rows("tile_costs") == []
    assert {row["seed"] for row in folder.read_rows("schedules")} == {1, 2}


def no_seed_1_today(content: Any) -> Any:
    if content["kind"] == "schedule" and content["budget"]["seed"] == 1:
        raise RuntimeError("no solver today")
    return answer_task(content)


def no_schedule_today(content: Any) -> Any:
    if content["kind"] == "schedule":
        raise RuntimeError("no solver today")
    return answer_task(content)


def no_tiles_today(content: Any) -> Any:
    if content["kind"] == "tile_costs":
        raise RuntimeError("no tiles today")
    return answer_task(content)


def explored(study: Study, path: Path, runtime: InProcessRuntime) -> RunFolder:
    with RunWriter(path) as writer:
        StudyRun(study, search_of(study), writer, RunObserver(), path.parent).explore(runtime)
    return RunFolder(path)


@pytest.mark.slow
def test_a_seed_that_fails_is_a_row_and_the_others_count(
    study: Study, with_tiles: Path, in_process: MakeRuntime
) -> None:
    path = with_tiles
    folder = explored(study, path, in_process(no_seed_1_today))
    rows = by_id(folder)
    assert sorted(row["status"] for row in rows.values()) == ["failed"] * 4 + ["feasible"] * 4
    for design in folder.read_rows("designs"):
        assert (design["status"], design["failures"]) == ("complete", 1)
        assert rows[design["networks"]["skip.json"]["schedule"]]["seed"] == 0
    assert "no solver today" in build_page(RunData.read(path))
    counter = Counter()
    run_study(study, path, HERE, observer=counter)
    assert len(counter.solved) == 4
    assert {row["status"] for row in by_id(folder).values()} == {"feasible"}


@pytest.mark.slow
def test_designs_without_any_schedule_say_why_and_are_tried_again(
    study: Study, tmp_path: Path, in_process: MakeRuntime
) -> None:
    path = tmp_path / "runs" / "skip"
    for work, reason in (
        (no_tiles_today, "tile costs could not be had"),
        (no_schedule_today, "RuntimeError: no solver today"),
    ):
        folder = explored(study, path, in_process(work))
        assert {row["status"] for row in folder.read_rows("schedules")} == {"failed"}
        for design in folder.read_rows("designs"):
            assert design["status"] == "failed"
            assert "skip.json: failed: " in design["error"]
            assert reason in design["error"]
    assert "No design is complete" in build_page(RunData.read(path))
    run_study(study, path, HERE)
    assert {row["status"] for row in folder.read_rows("designs")} == {"complete"}


@pytest.mark.slow
def test_an_interrupted_run_goes_on_from_what_it_has(study: Study, with_tiles: Path) -> None:
    class Interrupting(RunObserver):
        def answered(self, row: AnswerRow) -> None:
            if "batch" in row:
                raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        run_study(study, with_tiles, HERE, observer=Interrupting())
    (kept,) = RunFolder(with_tiles).read_rows("schedules")
    counter = Counter()
    folder = run_study(study, with_tiles, HERE, observer=counter)
    assert kept["task_id"] in counter.cached
    assert len(counter.solved) == 7
    assert {row["status"] for row in folder.read_rows("designs")} == {"complete"}


def tasks_of(study: Study, **overrides: Any) -> list[str]:
    """The identities of the first design's schedules, with keys of the study's schedule replaced."""
    assert study.schedule is not None
    changed = study.schedule.model_copy(update=overrides)
    altered = study.model_copy(update={"schedule": changed})
    return [task.id for task in workload_of(altered).tasks(next(designs(altered)))]


def test_equal_contents_are_equal_tasks_whatever_their_names_and_clock(
    study: Study, write_study: Callable[..., Path], tmp_path: Path
) -> None:
    mine = tasks_of(study)
    assert len(set(mine)) == 2
    (tmp_path / "copy.json").write_text(json.dumps(SKIP | {"name": "copy"}))
    text = (CHIPS / "set-edge.yaml").read_text(encoding="utf-8")
    renamed = text.replace("name: set-edge", "name: mine").replace("frequency: 1 GHz", "frequency: 2 GHz")
    (tmp_path / "mine.yaml").write_text(renamed)
    other = STUDY.replace("skip.json", "copy.json").replace("chip: set-edge", "chip: mine.yaml")
    assert tasks_of(load_study(str(write_study(other)))) == mine
    for change in (
        {"batch": 4},
        {"objective": "edp"},
        {"params": {"beta": 6}},
        {"solver": "layer_pipeline"},
        {"most_partitions": 3},
        {"seed": 7},
    ):
        assert not set(tasks_of(study, **change)) & set(mine), change


@pytest.mark.slow
def test_plan_counts_tile_costs_and_schedules(solved: Path, study: Study, tmp_path: Path) -> None:
    planned = plan(study, tmp_path / "runs")
    assert planned.asked == {"schedules": 8}
    assert predict(study, planned, tmp_path / "runs").seconds_per_solve > 0
    lots = RunFolder(copytree(solved, tmp_path / "runs" / "skip")).read_rows("tile_costs")
    assert (planned.distinct, planned.open) == (8 + len(lots), 8 + len(lots))
    # lots are made of what is open: of every demand anew while counting, as in the run
    assert planned.cost_solves == len(lots) == len({row["task_id"] for row in lots})
    known = plan(study, tmp_path / "runs")
    assert (known.distinct, known.open, known.cost_solves) == (8, 0, 0)
    assert predict(study, known, tmp_path / "runs").source.startswith("8 solves in")


@pytest.mark.slow
@pytest.mark.parametrize("solver", ["cosa", "nvdla"])
def test_what_is_bounded_before_tile_costs_are_known_is_below_what_is_found(
    study: Study, solver: str
) -> None:
    mapped = study.model_copy(update={"mapping": MappingChoice(solver=solver)})
    task = next(t for t in workload_of(mapped).tasks(next(designs(mapped))) if isinstance(t, ScheduleTask))
    row: Any = answer_task(TileCostTask(task.on.source, task.demand.tile_parts()).content)
    ideal = [ideal_cost(task.demand.tile, part) for part in task.demand.tile_parts()]
    for cost, (_, energy_pj, cycles, *_) in zip(ideal, row["costs"], strict=True):
        assert cost.energy_pj < energy_pj
        assert cost.cycles <= cycles


@pytest.mark.slow
def test_designs_discarded_by_their_bounds_leave_the_front_as_it_is(
    write_study: Callable[..., Path], with_tiles: Path, tmp_path: Path
) -> None:
    text = STUDY.replace("[2 B/cycle, 16 B/cycle]", "[32 B/cycle, 16 B/cycle, 2 B/cycle, 1 B/cycle]")
    text = text.replace("energy_pj, cycles, area_um2, dram_bytes", "cycles, area_um2")
    everything = run_study(load_study(str(write_study(text))), with_tiles, HERE)
    copytree(with_tiles.parent / "tiles", tmp_path / "pruned" / "tiles")
    pruned = text + "search: {method: grid, prune_by_bounds: true}\n"
    some = run_study(load_study(str(write_study(pruned))), tmp_path / "pruned" / "skip", HERE)
    discarded = [row for row in some.read_rows("designs") if row["status"] == "dominated"]
    assert discarded
    known = {row["design_id"]: row for row in everything.read_rows("designs")}
    for row in discarded:
        assert 0 < row["energy_bound_pj"] <= known[row["design_id"]]["energy_pj"]
        assert 0 < row["cycles_bound"] <= known[row["design_id"]]["cycles"]
    fronts = [front_table(folder, ["cycles", "area_um2"])["design_id"] for folder in (everything, some)]
    assert set(fronts[0]) == set(fronts[1])


@pytest.mark.slow
def test_constraints_and_searches_know_chips(write_study: Callable[..., Path], with_tiles: Path) -> None:
    text = STUDY + "constraints: [tiles <= 2]\nsearch: {method: optuna, trials: 4, seed: 1}\n"
    folder = run_study(load_study(str(write_study(text))), with_tiles, HERE)
    found = folder.read_rows("designs")
    assert {row["axes"]["mesh"][1] for row in found if row["status"] == "complete"} == {1}
    assert {row["note"] for row in found if row["status"] == "infeasible"} <= {"tiles <= 2 (is 4)"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (("chip: set-edge", "chip: set-edge\narchitecture: eyeriss"), "either 'architecture' or 'chip'"),
        (("chip: set-edge", "architecture: eyeriss"), "no 'schedule' without a 'chip'"),
        (("schedule:", "scratchpad: {level: SRAM}\nschedule:"), "no 'scratchpad' in a study of chips"),
        (("objective: e2d", "objective: best"), "expected one of energy, cycles, edp"),
        (("solver: set,", "solver: sett,"), "expected one of set, kapla_schedule"),
        (("solver: set,", "solver: cosa,"), "expected one of set, kapla_schedule"),
        (("beta: 2", "betta: 2"), "skip.yaml: schedule.params.betta: expected parameters of set among"),
        (("beta: 2", "betta: 2"), "Did you mean beta?"),
        (("beta: 2", "beta: -2"), "skip.yaml: schedule.params.beta: expected a number above 0"),
        (("solver: set,", "solver: layer_pipeline, epochs: 2,"), "no searches that can exchange"),
        (("solver: set,", "solver: set, rivals: [{solver: set}],"), "every solver once"),
        (("solver: set,", "solver: set, rivals: [{solver: sett}],"), "schedule.rivals[0].solver"),
        (
            ("solver: set,", "solver: set, rivals: [{solver: kapla_schedule, params: {chain: 1}}],"),
            "schedule.rivals[0].params.chain: expected parameters of kapla_schedule",
        ),
        (("  mesh:", "  mesh.width:"), "axes.mesh.width: expected one of"),
        (("chip: set-edge", "chip: set-edg"), "Did you mean set-edge"),
        (("skip.json", "skipp.json"), "skipp.json"),
        (("{solver: nvdla}", "{solver: nvdla, padding: 0.1}"), "nvdla has a dataflow of its own"),
        (("{solver: nvdla}", "{solver: cosa, uneven: true}"), "expected a solver that maps unevenly: "),
        (
            ("{solver: nvdla}", "{solver: cosa, constraints: [{level: L2}]}"),
            "mapping.constraints[0].level: expected a level of",
        ),
        (
            ("{solver: nvdla}", "{solver: cosa, constraints: [{level: Buffer, spatial_x: [Z]}]}"),
            "mapping.constraints[0]: expected",
        ),
        (("schedule:", "search: {method: optuna, trials: 2, warm_start: true}\nschedule:"), "no warm start"),
    ],
)
def test_wrong_studies_are_named_before_any_solve(
    write_study: Callable[..., Path],
    tmp_path: Path,
    command_line: Callable[..., tuple[int, str, str]],
    change: tuple[str, str],
    said: str,
) -> None:
    path = write_study(STUDY.replace(*change))
    status, _, errors = command_line("run", str(path), "--in-process")
    assert status == 2
    assert said in errors.replace("\n", " ")
    assert "Traceback" not in errors
    assert not (tmp_path / "runs").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("schedule", "stated", "mapped_for"),
    [
        ("energy", "", "energy"),
        ("cycles", "", "cycles"),
        ("edp", "", "edp"),
        ("e2d", "", "edp"),
        ("ed2", "", "edp"),
        ("e3d1", "", "edp"),
        ("e4d", "", "energy"),
        ("ed4", "", "cycles"),
        ("e0d2", "", "cycles"),
        ("energy", ", objective: edp", "edp"),
        ("e2d", ", objective: cycles", "cycles"),
    ],
)
def test_tiles_are_mapped_for_what_the_schedule_is_made_for_unless_the_study_says(
    write_study: Callable[..., Path],
    command_line: Callable[..., tuple[int, str, str]],
    schedule: str,
    stated: str,
    mapped_for: str,
) -> None:
    text = STUDY.replace("objective: e2d", f"objective: {schedule}")
    path = write_study(text.replace("{solver: nvdla}", f"{{solver: nvdla{stated}}}"))
    study = load_study(str(path))
    assert tile_mapping_settings(study).objective == study.mapping_objective == mapped_for
    tasks = [
        task for task in workload_of(study).tasks(next(designs(study))) if isinstance(task, ScheduleTask)
    ]
    assert {task.columns["tile_mapper"]["objective"] for task in tasks} == {mapped_for}
    assert lock_content(study)["study"]["mapping"]["objective"] == mapped_for
    # a study that says what another leaves to its schedule is the same study
    said = write_study(text.replace("{solver: nvdla}", f"{{solver: nvdla, objective: {mapped_for}}}"))
    assert load_study(str(said)).identity == study.identity
    _, out, _ = command_line("plan", str(path), "--json")
    planned = json.loads(out)
    assert (planned["schedule_objective"], planned["tile_objective"]) == (schedule, mapped_for)


def test_layers_without_a_schedule_are_mapped_for_edp(write_study: Callable[..., Path]) -> None:
    study = load_study("quickstart")
    unsaid = study.model_copy(update={"mapping": study.mapping.model_copy(update={"objective": None})})
    assert unsaid.mapping_objective == study.mapping.objective == "edp"
    assert unsaid.identity == study.identity


def test_bytes_of_dram_are_objectives_of_chips_only(write_study: Callable[..., Path]) -> None:
    text = "name: s\nnetworks: [alexnet]\narchitecture: eyeriss\nobjectives: [dram_bytes]\n"
    with pytest.raises(InputError, match="a 'chip', for the objective dram_bytes"):
        load_study(str(write_study(text)))


def test_a_submitted_study_takes_its_chip_and_networks_along(
    write_study: Callable[..., Path], tmp_path: Path
) -> None:
    (tmp_path / "chips").mkdir()
    (tmp_path / "chips" / "tile.yaml").write_text((TILES / "eyeriss.yaml").read_text(encoding="utf-8"))
    text = (CHIPS / "set-edge-eyeriss.yaml").read_text(encoding="utf-8")
    own = text.replace("architecture: eyeriss", "architecture: tile.yaml")
    (tmp_path / "chips" / "mine.yaml").write_text(own)
    study = write_study(STUDY.replace("chip: set-edge", "chip: chips/mine.yaml"))
    known = load_study(str(study))
    wanted = load_chip(known.chip)
    staged = load_study(str(stage_study(str(study), tmp_path / "job")))
    assert staged.identity == known.identity
    assert Path(staged.chip).is_relative_to(tmp_path / "job")
    assert Path(staged.networks[0].network).is_relative_to(tmp_path / "job")
    rmtree(tmp_path / "chips")
    assert load_chip(staged.chip) == wanted


@pytest.mark.slow
def test_rivals_answer_the_same_question_and_the_best_counts(
    write_study: Callable[..., Path], with_tiles: Path
) -> None:
    """Each one's rows are those of a study of its own; a design takes the best, the report shows all."""
    rivals = "rivals: [{solver: layer_sequential, seeds: 1, params: {beta: 2}}, {solver: kapla_schedule}]"
    narrow = STUDY.replace("2 B/cycle, ", "").replace("[[2, 1], [2, 2]]", "[[2, 2]]")
    text = narrow.replace("solver: set,", f"solver: set, {rivals},")
    study = load_study(str(write_study(text)))
    assert study.solvers == ["set", "layer_sequential", "kapla_schedule"]
    assert plan(study, with_tiles.parent).asked == {"schedules": 4}
    folder = run_study(study, with_tiles, HERE)
    rows = by_id(folder)
    alone = by_id(run_study(load_study(str(write_study(narrow))), with_tiles.parent / "alone", HERE))
    (design,) = folder.read_rows("designs")
    network = design["networks"]["skip.json"]
    assert {i for i in network["seeds"] if rows[i]["solver"] == "set"} == set(alone)
    assert [rows[i]["solver"] for i in network["seeds"]] == ["set", "set", *study.solvers[1:]]
    # a rival's tree is better here, from which both seeds of set go on
    assert {i for i, row in rows.items() if row["refined_from"]} == set(network["refinements"])
    objectives = [rows[task_id]["objective"] for task_id in (*network["seeds"], *network["refinements"])]
    assert rows[network["schedule"]]["objective"] == min(objectives)
    page = build_page(RunData.read(folder.path))
    assert "Schedulers compared" in page
    assert "layer_sequential, seed 0" in page


EXCHANGING = STUDY.replace("seeds: 2", "seeds: 3, epochs: 3").replace("beta: 2", "beta: 6, start: sequential")
EXCHANGING = EXCHANGING.replace("[[2, 1], [2, 2]]", "[[2, 2]]").replace("2 B/cycle, ", "")


@pytest.mark.slow
def test_seeds_that_exchange_their_trees_find_what_they_find_together(
    write_study: Callable[..., Path], with_tiles: Path, tmp_path: Path
) -> None:
    study = load_study(str(write_study(EXCHANGING)))
    planned = plan(study, with_tiles.parent)
    assert (planned.asked, planned.distinct, planned.cost_solves) == ({"schedules": 3}, 9, 0)
    counter = Counter()
    folder = run_study(study, with_tiles, HERE, observer=counter)
    rows = by_id(folder)
    assert len(counter.solved) == len(rows) == 9
    assert sorted(row["epoch"] for row in rows.values()) == [0, 0, 0, 1, 1, 1, 2, 2, 2]
    (design,) = folder.read_rows("designs")
    seeds = [rows[task_id] for task_id in design["networks"]["skip.json"]["seeds"]]
    assert (design["solves"], design["cached_solves"], design["failures"]) == (9, 0, 0)
    assert design["cpu_seconds"] == pytest.approx(sum(row["cpu_seconds"] for row in rows.values()))

    chip, graph = load_chip("set-edge", design["axes"]), load_layer_graph(tmp_path / "skip.json")
    costs = solved_costs(
        TileCostDemand(graph, chip.tile, chip.tiles, 2, Pruning(most=1)), TileMapper("nvdla")
    )
    problem = ScheduleProblem(graph, ChipModel(chip, costs), 2, Objective.named("e2d"))
    params = Params(beta=6, start="sequential")
    states = anneal_together(
        problem, AnnealingPlan(("paper",), params, params.rounds(4)), (0, 1, 2), epochs=3
    )
    assert [row["tree"] for row in seeds] == [format_tree(state.best[1]) for state in states]
    assert build_page(RunData.read(folder.path)).count("<option") >= 2


@pytest.mark.slow
def test_exchanging_seeds_go_on_from_the_epochs_that_there_are(
    write_study: Callable[..., Path], with_tiles: Path, tmp_path: Path, in_process: MakeRuntime
) -> None:
    def no_last_epoch(content: Any) -> Any:
        if (
            content["kind"] == "schedule"
            and content["epoch"]["number"] == 1
            and content["budget"]["seed"] == 2
        ):
            raise RuntimeError("no solver today")
        return answer_task(content)

    study = load_study(str(write_study(EXCHANGING)))
    folder = explored(study, with_tiles, in_process(no_last_epoch))
    (design,) = folder.read_rows("designs")
    assert design["status"] == "failed"
    assert "the epoch before failed" in design["error"]
    counter = Counter()
    (design,) = run_study(study, with_tiles, HERE, observer=counter).read_rows("designs")
    # three of the first epoch and two of the second are there; what failed, and what waited for it, is not
    assert (design["status"], len(counter.cached), len(counter.solved)) == ("complete", 5, 4)
    assert (design["solves"], design["cached_solves"]) == (9, 5)
    (again,) = run_study(study, tmp_path / "runs" / "again", HERE).read_rows("designs")
    assert (again["solves"], again["cached_solves"], again["cpu_seconds"]) == (9, 9, 0.0)
    copytree(with_tiles.parent / "tiles", tmp_path / "other" / "tiles")
    (other,) = run_study(study, tmp_path / "other" / "skip", HERE).read_rows("designs")
    assert [other[name] for name in ("energy_pj", "cycles")] == [
        design[name] for name in ("energy_pj", "cycles")
    ]


@pytest.mark.slow
def test_phases_of_requests_are_scheduled_each_by_itself(
    write_study: Callable[[str], Path], with_tiles: Path
) -> None:
    phases = """phases:
  - {name: read, role: prefill, network: skip.json, batch: 2}
  - {name: write, role: decode, network: skip.json, batch: 2, per_request: 6}"""
    text = STUDY.replace("networks: [{network: skip.json, weight: 3}]", phases)
    objectives = "[time_to_first_token_seconds, time_per_output_token_seconds, joules_per_token]"
    study = load_study(
        str(write_study(text.replace("[energy_pj, cycles, area_um2, dram_bytes]", objectives)))
    )
    folder = run_study(study, with_tiles, HERE)
    rows = by_id(folder)
    for design in folder.read_rows("designs"):
        read, step = (rows[one["schedule"]] for one in design["networks"].values())
        clock = design["cycles"] / design["latency_seconds"]
        # two requests share a run, and each waits for all of it
        assert design["time_to_first_token_seconds"] == pytest.approx(read["cycles"] / clock)
        assert design["time_per_output_token_seconds"] == pytest.approx(step["cycles"] / clock)
        assert 0 < design["time_to_first_token_bound_seconds"] <= design["time_to_first_token_seconds"]
        energy = read["energy_pj"] / 2 + 3 * step["energy_pj"]
        assert design["joules_per_token"] == pytest.approx(energy * 1e-12 / 6)
