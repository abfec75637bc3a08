"""Compiled: for every tile of every level a lower bound on what the loops inside it cost.

A *vector* is the temporal points of all dims that a level and those inside it cover. For each level,
``closed`` bounds the energy inside when the vector just inside the level's loops is given, ``opened`` when
the one that includes them is. Both are per set of tensors that the next loops outside leave *in place*: what
fills the next level inside of such a tensor has been charged where its run of irrelevant loops ends.

Where a level has several parts (:mod:`solvers.mapping.exact.parts`), tiles share its room that the tables do
not know of each other. So every word held has a price, whatever it is: a mapping that fits pays no more for
its words than the whole room is worth, which is subtracted (Lagrange's relaxation).

Any mapping has a path of vectors and sets through these tables that costs no more than it does. Take the
fill of a level with one tensor. If the first loop outside that tile moves the tensor, every loop outside
multiplies the words (``moved_words``; slides along one axis are bounded by its different positions), and the
tensor is in no set. Otherwise the irrelevant loops of its run cost nothing: let the block where the run ends
add the tensor to the set; there no more irrelevant loops are inside than the vector has points, so the words
are at least those of ``floors_pj``. Blocks further inside hold only irrelevant loops of the tensors in place
(``Space.still``), and a block's innermost loop leaves all of them in place (``Space.runs``).
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
from solvers.mapping.exact.kernels.words_kernel import has_room, kept_words, moved_words

if TYPE_CHECKING:
    from solvers.mapping.exact.tables import Assignment, Lattice, Space

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Real = Any
"""A 64-bit floating-point number of compiled code."""

BLOCK = 8192
"""Tiles whose fill is looked at in one step."""


@entry
def bound_of_assignment(space: Space, room: Assignment, lattice: Lattice, any_order: bool) -> float:
    """A lower bound on the objective of all mappings with the factors and keep sets of ``room``.

    With ``any_order`` the tensors that a level of several parts keeps may end their tiles in any order; what
    the lattice and ``room.keep`` hold is then of no use to a search.

    A call ends when it has looked at about ``steps.left`` tiles of the lattice. If ``steps.done`` is above 0
    then, there are more: the result says nothing yet, and the next call goes on from there
    (:func:`solvers.mapping.exact.bound.bound_in_time` makes these calls).
    """
    if lattice.steps.done[0] == 0:
        assign(space, room)
        for level in range(len(room.keep)):
            if space.first[level] == level and space.prices[level] > 0:
                room.energy_pj[0] -= space.prices[level] * space.model.usable_words[level]
        _number(space, room, lattice)
    lattice.steps.reached[0] = 0
    if not _fill_lattice(space, room, lattice, any_order):
        return 0.0
    lattice.steps.done[0] = 0
    top = len(room.keep) - 1
    whole = place(space, lattice, top, 0) + lattice.size[0] - 1
    return value(space, room, room.energy_pj[0] + lattice.opened[whole], room.demand)


@inlined
def place(space: Space, lattice: Lattice, level: int, run: int) -> Int:
    """Where the bounds of a level and a set of tensors begin in ``lattice.opened`` and ``closed``."""
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
def _fill_lattice(space: Space, room: Assignment, lattice: Lattice, any_order: bool) -> bool:
    """Bounds for all tiles and levels, from the inside out; False if some are left for the next call."""
    size, top = lattice.size[0], len(room.keep) - 1
    lattice.subset[:] = 0
    if lattice.steps.done[0] == 0:
        for run in range(len(space.runs)):
            start = place(space, lattice, 0, run)
            lattice.opened[start : start + size] = 0.0
    for level in range(1, top + 1):  # noqa: SIM110 - compiled code has no all()
        if not _fill_level(space, room, lattice, level, any_order):
            return False
    return True


@inlined
def _fill_level(space: Space, room: Assignment, lattice: Lattice, level: int, any_order: bool) -> bool:
    """The bounds of one level; in any order, those for each set of tensors that the parts inside it can have,
    whichever of them ends its tile last. Costs depend on the order through these sets only, since the parts
    of a level differ in nothing else. False if some are left for the next call."""
    first = space.first[level - 1]
    every = 0
    for part in range(first, space.last[level - 1] + 1):
        every |= room.keep[part]
    several = any_order and first < space.last[level - 1]
    count = min(_count(every), level - first)
    for inside in range(every + 1):
        if (inside & ~every or _count(inside) != count) if several else inside != every:
            continue
        lattice.subset[level] = _rank(inside, every) if several and level <= space.last[level - 1] else 0
        begun = False
        for tensor in range(room.ratio.shape[1]):
            if several and count == level - first:
                if inside >> tensor & 1 == 0:
                    continue
                _arrange(space, room, lattice, level, (every, inside, 1 << tensor))
            elif tensor:
                continue
            elif several:
                _arrange(space, room, lattice, level, (every, inside, 0))
            for block in range(0, lattice.size[0], BLOCK):
                if _is_due(lattice, BLOCK * len(space.runs)):
                    _close(space, room, lattice, (level, block), begun)
                if _is_behind(lattice):
                    return False
            begun = True
        if not _open(space, room, lattice, level):
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
    """The place of a set among those of equal size that ``every`` contains."""
    rank = 0
    for other in range(tensors):
        rank += other & ~every == 0 and _count(other) == _count(tensors)
    return rank


@inlined
def _arrange(
    space: Space, room: Assignment, lattice: Lattice, level: int, sets: tuple[int, int, int]
) -> None:
    """Let the parts inside ``level`` keep the tensors ``inside``, the last of them ``ends``, and those
    outside the rest of ``every``; whatever the order is otherwise."""
    every, inside, ends = sets
    left, right = inside & ~ends, every & ~inside
    lattice.subset[level - 1] = _rank(left, every)
    for part in range(space.first[level - 1], space.last[level - 1] + 1):
        if part == level - 1:
            room.keep[part] = ends
        elif part < level:
            room.keep[part] = left & -left
            left &= left - 1
        else:
            room.keep[part] = right & -right
            right &= right - 1
    for tensor in range(room.ratio.shape[1]):
        connect(space, room, tensor)


@inlined
def _number(space: Space, room: Assignment, lattice: Lattice) -> None:
    """The divisors of what is left of each dim, and the numbering of their vectors."""
    size = 1
    for dim in range(len(room.rest)):
        count = 0
        for index in range(space.divisor_count[dim]):
            if room.rest[dim] % space.divisors[dim, index] == 0:
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
def _close(space: Space, room: Assignment, lattice: Lattice, where: tuple[int, int], lower: bool) -> None:
    """``lattice.closed`` of a level for a block of vectors, given by the first of them, at which
    ``lattice.digits`` stand: the tile inside the level's loops and fan-out is known, so is what fills it.

    With ``lower`` what is there is lowered."""
    level, block = where
    inner = level - 1
    tensors = room.ratio.shape[1]
    for vector in range(block, min(block + BLOCK, lattice.size[0])):
        for dim in range(len(lattice.digits)):
            lattice.tile[dim] = lattice.value[dim, lattice.digits[dim]] * room.covered[inner, dim]
        fits = has_room(space, room, inner, lattice.tile)
        asked = _more_operands_pj(space, room, level, lattice.tile) if fits else np.inf
        if space.prices[inner] > 0:
            asked += space.prices[inner] * kept_words(space, room, inner, lattice.tile)
        for run in range(len(space.runs)):
            energy = asked
            if fits:
                energy += _least_opened(space, room, lattice, (inner, run, vector))
                for tensor in range(tensors):
                    if room.keep[inner] >> tensor & 1 and not space.runs[run] >> tensor & 1:
                        words = moved_words(space, room, inner, tensor, lattice.tile)
                        sent = words * room.ratio[inner, tensor]
                        sent *= _more_groups(space, room, level, tensor, lattice.tile)
                        energy += moved_pj(space, room, inner, tensor, words, sent)
            at = place(space, lattice, level, run) + vector
            lattice.closed[at] = min(lattice.closed[at], energy) if lower else energy
        _next(lattice)


@inlined
def _more_operands_pj(space: Space, room: Assignment, level: int, tile: Array) -> Real:
    """What the MAC units ask for beyond ``Assignment.operands`` as the children of ``level`` cover ``tile``.

    Of the fan-outs on a tensor's way whose groups depend on the tile, only the outermost counts: a search
    from the outside in meets no other before, so that this energy comes on top of what it charged.
    """
    energy = 0.0
    for tensor in range(len(room.operands)):
        if room.outermost_merging[tensor] == level:
            words = room.operands[tensor] * _more_groups(space, room, level, tensor, tile)
            energy += operands_pj(space, room, tensor, words)
            energy -= operands_pj(space, room, tensor, room.operands[tensor])
    return energy


@inlined
def _more_groups(space: Space, room: Assignment, level: int, tensor: int, tile: Array) -> Real:
    """Multicast groups around children of a known tile over those of all tiles."""
    return groups_around(space, room, level, tensor, tile) / room.groups[level, tensor]


@inlined
def _least_opened(space: Space, room: Assignment, lattice: Lattice, at: tuple[int, int, int]) -> float:
    """The least of the level's opened bounds for the tensors of ``run`` or those of them that pass on.

    Only a tensor that the level keeps can be moved again by loops inside it."""
    level, run, vector = at
    least = np.inf
    for fewer in range(len(space.runs)):
        dropped = space.runs[run] & ~space.runs[fewer]
        if space.runs[fewer] & ~space.runs[run] == 0 and dropped & ~room.keep[level] == 0:
            least = min(least, lattice.opened[place(space, lattice, level, fewer) + vector])
    return least


@inlined
def _open(space: Space, room: Assignment, lattice: Lattice, level: int) -> bool:
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
                    start = place(space, lattice, level, run)
                    lattice.opened[start : start + size] = np.inf
                _least_inside(space, lattice, (level, run, more))
                _add_floors(space, room, lattice, (level, run, more))
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
    start = place(space, lattice, level, more)
    copy(lattice.closed[start : start + size], lattice.scratch)
    for dim in range(len(lattice.counts)):
        if space.still[run] >> dim & 1 and lattice.counts[dim] > 1:
            _least_along(lattice, dim)


@inlined
def _least_along(lattice: Lattice, dim: int) -> None:
    """Lower ``lattice.scratch`` to the least over the divisors of each dim's factor, prime by prime."""
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
    """Lower the bounds of all vectors with one digit to those with the other in its place."""
    to, origin = digits[0] * stride, digits[1] * stride
    for block in range(0, lattice.size[0], stride * count):
        for offset in range(block, block + stride):
            if lattice.scratch[offset + origin] < lattice.scratch[offset + to]:
                lattice.scratch[offset + to] = lattice.scratch[offset + origin]


@inlined
def _add_floors(space: Space, room: Assignment, lattice: Lattice, which: tuple[int, int, int]) -> None:
    """Lower ``opened`` of ``run`` to ``scratch`` and what the tensors that ``more`` adds are delivered."""
    level, run, more = which
    start = place(space, lattice, level, run)
    added = space.runs[more] & ~space.runs[run]
    for vector in range(lattice.size[0]):
        energy = lattice.scratch[vector]
        if added:
            for dim in range(len(lattice.digits)):
                lattice.tile[dim] = lattice.value[dim, lattice.digits[dim]]
            energy += floors_pj(space, room, level, added, lattice.tile)
            _next(lattice)
        lattice.opened[start + vector] = min(lattice.opened[start + vector], energy)


@inlined
def floors_pj(space: Space, room: Assignment, level: int, tensors: int, inside: Array) -> float:
    """What filling the next inner levels of ``tensors`` costs at least, if the loops of ``level`` leave them
    in place: only irrelevant loops around ``inside``, the temporal points up to ``level``, repeat words."""
    energy = 0.0
    for tensor in range(room.ratio.shape[1]):
        inner = room.child[level, tensor]
        if tensors >> tensor & 1 and inner >= 0:
            words = room.floor_words[inner, tensor]
            for dim in range(len(inside)):
                if space.model.axis_of[tensor, dim] < 0:
                    words *= room.rest[dim] // inside[dim]
            energy += boundary_pj(space, room, inner, tensor, words)
    return energy
