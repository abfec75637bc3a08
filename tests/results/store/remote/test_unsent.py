"""Rows on their way to a URI: where they are kept, how a later run takes them up, when a mirror gives up."""

import signal
import threading
import time
import warnings
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from results.errors import CannotWriteError, FolderInUseError, NotSentError
from results.store.folder import RunFolder, RunWriter
from results.store.remote import mirror
from results.store.remote import run_folder as remote
from results.store.remote.mirror import Mirror
from results.store.remote.run_folder import RemoteFolder, mirrored
from results.store.remote.unsent import claimed_folder, state_folder_of, unsent_folders, working_folder

Row = dict[str, Any]
MakeRow = Callable[..., Row]
EARLY, LATE = datetime(2026, 1, 1, tzinfo=UTC), datetime(2026, 6, 1, tzinfo=UTC)


def test_a_uri_has_one_folder_however_it_is_written(state_folder: Path) -> None:
    place = state_folder_of("s3://bucket/runs/x?scheme=http&endpoint_override=127.0.0.1:9")
    assert place.parent == state_folder / "archsweep" / "runs"
    assert place == state_folder_of("s3://bucket/runs/x/?endpoint_override=127.0.0.1:9&scheme=http")
    others = [
        "s3://bucket/runs/y",
        "s3://bucket/runs/x",
        "gs://bucket/runs/x",
        "s3://bucket/runs/x?scheme=http",
    ]
    assert len({place, *map(state_folder_of, others)}) == 5


@pytest.mark.parametrize("uri", ["s3://b/../../up", "s3://b/" + "x" * 300, "s3://b/ä\0/\n", "fsspec+a://.."])
def test_no_uri_leads_out_of_the_state_folder(state_folder: Path, uri: str) -> None:
    place = state_folder_of(uri)
    place.mkdir(parents=True)
    assert place.resolve().parent == (state_folder / "archsweep" / "runs").resolve()


def test_a_state_folder_has_one_run_at_a_time() -> None:
    with claimed_folder("s3://bucket/x?secret=1"), claimed_folder("s3://bucket/y"):
        refused = pytest.raises(FolderInUseError, match=r"^s3://bucket/x: another run is writing here")
        with refused as caught, claimed_folder("s3://bucket/x?secret=1"):
            pass
    assert "secret" not in str(caught.value)
    with claimed_folder("s3://bucket/x?secret=1"):
        pass


def test_a_state_folder_that_cannot_be_made_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "file"))
    with pytest.raises(CannotWriteError, match="Set XDG_STATE_HOME"), claimed_folder("s3://bucket/x"):
        pass


def written(folder: Path, *rows: Row, table: str = "layers") -> Path:
    with RunWriter(folder) as run:
        for row in rows:
            run.append(table, row)
    return folder


def cycles(folder: Path) -> dict[str, int]:
    return {row["task_id"]: row["cycles"] for row in RunFolder(folder).read_rows("layers")}


def puller(there: Path) -> Callable[[Path], object]:
    return RemoteFolder(f"file://{there}").pull


def test_the_newer_row_of_each_task_is_taken(tmp_path: Path, make_layer: MakeRow) -> None:
    """Another machine may have written to the URI since: what is older here replaces nothing there."""
    ids = [make_layer(number)["task_id"] for number in range(4)]
    there = written(
        tmp_path / "there",
        make_layer(0, cycles=1, finished_at=EARLY),
        make_layer(1, cycles=1, finished_at=LATE),
        make_layer(2, cycles=1, finished_at=EARLY),
    )
    written(
        tmp_path / "place/tiny",
        make_layer(0, cycles=2, finished_at=LATE),
        make_layer(1, cycles=2, finished_at=EARLY),
        make_layer(2, cycles=1, finished_at=EARLY),
        make_layer(3, cycles=2, finished_at=EARLY),
    )
    with pytest.warns(UserWarning, match="^2 rows of an earlier run"):
        folder = working_folder(tmp_path / "place", "tiny", puller(there))
    assert cycles(folder) == {ids[0]: 2, ids[1]: 1, ids[2]: 1, ids[3]: 2}
    assert [path.name for path in (tmp_path / "place").iterdir()] == ["tiny"]


def test_rows_of_both_journals_are_taken(tmp_path: Path, make_layer: MakeRow) -> None:
    """Two processes were killed, here and on the other machine, before their rows were in parts."""
    for place, number in (("there", 1), ("place/tiny", 2)):
        run = RunWriter(tmp_path / place)
        run.append("layers", make_layer(number))
        (tmp_path / place / "layers" / "copy").write_bytes(
            (tmp_path / place / "layers/.journal").read_bytes()
        )
        run.close()
        (tmp_path / place / "layers/00000001.parquet").unlink()
        (tmp_path / place / "layers" / "copy").rename(tmp_path / place / "layers/.journal")
    with pytest.warns(UserWarning, match="1 rows"):
        folder = working_folder(tmp_path / "place", "tiny", puller(tmp_path / "there"))
    assert len(cycles(folder)) == 2


@pytest.mark.parametrize("step", range(4))
def test_a_take_up_that_is_killed_loses_nothing(
    tmp_path: Path, make_layer: MakeRow, monkeypatch: pytest.MonkeyPatch, step: int
) -> None:
    there = written(tmp_path / "there", make_layer(1))
    written(tmp_path / "place/tiny", make_layer(2))
    rename, steps = Path.rename, iter(range(step))

    def killed(self: Path, target: Path) -> Path:
        if self.parent == tmp_path / "place" and next(steps, None) is None:
            raise SystemExit
        return rename(self, target)

    with monkeypatch.context() as patch:
        patch.setattr(Path, "rename", killed)
        try:
            working_folder(tmp_path / "place", "tiny", puller(there))
        except SystemExit:
            assert step < 2
    folder = working_folder(tmp_path / "place", "tiny", puller(there))
    assert len(cycles(folder)) == 2


@pytest.mark.parametrize(
    ("left", "there", "expected"),
    [
        (b"1\n2\n3\n", b"1\n2\n", b"1\n2\n3\n"),
        (b"1\n2\n3\n", b"1\n2\n3", b"1\n2\n3\n"),
        (b"1\n2\n3\n", b"", b"1\n2\n3\n"),
        (b"1\n2\n", b"1\n2\n3\n", b"1\n2\n3\n"),
        (b"1\n2\n", b"1\n4\n3\n", b"1\n4\n3\n"),
    ],
)
def test_trials_go_on_from_the_longer_journal_unless_they_are_of_two_runs(
    tmp_path: Path, left: bytes, there: bytes, expected: bytes
) -> None:
    for place, content in (("there", there), ("place/tiny", left)):
        written(tmp_path / place)
        (tmp_path / place / "optuna.journal").write_bytes(content)
    folder = working_folder(tmp_path / "place", "tiny", puller(tmp_path / "there"))
    assert (folder / "optuna.journal").read_bytes() == expected


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, seconds in (("SILENT_SECONDS", 0.1), ("PAUSE_SECONDS", 0.02), ("AGAIN_SECONDS", 0.2)):
        monkeypatch.setattr(mirror, name, seconds)
    for name, seconds in (("MIRROR_SECONDS", 0.02), ("END_SECONDS", 0.6), ("STOP_SECONDS", 0.3)):
        monkeypatch.setattr(remote, name, seconds)


@pytest.mark.usefixtures("impatient")
def test_trouble_is_said_at_once_again_and_when_it_ends() -> None:
    broken = True

    def push() -> None:
        if broken:
            raise CannotWriteError("s3://b/x", "answers 500", "")

    one = Mirror(push, lambda: 0, "s3://b/x", "/here", 0.02)
    with warnings.catch_warnings(record=True) as said:
        warnings.simplefilter("always")
        one.start()
        while len(said) < 3:
            time.sleep(0.02)
        broken = False
        assert one.finish(5.0) == ""
    texts = [str(warning.message) for warning in said]
    assert texts[0].startswith("s3://b/x takes no results since")
    assert "(answers 500). They are kept in /here" in texts[0]
    assert all("has taken no results for" in text for text in texts[1:-1])
    assert "takes results again" in texts[-1]


@pytest.mark.usefixtures("impatient")
@pytest.mark.parametrize("in_all", [False, True])
def test_a_push_that_hangs_is_given_up(in_all: bool) -> None:
    freed = threading.Event()
    one = Mirror(lambda: (freed.wait(), None)[1], lambda: 0, "s3://b/x", "/here", 0.02)
    one.start()
    with pytest.warns(UserWarning, match=r"takes no results since .* \(it has not answered for"):
        reason = one.finish(0.3, in_all=in_all)
    freed.set()
    assert "has not answered" in reason


@pytest.mark.usefixtures("impatient")
def test_a_slow_store_has_all_the_time_it_needs_unless_the_run_is_stopped() -> None:
    went: list[float] = []

    def push() -> None:
        for _ in range(20):
            time.sleep(0.05)
            went.append(0)

    one = Mirror(push, lambda: len(went), "s3://b/x", "/here", 3600.0)
    one.start()
    assert one.finish(0.4) == ""
    assert len(went) == 20
    assert "slow" in one.finish(0.2, in_all=True)


@pytest.mark.usefixtures("impatient")
def test_what_was_written_last_is_sent_even_if_a_push_is_under_way() -> None:
    pushes = []

    def push() -> None:
        time.sleep(0.1)
        pushes.append(time.monotonic())

    one = Mirror(push, lambda: 0, "u", "h", 0.01)
    one.start()
    while not one._push:
        time.sleep(0.005)
    written_last = time.monotonic()
    assert one.finish(5.0) == ""
    assert pushes[-1] - 0.1 >= written_last


@pytest.mark.usefixtures("impatient")
def test_a_second_ctrl_c_while_a_dead_store_is_waited_for_ends_the_wait(
    tmp_path: Path, make_layer: MakeRow, monkeypatch: pytest.MonkeyPatch
) -> None:
    uri, freed = f"file://{tmp_path}/shared", threading.Event()
    monkeypatch.setattr(remote, "STOP_SECONDS", 3600.0)

    def stopped_twice() -> None:
        with mirrored(uri, "tiny") as folder:
            monkeypatch.setattr(RemoteFolder, "_write", lambda *_: freed.wait())
            written(folder, make_layer(1))
            signal.setitimer(signal.ITIMER_REAL, 0.3)
            raise KeyboardInterrupt

    def interrupt(*_: object) -> None:
        raise KeyboardInterrupt

    before = signal.signal(signal.SIGALRM, interrupt)
    try:
        with pytest.raises(NotSentError, match="it was stopped while") as caught:
            stopped_twice()
    finally:
        signal.signal(signal.SIGALRM, before)
        freed.set()
    (kept,) = unsent_folders(uri)
    assert str(caught.value).endswith(f"results are kept in {kept}")
    assert len(cycles(kept)) == 1
