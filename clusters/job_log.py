"""Following a job of a Ray cluster: what it prints, each letter once, over connections that may break."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import dataclass, field
from math import inf
from queue import Empty, SimpleQueue
from typing import TypeVar

from clusters.runtime import ClusterRefusedError, WorkersUnavailableError

POLL_SECONDS = (0.5, 5.0)
"""How long to wait between two questions whether a job has ended: at first, and after a while."""
LOST_SECONDS = 300.0
"""How long the cluster may be out of reach (a closed laptop, a new network) before following gives up."""
SAID_SECONDS = 15.0
"""How long to wait between two notices that the cluster is still out of reach."""
RECONNECT_SECONDS = (1.0, 60.0)
"""How long to wait before a broken log connection is made again: the first time, and at most."""
IDLE_SECONDS = 300.0
"""A log connection that brings nothing for so long is made again: some routers forget quiet ones."""
LAST_SECONDS = 15.0
"""How long the end of an ended job's log may take; then the whole log is fetched once."""
LOOK_SECONDS = 0.5
"""How often the clock is looked at while nothing happens."""
NO_SUCH_JOB = "status code 404"
"""In what Ray's client says of a job that the cluster does not know, or no longer."""

Value = TypeVar("Value")


def within(seconds: float, call: Callable[[], Value]) -> Value:
    """What ``call`` returns or raises; TimeoutError if that takes longer than ``seconds``.

    Ray's client asks without a time limit: it would wait for ever for a dashboard that is stopped, not dead.
    So the call runs in a thread of its own, which is left behind when the time is over. The store's calls to
    URIs have the same need (``results.store.remote.background``); the two packages import nothing of each
    other, and a dozen lines are fewer than a package for both.
    """
    outcome: Future[Value] = Future()

    def run() -> None:
        try:
            outcome.set_result(call())
        # all errors, KeyboardInterrupt and SystemExit too: an error that stayed in this thread would leave
        # the caller waiting until the time is over; `result` raises it there
        except BaseException as error:  # noqa: BLE001
            outcome.set_exception(error)

    threading.Thread(target=run, daemon=True).start()
    try:
        return outcome.result(seconds)
    except TimeoutError:
        if outcome.done():
            raise
        raise TimeoutError(f"no answer within {seconds:.0f} s") from None


class LogTail:
    """One connection that brings a job's log from its beginning.

    A thread of its own reads it; ``put`` gets each piece of text, then one TailEnd.
    """

    def __init__(
        self, pieces: Callable[[], AsyncIterator[str]], put: Callable[[LogPiece | TailEnd], None]
    ) -> None:
        self._pieces, self._put = pieces, put
        self._loop = asyncio.new_event_loop()
        self._reading = self._loop.create_task(self._read())
        threading.Thread(target=self._run, name="log", daemon=True).start()

    def close(self) -> None:
        """Put nothing more from now on; the connection itself ends a moment later."""
        with suppress(RuntimeError):  # the loop is closed: the connection has ended by itself
            self._loop.call_soon_threadsafe(self._reading.cancel)

    def _run(self) -> None:
        self._loop.run_until_complete(asyncio.wait({self._reading}))
        if not self._reading.cancelled():
            self._put(TailEnd(self, self._reading.exception()))
        self._loop.run_until_complete(self._loop.shutdown_asyncgens())
        self._loop.close()

    async def _read(self) -> None:
        async for text in self._pieces():
            self._put(LogPiece(self, text))


@dataclass(frozen=True)
class LogPiece:
    """Text of the log, which follows what ``tail`` brought before."""

    tail: LogTail
    text: str


@dataclass(frozen=True)
class TailEnd:
    """The last that ``tail`` puts: the log is whole (``failure`` None), or the connection broke."""

    tail: LogTail
    failure: BaseException | None


@dataclass(frozen=True)
class JobPoll:
    """What the cluster said when asked: whether the job has ended, or in ``failure`` why it did not say."""

    ended: bool
    failure: WorkersUnavailableError | ClusterRefusedError | None = None


@dataclass
class Follower:
    """Follows what a job prints until it has ended, over connections that may break.

    has_ended: asks the cluster whether the job has ended; raises WorkersUnavailableError or
    ClusterRefusedError. tail: opens a connection that brings the log from its beginning (Ray has none that
    begins later, so letters that were handed out already are skipped). whole: fetches the log as it is.
    said: takes notices for people: contact is lost, still lost, there again.

    Two threads put events into one queue, a JobPoll every few seconds and a LogPiece whenever the log grows;
    whoever iterates :meth:`pieces` takes them out, so all state is changed in one thread.
    """

    has_ended: Callable[[], bool]
    tail: Callable[[], AsyncIterator[str]]
    whole: Callable[[], str]
    said: Callable[[str], None]
    _events: SimpleQueue[LogPiece | TailEnd | JobPoll] = field(default_factory=SimpleQueue)
    _closing: threading.Event = field(default_factory=threading.Event)
    _hurry: threading.Event = field(default_factory=threading.Event)
    """Set when the next question is due at once."""
    _tail: LogTail | None = None
    _printed: int = 0
    """How many letters of the log were handed out."""
    _passed: int = 0
    """How many letters the present connection has brought, those handed out before included."""
    _failures: int = 0
    """How many connections in a row broke before they brought anything new."""
    _connect_at: float = -inf
    """When to connect again, while there is no connection; inf once the log is whole."""
    _moved: float = 0.0
    """When the present connection began or last brought something."""
    _grown: float = -inf
    """When any connection last brought something new."""
    _heard: float = 0.0
    """When the cluster answered last."""
    _met: bool = False
    """Whether the cluster ever answered."""
    _lost: bool = False
    """Whether contact is lost."""
    _noticed: float = 0.0
    """When whoever follows was last told that contact is lost."""
    _ended_at: float | None = None
    """When the job was found to have ended; None before."""

    def pieces(self) -> Iterator[str]:
        """Each letter once, as it comes; empty text about every LOOK_SECONDS in which nothing comes.

        Raises WorkersUnavailableError after LOST_SECONDS without contact, ClusterRefusedError where the
        cluster knows no such job.
        """
        self._heard = time.monotonic()
        threading.Thread(target=self._ask, name="job", daemon=True).start()
        try:
            while not self._is_over():
                yield self._new_in(self._next())
            if self._connect_at != inf:
                yield self.whole()[self._printed :]
        finally:
            self._closing.set()
            self._hurry.set()
            self._disconnect()

    def _ask(self) -> None:
        pause = POLL_SECONDS[0]
        while not self._closing.is_set():
            try:
                answer = JobPoll(self.has_ended())
            except (WorkersUnavailableError, ClusterRefusedError) as error:
                answer = JobPoll(False, error)
            self._events.put(answer)
            if answer.ended:
                return
            self._hurry.wait(pause)
            self._hurry.clear()
            pause = min(pause * 1.2, POLL_SECONDS[1])

    def _next(self) -> LogPiece | TailEnd | JobPoll | None:
        """The next event, None if nothing happens for LOOK_SECONDS.

        Connects to the log when that is due, and anew where a connection was silent for IDLE_SECONDS.
        """
        now = time.monotonic()
        if self._tail is not None and now - self._moved > IDLE_SECONDS:
            self._disconnect()
            self._connect_at = now
        if self._tail is None and not self._lost and now >= self._connect_at:
            self._tail, self._passed, self._moved = LogTail(self.tail, self._events.put), 0, now
        try:
            return self._events.get(timeout=LOOK_SECONDS)
        except Empty:
            return None

    def _new_in(self, event: LogPiece | TailEnd | JobPoll | None) -> str:
        """Take note of an event; returns the text that it brought and that was not handed out before."""
        if isinstance(event, JobPoll):
            self._answered(event)
        elif isinstance(event, TailEnd) and event.tail is self._tail:
            self._broken(event.failure)
        elif isinstance(event, LogPiece) and event.tail is self._tail:
            self._moved = time.monotonic()
            begin, self._passed = self._passed, self._passed + len(event.text)
            new = event.text[max(0, self._printed - begin) :]
            if new:
                self._printed += len(new)
                self._failures, self._grown = 0, self._moved
            return new
        return ""

    def _answered(self, answer: JobPoll) -> None:
        now = time.monotonic()
        if answer.failure is not None:
            self._unanswered(answer.failure, now)
            return
        if self._lost:
            self.said(f"contact again, after {now - self._heard:.0f} s")
            # a connection from before may be dead without a sign
            self._disconnect()
            self._connect_at = min(self._connect_at, now)
        self._lost, self._met, self._heard = False, True, now
        if answer.ended:
            self._ended_at = now

    def _unanswered(self, failure: WorkersUnavailableError | ClusterRefusedError, now: float) -> None:
        silent = now - self._heard
        unknown = isinstance(failure, ClusterRefusedError) and (not self._met or NO_SUCH_JOB in str(failure))
        if unknown or silent > LOST_SECONDS:
            raise failure
        if not self._lost:
            self._lost, self._noticed = True, now
            self.said(f"contact is lost: {failure}; trying again for {LOST_SECONDS:.0f} s")
        elif now - self._noticed >= SAID_SECONDS:
            self._noticed = now
            self.said(f"no contact for {silent:.0f} s, trying again: {failure}")

    def _broken(self, failure: BaseException | None) -> None:
        """The connection has ended; without a failure Ray has sent all, as it does once the job has ended."""
        self._disconnect()
        self._hurry.set()
        if failure is None:
            self._connect_at = inf
            return
        first, most = RECONNECT_SECONDS
        self._connect_at = time.monotonic() + min(most, first * 2 ** min(self._failures, 30))
        self._failures += 1
        if self._failures == 3 and not self._lost:
            self.said(f"the log cannot be followed ({failure}); what it lacks comes when the job has ended")

    def _disconnect(self) -> None:
        if self._tail is not None:
            self._tail.close()
            self._tail = None

    def _is_over(self) -> bool:
        """Whether the job has ended and its log is whole, or has had the time to become so."""
        if self._ended_at is None:
            return False
        return self._connect_at == inf or time.monotonic() - max(self._ended_at, self._grown) > LAST_SECONDS
