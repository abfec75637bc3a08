"""The runtime without any other process: items run in the caller as completions are asked for."""

from __future__ import annotations

import pickle
import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

from clusters.execution import ItemReport, completion_of, execute, wall_limit_failure, worker_name
from clusters.pace import pace_for
from clusters.runtime import Completion, RuntimeSettings, Work


class InProcessRuntime:
    """Runs items lazily in as_completed, in submission order, pickling values as a cluster would.

    Raises ValueError for settings that it cannot keep: a memory limit, an address, more than one worker.

    The wall limit works in the main thread only (elsewhere it is refused) and interrupts Python code: a
    solver inside one long C call is ended when that call returns. An item that kills its process kills the
    caller, and KeyboardInterrupt passes through with the interrupted item still pending.
    """

    def __init__(self, work: Work, settings: RuntimeSettings | None = None) -> None:
        settings = settings or RuntimeSettings()
        if settings.memory_limit_bytes is not None:
            raise ValueError("a memory limit would limit the caller itself; use the Ray runtime for it")
        if settings.address or settings.workers not in (None, 1):
            raise ValueError("the in-process runtime is one worker without an address; use the Ray runtime")
        if settings.wall_limit_seconds and threading.current_thread() is not threading.main_thread():
            raise ValueError("the wall limit needs the main thread; use the Ray runtime or no limit")
        self._work, self._settings = work, settings
        self._items: dict[str, bytes] = {}
        self._worker = worker_name()
        self._closed = False

    def submit(self, key: str, payload: Any) -> None:
        if self._closed:
            raise RuntimeError("this runtime is closed")
        if key in self._items:
            raise ValueError(f"expected a new key, found {key!r}, which is still pending; submit each once")
        self._items[key] = pickle.dumps(payload, protocol=pickle.HIGHEST_PROTOCOL)

    @property
    def pending(self) -> int:
        return len(self._items)

    @property
    def workers(self) -> int:
        return 1

    @property
    def sub_drivers(self) -> int:
        return 0

    @property
    def capacity(self) -> int:
        return max(0, pace_for(1, self._settings.window).window - len(self._items))

    def as_completed(self) -> Iterator[Completion]:
        while self._items:
            key, payload = next(iter(self._items.items()))
            report = self._run(payload)
            del self._items[key]
            yield completion_of(key, report, self._worker, attempts=1)

    def _run(self, payload: bytes) -> ItemReport:
        limit = self._settings.wall_limit_seconds
        if limit is None:
            return execute(self._work, payload)
        wall, cpu = time.perf_counter(), time.process_time()
        try:
            with _alarm(limit):
                return execute(self._work, payload)
        except _OverLimit:
            wall, cpu = time.perf_counter() - wall, time.process_time() - cpu
            return ItemReport(None, wall_limit_failure(limit), wall, cpu)

    def close(self) -> None:
        self._closed = True
        self._items.clear()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _OverLimit(BaseException):
    """Not an Exception, so that a broad except inside the work cannot swallow the limit."""


@contextmanager
def _alarm(seconds: float) -> Iterator[None]:
    def ring(signum: int, frame: FrameType | None) -> None:
        raise _OverLimit

    previous = signal.signal(signal.SIGALRM, ring)
    signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, previous)
