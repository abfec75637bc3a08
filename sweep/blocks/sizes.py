"""How many solves make a block: one rule for the run loop and for its simulation."""

from __future__ import annotations

from math import ceil

from clusters.pace import pace_for

BLOCKS_A_WORKER = 3
"""Blocks that are handed out for each worker: one is solved, one waits there, one is ready in the driver."""
PART_OF_A_CALL = 0.7
"""How long a block takes, as a part of what a call to a worker should: workers hold a second call, and are
not idle between two, only where items take less than that (``Ledger.calls_per_worker``)."""
SHORTEST_BLOCK = 1.4
"""Seconds, of blocks that are not the last ones: with few workers calls may be shorter, but a block costs the
driver 3 to 4 ms whatever is in it, and a worker that waits for the next one some ms of this time."""
SMOOTHING = 0.3
"""Weight of the newest block in the moving mean of the seconds of a solve."""
FEW_WORKERS, FIRST_SOLVES = 64, 256
"""On so few workers the first blocks are single solves; on more, they are as large as this."""
SHORTEST = 8
"""At the end of a run blocks get smaller, so that workers end together, down to this part of a block."""


def seconds_of_block(workers: int) -> float:
    """How long a block is to take."""
    return max(SHORTEST_BLOCK, PART_OF_A_CALL * pace_for(workers).target_seconds)


def solves_of_block(seconds_each: float | None, left: int, workers: int) -> int:
    """Solves that together take :func:`seconds_of_block`; fewer where few are ``left`` for each worker.

    ``seconds_each`` of a solve, None: none was timed yet. Then one is a block, to be timed soon; on many
    workers, whose first blocks would keep the driver busy for long, FIRST_SOLVES are. A worker ends a block
    early whose solves take longer than it should.
    """
    if seconds_each is None:
        return min(FIRST_SOLVES, ceil(left / (BLOCKS_A_WORKER * workers))) if workers > FEW_WORKERS else 1
    by_time = seconds_of_block(workers) / max(seconds_each, 1e-9)
    evenly = ceil(left / (BLOCKS_A_WORKER * max(1, workers)))
    return max(1, int(min(by_time, max(evenly, by_time / SHORTEST))))
