"""The file that says how a run is going: written whole, read back equal, refused when it is anything else."""

from __future__ import annotations

from pathlib import Path

import pytest

from results.errors import DamagedFileError
from results.store.run_progress import (
    PROGRESS_FILE,
    FailedSolve,
    FrontStep,
    RunProgress,
    SlowSolve,
    read_progress,
)

PROGRESS = RunProgress(
    study="tiny",
    objectives=("energy_pj", "cycles"),
    state="running",
    began=100.0,
    seen=160.0,
    planned=4,
    designs={"complete": 2},
    solves=40,
    done=21,
    cached=1,
    rate=0.35,
    seconds_left=57.0,
    best=(1.0, 10.0),
    worst=(2.0, 30.0),
    steps=(
        FrontStep("a", {"size": "1 KiB", "fanout": [2, 2]}, (2.0, 10.0), 1, 3.5),
        FrontStep("b", {"size": "2 KiB", "fanout": [4, 2]}, (1.0, 30.0), 2, 8.0),
    ),
    slowest=(SlowSolve("cosa: net/conv", 7.5, "host:12"),),
    failures=(FailedSolve("cosa: net/fc", "no memory"),),
)


def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    assert read_progress(tmp_path) is None
    PROGRESS.write(tmp_path)
    assert read_progress(tmp_path) == PROGRESS
    assert [path.name for path in tmp_path.iterdir()] == [PROGRESS_FILE]


@pytest.mark.parametrize("text", ["", "[]", "{}", '{"steps": 3}', "[" * 100_000])
def test_another_file_is_refused_by_name(tmp_path: Path, text: str) -> None:
    (tmp_path / PROGRESS_FILE).write_text(text)
    with pytest.raises(DamagedFileError, match=r"progress\.json"):
        read_progress(tmp_path)
