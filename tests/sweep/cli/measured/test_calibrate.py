"""``archsweep calibrate``: it finds the constants that made the cycles, and keeps the rest of the file."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from costmodel.formats.architectures import FOLDER, load_architecture
from costmodel.formats.machines.measurements import predicted, read_measurements
from tests.sweep.ended import Command

ROWS = Path(__file__).parents[3] / "data" / "silicon" / "gemmini_random.jsonl"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A machine with other constants, and the cycles that the model gives it, as measured ones."""
    folder = tmp_path_factory.mktemp("made")
    text = (FOLDER / "gemmini.yaml").read_text()
    other = text.replace("value: 274.1", "value: 400").replace("value: 2.117", "value: 3.3")
    assert other != text
    (folder / "other.yaml").write_text(other)
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()[::9]]
    runs = folder / "runs.jsonl"
    runs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    for row, run in zip(rows, read_measurements(str(folder / "other.yaml"), runs), strict=True):
        row["rtl_cycles"] = predicted(run)[0]
    runs.write_text("".join(json.dumps(row) + "\n" for row in rows))
    return runs


@pytest.mark.slow
def test_the_constants_that_made_the_cycles_are_found(
    command_line: Command, made: Path, tmp_path: Path
) -> None:
    out = tmp_path / "mine.yaml"
    ended = command_line("calibrate", "gemmini", str(made), "--out", str(out), "--json")
    assert ended.status == 0
    found = json.loads(ended.out)
    assert found["constants"]["timing.issue"]["value"] == pytest.approx(400, rel=0.01)
    assert found["constants"]["timing.load.per_request"]["value"] == pytest.approx(3.3, rel=0.02)
    assert found["seen"]["mape"] < 0.01
    assert all(unseen["mape"] < 0.02 for unseen in found["unseen"])
    timing = load_architecture(str(out)).timing
    assert timing is not None
    assert timing.issue_cycles == pytest.approx(400, rel=0.01)
    # comments and all that is not fitted stay
    before, after = (FOLDER / "gemmini.yaml").read_text().splitlines(), out.read_text().splitlines()
    changed = [old for old, new in zip(before, after, strict=True) if old != new]
    assert changed
    assert all("fitted: true" in line for line in changed)


def test_what_is_there_is_not_overwritten(command_line: Command, made: Path, tmp_path: Path) -> None:
    out = tmp_path / "there.yaml"
    out.write_text("mine")
    ended = command_line("calibrate", "gemmini", str(made), "--out", str(out))
    assert ended.status == 2
    assert out.read_text() == "mine"


def test_a_machine_without_constants_to_fit_is_refused(
    command_line: Command, made: Path, tmp_path: Path
) -> None:
    ended = command_line("calibrate", "eyeriss", str(made), "--out", str(tmp_path / "out.yaml"))
    assert ended.status == 2
    assert "fitted: true" in ended.err


def test_runs_of_one_layer_are_too_few(command_line: Command, made: Path, tmp_path: Path) -> None:
    (tmp_path / "one.jsonl").write_text(made.read_text().splitlines()[0])
    ended = command_line(
        "calibrate", "gemmini", str(tmp_path / "one.jsonl"), "--out", str(tmp_path / "out.yaml")
    )
    assert ended.status == 2
    assert "two layers" in ended.err
