"""A user's files and folders that are called as our packages are, in the folder where archsweep runs."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sweep import PACKAGES

HOUSE = Path(__file__).parents[2]
OTHERS = [name for name in PACKAGES if name != "sweep"]
START = "from clusters.ray_start import import_own; "


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with this checkout's packages, but after the current folder's."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": str(HOUSE)}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


@pytest.mark.parametrize("name", OTHERS)
def test_python_m_sweep_imports_its_own_packages(name: str, tmp_path: Path) -> None:
    (tmp_path / f"{name}.py").write_text("raise SystemExit('not the package')\n")
    ended = python(tmp_path, "-m", "sweep", "list", "chips")
    assert ended.returncode == 0, ended.stderr
    assert "set-edge" in ended.stdout


def moved(tmp_path: Path) -> str:
    """Code that puts the user's folder first, as Ray does on its workers, before it imports."""
    return f"import sys; {START}sys.path.insert(0, {str(tmp_path)!r}); "


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir], ids=["file", "folder"])
def test_a_worker_imports_its_own_packages_and_keeps_the_users_folder(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    make(tmp_path / ("results.py" if make is Path.touch else "results"))
    (tmp_path / "mine.py").write_text("ANSWER = 42\n")
    code = f"{moved(tmp_path)}import_own({PACKAGES!r}); import results.errors, mine; "
    code += "print(mine.ANSWER, sys.path[-1])"
    ended = python(HOUSE, "-c", code)
    assert ended.stdout.split() == ["42", str(tmp_path)], ended.stderr


def test_a_package_that_is_nowhere_else_is_one_sentence_that_names_the_file(tmp_path: Path) -> None:
    (tmp_path / "nowhere.py").touch()
    code = f"{moved(tmp_path)}import_own(('clusters', 'nowhere'))"
    ended = python(HOUSE, "-c", code)
    assert ended.stderr.splitlines()[-1] == (
        f"ModuleNotFoundError: {tmp_path / 'nowhere.py'} has the name of one of archsweep's packages, "
        "which are not installed here: rename it"
    )


@pytest.mark.slow
@pytest.mark.cluster
def test_ray_workers_solve_in_a_folder_of_such_names(write_study: Callable[[], Path]) -> None:
    study = write_study()
    for name in PACKAGES:
        (study.parent / f"{name}.py").write_text("raise RuntimeError('not the package')\n")
    words = ["archsweep", "run", study.name, "--workers", "1"]
    code = f"import sys; sys.path.remove(''); sys.argv = {words!r}; "
    ended = python(study.parent, "-c", f"{code}from sweep.command_line import main; main()")
    assert ended.returncode == 0, ended.stderr
    assert "0 failed" in ended.stderr or "4 evaluated" in ended.stderr
