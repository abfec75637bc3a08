"""A study whose schedules ask for costs, on a local Ray: its driver killed, resumed, nothing done twice."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from results.store.folder import RunFolder, RunWriter
from sweep.run.session import RuntimeChoice, run_study
from sweep.study.study import load_study
from tests.clusters.processes import line_of

pytestmark = [pytest.mark.slow, pytest.mark.cluster]
ROOT = Path(__file__).parents[4]
HELD = Path(__file__).parents[1] / "held.py"
STUDY = """
name: kapla
networks: [chain.json]
chip: set-edge
axes:
  mesh: {choices: [[2, 1], [2, 2]]}
objectives: [energy_pj, cycles]
mapping: {solver: random_search, iterations: 2000}
schedule: {solver: kapla_schedule, batch: 2}
"""
COSTS = ("tile_costs", "layers")
Row = dict[str, Any]


def layer(name: str, c: int, k: int, before: list[int]) -> Row:
    sizes = {"C": c, "K": k, "H": 8, "W": 8, "R": 1, "S": 1, "sH": 1, "sW": 1, "pad_h": 0, "pad_w": 0}
    inputs = {"ifmap_real": [c, 8, 8], "ifm_prevs": before, "external_C": 0 if before else c}
    return {"name": name, "type": "conv", "N": 1, **sizes, **inputs}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    layers = [layer("a", 16, 32, []), layer("b", 32, 64, [0]), layer("c", 64, 32, [1])]
    (tmp_path / "chain.json").write_text(json.dumps({"layers": layers}))
    (tmp_path / "kapla.yaml").write_text(STUDY)
    return tmp_path / "kapla.yaml"


def answered(folder: RunFolder) -> dict[str, Any]:
    """When each cost was solved, by task."""
    return {row["task_id"]: row["finished_at"] for table in COSTS for row in folder.read_rows(table)}


def found(folder: RunFolder) -> dict[str, Any]:
    return {row["task_id"]: (row["tree"], row["objective"]) for row in folder.read_rows("schedules")}


def killed_once_costs_are_there(path: Path, folder: Path) -> None:
    """Run the study on two workers, and kill -9 the driver when some costs are known."""
    command = [sys.executable, str(HELD), "1", "run", str(path), "--workers", "2", "-o", str(folder)]
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(
        command,
        cwd=path.parent,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    ) as process:
        assert line_of(process) == "held\n"
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL


def test_a_killed_driver_is_resumed_on_ray_with_the_answer_of_one_process(path: Path, tmp_path: Path) -> None:
    folder = tmp_path / "ray" / "kapla"
    killed_once_costs_are_there(path, folder)
    with RunWriter(folder):
        pass  # what was journalled is read as a part
    before = answered(RunFolder(folder))
    assert before
    assert found(RunFolder(folder)) == {}
    study = load_study(str(path))
    resumed = run_study(study, folder, RuntimeChoice(workers=2))
    after = answered(resumed)
    assert before.items() < after.items()
    tile_parts = [tuple(part) for row in resumed.read_rows("tile_costs") for part, *_ in row["costs"]]
    assert len(tile_parts) == len(set(tile_parts))
    alone = run_study(study, tmp_path / "alone" / "kapla", RuntimeChoice(in_process=True))
    assert found(resumed) == found(alone)
    assert len(found(alone)) == 2
    assert set(answered(alone)) == set(after)
