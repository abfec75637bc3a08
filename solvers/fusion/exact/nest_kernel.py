"""Compiled: the loops below a split, enumerated: every tile of a level inside one of the next, every order.

A *table* has, for every extent that a tile of the level outside can have, the undominated ways to run all
levels up to its own inside one visit of such a tile. A way is known by its words: for every level the words
of operands and of the output that enter its tiles. Tensors whose tile at a level does not move during the
visit are not among them; they have a bit in the level's mask instead, for how often they come is decided
further out. So a way at one level is a choice of tile and order there, joined to a way of the table inside.

Of the loops between two levels only one thing of their order matters: for every tensor, which dims that it
does not have stand inside all dims that it has (``free``): they bring no word again. Orders with the same
sets are one, and a dim with a single iteration does no harm wherever it stands, because the orders that have
it outermost are among them.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import called, entry

Array = NDArray[Any]

FULL = -1
"""What :func:`combine` gives where the buffers for its ways are too small."""


class NestSpace(NamedTuple):
    """What of an einsum is the same at every level.

    ``divisors``: [dim, number], ascending; ``divisor_counts`` and ``strides`` by dim, the latter making one
    number of one divisor of every dim. ``relevant``: [tensor, dim]; ``free``: [order, tensor, dim];
    ``output``: the number of the output among the tensors.
    """

    divisors: Array
    divisor_counts: Array
    strides: Array
    relevant: Array
    free: Array
    output: int


class WaysInside(NamedTuple):
    """A table: the ways inside tile number g are the rows ``starts[g]`` to ``starts[g + 1]``.

    ``masks``: [way, level]. ``words``: [way, 2 level] of operands and [way, 2 level + 1] of the output.
    """

    starts: Array
    masks: Array
    words: Array


class NestCost(NamedTuple):
    """How words become costs, for the outermost tiles of an einsum's own nest.

    ``final``: whether the ways are whole nests, known by words in use, energy and cycles, rather than a
    table's. A table for energy alone (``by_energy``) keeps of each mask the way of least ``word_pj``.
    ``word_pj``: pJ for a word that enters, in the order of a way's words. ``repeats``: turns of the einsum.
    ``hoisted``: words of operands, of the output, that enter hoisted tiles in all turns together.
    ``fixed_pj``, ``fixed_reads``, ``fixed_writes`` (by level): what does not depend on the nest.
    ``read_rate`` and ``write_rate``: words a cycle by level. ``operations``: cycles at least.
    ``counts_energy``, ``counts_cycles``: a cost that does not count is 0 for every way.
    """

    final: bool
    by_energy: bool
    word_pj: Array
    repeats: float
    hoisted: Array
    fixed_pj: float
    fixed_reads: Array
    fixed_writes: Array
    read_rate: Array
    write_rate: Array
    operations: float
    counts_energy: bool
    counts_cycles: bool


class Ways(NamedTuple):
    """Undominated ways, row by row: ``values`` decide; ``origins`` are tile, order and way inside."""

    masks: Array
    words: Array
    values: Array
    origins: Array


class Scratch(NamedTuple):
    """Arrays to work in: by dim, by tensor, and of one way."""

    position: Array
    times: Array
    moving: Array
    entering: Array
    whole: Array
    masks: Array
    words: Array
    values: Array


@entry
def combine(
    space: NestSpace,
    extents: Array,
    own: Array,
    capacity: float,
    inside: WaysInside,
    cost: NestCost,
    ways: Ways,
    scratch: Scratch,
) -> int:
    """Write to ``ways`` those inside a tile of these ``extents``; how many, or FULL.

    ``own``: by tensor, whether the level has an own tile of it; ``capacity``: the most words that all own
    tiles of the level may take.
    """
    # The tile at this level runs through all choices of a divisor for each dim, the last dim fastest, as an
    # odometer does (``position``). A tile whose words fit is joined, under every order of the loops around
    # it, to every way to run what is inside the tile. ``times``: iterations of the loop around it over each
    # dim, ``visits``: of all these loops. ``moving``: whether they move a tensor's tile. ``entering``: words
    # that enter it, each as often as loops outside it that the order does not make free repeat it.
    dims, tensors = space.divisors.shape[0], space.relevant.shape[0]
    count = 0
    for dim in range(dims):
        scratch.position[dim] = 0
    for tensor in range(tensors):
        words = 1.0
        for dim in range(dims):
            if space.relevant[tensor, dim]:
                words *= extents[dim]
        scratch.whole[tensor] = words
    while True:
        visits, used, tile = 1.0, 0.0, 0
        for dim in range(dims):
            divisor = space.divisors[dim, scratch.position[dim]]
            scratch.times[dim] = extents[dim] // divisor
            visits *= scratch.times[dim]
            tile += scratch.position[dim] * space.strides[dim]
        for tensor in range(tensors):
            words = scratch.whole[tensor]
            scratch.moving[tensor] = False
            for dim in range(dims):
                if space.relevant[tensor, dim]:
                    words /= scratch.times[dim]
                    if scratch.times[dim] > 1:
                        scratch.moving[tensor] = True
            if own[tensor]:
                used += words
        if used <= capacity and inside.starts[tile] < inside.starts[tile + 1]:
            for order in range(space.free.shape[0]):
                for tensor in range(tensors):
                    words = scratch.whole[tensor]
                    for dim in range(dims):
                        if not space.relevant[tensor, dim] and not space.free[order, tensor, dim]:
                            words *= scratch.times[dim]
                    scratch.entering[tensor] = words
                for way in range(inside.starts[tile], inside.starts[tile + 1]):
                    join(space, own, inside, way, visits, cost.final, scratch)
                    weigh(cost, used, scratch)
                    count = insert(count, ways, scratch)
                    if count == ways.values.shape[0]:
                        return FULL
                    if count < 0:  # dominated: the others are as they were
                        count = -1 - count
                        continue
                    ways.origins[count - 1, 0] = tile
                    ways.origins[count - 1, 1] = order
                    ways.origins[count - 1, 2] = way
        # the next tile: only divisors that divide this tile's extents count
        dim = dims - 1
        while dim >= 0:
            scratch.position[dim] += 1
            while (
                scratch.position[dim] < space.divisor_counts[dim]
                and extents[dim] % space.divisors[dim, scratch.position[dim]] != 0
            ):
                scratch.position[dim] += 1
            if scratch.position[dim] < space.divisor_counts[dim]:
                break
            scratch.position[dim] = 0
            dim -= 1
        if dim < 0:
            return count


@called
def join(
    space: NestSpace, own: Array, inside: WaysInside, way: int, visits: float, final: bool, scratch: Scratch
) -> None:
    """Masks and words of a way inside that runs ``visits`` times, with this level's tiles around it.

    Words that way counts enter in every visit. A tensor whose tile had not moved during a visit (its bit in
    the mask) now meets the loops of this level. If they move it, its words are known. If they do not, it
    stays in the mask for the level outside to decide, or, where no further loops come, enters once.
    """
    levels = inside.masks.shape[1]
    for level in range(levels + 1):
        of_operands, of_output = 0.0, 0.0
        if level < levels:
            of_operands = visits * inside.words[way, 2 * level]
            of_output = visits * inside.words[way, 2 * level + 1]
        staying = 0
        for tensor in range(space.relevant.shape[0]):
            stayed = own[tensor] if level == levels else (inside.masks[way, level] >> tensor) & 1 == 1
            if not stayed:
                continue
            if not scratch.moving[tensor] and not final:
                staying |= 1 << tensor
                continue
            words = scratch.entering[tensor] if scratch.moving[tensor] else scratch.whole[tensor]
            if tensor == space.output:
                of_output += words
            else:
                of_operands += words
        scratch.masks[level] = staying
        scratch.words[2 * level] = of_operands
        scratch.words[2 * level + 1] = of_output


@called
def weigh(cost: NestCost, used: float, scratch: Scratch) -> None:
    """The values by which the way in ``scratch`` is compared."""
    if not cost.final:
        if cost.by_energy:
            scratch.values[0] = 0.0
            for number in range(scratch.words.shape[0]):
                scratch.values[0] += scratch.words[number] * cost.word_pj[number]
        else:
            for number in range(scratch.words.shape[0]):
                scratch.values[number] = scratch.words[number]
        return
    scratch.values[0] = used
    scratch.values[1] = 0.0
    scratch.values[2] = 0.0
    if cost.counts_energy:
        energy = cost.fixed_pj
        for number in range(scratch.words.shape[0]):
            words = cost.repeats * scratch.words[number] + cost.hoisted[number]
            energy += words * cost.word_pj[number]
        scratch.values[1] = energy
    if cost.counts_cycles:
        cycles = cost.operations
        levels = scratch.words.shape[0] // 2
        for level in range(levels + 1):
            reads, writes = cost.fixed_reads[level], cost.fixed_writes[level]
            if level > 0:  # words that enter the tiles inside: read here, and the output's come back
                of_operands = cost.repeats * scratch.words[2 * level - 2] + cost.hoisted[2 * level - 2]
                of_output = cost.repeats * scratch.words[2 * level - 1] + cost.hoisted[2 * level - 1]
                reads += of_operands + of_output
                writes += of_output
            if level < levels:
                of_operands = cost.repeats * scratch.words[2 * level] + cost.hoisted[2 * level]
                of_output = cost.repeats * scratch.words[2 * level + 1] + cost.hoisted[2 * level + 1]
                writes += of_operands + of_output
            cycles = max(cycles, np.ceil(reads / cost.read_rate[level]))
            cycles = max(cycles, np.ceil(writes / cost.write_rate[level]))
        scratch.values[2] = cycles


@called
def insert(count: int, ways: Ways, scratch: Scratch) -> int:
    """Put the way in ``scratch`` among ``count`` undominated ones: their new number.

    -1 - ``count`` if one of them has the same masks and no larger value anywhere. Those that the new one
    dominates are dropped, and the new one is the last. Ways with different masks are not compared: what is
    still to be decided further out may make either of them the better one.
    """
    levels, size = scratch.masks.shape[0], scratch.values.shape[0]
    row = 0
    while row < count:
        alike = True
        for level in range(levels):
            alike = alike and ways.masks[row, level] == scratch.masks[level]
        better, worse = True, True
        if alike:
            for value in range(size):
                if ways.values[row, value] > scratch.values[value]:
                    better = False
                elif ways.values[row, value] < scratch.values[value]:
                    worse = False
            if better:
                return -1 - count
            if worse:
                count -= 1
                copy(ways, count, row)
                continue
        row += 1
    for level in range(levels):
        ways.masks[count, level] = scratch.masks[level]
    for number in range(scratch.words.shape[0]):
        ways.words[count, number] = scratch.words[number]
    for value in range(size):
        ways.values[count, value] = scratch.values[value]
    return count + 1


@called
def copy(ways: Ways, source: int, to: int) -> None:
    """Copy a row of the ways over another."""
    for level in range(ways.masks.shape[1]):
        ways.masks[to, level] = ways.masks[source, level]
    for number in range(ways.words.shape[1]):
        ways.words[to, number] = ways.words[source, number]
    for value in range(ways.values.shape[1]):
        ways.values[to, value] = ways.values[source, value]
    for number in range(ways.origins.shape[1]):
        ways.origins[to, number] = ways.origins[source, number]
