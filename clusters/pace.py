"""How much work workers hold at once, by their number: the rule behind batches and windows."""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil

CALL_SECONDS = 0.0006
"""Driver time of one call to a worker beyond its items (benchmarks/scaling.py --measure: 0.5 to 0.6 ms)."""

CALL_FRACTION = 0.1
"""The largest part of its time that the driver should spend on calls; the rest is for rows and designs."""

SHORTEST_CALL = 0.7
"""Seconds: with few workers, calls of 0.5 to 1 s already cost them under 1 %."""

DISPATCH_SECONDS = 0.05
"""How long workers may wait for new calls while the driver is busy with completions."""

MOST_FED = 192
"""Workers that the driver feeds itself, where it can have sub-drivers (benchmarks/blocks.py --costs)."""

FED_BY_ONE = 96
"""Workers of one sub-driver, at most."""

MOST_HELD = 32_768
"""Items that all workers hold together, about 100 MB of payloads in the driver; more only where so many
workers hold FEWEST_A_WORKER each."""

MOST_A_WORKER, FEWEST_A_WORKER = 256, 8
"""Bounds of the window: with fewer than 8 a worker waits for the driver, more than 256 gain nothing."""


@dataclass(frozen=True, slots=True)
class Pace:
    """window: most items a worker may hold; target_seconds: how long one call to it should take."""

    window: int
    target_seconds: float


def sub_drivers_for(workers: int) -> int:
    """How many sub-drivers feed so many workers; 0: the driver does."""
    return 0 if workers <= MOST_FED else ceil(workers / FED_BY_ONE)


def pace_for(workers: int, window: int | None = None, target_seconds: float | None = None) -> Pace:
    """The pace for so many workers; a window or target_seconds that is not None is taken as it is.

    W workers that each finish a call every T seconds cost the driver W * CALL_SECONDS / T of its time, so
    T = W * CALL_SECONDS / CALL_FRACTION keeps that fraction. Long batches cost nothing at the end of a run:
    batches shrink there until the last items go out one by one (Ledger.take_batch).
    """
    workers = max(1, workers)
    return Pace(
        window or max(FEWEST_A_WORKER, min(MOST_A_WORKER, MOST_HELD // workers)),
        target_seconds or max(SHORTEST_CALL, workers * CALL_SECONDS / CALL_FRACTION),
    )
