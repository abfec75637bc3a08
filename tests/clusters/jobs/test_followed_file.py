"""A file of a head as it changes: what the helper job prints, and what is made of its log."""

from __future__ import annotations

import base64
import os
import shlex
import threading
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from clusters.jobs import job_file
from clusters.jobs.followed_file import MOST_BYTES, follow_file
from clusters.jobs.job_file import MARK, line_of, lines
from clusters.jobs.jobs import JobClient, JobRequest, JobState
from clusters.runtime import ClusterRefusedError


class Head(JobClient):
    """Runs helper jobs here: a job's log comes in the pieces that ``log_of`` makes of its command."""

    def __init__(self, log_of: Callable[[list[str]], Iterator[str]], status: str = "SUCCEEDED") -> None:
        self.address, self.log_of, self.status = "http://head:8265", log_of, status
        self.jobs: dict[str, str] = {}
        self.commands: list[list[str]] = []

    def submit(self, request: JobRequest) -> str:
        assert request.working_dir is not None
        assert (request.working_dir / "job_file.py").is_file()
        self.commands.append(shlex.split(request.command))
        job = f"{request.name}-{len(self.commands)}"
        self.jobs[job] = "RUNNING"
        return job

    def pieces(self, job: str, said: Callable[[str], None] = lambda _: None) -> Iterator[str]:
        yield from self.log_of(self.commands[-1])
        self.jobs[job] = self.status

    def state(self, job: str, seconds: float = 1.0) -> JobState:
        return JobState(job, self.jobs[job], "", {})

    def stop(self, job: str) -> bool:
        running = self.jobs[job] == "RUNNING"
        self.jobs[job] = "STOPPED" if running else self.jobs[job]
        return running

    def forget(self, job: str) -> None:
        del self.jobs[job]


def test_each_change_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_file, "LOOK_SECONDS", 0.0)
    path = tmp_path / "progress.json"
    printed = lines(str(path), 3600.0, 10_000)
    seen = []
    for text in (b"one", b"two \n lines", os.urandom(2000)):
        path.write_bytes(text)
        seen.append(next(printed))
    assert all(line.startswith(MARK) and "\n" not in line for line in seen)
    unpacked = [zlib.decompress(base64.b64decode(line.removeprefix(MARK))) for line in seen]
    assert unpacked[:2] == [b"one", b"two \n lines"]
    assert list(lines(str(path), 3600.0, 1)) == seen[2:], "it ends once it has printed enough"
    assert list(lines(str(path), 0.0, 10_000)) == [], "or after its time"


def test_what_changes_arrives_until_nobody_looks(tmp_path: Path) -> None:
    """Over pieces that end anywhere, helpers that end, and other words in the log."""
    closing = threading.Event()
    taken: list[bytes] = []

    def log_of(command: list[str]) -> Iterator[str]:
        number = len(head.commands)
        text = f"some warning\n{line_of(b'a%d' % number)}\n{line_of(b'b%d' % number)}\n{line_of(b'cut')}"
        for begin in range(0, len(text), 7):
            yield text[begin : begin + 7]
            yield ""

    def take(content: bytes) -> None:
        taken.append(content)
        if len(taken) == 5:
            closing.set()

    head = Head(log_of)
    follow_file(head, "~/runs/a run/progress.json", take, closing)
    assert taken == [b"a1", b"b1", b"a2", b"b2", b"a3"]
    assert head.jobs == {}, "no helper job is left"
    assert [command[:3] for command in head.commands] == [
        ["python", "job_file.py", "~/runs/a run/progress.json"]
    ] * 3


@pytest.mark.parametrize(
    "line",
    [
        "no base64 at all!",
        base64.b64encode(b"not packed").decode(),
        base64.b64encode(zlib.compress(b"cut short" * 99)[:-9]).decode(),
        base64.b64encode(zlib.compress(bytes(MOST_BYTES + 1))).decode(),
        base64.b64encode(zlib.compress(b"")).decode(),
    ],
)
def test_what_is_no_file_is_refused(line: str) -> None:
    head = Head(lambda _: iter([f"{MARK}{line}\n"]))
    with pytest.raises(ClusterRefusedError, match="no file"):
        follow_file(head, "x", lambda _: None, threading.Event())
    assert head.jobs == {}


def test_a_helper_that_fails_is_said_and_not_begun_again() -> None:
    head = Head(lambda _: iter(["python: not found\n"]), "FAILED")
    with pytest.raises(ClusterRefusedError, match="archsweep-watch-1 is FAILED"):
        follow_file(head, "x", lambda _: None, threading.Event())
    assert len(head.commands) == 1
