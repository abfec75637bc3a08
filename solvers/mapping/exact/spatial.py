"""All ways to spread a layer over the fan-outs of an architecture."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.limits import limit_reached
from solvers.mapping.space.space import MappingSpace, Slot

Array = NDArray[Any]
MOST_SPREADS = 1_500_000
"""With more ways than this nothing is listed: each takes some hundred bytes."""

MOST_AT_ONCE = 2_000_000
"""Combinations of an outer and an inner choice that are tried in one numpy operation, to limit memory."""


def spreads(space: MappingSpace) -> Array | None:
    """All spatial factors that fit the fan-outs and rules, int32 [n, levels, dims], X and Y multiplied.

    None if there are more than ``MOST_SPREADS``. Which factor is on X and which on Y changes no cost;
    :func:`sides` finds sides that fit once a mapping is written down.
    """
    sizes = np.array([size for _, size in space.layer.dims], np.int64)
    found = np.ones((1, len(space.architecture.levels), len(sizes)), np.int32)
    for slot in space.slots:
        if slot.spatial:
            choices = _level_spreads(space, slot).astype(np.int32)
            one, other = _combined(sizes // found.prod(axis=1, dtype=np.int64), choices)
            if len(one) > MOST_SPREADS:
                effect = "nothing was searched, for want of memory"
                limit_reached("ways to spread the layer over the fan-outs", MOST_SPREADS, effect)
                return None
            found = found[one]
            found[:, slot.level] = choices[other]
    return found


def sides(space: MappingSpace, level: int, factors: Array) -> Array:
    """Sides for the spatial factors [dims] of a level that fit its fan-out: bool [dims], True for Y.

    Raises ValueError if there are none."""
    for on_y, fits in _choices(space, level, factors[None]):
        if fits[0]:
            return on_y
    raise ValueError(f"spatial factors {factors.tolist()} do not fit the fan-out of level {level}")


def _combined(left: Array, choices: Array) -> tuple[Array, Array]:
    """All pairs of a row of ``left`` [n, dims] and a row of ``choices`` [m, dims] that divides it.

    The result are two int arrays, the index of each pair's row in ``left`` and in ``choices``. It stops soon
    after ``MOST_SPREADS`` pairs, since the caller then gives up."""
    rows = max(1, MOST_AT_ONCE // max(1, choices.size))
    found, count = [], 0
    for start in range(0, len(left), rows):
        divided = (left[start : start + rows, None, :] % choices[None, :, :] == 0).all(axis=2)
        one, other = np.nonzero(divided)
        found.append((one + start, other))
        count += len(one)
        if count > MOST_SPREADS:
            break
    return np.concatenate([one for one, _ in found]), np.concatenate([other for _, other in found])


def _level_spreads(space: MappingSpace, slot: Slot) -> Array:
    """All spatial factors [n, dims] int64 that one level's fan-out and rules allow, with any sides."""
    tables, level = space.tables, slot.level
    fanout = int(tables.fanout_x[level] * tables.fanout_y[level])
    rows = np.ones((1, 0), np.int64)
    for dim in range(len(space.layer.dims)):
        divisors = tables.divisors[dim, : tables.divisor_count[dim]]
        allowed = divisors[(divisors >= slot.least[dim]) & (divisors <= slot.most[dim])]
        rows = np.concatenate(
            [rows.repeat(len(allowed), axis=0), np.tile(allowed, len(rows))[:, None]], axis=1
        )
        rows = rows[rows.prod(axis=1) <= fanout]
    fitting = np.zeros(len(rows), np.bool_)
    for _, fits in _choices(space, level, rows):
        fitting |= fits
    return rows[fitting]


def _choices(space: MappingSpace, level: int, rows: Array) -> list[tuple[Array, Array]]:
    """Every choice of dims for side Y, bool [dims], each with which ``rows`` [n, dims] of factors fit the
    fan-out and its rules if these dims are on Y and the others on X, bool [n]."""
    tables = space.tables
    spread = np.flatnonzero((rows > 1).any(axis=0))
    choices = []
    for bits in range(1 << len(spread)):
        on_y = np.zeros(rows.shape[1], np.bool_)
        on_y[spread] = bits >> np.arange(len(spread)) & 1
        y, x = rows[:, on_y].prod(axis=1), rows[:, ~on_y].prod(axis=1)
        fits = (x <= tables.fanout_x[level]) & (y <= tables.fanout_y[level])
        fits &= (rows[:, on_y & ~tables.side_y[level]] == 1).all(axis=1)
        fits &= (rows[:, ~on_y & ~tables.side_x[level]] == 1).all(axis=1)
        choices.append((on_y, fits))
    return choices
