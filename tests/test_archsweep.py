"""``import archsweep``: its names, its examples, what it imports, and that it answers as the command does."""

from __future__ import annotations

import ast
import doctest
import importlib
import inspect
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from pandas import read_csv
from pandas.testing import assert_frame_equal

import archsweep
from costmodel.compilation import COMPILATION, Silent
from costmodel.limits import recording
from sweep.cli.compiling import Reporter

HOUSE = Path(__file__).parents[1]
SOURCE = ast.parse((HOUSE / "archsweep.py").read_text(encoding="utf-8"))
FUNCTIONS = [name for name in archsweep.__all__ if name[0].islower()]
EXAMPLES = [one for one in doctest.DocTestFinder().find(archsweep) if one.examples]
NOTEBOOK: Any = archsweep
"""As a notebook sees it, which checks no types."""
LAYER = "resnet18/layer2.0.conv1"
PROGRAM = Path(__file__).parent / "data/programs/pipeline.json"
STUDY = {
    "name": "buffers",
    "networks": ["cosa_alexnet"],
    "architecture": "simba",
    "axes": {"GlobalBuffer.size": {"choices": ["64 KiB", "128 KiB"]}},
    "mapping": {"solver": "random_search", "iterations": 50},
}
TIMES = ("cpu_seconds", "tile_cpu_seconds")


@pytest.fixture(autouse=True)
def empty_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def asked(*words: str) -> str:
    """What ``archsweep`` with these words prints on standard output; it has to end well."""
    command = [sys.executable, "-m", "archsweep", *words]
    ended = subprocess.run(
        command, env={"PATH": "", "PYTHONPATH": str(HOUSE)}, capture_output=True, text=True, check=False
    )
    assert ended.returncode == 0, ended.stderr
    return ended.stdout


def timeless(answer: dict[str, Any]) -> dict[str, Any]:
    """The answer without what another solve spends otherwise, as JSON tells it."""
    plain: dict[str, Any] = json.loads(json.dumps(answer))
    seeds = [{k: v for k, v in seed.items() if k not in TIMES} for seed in plain.get("seeds", ())]
    for phase in plain.get("search") or ():
        phase.pop("cpu_seconds", None)
    return {k: v for k, v in plain.items() if k not in TIMES} | ({"seeds": seeds} if seeds else {})


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda one: one.name)
def test_examples_run_in_an_empty_folder(example: doctest.DocTest) -> None:
    flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
    assert doctest.DocTestRunner(optionflags=flags).run(example).failed == 0


def test_every_function_has_an_example_its_arguments_and_its_errors() -> None:
    shown = {example.name.removeprefix("archsweep.") for example in EXAMPLES}
    assert set(FUNCTIONS) <= shown
    for name in FUNCTIONS:
        text = inspect.getdoc(getattr(archsweep, name)) or ""
        for heading in ("Args:", "Raises:", "Examples:"):
            assert heading in text, name
        for parameter in inspect.signature(getattr(archsweep, name)).parameters:
            assert f"\n    {parameter}: " in text, f"{name}: {parameter}"


def test_the_public_names_are_those_of_all() -> None:
    assert dir(archsweep) == sorted(archsweep.__all__)
    assert len(archsweep.__all__) <= 24
    for name in archsweep.__all__:
        assert inspect.getdoc(getattr(archsweep, name))
    # nothing else without an underscore is defined here, but for what the command starts with
    defined = {node.name for node in SOURCE.body if isinstance(node, ast.FunctionDef)}
    assert {name for name in defined if not name.startswith("_")} == {*FUNCTIONS, "main"}
    with pytest.raises(AttributeError, match="no attribute 'Layers'"):
        archsweep.Layers


def test_classes_that_tools_see_are_those_that_users_get() -> None:
    checking = next(node for node in SOURCE.body if isinstance(node, ast.If) and "TYPE" in ast.unparse(node))
    seen = {
        alias.name: node.module
        for node in checking.body
        if isinstance(node, ast.ImportFrom)
        for alias in node.names
    }
    classes = [name for name in archsweep.__all__ if name[0].isupper()]
    assert {name: seen[name] for name in classes} == archsweep._HOMES
    for name, home in archsweep._HOMES.items():
        assert getattr(archsweep, name) is getattr(importlib.import_module(home), name)


def loaded(code: str, folder: Path) -> set[str]:
    """Top-level modules that are imported after ``code``, those of the standard library left out."""
    code = f"{code}; import sys; print(*{{name.split('.')[0] for name in sys.modules}})"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": "", "PYTHONPATH": str(HOUSE)},
        cwd=folder,
        capture_output=True,
        text=True,
        check=True,
    )
    start = subprocess.run(
        [sys.executable, "-c", "import sys; print(*sys.modules)"], capture_output=True, text=True, check=True
    )
    return set(ended.stdout.split()) - set(sys.stdlib_module_names) - set(start.stdout.split())


@pytest.mark.slow
def test_the_import_loads_nothing_and_a_look_at_hardware_little(empty_folder: Path) -> None:
    assert loaded("import archsweep", empty_folder) - {"archsweep"} == set()
    heavy = {"ray", "pandas", "pyarrow", "numba", "onnx", "ortools", "optuna", "plotly", "rich", "typer"}
    code = "import archsweep; archsweep.load_architecture('eyeriss')"
    assert loaded(code, empty_folder) & heavy == set()


@pytest.mark.slow
def test_files_of_package_names_beside_a_notebook_are_not_imported(empty_folder: Path) -> None:
    for name in archsweep._PACKAGES:
        (empty_folder / f"{name}.py").write_text("raise SystemExit('not the package')\n")
    code = "import sys; before = sys.path[:]; import archsweep; archsweep.load_study('quickstart'); "
    assert "sweep" in loaded(f"{code}assert sys.path == before", empty_folder)


def test_a_foreign_module_that_is_imported_already_is_one_sentence(empty_folder: Path) -> None:
    (empty_folder / "results.py").touch()
    code = "import sys; sys.path.insert(0, ''); import results, archsweep; archsweep.load_chip('set-edge')"
    ended = subprocess.run(
        [sys.executable, "-c", code],
        env={"PATH": "", "PYTHONPATH": str(HOUSE)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert ended.stderr.splitlines()[-1] == (
        f"ImportError: {empty_folder / 'results.py'} is imported as results, which is the name of a package "
        "of archsweep: rename the file"
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"solver": "exact"}, ["--solver", "exact"]),
        ({"objective": "energy", "padding": 0.1}, ["--objective", "energy", "--padding", "0.1"]),
        (
            {
                "solver": "auto",
                "tolerance": 0.2,
                "keep": "free",
                "overrides": {"GlobalBuffer.size": "64 KiB"},
            },
            ["--solver", "auto", "--tolerance", "0.2", "--keep", "free", "--set", "GlobalBuffer.size=64 KiB"],
        ),
        (
            {"solver": "random_search", "iterations": 99, "seed": 3, "params": {"victory": 50}},
            ["--solver", "random_search", "--iterations", "99", "--seed", "3", "--params", '{"victory": 50}'],
        ),
    ],
    ids=["exact", "padded", "auto", "random"],
)
def test_a_mapping_is_the_commands(options: dict[str, Any], words: list[str]) -> None:
    said = asked("solve", "mapping", "--architecture", "simba", "--layer", LAYER, *words, "--json")
    answer = archsweep.solve_mapping(LAYER, "simba", **options)
    assert timeless(answer.to_json()) == timeless(json.loads(said))
    assert answer.executed_layer is not None
    stated = archsweep.evaluate(
        answer.executed_layer, answer.problem.architecture, answer.to_json()["mapping"]
    )
    assert answer.mapping is not None
    given = archsweep.evaluate(answer.executed_layer, answer.problem.architecture, answer.mapping)
    assert stated == given == answer.evaluation


def test_values_are_asked_as_names_are() -> None:
    layer = next(one for one in archsweep.load_network("resnet18").layers if f"resnet18/{one.name}" == LAYER)
    architecture = archsweep.load_architecture("simba")
    named = archsweep.solve_mapping(LAYER, "simba", "cycles", solver="exact")
    valued = archsweep.solve_mapping(layer, architecture, "cycles", solver="exact")
    assert valued.mapping == named.mapping
    assert valued.bound == named.bound == named.objective
    network = archsweep.load_network("alexnet", batch=2)
    assert (
        archsweep.solve_scratchpad(network, solver="peak").plan
        == archsweep.solve_scratchpad("alexnet", solver="peak", batch=2).plan
    )


def test_no_mapping_is_an_answer_with_the_reason(empty_folder: Path) -> None:
    rules = empty_folder / "rules.yaml"
    rules.write_text("constraints: [{level: GlobalBuffer, temporal: {K: 5}}]\n")
    answer = archsweep.solve_mapping(LAYER, "simba", constraints=rules)
    assert (str(answer.status), answer.mapping, answer.evaluation) == ("infeasible", None, None)
    assert "no temporal factor K = 5" in answer.note


@pytest.mark.slow
def test_a_scratchpad_plan_is_the_commands() -> None:
    words = ["--graph", "alexnet", "--budget", "MP", "--bits", "16", "--alignment", "64", "--in-place"]
    said = asked("solve", "scratchpad", *words, "--json")
    answer = archsweep.solve_scratchpad("alexnet", "MP", bits=16, alignment=64, in_place=True)
    assert timeless(answer.to_json()) == timeless(json.loads(said))


@pytest.mark.slow
def test_a_schedule_is_the_commands_and_can_be_counted_again(empty_folder: Path) -> None:
    words = [
        "--chip",
        "set-edge",
        "--network",
        "kapla-mlp-s",
        "--batch",
        "2",
        "--solver",
        "set",
        "--seeds",
        "2",
        "--iterations",
        "20",
    ]
    said = asked("solve", "schedule", *words, "--tile-solver", "nvdla", "--objective", "e2d", "--json")
    options: dict[str, Any] = {"batch": 2, "seeds": 2, "iterations": 20, "tile_solver": "nvdla"}
    answer = archsweep.solve_schedule("kapla-mlp-s", "set-edge", "e2d", **options)
    assert timeless(answer.to_json()) == timeless(json.loads(said))
    (empty_folder / "schedule.json").write_text(json.dumps(answer.to_json()))
    again = json.loads(asked("evaluate", "schedule.json", "--json"))
    assert (again["energy_pj"], again["latency_cycles"]) == (answer.energy_pj, answer.cycles)


@pytest.mark.slow
def test_a_run_its_front_and_its_report_are_the_commands(empty_folder: Path) -> None:
    done = archsweep.run(STUDY, empty_folder / "here" / "run", in_process=True)
    assert (done.failed, dict(done.errors), done.summary) == (0, {}, "2 designs: 2 evaluated")
    assert_frame_equal(done.front, archsweep.front(done.path))
    printed = asked("pareto", done.path, "--x", "area_um2", "--y", "cycles", "--csv")
    (empty_folder / "front.csv").write_text(printed)
    assert list(archsweep.front(done.path, "area_um2")["axis.GlobalBuffer.size"]) == ["64 KiB"]
    ours = archsweep.front(done.path, ["area_um2", "cycles"])
    ours.to_csv(empty_folder / "ours.csv", index=False)
    assert_frame_equal(read_csv("front.csv"), read_csv("ours.csv"))
    page = Path(done.report).read_bytes()
    Path(done.report).unlink()
    assert archsweep.report(done.path) == Path(done.report)
    assert Path(done.report).read_bytes() == page


@pytest.mark.slow
def test_a_run_is_resumed_from_a_file_and_progress_is_drawn(
    empty_folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (empty_folder / "study.yaml").write_text(json.dumps(STUDY))
    first = archsweep.run("study.yaml", in_process=True)
    again = archsweep.run(archsweep.load_study(empty_folder / "study.yaml"), in_process=True, progress=True)
    assert again.path == first.path == "runs/buffers"
    columns = ["axis.GlobalBuffer.size", *first.objectives]
    assert_frame_equal(again.front[columns], first.front[columns])
    assert "16 in the store, 0 to solve" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
def test_a_run_into_a_uri_is_read_from_there(empty_folder: Path) -> None:
    uri = f"file://{empty_folder}/far/run"
    done = archsweep.run(STUDY, uri, in_process=True)
    assert (done.path, done.report) == (uri, f"{uri}/report.html")
    assert_frame_equal(archsweep.front(uri), done.front)
    assert archsweep.report(uri, "copy") == Path("copy/report.html")


@pytest.mark.slow
def test_failed_solves_are_counted_and_the_rest_is_judged(monkeypatch: pytest.MonkeyPatch) -> None:
    from sweep.blocks import block_work
    from sweep.tasks.mapping import answer_columns

    def failing(problem: Any, outcome: Any) -> Any:
        if problem.layer.sizes.get("R") == 11:  # conv1 has the one 11 x 11 window
            raise MemoryError("no more")
        return answer_columns(problem, outcome)

    monkeypatch.setattr(block_work, "answer_columns", failing)
    done = archsweep.run(STUDY, in_process=True)
    assert (done.failed, len(done.front)) == (2, 0)
    (reason,) = done.errors
    assert "no more" in reason


@pytest.mark.parametrize(
    ("ask", "parts"),
    [
        (lambda: NOTEBOOK.load_study({**STUDY, "axis": 1}), ["study: axis", "one of the keys", "axes"]),
        (lambda: NOTEBOOK.load_study("nowhere.yaml"), ["study", "built-in study", "nowhere.yaml"]),
        (lambda: NOTEBOOK.run(STUDY, in_process=True, workers=2), ["--workers", "in-process"]),
        (lambda: NOTEBOOK.front("nowhere"), ["nowhere", "a run folder", "no folder"]),
        (lambda: NOTEBOOK.front("."), [".", "a run folder", "holds no run"]),
        (lambda: NOTEBOOK.report(".", "copy"), ["output", "none for a run folder", "copy"]),
        (lambda: NOTEBOOK.solve_mapping("resnet18/conv9", "simba"), ["resnet18", "conv9"]),
        (lambda: NOTEBOOK.solve_mapping(LAYER, "simbo"), ["simbo", "Did you mean simba?"]),
        (lambda: NOTEBOOK.solve_mapping(LAYER, "simba", "speed"), ["objective", "energy, cycles, edp"]),
        (lambda: NOTEBOOK.solve_mapping(LAYER, "simba", solver="set"), ["solver", "exact"]),
        (lambda: NOTEBOOK.solve_mapping(LAYER, "simba", wall_seconds=0), ["wall_seconds", "0"]),
        (
            lambda: NOTEBOOK.solve_mapping(LAYER, "simba", params={"x": 1}),
            ["params.x", "parameters of exact"],
        ),
        (lambda: NOTEBOOK.solve_scratchpad("alexnet", "big"), ["big", "MR"]),
        (lambda: NOTEBOOK.solve_schedule("alexnet", "eyeriss"), ["chip", "eyeriss"]),
        (lambda: NOTEBOOK.solve_schedule("alexnet", "set-edge", batch=0), ["schedule.batch", "at least 1"]),
        (lambda: NOTEBOOK.evaluate(LAYER, "simba", {}), ["mapping", "levels"]),
        (
            lambda: NOTEBOOK.evaluate(LAYER, "simba", None),
            ["a mapping, or its JSON", "None"],
        ),
        (lambda: NOTEBOOK.solve_mapping(3, "simba"), ["layer", "NETWORK/LAYER", "3"]),
        (lambda: NOTEBOOK.solve_mapping(Path("none.yaml"), "simba"), ["none.yaml", "no such file"]),
        (lambda: NOTEBOOK.solve_mapping(LAYER, None), ["architecture", "a file", "None"]),
        (lambda: NOTEBOOK.solve_mapping(LAYER, "simba", params=[1]), ["params", "as a dict", "[1]"]),
        (lambda: NOTEBOOK.solve_mapping(LAYER, "simba", overrides=["a"]), ["overrides", "as a dict"]),
        (lambda: NOTEBOOK.solve_mapping(LAYER, "simba", seed=1.5), ["seed", "a whole number", "1.5"]),
        (lambda: NOTEBOOK.solve_mapping(LAYER, "simba", iterations="5"), ["iterations", "a whole number"]),
        (lambda: NOTEBOOK.solve_schedule("alexnet", "set-edge", params=[1]), ["params", "as a dict"]),
        (lambda: NOTEBOOK.solve_schedule("alexnet", "set-edge", workers=0), ["workers", "at least 1", "0"]),
        (lambda: NOTEBOOK.replay("none.json"), ["none.json", "no such file"]),
        (lambda: NOTEBOOK.replay(PROGRAM, hop_latency=-1), ["hop", "-1"]),
        (lambda: NOTEBOOK.run(STUDY, workers="2"), ["workers", "a whole number", "2"]),
    ],
)
def test_wrong_input_is_an_input_error(ask: Any, parts: list[str]) -> None:
    with pytest.raises(archsweep.InputError) as error:
        ask()
    for part in parts:
        assert part in str(error.value)


def test_what_only_a_file_has_is_refused_with_a_value() -> None:
    architecture = archsweep.load_architecture("simba")
    with pytest.raises(archsweep.InputError, match=r"overrides: expected none with an Architecture"):
        archsweep.solve_mapping(LAYER, architecture, overrides={"GlobalBuffer.size": "64 KiB"})
    layer = archsweep.load_network("resnet18").layers[0]
    with pytest.raises(archsweep.InputError, match=r"dims: expected none with a Layer"):
        archsweep.solve_mapping(layer, "simba", dims={"seq": 4})
    with pytest.raises(archsweep.InputError, match=r"batch: expected none with a Network"):
        archsweep.solve_scratchpad(archsweep.load_network("alexnet"), batch=4)


def test_uncounted_work_and_odd_energies_are_warnings() -> None:
    with pytest.warns(UserWarning, match="RegFile costs .* more than SRAM outside it") as caught:
        archsweep.solve_mapping(LAYER, "eyeriss", solver="random_search", iterations=10)
    assert caught[0].filename == __file__


@pytest.mark.parametrize("package", archsweep._PACKAGES)
def test_packages_say_that_they_are_typed(package: str) -> None:
    assert (HOUSE / package / "py.typed").is_file()


@pytest.mark.parametrize(
    "ask",
    [
        lambda: archsweep.solve_mapping(LAYER, "simba", solver="random_search", iterations=10),
        lambda: archsweep.solve_scratchpad("alexnet", solver="peak"),
        lambda: archsweep.run(STUDY, in_process=True),
    ],
    ids=["mapping", "scratchpad", "run"],
)
def test_compiling_is_said_while_a_solver_is_asked(ask: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    listening: list[object] = []
    monkeypatch.setattr("solvers.outcome.recording", _noting(listening))
    ask()
    assert listening
    assert all(isinstance(one, Reporter) for one in listening)
    assert isinstance(COMPILATION.listener, Silent)


def _noting(listening: list[object]) -> Any:
    """Every solver begins to record its limits: who listens to the compiler then."""

    def begin() -> Any:
        listening.append(COMPILATION.listener)
        return recording()

    return begin


@pytest.mark.slow
@pytest.mark.thorough
def test_mypy_sees_the_types(empty_folder: Path) -> None:
    (empty_folder / "notebook.py").write_text(
        "import archsweep\n"
        "answer = archsweep.solve_mapping('resnet18/conv1', 'simba')\n"
        "reveal_type(answer)\n"
        "reveal_type(archsweep.run('quickstart').failed)\n"
        "def area(architecture: archsweep.Architecture) -> float:\n"
        "    return sum(level.area_um2 for level in architecture.levels)\n"
        "archsweep.solve_mapping('resnet18/conv1', 3)\n"
    )
    words = ["--config-file", str(HOUSE / "pyproject.toml"), "notebook.py"]
    ended = subprocess.run(
        [sys.executable, "-m", "mypy", *words],
        env={"PATH": "", "MYPYPATH": str(HOUSE)},
        capture_output=True,
        text=True,
        check=False,
    )
    said = ended.stdout.splitlines()
    assert [line.partition(": ")[2] for line in said[:2]] == [
        'note: Revealed type is "sweep.solve.mapping.MappingAnswer"',
        'note: Revealed type is "int"',
    ]
    assert "notebook.py:7: error: Argument 2" in said[2]
    assert len(said) == 4
