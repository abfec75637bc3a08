"""Ray workers of a study in a folder of files that are called as our packages are."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from sweep import PACKAGES
from tests.clusters.processes import PATIENCE

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
HOUSE = Path(__file__).parents[3]


def python(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    """Python with this checkout's packages, but after the current folder's."""
    environment = {**os.environ, "PYTHONPATH": str(HOUSE)}
    environment.pop("RAY_ADDRESS", None)
    command = [sys.executable, *arguments]
    return subprocess.run(
        command, cwd=folder, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
    )


def test_ray_workers_solve_in_a_folder_of_such_names(write_study: Callable[..., Path]) -> None:
    study = write_study()
    for name in PACKAGES:
        (study.parent / f"{name}.py").write_text("raise RuntimeError('not the package')\n")
    words = ["archsweep", "run", study.name, "--workers", "1"]
    code = f"import sys; sys.path.remove(''); sys.argv = {words!r}; "
    ended = python(study.parent, "-c", f"{code}from sweep.cli.main import main; main()")
    assert ended.returncode == 0, ended.stderr
    assert "0 failed" in ended.stderr or "4 evaluated" in ended.stderr


@pytest.mark.thorough
def test_a_notebook_runs_on_ray_workers_in_a_folder_of_such_names(write_study: Callable[[], Path]) -> None:
    study = write_study()
    for name in PACKAGES:
        (study.parent / f"{name}.py").write_text("raise RuntimeError('not the package')\n")
    code = (
        f"import archsweep; done = archsweep.run({study.name!r}, workers=1); print(done.failed, done.summary)"
    )
    ended = python(study.parent, "-c", code)
    assert ended.returncode == 0, ended.stderr
    assert ended.stdout.split()[0] == "0"
    assert "4 evaluated" in ended.stdout
