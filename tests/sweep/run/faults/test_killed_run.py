"""After ``kill -9``, what ``plan`` and the first line of ``run`` say of the answers left behind is true."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from results.store.folder import RunFolder
from results.store.journal import journalled_rows
from results.store.schema.tables import LAYERS
from tests.sweep.ended import Command
from tests.sweep.run.faults.many_solves import PROBLEM, SOLVES, many_solves

ROOT = Path(__file__).parents[4]


def killed_with_answers(folder: Path, least: int) -> int:
    """Run the study ``one`` below ``folder`` and kill it once it has so many answers; returns how many."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    command = [sys.executable, "-m", "archsweep", "run", "one.yaml", "--in-process"]
    layers = folder / "runs" / "one" / "layers"
    with subprocess.Popen(command, cwd=folder, env=environment, stderr=subprocess.DEVNULL) as process:
        deadline = time.monotonic() + 120
        while len(journalled_rows(layers, LAYERS)) < least and time.monotonic() < deadline:
            time.sleep(0.01)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    journal = layers / ".journal"
    journal.write_bytes(journal.read_bytes() + b'{"task_id": "what it was writing')
    parts = {row["task_id"] for row in RunFolder(folder / "runs" / "one").read_rows("layers", ["task_id"])}
    return len(parts | {row["task_id"] for row in journalled_rows(layers, LAYERS)})


@pytest.mark.slow
def test_plan_and_run_count_the_answers_of_a_killed_run(tmp_path: Path, command_line: Command) -> None:
    """Its own, and those that another study asks for, too."""
    (tmp_path / "problem.yaml").write_text(PROBLEM)
    for name in ("one", "other"):
        (tmp_path / f"{name}.yaml").write_text(many_solves(name))
    left = killed_with_answers(tmp_path, 10)
    assert 10 <= left < SOLVES
    said = f"{SOLVES} distinct solves, {left} in the store, {SOLVES - left} to solve"
    for study in ("one.yaml", "other.yaml"):
        assert json.loads(command_line("plan", study, "--json").out)["open_solves"] == SOLVES - left
    other = command_line("run", "other.yaml", "--in-process")
    assert other.status == 0
    assert said in " ".join(other.err.split())
    rows = RunFolder(Path("runs/other")).read_rows("layers", ["cached"])
    assert sum(row["cached"] for row in rows) == left
    for folder in Path("runs/other").rglob("*.parquet"):
        folder.unlink()
    resumed = command_line("run", "one.yaml", "--in-process")
    assert resumed.status == 0
    assert said in " ".join(resumed.err.split())
    assert len(RunFolder(Path("runs/one")).read_rows("layers")) == SOLVES
