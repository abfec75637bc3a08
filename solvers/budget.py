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
"""What a solver gets that is asked when the time is up: it looks at the clock and gives up."""

MOST_ITERATIONS = 2**53
"""The last whole number that every float can tell from its neighbours."""

MOST_SEED = 2**31 - 1
"""The largest seed that every library takes: CP-SAT and HiGHS hold it in 32 bits with a sign."""


@dataclass(frozen=True)
class Budget:
    """Limits of one solve; ``iterations`` counts what the solver counts (samples, rounds), None: no limit.

    A solver is deterministic for a seed unless the wall limit cuts it short. Raises InputError, whose key is
    the field, for seconds that are not above 0 or are no finite number up to MOST_SECONDS, for iterations
    that are no whole number from 1 to MOST_ITERATIONS, and for a seed that is none from 0 to MOST_SEED.
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
    """CPU (this process, all threads) and wall seconds since it was made."""

    _cpu: float = field(default_factory=time.process_time)
    _wall: float = field(default_factory=time.perf_counter)

    @property
    def cpu_seconds(self) -> float:
        return time.process_time() - self._cpu

    @property
    def wall_seconds(self) -> float:
        return time.perf_counter() - self._wall


InTime = Callable[[], bool]
"""Whether there is time left: what long work asks between its steps."""


def always_in_time() -> bool:
    """The clock of work that nobody hurries."""
    return True


class OutOfTimeError(Exception):
    """A preparation was given up because its time was up; its solver catches this and says so."""


@dataclass(frozen=True)
class Deadline:
    """The end of so many wall seconds, counted by ``watch``, which starts when this is made."""

    wall_seconds: float
    watch: Stopwatch = field(default_factory=Stopwatch)

    @property
    def left(self) -> float:
        """Wall seconds; below 0 when the time is up."""
        return self.wall_seconds - self.watch.wall_seconds

    def in_time(self) -> bool:
        """Whether there is time left."""
        return self.left > 0

    def budget(self, seed: int = 0) -> Budget:
        """What is left, for a solver that is asked for a part: a millisecond where that is nothing."""
        return Budget(max(LEAST_SECONDS, self.left), seed=seed)

    def check(self) -> None:
        """Raises OutOfTimeError when the time is up: for work that is worth nothing half done."""
        if not self.in_time():
            raise OutOfTimeError(f"not done in {self.wall_seconds:g} s")
