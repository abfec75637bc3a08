"""The sizes that a layer may be padded to, in boxes with a bound each, and those that are worth a solve."""

from __future__ import annotations

from dataclasses import replace
from heapq import heappop, heappush
from math import inf, prod
from typing import NamedTuple

from costmodel.bounds import Scope, lower_bounds
from solvers.divisors import divisors, prime_powers
from solvers.mapping.problem import MappingProblem, objective_of
from solvers.mapping.space_bounds import innermost_levels

Sizes = tuple[int, ...]
"""A size per dim, in the layer's order."""


def count_sizes(problem: MappingProblem) -> int:
    """How many layers the padding makes of one, itself among them."""
    return prod(problem.largest_size(dim) - size + 1 for dim, size in problem.layer.dims)


def at_sizes(problem: MappingProblem, sizes: Sizes) -> MappingProblem:
    """The problem of the layer padded to ``sizes``, with perfect factors."""
    dims = tuple((dim, size) for (dim, _), size in zip(problem.layer.dims, sizes, strict=True))
    rules = replace(problem.rules, padding=0.0, padded_dims=None)
    return replace(problem, layer=replace(problem.layer, dims=dims), rules=rules)


class Box(NamedTuple):
    """All sizes from ``low`` to ``high``, dim by dim."""

    low: Sizes
    high: Sizes

    @property
    def is_one_size(self) -> bool:
        """Whether there is nothing to cut."""
        return self.low == self.high

    def halves(self) -> tuple[Box, Box]:
        """The box cut where it is widest in proportion."""
        cut = max(range(len(self.low)), key=lambda dim: self.high[dim] / self.low[dim])
        middle = (self.low[cut] + self.high[cut]) // 2
        below = (*self.high[:cut], middle, *self.high[cut + 1 :])
        above = (*self.low[:cut], middle + 1, *self.low[cut + 1 :])
        return Box(self.low, below), Box(above, self.high)


class OpenBoxes:
    """Boxes that together hold every size within the padding, the lowest bound first."""

    def __init__(self, problem: MappingProblem) -> None:
        self._problem, self._innermost = problem, innermost_levels(problem)
        self._heap: list[tuple[float, Box]] = []
        own = tuple(size for _, size in problem.layer.dims)
        self.add(Box(own, tuple(problem.largest_size(dim) for dim, _ in problem.layer.dims)))

    @property
    def bound(self) -> float:
        """No mapping of a size that is still in a box costs less."""
        return self._heap[0][0] if self._heap else inf

    def pop(self) -> Box:
        """The box of the lowest bound, taken out."""
        return heappop(self._heap)[1]

    def add(self, box: Box, bound: float | None = None) -> None:
        """``bound``: known already; None: the cost model's."""
        heappush(self._heap, (self.bound_of(box) if bound is None else bound, box))

    def bound_of(self, box: Box) -> float:
        """The cost model's bound on the mappings of all sizes in the box."""
        smallest, largest = at_sizes(self._problem, box.low), at_sizes(self._problem, box.high)
        scope = Scope(self._innermost, None if box.is_one_size else largest.layer)
        bounds = lower_bounds(smallest.architecture, smallest.layer, scope)
        return objective_of(bounds, self._problem.objective)


def promising_sizes(problem: MappingProblem, dim: str) -> list[int]:
    """Sizes of ``dim`` that offer something no smaller one does, ascending; its own size comes first.

    What counts is that the size is small, has no large prime factor, and has large divisors within the
    fan-outs. Of the others no cost is known to be higher: they are not tried, and a proof has to cover them.
    Where the prime p is above size / excess, every mapping has a factor that could be one less.
    """
    sides = {side for level in problem.architecture.levels for side in (level.fanout_x, level.fanout_y)}
    least = problem.layer.sizes[dim]
    kept: dict[int, tuple[int, ...]] = {}
    for size in range(least, problem.largest_size(dim) + 1):
        prime, found = max((prime for prime, _ in prime_powers(size)), default=1), divisors(size)
        offers = (-prime, *(max(d for d in found if d <= side) for side in sorted(sides)))
        wasteful = size > least and prime * (size - least) >= size
        if not wasteful and not any(_covers(other, offers) for other in kept.values()):
            kept[size] = offers
    return list(kept)


def _covers(other: tuple[int, ...], offers: tuple[int, ...]) -> bool:
    return all(theirs >= ours for theirs, ours in zip(other, offers, strict=True))
