"""Names beside the points of a chart, placed so that none hides another or a point."""

from __future__ import annotations

import numpy as np

from results.front.pareto import Points

LABEL_SHIFTS = {
    "top center": (0.0, 0.055),
    "middle right": (0.06, 0.0),
    "bottom center": (0.0, -0.055),
    "middle left": (-0.06, 0.0),
}
"""Where the name of a point may stand: how far its middle is right of and above the point, in charts."""
MOST_NAMES = 60
LABEL_SIZE = (0.055, 0.05)
"""Width and height of a name and its margin, in fractions of the chart."""


def label_positions(judged: Points, front: Points) -> list[str]:
    """Where the name of each front point stands: a key of LABEL_SHIFTS, "" where it would hide another.

    The first two of the objectives count; the chart is taken to span the ``judged`` points. A front of more
    than MOST_NAMES points gets no names: the hover box has them.
    """
    if len(front) > MOST_NAMES:
        return [""] * len(front)
    low, span = judged[:, :2].min(axis=0), np.ptp(judged[:, :2], axis=0)
    spots = [tuple(spot) for spot in (front[:, :2] - low) / np.where(span > 0, span, 1.0)]
    taken, positions = list(spots), []
    for x, y in spots:
        free = ""
        for position, (right, up) in LABEL_SHIFTS.items():
            middle = (x + right, y + up)
            if not any(_overlap(middle, other) for other in taken if other != (x, y)):
                free = position
                taken.append(middle)
                break
        positions.append(free)
    return positions


def _overlap(a: tuple[float, ...], b: tuple[float, ...]) -> bool:
    return all(abs(p - q) < size for p, q, size in zip(a, b, LABEL_SIZE, strict=True))
