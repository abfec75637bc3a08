"""The compiled half of :mod:`solvers.mapping.space.space`: counting and drawing factors. Imports numba.

One dim is split by a walk over the slots, inside out: at each slot the covered part of the dim grows from one
divisor to a larger one, and at the end it must be the whole size. ``ways[dim, slot, divisor]`` counts the
walks from there to the end, so a number below ``ways[dim, 0, 0]`` names one way to factor the dim.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined

if TYPE_CHECKING:
    from costmodel.mapping.batch.batch_tables import BatchRows
    from solvers.mapping.space.tables import SideTables, SpaceTables

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


class Drawing(NamedTuple):
    """Which rows to draw, and how often to try."""

    seed: int
    first_block: int
    rows_per_block: int
    attempts: int
    """The most draws of a row; if its spatial factors never fit the fan-outs, it stays invalid."""


class SpaceWorkspace(NamedTuple):
    """Scratch arrays for one block of rows."""

    state: Array
    """[1] the state of the random numbers, uint64."""
    masks: Array
    """[levels] the keep set of each level."""
    ways: Array
    """[dims, slots + 1, divisors] in how many ways the slots from one on grow a divisor to the dim's size."""
    counted: Array
    """[levels] the keep sets for which ``ways`` was counted; -1 before the first count."""
    spread: Array
    """[dims] dims with a spatial factor in one block."""
    given_up: Array
    """[1] how many rows stayed invalid after the most draws."""


def space_workspace(tables: SpaceTables) -> SpaceWorkspace:
    dims, most = tables.divisors.shape
    return SpaceWorkspace(
        state=np.zeros(1, np.uint64),
        masks=np.zeros(len(tables.masks), np.int64),
        ways=np.zeros((dims, len(tables.slot_level) + 1, most), np.int64),
        counted=np.full(len(tables.masks), -1, np.int64),
        spread=np.zeros(dims, np.int64),
        given_up=np.zeros(1, np.int64),
    )


@entry
def sample_rows(tables: SpaceTables, rows: BatchRows, work: SpaceWorkspace, drawing: Drawing) -> None:
    """Fill all ``rows`` as ``MappingSpace.sample`` says."""
    # The generator starts anew with every block, from the seed and the block's number, so that a block is the
    # same whoever draws it and whatever was drawn before.
    for row in range(rows.temporal.shape[0]):
        if row % drawing.rows_per_block == 0:
            block = drawing.first_block + row // drawing.rows_per_block
            work.state[0] = np.uint64(drawing.seed) * np.uint64(0xD1342543DE82EF95) + np.uint64(block)
            work.state[0] = _next(work.state)
            _choose_keeps(tables, work)
            # Counting takes time quadratic in the divisors of a size, and many blocks keep the same.
            if _are_new(work):
                _count_ways(tables, work)
        _keep(rows, row, work.masks)
        if not _has_ways(work):
            continue
        fits = False
        for _ in range(drawing.attempts):
            _draw_factors(tables, rows, row, work)
            if _choose_sides(tables.sides, rows, row, work.state, work.spread):
                fits = True
                break
        if not fits:
            work.given_up[0] += 1
        _shuffle(tables, rows, row, work.state)


@entry
def count_ways(tables: SpaceTables, work: SpaceWorkspace) -> None:
    """Fill ``work.ways`` for the keep sets ``work.masks``."""
    _count_ways(tables, work)


@entry
def choose_sides(sides: SideTables, rows: BatchRows, fitting: Array, state: Array, spread: Array) -> None:
    """Give spatial factors, all on X, the sides X or Y; ``fitting`` [n] tells in which rows they fit.

    ``state`` uint64 [1] is that of the random numbers, ``spread`` int64 [dims] a scratch array.
    """
    for row in range(rows.temporal.shape[0]):
        fitting[row] = _choose_sides(sides, rows, row, state, spread)


@inlined
def find_sides(sides: SideTables, rows: BatchRows, row: Int, spread: Array) -> bool:
    """The same for one row, with the first sides that fit: for rows of which only the cost matters."""
    for level in range(rows.temporal.shape[1]):
        count = _spread_dims(rows, row, level, spread)
        chosen = 0
        while chosen < 1 << count and not _fits(sides, rows, (row, level), spread, (chosen, count)):
            chosen += 1
        if chosen == 1 << count:
            return False
        _put_on_y(rows, row, level, spread, (chosen, count))
    return True


@inlined
def _are_new(work: SpaceWorkspace) -> bool:
    """Whether the ways were counted for other keep sets; from here on they count as these sets'."""
    new = False
    for level in range(len(work.masks)):
        new |= work.masks[level] != work.counted[level]
        work.counted[level] = work.masks[level]
    return new


@inlined
def _next(state: Array) -> Int:
    """SplitMix64 (Steele, Lea, Flood 2014): the next random 64 bits."""
    state[0] += np.uint64(0x9E3779B97F4A7C15)
    bits = state[0]
    bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


@inlined
def _below(state: Array, limit: Int) -> Int:
    """A whole number from 0 to ``limit`` - 1; the bias is ``limit`` in 2**63."""
    return np.int64(_next(state) >> np.uint64(1)) % limit


@inlined
def _choose_keeps(tables: SpaceTables, work: SpaceWorkspace) -> None:
    """Draw one of the allowed sets of tensors for every level."""
    for level in range(tables.masks.shape[0]):
        work.masks[level] = tables.masks[level, _below(work.state, tables.mask_count[level])]


@inlined
def _keep(rows: BatchRows, row: int, masks: Array) -> None:
    """Write the sets of tensors ``masks`` [levels] into a row."""
    for level in range(rows.keep.shape[1]):
        for tensor in range(rows.keep.shape[2]):
            rows.keep[row, level, tensor] = (masks[level] >> tensor) & 1 == 1


@inlined
def _allowed(tables: SpaceTables, work: SpaceWorkspace, slot: int, dim: int, step: tuple[int, int]) -> bool:
    """Whether ``slot`` may take a dim from one divisor to another (indices) by its factor."""
    before, after = step
    factor = tables.quotient[dim, before, after]
    level = tables.slot_level[slot]
    largest = tables.largest[level, work.masks[level], dim]
    least, most = tables.slot_least[slot, dim], tables.slot_most[slot, dim]
    return bool(factor > 0 and least <= factor <= most and tables.divisors[dim, after] <= largest)


@inlined
def _count_ways(tables: SpaceTables, work: SpaceWorkspace) -> None:
    """Fill ``work.ways``, from the outermost slot inwards: the ways of a slot are sums of the next one's.

    A dim of 4 in three slots without further rules, as ``ways[slot, covered so far]``; a walk starts at 1::

        covered so far    slot 0   slot 1   slot 2   end
        1                    6        3        1      0
        2                             2        1      0
        4                             1        1      1
    """
    slots = tables.slot_level.shape[0]
    for dim in range(tables.divisors.shape[0]):
        count = tables.divisor_count[dim]
        for before in range(count):
            work.ways[dim, slots, before] = 1 if before == count - 1 else 0
        for slot in range(slots - 1, -1, -1):
            for before in range(count):
                ways = 0
                for after in range(before, count):
                    if work.ways[dim, slot + 1, after] and _allowed(tables, work, slot, dim, (before, after)):
                        ways += work.ways[dim, slot + 1, after]
                work.ways[dim, slot, before] = ways


@inlined
def _has_ways(work: SpaceWorkspace) -> bool:
    """Whether every dim has at least one way."""
    fewest = work.ways[0, 0, 0]
    for dim in range(work.ways.shape[0]):
        fewest = min(fewest, work.ways[dim, 0, 0])
    return bool(fewest > 0)


@inlined
def _draw_factors(tables: SpaceTables, rows: BatchRows, row: int, work: SpaceWorkspace) -> None:
    """Write a random way of every dim into a row; all ways of a dim are equally likely."""
    for dim in range(tables.divisors.shape[0]):
        _write_way(tables, rows, (row, dim), work, _below(work.state, work.ways[dim, 0, 0]))


@inlined
def _write_way(
    tables: SpaceTables, rows: BatchRows, which: tuple[int, int], work: SpaceWorkspace, rank: Int
) -> None:
    """Write way number ``rank`` of a dim into a row, all spatial factors on X."""
    # At each slot the ways of every larger divisor are skipped until ``rank`` falls among one's.
    row, dim = which
    before = 0
    for slot in range(tables.slot_level.shape[0]):
        after = before
        while True:
            ways = work.ways[dim, slot + 1, after]
            if ways and _allowed(tables, work, slot, dim, (before, after)):
                if rank < ways:
                    break
                rank -= ways
            after += 1
        level = tables.slot_level[slot]
        if tables.slot_spatial[slot]:
            rows.spatial_x[row, level, dim] = tables.quotient[dim, before, after]
            rows.spatial_y[row, level, dim] = 1
        else:
            rows.temporal[row, level, dim] = tables.quotient[dim, before, after]
        before = after


@inlined
def _choose_sides(sides: SideTables, rows: BatchRows, row: int, state: Array, spread: Array) -> bool:
    """Move spatial factors to Y, any choice that fits being equally likely; False if none does."""
    # A choice of sides is a number whose bit i says that the i-th spread dim is on Y. Few dims are spread, so
    # all choices are counted first and one of those that fit is drawn.
    for level in range(rows.temporal.shape[1]):
        count = _spread_dims(rows, row, level, spread)
        if count == 0:
            continue
        fitting = 0
        for choice in range(1 << count):
            fitting += _fits(sides, rows, (row, level), spread, (choice, count))
        if fitting == 0:
            return False
        drawn, choice = _below(state, fitting), 0
        while True:
            if _fits(sides, rows, (row, level), spread, (choice, count)):
                if drawn == 0:
                    break
                drawn -= 1
            choice += 1
        _put_on_y(rows, row, level, spread, (choice, count))
    return True


@inlined
def _spread_dims(rows: BatchRows, row: int, level: int, spread: Array) -> Int:
    """Fill ``spread`` with the dims that have a spatial factor at a level, all on X; how many these are."""
    count = 0
    for dim in range(rows.temporal.shape[2]):
        if rows.spatial_x[row, level, dim] > 1:
            spread[count] = dim
            count += 1
    return count


@inlined
def _put_on_y(rows: BatchRows, row: int, level: int, spread: Array, choice: tuple[Int, Int]) -> None:
    """Move the spatial factors of a choice of sides from X to Y."""
    chosen, count = choice
    for index in range(count):
        dim = spread[index]
        if (chosen >> index) & 1:
            rows.spatial_y[row, level, dim] = rows.spatial_x[row, level, dim]
            rows.spatial_x[row, level, dim] = 1


@inlined
def _fits(
    sides: SideTables, rows: BatchRows, block: tuple[int, int], spread: Array, choice: tuple[int, int]
) -> bool:
    """Whether the factors fit the fan-out with those of the dims set in the ``choice`` on Y."""
    row, level = block
    chosen, count = choice
    x, y = 1, 1
    for index in range(count):
        dim = spread[index]
        factor = rows.spatial_x[row, level, dim]
        if (chosen >> index) & 1:
            if not sides.may_y[level, dim]:
                return False
            y *= factor
        else:
            if not sides.may_x[level, dim]:
                return False
            x *= factor
    return bool(x <= sides.fanout_x[level] and y <= sides.fanout_y[level])


@inlined
def _shuffle(tables: SpaceTables, rows: BatchRows, row: int, state: Array) -> None:
    """Put the loops of every level, but the innermost, into a random order that the rules allow."""
    for level in range(rows.temporal.shape[1]):
        for index in range(rows.temporal.shape[2]):
            rows.permutation[row, level, index] = tables.order[level, index]
        if level == 0:  # its order costs nothing
            continue
        # Fisher and Yates's shuffle of the dims whose order is free; those fixed at either end stay.
        start = tables.free_from[level]
        for last in range(tables.free_to[level] - 1, start, -1):
            other = start + _below(state, last - start + 1)
            dim = rows.permutation[row, level, last]
            rows.permutation[row, level, last] = rows.permutation[row, level, other]
            rows.permutation[row, level, other] = dim
