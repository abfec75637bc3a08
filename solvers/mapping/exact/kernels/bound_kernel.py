"""Compiled: for every tile of every level a lower bound on the energy of what is inside it.

The search chooses temporal loops level by level from the outside in, and asks at each node what the rest
costs at least. The answers are a table, filled from the inside out by dynamic programming, once for each
assignment of spatial factors and kept tensors.

A *vector* has one entry a dim: the temporal points of that dim which a level and all levels inside it cover.
Times the spatial factors it is the tile of the level. The temporal loops of level ``i``, its *block*, lead
from one vector to a multiple of it::

    vector inside the loops  --- temporal loops of level i --->  vector around the loops
          closed[i]                                                   opened[i]

``closed[i]`` bounds the energy inside the loops of level ``i`` for each vector that they can begin with:
what fills the tile of level ``i - 1``, and all that is further inside. ``opened[i]`` is the least of it over
all vectors that divide the one around the loops. Level 0 has only ``opened``, which is 0 everywhere: nothing
but the MAC units is inside it.

**Stationary tensors.** A loop over a dim that a tensor does not have leaves the tensor's tile as it is. Such
loops directly outside a tile, up to the first loop that moves it, are the tensor's *run* there; during its
run the tensor is *stationary*, and nothing is delivered again. How often a tile is delivered thus depends on
where its run ends, which may be in a block further out than the one whose vector is looked at. So both
tables have an entry for every set of stationary tensors (``Space.runs``): in ``closed[i]`` those whose run
has begun at the vector, in ``opened[i]`` those whose run goes on outside the loops of level ``i``. The fill
of a stationary tensor is charged at the level where its run ends.

**Why this is a lower bound.** Every mapping has a path of vectors and sets through the tables that costs no
more than the mapping does. Take the fill of one level with one tensor:

* The tensor has no run, for the first loop outside the tile moves it. The tensor is in no set, and
  ``closed`` charges ``moved_words``: every loop outside the tile multiplies the words, but where tiles
  overlap along an axis only the different positions of that axis are counted.
* The tensor has a run, which ends in the block of some level ``j``. On the way in, that block adds the tensor
  to the set, and charges ``floors_pj``: the tensor's different words, once for every irrelevant iteration
  outside the vector around the block. Those loops are outside the loop that ended the run, so each of their
  iterations delivers all words anew; irrelevant loops inside are left out, which makes the charge smaller.
  If several levels keep the tensor within one run, only the outermost of these fills is charged.

Two facts keep the sets few. A block inside a run can only have loops that are irrelevant to every tensor
of the set (``Space.still``). And a set is only possible if one loop, the innermost of a block, leaves all its
tensors stationary (``Space.runs``).

Where a level has several parts (:mod:`solvers.mapping.exact.parts`), their tiles share its capacity, and the
tables of one part know nothing of the tiles of another. The constraint that they fit together is therefore
relaxed in Lagrange's way: the tables charge a price in pJ for every word held, and the price of the level's
whole capacity is subtracted at the end. A mapping that fits holds no more words than that, so the difference
is at most 0 and the bound still holds. :mod:`solvers.mapping.exact.prices` chooses the prices.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined
from solvers.mapping.exact.kernels.assignment_kernel import (
    assign,
    boundary_pj,
    connect,
    copy,
    groups_around,
    moved_pj,
    operands_pj,
    value,
)
from solvers.mapping.exact.kernels.words_kernel import fits_tile, kept_words, moved_words

if TYPE_CHECKING:
    from solvers.mapping.exact.tables import Assignment, Lattice, Space

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Real = Any
"""A 64-bit floating-point number of compiled code."""

BLOCK = 8192
"""Vectors whose ``closed`` bounds are filled in one step; a call can end only between two steps."""


@entry
def bound_of_assignment(space: Space, assignment: Assignment, lattice: Lattice, any_order: bool) -> float:
    """A lower bound on the objective of all mappings with the factors and keep sets of ``assignment``.

    With ``any_order`` the bound holds for every order in which the tensors of an uneven level may end their
    tiles. The lattice and ``assignment.keep`` are then those of no single order, and no search can use them.

    A call ends when it has looked at about ``steps.left`` tiles of the lattice. If ``steps.done`` is above 0
    then, there are more: the result says nothing yet, and the next call goes on from there
    (:func:`solvers.mapping.exact.bound.bound_in_time` makes these calls).
    """
    if lattice.steps.done[0] == 0:
        assign(space, assignment)
        # What the tables will charge for words held is taken back here for the whole capacity of each uneven
        # level: see the last paragraph of this module's docstring.
        for level in range(len(assignment.keep)):
            if space.first[level] == level and space.prices[level] > 0:
                assignment.energy_pj[0] -= space.prices[level] * space.model.usable_words[level]
        number_vectors(space, assignment, lattice)
    lattice.steps.reached[0] = 0
    if not _fill_lattice(space, assignment, lattice, any_order):
        return 0.0
    lattice.steps.done[0] = 0
    # The vector with the highest number has the largest divisor of every dim: it contains all points.
    top = len(assignment.keep) - 1
    whole = table_start(space, lattice, top, 0) + lattice.size[0] - 1
    energy = assignment.energy_pj[0] + lattice.opened[whole]
    return value(space, assignment, energy, assignment.demand, assignment.walk)


@inlined
def table_start(space: Space, lattice: Lattice, level: int, run: int) -> Int:
    """Where the bounds of a level and a set of tensors begin in ``lattice.opened`` and ``closed``.

    Both are one array of rows, a row having one number for each of the ``lattice.size`` vectors. Rows are
    ordered by level, then by the subset of tensors whose tiles have ended inside (uneven levels in any order
    have several, others one), then by the set of stationary tensors (``run``)."""
    row = level * space.most_subsets + lattice.subset[level]
    return (row * len(space.runs) + run) * lattice.size[0]


@inlined
def _is_due(lattice: Lattice, tiles: int) -> bool:
    """Whether this call does the next step, which looks at ``tiles`` tiles; if so, the step is counted.

    To go on in the middle of nested loops, a call walks through all steps in the same order as the calls
    before and skips the ``steps.done`` first ones. It also does no further step once it has looked at as many
    tiles as it was allowed.
    """
    lattice.steps.reached[0] += 1
    if lattice.steps.reached[0] <= lattice.steps.done[0] or lattice.steps.left[0] <= 0:
        return False
    lattice.steps.done[0] = lattice.steps.reached[0]
    lattice.steps.left[0] -= tiles
    return True


@inlined
def _is_behind(lattice: Lattice) -> bool:
    """Whether the step just reached is not done, so that this call has to end before it."""
    return bool(lattice.steps.reached[0] > lattice.steps.done[0])


@inlined
def _fill_lattice(space: Space, assignment: Assignment, lattice: Lattice, any_order: bool) -> bool:
    """Fill both tables for all levels, from the inside out; False if some are left for the next call.

    Nothing is inside the vector of level 0 but the MAC units, which ``Assignment.energy_pj`` has: 0 pJ.
    """
    size, top = lattice.size[0], len(assignment.keep) - 1
    lattice.subset[:] = 0
    if lattice.steps.done[0] == 0:
        for run in range(len(space.runs)):
            start = table_start(space, lattice, 0, run)
            lattice.opened[start : start + size] = 0.0
    for level in range(1, top + 1):  # noqa: SIM110 - compiled code has no all()
        if not _fill_level(space, assignment, lattice, level, any_order):
            return False
    return True


@inlined
def _fill_level(space: Space, assignment: Assignment, lattice: Lattice, level: int, any_order: bool) -> bool:
    """Fill the tables of one level, ``closed`` and then ``opened``; False if some are left for the next call.

    Usually every part keeps a known tensor, and the level has one table of each. With ``any_order`` the parts
    of an uneven level may end their tiles in any order, and such a level has a table for every set.
    """
    if any_order and space.first[level - 1] < space.last[level - 1]:
        return _fill_for_every_set(space, assignment, lattice, level)
    lattice.subset[level] = 0
    if not _close(space, assignment, lattice, level, False):
        return False
    return _open(space, assignment, lattice, level)


@inlined
def _fill_for_every_set(space: Space, assignment: Assignment, lattice: Lattice, level: int) -> bool:
    """Fill one table for each set of tensors whose tiles may have ended in the parts inside ``level``.

    A part keeps one tensor, whose tile is said to end there. What is inside a part is known as soon as the
    set of tensors is known that have ended there; in which order they did changes nothing outside. So there
    is a table for each set, and a path through the sets, from the inside out, for each order. With tensors W,
    I, O::

        part 1        part 2        part 3

                  +-> {W} --+---> {W, I} --+
        {} -------+-> {I} --+---> {W, O} --+-> {W, I, O}
                  +-> {O} --+---> {I, O} --+

    The entry of a table is the least over the tensor that ended last, thus over the tables one tensor
    smaller: 7 tables, filled in 12 passes, stand for the 6 orders. Where a level has more parts than tensors,
    its outermost parts are empty: their only set is that of all tensors.
    """
    first, last = space.first[level - 1], space.last[level - 1]
    # ``every`` are the tensors of the hardware level, ``ended`` how many of them end their tiles in the parts
    # inside ``level``. Each pass of the second loop fills the tables of one set of that size.
    every = 0
    for part in range(first, last + 1):
        every |= assignment.keep[part]
    ended = min(_count(every), level - first)
    for inside in range(every + 1):
        if inside & ~every or _count(inside) != ended:
            continue
        # outside of the last part all tensors have ended: there is a single table
        lattice.subset[level] = _rank(inside, every) if level <= last else 0
        if not _close_for_set(space, assignment, lattice, level, (every, inside)):
            return False
        if not _open(space, assignment, lattice, level):
            return False
    return True


@inlined
def _close_for_set(
    space: Space, assignment: Assignment, lattice: Lattice, level: int, sets: tuple[int, int]
) -> bool:
    """Fill ``closed`` for one set, as the least over its tensors of what it is if that tensor ended last.

    ``sets`` are all tensors of the level, and those that have ended in its parts inside ``level``. False if
    vectors are left for the next call.
    """
    every, inside = sets
    if _count(inside) < level - space.first[level - 1]:
        # there are fewer tensors than parts: the part just inside is empty, and no tensor ends there
        _arrange(space, assignment, lattice, level, (every, inside, 0))
        return _close(space, assignment, lattice, level, False)
    lower = False
    for tensor in range(assignment.ratio.shape[1]):
        if inside >> tensor & 1:
            _arrange(space, assignment, lattice, level, (every, inside, 1 << tensor))
            if not _close(space, assignment, lattice, level, lower):
                return False
            lower = True
    return True


@inlined
def _count(tensors: int) -> Int:
    """How many tensors are in a set: each step removes the lowest bit."""
    count = 0
    while tensors:
        tensors &= tensors - 1
        count += 1
    return count


@inlined
def _rank(tensors: int, every: int) -> Int:
    """The number of a set among those of equal size that ``every`` contains, counted from 0."""
    rank = 0
    for other in range(tensors):
        rank += other & ~every == 0 and _count(other) == _count(tensors)
    return rank


@inlined
def _arrange(
    space: Space, assignment: Assignment, lattice: Lattice, level: int, sets: tuple[int, int, int]
) -> None:
    """Write one arrangement of an uneven level's tensors into ``assignment.keep``, and what follows from it.

    ``sets`` are three bit masks: all tensors of the level (``every``), those that end their tile in its parts
    inside ``level``, and of these the one that ends in the outermost of these parts (``ends``, 0 for none).
    Which of the other parts a tensor ends in changes no number that the current pass reads, so the tensors of
    either side take the parts of their side in ascending order. ``x & -x`` is the lowest bit of ``x``, and
    ``x & (x - 1)`` is ``x`` without it.
    """
    every, inside, ends = sets
    # Of W, I and O in three parts, where ``level`` is the third, I and O have ended inside it and O last:
    #
    #     part 1: left = {I}     part 2: ends = {O}     part 3: right = {W}
    left, right = inside & ~ends, every & ~inside
    lattice.subset[level - 1] = _rank(left, every)
    for part in range(space.first[level - 1], space.last[level - 1] + 1):
        if part == level - 1:
            assignment.keep[part] = ends
        elif part < level:
            assignment.keep[part] = left & -left
            left &= left - 1
        else:
            assignment.keep[part] = right & -right
            right &= right - 1
    for tensor in range(assignment.ratio.shape[1]):
        connect(space, assignment, tensor)


@inlined
def number_vectors(space: Space, assignment: Assignment, lattice: Lattice) -> None:
    """Fill the lattice's divisors of what spatial factors leave of each dim, and number their vectors.

    A vector's number is in mixed radix: a digit per dim says which divisor, the first dim's digit is the
    least significant."""
    size = 1
    for dim in range(len(assignment.rest)):
        count = 0
        for index in range(space.divisor_count[dim]):
            if assignment.rest[dim] % space.divisors[dim, index] == 0:
                lattice.value[dim, count] = space.divisors[dim, index]
                count += 1
        lattice.counts[dim] = count
        lattice.stride[dim] = size
        size *= count
    lattice.size[0] = size
    lattice.digits[:] = 0


@inlined
def _next(lattice: Lattice) -> None:
    """Step ``lattice.digits`` to the vector of the next number, after the last to the first."""
    dim = 0
    while dim < len(lattice.digits):
        lattice.digits[dim] += 1
        if lattice.digits[dim] < lattice.counts[dim]:
            return
        lattice.digits[dim] = 0
        dim += 1


@inlined
def _close(space: Space, assignment: Assignment, lattice: Lattice, level: int, lower: bool) -> bool:
    """Fill ``lattice.closed`` of a level, ``BLOCK`` vectors a step; False if some are left for the next call.

    With ``lower``, entries already there are those of other tensors that may have ended last
    (:func:`_close_for_set`), and are only lowered.
    """
    for block in range(0, lattice.size[0], BLOCK):
        if _is_due(lattice, BLOCK * len(space.runs)):
            _close_block(space, assignment, lattice, (level, block), lower)
        if _is_behind(lattice):
            return False
    return True


@inlined
def _close_block(
    space: Space, assignment: Assignment, lattice: Lattice, where: tuple[int, int], lower: bool
) -> None:
    """Fill ``lattice.closed`` of a level for the next ``BLOCK`` vectors; ``where`` is the level and the
    number of the first of them.

    ``lattice.digits`` are those of that vector, and of the one behind the last when this is done.

    The vector is that of the next inner level, ``level - 1``, and makes its tile. So four things are known
    and added up: whether that tile fits (infinite if not); what the MAC units' requests cost beyond the
    least, since multicast groups depend on the tile; the bound on all that is further inside; and what fills
    the tile, for every tensor that is not stationary.
    """
    level, block = where
    inner = level - 1
    tensors = assignment.ratio.shape[1]
    # One pass a vector, in the order of their numbers, with ``digits`` going along. What does not depend on
    # the set of stationary tensors (capacity, the MAC units' requests, the price of the words held) is
    # computed once; the inner loop over ``run`` adds what does.
    for vector in range(block, min(block + BLOCK, lattice.size[0])):
        for dim in range(len(lattice.digits)):
            lattice.tile[dim] = lattice.value[dim, lattice.digits[dim]] * assignment.covered[inner, dim]
        fits = fits_tile(space, assignment, inner, lattice.tile)
        asked = _more_operands_pj(space, assignment, level, lattice.tile) if fits else np.inf
        if space.prices[inner] > 0:
            asked += space.prices[inner] * kept_words(space, assignment, inner, lattice.tile)
        for run in range(len(space.runs)):
            energy = asked
            if fits:
                energy += _least_opened(space, assignment, lattice, (inner, run, vector))
                for tensor in range(tensors):
                    if assignment.keep[inner] >> tensor & 1 and not space.runs[run] >> tensor & 1:
                        words = moved_words(space, assignment, inner, tensor, lattice.tile)
                        sent = words * assignment.ratio[inner, tensor]
                        sent *= more_groups(space, assignment, level, tensor, lattice.tile)
                        energy += moved_pj(space, assignment, inner, tensor, words, sent)
            at = table_start(space, lattice, level, run) + vector
            lattice.closed[at] = min(lattice.closed[at], energy) if lower else energy
        _next(lattice)


@inlined
def _more_operands_pj(space: Space, assignment: Assignment, level: int, tile: Array) -> Real:
    """Energy of what the MAC units ask for beyond ``Assignment.operands``, if the children of ``level`` cover
    ``tile``.

    Several fan-outs between the MAC units and a tensor's innermost level can have groups that depend on the
    tile. Only the outermost of them counts here, with the energy that it adds to that of ``operands``. The
    search adds the exact groups of each fan-out as it passes it from the outside in
    (``delivery_kernel._merge``), so until it passes this one ``operands`` are what it has charged.
    """
    energy = 0.0
    for tensor in range(len(assignment.operands)):
        if assignment.outermost_merging[tensor] == level:
            words = assignment.operands[tensor] * more_groups(space, assignment, level, tensor, tile)
            energy += operands_pj(space, assignment, tensor, words)
            energy -= operands_pj(space, assignment, tensor, assignment.operands[tensor])
    return energy


@inlined
def more_groups(space: Space, assignment: Assignment, level: int, tensor: int, tile: Array) -> Real:
    """By what factor the multicast groups are more for this tile than the least for any tile."""
    return groups_around(space, assignment, level, tensor, tile) / assignment.groups[level, tensor]


@inlined
def _least_opened(space: Space, assignment: Assignment, lattice: Lattice, at: tuple[int, int, int]) -> float:
    """The least bound on what is inside a tile of ``level`` while the tensors of ``run`` are stationary.

    ``at`` is the level, the number of ``run``, and the vector. The bound is an entry of ``opened`` of the
    level, by the set of tensors whose run comes from further inside and goes on outside the level's loops.
    Which tensors are in that set?

    * One that is not in ``run``: no, as it is in no run outside of these loops.
    * One of ``run`` that the level does not keep: yes. The stationary tile is one further inside, and its run
      goes through this level.
    * One of ``run`` that the level keeps: either is possible. Its tile here is stationary, but the level's
      own loops may move its tiles further inside, or leave them, too.

    So the least is taken over all sets that are ``run`` without some of the tensors that the level keeps.
    """
    level, run, vector = at
    least = np.inf
    for inner_run in range(len(space.runs)):
        added = space.runs[inner_run] & ~space.runs[run]
        ended = space.runs[run] & ~space.runs[inner_run]
        if added == 0 and ended & ~assignment.keep[level] == 0:
            least = min(least, lattice.opened[table_start(space, lattice, level, inner_run) + vector])
    return least


@inlined
def _open(space: Space, assignment: Assignment, lattice: Lattice, level: int) -> bool:
    """Fill ``lattice.opened`` of a level: for every set and vector the best vector inside its loops.

    ``run`` is the set of tensors whose run goes on outside the level's loops, ``more`` the set whose run has
    begun inside them, which contains ``run``. The run of each tensor that ``more`` has in addition ends among
    the level's loops, so its fill is charged here (``_add_floors``). False if some sets are left for the next
    call.
    """
    size = lattice.size[0]
    # ``scratch`` takes the best vector inside for one pair of sets, and ``opened`` the least over all
    # ``more``. Every pair is a step of its own, so ``first`` is decided by the walk and not by what this call
    # computes: a call that resumes must not clear what an earlier one has filled.
    for run in range(len(space.runs)):
        first = True
        for more in range(len(space.runs)):
            if space.runs[run] & ~space.runs[more]:
                continue
            if _is_due(lattice, 2 * size):
                if first:
                    start = table_start(space, lattice, level, run)
                    lattice.opened[start : start + size] = np.inf
                _least_inside(space, lattice, (level, run, more))
                _add_floors(space, assignment, lattice, (level, run, more))
            if _is_behind(lattice):
                return False
            first = False
    return True


@inlined
def _least_inside(space: Space, lattice: Lattice, which: tuple[int, int, int]) -> None:
    """Fill ``lattice.scratch``: for each vector the least ``closed`` bound of ``more`` over the vectors that
    one block of loops can lead from: those that divide it, and are smaller only in dims whose loops leave the
    tensors of ``run`` stationary."""
    level, run, more = which
    size = lattice.size[0]
    start = table_start(space, lattice, level, more)
    copy(lattice.closed[start : start + size], lattice.scratch)
    for dim in range(len(lattice.counts)):
        if space.still[run] >> dim & 1 and lattice.counts[dim] > 1:
            _least_along(lattice, dim)


@inlined
def _least_along(lattice: Lattice, dim: int) -> None:
    """Lower each entry of ``lattice.scratch`` to the least over all divisors of its vector's entry for a dim.

    It goes prime by prime, and for a prime through the factors in ascending order. A vector takes the least
    of itself and of the vector whose factor has that prime once less, which by then holds the least of all
    that have it less often still. So a vector is compared with one other for each prime of its factor instead
    of with one for each divisor. For a dim of 12 the first pass goes along the arrows of prime 2, the second
    along those of prime 3::

        1 ---2---> 2 ---2---> 4
        |3         |3         |3
        v          v          v
        3 ---2---> 6 ---2---> 12

    ``number`` is the index of the prime among the dim's divisors; no factor before it is a multiple of it.
    """
    count, stride = lattice.counts[dim], lattice.stride[dim]
    for number in range(1, count):
        prime = lattice.value[dim, number]
        if not _is_prime(lattice, dim, number):
            continue
        for digit in range(number, count):
            factor = lattice.value[dim, digit]
            if factor % prime:
                continue
            smaller = 0
            while lattice.value[dim, smaller] * prime != factor:
                smaller += 1
            _lower(lattice, stride, count, (digit, smaller))


@inlined
def _is_prime(lattice: Lattice, dim: int, number: int) -> bool:
    """Whether a divisor is a prime: no smaller one but 1 divides it."""
    composite = False
    for smaller in range(1, number):
        composite = composite or lattice.value[dim, number] % lattice.value[dim, smaller] == 0
    return not composite


@inlined
def _lower(lattice: Lattice, stride: int, count: int, digits: tuple[int, int]) -> None:
    """Lower the bounds of all vectors that have the first of two ``digits`` in one dim to those of the
    vectors that have the second one there and are otherwise equal.

    Vectors whose digits of the dim differ by one are ``stride`` numbers apart; there are ``count`` digits. So
    the table is a row of blocks of ``stride * count`` numbers, and in each block a digit has ``stride``
    numbers in a row. With ``count`` 3, digit 2 is lowered to digit 1 like this::

        |------------ block ------------|------------ block ------------|
        | digit 0 | digit 1 | digit 2   | digit 0 | digit 1 | digit 2   |
                    stride ----> stride             stride ----> stride
    """
    to, origin = digits[0] * stride, digits[1] * stride
    for block in range(0, lattice.size[0], stride * count):
        for offset in range(block, block + stride):
            if lattice.scratch[offset + origin] < lattice.scratch[offset + to]:
                lattice.scratch[offset + to] = lattice.scratch[offset + origin]


@inlined
def _add_floors(space: Space, assignment: Assignment, lattice: Lattice, which: tuple[int, int, int]) -> None:
    """Lower ``opened`` of ``run`` to ``scratch`` plus what filling the tensors costs that ``more`` adds."""
    level, run, more = which
    start = table_start(space, lattice, level, run)
    added = space.runs[more] & ~space.runs[run]
    # ``lattice.tile`` holds the vector itself here, without spatial factors: ``floors_pj`` asks how often the
    # loops outside it repeat. Only sets that add a tensor need it, so only they step ``digits``.
    for vector in range(lattice.size[0]):
        energy = lattice.scratch[vector]
        if added:
            for dim in range(len(lattice.digits)):
                lattice.tile[dim] = lattice.value[dim, lattice.digits[dim]]
            energy += floors_pj(space, assignment, level, added, lattice.tile)
            _next(lattice)
        lattice.opened[start + vector] = min(lattice.opened[start + vector], energy)


@inlined
def floors_pj(space: Space, assignment: Assignment, level: int, tensors: int, around: Array) -> float:
    """Energy that filling ``tensors`` costs at least whose run ends among the temporal loops of ``level``.

    What is filled is each tensor's next level inside ``level`` that keeps it. ``around`` [dims] is the vector
    around the loops of ``level``: irrelevant loops outside it each repeat the tensor's different words; loops
    inside it are taken to repeat none."""
    energy = 0.0
    for tensor in range(assignment.ratio.shape[1]):
        inner = assignment.child[level, tensor]
        if tensors >> tensor & 1 and inner >= 0:
            words = assignment.floor_words[inner, tensor]
            for dim in range(len(around)):
                if space.model.axis_of[tensor, dim] < 0:
                    words *= assignment.rest[dim] // around[dim]
            energy += boundary_pj(space, assignment, inner, tensor, words)
    return energy
