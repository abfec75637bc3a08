"""Following a job whose cluster comes and goes: each letter once, trouble said, and one log connection."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from itertools import chain
from typing import Any

import pytest

from clusters import job_log
from clusters.job_log import Follower, within
from clusters.runtime import ClusterRefusedError, WorkersUnavailableError

GONE = WorkersUnavailableError("no route")


@pytest.fixture(autouse=True)
def _quick(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_log, "POLL_SECONDS", (0.01, 0.02))
    monkeypatch.setattr(job_log, "RECONNECT_SECONDS", (0.01, 0.05))
    monkeypatch.setattr(job_log, "LOOK_SECONDS", 0.01)
    monkeypatch.setattr(job_log, "SAID_SECONDS", 0.1)
    monkeypatch.setattr(job_log, "LAST_SECONDS", 0.3)


@dataclass
class Cluster:
    """A job's log that grows as a test says; connections bring pieces of ``size`` letters, and break."""

    log: str = ""
    ended: bool = False
    reachable: bool = True
    brings_logs: bool = True
    size: int = 7
    connections: int = 0
    downloads: int = 0
    notices: list[str] = field(default_factory=list)

    def has_ended(self) -> bool:
        if not self.reachable:
            raise GONE
        return self.ended

    async def tail(self) -> AsyncIterator[str]:
        self.connections += 1
        at = 0
        while True:
            if not (self.reachable and self.brings_logs):
                raise RuntimeError("WebSocket connection closed unexpectedly with close code 1006")
            if at < len(self.log):
                yield self.log[at : at + self.size]
                at = min(len(self.log), at + self.size)
            elif self.ended:
                return
            else:
                await asyncio.sleep(0.005)

    def whole(self) -> str:
        self.downloads += 1
        return self.log

    def follower(self) -> Follower:
        return Follower(self.has_ended, self.tail, self.whole, self.notices.append)


def until(holds: Callable[[], object]) -> None:
    deadline = time.monotonic() + 20
    while not holds():
        assert time.monotonic() < deadline
        time.sleep(0.005)


def in_background(script: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=script, daemon=True)
    thread.start()
    return thread


LINES = [f"line {number}: äöü \U0001f600\n" for number in range(200)]


def said_so_often(cluster: Cluster, what: str, times: int) -> bool:
    """Whether that many notices of the cluster say it."""
    return sum(what in said for said in cluster.notices) == times


def test_a_log_is_downloaded_once() -> None:
    cluster = Cluster()
    got: list[str] = []

    def job() -> None:
        for line in LINES:
            cluster.log += line
            until(lambda: len("".join(got)) == len(cluster.log))
        cluster.ended = True

    running = in_background(job)
    got.extend(cluster.follower().pieces())
    running.join()
    assert "".join(got) == "".join(LINES)
    assert (cluster.connections, cluster.downloads, cluster.notices) == (1, 0, [])


@pytest.mark.parametrize("size", [1, 7, 20_000])
def test_outages_neither_repeat_nor_lose_a_letter(size: int) -> None:
    cluster = Cluster(size=size)

    def job() -> None:
        for number, line in enumerate(LINES):
            cluster.log += line
            if number % 50 == 25:
                cluster.reachable = False
                cluster.log += "printed while nobody could see it\n"
                lost = number // 50 + 1
                until(partial(said_so_often, cluster, "contact is lost", lost))
                cluster.reachable = True
                until(partial(said_so_often, cluster, "contact again", lost))
        cluster.ended = True

    running = in_background(job)
    got = "".join(cluster.follower().pieces())
    running.join()
    assert got == cluster.log
    assert cluster.downloads == 0
    assert cluster.connections >= 5


def test_a_log_that_cannot_be_followed_comes_in_the_end() -> None:
    """As behind a proxy that knows no WebSockets: said once, and one download in all."""
    cluster = Cluster(log="".join(LINES), brings_logs=False)

    def job() -> None:
        until(lambda: cluster.notices)
        cluster.ended = True

    in_background(job)
    assert "".join(cluster.follower().pieces()) == "".join(LINES)
    assert cluster.downloads == 1
    (notice,) = cluster.notices
    assert "cannot be followed" in notice


def test_a_connection_that_died_without_a_sign_costs_no_letter() -> None:
    cluster = Cluster(log="one\ntwo\n")
    hanging: list[int] = []

    async def tail() -> AsyncIterator[str]:
        yield "one\n"
        hanging.append(1)
        await asyncio.sleep(3600)

    def job() -> None:
        until(lambda: hanging)
        cluster.ended = True

    in_background(job)
    follower = Follower(cluster.has_ended, tail, cluster.whole, cluster.notices.append)
    assert "".join(follower.pieces()) == "one\ntwo\n"
    assert cluster.downloads == 1


def test_lost_contact_is_said_again_and_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(job_log, "LOST_SECONDS", 0.5)
    cluster = Cluster(log="one\n")
    pieces = cluster.follower().pieces()
    assert "one" in "".join(piece for piece, _ in zip(pieces, range(3), strict=False))
    cluster.reachable = False
    with pytest.raises(WorkersUnavailableError, match="no route"):
        list(pieces)
    assert cluster.notices[0].startswith("contact is lost: no route; trying again")
    assert len(cluster.notices) >= 3
    assert all("no contact for" in said for said in cluster.notices[1:])


def test_an_unknown_job_is_no_lost_contact() -> None:
    def unknown() -> bool:
        raise ClusterRefusedError("status code 404: Job j does not exist")

    with pytest.raises(ClusterRefusedError, match="does not exist"):
        list(Follower(unknown, Cluster().tail, str, print).pieces())


def test_a_head_that_forgot_the_job_is_no_lost_contact_either() -> None:
    """It was started again: 5xx answers on the way are waited out, the 404 is final."""
    refusals = (ClusterRefusedError(f"status code {code}") for code in (503, 404))
    answers: Iterator[Any] = chain([False], refusals)

    def ended() -> bool:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return bool(answer)

    notices: list[str] = []
    with pytest.raises(ClusterRefusedError, match="404"):
        list(Follower(ended, Cluster().tail, str, notices.append).pieces())
    assert len(notices) == 1


def test_a_call_is_left_behind_when_it_takes_too_long() -> None:
    freed = threading.Event()
    with pytest.raises(TimeoutError, match="no answer within 0 s"):
        within(0.05, freed.wait)
    freed.set()
    assert within(5.0, lambda: 7) == 7
    with pytest.raises(TimeoutError, match=r"^its own$"):
        within(5.0, raising(TimeoutError("its own")))
    with pytest.raises(KeyError):
        within(5.0, raising(KeyError("x")))


def raising(error: Exception) -> Callable[[], None]:
    def call() -> None:
        raise error

    return call


def test_nothing_is_left_running() -> None:
    before = threading.active_count()
    for _ in range(5):
        list(Cluster(log="x", ended=True).follower().pieces())
    until(lambda: threading.active_count() <= before)
