"""What a solve may spend, and the clock that watches it."""

from __future__ import annotations

import time
from dataclasses import dataclass, field

from costmodel.errors import InputError


@dataclass(frozen=True)
class Budget:
    """Limits of one solve; ``iterations`` counts what the solver counts (samples, rounds), None: no limit.

    A solver is deterministic for a seed unless the wall limit cuts it short.
    """

    wall_seconds: float = 60.0
    iterations: int | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        if not self.wall_seconds > 0:
            raise InputError("budget", "more than 0 seconds", self.wall_seconds, key="wall_seconds")
        if self.iterations is not None and self.iterations < 1:
            raise InputError("budget", "at least 1", self.iterations, key="iterations")


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


@dataclass(frozen=True)
class Deadline:
    """The end of so many wall seconds, counted since it was made."""

    wall_seconds: float
    _clock: Stopwatch = field(default_factory=Stopwatch)

    @property
    def left(self) -> float:
        """Wall seconds; below 0 when the time is up."""
        return self.wall_seconds - self._clock.wall_seconds

    def in_time(self) -> bool:
        """Whether there is time left."""
        return self.left > 0
