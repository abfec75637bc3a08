"""The compiled half of :mod:`solvers.mapping.space.neighbours`: writes the neighbours of mappings as rows.

Imports numba. A position is a block of loops, numbered kind * levels + level; the kinds are temporal 0, x 1
and y 2.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import called, entry, inlined

if TYPE_CHECKING:
    from costmodel.mapping.batch.batch_tables import BatchRows

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


class Changes(NamedTuple):
    """What the changes of one space are made of, the same for every mapping of it.

    ``dim``, ``prime``, ``position`` int64 [factors]: each prime factor of a dim at each position where it may
    stand. ``to`` int64 [positions]: where factors may move. ``limit`` int64 [3 * levels]: the most that a
    position's factors multiply to. ``keep_level`` int64 [sets], ``keep_sets`` bool [sets, tensors]: the sets
    that a level may keep. ``ranks`` int64 [levels, dims]: loops of lower ranks stand inside those of higher
    ones, all 0 unless ``ordered``.
    """

    dim: Array
    prime: Array
    position: Array
    to: Array
    limit: Array
    keep_level: Array
    keep_sets: Array
    ranks: Array
    ordered: bool


class NeighbourWork(NamedTuple):
    """Scratch arrays: ``held`` int64 [factors], which a mapping has; ``used`` int64 [3 * levels], products of
    the factors at each position."""

    held: Array
    used: Array


def work_of(changes: Changes) -> NeighbourWork:
    return NeighbourWork(np.zeros(len(changes.dim), np.int64), np.zeros(len(changes.limit), np.int64))


@entry
def write_neighbours(
    changes: Changes, rows: BatchRows, work: NeighbourWork, counts: Array, out: BatchRows, writing: bool
) -> None:
    """Fill ``counts`` int64 [n], how many neighbours each row has; ``writing``: and write them into ``out``.

    The neighbours of a row stand behind those of the row before. A caller asks for the counts first, to make
    ``out`` as long as they are together.
    """
    # One entry for both, as each entry is compiled by itself.
    begin = 0
    for row in range(counts.shape[0]):
        counts[row] = neighbours_of(changes, rows, row, work, out, begin, writing)
        begin += counts[row]


@called
def neighbours_of(
    changes: Changes,
    rows: BatchRows,
    row: Int,
    work: NeighbourWork,
    out: BatchRows,
    begin: Int,
    writing: bool,
) -> Int:
    """How many neighbours a row has; ``writing``: they go to ``out`` from number ``begin`` on.

    Their order decides which of equally good ones a descent takes: factors moved, with their loops innermost;
    the same with loops outermost; factors exchanged; loops put innermost, then outermost; other sets kept.
    Loops whose order the rules fix then go where these demand.
    """
    held = _hold(changes, rows, row, work)
    at = begin
    for outermost in range(2):
        at = _move(changes, rows, row, work, held, outermost == 1, out, at, writing)
    at = _exchange(changes, rows, row, work, held, out, at, writing)
    levels, dims = rows.temporal.shape[1:]
    for outermost in range(2):
        for level in range(levels):
            for dim in range(dims):
                if rows.temporal[row, level, dim] > 1:
                    if writing:
                        copy_row(rows, row, out, at)
                        _shift(out, at, level, dim, outermost == 1)
                    at += 1
    at = _bypass(changes, rows, row, out, at, writing)
    if writing and changes.ordered:
        for number in range(begin, at):
            _put_in_order(changes, out, number)
    return at - begin


@inlined
def _hold(changes: Changes, rows: BatchRows, row: Int, work: NeighbourWork) -> Int:
    """Fill ``held`` and ``used`` with what the row has; returns how many factors it holds."""
    levels, dims = rows.temporal.shape[1:]
    for position in range(3 * levels):
        work.used[position] = 1
        if position >= levels:  # temporal blocks have no limit, and products of large dims might overflow
            for dim in range(dims):
                work.used[position] *= _factor(rows, row, position, dim)
    count = 0
    for number in range(changes.dim.shape[0]):
        if _factor(rows, row, changes.position[number], changes.dim[number]) % changes.prime[number] == 0:
            work.held[count] = number
            count += 1
    return count


@inlined
def _move(
    changes: Changes,
    rows: BatchRows,
    row: Int,
    work: NeighbourWork,
    held: Int,
    outermost: bool,
    out: BatchRows,
    at: Int,
    writing: bool,
) -> Int:
    """Each factor held, at each other position that can take it; returns ``at`` behind the last one.

    Temporal loops have an order, so a factor moved to a temporal block stands innermost there once and
    ``outermost`` once. Loops over a fan-out have none.
    """
    levels = rows.temporal.shape[1]
    for number in range(held):
        factor = work.held[number]
        dim, prime, position = changes.dim[factor], changes.prime[factor], changes.position[factor]
        for to in changes.to:
            if to == position or (outermost and to >= levels):
                continue
            if to >= levels and work.used[to] * prime > changes.limit[to]:
                continue
            if writing:
                copy_row(rows, row, out, at)
                _multiply(out, at, position, dim, 1, prime)
                _multiply(out, at, to, dim, prime, 1)
                if to < levels:
                    _shift(out, at, to, dim, outermost)
            at += 1
    return at


@inlined
def _exchange(
    changes: Changes,
    rows: BatchRows,
    row: Int,
    work: NeighbourWork,
    held: Int,
    out: BatchRows,
    at: Int,
    writing: bool,
) -> Int:
    """Pairs of held factors, of different positions and different dims or primes, that fit exchanged.

    They reach mappings that single moves do not: where a buffer or fan-out is full, no factor can move in
    before another has moved out, and the mapping in between may be much worse.
    """
    levels = rows.temporal.shape[1]
    for first in range(held):
        one = work.held[first]
        for second in range(first + 1, held):
            two = work.held[second]
            here, there = changes.position[one], changes.position[two]
            mine, other = changes.prime[one], changes.prime[two]
            if here == there or (changes.dim[one] == changes.dim[two] and mine == other):
                continue
            if here >= levels and work.used[here] // mine * other > changes.limit[here]:
                continue
            if there >= levels and work.used[there] // other * mine > changes.limit[there]:
                continue
            if writing:
                copy_row(rows, row, out, at)
                _multiply(out, at, here, changes.dim[one], 1, mine)
                _multiply(out, at, there, changes.dim[one], mine, 1)
                _multiply(out, at, there, changes.dim[two], 1, other)
                _multiply(out, at, here, changes.dim[two], other, 1)
            at += 1
    return at


@inlined
def _bypass(changes: Changes, rows: BatchRows, row: Int, out: BatchRows, at: Int, writing: bool) -> Int:
    """Allowed keep sets of a level that have one tensor more, one less, or another.

    At most one tensor comes and one goes: also an exchange of two, since where both do not fit, neither step
    of it by itself is any good.
    """
    tensors = changes.keep_sets.shape[1]
    for number in range(changes.keep_level.shape[0]):
        level, more, fewer = changes.keep_level[number], 0, 0
        for tensor in range(tensors):
            here, there = rows.keep[row, level, tensor], changes.keep_sets[number, tensor]
            more += there and not here
            fewer += here and not there
        if more <= 1 and fewer <= 1 and more + fewer > 0:
            if writing:
                copy_row(rows, row, out, at)
                for tensor in range(tensors):
                    out.keep[at, level, tensor] = changes.keep_sets[number, tensor]
            at += 1
    return at


@inlined
def _factor(rows: BatchRows, row: Int, position: Int, dim: Int) -> Int:
    """The factor of a dim at a position."""
    levels = rows.temporal.shape[1]
    if position < levels:
        return rows.temporal[row, position, dim]
    if position < 2 * levels:
        return rows.spatial_x[row, position - levels, dim]
    return rows.spatial_y[row, position - 2 * levels, dim]


@inlined
def _multiply(rows: BatchRows, row: Int, position: Int, dim: Int, times: Int, by: Int) -> None:
    """Make the factor of a dim at a position ``times`` as large, and a part of ``by``."""
    levels = rows.temporal.shape[1]
    changed = _factor(rows, row, position, dim) // by * times
    if position < levels:
        rows.temporal[row, position, dim] = changed
    elif position < 2 * levels:
        rows.spatial_x[row, position - levels, dim] = changed
    else:
        rows.spatial_y[row, position - 2 * levels, dim] = changed


@inlined
def _shift(rows: BatchRows, row: Int, level: Int, dim: Int, outermost: bool) -> None:
    """Put a dim's loop first (innermost) or last among the loops of a temporal block."""
    dims = rows.temporal.shape[2]
    at = 0
    while rows.permutation[row, level, at] != dim:
        at += 1
    if outermost:
        for position in range(at, dims - 1):
            rows.permutation[row, level, position] = rows.permutation[row, level, position + 1]
        rows.permutation[row, level, dims - 1] = dim
    else:
        for position in range(at, 0, -1):
            rows.permutation[row, level, position] = rows.permutation[row, level, position - 1]
        rows.permutation[row, level, 0] = dim


@inlined
def _put_in_order(changes: Changes, rows: BatchRows, row: Int) -> None:
    """Sort the loops of each level by their ranks; those of equal ranks keep their order."""
    levels, dims = rows.permutation.shape[1:]
    for level in range(levels):
        for position in range(1, dims):
            dim, to = rows.permutation[row, level, position], position
            while to > 0:
                inside = rows.permutation[row, level, to - 1]
                if changes.ranks[level, inside] <= changes.ranks[level, dim]:
                    break
                rows.permutation[row, level, to] = inside
                to -= 1
            rows.permutation[row, level, to] = dim


@inlined
def copy_row(source: BatchRows, of: Int, target: BatchRows, to: Int) -> None:
    """Write row ``of`` of ``source`` into row ``to`` of ``target``."""
    levels, dims = source.temporal.shape[1:]
    for level in range(levels):
        for dim in range(dims):
            target.temporal[to, level, dim] = source.temporal[of, level, dim]
            target.permutation[to, level, dim] = source.permutation[of, level, dim]
            target.spatial_x[to, level, dim] = source.spatial_x[of, level, dim]
            target.spatial_y[to, level, dim] = source.spatial_y[of, level, dim]
        for tensor in range(source.keep.shape[2]):
            target.keep[to, level, tensor] = source.keep[of, level, tensor]
