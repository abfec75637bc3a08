"""All ways to spread a layer over the fan-outs of an architecture."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.limits import limit_reached
from solvers.mapping.space.space import MappingSpace, Slot

Array = NDArray[Any]
MOST_SPREADS = 1_500_000
"""More ways than this are not listed: each takes some hundred bytes."""

MOST_AT_ONCE = 2_000_000
"""Factors tried at a time."""


def spreads(space: MappingSpace) -> Array | None:
    """Spatial factors that fit all fan-outs and rules, int32 [n, levels, dims]; see :func:`sides`.

    None if there are more than ``MOST_SPREADS``.
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
    """Which of the spatial factors [dims] of a level stand on Y, bool [dims]; they must fit."""
    for on_y, fits in _choices(space, level, factors[None]):
        if fits[0]:
            return on_y
    raise ValueError(f"spatial factors {factors.tolist()} do not fit the fan-out of level {level}")


def _combined(left: Array, choices: Array) -> tuple[Array, Array]:
    """Which rows of ``left`` [n, dims] which ``choices`` [m, dims] divide; a few more pairs than
    ``MOST_SPREADS`` at most."""
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
    """Factors of the dims in one fan-out, int64 [n, dims]."""
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
    """Every choice of dims for Y, bool [dims], and which rows [n, dims] of factors fit with it."""
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
