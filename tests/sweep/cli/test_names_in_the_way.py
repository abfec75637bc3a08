"""A user's files and folders that are called as our packages are, in the folder where archsweep runs."""

from __future__ import annotations

import shutil
import subprocess
import sys
import tomllib
from collections.abc import Callable
from pathlib import Path

import pytest

import archsweep
from sweep import PACKAGES

HOUSE = Path(__file__).parents[3]
OTHERS = [name for name in PACKAGES if name != "sweep"]
START = "from clusters.ray.start import import_own; "


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with this checkout's packages, but after the current folder's."""
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(folder), "PYTHONPATH": str(HOUSE)}
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=300, check=False
    )


CLASH = "raise SystemExit('not the package')\n"


def in_the_way(folder: Path, name: str, make: Callable[..., object]) -> None:
    """A file or a folder of this name, which ends whoever imports it with its name."""
    clash = CLASH.replace("the package", f"the package {name}")
    if make is Path.mkdir:
        (folder / name).mkdir()
        (folder / name / "__init__.py").write_text(clash)
    else:
        (folder / f"{name}.py").write_text(clash)


@pytest.mark.slow
@pytest.mark.parametrize("make", [Path.write_text, Path.mkdir], ids=["file", "folder"])
def test_python_m_archsweep_imports_its_own_packages(make: Callable[..., object], tmp_path: Path) -> None:
    """All names at once: a single one that was imported would end the command."""
    for name in PACKAGES:
        in_the_way(tmp_path, name, make)
    ended = python(tmp_path, "-m", "archsweep", "list", "chips")
    assert ended.returncode == 0, ended.stderr
    assert "set-edge" in ended.stdout


@pytest.mark.slow
def test_python_m_sweep_imports_its_own_packages_too(tmp_path: Path) -> None:
    for name in OTHERS:
        in_the_way(tmp_path, name, Path.write_text)
    ended = python(tmp_path, "-m", "sweep", "list", "chips")
    assert ended.returncode == 0, ended.stderr
    assert "set-edge" in ended.stdout


SCRIPT = "import sys; sys.argv = ['archsweep', 'list', 'chips']; "
"""What the installed command does, where the test arranges the path before it imports main."""


@pytest.mark.slow
def test_the_command_imports_its_own_packages_behind_a_ray_jobs_working_directory(tmp_path: Path) -> None:
    for name in PACKAGES:
        (tmp_path / f"{name}.py").write_text(CLASH)
    code = f"{SCRIPT}sys.path.insert(1, {str(tmp_path)!r}); sys.path.append({str(HOUSE)!r}); "
    code += "from archsweep import main; main()"
    environment = {"PATH": "/usr/bin:/bin", "HOME": str(tmp_path), "PYTHONPATH": f"{tmp_path}:{HOUSE}"}
    ended = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert ended.returncode == 0, ended.stderr
    assert "set-edge" in ended.stdout


@pytest.mark.slow
def test_a_copy_of_archsweep_py_finds_the_installed_packages_behind_files_beside_it(tmp_path: Path) -> None:
    """`ray submit` copies the one file into the home folder of the head, and runs it there."""
    shutil.copy(HOUSE / "archsweep.py", tmp_path)
    for name in PACKAGES:
        (tmp_path / f"{name}.py").write_text(CLASH)
    ended = python(tmp_path, "archsweep.py", "list", "chips")
    assert ended.returncode == 0, ended.stderr
    assert "set-edge" in ended.stdout


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("import results", "results.py is imported as results, which is the name of a package of archsweep"),
        (
            "import types; sys.modules['solvers'] = types.ModuleType('solvers')",
            "a module solvers is imported",
        ),
    ],
)
def test_a_foreign_module_that_is_imported_already_is_one_sentence(
    first: str, said: str, tmp_path: Path
) -> None:
    (tmp_path / "results.py").touch()
    ended = python(tmp_path, "-c", f"{SCRIPT}{first}; from archsweep import main; main()")
    assert ended.returncode == 2
    assert len(ended.stderr.splitlines()) == 1
    assert said in ended.stderr
    assert ended.stderr.startswith("archsweep: ")


def test_a_copy_without_packages_names_the_file_that_is_there_instead(tmp_path: Path) -> None:
    (tmp_path / "home").mkdir()
    shutil.copy(HOUSE / "archsweep.py", tmp_path / "home")
    (tmp_path / "sweep.py").write_text(CLASH)
    code = f"{SCRIPT}sys.path[:0] = [{str(tmp_path / 'home')!r}, {str(tmp_path)!r}]; "
    ended = python(tmp_path / "home", "-c", f"{code}from archsweep import main; main()")
    assert ended.returncode == 2
    assert ended.stderr.splitlines() == [
        f"archsweep: {tmp_path / 'sweep.py'} is imported as sweep, which is the name of a package of "
        "archsweep: rename the file"
    ]


def test_archsweep_py_names_all_packages() -> None:
    assert archsweep._PACKAGES == PACKAGES


def test_the_command_is_archsweep_main_and_the_wheel_holds_the_module() -> None:
    project = tomllib.loads((HOUSE / "pyproject.toml").read_text(encoding="utf-8"))
    assert project["project"]["scripts"] == {"archsweep": "archsweep:main"}
    assert project["tool"]["setuptools"]["py-modules"] == ["archsweep"]


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


@pytest.mark.parametrize("make", [Path.touch, Path.mkdir], ids=["file", "folder"])
def test_a_module_that_a_worker_has_already_is_one_sentence(
    make: Callable[[Path], None], tmp_path: Path
) -> None:
    file = tmp_path / ("results.py" if make is Path.touch else "results")
    make(file)
    if make is Path.mkdir:
        file = file / "__init__.py"
        file.touch()
    code = f"{moved(tmp_path)}import results; import_own({PACKAGES!r})"
    ended = python(HOUSE, "-c", code)
    assert ended.stderr.splitlines()[-1] == (
        f"ImportError: {file} is imported already as results, the name of one of archsweep's packages: "
        "rename it"
    )
