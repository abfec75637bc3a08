"""What every runtime offers: submit work by key, take completions as they come, in no promised order."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Protocol, Self

Work = Callable[[Any], Any]
"""What a worker does with one payload: a top-level function that can be pickled by name.

It runs in another process, so payload and result are pickled; whatever it raises becomes a failed completion.
"""


def nothing() -> None:
    """No preparation."""


@dataclass(frozen=True, slots=True)
class RuntimeSettings:
    """How much work is held at once, and when an item is given up.

    workers: processes to use; None means one for each CPU of the cluster, followed as nodes come and go.
    window: most items per worker that are accepted and not yet completed (what a killed driver can lose).
    target_seconds: small items are batched until one call to a worker takes about this long.
        ``window`` and ``target_seconds`` follow the number of workers if None (clusters/pace.py).
    wall_limit_seconds: an item that runs longer is ended and reported as failed; None never ends one.
    max_strikes: an item that was running on this many workers when they died is reported as poisonous.
    memory_limit_bytes: address space a worker may add to what an idle one maps, for the work's code and for
        the work; beyond it allocations fail. MemoryLimitError where the code leaves too little for the work.
    address: an existing Ray cluster ("host:port", "auto"); empty starts a local one and ends it on close
        (unless the environment names a cluster in RAY_ADDRESS, as it does inside a submitted job).
    packages: top-level packages of the work; workers import them before anything of the same name that lies
        in the folder where the driver runs.
    prepare: what a worker does before its memory is limited: import and compile what the work will need. The
        limit does not apply meanwhile, but what this takes counts. Without a memory limit it is not run.
    divide: makes what a sub-driver does with payloads; None: the driver feeds all workers itself.
    sub_drivers: how many there are, where payloads can be divided; None: by the number of workers
        (clusters/pace.py).
    """

    workers: int | None = None
    window: int | None = None
    target_seconds: float | None = None
    wall_limit_seconds: float | None = None
    max_strikes: int = 3
    memory_limit_bytes: int | None = None
    address: str = ""
    packages: tuple[str, ...] = ("clusters",)
    prepare: Callable[[], None] = nothing
    divide: Callable[[], PayloadDivision] | None = None
    sub_drivers: int | None = None

    def __post_init__(self) -> None:
        if self.sub_drivers is not None and self.sub_drivers < 0:
            raise ValueError(f"RuntimeSettings.sub_drivers: expected 0 or more, found {self.sub_drivers!r}")
        for name in ("workers", "window", "target_seconds", "wall_limit_seconds", "max_strikes"):
            value = getattr(self, name)
            if value is not None and not value > 0:
                raise ValueError(f"RuntimeSettings.{name}: expected more than 0, found {value!r}")
        if self.memory_limit_bytes is not None and self.memory_limit_bytes < 1 << 20:
            # no process fits into so little: whoever wrote the number took the unit to be MiB
            raise ValueError(
                "RuntimeSettings.memory_limit_bytes: expected at least 1 MiB "
                f"(it is in bytes), found {self.memory_limit_bytes!r}"
            )


@dataclass(frozen=True, slots=True)
class Failure:
    """Why an item has no value: the exception's type name, its message and the last lines of its traceback.

    Three types are made by runtimes themselves: WALL_LIMIT, POISONOUS and OUT_OF_MEMORY.
    """

    type: str
    message: str
    traceback: str = ""


WALL_LIMIT = "WallLimitExceeded"
"""Failure type of an item that was ended because it ran longer than the wall limit."""

OUT_OF_MEMORY = "MemoryError"
"""Failure type of an item that could not get memory, whichever library said so."""

POISONOUS = "PoisonousItem"
"""Failure type of an item that was running each time its worker died, max_strikes times."""


@dataclass(frozen=True, slots=True)
class Completion:
    """One finished item: a value or an error (never both), and what it cost.

    worker is "host:pid" of the process that answered; wall_seconds and cpu_seconds are measured there, of the
    work function only (cpu_seconds is 0 when the worker did not live to tell); attempts counts the times
    the item is known to have been started.
    """

    key: str
    value: Any
    error: Failure | None
    worker: str
    wall_seconds: float
    cpu_seconds: float
    attempts: int

    @property
    def failed(self) -> bool:
        return self.error is not None


@dataclass(frozen=True, slots=True)
class JoinedCompletion:
    """What became of a payload that a sub-driver has cut up: a value or a failure, as of a completion.

    The seconds are those of workers, in all.
    """

    key: str
    value: Any
    error: Failure | None
    wall_seconds: float
    cpu_seconds: float


class PayloadDivision(Protocol):
    """How a sub-driver divides payloads among its workers, and joins what comes back.

    A part is a payload of the same work, so that a worker does not know who sent it.
    """

    def accept(self, key: str, payload: Any) -> None:
        """Take in a payload; others may be at work."""

    def draw(self, workers: int) -> tuple[str, Any] | None:
        """The next part and a key for it; None while all that was accepted is handed out."""

    def file(self, completion: Completion) -> list[JoinedCompletion]:
        """Take in what came of a part; returns what is done by that."""


class WorkersUnavailableError(RuntimeError):
    """No worker can be had (no cluster at the address, or none starts), so nothing can ever complete."""


class WrongAddressError(ValueError):
    """What was given as a cluster's address can be none, so nobody needs to be asked."""


class MemoryLimitError(RuntimeError):
    """The memory limit leaves too little for any item, once a worker has imported what the work needs.

    ``least_bytes`` is the lowest limit that would do; ``taken_bytes`` of it are taken before the first item.
    """

    def __init__(self, limit_bytes: int, taken_bytes: int, least_bytes: int) -> None:
        self.limit_bytes, self.taken_bytes, self.least_bytes = limit_bytes, taken_bytes, least_bytes
        # the arguments travel where an error does, from a sub-driver to the driver
        super().__init__(limit_bytes, taken_bytes, least_bytes)

    def __str__(self) -> str:
        return (
            f"RuntimeSettings.memory_limit_bytes: expected at least {self.least_bytes}, "
            f"found {self.limit_bytes}: a worker takes {self.taken_bytes} before its first item"
        )


class ClusterRefusedError(RuntimeError):
    """A cluster answered that it cannot do what was asked: no such job, a package too large."""


class Runtime(Protocol):
    """Runs work in some processes. Use it as a context manager, so that these end with the block.

    Every submitted key is completed exactly once, unless the runtime is closed before. The work function may
    run more than once for a key, when a worker is lost, so it must be repeatable.
    """

    def submit(self, key: str, payload: Any) -> None:
        """Accept one item. Raises ValueError for a key still pending, RuntimeError once closed."""

    def as_completed(self) -> Iterator[Completion]:
        """Completions until nothing is pending; items may be submitted while iterating."""

    @property
    def pending(self) -> int:
        """Items accepted and not yet handed out as completions."""

    @property
    def workers(self) -> int:
        """Workers that there are or that are wanted at the moment; at least 1."""

    @property
    def sub_drivers(self) -> int:
        """Processes between this one and the workers, each of which feeds some of them; 0: there are none."""

    @property
    def capacity(self) -> int:
        """Items that can be submitted now without holding more than is useful; grows with faster items."""

    def close(self) -> None:
        """Drop what is pending and end every process this runtime started. May be called again."""

    def __enter__(self) -> Self: ...

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...


def complete_all(runtime: Runtime, items: Iterable[tuple[str, Any] | None]) -> Iterator[Completion]:
    """Completions of all items (key, payload), which are drawn only as fast as the runtime has capacity.

    Where ``items`` yields None, no more are drawn before the caller has taken the next completion: what is
    to be done next may depend on it. None with nothing pending would wait for ever: RuntimeError.
    """
    remaining = iter(items)
    exhausted = False
    # `as_completed` ends as soon as nothing is pending. That need not be the end of the items: the caller may
    # have made new ones of the last completion.
    while not exhausted or runtime.pending:
        exhausted = _fill(runtime, remaining)
        if not (exhausted or runtime.pending):
            raise RuntimeError("expected an item or the end of them: nothing is pending to wait for")
        for completion in runtime.as_completed():
            yield completion
            # after the yield, so that the items drawn now may depend on what the caller made of it
            exhausted = exhausted or _fill(runtime, remaining)


def _fill(runtime: Runtime, remaining: Iterator[tuple[str, Any] | None]) -> bool:
    """Submit while there is capacity and something to do; whether no item is left."""
    while runtime.capacity > 0:
        try:
            item = next(remaining)
        except StopIteration:
            return True
        if item is None:
            return False
        runtime.submit(*item)
    return False
