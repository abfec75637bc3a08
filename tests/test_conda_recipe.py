"""conda/recipe.yaml asks for what pyproject.toml asks for, and builds the package that pip installs.

No channel of conda packages is reached from a test. What a build itself needs (Python, pip, setuptools) is
packed from the interpreter that runs the tests; what the package needs when it runs is only compared by name
and range.
"""

from __future__ import annotations

import json
import os
import platform
import shutil
import subprocess
import sys
import tarfile
import tomllib
import zipfile
from importlib.metadata import distribution
from pathlib import Path

import pyarrow
import pytest
import rattler_build
import yaml
from packaging.requirements import Requirement

ROOT = Path(__file__).parents[1]
RECIPE = ROOT / "conda" / "recipe.yaml"
CONDA_NAMES = {"ortools": "ortools-python", "ray[default]": "ray-default"}
"""Distributions that conda-forge calls otherwise: extras are packages of their own there."""
PYTHON = f"python{sys.version_info.major}.{sys.version_info.minor}"


def project() -> dict[str, object]:
    found: dict[str, object] = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    return found


def asked_for() -> set[str]:
    """pyproject.toml's requirements as conda writes them: a name, a blank, ranges in pyproject's order."""
    stated = project()
    lines = stated["dependencies"]
    assert isinstance(lines, list)
    found = {f"python {stated['requires-python']}"}
    for line in lines:
        requirement = Requirement(line)
        name = requirement.name + (f"[{','.join(requirement.extras)}]" if requirement.extras else "")
        # packaging sorts no ranges: the least version comes first, as in the recipe
        ranges = ",".join(sorted(map(str, requirement.specifier), key=lambda one: not one.startswith(">")))
        found.add(f"{CONDA_NAMES.get(name, name)} {ranges}")
    return found


def test_the_recipe_asks_for_what_pyproject_asks_for() -> None:
    recipe = yaml.safe_load(RECIPE.read_text(encoding="utf-8"))
    assert set(recipe["requirements"]["run"]) == asked_for()
    assert recipe["context"]["version"] == project()["version"]
    assert recipe["build"]["python"]["entry_points"] == [
        f"{name} = {target}"
        for name, target in project()["scripts"].items()  # type: ignore[attr-defined]
    ]


@pytest.fixture(scope="module")
def channel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder of conda packages: this interpreter with its standard library, its pip and its setuptools."""
    if sys.platform != "linux" or platform.machine() != "x86_64":
        pytest.skip("the interpreter is packed as one of linux-64")
    folder = tmp_path_factory.mktemp("channel")
    packages = folder / "linux-64"
    (folder / "noarch").mkdir()
    packages.mkdir()
    packed("python", platform.python_version(), interpreter(folder / "python"), packages)
    for name in ("pip", "setuptools"):
        version, files = installed(name, folder / name)
        packed(name, version, files, packages, "python")
    index(packages)
    index(folder / "noarch")
    return folder


def interpreter(folder: Path) -> Path:
    """A prefix with Python's program, libraries and standard library, but no packages."""
    base = Path(sys.base_prefix)
    (folder / "bin").mkdir(parents=True)
    (folder / "lib").mkdir()
    shutil.copy2(Path(sys.executable).resolve(), folder / "bin" / PYTHON)
    (folder / "bin" / "python").symlink_to(PYTHON)
    for library in (base / "lib").glob("libpython*"):
        shutil.copy2(library, folder / "lib" / library.name, follow_symlinks=False)
    left_out = shutil.ignore_patterns("test", "*-packages", "__pycache__", "config-*")
    shutil.copytree(base / "lib" / PYTHON, folder / "lib" / PYTHON, ignore=left_out)
    return folder


def installed(name: str, folder: Path) -> tuple[str, Path]:
    """Version and a prefix with the files of an installed distribution."""
    found = distribution(name)
    for file in found.files or []:
        if "__pycache__" not in file.parts and ".." not in file.parts:
            target = folder / "lib" / PYTHON / "site-packages" / file
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(Path(str(found.locate_file(file))), target)
    return found.version, folder


def packed(name: str, version: str, files: Path, packages: Path, *needs: str) -> None:
    rattler_build.assemble_package(
        name, version, "linux-64", "0", packages, files_dir=files, depends=needs, compression_level=1
    )


def index(folder: Path) -> None:
    """Write the list of a channel's packages for one platform."""
    found = {}
    for file in folder.glob("*.conda"):
        package = rattler_build.Package.from_file(file)
        found[file.name] = {
            "name": package.name,
            "version": package.version,
            "build": package.build_string,
            "build_number": 0,
            "depends": list(package.depends),
            "subdir": folder.name,
            "size": file.stat().st_size,
        }
    listed = {"info": {"subdir": folder.name}, "packages": {}, "packages.conda": found, "repodata_version": 1}
    (folder / "repodata.json").write_text(json.dumps(listed), encoding="utf-8")


@pytest.mark.slow
def test_the_recipe_builds_the_package_that_pip_installs(channel: Path, tmp_path: Path) -> None:
    # a checkout's files alone: a build would take what lies beside them, too
    source = tmp_path / "source"
    source.mkdir()
    for name in ("archsweep.py", "pyproject.toml", "README.md", "LICENSE"):
        shutil.copy2(ROOT / name, source / name)
    for name in ("clusters", "conda", "costmodel", "results", "solvers", "sweep"):
        shutil.copytree(ROOT / name, source / name, ignore=shutil.ignore_patterns("__pycache__"))
    recipe = rattler_build.Stage0Recipe.from_file(source / "conda" / "recipe.yaml")
    plain = rattler_build.ToolConfiguration(use_zstd=False, use_bz2=False, use_sharded=False)
    (built,) = recipe.run_build(tool_config=plain, output_dir=tmp_path / "out", channels=[channel.as_uri()])
    package = rattler_build.Package.from_file(built.packages[0])

    assert (package.version, package.noarch) == (project()["version"], "python")
    assert set(package.depends) == asked_for()
    wheel = [sys.executable, "-m", "pip", "wheel", "--quiet", "--no-deps", "--no-build-isolation"]
    subprocess.run([*wheel, "--wheel-dir", str(tmp_path), str(source)], check=True, timeout=300)
    with zipfile.ZipFile(next(tmp_path.glob("*.whl"))) as archive:
        modules = {name for name in archive.namelist() if ".dist-info/" not in name}
    inside = {str(file).removeprefix("site-packages/") for file in package.files}
    assert modules == {name for name in inside if ".dist-info/" not in name}

    extracted(Path(built.packages[0]), tmp_path / "unpacked")
    site = tmp_path / "unpacked" / "site-packages"
    asked = "import archsweep, sweep; print(archsweep.__file__, sweep.VERSION)"
    environment = {**os.environ, "PYTHONPATH": str(site)}
    said = subprocess.check_output(
        [sys.executable, "-c", asked], cwd=tmp_path, env=environment, text=True, timeout=120
    )
    assert said.split() == [str(site / "archsweep.py"), project()["version"]]


def extracted(package: Path, folder: Path) -> None:
    """Unpack a .conda file, a zip archive whose ``pkg-*.tar.zst`` has what is installed."""
    with zipfile.ZipFile(package) as archive:
        (content,) = (name for name in archive.namelist() if name.startswith("pkg-"))
        with (
            archive.open(content) as compressed,
            pyarrow.input_stream(compressed, compression="zstd") as stream,
            tarfile.open(fileobj=stream, mode="r|") as files,
        ):
            files.extractall(folder, filter="data")
