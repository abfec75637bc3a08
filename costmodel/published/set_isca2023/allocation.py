"""How an S cut shares its tiles among its children, as the released program does it (section 3.3.2)."""

from __future__ import annotations

import math
from collections.abc import Sequence

from costmodel.errors import InputError


def allocate(tiles: int, cycles: Sequence[float], least_utilization: float = 0.0) -> tuple[int, ...] | None:
    """Tiles of every child in proportion to its normalized processing time; None where that is too uneven.

    Greedy: of the children whose share was rounded down the most, so many get a tile more as there are tiles
    left; they are settled and the others share again. ``least_utilization``: of tiles x the slowest child.
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
        short = sorted(waiting, key=lambda child: (given[child] / ideal[child], child))[:more]
        for child in short:
            given[child] += 1
            left -= given[child]
            rest -= cycles[child]
        waiting = [child for child in waiting if child not in short]
    slowest = max(time / count if count else math.inf for time, count in zip(cycles, given, strict=True))
    return tuple(given) if sum(cycles) / (tiles * slowest) >= least_utilization else None
