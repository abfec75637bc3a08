"""How an axis of a tensor follows the points of a layer's loop nest: affine projections.

A point has one index for each dim. A tensor's index along one of its axes follows from the point:

    index = offset + sum over steps of coefficient * (index of the dim // divisor)

Rows of a convolution with stride 2, padding 1 above and window R: ``offset`` -1, steps 2 * P and 1 * R. Input
channels of a convolution in groups, 4 outputs and 6 inputs each: steps 6 * (K // 4) and 1 * C. An index
outside of [0, length) is padding, for which nothing is read.
"""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from functools import lru_cache
from typing import NamedTuple

Axis = tuple[tuple[str, int], ...]
"""A projection without divisors, padding left out of sight: its (dim, coefficient) terms."""


class Stride(NamedTuple):
    """How an axis follows a dim: by ``coefficient`` for every ``divisor`` points along it."""

    dim: str
    coefficient: int = 1
    divisor: int = 1


class Projection(NamedTuple):
    """How one axis of a tensor follows the dims.

    ``length``: elements along the axis, without padding; None: just those that the points reach.
    """

    steps: tuple[Stride, ...]
    length: int | None = None
    offset: int = 0

    @staticmethod
    @lru_cache(maxsize=4096)
    def of_terms(terms: Axis) -> Projection:
        """A projection without padding; layers have the same few, so each is built once."""
        return Projection(tuple(Stride(*term) for term in terms))

    def at(self, point: ReadOnlyDict[str, int]) -> int:
        """The index that a point touches; below 0, or not below the length, it is padding."""
        return self.offset + sum(c * (point[dim] // divisor) for dim, c, divisor in self.steps)

    def extent(self, tile: ReadOnlyDict[str, int]) -> int:
        """Indices from the first to the last that ``tile[dim]`` points of each dim touch (1 if absent), when
        the first of them is 0 in every dim; padding is counted, too.
        """
        last = 0  # a loop and no sum of a generator: every count of a mapping asks for some fifty extents
        for dim, coefficient, divisor in self.steps:
            last += coefficient * ((tile.get(dim, 1) - 1) // divisor)
        return last + 1

    def jumps(self, box: ReadOnlyDict[str, tuple[int, int]]) -> bool:
        """Whether the points of ``box`` touch only some of the indices between the first and the last.

        With the steps in the order of their coefficients, what is touched has no gap if each step is at most
        as long as what the steps before it touch together. Padding is not left out, so the answer may be yes
        where only padding lies in the gaps.
        """
        reach = 0
        # ``reach``: the indices from 0 to ``reach`` that the steps so far touch without a gap. A step of at
        # most reach + 1 puts the next such run directly behind the last one, or over it.
        for step in sorted(self.steps, key=lambda one: one.coefficient):
            first, end = box[step.dim]
            count = (end - 1) // step.divisor - first // step.divisor
            if count and step.coefficient > reach + 1:
                return True
            reach += step.coefficient * count
        return False

    def touched(self, box: ReadOnlyDict[str, tuple[int, int]], length: int) -> int:
        """How many different indices of [0, length) the points of ``box`` touch."""
        if not self.jumps(box):
            first = self.at({dim: first for dim, (first, _) in box.items()})
            last = self.at({dim: end - 1 for dim, (_, end) in box.items()})
            return max(min(last + 1, length) - max(first, 0), 0)
        # Without gaps the two ends are enough. With them all indices are made, one dim after the other;
        # repetitions are dropped in between, so there are never many more than the axis is long.
        found = {self.offset}
        for dim, coefficient, divisor in self.steps:
            along = {coefficient * (index // divisor) for index in range(*box[dim])}
            found = {begin + more for begin in found for more in along}
        return sum(0 <= index < length for index in found)
