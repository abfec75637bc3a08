"""Ladders: the factors that a block of loops may take of what the blocks decided before have left."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.budget import InTime, OutOfTimeError, always_in_time
from solvers.divisors import divisors
from solvers.mapping.kapla.schemes import Schemes
from solvers.mapping.space.space import MappingSpace, Slot, padded

if TYPE_CHECKING:
    from solvers.mapping.kapla.filling_kernel import LadderTables

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Ladder:
    """The factors that ``slot`` may take of each dim, such that the slots decided later can take the rest.

    Its rungs are the allowed factors of a dim, ascending: a search climbs from one to the next. A *total* is
    what this slot and later ones have to take of a dim. Totals and factors are divisors of the dim's size.

    * ``divisors``: for each dim its divisors, ascending. They number totals and factors in all that follows.
    * ``allowed`` bool [dims, totals, factors], by these numbers: whether the factor is allowed;
    * ``following`` int64 [dims, totals, factors]: the next larger allowed factor itself, 0 for none;
    * ``first`` int64 [dims, totals]: the smallest allowed factor itself, 0 for none;
    * ``forced`` int64 [levels, dims]: the least that later slots put inside each level's tiles.
    """

    slot: Slot
    divisors: tuple[Array, ...]
    allowed: Array
    following: Array
    first: Array
    forced: Array

    def positions(self, values: Array) -> Array:
        """The indices of the divisors ``values`` [n, dims] in the arrays of their dims, int64 [n, dims]."""
        found = [np.searchsorted(own, values[:, dim]) for dim, own in enumerate(self.divisors)]
        return np.stack(found, axis=1)

    def begun(self, schemes: Schemes) -> Schemes:
        """``schemes`` with the smallest allowed factors in the slot; those for which there are some."""
        dims = np.arange(len(self.divisors))
        for dim in dims:
            first = self.first[dim, self.positions(schemes.rest)[:, dim]]
            if (first != 1).any():
                schemes = schemes[first > 0]
                schemes = schemes.grown(self.slot, np.full(len(schemes), dim), first[first > 0])
        return schemes

    def steps(self, schemes: Schemes) -> Array:
        """The next larger factor of every dim in the slot, int64 [n, dims], 0 if there is none."""
        factors = schemes.factors(self.slot)
        totals = self.positions(factors * schemes.rest)
        found: Array = self.following[np.arange(len(self.divisors)), totals, self.positions(factors)]
        return found

    def tables(self, space: MappingSpace) -> LadderTables:
        """The ladder as compiled code takes it; ``space`` is the one that it was made for."""
        from solvers.mapping.kapla.filling_kernel import LadderTables

        slot, count = self.slot, np.array([len(own) for own in self.divisors], np.int64)
        fanout = space.architecture.levels[slot.level].fanout
        numbers = padded(self.divisors), count, self.allowed, self.following, self.first
        return LadderTables(slot.level, slot.spatial, fanout, *numbers)


def ladders(space: MappingSpace, in_time: InTime = always_in_time) -> dict[Slot, Ladder]:
    """A ladder for every slot, in the order of decision: from the inside out, but a level's tiles only after
    the fan-out above them is spread (section IV-C: stacking before caching).

    Its tables are quadratic in the number of divisors. Raises OutOfTimeError where ``in_time()`` ends it.
    """
    order = sorted(space.slots, key=lambda slot: (slot.level - slot.spatial, not slot.spatial))
    of_dims = []
    for dim, (_, size) in enumerate(space.layer.dims):
        if not in_time():
            raise OutOfTimeError("the ladders are not made in time")
        # most dims have no bounds but their size, and many layers have dims of equal sizes
        bounds = tuple((slot.least[dim], min(slot.most[dim], size)) for slot in order)
        few = len(divisors(size)) <= MOST_REMEMBERED
        of_dims.append((_remembered_rungs if few else _rungs)(size, bounds))
    every = tuple(np.array(divisors(size)) for _, size in space.layer.dims)
    dims, most = len(every), max(map(len, every))
    forced = np.ones((len(space.architecture.levels), dims), np.int64)
    found: dict[Slot, Ladder] = {}
    for number, slot in reversed(list(enumerate(order))):
        allowed = np.zeros((dims, most, most), np.bool_)
        following = np.zeros(allowed.shape, np.int64)
        first = np.zeros(allowed.shape[:2], np.int64)
        for dim, rungs in enumerate(of_dims):
            own, count = rungs[number], len(every[dim])
            allowed[dim, :count, :count], following[dim, :count, :count] = own.allowed, own.following
            first[dim, :count] = own.first
        found[slot] = Ladder(slot, every, allowed, following, first, forced.copy())
        forced[slot.level :] *= np.array(slot.least)
    return {slot: found[slot] for slot in order}


class Rungs(NamedTuple):
    """A ladder's numbers for one dim, without the first index of its arrays."""

    allowed: Array
    following: Array
    first: Array


def _rungs(size: int, bounds: tuple[tuple[int, int], ...]) -> tuple[Rungs, ...]:
    """The rungs of a dim in each slot, in the order of decision; ``bounds``: the least and the most factor
    that each slot allows."""
    own, found = np.array(divisors(size)), []
    whole = own[:, None] % own == 0
    left = np.searchsorted(own, own[:, None] // own)
    absorbed = own == 1  # outside the last slot there is nothing: what is left must be 1
    for least, most in reversed(bounds):
        allowed = whole & (own >= least) & (own <= most) & absorbed[left]
        found.append(Rungs(allowed, *_following(allowed, own)))
        absorbed = allowed.any(axis=1)
    return tuple(reversed(found))


MOST_REMEMBERED = 64
"""The rungs of sizes with more divisors than this are made anew each time: they may be megabytes."""

_remembered_rungs = lru_cache(maxsize=1024)(_rungs)


def _following(allowed: Array, divisors: Array) -> tuple[Array, Array]:
    """The next larger allowed factor after each, and the smallest one; 0 if there is none."""
    count = len(divisors)
    values = np.append(divisors, 0)
    indices = np.where(allowed, np.arange(count), count)  # ``count`` stands for none, whose value is 0
    nearest = values[np.minimum.accumulate(indices[:, ::-1], axis=1)[:, ::-1]]
    return np.column_stack([nearest[:, 1:], np.zeros(count, np.int64)]), nearest[:, 0]
