"""All ways to spread a layer over the fan-outs of an architecture."""

from __future__ import annotations

from collections.abc import Callable
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.limits import limit_reached
from solvers.mapping.space.space import MappingSpace, Slot

Array = NDArray[Any]
MOST_SPREADS = 1_500_000
"""More ways than this are not listed: each takes some hundred bytes."""

MOST_AT_ONCE = 2_000_000
"""Combinations of an outer and an inner choice that are tried in one numpy operation, to limit memory."""


def spreads(space: MappingSpace) -> Array | None:
    """All spatial factors that fit the fan-outs and rules, int32 [n, levels, dims], X and Y multiplied.

    None if there are more than ``MOST_SPREADS``. Which factor is on X and which on Y changes no cost;
    :func:`sides` finds sides that fit once a mapping is written down.
    """
    return _built(space, _combined)


def spreads_to_search(space: MappingSpace) -> tuple[Array | None, bool]:
    """All :func:`spreads` and True; where these are too many the widest ones and False, None of too many."""
    found = spreads(space)
    if found is not None:
        return found, True
    found = widest_spreads(space)
    searched = "nothing was" if found is None else "only the widest, which proves nothing, were"
    effect = f"{searched} searched, for want of memory"
    limit_reached("ways to spread the layer over the fan-outs", MOST_SPREADS, effect)
    return found, False


def widest_spreads(space: MappingSpace) -> Array | None:
    """Those of :func:`spreads` in which no fan-out could take more of what those inside it leave: each, from
    the innermost out, has factors of which no other choice is a multiple. None if these are too many, too.

    Idle instances take cycles, and what is spread less is read more often, so that the best are mostly among
    these; nothing proves that.
    """
    return _built(space, _widest)


def _built(space: MappingSpace, combined: Callable[[Array, Array], tuple[Array, Array]]) -> Array | None:
    """Spatial factors, level by level; ``combined`` says which choices follow which."""
    sizes = np.array([size for _, size in space.layer.dims], np.int64)
    found = np.ones((1, len(space.architecture.levels), len(sizes)), np.int32)
    for slot in space.slots:
        if slot.spatial:
            choices = _level_spreads(space, slot).astype(np.int32)
            one, other = combined(sizes // found.prod(axis=1, dtype=np.int64), choices)
            if len(one) > MOST_SPREADS:
                return None
            found = found[one]
            found[:, slot.level] = choices[other]
    return found


def sides(space: MappingSpace, level: int, factors: Array) -> Array:
    """Sides for the spatial factors [dims] of a level that fit its fan-out: bool [dims], True for Y.

    Raises ValueError if there are none."""
    for on_y, fits in _choices(_fan_out(space, level), factors[None]):
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


def _widest(left: Array, choices: Array) -> tuple[Array, Array]:
    """Those pairs of :func:`_combined` beside whose choice no multiple of it divides the row of ``left``."""
    # there are hundreds of different rows where there are a million
    rows, same = np.unique(left, axis=0, return_inverse=True)
    same = same.ravel()
    multiple = (choices[None, :, :] % choices[:, None, :] == 0).all(axis=2)
    np.fill_diagonal(multiple, False)
    divides = (rows[:, None, :] % choices[None, :, :] == 0).all(axis=2)
    outdone = divides.astype(np.float32) @ multiple.T.astype(np.float32) > 0
    row, choice = np.nonzero(divides & ~outdone)
    first = np.searchsorted(row, np.arange(len(rows) + 1))
    counts = np.diff(first)[same]
    ends = counts.cumsum()
    within = np.arange(ends[-1]) - (ends - counts).repeat(counts)
    return np.arange(len(left)).repeat(counts), choice[first[same].repeat(counts) + within]


def _level_spreads(space: MappingSpace, slot: Slot) -> Array:
    """All spatial factors [n, dims] int64 that one level's fan-out and rules allow, with any sides."""
    tables = space.tables
    allowed = (
        tables.divisors[dim, : tables.divisor_count[dim]].tolist() for dim in range(len(space.layer.dims))
    )
    divisors = tuple(
        tuple(divisor for divisor in some if least <= divisor <= most)
        for some, least, most in zip(allowed, slot.least, slot.most, strict=True)
    )
    return _fitting(divisors, _fan_out(space, slot.level))


class _FanOut(NamedTuple):
    """The sides of a level's fan-out, and by dim whether its rules allow it there."""

    x: int
    y: int
    on_x: tuple[bool, ...]
    on_y: tuple[bool, ...]


def _fan_out(space: MappingSpace, level: int) -> _FanOut:
    fanout_x, fanout_y, *may = space.side_tables
    sides = (tuple(side[level].tolist()) for side in may)
    return _FanOut(int(fanout_x[level]), int(fanout_y[level]), *sides)


@lru_cache(maxsize=64)
def _fitting(divisors: tuple[tuple[int, ...], ...], fan_out: _FanOut) -> Array:
    """All rows of one divisor for each dim that fit a fan-out on X and Y: int64 [n, dims], read only.

    Remembered, because the parts of a fused layer are asked about again and again with other questions.
    """
    rows = np.ones((1, 0), np.int64)
    for some in divisors:
        rows = np.concatenate(
            [rows.repeat(len(some), axis=0), np.tile(np.array(some, np.int64), len(rows))[:, None]], axis=1
        )
        rows = rows[rows.prod(axis=1) <= fan_out.x * fan_out.y]
    fitting = np.zeros(len(rows), np.bool_)
    for _, fits in _choices(fan_out, rows):
        fitting |= fits
    found: Array = rows[fitting]
    found.flags.writeable = False
    return found


def _choices(fan_out: _FanOut, rows: Array) -> list[tuple[Array, Array]]:
    """Every choice of dims for side Y, bool [dims], each with which ``rows`` [n, dims] of factors fit the
    fan-out and its rules if these dims are on Y and the others on X, bool [n]."""
    on_x_allowed, on_y_allowed = np.array(fan_out.on_x), np.array(fan_out.on_y)
    spread = np.flatnonzero((rows > 1).any(axis=0))
    choices = []
    for bits in range(1 << len(spread)):
        on_y = np.zeros(rows.shape[1], np.bool_)
        on_y[spread] = bits >> np.arange(len(spread)) & 1
        y, x = rows[:, on_y].prod(axis=1), rows[:, ~on_y].prod(axis=1)
        fits = (x <= fan_out.x) & (y <= fan_out.y)
        fits &= (rows[:, on_y & ~on_y_allowed] == 1).all(axis=1)
        fits &= (rows[:, ~on_y & ~on_x_allowed] == 1).all(axis=1)
        choices.append((on_y, fits))
    return choices
