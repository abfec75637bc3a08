"""Compiled: for every tile of every level a lower bound on the energy of what is inside it.

The search chooses temporal loops level by level from the outside in, and asks at each node what the rest
costs at least. The answers are a table that is filled from the inside out, once per assignment of spatial
factors and kept tensors (dynamic programming).

A *vector* says for every dim how many temporal points a level and all levels inside it cover. With the
spatial factors it makes the tile of the level. The loops of level ``i`` lead from one vector to another::

    vector inside the loops  --- temporal loops of level i --->  vector around the loops
          closed[i]                                                   opened[i]

``closed[i]`` bounds the energy inside the loops of level ``i`` for each vector that they can begin with:
what fills the tile of level ``i - 1``, and all that is further inside. ``opened[i]`` is the least of it over
all vectors that divide the one around the loops.

Both are kept for each set of tensors that the loops just outside leave *in place*. Loops that are irrelevant
to a tensor, inside the first loop that moves it, are the tensor's *run*, and deliver nothing again. So what
fills the tile of such a tensor cannot be charged where the tile is known, but only at the level where its run
ends; until then the tensor is in the set.

Any mapping has a path of vectors and sets through these tables that costs no more than it does. Take the
fill of a level with one tensor.

* If the first loop outside that tile moves the tensor, every loop outside multiplies the words
  (``moved_words``; slides along one axis are bounded by its different positions). The tensor is in no set.
* Otherwise the irrelevant loops of its run cost nothing. The block where the run ends adds the tensor to
  the set. No more irrelevant loops are inside that block than the vector has points, so the words are at
  least those of ``floors_pj``. Blocks further inside hold only irrelevant loops of the tensors in place
  (``Space.still``), and the innermost loop of a block leaves all of them in place (``Space.runs``).

Where a level has several parts (:mod:`solvers.mapping.exact.parts`), their tiles share its capacity, and the
tables of one part know nothing of the tiles of another. Instead every word held has a price, whatever it is.
A mapping that fits pays no more for its words than the whole capacity is worth, so the bound remains one once
that is subtracted (Lagrange's relaxation; :mod:`solvers.mapping.exact.prices` chooses the prices).
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
"""Vectors whose fill is looked at in one step: between two steps a call can end."""


@entry
def bound_of_assignment(space: Space, assignment: Assignment, lattice: Lattice, any_order: bool) -> float:
    """A lower bound on the objective of all mappings with the factors and keep sets of ``assignment``.

    With ``any_order`` the tensors that a level of several parts keeps may end their tiles in any order; what
    the lattice and ``assignment.keep`` hold is then of no use to a search.

    A call ends when it has looked at about ``steps.left`` tiles of the lattice. If ``steps.done`` is above 0
    then, there are more: the result says nothing yet, and the next call goes on from there
    (:func:`solvers.mapping.exact.bound.bound_in_time` makes these calls).
    """
    if lattice.steps.done[0] == 0:
        assign(space, assignment)
        for level in range(len(assignment.keep)):
            if space.first[level] == level and space.prices[level] > 0:
                assignment.energy_pj[0] -= space.prices[level] * space.model.usable_words[level]
        _number(space, assignment, lattice)
    lattice.steps.reached[0] = 0
    if not _fill_lattice(space, assignment, lattice, any_order):
        return 0.0
    lattice.steps.done[0] = 0
    top = len(assignment.keep) - 1
    whole = table_start(space, lattice, top, 0) + lattice.size[0] - 1
    return value(space, assignment, assignment.energy_pj[0] + lattice.opened[whole], assignment.demand)


@inlined
def table_start(space: Space, lattice: Lattice, level: int, run: int) -> Int:
    """Where the bounds of a level and a set of tensors begin in ``lattice.opened`` and ``closed``.

    They are rows of ``lattice.size`` numbers, a vector each: level by level, in each level by the subset of
    tensors that its parts keep, and in each of these by the set in place."""
    row = level * space.most_subsets + lattice.subset[level]
    return (row * len(space.runs) + run) * lattice.size[0]


@inlined
def _is_due(lattice: Lattice, tiles: int) -> bool:
    """Whether the next step, which looks at so many tiles, is to be done now: not if an earlier call did it,
    nor if this call has looked at enough.

    A call walks through all steps in the same order as the first one did, and does those that are due.
    """
    lattice.steps.reached[0] += 1
    if lattice.steps.reached[0] <= lattice.steps.done[0] or lattice.steps.left[0] <= 0:
        return False
    lattice.steps.done[0] = lattice.steps.reached[0]
    lattice.steps.left[0] -= tiles
    return True


@inlined
def _is_behind(lattice: Lattice) -> bool:
    """Whether a step was left for the next call."""
    return bool(lattice.steps.reached[0] > lattice.steps.done[0])


@inlined
def _fill_lattice(space: Space, assignment: Assignment, lattice: Lattice, any_order: bool) -> bool:
    """Bounds for all tiles and levels, from the inside out; False if some are left for the next call."""
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
    """The bounds of one level; in any order, those for each set of tensors that the parts inside it can have,
    whichever of them ends its tile last. Costs depend on the order through these sets only, since the parts
    of a level differ in nothing else. False if some are left for the next call."""
    first = space.first[level - 1]
    every = 0
    for part in range(first, space.last[level - 1] + 1):
        every |= assignment.keep[part]
    several = any_order and first < space.last[level - 1]
    count = min(_count(every), level - first)
    for inside in range(every + 1):
        if (inside & ~every or _count(inside) != count) if several else inside != every:
            continue
        lattice.subset[level] = _rank(inside, every) if several and level <= space.last[level - 1] else 0
        begun = False
        for tensor in range(assignment.ratio.shape[1]):
            if several and count == level - first:
                if inside >> tensor & 1 == 0:
                    continue
                _arrange(space, assignment, lattice, level, (every, inside, 1 << tensor))
            elif tensor:
                continue
            elif several:
                _arrange(space, assignment, lattice, level, (every, inside, 0))
            for block in range(0, lattice.size[0], BLOCK):
                if _is_due(lattice, BLOCK * len(space.runs)):
                    _close(space, assignment, lattice, (level, block), begun)
                if _is_behind(lattice):
                    return False
            begun = True
        if not _open(space, assignment, lattice, level):
            return False
    return True


@inlined
def _count(tensors: int) -> Int:
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
    """Let the parts inside ``level`` keep the tensors ``inside``, the last of them ``ends``, and those
    outside the rest of ``every``; whatever the order is otherwise."""
    every, inside, ends = sets
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
def _number(space: Space, assignment: Assignment, lattice: Lattice) -> None:
    """The divisors of what is left of each dim, and the numbering of their vectors."""
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
def _close(
    space: Space, assignment: Assignment, lattice: Lattice, where: tuple[int, int], lower: bool
) -> None:
    """Fill ``lattice.closed`` of a level for a block of vectors, which begins with the vector ``block``.

    ``lattice.digits`` stand at that vector. With ``lower`` the bounds that are there are only lowered, since
    they are those of other orders of the level's parts.

    A vector makes the tile inside the level's loops and fan-out. So it is known whether that tile fits, what
    the MAC units' requests cost beyond the least (multicast groups depend on the tile), and what fills it,
    for every tensor that is not in place; the bounds further inside are known from the level before.
    """
    level, block = where
    inner = level - 1
    tensors = assignment.ratio.shape[1]
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
                        sent *= _more_groups(space, assignment, level, tensor, lattice.tile)
                        energy += moved_pj(space, assignment, inner, tensor, words, sent)
            at = table_start(space, lattice, level, run) + vector
            lattice.closed[at] = min(lattice.closed[at], energy) if lower else energy
        _next(lattice)


@inlined
def _more_operands_pj(space: Space, assignment: Assignment, level: int, tile: Array) -> Real:
    """What the MAC units ask for beyond ``Assignment.operands`` as the children of ``level`` cover ``tile``.

    Of the fan-outs on a tensor's way whose groups depend on the tile, only the outermost counts: a search
    from the outside in meets no other before, so that this energy comes on top of what it charged.
    """
    energy = 0.0
    for tensor in range(len(assignment.operands)):
        if assignment.outermost_merging[tensor] == level:
            words = assignment.operands[tensor] * _more_groups(space, assignment, level, tensor, tile)
            energy += operands_pj(space, assignment, tensor, words)
            energy -= operands_pj(space, assignment, tensor, assignment.operands[tensor])
    return energy


@inlined
def _more_groups(space: Space, assignment: Assignment, level: int, tensor: int, tile: Array) -> Real:
    """Multicast groups around children of a known tile over those of all tiles."""
    return groups_around(space, assignment, level, tensor, tile) / assignment.groups[level, tensor]


@inlined
def _least_opened(space: Space, assignment: Assignment, lattice: Lattice, at: tuple[int, int, int]) -> float:
    """The least of the level's opened bounds for the tensors of ``run`` or those of them that pass on.

    Only a tensor that the level keeps can be moved again by loops inside it."""
    level, run, vector = at
    least = np.inf
    for fewer in range(len(space.runs)):
        dropped = space.runs[run] & ~space.runs[fewer]
        if space.runs[fewer] & ~space.runs[run] == 0 and dropped & ~assignment.keep[level] == 0:
            least = min(least, lattice.opened[table_start(space, lattice, level, fewer) + vector])
    return least


@inlined
def _open(space: Space, assignment: Assignment, lattice: Lattice, level: int) -> bool:
    """``lattice.opened`` of a level: the best of all tiles inside its loops, by the tensors in place.

    With the tensors of a set in place for the loops outside, the level's loops can leave a larger set in
    place; each tensor more is delivered as often as its irrelevant loops outside the level say. False if some
    sets are left for the next call.
    """
    size = lattice.size[0]
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
    """Into ``lattice.scratch``: for each vector the least of ``closed`` of ``more`` over the vectors that it
    is a multiple of, in the dims alone that leave the tensors of ``run`` in place."""
    level, run, more = which
    size = lattice.size[0]
    start = table_start(space, lattice, level, more)
    copy(lattice.closed[start : start + size], lattice.scratch)
    for dim in range(len(lattice.counts)):
        if space.still[run] >> dim & 1 and lattice.counts[dim] > 1:
            _least_along(lattice, dim)


@inlined
def _least_along(lattice: Lattice, dim: int) -> None:
    """Lower ``lattice.scratch`` to the least over all divisors of the factor of one dim.

    Prime by prime, ascending in the factor: a vector takes the least of itself and of the vector with one
    prime fewer, which by then has the least of all with that prime any number of times fewer. That looks
    at a few vectors for each one instead of all its divisors.
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
    """Lower the bounds of all vectors with the first digit to those of the vectors with the second one in
    its stead; vectors that differ in one digit lie a multiple of ``stride`` apart."""
    to, origin = digits[0] * stride, digits[1] * stride
    for block in range(0, lattice.size[0], stride * count):
        for offset in range(block, block + stride):
            if lattice.scratch[offset + origin] < lattice.scratch[offset + to]:
                lattice.scratch[offset + to] = lattice.scratch[offset + origin]


@inlined
def _add_floors(space: Space, assignment: Assignment, lattice: Lattice, which: tuple[int, int, int]) -> None:
    """Lower ``opened`` of ``run`` to ``scratch`` and what the tensors that ``more`` adds are delivered."""
    level, run, more = which
    start = table_start(space, lattice, level, run)
    added = space.runs[more] & ~space.runs[run]
    for vector in range(lattice.size[0]):
        energy = lattice.scratch[vector]
        if added:
            for dim in range(len(lattice.digits)):
                lattice.tile[dim] = lattice.value[dim, lattice.digits[dim]]
            energy += floors_pj(space, assignment, level, added, lattice.tile)
            _next(lattice)
        lattice.opened[start + vector] = min(lattice.opened[start + vector], energy)


@inlined
def floors_pj(space: Space, assignment: Assignment, level: int, tensors: int, inside: Array) -> float:
    """What filling the next inner levels of ``tensors`` costs at least, if the loops of ``level`` leave them
    in place: only irrelevant loops around ``inside``, the temporal points up to ``level``, repeat words."""
    energy = 0.0
    for tensor in range(assignment.ratio.shape[1]):
        inner = assignment.child[level, tensor]
        if tensors >> tensor & 1 and inner >= 0:
            words = assignment.floor_words[inner, tensor]
            for dim in range(len(inside)):
                if space.model.axis_of[tensor, dim] < 0:
                    words *= assignment.rest[dim] // inside[dim]
            energy += boundary_pj(space, assignment, inner, tensor, words)
    return energy
