"""The command line: what it prints, what it exits with, and what it says to wrong input."""

import gzip
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from costmodel.formats.architectures import FOLDER as ARCHITECTURES
from costmodel.formats.architectures import load_architecture
from costmodel.formats.cases.folder import mapping_from_json
from costmodel.formats.networks import load_layer
from costmodel.mapping.evaluate import evaluate
from results.store.folder import RunFolder
from tests.clusters.processes import PATIENCE, until
from tests.sweep.ended import Command

DATA = Path(__file__).parents[2] / "data"
CASES, ONNX = DATA / "timeloop", DATA / "onnx"
GEMM = '{"shape": "gemm", "dims": {"M": 8, "N": 12, "K": 16}}'


@pytest.mark.slow
def test_run_ends_with_table_and_report(command_line: Command, write_study: Callable[..., Path]) -> None:
    path = str(write_study())
    first = command_line("run", path, "--in-process")
    assert first.status == 0
    assert {"SRAM", ".size", ".fanout"} <= set(first.out.split())
    assert first.out.rstrip().endswith("report: runs/tiny/report.html")
    assert Path("runs/tiny/report.html").stat().st_size > 100_000
    assert "4 distinct solves, 0 in the store, 4 to solve" in first.err
    second = command_line("run", path)
    assert "4 in the store, 0 to solve" in second.err
    assert second.out == first.out


@pytest.mark.slow
def test_plan_pareto_and_report(command_line: Command, write_study: Callable[..., Path]) -> None:
    path = str(write_study())
    planned = command_line("plan", path, "--workers", "4", "--json")
    row = json.loads(planned.out)
    assert (row["designs"], row["distinct_solves"], row["workers"]) == (4, 4, 4)
    assert row["core_hours"] * 3600 <= row["wall_seconds"] * 4
    assert row["bottleneck"] == "the start of the workers"
    assert not Path("runs").exists()
    command_line("run", path, "--in-process")
    front = command_line("pareto", "runs/tiny", "--x", "energy_pj", "--y", "area_um2", "--csv")
    header, *rows = front.out.splitlines()
    assert header.split(",")[:5] == [
        "design_id",
        "axis.SRAM.size",
        "axis.SRAM.fanout",
        "energy_pj",
        "area_um2",
    ]
    assert 1 <= len(rows) <= 4
    Path("runs/tiny/report.html").unlink()
    assert command_line("report", "runs/tiny").out.strip() == "runs/tiny/report.html"
    assert Path("runs/tiny/report.html").is_file()


@pytest.mark.parametrize("solver", ["cosa", "random_search"])
def test_solve_mapping_prints_one_object_that_others_can_evaluate(command_line: Command, solver: str) -> None:
    arguments = ["--architecture", "eyeriss", "--layer", GEMM, "--solver", solver, "--objective", "energy"]
    ended = command_line("solve", "mapping", *arguments, "--iterations", "2000", "--json")
    assert ended.status == 0
    answer = json.loads(ended.out)
    fields = ["status", "objective", "bound", "gap", "program_proven", "cpu_seconds", "mapping", "evaluation"]
    assert set(fields) <= set(answer)
    architecture, layer = load_architecture("eyeriss"), load_layer(GEMM)
    again = evaluate(architecture, layer, mapping_from_json(architecture, layer, answer["mapping"]))
    assert again.energy_pj == answer["objective"] == answer["evaluation"]["energy_pj"]
    assert answer["evaluation"]["cycles"] == again.cycles
    assert answer["bound"] <= answer["objective"]
    assert "RegFile" in command_line("solve", "mapping", *arguments).out


def test_an_infeasible_problem_ends_with_the_reason(command_line: Command, tmp_path: Path) -> None:
    text = (ARCHITECTURES / "eyeriss.yaml").read_text()
    (tmp_path / "small.yaml").write_text(text.replace("size: 512", "size: 2"))
    arguments = ["--architecture", "small.yaml", "--layer", GEMM, "--keep", "all"]
    ended = command_line("solve", "mapping", *arguments)
    assert ended.status == 1
    assert "infeasible" in ended.err
    assert "RegFile" in ended.err


@pytest.mark.slow
def test_evaluate_reads_the_reference_folder(command_line: Command) -> None:
    ended = command_line("evaluate", str(CASES), "--json")
    lines = [json.loads(line) for line in ended.out.splitlines()]
    assert len(lines) > 100
    assert set(lines[0]) >= {"id", "cycles", "energy_pj", "levels"}
    tensor = next(iter(lines[0]["levels"][0]["tensors"].values()))
    assert set(tensor) >= {"reads", "fills", "updates", "instances"}


@pytest.mark.slow
@pytest.mark.parametrize(
    "what", ["solvers", "networks", "architectures", "studies", "layers/alexnet", "schema"]
)
def test_list(command_line: Command, what: str) -> None:
    ended = command_line("list", what)
    assert ended.status == 0
    assert ended.out.strip()


@pytest.mark.slow
def test_list_names_its_columns_and_what_it_leaves_out(command_line: Command, tmp_path: Path) -> None:
    header, first, *_ = command_line("list", "networks").out.splitlines()
    assert header.split() == ["name", "layers", "distinct", "macs", "from"]
    assert first.split()[0] == "resnet18"
    assert header.index("macs") == first.index(first.split()[3])
    tensors = [{"name": n, "shape": [5, 7], "kind": k} for n, k in (("x", "input"), ("y", "output"))]
    twist = {"name": "odd", "type": "twist", "inputs": ["x"], "outputs": ["y"], "attrs": {}}
    graph = {"name": "made", "tensors": tensors, "ops": [twist]}
    (tmp_path / "made.json").write_text(json.dumps(graph))
    ended = command_line("list", "layers/made.json")
    assert (ended.status, ended.out) == (2, "")
    assert "expected an operator whose multiply-accumulates are counted, found 1 twist" in ended.err


def test_help_is_quick_because_nothing_heavy_is_imported() -> None:
    code = "import sys, sweep.cli.main; print(*sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    heavy = {"numpy", "numba", "pandas", "pyarrow", "ray", "ortools", "plotly", "onnx", "pydantic", "yaml"}
    assert heavy & set(done.stdout.split()) == set()


SMALL = """
name: small
technology: thistle-45nm
levels:
  - {name: DRAM, kind: dram}
  - {name: B, kind: sram, size: SIZE}
"""


def study(network: str = "alexnet", architecture: str = "eyeriss", more: str = "") -> str:
    return f"name: x\nnetworks: [{network}]\narchitecture: {architecture}\n{more}\n"


def wrong_case() -> str:
    with gzip.open(next(CASES.glob("C_*.jsonl.gz"))) as file:
        case = json.loads(file.readline())
    case["mapping"]["levels"][0]["factors"]["K"] = 7919
    return json.dumps(case)


STRIDE = json.dumps({"shape": "cnn_layer", "dims": dict.fromkeys("RSPQCKN", 2), "coeffs": {"Wstride": -1}})
ON_EYERISS = ["solve", "mapping", "--architecture", "eyeriss", "--layer"]
FILES: dict[str, Callable[[], str | bytes]] = {
    "zero.yaml": lambda: SMALL.replace("SIZE", "0 words"),
    "cases.jsonl": wrong_case,
    "cut.jsonl.gz": lambda: gzip.compress(b"{}" * 1000)[:-12],
    "torn.onnx": lambda: next(iter(ONNX.glob("*.onnx"))).read_bytes()[:200],
    "torn.yaml": lambda: study("torn.onnx"),
    "network.yaml": lambda: study("resnet19"),
    "architecture.yaml": lambda: study(architecture="eyeris"),
    "params.yaml": lambda: study(more="mapping: {params: {polsh: 1}}"),
    "axis.yaml": lambda: study(more="axes: {SRM.size: {choices: [1]}}"),
    "nothing.yaml": lambda: study(more="constraints: [area_um2 < 1]"),
}
WRONG: dict[str, tuple[list[str], list[str]]] = {
    "unknown study": (["run", "nonsense"], ["nonsense", "quickstart"]),
    "capacity 0": (
        ["solve", "mapping", "--architecture", "zero.yaml", "--layer", GEMM],
        ["zero.yaml", "B.size", "0 words"],
    ),
    "negative stride": ([*ON_EYERISS, STRIDE], ["Wstride", "-1"]),
    "bad JSON layer": ([*ON_EYERISS, "{"], ["layer"]),
    "unknown layer": ([*ON_EYERISS, "resnet50/nope"], ["resnet50", "nope"]),
    "unknown solver": ([*ON_EYERISS, GEMM, "--solver", "cossa"], ["cossa", "Did you mean cosa"]),
    "another family's solver": ([*ON_EYERISS, GEMM, "--solver", "cosma"], ["one of auto, cosa", "cosma"]),
    "unknown objective": ([*ON_EYERISS, GEMM, "--objective", "beauty"], ["objective", "beauty", "edp"]),
    "unknown parameter": ([*ON_EYERISS, GEMM, "--params", '{"x": 1}'], ["params", "x"]),
    "wrong parameter": (
        [*ON_EYERISS, GEMM, "--solver", "cosa", "--params", '{"engine": "gurobi"}'],
        ["engine", "gurobi", "highs"],
    ),
    "parameters not JSON": ([*ON_EYERISS, GEMM, "--params", "{"], ["--params", "JSON"]),
    "negative seconds": ([*ON_EYERISS, GEMM, "--wall-seconds", "-1"], ["--wall-seconds", "-1"]),
    "factors that do not multiply": (
        ["evaluate", "cases.jsonl"],
        ["cases.jsonl", "factors of K multiply to"],
    ),
    "truncated cases": (["evaluate", "cut.jsonl.gz"], ["cut.jsonl.gz"]),
    "no such cases": (["evaluate", "nowhere"], ["nowhere"]),
    "truncated ONNX": (["run", "torn.yaml"], ["torn.onnx"]),
    "unknown network": (["plan", "network.yaml"], ["resnet19", "resnet18"]),
    "unknown architecture": (["plan", "architecture.yaml"], ["eyeris", "Did you mean eyeriss"]),
    "unknown solver parameter": (["run", "params.yaml"], ["params", "polsh"]),
    "unknown axis": (["run", "axis.yaml"], ["SRM", "SRAM"]),
    "impossible constraint": (["run", "nothing.yaml"], ["constraints", "area_um2 < 1"]),
    "report of no run": (["report", "empty"], ["empty"]),
    "front of no run": (["pareto", "empty"], ["empty"]),
    "unknown list": (["list", "everything"], ["everything", "solvers"]),
}


@pytest.mark.parametrize("kind", WRONG)
def test_wrong_input_is_one_message_and_status_2(command_line: Command, tmp_path: Path, kind: str) -> None:
    for name, content in FILES.items():
        written = content()
        (tmp_path / name).write_bytes(written if isinstance(written, bytes) else written.encode())
    command, fragments = WRONG[kind]
    ended = command_line(*command)
    assert ended.status == 2
    assert ended.out == ""
    assert "Traceback" not in ended.err
    message = ended.err.strip().splitlines()[-1]
    assert message.startswith("archsweep: ")
    for fragment in fragments:
        assert fragment in ended.err
    assert not Path("runs").exists()


@pytest.mark.slow
def test_wrong_objective_of_a_front(command_line: Command, write_study: Callable[..., Path]) -> None:
    command_line("run", str(write_study()), "--in-process")
    ended = command_line("pareto", "runs/tiny", "--x", "beauty")
    assert ended.status == 2
    assert "beauty" in ended.err
    assert "energy_pj" in ended.err


@pytest.mark.slow
def test_a_damaged_part_is_named_and_the_rest_survives(
    command_line: Command, write_study: Callable[..., Path]
) -> None:
    path = str(write_study())
    command_line("run", path, "--in-process")
    (part,) = Path("runs/tiny/designs").glob("*.parquet")
    part.write_bytes(part.read_bytes()[:-100])
    ended = command_line("report", "runs/tiny")
    assert ended.status == 1
    assert part.name in ended.err
    again = command_line("run", path)
    assert again.status == 0
    assert "4 in the store" in again.err
    assert list(Path("runs/tiny/designs").glob("*.damaged"))


def test_an_output_that_cannot_be_written_stops_before_any_solve(
    command_line: Command, write_study: Callable[..., Path]
) -> None:
    Path("taken").write_text("a file")
    ended = command_line("run", str(write_study()), "--in-process", "-o", "taken/run")
    assert ended.status == 2
    assert "taken" in ended.err


@pytest.mark.slow
@pytest.mark.parametrize("signal_name", ["SIGINT", "SIGTERM"])
def test_a_stopped_run_keeps_its_answers_and_goes_on(
    write_study: Callable[..., Path], tmp_path: Path, command_line: Command, signal_name: str
) -> None:
    slow = write_study().read_text().replace("iterations: 400", "iterations: 40000000")
    slow = slow.replace("wall_seconds: 20", "wall_seconds: 1.5, params: {victory: 1000000000}")
    (tmp_path / "slow.yaml").write_text(slow)
    command = [sys.executable, "-m", "archsweep", "run", "slow.yaml", "--in-process"]
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[3])}
    with subprocess.Popen(
        command, cwd=tmp_path, env=environment, stderr=subprocess.PIPE, text=True
    ) as process:
        folder = RunFolder(tmp_path / "runs" / "tiny")
        journal = folder.path / "layers" / ".journal"
        until(lambda: journal.exists() and journal.stat().st_size, "the first answer", process)
        process.send_signal(getattr(signal, signal_name))
        _, err = process.communicate(timeout=PATIENCE)
    assert process.returncode == 1
    assert "the same command goes on" in err
    kept = len(folder.read_rows("layers"))
    assert 1 <= kept < 4
    resumed = command_line("run", "slow.yaml", "--in-process")
    assert f"{kept} in the store, {4 - kept} to solve" in resumed.err
