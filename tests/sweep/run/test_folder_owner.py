"""A run folder is one study's: another study is refused there, the same one edited goes on."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from clusters.jobs.jobs import JobState
from costmodel.errors import InputError
from results.store.folder import RunFolder
from sweep.cli.jobs.submit_job import bring_home
from sweep.forecast.plan import plan
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import Study, load_study
from tests.sweep.ended import Command

IN_PROCESS = RuntimeChoice(in_process=True)
OTHER = "study other.*found the results of study tiny.*--output"


def everything(folder: Path) -> dict[str, bytes]:
    """Each file's content; locks and journals, which opening a folder touches, apart."""
    files = (path for path in folder.rglob("*") if path.is_file() and not path.name.startswith("."))
    return {str(path.relative_to(folder)): path.read_bytes() for path in files}


@pytest.fixture
def other(tiny: Study) -> Study:
    """It shares two designs with ``tiny``."""
    axes = {
        **tiny.axes,
        "SRAM.size": tiny.axes["SRAM.size"].model_copy(update={"choices": ("4 KiB", "8 KiB")}),
    }
    return tiny.model_copy(update={"name": "other", "axes": axes})


def test_a_study_of_another_name_is_refused_and_changes_nothing(
    tiny: Study, other: Study, tmp_path: Path
) -> None:
    folder = run_study(tiny, tmp_path / "runs" / "x", IN_PROCESS).path
    before = everything(folder)
    for resume in (True, False):
        with pytest.raises(InputError, match=rf"runs/x: expected a folder for {OTHER}"):
            run_study(other, folder, IN_PROCESS, resume=resume)
    assert everything(folder) == before
    assert {row["study"] for row in RunFolder(folder).read_rows("designs")} == {"tiny"}


def test_beside_it_the_other_study_uses_its_answers(tiny: Study, other: Study, tmp_path: Path) -> None:
    run_study(tiny, tmp_path / "runs" / "x", IN_PROCESS)
    rows = run_study(other, tmp_path / "runs" / "y", IN_PROCESS).read_rows("layers")
    assert sorted(row["cached"] for row in rows) == [False, False, True, True]


def test_the_same_study_with_other_axes_goes_on_in_its_folder(
    tiny: Study, other: Study, tmp_path: Path
) -> None:
    folder = run_study(tiny, tmp_path / "runs" / "x", IN_PROCESS)
    run_study(other.model_copy(update={"name": "tiny"}), folder.path, IN_PROCESS)
    assert len(folder.read_rows("designs")) == 6
    assert [row["cached"] for row in folder.read_rows("layers")].count(False) == 6


@pytest.mark.parametrize("lock", [None, "study: {na", "[]", "study: 7", "study: {name: 7}"])
def test_without_a_lock_file_that_can_be_read_the_rows_tell(
    tiny: Study, other: Study, tmp_path: Path, lock: str | None
) -> None:
    folder = run_study(tiny, tmp_path / "runs" / "x", IN_PROCESS)
    (folder.path / "study.lock.yaml").unlink()
    if lock is not None:
        (folder.path / "study.lock.yaml").write_text(lock)
    with pytest.raises(InputError, match=OTHER):
        run_study(other, folder.path, IN_PROCESS)
    run_study(tiny, folder.path, IN_PROCESS)
    assert folder.read_lock_file()["study"]["name"] == "tiny"


def test_a_folder_that_another_study_takes_during_the_planning_is_refused(
    tiny: Study, other: Study, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from sweep.run import session

    folder = tmp_path / "runs" / "x"

    def slowly(study: Study, *arguments: Any) -> Any:
        if study is other:
            run_study(tiny, folder, IN_PROCESS)
        return plan(study, *arguments)

    monkeypatch.setattr(session, "plan", slowly)
    with pytest.raises(InputError, match=OTHER):
        run_study(other, folder, IN_PROCESS)
    assert RunFolder(folder).read_lock_file()["study"]["name"] == "tiny"


@pytest.mark.parametrize("uri", [False, True])
@pytest.mark.parametrize("words", [["run", "--in-process"], ["run", "--in-process", "--fresh"], ["plan"]])
def test_the_command_line_names_both_studies_and_the_folder(
    write_study: Callable[..., Path], tmp_path: Path, command_line: Command, words: list[str], uri: bool
) -> None:
    study = write_study()
    folder = tmp_path / "shared" / "run"
    run_study(load_study(str(study)), folder, IN_PROCESS)
    before = everything(folder)
    renamed = tmp_path / "other.yaml"
    renamed.write_text(study.read_text().replace("name: tiny", "name: other"))
    shown = f"file://{folder}" if uri else str(folder)
    ended = command_line(*words, str(renamed), "-o", shown)
    assert ended.status == 2
    assert f"{shown}: expected a folder for study other, found the results of study tiny" in ended.err
    assert "Name another folder with --output" in ended.err
    assert everything(folder) == before


@pytest.mark.parametrize("command", ["run", "plan", "submit"])
@pytest.mark.parametrize("empty", ["", " "])
def test_an_empty_output_is_refused(
    write_study: Callable[..., Path], tmp_path: Path, command_line: Command, command: str, empty: str
) -> None:
    study = write_study()
    before = everything(tmp_path)
    address = ["--address", "http://127.0.0.1:1"] if command == "submit" else []
    ended = command_line(command, str(study), "-o", empty, *address)
    assert ended.status == 2
    assert "--output" in ended.err
    assert f"found {empty!r}" in ended.err
    assert everything(tmp_path) == before


@pytest.mark.parametrize(
    "words",
    [
        ["report", ""],
        ["report", "runs/x", "-o", ""],
        ["pareto", ""],
        ["evaluate", ""],
        ["attach", "job", "--address", "http://127.0.0.1:1", "-o", ""],
        ["status", "--address", ""],
        ["submit", "quickstart", "--address", "http://127.0.0.1:1", "--code", ""],
        ["solve", "schedule", "--chip", "set-edge", "--network", "set-resnet", "-o", ""],
        ["solve", "schedule", "--chip", "set-edge", "--network", "set-resnet", "--chart", ""],
        ["solve", "mapping", "--architecture", "eyeriss", "--layer", "mlp/1", "--timeloop", ""],
        ["cluster", "check", ""],
    ],
    ids=" ".join,
)
def test_empty_words_are_refused_wherever_a_file_folder_or_name_is_meant(
    command_line: Command, words: list[str]
) -> None:
    ended = command_line(*words)
    assert ended.status == 2
    assert "found ''" in ended.err


@pytest.mark.parametrize("command", ["run", "plan"])
def test_a_file_where_a_folder_is_meant_is_refused(
    write_study: Callable[..., Path], tmp_path: Path, command_line: Command, command: str
) -> None:
    (tmp_path / "file").write_text("mine")
    ended = command_line(command, str(write_study()), "-o", "file")
    assert ended.status == 2
    assert "expected a folder, found the file file" in ended.err
    assert (tmp_path / "file").read_text() == "mine"


@pytest.mark.slow
def test_the_current_folder_is_the_run_folder_where_it_says_so(
    write_study: Callable[..., Path], tmp_path: Path, command_line: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    study = str(write_study().resolve())
    (tmp_path / "runs" / "here" / "below").mkdir(parents=True)
    for folder, output in (("runs/here", "."), ("runs/here/below", "..")):
        monkeypatch.chdir(tmp_path / folder)
        assert command_line("run", study, "--in-process", "-o", output).status == 0
    assert len(RunFolder(tmp_path / "runs" / "here").read_rows("layers")) == 4
    ended = command_line("run", study, "--in-process", "-o", "..")
    assert "4 in the store, 0 to solve" in ended.err


@pytest.mark.slow
def test_a_copy_of_a_uri_does_not_replace_other_results(
    write_study: Callable[..., Path], tmp_path: Path, command_line: Command
) -> None:
    study = load_study(str(write_study()))
    run_study(study, tmp_path / "shared" / "x", IN_PROCESS)
    run_study(study, tmp_path / "runs" / "x", IN_PROCESS)
    before = everything(tmp_path / "runs" / "x")
    uri = f"file://{tmp_path}/shared/x"
    ended = command_line("report", uri)
    assert ended.status == 2
    assert f"runs/x: expected a new folder, or a copy of {uri}, found other results" in ended.err
    assert everything(tmp_path / "runs" / "x") == before
    for _ in range(2):
        assert command_line("report", uri, "-o", "copy").status == 0
    shutil.copytree(tmp_path / "shared" / "x", tmp_path / "shared" / "y")
    assert command_line("report", f"file://{tmp_path}/shared/y", "-o", "copy").status == 2


def test_results_of_another_study_are_not_brought_home_over(tiny: Study, tmp_path: Path) -> None:
    folder = run_study(tiny, tmp_path / "home", IN_PROCESS).path
    (folder / ".origin.json").write_text('{"address": "http://head", "job": "a", "files": {}}')
    before = everything(folder)

    class Cluster:
        address = "http://head"

    state = JobState("b", "SUCCEEDED", "", {"study": "other", "output": "~/runs/other"})
    with pytest.raises(InputError, match=OTHER):
        bring_home(Cluster(), state, folder)  # type: ignore[arg-type]
    assert everything(folder) == before
