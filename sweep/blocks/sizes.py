"""How many solves make a block: one rule for the run loop, for sub-drivers, and for their simulation."""

from __future__ import annotations

from math import ceil

from clusters.pace import pace_for

BLOCKS_A_WORKER = 3
"""Blocks that are handed out for each worker: one is solved, one waits there, one is ready in the driver."""
PART_OF_A_CALL = 0.7
"""How long a block takes, as a part of what a call to a worker should: workers hold a second call, and are
not idle between two, only where items take less than that (``Ledger.calls_per_worker``)."""
SHORTEST_BLOCK = 1.4
"""Seconds, of blocks that are not the last ones: with few workers calls may be shorter, but a block costs
some ms whatever is in it, and a worker that waits for the next one some ms of this time."""
FULL_BLOCK, LONGEST_FILLING = 4096, 4 * SHORTEST_BLOCK
"""Solves, and seconds. What a block costs the driver whatever is in it, up to 4 ms with Ray's part, is under
1 us for each of so many solves. So blocks of short solves take longer to have them, up to so many seconds;
where that is not enough they take less again, for the driver's time is little beside longer solves."""
SMOOTHING = 0.3
"""Weight of the newest block in the moving mean of the seconds of a solve."""
FEW_WORKERS, FIRST_SOLVES = 64, 256
"""On so few workers the first blocks are single solves; on more, they are as large as this."""
SHORTEST = 8
"""At the end of a run blocks get smaller, so that workers end together, down to this part of one that is not
filled."""
LATE = 2.0
"""A block ends early after this many times the seconds that it was to take; the rest goes into others."""
LONGEST_BLOCK = 60.0
"""Seconds after which a block ends early in any case: half of what runtimes grant beside a solve."""
BLOCKS_A_SHARE = 2
"""Blocks for each worker of a sub-driver in one share of the driver's."""
SHARES_HELD = 3
"""Shares that are handed out for each sub-driver: its workers are at one, the next is there, and one is ready
in the driver."""


def seconds_of_block(seconds_each: float, workers: int) -> float:
    """How long a block of solves of ``seconds_each`` is to take where one process feeds so many workers."""
    filled = max(FULL_BLOCK * seconds_each, 1e-9)
    return max(_shortest(workers), min(filled, LONGEST_FILLING**2 / filled))


def _shortest(workers: int) -> float:
    """How long a block takes that is not filled, where one process feeds so many workers."""
    return max(SHORTEST_BLOCK, PART_OF_A_CALL * pace_for(workers).target_seconds)


def latest_end(seconds_each: float | None, workers: int) -> float:
    """Seconds after which a worker begins no further solve of a block."""
    return min(LATE * seconds_of_block(seconds_each or 0.0, workers), LONGEST_BLOCK)


def solves_of_block(seconds_each: float | None, left: int, workers: int, shards: int = 0) -> int:
    """Solves that together take :func:`seconds_of_block`; fewer where few are ``left`` for each worker.

    ``seconds_each`` of a solve, None: none was timed yet. Then one is a block, to be timed soon; on many
    workers, whose first blocks would keep the driver busy for long, FIRST_SOLVES are. A worker ends a block
    early whose solves take longer than it should. With ``shards``, so many sub-drivers feed the workers.
    """
    evenly = ceil(left / (BLOCKS_A_WORKER * max(1, workers)))
    if seconds_each is None:
        return max(1, min(FIRST_SOLVES, evenly)) if workers > FEW_WORKERS else 1
    fed = ceil(workers / max(1, shards))
    fewest = _shortest(fed) / SHORTEST / max(seconds_each, 1e-9)
    return max(1, int(min(solves_in_time(seconds_each, fed), max(evenly, fewest))))


def solves_in_time(seconds_each: float, workers: int) -> float:
    """Solves that take :func:`seconds_of_block` together."""
    return seconds_of_block(seconds_each, workers) / max(seconds_each, 1e-9)


def solves_of_share(block: int, workers: int, shards: int) -> int:
    """Solves that the driver hands to one of the ``shards``, whose workers get ``block`` solves at once."""
    return BLOCKS_A_SHARE * block * ceil(workers / shards)
