"""The journal against a process that dies without a word, and against what it may leave of a line."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import warnings
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from results.errors import CannotWriteError
from results.store.folder import Buffering, RunFolder, RunWriter
from results.store.journal import Journal, journalled_rows
from results.store.schema.tables import LAYERS

ROOT = Path(__file__).parents[3]


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
        "import os, sys, signal; sys.path.insert(0, sys.argv[1])\n"
        "from pathlib import Path; from tests.results.store.test_journal import row\n"
        "from results.store.folder import RunWriter\n"
        "writer = RunWriter(Path(sys.argv[2]))\n"
        f"for n in range({count}): writer.append('layers', row(n))\n"
        "os.kill(os.getpid(), signal.SIGKILL)\n"
    )
    command = [sys.executable, "-c", code, str(ROOT), str(folder)]
    assert subprocess.run(command, check=False).returncode == -signal.SIGKILL


@pytest.mark.slow
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


class Killed:
    """A run folder whose writers are killed, and the tasks that it holds once one takes in the journal."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

    def append_and_die(self, number: int) -> None:
        """As a process that is killed after its first row: nothing is flushed, the lock is free."""
        writer = RunWriter(self.folder, Buffering(rows=1000, seconds=3600))
        writer.append("layers", row(number))
        writer._stop_timer()
        writer._release()

    def tasks(self) -> list[str]:
        with RunWriter(self.folder):
            pass
        return [str(found["task_id"]) for found in RunFolder(self.folder).read_rows("layers", ["task_id"])]


def journal_of(folder: Path, numbers: range) -> bytes:
    """The bytes of a journal that holds these rows, with letters of two and four bytes unescaped."""
    writer = RunWriter(folder, Buffering(rows=1000, seconds=3600))
    for number in numbers:
        writer.append("layers", row(number) | {"layer_name": f"Größe 𝄞 {number}"})
    writer._stop_timer()
    lines = (folder / "layers" / ".journal").read_bytes().splitlines()
    writer._release()
    return b"".join(json.dumps(json.loads(line), ensure_ascii=False).encode() + b"\n" for line in lines)


@pytest.mark.slow
def test_wherever_a_journal_is_cut_its_whole_rows_stay_and_the_next_row_is_a_line_of_its_own(
    tmp_path: Path,
) -> None:
    """Every length from the empty file on: only a torn line, one in the middle of a letter, whole lines and
    a torn one. The next process appends a row, and the one after it finds all whole rows."""
    whole = journal_of(tmp_path / "made", range(2))
    ends = [place + 1 for place, byte in enumerate(whole) if byte == ord("\n")]
    for cut in range(len(whole) + 1):
        (tmp_path / ".journal").write_bytes(whole[:cut])
        kept = [f"task{number}" for number, end in enumerate(ends) if end <= cut]
        assert [str(left["task_id"]) for left in journalled_rows(tmp_path, LAYERS)] == kept
        journal = Journal(tmp_path, LAYERS)
        assert [left["task_id"] for left in journal.left] == kept
        journal.append(LAYERS.encode(row(7)))
        journal.close()
        found = [str(left["task_id"]) for left in journalled_rows(tmp_path, LAYERS)]
        assert found == [*kept, "task7"], f"cut at {cut}"


@pytest.mark.parametrize("lines", [0, 1, 2])
@pytest.mark.parametrize("torn", [b"", b"{", b'{"task_id": "x", "layer_name": "\xf0\x9d'])
def test_a_run_that_is_killed_twice_keeps_the_rows_of_both_lives(
    tmp_path: Path, lines: int, torn: bytes
) -> None:
    whole = journal_of(tmp_path / "made", range(lines))
    (tmp_path / "run" / "layers").mkdir(parents=True)
    (tmp_path / "run" / "layers" / ".journal").write_bytes(whole + torn)
    run = Killed(tmp_path / "run")
    run.append_and_die(7)
    assert run.tasks() == [*(f"task{number}" for number in range(lines)), "task7"]


@pytest.mark.parametrize(
    "rubbish",
    [b"\x00\xff\xfe\n", b"\r\n", b"\n", b"\xf0\x9d\x84\n", b"[" * 100_000 + b"\n", b'{"task_id": "x"}\n'],
    ids=["binary", "carriage return", "empty line", "half a letter", "deep", "no row"],
)
def test_lines_that_are_no_rows_are_set_aside_with_a_warning_and_no_row_is_lost(
    tmp_path: Path, rubbish: bytes
) -> None:
    first, second = journal_of(tmp_path / "made", range(2)).splitlines(keepends=True)
    folder = tmp_path / "run"
    (folder / "layers").mkdir(parents=True)
    (folder / "layers" / ".journal").write_bytes(rubbish + first + rubbish + second + rubbish + b"torn")
    run = Killed(folder)
    with pytest.warns(UserWarning, match=r"3 lines are no rows of this version; .* in \.journal\.damaged"):
        run.append_and_die(7)
    assert (folder / "layers" / ".journal.damaged").read_bytes() == rubbish * 3
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert run.tasks() == ["task0", "task1", "task7"]


def test_rows_of_a_newer_version_are_set_aside_and_not_forgotten(tmp_path: Path) -> None:
    line = journal_of(tmp_path / "made", range(1))
    newer = json.dumps(json.loads(line) | {"a_column_to_come": 1}).encode() + b"\n"
    (tmp_path / "run" / "layers").mkdir(parents=True)
    (tmp_path / "run" / "layers" / ".journal").write_bytes(newer)
    with pytest.warns(UserWarning, match="1 lines are no rows of this version"):
        assert Killed(tmp_path / "run").tasks() == []
    assert (tmp_path / "run" / "layers" / ".journal.damaged").read_bytes() == newer


def test_half_a_row_on_a_full_disk_is_taken_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The disk takes half of a row; the next row, for which there is space again, is a line of its own."""
    (tmp_path / "layers").mkdir()
    journal = Journal(tmp_path / "layers", LAYERS)
    journal.append(LAYERS.encode(row(0)))
    real = os.write
    monkeypatch.setattr(os, "write", lambda descriptor, data: real(descriptor, data[: len(data) // 2]))
    with pytest.raises(CannotWriteError, match="no space left"):
        journal.append(LAYERS.encode(row(1)))
    monkeypatch.undo()
    journal.append(LAYERS.encode(row(2)))
    journal.close()
    found = [left["task_id"] for left in journalled_rows(tmp_path / "layers", LAYERS)]
    assert found == ["task0", "task2"]
