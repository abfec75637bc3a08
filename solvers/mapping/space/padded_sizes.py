"""The sizes that a layer may be padded to: boxes of them with a bound each, and those that are worth a solve.

There can be millions of sizes, even of one dim. A bound for a whole box spares most of them
(:class:`OpenBoxes`); which few to solve first is decided by what a size can be divided by
(:func:`promising_sizes`).
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush
from math import inf, prod
from typing import NamedTuple

import numpy as np

from costmodel.mapping.bounds.bounds import Scope, lower_bounds
from solvers.divisors import divisors, is_prime, prime_powers
from solvers.mapping.problem import MappingProblem, objective_of
from solvers.mapping.space.space_bounds import innermost_levels

Sizes = tuple[int, ...]
"""A size per dim, in the layer's order."""

TABLE = tuple(number for number in range(2, 1000) if is_prime(number))
"""The primes by which sizes are divided to see whether a large prime factor is left."""

BLOCK = 2_000
"""Sizes of one dim that are looked at between two looks at the clock."""

LARGEST_SMOOTH = 30
"""Numbers that only have primes up to this are generated rather than looked for among all others: there are
50,000 of them below 1e12."""


def count_sizes(problem: MappingProblem) -> int:
    """How many layers the padding makes of one, the unpadded one included."""
    return prod(problem.largest_size(dim) - size + 1 for dim, size in problem.layer.dims)


def at_sizes(problem: MappingProblem, sizes: Sizes) -> MappingProblem:
    """The problem of the layer padded to ``sizes``, with perfect factors."""
    dims = tuple((dim, size) for (dim, _), size in zip(problem.layer.dims, sizes, strict=True))
    rules = replace(problem.rules, padding=0.0, padded_dims=None)
    return replace(problem, layer=replace(problem.layer, dims=dims), rules=rules)


class SizeBox(NamedTuple):
    """All sizes from ``low`` to ``high``, dim by dim."""

    low: Sizes
    high: Sizes

    @property
    def is_one_size(self) -> bool:
        """Whether there is nothing to cut."""
        return self.low == self.high

    def halves(self) -> tuple[SizeBox, SizeBox]:
        """The box cut where it is widest in proportion."""
        cut = max(range(len(self.low)), key=lambda dim: self.high[dim] / self.low[dim])
        middle = (self.low[cut] + self.high[cut]) // 2
        below = (*self.high[:cut], middle, *self.high[cut + 1 :])
        above = (*self.low[:cut], middle + 1, *self.low[cut + 1 :])
        return SizeBox(self.low, below), SizeBox(above, self.high)


class OpenBoxes:
    """A heap of boxes, the lowest bound first. At first one box has all sizes within the padding; a caller
    takes boxes out and puts their halves back in."""

    def __init__(self, problem: MappingProblem) -> None:
        self._problem, self._innermost = problem, innermost_levels(problem)
        self._heap: list[tuple[float, SizeBox]] = []
        own = tuple(size for _, size in problem.layer.dims)
        self.add(SizeBox(own, tuple(problem.largest_size(dim) for dim, _ in problem.layer.dims)))

    @property
    def bound(self) -> float:
        """No mapping of a size that is still in a box costs less."""
        return self._heap[0][0] if self._heap else inf

    def pop(self) -> SizeBox:
        """The box of the lowest bound, taken out."""
        return heappop(self._heap)[1]

    def add(self, box: SizeBox, bound: float | None = None) -> None:
        """Put a box in, with its lower bound if that is known, else with the cost model's."""
        heappush(self._heap, (self.bound_of(box) if bound is None else bound, box))

    def bound_of(self, box: SizeBox) -> float:
        """The cost model's bound on the mappings of all sizes in the box: that of its smallest sizes, in a
        scope that reaches to its largest (:class:`costmodel.mapping.bounds.bounds.Scope`)."""
        smallest, largest = at_sizes(self._problem, box.low), at_sizes(self._problem, box.high)
        scope = Scope(self._innermost, None if box.is_one_size else largest.layer)
        bounds = lower_bounds(smallest.architecture, smallest.layer, scope)
        return objective_of(bounds, self._problem.objective)


def promising_sizes(
    problem: MappingProblem, dim: str, in_time: Callable[[], bool] = lambda: True
) -> list[int]:
    """Sizes of ``dim`` that offer something no smaller one does, ascending, its own size first.

    A good size is small, has no large prime factor, and has divisors that fill the fan-outs. A size is left
    out if a smaller one is as good in the other two respects. It is also left out if it has a prime ``p``
    with ``p * (size - own size) >= size``: one factor of any mapping is a multiple of ``p``, and could be one
    less and still cover the dim.

    This only chooses what to try. Nothing proves that sizes left out cost more; a proof has to cover them.
    Once ``in_time()`` is false, sizes not looked at yet are left out.
    """
    sides = sorted(
        {side for level in problem.architecture.levels for side in (level.fanout_x, level.fanout_y)}
    )
    least, largest = problem.layer.sizes[dim], problem.largest_size(dim)
    offers = Offers(least, sides)
    for start in range(least, largest + 1, BLOCK):
        if offers.small_enough:
            # Whatever follows has smaller primes still, and such numbers are few: no need to look at all.
            for size in smooth_sizes(offers.least_prime - 1, start, largest):
                offers.look_at(size)
            break
        for size in _without_hopeless(start, min(start + BLOCK, largest + 1), least, offers.least_prime):
            offers.look_at(size)
        if not in_time():
            break
    return list(offers.kept)


class Offers:
    """The sizes kept so far, ascending, and what each offers: the negative of its largest prime, then for
    each length in ``sides`` its largest divisor within that; more is better in every entry."""

    def __init__(self, least: int, sides: list[int]) -> None:
        self._least, self._sides = least, sides
        self.kept: dict[int, tuple[int, ...]] = {}
        self.least_prime = 2**63
        """The least of the largest primes of those kept sizes that fill every fan-out exactly. A larger size
        can only offer more if all its primes are smaller than this."""

    @property
    def small_enough(self) -> bool:
        """Whether only numbers with few, small primes can offer more, so that they can be generated."""
        return self.least_prime <= LARGEST_SMOOTH

    def look_at(self, size: int) -> None:
        """Keep ``size`` if no size kept before, all of which are smaller, offers as much."""
        prime = max((prime for prime, _ in prime_powers(size)), default=1)
        if (size > self._least and prime * (size - self._least) >= size) or prime >= self.least_prime:
            return
        found = divisors(size)
        offers = (-prime, *(found[bisect_right(found, side) - 1] for side in self._sides))
        if any(_covers(other, offers) for other in self.kept.values()):
            return
        self.kept[size] = offers
        if list(offers[1:]) == self._sides:
            self.least_prime = prime


def _without_hopeless(start: int, stop: int, least: int, most_prime: int) -> list[int]:
    """The sizes from ``start`` to before ``stop``, without those that surely have too large a prime.

    Sizes are divided by the primes of ``TABLE`` until none divides them. If something above 1 is left, the
    size has a prime larger than all of these, which is enough to rule most sizes out without factoring them.
    """
    sizes = np.arange(start, stop, dtype=np.int64)
    left = sizes.copy()
    for prime in TABLE:
        rows = np.arange(-start % prime, len(sizes), prime)
        while len(rows):
            left[rows] //= prime
            rows = rows[left[rows] % prime == 0]
    # Python's integers: the product of a prime and an excess may need more than 64 bits.
    beyond = TABLE[-1] + 1
    hopeless = (left > 1) & ((beyond >= most_prime) | ((sizes - least) > sizes // beyond))
    return [int(size) for size in sizes[~hopeless]]


def smooth_sizes(prime: int, start: int, largest: int) -> list[int]:
    """The numbers from ``start`` to ``largest`` without a prime factor above ``prime``, ascending.

    They are generated as products of powers, largest prime first.
    """
    found: list[int] = []

    def extend(number: int, primes: tuple[int, ...]) -> None:
        if len(primes) == 1:
            while number <= largest:
                if number >= start:
                    found.append(number)
                number *= primes[0]
            return
        while number <= largest:
            extend(number, primes[:-1])
            number *= primes[-1]

    if primes := tuple(one for one in TABLE if one <= prime):
        extend(1, primes)
    return sorted(found)


def _covers(other: tuple[int, ...], offers: tuple[int, ...]) -> bool:
    """Whether ``other`` offers at least as much in every respect."""
    return all(theirs >= ours for theirs, ours in zip(other, offers, strict=True))
