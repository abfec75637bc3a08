"""The sizes that a layer may be padded to, in boxes with a bound each, and those that are worth a solve."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable
from dataclasses import replace
from heapq import heappop, heappush
from math import inf, prod
from typing import NamedTuple

import numpy as np

from costmodel.mapping.bounds import Scope, lower_bounds
from solvers.divisors import divisors, is_prime, prime_powers
from solvers.mapping.problem import MappingProblem, objective_of
from solvers.mapping.space.space_bounds import innermost_levels

Sizes = tuple[int, ...]
"""A size per dim, in the layer's order."""

TABLE = tuple(number for number in range(2, 1000) if is_prime(number))
"""Primes that the sizes of a block are divided by."""

BLOCK = 2_000
"""Sizes that are looked at between two looks at the clock."""

LARGEST_SMOOTH = 30
"""Numbers of primes below this are listed rather than looked for: there are 50,000 below 1e12."""


def count_sizes(problem: MappingProblem) -> int:
    """How many layers the padding makes of one, itself among them."""
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
    """Boxes that together hold every size within the padding, the lowest bound first."""

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
        """``bound``: known already; None: the cost model's."""
        heappush(self._heap, (self.bound_of(box) if bound is None else bound, box))

    def bound_of(self, box: SizeBox) -> float:
        """The cost model's bound on the mappings of all sizes in the box."""
        smallest, largest = at_sizes(self._problem, box.low), at_sizes(self._problem, box.high)
        scope = Scope(self._innermost, None if box.is_one_size else largest.layer)
        bounds = lower_bounds(smallest.architecture, smallest.layer, scope)
        return objective_of(bounds, self._problem.objective)


def promising_sizes(
    problem: MappingProblem, dim: str, in_time: Callable[[], bool] = lambda: True
) -> list[int]:
    """Sizes of ``dim`` that offer something no smaller one does, ascending; its own size comes first.

    What counts is that the size is small, has no large prime factor, and has large divisors within the
    fan-outs. Of the others no cost is known to be higher: they are not tried, and a proof has to cover them.
    Where the prime p is above size / excess, every mapping has a factor that could be one less.

    When ``in_time()`` says that the time is up, sizes after those looked at are left out.
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
    """The sizes kept so far, and what each offers: no large prime, large divisors within the fan-outs."""

    def __init__(self, least: int, sides: list[int]) -> None:
        self._least, self._sides = least, sides
        self.kept: dict[int, tuple[int, ...]] = {}
        self.least_prime = 2**63
        """The least of the largest prime factors of kept sizes with a divisor of every fan-out's size: later
        sizes offer something only if their primes are smaller."""

    @property
    def small_enough(self) -> bool:
        """Whether only numbers of few small primes can offer more."""
        return self.least_prime <= LARGEST_SMOOTH

    def look_at(self, size: int) -> None:
        """Keep ``size`` if it offers something that no kept one, all of them smaller, does."""
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
    """The sizes from ``start`` to before ``stop``, without those that have too large a prime, as far as seen.

    What is left of a size without the primes of a table has a factor above the largest of these.
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
    """The numbers from ``start`` to ``largest`` without a prime factor above ``prime``, ascending."""
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
    return all(theirs >= ours for theirs, ours in zip(other, offers, strict=True))
