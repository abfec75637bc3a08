"""Sends a run folder to its URI again and again while it is written, and says when the URI takes nothing."""

from __future__ import annotations

import threading
import time
import warnings
from collections.abc import Callable
from dataclasses import dataclass, field

from results.errors import ResultsError
from results.store.remote.background import Background

SILENT_SECONDS = 15.0
"""After so long without a sent file a push counts as failed."""
AGAIN_SECONDS = 60.0
"""How long to wait between two warnings of the same trouble."""
PAUSE_SECONDS = 1.0
"""How long to wait between two pushes of `Mirror.finish`."""


@dataclass
class Mirror:
    """Calls ``push`` every so many seconds in threads of its own, one call at a time.

    push: makes the URI equal to the folder, or raises. sent: says how many files have gone so far, which
    tells a slow store from one that hangs. uri, kept_in: named in the warnings. There is one
    at the first push that fails, one a minute while pushes fail, and one when a push succeeds again.
    """

    push: Callable[[], None]
    sent: Callable[[], int]
    uri: str
    kept_in: str
    every: float
    _ending: threading.Event = field(default_factory=threading.Event)
    _push: Background[None] | None = None
    _begun: float = 0.0
    """When the latest push began, in seconds of the monotonic clock, as all times below."""
    _gone: float = 0.0
    """When the number of sent files was last seen to have grown."""
    _count: int = 0
    _failing_since: float | None = None
    _warned: float = 0.0

    def __post_init__(self) -> None:
        self._thread = threading.Thread(target=self._run, name="mirror", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def finish(self, seconds: float, *, in_all: bool = False) -> str:
        """Push until the URI has everything; returns why it has not, empty once it has.

        Gives up when no file has gone for ``seconds``; with ``in_all`` after so many seconds, even if files
        go. May be called again after KeyboardInterrupt.
        """
        self._ending.set()
        self._thread.join()
        began = time.monotonic()
        # a push that is under way may have begun before the last row was written
        while self._push is not None and not self._push.wait(PAUSE_SECONDS):
            if reason := self._given_up(began, seconds, in_all):
                return reason
        while True:
            push = self._begin()
            while not push.wait(PAUSE_SECONDS):
                if reason := self._given_up(began, seconds, in_all):
                    return reason
            if not (failure := self._look()):
                return ""
            if self._given_up(began, seconds, in_all):
                return failure
            time.sleep(PAUSE_SECONDS)

    def _given_up(self, began: float, seconds: float, in_all: bool) -> str:
        """What is wrong, once the time to finish in is over; empty before."""
        trouble, now = self._look(), time.monotonic()
        if now - (began if in_all else max(began, self._gone)) <= seconds:
            return ""
        return trouble or f"it is slow: the {seconds:.0f} s to finish in are over"

    def _run(self) -> None:
        while not self._ending.wait(self.every):
            self._look()
            if self._push is None or self._push.ended:
                self._begin()

    def _begin(self) -> Background[None]:
        self._begun = time.monotonic()
        self._push = Background(self.push)
        return self._push

    def _look(self) -> str:
        """What is wrong with the latest push; warns of it, and once nothing is wrong any more."""
        now, push = time.monotonic(), self._push
        if (count := self.sent()) != self._count:
            self._count, self._gone = count, now
        if push is None:
            return ""
        trouble = ""
        if push.ended:
            failure = push.failure
            if failure is None:
                self._recovered(now)
            elif isinstance(failure, ResultsError):
                trouble = failure.problem
            else:
                trouble = f"{type(failure).__name__}: {failure}"
        elif now - max(self._begun, self._gone) > SILENT_SECONDS:
            trouble = f"it has not answered for {now - max(self._begun, self._gone):.0f} s"
        if trouble:
            self._warn(now, trouble)
        return trouble

    def _warn(self, now: float, trouble: str) -> None:
        if self._failing_since is None:
            self._failing_since = self._warned = now
            said = f"takes no results since {time.strftime('%H:%M:%S')}"
        elif now - self._warned > AGAIN_SECONDS:
            self._warned = now
            said = f"has taken no results for {now - self._failing_since:.0f} s"
        else:
            return
        warnings.warn(
            f"{self.uri} {said} ({trouble}). They are kept in {self.kept_in} and sent once it takes them",
            stacklevel=2,
        )

    def _recovered(self, now: float) -> None:
        if self._failing_since is not None:
            warnings.warn(
                f"{self.uri} takes results again, after {now - self._failing_since:.0f} s", stacklevel=2
            )
            self._failing_since = None
