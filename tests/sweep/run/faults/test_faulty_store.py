"""Runs to an S3 server that refuses, hangs, cuts connections or is slow: nothing is lost or called stored."""

from __future__ import annotations

import logging
import os
import signal
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from moto.server import ThreadedMotoServer
from pyarrow.fs import S3FileSystem

from results.store.folder import RunFolder
from results.store.remote.run_folder import RemoteFolder
from results.store.remote.unsent import unsent_folders
from tests.clusters.processes import until
from tests.sweep.faulty_store import Relay
from tests.sweep.read_process import ReadProcess
from tests.thorough import also

HELD = Path(__file__).parents[1] / "held.py"
pytestmark = pytest.mark.slow
WriteStudy = Callable[..., Path]


@pytest.fixture
def relay(monkeypatch: pytest.MonkeyPatch) -> Iterator[Relay]:
    """In front of an S3 server that keeps a bucket named ``bucket`` in memory."""
    for variable in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(variable, "test")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    logging.getLogger("werkzeug").setLevel(logging.CRITICAL)  # it prints a traceback for each cut connection
    server = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    store = S3FileSystem(
        endpoint_override=f"{host}:{port}", scheme="http", region="us-east-1", allow_bucket_creation=True
    )
    store.create_dir("bucket")
    between = Relay((host, port))
    try:
        yield between
    finally:
        between.close()
        server.stop()


class Command:
    """``archsweep run`` of the study in ``folder``, started; what it prints is read as it comes.

    It stops after the answers ``held_at`` until it is told to go on, and waits for a store a third as long.
    """

    def __init__(self, folder: Path, uri: str, held_at: tuple[int, ...] = ()) -> None:
        held = ",".join([*map(str, held_at), "hurried"])
        words = ["run", "tiny.yaml", "--in-process", "-o", uri]
        self._run = ReadProcess(words, folder, os.environ, program=(str(HELD), held))
        self._holds = 0

    @property
    def text(self) -> str:
        return " ".join("".join(self._run.said).split())

    def until(self, holds: Callable[[], object]) -> None:
        until(holds, "a run and its store", self._run.process)

    def until_held(self) -> None:
        """Until it stops for the next time."""
        self._holds += 1
        self.until(lambda: self._run.said.count("held\n") >= self._holds)

    def go_on(self) -> None:
        assert self._run.process.stdin is not None
        self._run.process.stdin.write("\n")
        self._run.process.stdin.flush()

    def stop(self) -> None:
        self._run.process.send_signal(signal.SIGTERM)

    def status(self) -> int:
        """Its exit status. A run that a dead store holds up for ever is killed, which fails the test."""
        return self._run.status()


def uri_at(relay: Relay, tmp_path: Path) -> str:
    return f"s3://bucket/{tmp_path.name}/run?endpoint_override={relay.address}&scheme=http&region=us-east-1"


def task_ids(folder: Path) -> set[str]:
    return {row["task_id"] for row in RunFolder(folder).read_rows("layers", ["task_id"])}


def tasks_at(uri: str, place: Path) -> set[str]:
    place.mkdir()
    RemoteFolder(uri).pull(place)
    return task_ids(place)


@pytest.fixture
def eight_solves(write_study: WriteStudy) -> None:
    write_study(write_study().read_text().replace("[2 KiB, 4 KiB]", "[1 KiB, 2 KiB, 3 KiB, 4 KiB]"))


def held_run(relay: Relay, uri: str, folder: Path, mode: str) -> Command:
    """A run whose store breaks after its first answer of eight, and that is held with four or some more."""
    run = Command(folder, uri, held_at=(1, 4))
    run.until_held()
    there = RemoteFolder(uri)
    run.until(lambda: "study.lock.yaml" in there.names())
    relay.mode = mode
    run.go_on()
    run.until_held()
    return run


@pytest.mark.usefixtures("eight_solves")
@pytest.mark.parametrize("mode", ["hang", *also("refuse", "cut")])
def test_a_store_that_breaks_is_said_and_what_it_lacks_is_kept_for_the_next_run(
    relay: Relay, tmp_path: Path, mode: str
) -> None:
    uri = uri_at(relay, tmp_path)
    first = held_run(relay, uri, tmp_path, mode)
    first.until(lambda: "takes no results" in first.text)
    first.stop()
    assert first.status() == 1
    assert "is stored" not in first.text
    assert "Traceback" not in first.text
    (kept,) = unsent_folders(uri)
    assert f"the results are kept in {kept}" in first.text
    solved = task_ids(kept)
    assert 4 <= len(solved) < 8, "the block with the fourth may have had more"
    relay.mode = "pass"
    assert tasks_at(uri, tmp_path / "before") <= solved
    second = Command(tmp_path, uri)
    assert second.status() == 0, second.text
    assert f"{8 - len(solved)} to solve" in second.text
    assert len(tasks_at(uri, tmp_path / "after")) == 8
    assert unsent_folders(uri) == []


@pytest.mark.usefixtures("eight_solves")
@pytest.mark.parametrize("mode", ["refuse", *also("hang")])
def test_a_run_that_ends_while_its_store_is_broken_fails(relay: Relay, tmp_path: Path, mode: str) -> None:
    uri = uri_at(relay, tmp_path)
    run = held_run(relay, uri, tmp_path, mode)
    run.until(lambda: "takes no results since" in run.text)
    run.go_on()
    assert run.status() == 1
    assert "report: " not in run.text
    (kept,) = unsent_folders(uri)
    assert f"the results are kept in {kept}" in run.text
    assert len(task_ids(kept)) == 8
    relay.mode = "pass"
    again = Command(tmp_path, uri)
    assert again.status() == 0, again.text
    assert "8 in the store, 0 to solve" in again.text
    assert len(tasks_at(uri, tmp_path / "after")) == 8


@pytest.mark.usefixtures("eight_solves")
@pytest.mark.parametrize("mode", ["hang", "slow", *also("refuse")])
def test_a_store_that_is_broken_for_a_while_has_everything_in_the_end(
    relay: Relay, tmp_path: Path, mode: str
) -> None:
    uri = uri_at(relay, tmp_path)
    run = held_run(relay, uri, tmp_path, mode)
    if mode != "slow":
        run.until(lambda: "takes no results" in run.text)
    relay.mode = "pass"
    run.go_on()
    assert run.status() == 0, run.text
    assert ("takes results again" in run.text) == (mode != "slow")
    assert len(tasks_at(uri, tmp_path / "after")) == 8
    assert unsent_folders(uri) == []


@pytest.mark.usefixtures("eight_solves")
def test_a_stopped_run_says_stored_only_of_what_the_store_has(relay: Relay, tmp_path: Path) -> None:
    """The store is slow: what is there when the run ends must be what the run says."""
    uri = uri_at(relay, tmp_path)
    run = held_run(relay, uri, tmp_path, "slow")
    run.stop()
    assert run.status() == 1
    relay.mode = "pass"
    kept = unsent_folders(uri)
    assert ("is stored" in run.text) == (kept == [])
    assert ("results are kept in" in run.text) == (kept != [])
    if kept:
        assert tasks_at(uri, tmp_path / "there") <= task_ids(kept[0])


@pytest.mark.parametrize("mode", ["refuse", "hang", "cut"])
def test_a_store_that_is_broken_from_the_start_is_said_before_anything_runs(
    relay: Relay, tmp_path: Path, write_study: WriteStudy, mode: str
) -> None:
    write_study()
    relay.mode = mode
    run = Command(tmp_path, uri_at(relay, tmp_path))
    assert run.status() == 2
    assert "s3://bucket" in run.text
    assert "to solve" not in run.text
    assert "Traceback" not in run.text
