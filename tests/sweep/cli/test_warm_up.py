"""What a user is told of compiling on a machine without machine code, and ``archsweep warm-up``."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from costmodel import compilation
from costmodel.compilation import COMPILING, compiled_elsewhere, listen
from solvers.catalogue import CATALOGUE
from sweep.cli import compiling as command_line_compiling
from sweep.cli.compiling import Reporter, said_of_workers
from sweep.tasks.warm_up import SMALL, every_solver
from tests.clusters.processes import until

ROOT = Path(__file__).parents[3]
SAID = "machine code is being compiled, once for this machine"


def archsweep(cache: Path, *words: str) -> subprocess.CompletedProcess[str]:
    """The command in a process of its own, whose machine code is kept below ``cache``."""
    environment = os.environ | {"XDG_CACHE_HOME": str(cache), "PYTHONPATH": str(ROOT)}
    environment.pop("NUMBA_CACHE_DIR", None)
    command = [sys.executable, "-m", "sweep", *words]
    return subprocess.run(command, env=environment, capture_output=True, text=True, cwd=cache, check=False)


@pytest.mark.slow
def test_the_first_use_says_that_it_compiles_and_the_second_is_silent(tmp_path: Path) -> None:
    first = archsweep(tmp_path, "warm-up", "nvdla", "--json")
    answer = json.loads(first.stdout)
    folder = tmp_path / "archsweep" / "machine_code"
    assert answer["folder"] == str(folder)
    (row,) = answer["solvers"]
    assert set(row["compiled"]) == {
        "costmodel.schedule.tile_counts.count_kernel.count_tiles",
        "solvers.schedule.tiles.nvdla_kernel.best_mappings",
    }
    assert len([*folder.rglob("*.nbc")]) == answer["compiled"] == 2
    assert not [*folder.rglob(f"*{COMPILING}")]
    assert first.stderr.count(SAID) == 1
    assert f"It is kept in {folder}" in first.stderr
    second = archsweep(tmp_path, "warm-up", "nvdla")
    assert second.stdout == f"Nothing was left to compile. Machine code is kept in {folder}\n"
    assert SAID not in second.stderr
    assert "nvdla: 0 functions compiled" in second.stderr


SOLVE = ("solve", "mapping", "--architecture", "eyeriss", "--layer", "alexnet/conv5", "--json")


@pytest.mark.slow
@pytest.mark.thorough
def test_a_solve_says_it_unless_warm_up_came_before(tmp_path: Path) -> None:
    cold = archsweep(tmp_path, *SOLVE, "--solver", "kapla")
    assert json.loads(cold.stdout)["mapping"]
    assert cold.stderr.count(SAID) == 1
    assert "`archsweep warm-up` does it ahead" in cold.stderr
    warmed = tmp_path / "warmed"
    warmed.mkdir()
    assert archsweep(warmed, "warm-up", "kapla").returncode == 0
    warm = archsweep(warmed, *SOLVE, "--solver", "kapla")
    assert json.loads(warm.stdout)["objective"] == json.loads(cold.stdout)["objective"]
    assert SAID not in warm.stderr


@pytest.mark.slow
@pytest.mark.thorough
def test_a_first_solve_by_the_exact_solver_is_helped_and_compiles_nothing_twice(tmp_path: Path) -> None:
    """Seven kernels in two parts: each is claimed, and its machine code is there once."""
    solve = archsweep(tmp_path, *SOLVE)
    assert json.loads(solve.stdout)["status"] == "optimal"
    assert len([*tmp_path.rglob("*.nbc")]) == 7
    marks = [path.name.split("-")[0] for path in tmp_path.rglob("*.claim")]
    assert sorted(marks) == ["bound_kernel.bound_of_assignment", "search_kernel.begin"]
    again = archsweep(tmp_path, *SOLVE)
    assert json.loads(again.stdout)["objective"] == json.loads(solve.stdout)["objective"]
    assert SAID not in again.stderr


@pytest.mark.slow
def test_an_unknown_solver_is_named_with_near_names(tmp_path: Path) -> None:
    ended = archsweep(tmp_path, "warm-up", "cosaa")
    assert ended.returncode == 2
    assert "Did you mean cosa" in ended.stderr
    assert ended.stdout == ""


def test_every_solver_has_a_small_solve() -> None:
    assert {entry.family for entry in CATALOGUE} == set(SMALL)
    assert sorted(every_solver()) == sorted(entry.name for entry in CATALOGUE)


@pytest.fixture
def complaints(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[str]]:
    """What threads say, at once and into this list; the listener of before is back after the test.

    Not read from a captured standard error, which loses what is written while it is read.
    """
    said: list[str] = []
    monkeypatch.setattr(command_line_compiling, "LINE_SECONDS", 0.02)
    monkeypatch.setattr(command_line_compiling, "LOOK_SECONDS", 0.02)
    monkeypatch.setattr(command_line_compiling, "complain", said.append)
    before = listen(compilation.Silent())
    yield said
    listen(before)


def lines_until(complaints: list[str], words: str) -> str:
    """All that was said when something has the ``words``; it is taken from the list."""
    until(lambda: any(words in line for line in complaints), repr(words))
    found = "\n".join(complaints)
    complaints.clear()
    return found


def test_a_long_compilation_says_how_far_it_is(complaints: list[str], tmp_path: Path) -> None:
    listen(Reporter())
    compiling: Any = compilation.COMPILATION
    compiling.begins("kernel.first", tmp_path / "digest")
    compiling.begins("kernel.helper", None)
    compiling.ends()
    said = lines_until(complaints, "done so far: functions 0, their helpers 1")
    assert f"kept in {tmp_path}." in said
    assert "compiling kernel.first for" in said
    compiling.ends()
    compiling.begins("kernel.second", None)
    said = lines_until(complaints, "compiling kernel.second for")
    compiling.ends()
    assert "done so far: functions 1, their helpers 1" in said
    assert SAID not in said


def test_without_a_folder_it_is_said_that_every_process_compiles(capsys: pytest.CaptureFixture[str]) -> None:
    reporter = Reporter()
    reporter.begins("kernel.search", None)
    reporter.ends("kernel.search")
    assert "every process compiles: set NUMBA_CACHE_DIR" in capsys.readouterr().err


def marks_of(folder: Path, process: int, host: str) -> Path:
    folder.mkdir(exist_ok=True)
    mark = folder / f"kernel.search.{host}.{process}{COMPILING}"
    mark.touch()
    return mark


def test_what_other_live_processes_compile_is_found(tmp_path: Path) -> None:
    here = compilation._host()
    ended = subprocess.Popen([sys.executable, "-c", ""])
    ended.wait()
    marks_of(tmp_path / "digest", ended.pid, here)
    marks_of(tmp_path / "digest", os.getpid(), here)
    assert [*compiled_elsewhere(tmp_path, 0.0)] == []
    mark = marks_of(tmp_path / "digest", os.getppid(), here)
    assert [*compiled_elsewhere(tmp_path, 0.0)] == ["kernel.search"]
    assert [*compiled_elsewhere(tmp_path, mark.stat().st_mtime + 1)] == []
    mark.unlink()
    marks_of(tmp_path / "digest", ended.pid, "another")
    assert [*compiled_elsewhere(tmp_path, 0.0)] == ["kernel.search"]


def test_a_run_says_what_its_workers_compile(
    complaints: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("costmodel.machine_code.kept_in", lambda: tmp_path)
    with said_of_workers(True):
        marks_of(tmp_path / "digest", os.getppid(), compilation._host())
        said = lines_until(complaints, "workers are compiling kernel.search")
    assert SAID in said
