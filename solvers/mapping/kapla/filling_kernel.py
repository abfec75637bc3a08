"""Compiled: partial schemes as the estimator and the fillings see them, row after row. Imports numba.

Whether a scheme fits, what it costs with its open loops at a level, and how the loops of one slot are filled:
step by step (:func:`climb`), or by all products of divisors (:func:`list_products`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import called, entry, inlined
from costmodel.mapping.batch.batch_kernel import prepare_row, row_cost
from costmodel.mapping.batch.counting_kernel import tile_words
from solvers.mapping.space.descent_kernel import row_objective
from solvers.mapping.space.space_kernel import find_sides
from solvers.tolerance import SAME_COST

if TYPE_CHECKING:
    from costmodel.mapping.batch.batch_tables import BatchRows, RowCounts, Tables
    from solvers.mapping.space.tables import SideTables

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


class SchemeRows(NamedTuple):
    """The arrays of :class:`.schemes.Schemes` that decide what a scheme costs."""

    temporal: Array
    spatial: Array
    order: Array
    keep: Array
    rest: Array


class SchemeLimits(NamedTuple):
    """What tiles have to fit.

    ``capacities`` int64 [levels]: words. ``sets`` int64 [levels, sets] and ``set_count`` int64 [levels]: the
    sets of tensors that a level may keep, as bit masks. ``forced`` int64 [levels, dims]: the least that slots
    decided later put inside each level's tiles. ``outer``: the level at which the open loops stand.
    """

    capacities: Array
    sets: Array
    set_count: Array
    forced: Array
    outer: int


class SchemeWork(NamedTuple):
    """Scratch arrays of a scheme: ``inside``, ``tile`` and ``spread`` int64 [dims], ``words`` int64
    [tensors]; ``row``, one row, and what is needed to count it."""

    inside: Array
    tile: Array
    spread: Array
    words: Array
    row: BatchRows
    counts: RowCounts


class Judge(NamedTuple):
    """What schemes are judged by.

    ``tables``: the layer on the machine that has no limits from level ``outer`` outwards. ``sides``: those
    that spatial factors have to find. ``objective``: as :func:`row_objective` knows it.
    """

    tables: Tables
    sides: SideTables
    limits: SchemeLimits
    work: SchemeWork
    objective: int


class LadderTables(NamedTuple):
    """A :class:`.ladders.Ladder`: its slot, and the factors that this may take.

    ``divisors`` int64 [dims, most] and ``divisor_count`` [dims] number the totals and factors of the others.
    ``fanout``: the most that spatial factors multiply to.
    """

    level: int
    spatial: bool
    fanout: int
    divisors: Array
    divisor_count: Array
    allowed: Array
    following: Array
    first: Array


@entry
def fit_schemes(judge: Judge, schemes: SchemeRows, fitting: Array) -> None:
    """Fill ``fitting`` bool [n]: whether the tiles of each scheme fit (:func:`_fits`)."""
    for row in range(fitting.shape[0]):
        fitting[row] = _fits(judge, schemes, row)


@called
def _fits(judge: Judge, schemes: SchemeRows, row: Int) -> bool:
    """Whether levels from the one inside ``outer`` on can hold their tiles.

    The levels inside that one were looked at when they were decided, and the outermost one holds everything.
    What a level from ``outer`` on keeps is not decided: the set that takes least has to fit.
    """
    limits, work = judge.limits, judge.work
    levels, dims = schemes.temporal.shape[1:]
    for dim in range(dims):
        work.inside[dim] = 1
    for level in range(levels - 1):
        for dim in range(dims):
            work.inside[dim] *= schemes.temporal[row, level, dim] * schemes.spatial[row, level, dim]
            work.tile[dim] = work.inside[dim] * limits.forced[level, dim]
        if level < limits.outer - 1:
            continue
        for tensor in range(work.words.shape[0]):
            work.words[tensor] = tile_words(judge.tables, tensor, work.tile)
        fits = False
        for number in range(1 if level < limits.outer else limits.set_count[level]):
            kept = schemes.keep[row, level] if level < limits.outer else limits.sets[level, number]
            needed = 0
            for tensor in range(work.words.shape[0]):
                needed += work.words[tensor] * (kept >> tensor & 1)
            if needed <= limits.capacities[level]:
                fits = True
                break
        if not fits:
            return False
    return True


@called
def _cost(judge: Judge, schemes: SchemeRows, row: Int) -> tuple[float, float]:
    """The objective of a scheme that fits, and its energy times cycles; infinite where it finds no sides."""
    work, to = judge.work, judge.work.row
    levels, dims = schemes.temporal.shape[1:]
    for level in range(levels):
        for dim in range(dims):
            to.temporal[0, level, dim] = schemes.temporal[row, level, dim]
            to.spatial_x[0, level, dim] = schemes.spatial[row, level, dim]
            to.spatial_y[0, level, dim] = 1
            to.permutation[0, level, dim] = schemes.order[row, level, dim]
        for tensor in range(to.keep.shape[2]):
            to.keep[0, level, tensor] = schemes.keep[row, level] >> tensor & 1 == 1
    for dim in range(dims):
        to.temporal[0, judge.limits.outer, dim] *= schemes.rest[row, dim]
    if find_sides(judge.sides, to, 0, work.spread) and prepare_row(judge.tables, to, 0, work.counts):
        cycles, energy_pj = row_cost(judge.tables, to, 0, work.counts, judge.tables.mac_energy_pj)
        return row_objective(judge.objective, cycles, energy_pj), energy_pj * cycles
    return np.inf, np.inf


@inlined
def _position(ladder: LadderTables, dim: Int, value: Int) -> Int:
    """The number of a divisor of the dim."""
    position = 0
    while ladder.divisors[dim, position] != value:
        position += 1
    return position


@inlined
def _factor(ladder: LadderTables, schemes: SchemeRows, row: Int, dim: Int) -> Int:
    """The factor of a dim in the ladder's slot."""
    block = schemes.spatial if ladder.spatial else schemes.temporal
    return np.int64(block[row, ladder.level, dim])


@inlined
def _take(ladder: LadderTables, schemes: SchemeRows, row: Int, dim: Int, factor: Int) -> None:
    """Put another factor of a dim into the ladder's slot."""
    block = schemes.spatial if ladder.spatial else schemes.temporal
    total = np.int64(schemes.rest[row, dim]) * block[row, ladder.level, dim]
    block[row, ladder.level, dim] = factor
    schemes.rest[row, dim] = total // factor


class Climbs(NamedTuple):
    """``objective`` and ``edp`` float64 [n]: what each scheme costs; ``active`` bool [n]: whether it may
    still get better. ``evaluated`` int64 [1]: how many steps were costed."""

    objective: Array
    edp: Array
    active: Array
    evaluated: Array


@entry
def climb(judge: Judge, ladder: LadderTables, schemes: SchemeRows, most: int, climbs: Climbs) -> None:
    """Take the best step of each active scheme in turn, until none is active or ``most`` steps are costed.

    A step takes one dim's factor to the next larger one allowed.
    """
    before, going = climbs.evaluated[0], True
    while going and climbs.evaluated[0] - before < most:
        going = False
        for row in range(climbs.active.shape[0]):
            if climbs.active[row]:
                climbs.active[row] = _step(judge, ladder, schemes, row, climbs)
                going = going or climbs.active[row]


@inlined
def _step(judge: Judge, ladder: LadderTables, schemes: SchemeRows, row: Int, climbs: Climbs) -> bool:
    """Take the best step that makes a scheme better; False if there is none."""
    best, taken, least, least_edp = -1, 1, np.inf, np.inf
    objective, edp = climbs.objective[row], climbs.edp[row]
    for dim in range(schemes.rest.shape[1]):
        factor = _factor(ladder, schemes, row, dim)
        total = _position(ladder, dim, factor * schemes.rest[row, dim])
        larger = ladder.following[dim, total, _position(ladder, dim, factor)]
        if not larger:
            continue
        _take(ladder, schemes, row, dim, larger)
        after, after_edp = np.inf, np.inf
        if _fits(judge, schemes, row):
            after, after_edp = _cost(judge, schemes, row)
        _take(ladder, schemes, row, dim, factor)
        climbs.evaluated[0] += 1
        # Of steps that leave the objective as it is, those count as better that lower energy times cycles.
        # With cycles as the objective most single steps change nothing, and the climb would end on the first
        # plateau. SAME_COST: a difference by rounding is none.
        lower = after < objective * (1 - SAME_COST)
        equal = after <= objective * (1 + SAME_COST)
        useful = lower or (equal and after_edp < edp * (1 - SAME_COST))
        if useful and (after < least or (after == least and after_edp < least_edp)):
            best, taken, least, least_edp = dim, larger, after, after_edp
    if best < 0:
        return False
    _take(ladder, schemes, row, best, taken)
    climbs.objective[row], climbs.edp[row] = least, least_edp
    return True


class ProductWalk(NamedTuple):
    """Where a list of products has come to, so that it can go on in another call.

    ``at`` int64 [2]: the scheme, and the dim whose next factor is due. ``total`` and ``choice`` int64 [dims]:
    of each dim up to that one what there is to divide, and the factor it has now, by their numbers as
    divisors; -1 before the first.
    """

    at: Array
    total: Array
    choice: Array


class Products(NamedTuple):
    """Products of divisors: of which scheme each is, int64 [n], its ``factors`` int32 [n, dims], and what it
    costs, float64 [n]. ``listed`` int64 [1]: how many there are."""

    sources: Array
    factors: Array
    objective: Array
    edp: Array
    listed: Array


@entry
def list_products(
    judge: Judge,
    ladder: LadderTables,
    schemes: SchemeRows,
    free: Array,
    smallest: bool,
    most: int,
    walk: ProductWalk,
    found: Products,
) -> None:
    """List the products of allowed factors that fit, scheme by scheme, with what they cost.

    A dim that is not ``free``, bool [n, dims], takes the smallest factor that is allowed; ``smallest``: so
    does every dim. It stops after the last scheme, or when ``found`` is full or ``most`` factors were tried,
    and goes on from there in the next call. A factor that does not fit is not multiplied by others, as tiles
    only grow. In between, the schemes hold the factors of the product that is looked at.
    """
    schemes_count, dims = free.shape
    at, tried = walk.at, 0
    found.listed[0] = 0
    while at[0] < schemes_count and found.listed[0] < found.sources.shape[0] and tried < most:
        row, dim = at[0], at[1]
        any_factor = free[row, dim] and not smallest
        if walk.choice[dim] < 0:
            walk.total[dim] = _position(ladder, dim, np.int64(schemes.rest[row, dim]))
        walk.choice[dim] = _next_choice(ladder, dim, walk.total[dim], walk.choice[dim], any_factor)
        if walk.choice[dim] < 0:
            _take(ladder, schemes, row, dim, 1)
            at[1] -= 1
            if at[1] < 0:
                at[0], at[1] = row + 1, 0
            continue
        tried += 1
        _take(ladder, schemes, row, dim, ladder.divisors[dim, walk.choice[dim]])
        if not (_spread_fits(ladder, schemes, row) and _fits(judge, schemes, row)):
            continue
        if dim < dims - 1:
            at[1] += 1
            continue
        number = found.listed[0]
        found.sources[number] = row
        for each in range(dims):
            found.factors[number, each] = _factor(ladder, schemes, row, each)
        found.objective[number], found.edp[number] = _cost(judge, schemes, row)
        found.listed[0] += 1


@inlined
def _next_choice(ladder: LadderTables, dim: Int, total: Int, choice: Int, free: bool) -> Int:
    """The next factor allowed of a dim, by its number; -1 if there is none. Without ``free`` the smallest."""
    for number in range(choice + 1, ladder.divisor_count[dim]):
        if free:
            if ladder.allowed[dim, total, number]:
                return number
        elif ladder.divisors[dim, number] == ladder.first[dim, total]:
            return number
    return -1


@inlined
def _spread_fits(ladder: LadderTables, schemes: SchemeRows, row: Int) -> bool:
    """Whether there are as many instances as spatial factors ask for; their sides are not looked at."""
    instances = 1
    if ladder.spatial:
        for dim in range(schemes.rest.shape[1]):
            instances *= schemes.spatial[row, ladder.level, dim]
    return instances <= ladder.fanout
