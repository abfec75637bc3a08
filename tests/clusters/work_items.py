"""Work functions that the runtimes' tests send to workers; a payload is (what to do, argument)."""

from __future__ import annotations

import itertools
import os
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.clusters.processes import until


class Unloadable:
    """Pickles, and cannot be unpickled."""

    def __reduce__(self) -> tuple[Any, ...]:
        return _refuse, ()


def _refuse() -> None:
    raise ValueError("not to be loaded")


def work(payload: tuple[str, Any]) -> Any:
    action, argument = payload
    return ACTIONS[action](argument)


def echo(argument: Any) -> Any:
    return argument


def fail(message: str) -> None:
    raise ArithmeticError(message)


def import_nothing(name: str) -> Any:
    return __import__(name)


def leave(status: int) -> None:
    sys.exit(status)


def generator(count: int) -> Any:
    return (number for number in range(count))


def unloadable(_: Any) -> Unloadable:
    return Unloadable()


def nap(seconds: float) -> float:
    time.sleep(seconds)
    return seconds


def nap_swallowing_errors(seconds: float) -> float:
    try:
        time.sleep(seconds)
    except Exception:  # noqa: BLE001 - what a careless solver does
        return -1.0
    return seconds


def busy(_: Any) -> int:
    return sum(itertools.repeat(1, 10**13))


def allocate(size: int) -> int:
    return len(bytearray(size))


def threads(_: Any) -> str | None:
    return os.environ.get("OMP_NUM_THREADS")


def log_run(path: str) -> str:
    with open(path, "a", encoding="ascii") as log:
        log.write("run\n")
    return path


def die(path: str) -> None:
    log_run(path)
    os._exit(3)


def die_once(path: str) -> str:
    """Kill the own process as the kernel would, the first time it is run for this path."""
    first = not Path(path).exists()
    log_run(path)
    if first:
        os.kill(os.getpid(), signal.SIGKILL)
    return path


@dataclass(frozen=True)
class Gathered:
    """A work function that begins once so many workers have work: one that starts slowly gets its part."""

    function: Callable[[Any], Any]
    folder: str
    """Holds a file for each worker."""
    workers: int

    def __call__(self, payload: Any) -> Any:
        (Path(self.folder) / str(os.getpid())).touch()
        until(lambda: len(os.listdir(self.folder)) >= self.workers, "the other workers")
        return self.function(payload)


ACTIONS = {
    action.__name__: action
    for action in (
        echo,
        fail,
        import_nothing,
        leave,
        generator,
        unloadable,
        nap,
        nap_swallowing_errors,
        busy,
        allocate,
        threads,
        log_run,
        die,
        die_once,
    )
}


KEPT: list[bytearray] = []


def mapped(size: int) -> None:
    """A preparation that takes so many bytes and keeps them, as a library does."""
    KEPT.append(bytearray(size))
