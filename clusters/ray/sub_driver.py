"""A sub-driver: an actor that feeds some of a cluster's workers with parts of the driver's payloads."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from functools import partial
from itertools import count
from typing import Any, Protocol

import ray

from clusters.execution import ItemReport, attempt, dump_value, load_work, worker_name
from clusters.runtime import (
    Completion,
    Failure,
    JoinedCompletion,
    PayloadDivision,
    Runtime,
    RuntimeSettings,
    Work,
    WorkersUnavailableError,
)

TICK_SECONDS = 0.05
"""How long a payload that has just come may wait for its first part to be handed out."""


class Feeder(Runtime, Protocol):
    """A runtime whose number of workers is said as it runs, and that is asked for one round at a time."""

    def feed(self, workers: int) -> None:
        """Have so many workers from now on."""

    def round(self, seconds: float) -> Iterator[Completion]:
        """The completions that are there; then wait up to so many seconds for others."""


class SubDriver:
    """Runs payloads on workers of its own, several payloads at a time.

    A call to :meth:`run` waits in its thread for the answer. One further thread has the runtime: it takes
    payloads in, hands parts out, and joins what comes back. What ends it is raised by all calls.
    """

    def __init__(self, work: bytes, settings: bytes) -> None:
        """``settings``: those of its runtime, and the class of it, pickled."""
        self._settings, self._work = settings, work
        self._changed = threading.Condition()
        self._arrived: list[tuple[str, bytes]] = []
        self._answers: dict[str, Future[JoinedCompletion]] = {}
        self._numbers = count()
        self._workers: int | None = None
        """How many there are to be; None: the driver has not said it yet."""
        self._ended: BaseException | None = None
        threading.Thread(target=self._serve, name="sub-driver", daemon=True).start()

    def identity(self) -> tuple[str, str, int]:
        """As :meth:`clusters.ray.worker.Worker.identity`; its workers may not be there yet."""
        return worker_name(), ray.get_runtime_context().get_node_id(), 0

    def feed(self, workers: int) -> None:
        """Have so many workers from now on."""
        with self._changed:
            self._workers = workers
            self._changed.notify()

    def run(self, payloads: Sequence[bytes]) -> Iterator[ItemReport]:
        """A report for each payload, in order."""
        for answer in [self._accept(payload) for payload in payloads]:
            done = answer.result()
            if done.error is not None:
                yield ItemReport(None, done.error, done.wall_seconds, done.cpu_seconds)
                continue
            tried = attempt(partial(dump_value, done.value))
            value, failure = (None, tried) if isinstance(tried, Failure) else (tried, None)
            yield ItemReport(value, failure, done.wall_seconds, done.cpu_seconds)

    def _accept(self, payload: bytes) -> Future[JoinedCompletion]:
        with self._changed:
            if self._ended is not None:
                raise self._ended
            key = str(next(self._numbers))
            answer = self._answers[key] = Future()
            self._arrived.append((key, payload))
            self._changed.notify()
        return answer

    def _serve(self) -> None:
        """Feed workers until the process ends."""
        try:
            with self._changed:
                self._changed.wait_for(lambda: self._workers is not None)
            settings: RuntimeSettings
            opened: Callable[[Work, RuntimeSettings], Feeder]
            settings, opened = _loaded(attempt(partial(pickle.loads, self._settings)))
            assert settings.divide is not None
            with opened(_loaded(load_work(self._work)), settings) as runtime:
                self._feed(runtime, settings.divide())
        except BaseException as error:  # noqa: BLE001 - the thread's boundary: the calls raise it
            with self._changed:
                self._ended = error
                for answer in self._answers.values():
                    answer.set_exception(error)

    def _feed(self, runtime: Feeder, division: PayloadDivision) -> None:
        fed = None
        while True:
            with self._changed:
                if not runtime.pending:
                    # the pool is looked after while nothing is pending, too
                    self._changed.wait(TICK_SECONDS)
                arrived, self._arrived = self._arrived, []
                wanted = self._workers
            if wanted is not None and wanted != fed:
                runtime.feed(wanted)
                fed = wanted
            for key, payload in arrived:
                division.accept(key, pickle.loads(payload))
            self._fill(runtime, division)
            for completion in runtime.round(TICK_SECONDS):
                self._answer(division, completion)
                self._fill(runtime, division)

    def _fill(self, runtime: Feeder, division: PayloadDivision) -> None:
        while runtime.capacity > 0 and (part := division.draw(runtime.workers)) is not None:
            runtime.submit(*part)

    def _answer(self, division: PayloadDivision, completion: Completion) -> None:
        for done in division.file(completion):
            with self._changed:
                answer = self._answers.pop(done.key)
            answer.set_result(done)


def _loaded(value: Any) -> Any:
    """The value; raises WorkersUnavailableError for a failure, which any sub-driver would come to."""
    if isinstance(value, Failure):
        said = f"{value.type}: {value.message} (sub-driver {worker_name()})"
        raise WorkersUnavailableError(f"what is to be run cannot be loaded: {said}")
    return value
