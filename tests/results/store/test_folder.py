"""The run folder: what was appended is read back, whatever happened to the process or the files."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
import pytest
from numpy.typing import NDArray
from pyarrow import parquet

from results.errors import (
    CannotWriteError,
    DamagedFileError,
    FolderInUseError,
    NotARunError,
    WrongRowError,
)
from results.store import folder as store
from results.store import parts
from results.store.digests import Digests
from results.store.folder import Buffering, RunFolder, RunWriter
from results.store.journal import Journal
from results.store.row_batch import RowBatch
from results.store.schema.shared_columns import SCHEMA_VERSION
from results.store.schema.tables import DESIGNS, LAYERS

ROOT = Path(__file__).parents[3]
Row = dict[str, Any]
Make = Callable[..., Row]


def test_rows_come_back_as_they_went_in(
    run_path: Path, make_layer: Make, make_design: Make, make_scratchpad: Make
) -> None:
    tables = {
        "layers": [make_layer(n) for n in range(25)],
        "designs": [make_design(n) for n in range(7)],
        "scratchpads": [make_scratchpad(n) for n in range(12)],
    }
    with RunWriter(run_path, Buffering(rows=10)) as run:
        for table, rows in tables.items():
            for row in rows:
                run.append(table, row)
    folder = RunFolder(run_path).check()
    for table, written in tables.items():
        read = folder.read_rows(table)
        assert [{k: v for k, v in row.items() if k in written[0]} for row in read] == written
        assert all(row["schema_version"] == SCHEMA_VERSION for row in read)


def test_parts_are_buffered_by_count_and_joined_at_close(
    run_path: Path, make_layer: Make, small_parts: Buffering
) -> None:
    run = RunWriter(run_path, small_parts)
    for number in range(9):
        run.append("layers", make_layer(number))
    assert parts.list_parts(run_path / "layers") == []
    for number in range(9, 33):
        run.append("layers", make_layer(number))
    assert [parts.count_rows(part) for part in parts.list_parts(run_path / "layers")] == [10, 10, 10]
    run.close()
    with RunWriter(run_path, small_parts) as again:
        again.append("layers", make_layer(40))
    counts = [parts.count_rows(part) for part in parts.list_parts(run_path / "layers")]
    assert counts == [10, 10, 10, 4]
    assert len(RunFolder(run_path).read("layers")) == 34


def test_a_lone_row_is_on_disk_after_the_time_limit(run_path: Path, make_layer: Make) -> None:
    run = RunWriter(run_path, Buffering(rows=1000, seconds=0.05))
    run.append("layers", make_layer())
    deadline = time.monotonic() + 20
    while not parts.list_parts(run_path / "layers") and time.monotonic() < deadline:
        time.sleep(0.02)
    assert len(RunFolder(run_path).read("layers")) == 1
    run.close()


def test_rows_that_somebody_else_joins_are_not_waited_for(run_path: Path, make_design: Make) -> None:
    """A part is not made by the clock where all rows are with a worker: it makes the part."""
    batch = RowBatch.of("designs", [DESIGNS.encode(make_design(number)) for number in range(3)])
    with RunWriter(run_path, Buffering(rows=1000, seconds=3600)) as run:
        run.append_batch(batch)
        assert run.waiting("designs", 4) == ()
        assert run._timer is not None
        assert run.waiting("designs", 3) == (batch,)
        assert run._timer is None
        run.append_batch(batch)
        assert run._timer is not None, "the next rows are written in time"
    assert len(RunFolder(run_path).read("designs")) == 3


def test_the_last_row_of_a_key_counts(run_path: Path, make_design: Make, small_parts: Buffering) -> None:
    with RunWriter(run_path, small_parts) as run:
        for number in range(12):
            run.append("designs", make_design(number, status="partial"))
        run.append("designs", make_design(3, status="complete"))
    rows = {row["design_id"]: row["status"] for row in RunFolder(run_path).read_rows("designs")}
    assert len(rows) == 12
    assert [status for status in rows.values() if status == "complete"] == ["complete"]
    assert rows[make_design(3)["design_id"]] == "complete"


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"surprise": 1}, "unknown column 'surprise'"),
        ({"schema_version": 1}, "unknown column 'schema_version'"),
        ({"task_id": None}, "without task_id"),
        ({"cycles": 1.5}, "'cycles' expects a whole number"),
        ({"cycles": True}, "'cycles' expects a whole number"),
        ({"cycles": 2**63}, "64 bits"),
        ({"energy_pj": "1"}, "'energy_pj' expects a number"),
        ({"cached": 1}, "'cached' expects True or False"),
        ({"mapping": '{"a": 1}'}, "'mapping' expects a dict"),
        ({"mapping": {"a": float("nan")}}, "'mapping' expects a dict"),
        ({"mapping": {"a": object()}}, "'mapping' expects a dict"),
        ({"finished_at": "today"}, "'finished_at' expects a datetime"),
        ({"solver": 3}, "'solver' expects text"),
    ],
)
def test_a_wrong_row_raises_at_once(run_path: Path, make_layer: Make, changes: Row, words: str) -> None:
    with RunWriter(run_path) as run:
        with pytest.raises(WrongRowError, match=words):
            run.append("layers", make_layer() | changes)
        with pytest.raises(WrongRowError, match="no such table"):
            run.append("nonsense", make_layer())
    assert len(RunFolder(run_path).read("layers")) == 0


def test_text_that_utf8_cannot_hold_is_kept_readable(run_path: Path, make_layer: Make) -> None:
    with RunWriter(run_path) as run:
        run.append("layers", make_layer(error="bad name \udcff", note="ok \u2028 </script>"))
    (row,) = RunFolder(run_path).read_rows("layers")
    assert (row["error"], row["note"]) == ("bad name ?", "ok \u2028 </script>")


def test_a_crash_before_the_rename_leaves_no_part(
    run_path: Path, make_layer: Make, small_parts: Buffering, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunWriter(run_path, small_parts)
    for number in range(10):
        run.append("layers", make_layer(number))

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", _interrupt)
        for number in range(10, 19):
            run.append("layers", make_layer(number))
        with pytest.raises(KeyboardInterrupt):
            run.append("layers", make_layer(19))
    assert len(RunFolder(run_path).read("layers")) == 10
    hidden = [path for path in (run_path / "layers").iterdir() if path.name.startswith(".unfinished")]
    assert len(hidden) == 1
    run.close()
    assert len(RunFolder(run_path).read("layers")) == 20
    with RunWriter(run_path):
        assert not hidden[0].exists()


@pytest.mark.slow
def test_a_writer_killed_at_any_time_leaves_a_readable_run(run_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from tests.results.conftest import layer_row\n"
        "from results.store.folder import Buffering, RunWriter\n"
        "number, run = int(sys.argv[2]), RunWriter(Path(sys.argv[1]), Buffering(rows=3))\n"
        "while True:\n"
        "    run.append('layers', layer_row(number)); number += 1; print(number, flush=True)"
    )
    seen = 0
    for killed in (1, 2, 3):
        command = [sys.executable, "-c", code, str(run_path), str(seen)]
        with subprocess.Popen(command, cwd=ROOT, stdout=subprocess.PIPE, text=True) as writer:
            assert writer.stdout is not None
            for line in writer.stdout:
                if int(line) >= seen + 40:
                    break
            writer.kill()
            seen = max([int(line), *(int(rest) for rest in writer.stdout)])
        rows = len(RunFolder(run_path).read("layers"))
        assert seen - 3 * killed <= rows <= seen + 1
    RunWriter(run_path).close()
    assert len(parts.list_parts(run_path / "layers")) == 1


def test_a_full_disk_loses_no_row(run_path: Path, make_layer: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    run = RunWriter(run_path, Buffering(rows=2, seconds=3600))

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        run.append("layers", make_layer(0))
        with pytest.raises(CannotWriteError, match="No space left"):
            run.append("layers", make_layer(1))
        assert not [p for p in (run_path / "layers").iterdir() if p.name.startswith(".unfinished")]
    run.append("layers", make_layer(2))
    run.close()
    assert len(RunFolder(run_path).read("layers")) == 3


def test_an_interrupt_in_the_middle_of_a_batch_loses_no_row(
    run_path: Path, make_layer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Closing writes what the journal was given, however soon after it Ctrl-C comes."""
    batch = RowBatch.of("layers", [LAYERS.encode(make_layer(number)) for number in range(3)])

    def interrupted(journal: Journal, lines: bytes) -> None:
        append_lines(journal, lines)
        raise KeyboardInterrupt

    append_lines = Journal.append_lines
    monkeypatch.setattr(Journal, "append_lines", interrupted)
    with pytest.raises(KeyboardInterrupt), RunWriter(run_path) as run:
        run.append_batch(batch)
    assert len(RunFolder(run_path).read("layers")) == 3


def test_trouble_in_the_background_is_raised_by_the_next_append(
    run_path: Path, make_layer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunWriter(run_path, Buffering(rows=100, seconds=0.01))

    def full(source: object, target: object) -> None:
        raise OSError(28, "No space left on device")

    def append_until_it_raises() -> None:
        for number in range(2000):
            run.append("layers", make_layer(number % 90))
            time.sleep(0.01)

    with monkeypatch.context() as patch:
        patch.setattr(os, "replace", full)
        with pytest.raises(CannotWriteError, match="No space left"):
            append_until_it_raises()
    run.close()
    assert len(RunFolder(run_path).read("layers")) >= 2


def test_a_crash_while_joining_parts_repeats_no_row(
    run_path: Path, make_layer: Make, make_design: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunWriter(run_path, Buffering(rows=100, seconds=3600))
    for status in ("partial", "complete"):
        for number in range(5):
            run.append("designs", make_design(number, status=status))
        run.flush()
    with monkeypatch.context() as patch:
        patch.setattr(Path, "unlink", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            run.close()
    assert len(parts.list_parts(run_path / "designs")) == 2
    rows = RunFolder(run_path).read_rows("designs")
    assert [row["status"] for row in rows] == ["complete"] * 5


def _interrupt(*_: object, **__: object) -> None:
    raise KeyboardInterrupt


def test_a_reader_survives_parts_being_joined_under_it(
    run_path: Path, make_layer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    run = RunWriter(run_path)
    for number in range(4):
        run.append("layers", make_layer(number))
        run.flush()
    stale = parts.list_parts(run_path / "layers")
    run.close()
    assert len(parts.list_parts(run_path / "layers")) == 1
    listings = iter([stale])
    monkeypatch.setattr(store, "list_parts", lambda folder: next(listings, None) or parts.list_parts(folder))
    assert len(RunFolder(run_path).read("layers")) == 4


def _damage(path: Path, how: str) -> None:
    content = path.read_bytes()
    if how == "truncated":
        path.write_bytes(content[: len(content) // 2])
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "one byte changed":
        column = parquet.read_metadata(path).row_group(0).column(1)
        last = column.dictionary_page_offset + column.total_compressed_size - 1  # of the page's values
        path.write_bytes(content[:last] + bytes([content[last] ^ 0xFF]) + content[last + 1 :])
    elif how == "foreign":
        parquet.write_table(pyarrow.table({"somebody": ["else"]}), path)
    else:
        table = parquet.read_table(path)
        wrong = pyarrow.array(["x"] * len(table))
        parquet.write_table(table.set_column(table.column_names.index("cycles"), "cycles", wrong), path)


def _with_a_damaged_part(writer: RunWriter, make_layer: Make, number: int, how: str) -> Path:
    """Write 30 layers, close the run, and damage the part with this number, from 0; its path."""
    with writer as run:
        for layer in range(30):
            run.append("layers", make_layer(layer))
    victim = parts.list_parts(run.path / "layers")[number]
    _damage(victim, how)
    return victim


HARM = ("truncated", "empty", "one byte changed", "foreign", "wrong type")


@pytest.mark.parametrize("how", HARM)
def test_a_damaged_part_is_named_with_a_remedy(
    run_path: Path, make_layer: Make, small_parts: Buffering, how: str
) -> None:
    victim = _with_a_damaged_part(RunWriter(run_path, small_parts), make_layer, 1, how)
    with pytest.raises(DamagedFileError, match=r"00000002\.parquet.*Resume the run") as caught:
        RunFolder(run_path).read("layers")
    assert caught.value.where == str(victim)


@pytest.mark.parametrize("how", HARM)
def test_resuming_sets_a_damaged_part_aside_and_keeps_the_rest(
    run_path: Path, make_layer: Make, small_parts: Buffering, how: str
) -> None:
    victim = _with_a_damaged_part(RunWriter(run_path, small_parts), make_layer, 2, how)
    with pytest.warns(UserWarning, match=r"set aside as 00000003\.parquet\.damaged"):
        run = RunWriter(run_path, small_parts)
    run.append("layers", make_layer(99))
    run.close()
    assert len(RunFolder(run_path).read("layers")) == 21
    assert victim.with_name("00000003.parquet.damaged").exists()


def test_older_and_newer_parts_read_together(
    run_path: Path, make_layer: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with RunWriter(run_path) as run:
        run.append("layers", make_layer(1))
    newest = parquet.read_table(parts.list_parts(run_path / "layers")[0])
    older = newest.drop_columns(["utilization", "note"])
    newer = newest.append_column("carbon_g", pyarrow.array([4.5]))
    for number, table in ((2, older), (3, newer)):
        renamed = table.set_column(
            table.column_names.index("task_id"), "task_id", pyarrow.array([f"task {number}"])
        )
        parquet.write_table(renamed, run_path / "layers" / f"{number:08d}.parquet")
    rows = RunFolder(run_path).read("layers")
    assert rows["utilization"].to_pylist() == [0.75, None, 0.75]
    assert rows["carbon_g"].to_pylist() == [None, None, 4.5]
    with RunWriter(run_path):
        pass
    assert len(parts.list_parts(run_path / "layers")) == 1
    assert RunFolder(run_path).read("layers") == rows


def test_pandas_reads_the_folder_as_it_is(run_path: Path, make_layer: Make, small_parts: Buffering) -> None:
    import pandas

    with RunWriter(run_path, small_parts) as run:
        for number in range(25):
            run.append("layers", make_layer(number))
    frame = pandas.read_parquet(run_path / "layers")
    assert len(frame) == 25
    assert str(frame["cycles"].dtype) == "int64"
    assert str(frame["finished_at"].dt.tz) == "UTC"


def test_two_writers_do_not_share_a_folder(run_path: Path) -> None:
    with (
        RunWriter(run_path),
        pytest.raises(FolderInUseError, match=rf"process {os.getpid()} on .*another folder"),
    ):
        RunWriter(run_path)
    RunWriter(run_path).close()


def test_the_lock_of_a_killed_process_is_taken_over(run_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path; from results.store.folder import RunWriter\n"
        "run = RunWriter(Path(sys.argv[1])); print('ready', flush=True); time.sleep(600)"
    )
    with subprocess.Popen(
        [sys.executable, "-c", code, str(run_path)], cwd=ROOT, stdout=subprocess.PIPE, text=True
    ) as other:
        assert other.stdout is not None
        assert other.stdout.readline() == "ready\n"
        with pytest.raises(FolderInUseError, match=f"process {other.pid} on"):
            RunWriter(run_path)
        other.send_signal(signal.SIGKILL)
    RunWriter(run_path).close()


def test_a_folder_that_cannot_be_written_is_told_before_anything_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(CannotWriteError, match="cannot make the folder"):
        RunWriter(tmp_path / "file" / "run")

    def refuse(*_: object, **__: object) -> int:
        raise PermissionError(13, "Permission denied")

    RunWriter(tmp_path / "run").close()
    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(CannotWriteError, match="Permission denied"):
        RunWriter(tmp_path / "run")


def test_a_closed_writer_takes_no_row(run_path: Path, make_layer: Make) -> None:
    run = RunWriter(run_path)
    run.close()
    run.close()
    with pytest.raises(CannotWriteError, match="closed"):
        run.append("layers", make_layer())


@pytest.mark.slow
def test_the_lock_file_is_written_whole_and_read_back(run_path: Path) -> None:
    content = {"study": {"name": "é", "axes": [1, "2", None]}, "commit": "abc"}
    with RunWriter(run_path) as run:
        run.write_lock_file({"old": 1})
        run.write_lock_file(content)
    assert RunFolder(run_path).read_lock_file() == content
    assert list(content) == list(RunFolder(run_path).read_lock_file())
    for text in ("a: [", "just text", "a: " + "[" * 20000):
        (run_path / "study.lock.yaml").write_text(text)
        with pytest.raises(DamagedFileError, match=r"study\.lock\.yaml"):
            RunFolder(run_path).read_lock_file()


def test_an_empty_folder_is_no_run(tmp_path: Path) -> None:
    with pytest.raises(NotARunError, match="holds no run"):
        RunFolder(tmp_path).check()
    assert RunFolder(tmp_path).read_lock_file() == {}
    assert len(RunFolder(tmp_path).read("layers")) == 0


def test_buffering_is_checked() -> None:
    wrong: dict[str, Any]
    for wrong in ({"rows": 0}, {"seconds": 0.0}):
        with pytest.raises(ValueError, match="at least 1 row"):
            Buffering(**wrong)


def test_tasks_whose_last_row_is_an_answer_are_answered(run_path: Path, make_layer: Make) -> None:
    with RunWriter(run_path) as run:
        for number, status in (
            (0, "optimal"),
            (1, "failed"),
            (2, "failed"),
            (2, "feasible"),
            (3, "feasible"),
        ):
            run.append("layers", make_layer(number, status=status))
        run.append("layers", make_layer(3, status="failed"))
    found = RunFolder(run_path).answered("layers")
    assert found == {make_layer(number)["task_id"] for number in (0, 2)}
    assert RunFolder(run_path).answered("schedules") == set()


def test_batches_are_what_is_read_a_part_at_a_time(
    run_path: Path, make_layer: Make, small_parts: Buffering
) -> None:
    with RunWriter(run_path, small_parts) as run:
        for number in (*range(25), *range(5, 15)):
            run.append("layers", make_layer(number, note=f"note {number % 3}"))
    folder, columns = RunFolder(run_path), ("task_id", "note", "cycles")
    whole = folder.read("layers", columns)
    assert len(whole) == 25
    batches = list(folder.batches("layers", columns, ("note",)))
    assert len(batches) > 1
    assert all(pyarrow.types.is_dictionary(batch.schema.field("note").type) for batch in batches)
    assert [row for batch in batches for row in batch.to_pylist()] == whole.to_pylist()
    wanted = whole["task_id"].to_pylist()[::2]
    digest_of = dict(zip(wanted, Digests.of_texts(wanted).high.tolist(), strict=True))

    def chosen(digests: NDArray[np.uint64]) -> NDArray[np.bool_]:
        assert digests.tolist() == sorted(set(Digests.of(whole["task_id"]).high.tolist()))
        return np.isin(digests, list(digest_of.values()))

    stored = folder.stored_batches("layers", chosen)
    some = [row for batch in stored.read(columns) for row in batch.to_pylist()]
    assert some == [row for row in whole.to_pylist() if row["task_id"] in wanted]
    notes = [row["note"] for batch in stored.read(["note"]) for row in batch.to_pylist()]
    assert notes == [row["note"] for row in some]
    assert folder.read_some("layers", wanted, columns).to_pylist() == some
    assert list(RunFolder(run_path.with_name("none")).batches("layers", columns)) == []
