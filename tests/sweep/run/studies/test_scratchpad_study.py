"""Studies that plan scratchpads, on a graph whose optima are known from its bytes.

x -> a -> b -> c -> a + c: 1 x 1 convolutions over 64 pixels with 8 channels, b with 16. In words of 16 bits a
needs 1 KiB, b 2 KiB and c 1 KiB. There is one order. An operator needs 3 KiB at most (MR); to keep `a` beside
b and c, 4 KiB; with less `a` leaves and comes back, 2 KiB of traffic.
"""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from clusters.in_process import InProcessRuntime
from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_network
from costmodel.scratchpad.cut import TensorCut
from costmodel.scratchpad.divisions import divisible_graph
from costmodel.scratchpad.graph import ScratchpadSettings, operator_graph
from costmodel.scratchpad.plan import Plan, Residency, TensorPlan, violations
from results.front.pareto import front_table
from results.report.data import RunData
from results.report.page import build_page
from results.report.sections.why_this_one.memory import blocks
from results.store.folder import RunFolder, RunWriter
from results.store.schema.rows import AnswerRow, ScratchpadRow
from solvers.scratchpad.problem import ScratchpadProblem, objective_of
from solvers.scratchpad.problem import violations as problem_violations
from sweep.cli.main import main
from sweep.design.scratchpad_plans import off_chip_pj_per_byte
from sweep.forecast.plan import plan
from sweep.forecast.prediction import predict
from sweep.run.progress.observer import RunObserver
from sweep.run.run import StudyRun
from sweep.run.session import RuntimeChoice, run_study
from sweep.search.search import search_of
from sweep.study.lock import study_id
from sweep.study.study import Study, load_study
from sweep.tasks.kinds import answer_task

HERE = RuntimeChoice(in_process=True)
KIB = 1024
MakeRuntime = Callable[[Callable[[Any], Any]], InProcessRuntime]
Row = dict[str, Any]

STUDY = """
name: skip
networks: [{network: skip.json, weight: 3}]
architecture: eyeriss
axes:
  SRAM.size: {choices: [2 KiB, 3 KiB, 4 KiB]}
  SRAM.fanout: {choices: [[2, 2], [4, 2]]}
objectives: [energy_pj, area_um2, off_chip_bytes]
mapping: {solver: random_search, iterations: 200, wall_seconds: 20}
scratchpad: {level: SRAM}
"""


def convolution(name: str, source: str, channels: tuple[int, int]) -> Row:
    return {
        "name": name,
        "type": "conv2d",
        "inputs": [source, f"{name}_weight"],
        "outputs": [f"{name}_out"],
        "attrs": {"stride": [1, 1], "padding": [0, 0], "weight_shape": [channels[1], channels[0], 1, 1]},
    }


def tensor(name: str, shape: list[int], kind: str) -> Row:
    return {"name": name, "shape": shape, "kind": kind}


def skip_graph() -> Row:
    ops = [
        convolution("a", "x", (8, 8)),
        convolution("b", "a_out", (8, 16)),
        convolution("c", "b_out", (16, 8)),
        {"name": "sum", "type": "add", "inputs": ["c_out", "a_out"], "outputs": ["y"], "attrs": {}},
    ]
    channels = {"x": 8, "a_out": 8, "b_out": 16, "c_out": 8, "y": 8}
    kinds = {"x": "input", "y": "output"}
    tensors = [tensor(n, [1, c, 8, 8], kinds.get(n, "activation")) for n, c in channels.items()]
    tensors += [tensor(op["inputs"][1], op["attrs"]["weight_shape"], "parameter") for op in ops[:3]]
    return {"name": "skip", "source": "test", "granularity": "raw", "ops": ops, "tensors": tensors}


@pytest.fixture
def write_study(tmp_path: Path) -> Callable[[str], Path]:
    def write(text: str = STUDY) -> Path:
        (tmp_path / "skip.json").write_text(json.dumps(skip_graph()))
        path = tmp_path / "skip.yaml"
        path.write_text(text)
        return path

    return write


@pytest.fixture
def study(write_study: Callable[..., Path]) -> Study:
    return load_study(str(write_study()))


def by_size(folder: RunFolder) -> dict[str, list[Row]]:
    """The designs by the size of their SRAM."""
    found: dict[str, list[Row]] = {}
    for row in folder.read_rows("designs"):
        found.setdefault(row["axes"]["SRAM.size"], []).append(row)
    return found


def plan_of(row: Row) -> Plan:
    """The plan of a ``scratchpads`` row."""
    tensors = [
        TensorPlan(
            name,
            tuple(Residency(**residency) for residency in tensor["residency"]),
            tensor["spilled_at"],
            tuple(tensor["retrieved_at"]),
        )
        for name, tensor in row["plan"]["tensors"].items()
    ]
    return Plan(tuple(row["plan"]["order"]), tuple(tensors), tuple(row["plan"]["parameters"].items()))


class Counter(RunObserver):
    def __init__(self) -> None:
        self.solved: list[str] = []
        self.cached: list[str] = []

    def answered(self, row: AnswerRow) -> None:
        (self.cached if row["cached"] else self.solved).append(row["task_id"])


def test_designs_count_what_their_plans_move(study: Study, tmp_path: Path) -> None:
    folder = run_study(study, tmp_path / "runs" / "skip", HERE)
    plans = {row["task_id"]: row for row in folder.read_rows("scratchpads")}
    # two sizes that hold it, whatever the array of processing elements
    assert sorted((row["budget_bytes"], row["objective_bytes"]) for row in plans.values()) == [
        (3 * KIB, 2 * KIB),
        (4 * KIB, 0),
    ]
    designs = by_size(folder)
    for size, moved in (("3 KiB", 3 * 2 * KIB), ("4 KiB", 0)):
        assert len(designs[size]) == 2
        for row in designs[size]:
            assert (row["status"], row["off_chip_bytes"], row["off_chip_bytes_bound"]) == (
                "complete",
                moved,
                moved,
            )
            # 128 pJ for a word of 16 bits, in either direction
            assert row["off_chip_energy_pj"] == row["off_chip_energy_bound_pj"] == moved / 2 * 128
            network = row["networks"]["skip.json"]
            assert plans[network["scratchpad"]]["objective_bytes"] * 3 == moved
            assert row["solves"] == len({layer["task_id"] for layer in network["layers"]}) + 1


def test_rows_hold_plans_that_run(study: Study, tmp_path: Path) -> None:
    folder = run_study(study, tmp_path / "runs" / "skip", HERE)
    graph = operator_graph(load_network(tmp_path / "skip.json"), ScratchpadSettings(bits_per_element=16))
    for row in folder.read_rows("scratchpads"):
        assert violations(graph, plan_of(row), row["budget_bytes"]) == []
        assert (row["status"], row["bound_bytes"], row["gap"]) == ("optimal", row["objective_bytes"], 0)
        assert row["block_bytes"] == {"x": KIB, "a_out": KIB, "b_out": 2 * KIB, "c_out": KIB, "y": KIB}
        assert row["setting"]["bits_per_element"] == 16
        assert (row["graph"], row["solver"], row["parameter_bytes"]) == ("skip.json", "cosma", {})


def test_bands_plan_below_what_the_largest_operator_needs(study: Study, tmp_path: Path) -> None:
    """With bands the 2 KiB designs have plans, of 1 x 1 convolutions by rows, and 3 KiB are enough."""
    assert study.scratchpad is not None
    banded = study.model_copy(update={"scratchpad": study.scratchpad.model_copy(update={"bands": True})})
    assert study_id(banded) != study_id(study)
    assert "bands" not in study.identity["scratchpad"]
    folder = run_study(banded, tmp_path / "banded", HERE)
    designs = {row["axes"]["SRAM.size"]: row for row in folder.read_rows("designs")}
    assert {row["status"] for row in designs.values()} == {"complete"}
    # to keep `a` for the sum, a band at a time of b and c is enough
    assert designs["2 KiB"]["off_chip_bytes"] <= 2 * 3 * 2 * KIB
    assert designs["3 KiB"]["off_chip_bytes"] == 0
    assert designs["4 KiB"]["off_chip_bytes"] == 0
    divisible = divisible_graph(load_network(tmp_path / "skip.json"), ScratchpadSettings(bits_per_element=16))
    for row in folder.read_rows("scratchpads"):
        size = row["budget_bytes"]
        problem = ScratchpadProblem(divisible.whole, size, divisible)
        cuts = tuple((name, TensorCut(**cut)) for name, cut in row["plan"].get("cuts", {}).items())
        plan = replace(plan_of(row), cuts=cuts)
        assert problem_violations(problem, plan) == []
        drawn = list(blocks(cast("ScratchpadRow", row)))
        # what the report draws, and what the design's totals count, are the bands
        assert max(block.address + block.size for block in drawn) <= size
        assert all(block.size for block in drawn)
        designs_of = [
            d for d in designs.values() if d["networks"]["skip.json"]["scratchpad"] == row["task_id"]
        ]
        assert {d["off_chip_bytes"] for d in designs_of} == {3 * objective_of(problem, plan)}
    rows = {row["budget_bytes"]: row for row in folder.read_rows("scratchpads")}
    assert rows[2 * KIB]["plan"]["cuts"]
    assert "cuts" not in rows[4 * KIB]["plan"]


def test_a_scratchpad_below_the_requirement_costs_no_solve(study: Study, tmp_path: Path) -> None:
    counter = Counter()
    folder = run_study(study, tmp_path / "runs" / "skip", HERE, observer=counter)
    small = by_size(folder)["2 KiB"]
    assert [(row["status"], row["feasible"], row["solves"]) for row in small] == [
        ("infeasible", False, 0)
    ] * 2
    for row in small:
        assert row["note"].startswith("scratchpad of skip.json: operator ")
        assert "needs 3072 bytes (MR)" in row["note"]
        assert "the budget has 2048" in row["note"]
    assert len(counter.solved) == len(set(counter.solved)) == 2 + len(folder.read_rows("layers"))


@pytest.mark.slow
def test_a_second_run_and_another_study_solve_nothing(study: Study, tmp_path: Path) -> None:
    before = run_study(study, tmp_path / "runs" / "skip", HERE).read_rows("scratchpads")
    again = Counter()
    after = run_study(study, tmp_path / "runs" / "skip", HERE, observer=again).read_rows("scratchpads")
    assert again.solved == []
    assert len(after) == len(before) == 2
    other = Counter()
    renamed = study.model_copy(update={"name": "other"})
    folder = run_study(renamed, tmp_path / "runs" / "other", HERE, observer=other)
    assert other.solved == []
    assert [row["from_study"] for row in folder.read_rows("scratchpads")] == ["skip"] * 2
    found, known = (
        {row["task_id"]: (row["plan"], row["objective_bytes"]) for row in rows}
        for rows in (folder.read_rows("scratchpads"), before)
    )
    assert found == known


@pytest.mark.slow
def test_an_interrupted_run_keeps_its_plans(study: Study, tmp_path: Path) -> None:
    class Interrupting(RunObserver):
        def answered(self, row: AnswerRow) -> None:
            if "budget_bytes" in row:
                raise KeyboardInterrupt

    output = tmp_path / "runs" / "skip"
    with pytest.raises(KeyboardInterrupt):
        run_study(study, output, HERE, observer=Interrupting())
    (kept,) = RunFolder(output).read_rows("scratchpads")
    counter = Counter()
    rows = run_study(study, output, HERE, observer=counter).read_rows("scratchpads")
    assert kept["task_id"] in counter.cached
    assert sorted(row["objective_bytes"] for row in rows) == [0, 2 * KIB]
    assert len({row["status"] for row in RunFolder(output).read_rows("designs")}) == 2


def test_the_same_graph_under_two_names_is_planned_once(
    write_study: Callable[..., Path], tmp_path: Path
) -> None:
    path = write_study(STUDY.replace("[{network: skip.json, weight: 3}]", "[skip.json, copy.json]"))
    (tmp_path / "copy.json").write_text(json.dumps(skip_graph() | {"name": "copy"}))
    folder = run_study(load_study(str(path)), tmp_path / "runs" / "skip", HERE)
    assert len(folder.read_rows("scratchpads")) == 2
    for row in by_size(folder)["3 KiB"]:
        assert row["off_chip_bytes"] == 2 * 2 * KIB
        one, other = row["networks"].values()
        assert one["scratchpad"] == other["scratchpad"]


def no_plans_today(content: Any) -> Any:
    if content["kind"] == "scratchpad" and content["budget_bytes"] == 3 * KIB:
        raise RuntimeError("no solver today")
    return answer_task(content)


@pytest.mark.slow
def test_a_failed_plan_is_a_row_and_is_tried_again(
    study: Study, tmp_path: Path, in_process: MakeRuntime
) -> None:
    path = tmp_path / "runs" / "skip"
    with RunWriter(path) as writer:
        StudyRun(study, search_of(study), writer, RunObserver(), path.parent).explore(
            in_process(no_plans_today)
        )
    folder = RunFolder(path)
    assert sorted(row["status"] for row in folder.read_rows("scratchpads")) == ["failed", "optimal"]
    designs = by_size(folder)
    assert {row["status"] for row in designs["4 KiB"]} == {"complete"}
    for row in designs["3 KiB"]:
        assert (row["status"], row["failures"], row["off_chip_bytes"]) == ("failed", 1, None)
        assert "scratchpad of skip.json: failed: RuntimeError: no solver today" in row["error"]
    page = build_page(RunData.read(path))
    assert "skip.json in 3.000 KiB" in page
    counter = Counter()
    run_study(study, path, HERE, observer=counter)
    assert len(counter.solved) == 1
    assert {row["status"] for row in by_size(folder)["3 KiB"]} == {"complete"}


@pytest.mark.parametrize(
    ("setting", "needed", "moved"),
    [
        # the step of `b` has its 8 x 16 weights beside a and b
        ("parameters: true", 3 * KIB + 256, 2 * KIB),
        ("bits_per_element: 8", 3 * KIB // 2, KIB),
        # blocks of 1.5, 3 and 1.5 KiB, of which 1, 2 and 1 KiB are moved
        ("alignment_bytes: 1536", 3 * 1536, 2 * KIB),
        # the sum may take the place of `a` or c; the step of `b` still needs 3 KiB
        ("in_place: true", 3 * KIB, 2 * KIB),
    ],
)
def test_settings_reach_the_model(
    write_study: Callable[..., Path], tmp_path: Path, setting: str, needed: int, moved: int
) -> None:
    text = STUDY.replace("{level: SRAM}", f"{{level: SRAM, {setting}}}").replace("weight: 3", "weight: 1")
    words = f"[{needed // 2 - 1}, {needed // 2}]"
    study = load_study(str(write_study(text.replace("[2 KiB, 3 KiB, 4 KiB]", words))))
    folder = run_study(study, tmp_path / "runs" / "skip", HERE)
    rows = {row["budget_bytes"]: row for row in folder.read_rows("scratchpads")}
    assert rows.keys() == {needed}
    assert rows[needed]["objective_bytes"] == moved
    name, value = setting.split(": ")
    assert rows[needed]["setting"][name] == json.loads(value)


def test_plan_counts_scratchpads(study: Study, tmp_path: Path) -> None:
    planned = plan(study, tmp_path / "runs")
    assert (len(planned.designs), planned.infeasible) == (6, 2)
    assert planned.asked == {"layers": 4 * 3, "scratchpads": 4}
    folder = run_study(study, tmp_path / "runs" / "skip", HERE)
    solved = len(folder.read_rows("layers")) + len(folder.read_rows("scratchpads"))
    assert (planned.distinct, planned.open) == (solved, solved)
    known = plan(study, tmp_path / "runs")
    assert (known.distinct, known.open) == (solved, 0)
    assert predict(study, planned, tmp_path / "runs").seconds_per_solve > 0


def test_a_level_in_parts_is_no_scratchpad(write_study: Callable[..., Path], tmp_path: Path) -> None:
    wrong = load_study(str(write_study(STUDY.replace("level: SRAM", "level: RegFile"))))
    with pytest.raises(InputError, match="8 of RegFile"):
        run_study(wrong, tmp_path / "runs" / "skip", HERE)
    parted = STUDY.replace("level: SRAM", "level: RegFile").replace("[4, 2]", "[1, 1]")
    parted = parted.replace("SRAM.size: {choices: [2 KiB, 3 KiB, 4 KiB]}", "RegFile.size: {choices: [2048]}")
    folder = run_study(load_study(str(write_study(parted))), tmp_path / "runs" / "skip", HERE)
    notes = {row["axes"]["SRAM.fanout"][0]: row["note"] for row in folder.read_rows("designs")}
    assert notes == {1: None, 2: "scratchpad: there are 4 of RegFile, each with a part of the tensors"}


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (
            "level: SRAM",
            "level: SRM",
            "scratchpad.level: expected a level within the outermost one: RegFile, SRAM,",
        ),
        ("level: SRAM", "level: DRAM", "found DRAM"),
        ("level: SRAM", "level: SRAM, solver: cosa", "expected one of cosma, cosma_ilp"),
        ("level: SRAM", "level: SRAM, solver: cosmo", "Did you mean cosma?"),
        ("level: SRAM", "level: SRAM, params: {depth: 3}", "parameters of cosma among"),
        ("level: SRAM", "level: SRAM, alignment: 4", "alignment"),
        ("solver: random_search", "solver: cosma", "expected one of auto, cosa"),
        ("scratchpad: {level: SRAM}", "", "for the objective off_chip_bytes"),
        ("skip.json", "layers.yaml", "layers without dataflow"),
    ],
)
def test_wrong_studies_end_with_status_2(
    write_study: Callable[..., Path],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    old: str,
    new: str,
    said: str,
) -> None:
    assert old in STUDY
    path = write_study(STUDY.replace(old, new))
    problem = Path(__file__).parents[3] / "data" / "problems" / "gemm.yaml"
    (path.parent / "layers.yaml").write_text(problem.read_text(encoding="utf-8"))
    monkeypatch.chdir(path.parent)
    monkeypatch.setattr("sys.argv", ["archsweep", "run", str(path), "--in-process"])
    with pytest.raises(SystemExit) as end:
        main()
    printed = capsys.readouterr()
    assert end.value.code == 2
    assert said in printed.err.replace("\n", " ")
    assert "Traceback" not in printed.err
    assert not (path.parent / "runs").exists()


OPTUNA = STUDY.replace("[2 KiB, 3 KiB, 4 KiB]", "[2 KiB, 3 KiB, 3584, 4 KiB, 5 KiB]")


@pytest.mark.slow
def test_a_search_that_learns_and_discards_finds_the_grids_front(
    write_study: Callable[..., Path], tmp_path: Path
) -> None:
    grid = load_study(str(write_study(OPTUNA)))
    names = [*grid.objectives]
    truth = front_table(run_study(grid, tmp_path / "grid" / "skip", HERE), names)[names]
    search = "search: {method: optuna, trials: 60, population: 4, prune_by_bounds: true}\n"
    study = load_study(str(write_study(OPTUNA + search)))
    folder = run_study(study, tmp_path / "optuna" / "skip", HERE)
    found = front_table(folder, names)[names]
    assert len(folder.read_rows("designs")) == 10
    assert found.to_numpy().tolist() == truth.to_numpy().tolist()
    assert {row["status"] for row in by_size(folder)["2 KiB"]} == {"infeasible"}


@pytest.mark.slow
def test_the_report_maps_the_memory_and_knows_what_is_certain(study: Study, tmp_path: Path) -> None:
    folder = run_study(study, tmp_path / "runs" / "skip", HERE)
    run = RunData.read(folder.path, ("off_chip_bytes", "off_chip_energy_pj"))
    page = build_page(run)
    assert "Scratchpad memory" in page
    assert page.count('"order": ["a", "b", "c", "sum"]') + page.count('"order":["a","b","c","sum"]') == 2
    # what is proven optimal is on the front for certain
    assert run.certain == run.on_front
    assert len(run.front) == 2


def test_energies_of_a_byte_are_the_levels_per_block() -> None:
    simba = load_architecture("simba").levels[-1]
    assert simba.block_size == 64
    assert off_chip_pj_per_byte(simba) == (simba.write_energy_pj / 64, simba.read_energy_pj / 64)


@pytest.mark.slow
def test_ray_gives_the_answers_of_one_process(study: Study, tmp_path: Path) -> None:
    alone, cluster = (
        run_study(study, tmp_path / name / "skip", place)
        for name, place in (("alone", HERE), ("cluster", RuntimeChoice(workers=2)))
    )
    one, two = (
        {row["task_id"]: (row["plan"], row["objective_bytes"]) for row in folder.read_rows("scratchpads")}
        for folder in (alone, cluster)
    )
    assert one == two
    assert len(one) == 2
    columns = ("off_chip_bytes", "off_chip_energy_pj", "energy_pj", "status")
    before, after = (
        {row["design_id"]: [row[name] for name in columns] for row in folder.read_rows("designs")}
        for folder in (alone, cluster)
    )
    assert before == after
