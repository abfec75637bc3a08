"""Costs that add up: undominated sums, the best chain of segments, and what is around a segment at least.

A *segment* is a run of neighbours that are mapped together, from the first to the last. What segments cost
adds up, so a whole chain is put together from the ways that were found for each segment.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import inf
from typing import Any, NamedTuple, Protocol, Self, TypeVar

from solvers.fusion.problem import FusionObjective, value

Segment = tuple[int, int]
"""The numbers of its first and its last member."""


class Point(NamedTuple):
    """What an einsum, a segment or a chain costs: pJ and cycles; one that does not count is 0."""

    energy: float
    cycles: float

    def __add__(self, other: Point) -> Point:  # type: ignore[override]
        """Both together."""
        return Point(self.energy + other.energy, self.cycles + other.cycles)

    def least(self, other: Point) -> Point:
        """The smaller of each."""
        return Point(min(self.energy, other.energy), min(self.cycles, other.cycles))


class Priced(NamedTuple):
    """Costs, and what they are of: nested pairs of parts, or what a caller put there."""

    energy: float
    cycles: float
    of: Any


NOTHING = Priced(0.0, 0.0, None)
"""What :func:`sums` begins with."""


def undominated(points: Iterable[Priced]) -> list[Priced]:
    """Those that no other one is at least as good as in both costs; of equal ones the first."""
    found: list[Priced] = []
    for point in sorted(points, key=lambda one: (one.energy, one.cycles)):
        if not found or point.cycles < found[-1].cycles:
            found.append(point)
    return found


def sums(ones: list[Priced], others: list[Priced]) -> list[Priced]:
    """The undominated sums of one of each."""
    return undominated(
        Priced(one.energy + other.energy, one.cycles + other.cycles, (one.of, other.of))
        for one in ones
        for other in others
    )


def flattened(pairs: Any) -> tuple[Any, ...]:
    """What :func:`sums` has put together, in order, from (((None, a), b), c)."""
    found = []
    while pairs is not None:
        pairs, last = pairs
        found.append(last)
    return tuple(reversed(found))


class SegmentFronts:
    """The undominated ways to run each segment that have been found, and the best chain of them."""

    def __init__(self, objective: FusionObjective, count: int) -> None:
        self._objective, self._count = objective, count
        self._fronts: dict[Segment, list[Priced]] = {}
        self.incumbent: Priced | None = None
        """The best chain of all ``count`` members; its ``of`` is a nest of pairs, of its segments' ways."""

    @property
    def best(self) -> float:
        """The objective of the incumbent; infinite without one."""
        return inf if self.incumbent is None else self._value(self.incumbent)

    def add(self, segment: Segment, ways: Iterable[Priced]) -> None:
        """Take in ways to run a segment."""
        before = self._fronts.get(segment, [])
        after = undominated([*before, *ways])
        if after != before:
            self._fronts[segment] = after
            self._improve()

    def _improve(self) -> None:
        ends: list[list[Priced]] = [[NOTHING]] + [[] for _ in range(self._count)]
        for (first, last), front in sorted(self._fronts.items(), key=lambda item: item[0][1]):
            if ends[first]:
                ends[last + 1] = undominated([*ends[last + 1], *sums(ends[first], front)])
        for chain in ends[-1]:
            if self._value(chain) < self.best:
                self.incumbent = chain

    def _value(self, chain: Priced) -> float:
        return value(self._objective, chain.energy, chain.cycles)


class SummedCosts(Protocol):
    """Costs of several kinds, as :class:`Point`."""

    def __add__(self, other: Self, /) -> Self: ...

    def least(self, other: Self, /) -> Self: ...


C = TypeVar("C", bound=SummedCosts)


def around(least: Mapping[Segment, C], count: int, nothing: C, never: C) -> tuple[C, dict[Segment, C]]:
    """The least costs of all ``count`` members, and by segment those of everything before and after it.

    ``least``: the least costs of each segment; ``nothing``: 0 of every kind; ``never``: infinitely many.
    """
    before = [nothing] + [never] * count
    after = [never] * count + [nothing]
    for end in range(1, count + 1):
        for (first, last), costs in least.items():
            if last + 1 == end:
                before[end] = before[end].least(before[first] + costs)
    for begin in range(count - 1, -1, -1):
        for (first, last), costs in least.items():
            if first == begin:
                after[begin] = after[begin].least(after[last + 1] + costs)
    return before[-1], {(first, last): before[first] + after[last + 1] for first, last in least}
