"""What a solve may spend, and the clock that watches it."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field

from costmodel.errors import InputError
from solvers.checks import is_number, is_whole

MOST_SECONDS = 1e8
"""Three years: longer is a slip of the pen, and clocks of the operating system end somewhere above it."""

LEAST_SECONDS = 1e-3
"""The budget of a solver that is asked when no time is left: it looks at the clock once and ends."""

MOST_ITERATIONS = 2**53
"""Up to this, floats hold every whole number exactly."""

MOST_SEED = 2**31 - 1
"""The largest seed that every library takes: CP-SAT and HiGHS hold it in 32 bits with a sign."""


@dataclass(frozen=True)
class Budget:
    """Limits of one solve.

    ``iterations`` are of whatever the solver counts, such as samples or rounds; None: no limit. For one
    ``seed`` a solver always gives the same answer, unless ``wall_seconds`` cut it short.

    Raises InputError, whose key is the field, unless 0 < wall_seconds <= MOST_SECONDS, iterations are a whole
    number from 1 to MOST_ITERATIONS, and the seed is a whole number from 0 to MOST_SEED.
    """

    wall_seconds: float = 60.0
    iterations: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not is_number(self.wall_seconds, 0, MOST_SECONDS) or not self.wall_seconds > 0:
            expected = f"more than 0 and at most {MOST_SECONDS:g} seconds"
            raise InputError("budget", expected, self.wall_seconds, key="wall_seconds")
        if self.iterations is not None and not (
            is_whole(self.iterations, 1) and self.iterations <= MOST_ITERATIONS
        ):
            expected = f"a whole number from 1 to {MOST_ITERATIONS}"
            raise InputError("budget", expected, self.iterations, key="iterations")
        if not (is_whole(self.seed, 0) and self.seed <= MOST_SEED):
            raise InputError("budget", f"a whole number from 0 to {MOST_SEED}", self.seed, key="seed")


@dataclass(frozen=True)
class Stopwatch:
    """CPU seconds (of this process, all threads) and wall seconds since the stopwatch was made."""

    _cpu: float = field(default_factory=time.process_time)
    _wall: float = field(default_factory=time.perf_counter)

    @property
    def cpu_seconds(self) -> float:
        return time.process_time() - self._cpu

    @property
    def wall_seconds(self) -> float:
        return time.perf_counter() - self._wall

    def without(self, pause: Stopwatch) -> Stopwatch:
        """This stopwatch as if no time had passed since ``pause`` was made.

        A solver leaves out in this way what a process does once, such as loading compiled code.
        """
        return Stopwatch(self._cpu + pause.cpu_seconds, self._wall + pause.wall_seconds)


InTime = Callable[[], bool]
"""A function that tells whether there is time left; long work calls it between its steps."""


def always_in_time() -> bool:
    """The :data:`InTime` of work without a deadline."""
    return True


class OutOfTimeError(Exception):
    """A preparation was given up because its time was up; its solver catches this and says so."""


@dataclass(frozen=True)
class Deadline:
    """A deadline ``wall_seconds`` after the start of ``watch``, which starts when the deadline is made."""

    wall_seconds: float
    watch: Stopwatch = field(default_factory=Stopwatch)

    @property
    def left(self) -> float:
        """Wall seconds until the deadline; below 0 after it."""
        return self.wall_seconds - self.watch.wall_seconds

    def in_time(self) -> bool:
        """Whether there is time left."""
        return self.left > 0

    def budget(self, seed: int = 0) -> Budget:
        """The time left as a budget, for a solver that does a part of the work; at least LEAST_SECONDS."""
        return Budget(max(LEAST_SECONDS, self.left), seed=seed)

    def check(self) -> None:
        """Raises OutOfTimeError after the deadline: for work that is of no use half done."""
        if not self.in_time():
            raise OutOfTimeError(f"not done in {self.wall_seconds:g} s")
