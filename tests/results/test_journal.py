"""The journal against a process that dies without a word, and against what it may leave of a line."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from results.errors import CannotWriteError
from results.store import RunFolder, RunWriter

ROOT = Path(__file__).parents[2]


def row(number: int) -> dict[str, Any]:
    return {
        "task_id": f"task{number}",
        "study": "s",
        "layer_name": "l",
        "layer_shape": {"dims": [["M", number]]},
        "architecture_id": "a",
        "architecture": {"name": "ä\n"},
        "solver": "random_search",
        "solver_version": "1",
        "params": {},
        "seed": 0,
        "objective_name": "edp",
        "macs": 8,
        "status": "optimal",
        "objective": 0.1 + number,
        "cached": False,
        "finished_at": datetime(2026, 1, 2, 3, 4, 5, 678901, UTC),
    }


def write_and_die(folder: Path, count: int) -> None:
    code = (
        "import os, sys, signal; sys.path[:0] = sys.argv[1:3]\n"
        "from pathlib import Path; from test_journal import row; from results.store import RunWriter\n"
        "writer = RunWriter(Path(sys.argv[3]))\n"
        f"for n in range({count}): writer.append('layers', row(n))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", code, str(ROOT), str(Path(__file__).parent), str(folder)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL


def test_a_killed_process_loses_no_row_that_was_appended(tmp_path: Path) -> None:
    write_and_die(tmp_path / "killed", 5)
    assert RunFolder(tmp_path / "killed").read("layers").num_rows == 0
    with RunWriter(tmp_path / "killed"):
        pass
    with RunWriter(tmp_path / "whole") as writer:
        for number in range(5):
            writer.append("layers", row(number))
    killed, whole = (RunFolder(tmp_path / name).read_rows("layers") for name in ("killed", "whole"))
    assert killed == whole
    assert (tmp_path / "killed" / "layers" / ".journal").stat().st_size == 0


@pytest.mark.parametrize("cut", [1, 2, 40])
def test_a_torn_line_costs_its_own_row_only(tmp_path: Path, cut: int) -> None:
    write_and_die(tmp_path, 3)
    journal = tmp_path / "layers" / ".journal"
    whole = journal.read_bytes()
    journal.write_bytes(whole[: len(whole) - 1 - cut])
    with RunWriter(tmp_path):
        pass
    assert [r["task_id"] for r in RunFolder(tmp_path).read_rows("layers")] == ["task0", "task1"]


@pytest.mark.parametrize("junk", [b"{}\n", b"[1]\n", b"null\n", b"\x00\xff\n", b'{"task_id": "x"}\n'])
def test_lines_that_are_no_rows_are_skipped(tmp_path: Path, junk: bytes) -> None:
    write_and_die(tmp_path, 2)
    journal = tmp_path / "layers" / ".journal"
    journal.write_bytes(junk + journal.read_bytes() + junk)
    with RunWriter(tmp_path):
        pass
    assert [r["task_id"] for r in RunFolder(tmp_path).read_rows("layers")] == ["task0", "task1"]


def test_a_row_that_cannot_be_journalled_is_an_error_and_kept(tmp_path: Path) -> None:
    with RunWriter(tmp_path) as writer:
        writer.append("layers", row(0))
        full = os.open("/dev/full", os.O_WRONLY)
        mine = writer._journals["layers"]._descriptor
        os.dup2(full, mine)
        with pytest.raises(CannotWriteError, match="No space left"):
            writer.append("layers", row(1))
        os.dup2(
            os.open(tmp_path / "layers" / ".journal", os.O_WRONLY), writer._journals["layers"]._descriptor
        )
    assert len(RunFolder(tmp_path).read_rows("layers")) == 2
