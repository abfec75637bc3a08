"""One item in a worker: whatever the work function does, returns or raises comes back as a report."""

from __future__ import annotations

import errno
import os
import pickle
import socket
import time
import traceback
from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from clusters.runtime import OUT_OF_MEMORY, WALL_LIMIT, Completion, Failure, Work

Value = TypeVar("Value")

LONGEST_MESSAGE = 2000
LONGEST_TRACEBACK = 4000
LACKING = ("bad_alloc", "failed to map segment", "Cannot allocate memory", "cannot allocate memory")
"""Words by which the C++ library, the dynamic loader and the operating system say that memory is missing."""


class ItemReport(NamedTuple):
    """What a worker says of one item: the pickled value or a failure, and the seconds the work took."""

    value: bytes | None
    failure: Failure | None
    wall_seconds: float
    cpu_seconds: float


def failure_of(error: BaseException) -> Failure:
    """The error as plain text: an exception object might not survive the way to another process."""
    text = "".join(traceback.format_exception(error, limit=-6))
    if _lacks_memory(error):
        said = f"{type(error).__name__}: {error}"[:LONGEST_MESSAGE]
        message = f"needed more memory than its worker may take ({said}); raise the memory limit"
        return Failure(OUT_OF_MEMORY, message, text[-LONGEST_TRACEBACK:])
    return Failure(type(error).__name__, str(error)[:LONGEST_MESSAGE], text[-LONGEST_TRACEBACK:])


def _lacks_memory(error: BaseException) -> bool:
    """Whether memory was missing: C++ and the dynamic loader have no error type for it, only words."""
    if isinstance(error, MemoryError) or (isinstance(error, OSError) and error.errno == errno.ENOMEM):
        return True
    return any(words in str(error) for words in LACKING)


def load_preparation(pickled: bytes) -> Callable[[], None]:
    """What a worker does before its first item; raises what the unpickling raises, as a failed start does."""
    prepare: Callable[[], None] = pickle.loads(pickled)
    return prepare


def load_work(pickled: bytes) -> Work | Failure:
    """The work function, or why it cannot be had here (each item then fails with that)."""
    try:
        work: Work = pickle.loads(pickled)
    except Exception as error:  # noqa: BLE001 - the worker's boundary: imports may raise anything
        return failure_of(error)
    return work


def execute(work: Work | Failure, payload: bytes) -> ItemReport:
    """Run the work on a pickled payload. SystemExit is an error like others; KeyboardInterrupt passes."""
    if isinstance(work, Failure):
        return ItemReport(None, work, 0.0, 0.0)
    wall, cpu = time.perf_counter(), time.process_time()
    tried = attempt(lambda: dump_value(work(pickle.loads(payload))))
    value, failure = (None, tried) if isinstance(tried, Failure) else (tried, None)
    return ItemReport(value, failure, time.perf_counter() - wall, time.process_time() - cpu)


def attempt(work: Callable[[], Value]) -> Value | Failure:
    """What ``work`` returns, or why it failed. SystemExit is a failure, too; KeyboardInterrupt passes."""
    try:
        return work()
    except (Exception, SystemExit) as error:  # noqa: BLE001 - the worker's boundary: a failure is a result
        return failure_of(error)


def worker_name() -> str:
    """This process for people: its host and its number."""
    return f"{socket.gethostname()}:{os.getpid()}"


def completion_of(key: str, report: ItemReport, worker: str, attempts: int) -> Completion:
    """The report as the caller sees it; a value that cannot be unpickled here is a failure too."""
    pickled, failure, wall, cpu = report
    value: Any = None
    if pickled is not None:
        try:
            value = pickle.loads(pickled)
        except Exception as error:  # noqa: BLE001 - the worker's boundary: the value is the work's own
            failure = failure_of(error)
    return Completion(key, value, failure, worker, wall, cpu, attempts)


def wall_limit_failure(seconds: float) -> Failure:
    return Failure(WALL_LIMIT, f"ran longer than the wall limit of {seconds:g} s and was ended")


def dump_value(value: Any) -> bytes:
    """The result as bytes; raises TypeError with the remedy when it cannot be sent."""
    try:
        return pickle.dumps(value, protocol=pickle.HIGHEST_PROTOCOL)
    except Exception as error:
        raise TypeError(
            f"the result, a {type(value).__name__}, cannot be pickled ({error}); return plain data"
        ) from error
