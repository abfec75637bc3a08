"""How many solves make a block: one rule for the run loop, for sub-drivers, and for their simulation."""

from __future__ import annotations

from math import ceil

from clusters.pace import pace_for

BLOCKS_A_WORKER = 3
"""Blocks that are handed out for each worker: one is solved, one waits there, one is ready in the driver."""
PART_OF_A_CALL = 0.7
"""A block takes this part of the seconds that a call to a worker should take. Only items shorter than a call
let a worker hold a second one (``Ledger.calls_per_worker``), so that it is not idle between two."""
SHORTEST_BLOCK = 1.4
"""Seconds, of blocks that are not the last ones: with few workers calls may be shorter, but a block costs
some ms whatever is in it, and a worker that waits for the next one some ms of this time."""
FULL_BLOCK, LONGEST_FILLING = 4096, 4 * SHORTEST_BLOCK
"""Solves, and seconds. What a block costs the driver whatever is in it, up to 4 ms with Ray's part, is under
1 us for each of FULL_BLOCK solves. So a block lasts until it has so many, up to LONGEST_FILLING seconds. If
they would take k times LONGEST_FILLING, it lasts a k-th of it, but never less than the shortest block: the
driver's time is little beside longer solves."""
SMOOTHING = 0.3
"""Weight of the newest block in the moving mean of the seconds of a solve."""
FEW_WORKERS, FIRST_SOLVES = 64, 256
"""On up to so many workers the first blocks are single solves; on more workers they have FIRST_SOLVES, or an
even part of all solves if that is less."""
SHORTER_AT_THE_END = 8
"""At the end of a run blocks get smaller, so that workers end together: down to an eighth of one that is not
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

    ``seconds_each`` of a solve, None: none was timed yet. Then one solve is a block, to be timed soon. On
    more than FEW_WORKERS it is FIRST_SOLVES: so many blocks of one solve would keep the driver busy for long.
    A worker ends a block early whose solves take longer than it should. With ``shards``, so many sub-drivers
    feed the workers.
    """
    evenly = ceil(left / (BLOCKS_A_WORKER * max(1, workers)))
    if seconds_each is None:
        return max(1, min(FIRST_SOLVES, evenly)) if workers > FEW_WORKERS else 1
    fed = ceil(workers / max(1, shards))
    fewest = _shortest(fed) / SHORTER_AT_THE_END / max(seconds_each, 1e-9)
    return max(1, int(min(solves_in_time(seconds_each, fed), max(evenly, fewest))))


def solves_in_time(seconds_each: float, workers: int) -> float:
    """Solves that take :func:`seconds_of_block` together."""
    return seconds_of_block(seconds_each, workers) / max(seconds_each, 1e-9)


def solves_of_share(block: int, workers: int, shards: int) -> int:
    """Solves that the driver hands to one of the ``shards``, whose workers get ``block`` solves at once."""
    return BLOCKS_A_SHARE * block * ceil(workers / shards)
