"""Ladders: the factors that a block of loops may take of what the blocks decided before have left."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.budget import InTime, OutOfTimeError, always_in_time
from solvers.mapping.kapla.schemes import Schemes
from solvers.mapping.space.space import MappingSpace, Slot

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

    def choices(self, schemes: Schemes, dim: int) -> tuple[Array, Array]:
        """Which divisors of ``dim`` may stand in the slot, where it has no factor yet, bool [n, divisors].

        Then which of them is the smallest, alike.
        """
        own = self.divisors[dim]
        totals = np.searchsorted(own, schemes.rest[:, dim])
        smallest: Array = own == self.first[dim, totals][:, None]
        return self.allowed[dim, totals, : len(own)], smallest


def ladders(space: MappingSpace, in_time: InTime = always_in_time) -> dict[Slot, Ladder]:
    """A ladder for every slot, in the order of decision: from the inside out, but a level's tiles only after
    the fan-out above them is spread (section IV-C: stacking before caching).

    Its tables are quadratic in the number of divisors. Raises OutOfTimeError where ``in_time()`` ends it.
    """
    tables = space.tables
    order = sorted(space.slots, key=lambda slot: (slot.level - slot.spatial, not slot.spatial))
    divisors = tuple(tables.divisors[dim, :count] for dim, count in enumerate(tables.divisor_count.tolist()))
    most = tables.divisors.shape[1]
    absorbed = np.zeros((len(divisors), most), np.bool_)
    absorbed[:, 0] = True  # outside the last slot there is nothing: what is left must be 1
    forced = np.ones((len(space.architecture.levels), len(divisors)), np.int64)
    found: dict[Slot, Ladder] = {}
    for slot in reversed(order):
        if not in_time():
            raise OutOfTimeError("the ladders are not made in time")
        allowed = np.zeros((len(divisors), most, most), np.bool_)
        for dim, own in enumerate(divisors):
            allowed[dim, : len(own), : len(own)] = _allowed(slot, dim, own, absorbed[dim])
        following, first = _following(allowed, divisors)
        found[slot] = Ladder(slot, divisors, allowed, following, first, forced.copy())
        absorbed = np.any(allowed, axis=2)
        forced[slot.level :] *= np.array(slot.least)
    return {slot: found[slot] for slot in order}


def _allowed(slot: Slot, dim: int, divisors: Array, absorbed: Array) -> Array:
    """Which factors (columns) leave of which totals (rows) something that later slots can take."""
    whole = divisors[:, None] % divisors[None, :] == 0
    left = np.searchsorted(divisors, divisors[:, None] // divisors[None, :])
    within = (divisors >= slot.least[dim]) & (divisors <= slot.most[dim])
    found: Array = whole & within[None, :] & absorbed[left]
    return found


def _following(allowed: Array, divisors: tuple[Array, ...]) -> tuple[Array, Array]:
    """The next larger allowed factor after each, and the smallest one; 0 if there is none."""
    most = allowed.shape[2]
    following = np.zeros(allowed.shape, np.int64)
    first = np.zeros(allowed.shape[:2], np.int64)
    for dim, own in enumerate(divisors):
        values = np.zeros(most + 1, np.int64)
        values[: len(own)] = own
        indices = np.where(allowed[dim], np.arange(most), most)  # ``most`` stands for none, whose value is 0
        nearest = np.minimum.accumulate(indices[:, ::-1], axis=1)[:, ::-1]
        following[dim, :, :-1] = values[nearest[:, 1:]]
        first[dim] = values[nearest[:, 0]]
    return following, first
