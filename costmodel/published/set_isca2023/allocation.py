"""How an S cut divides its tiles among its children, as the released program does it (section 3.3.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from costmodel.errors import InputError


def allocate(tiles: int, cycles: Sequence[float], least_utilization: float = 0.0) -> tuple[int, ...] | None:
    """The number of tiles of every child; None where there are too few, or the division is too uneven.

    Every child first gets tiles in proportion to its normalized processing time, rounded down. The m tiles
    that remain go, one each, to the m children that lost the largest fraction by rounding. These children are
    settled; the others divide what is left among them in the same way, until no tile remains.

    The division is too uneven if the sum of ``cycles`` is less than ``least_utilization`` times the tiles
    times the time of the slowest child on its tiles.
    """
    if not cycles or min(cycles) <= 0:
        raise InputError("allocation", "processing times above 0", list(cycles))
    if len(cycles) > tiles:
        return None
    given = [0] * len(cycles)
    waiting = list(range(len(cycles)))
    left, rest = tiles, float(sum(cycles))
    while waiting and rest > 0 and left > 0:
        ideal = {child: cycles[child] / rest * left for child in waiting}
        for child in waiting:
            given[child] = int(ideal[child])
        more = left - sum(given[child] for child in waiting)
        if more == 0:
            break
        # given / ideal is smallest where rounding down lost the largest fraction; ties go to the first child
        short = sorted(waiting, key=lambda child: (given[child] / ideal[child], child))[:more]
        for child in short:
            given[child] += 1
            left -= given[child]
            rest -= cycles[child]
        waiting = [child for child in waiting if child not in short]
    slowest = max(time / count if count else math.inf for time, count in zip(cycles, given, strict=True))
    return tuple(given) if sum(cycles) / (tiles * slowest) >= least_utilization else None
