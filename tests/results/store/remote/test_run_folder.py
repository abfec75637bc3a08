"""Run folders behind URIs: a local file system, and an S3-compatible server on loopback."""

import shutil
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from moto.server import ThreadedMotoServer
from pyarrow.fs import LocalFileSystem, S3FileSystem

from results.errors import CannotWriteError, NotSentError
from results.store.folder import Buffering, RunFolder, RunWriter
from results.store.remote import run_folder as remote
from results.store.remote.run_folder import RemoteFolder, is_uri, mirrored

Row = dict[str, Any]
EVERY_ROW = Buffering(rows=1)


@pytest.fixture(scope="module")
def s3() -> Iterator[str]:
    """host:port of an S3 that keeps a bucket named ``bucket`` in memory."""
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    try:
        host, port = server.get_host_and_port()
        yield f"{host}:{port}"
    finally:
        server.stop()


@pytest.fixture(params=["file", "s3"])
def uri(
    request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> Callable[[str], str]:
    """Makes the URI of a folder by its name."""
    if request.param == "file":
        return lambda name: f"file://{tmp_path}/shared/{name}"
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    endpoint = request.getfixturevalue("s3")
    place = f"endpoint_override={endpoint}&scheme=http&region=us-east-1"
    store = S3FileSystem(
        endpoint_override=endpoint, scheme="http", region="us-east-1", allow_bucket_creation=True
    )
    store.create_dir("bucket")
    return lambda name: f"s3://bucket/{tmp_path.name}/{name}?{place}"


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(remote, "MIRROR_SECONDS", 0.05)


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.05)


def rows_at(uri: str, place: Path) -> list[Row]:
    place.mkdir()
    RemoteFolder(uri).pull(place)
    return RunFolder(place).read_rows("layers", ["task_id", "cycles"])


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("s3://bucket/run", True),
        ("file:///shared/run", True),
        ("fsspec+memory://run", True),
        ("runs/x", False),
        ("/runs/x", False),
        ("C:/runs", False),
        ("a:b//c", False),
    ],
)
def test_uris_are_told_from_paths(text: str, expected: bool) -> None:
    assert is_uri(text) is expected


@pytest.mark.slow
def test_a_run_goes_there_and_comes_back(
    uri: Callable[[str], str], tmp_path: Path, make_layer: Callable[..., Row]
) -> None:
    with mirrored(uri("run"), "tiny") as folder:
        assert folder.name == "tiny"
        with RunWriter(folder) as run:
            run.write_lock_file({"study": {"name": "tiny"}})
            run.append("layers", make_layer(1))
        (folder / "report.html").write_text("<p>drawn")
    assert not folder.exists()
    assert RemoteFolder(uri("run")).names() == ["layers/00000001.parquet", "report.html", "study.lock.yaml"]
    with mirrored(uri("run"), "tiny") as folder:
        assert RunFolder(folder).read_lock_file() == {"study": {"name": "tiny"}}
        assert [row["task_id"] for row in RunFolder(folder).read_rows("layers")] == [make_layer(1)["task_id"]]
        with RunWriter(folder) as run:
            run.append("layers", make_layer(2))
            run.append("layers", make_layer(1, cycles=7))
    found = {row["task_id"]: row["cycles"] for row in rows_at(uri("run"), tmp_path / "look")}
    assert found == {make_layer(1)["task_id"]: 7, make_layer(2)["task_id"]: make_layer(2)["cycles"]}


@pytest.mark.slow
def test_parts_are_there_while_the_run_goes_on(
    uri: Callable[[str], str], tmp_path: Path, make_layer: Callable[..., Row], quick: None
) -> None:
    """What a machine that dies in mid-run has finished is safe; joined parts replace the ones they join."""
    seen = RemoteFolder(uri("run"))
    with mirrored(uri("run"), "tiny") as folder:
        with RunWriter(folder, Buffering(rows=2)) as run:
            for number in range(4):
                run.append("layers", make_layer(number))
            until(lambda: len(seen.names()) == 2)
            assert len(rows_at(uri("run"), tmp_path / "middle")) == 4
            run.append("layers", make_layer(4))
            run.flush()
            run.append("layers", make_layer(5))
        until(lambda: seen.names() == [f"layers/0000000{n}.parquet" for n in (1, 2, 4)])
    assert len(rows_at(uri("run"), tmp_path / "end")) == 6


def test_rows_on_their_way_into_a_part_are_there_too(
    uri: Callable[[str], str], tmp_path: Path, make_layer: Callable[..., Row]
) -> None:
    """A machine that dies in mid-run takes nothing with it that the last push has seen."""
    folder, there = tmp_path / "lost", RemoteFolder(uri("run"))
    run = RunWriter(folder, Buffering(rows=1000, seconds=3600))
    run.append("layers", make_layer(1))
    there.push(folder)
    with mirrored(uri("run"), "tiny") as found, RunWriter(found) as second:
        assert len(RunFolder(found).read_rows("layers")) == 1
        second.append("layers", make_layer(2))
    run.close()
    assert len(rows_at(uri("run"), tmp_path / "look")) == 2


def test_a_journal_never_overtakes_the_part_that_emptied_it(
    tmp_path: Path, make_layer: Callable[..., Row]
) -> None:
    uri, folder = f"file://{tmp_path}/shared/run", tmp_path / "local"
    there = RemoteFolder(uri)
    run = RunWriter(folder, Buffering(rows=1000, seconds=3600))
    run.append("layers", make_layer(1))
    there.push(folder)
    run.flush()
    there._push_journals(folder)
    assert (tmp_path / "shared/run/layers/.journal").stat().st_size > 0
    there.push(folder)
    assert (tmp_path / "shared/run/layers/.journal").stat().st_size == 0
    assert len(rows_at(uri, tmp_path / "look")) == 1
    run.close()


def test_parts_joined_during_a_push_are_deleted_by_the_next(
    tmp_path: Path, make_layer: Callable[..., Row], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The URI never lacks a row: the parts that were joined go only after the one they were joined into."""
    uri, folder = f"file://{tmp_path}/shared/run", tmp_path / "local"
    there = RemoteFolder(uri)
    run = RunWriter(folder, Buffering(rows=2))
    for number in (1, 2, 3):
        run.append("layers", make_layer(number))
        run.flush()
    there.push(folder)
    push_file = RemoteFolder._push_file

    def joining(self: RemoteFolder, place: Path, path: Path) -> None:
        push_file(self, place, path)
        run.close()

    monkeypatch.setattr(RemoteFolder, "_push_file", joining)
    there.push(folder)
    assert len(rows_at(uri, tmp_path / "between")) == 3
    there.push(folder)
    assert len(rows_at(uri, tmp_path / "look")) == 3
    assert len(there.names()) == len(list((folder / "layers").glob("*.parquet")))


def test_unfinished_and_foreign_files_stay_where_they_are(
    tmp_path: Path, make_layer: Callable[..., Row]
) -> None:
    there = tmp_path / "shared" / "run"
    for name in ("layers/.unfinished-00000007.parquet", "layers/notes.txt", "diary.yaml"):
        (there / name).parent.mkdir(parents=True, exist_ok=True)
        (there / name).write_text("mine")
    with mirrored(f"file://{there}", "tiny") as folder:
        assert [path for path in folder.rglob("*") if path.is_file()] == []
        with RunWriter(folder) as run:
            run.append("layers", make_layer(1))
    left = {path.name for path in there.rglob("*") if path.is_file()} - {".journal"}
    assert left == {".unfinished-00000007.parquet", "notes.txt", "diary.yaml", "00000001.parquet"}


def test_a_truncated_upload_is_set_aside_and_solved_again(
    uri: Callable[[str], str], tmp_path: Path, make_layer: Callable[..., Row]
) -> None:
    with mirrored(uri("run"), "tiny") as folder, RunWriter(folder, EVERY_ROW) as run:
        run.append("layers", make_layer(1))
    there = RemoteFolder(uri("run"))
    there._upload("layers/00000001.parquet", b"PAR1 cut short")
    with mirrored(uri("run"), "tiny") as folder:
        with pytest.warns(UserWarning, match="set aside"):
            run = RunWriter(folder)
        run.append("layers", make_layer(1))
        run.close()
    assert len(rows_at(uri("run"), tmp_path / "look")) == 1


@pytest.mark.parametrize(
    ("bad", "message"),
    [
        ("nonsense://place/run", "nonsense"),
        ("s3://key:secret@bucket/run", "credentials"),
        ("s3://?region=us-east-1", "names no bucket or folder"),
        ("file:///", "names no bucket or folder"),
        ("fsspec+nonsense://run", "nonsense"),
    ],
)
def test_wrong_uris_are_named(bad: str, message: str) -> None:
    with pytest.raises(CannotWriteError, match=message) as caught, mirrored(bad, "tiny"):
        pass
    assert "secret" not in str(caught.value)


def test_a_missing_bucket_is_said_before_anything_runs(
    s3: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "test")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")
    bad = f"s3://no-such-bucket/run?endpoint_override={s3}&scheme=http&region=us-east-1"
    with pytest.raises(CannotWriteError, match="no-such-bucket"), mirrored(bad, "tiny"):
        pytest.fail("the block must not run")


def test_results_that_cannot_go_there_are_kept_here(
    tmp_path: Path, make_layer: Callable[..., Row], quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    there = tmp_path / "shared"
    monkeypatch.setattr(remote, "END_SECONDS", 0.5)

    def run_into_trouble() -> None:
        with mirrored(f"file://{there}/run", "tiny") as folder, RunWriter(folder) as run:
            shutil.rmtree(there)
            there.write_text("a file where a folder must be")
            run.append("layers", make_layer(1))

    with (
        pytest.warns(UserWarning, match="takes no results since"),
        pytest.raises(NotSentError, match="results are kept in") as caught,
    ):
        run_into_trouble()
    kept = Path(str(caught.value).rpartition("kept in ")[2].rstrip("."))
    assert len(RunFolder(kept).read_rows("layers")) == 1
    there.unlink()
    with pytest.warns(UserWarning, match="1 rows of an earlier run"), mirrored(f"file://{there}/run", "tiny"):
        pass
    assert len(rows_at(f"file://{there}/run", tmp_path / "look")) == 1
    assert not kept.exists()


def test_an_outage_in_mid_run_is_made_good(
    tmp_path: Path, make_layer: Callable[..., Row], quick: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries = 0
    write = RemoteFolder._write

    def failing(self: RemoteFolder, target: str, content: bytes) -> None:
        nonlocal tries
        tries += 1
        if tries <= 3:
            raise OSError("the network is gone")
        write(self, target, content)

    with mirrored(f"file://{tmp_path}/shared/run", "tiny") as folder, RunWriter(folder, EVERY_ROW) as run:
        monkeypatch.setattr(RemoteFolder, "_write", failing)
        run.append("layers", make_layer(1))
        until(lambda: tries > 3)
    assert tries > 3
    assert len(rows_at(f"file://{tmp_path}/shared/run", tmp_path / "look")) == 1


def test_a_shared_file_system_never_shows_half_a_file(tmp_path: Path) -> None:
    """There a file is written beside and renamed; in an object store it appears whole by itself."""
    there = RemoteFolder(f"file://{tmp_path}/run")
    assert isinstance(there._fs, LocalFileSystem)
    moved: list[tuple[str, str]] = []

    class Watched:
        type_name = "local"

        def __getattr__(self, name: str) -> Any:
            if name == "move":
                return self._move
            return getattr(fs, name)

        def _move(self, source: str, target: str) -> None:
            moved.append((source, target))
            fs.move(source, target)

    fs = there._fs
    there._fs = Watched()
    there._upload("layers/00000001.parquet", b"x")
    assert [Path(source).name for source, _ in moved] == [".unfinished-00000001.parquet"]
    assert (tmp_path / "run" / "layers" / "00000001.parquet").read_bytes() == b"x"
