"""Undominated sums: what segments cost together, where energy and cycles are both asked for."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

from solvers.fusion.exact.options import Point
from solvers.fusion.problem import FusionObjective


class Priced(NamedTuple):
    """Costs, and what they are of: nested pairs of parts, or what a caller put there."""

    energy: float
    cycles: float
    of: Any


def value(objective: FusionObjective, energy: float, cycles: float) -> float:
    """The objective of these costs."""
    if objective == "energy":
        return energy
    return cycles if objective == "cycles" else energy * cycles


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


def plus(one: Point, other: Point) -> Point:
    """Both costs together."""
    return Point(one.energy + other.energy, one.cycles + other.cycles)


def flattened(pairs: Any) -> tuple[Any, ...]:
    """What :func:`sums` has put together, in order, from (((None, a), b), c)."""
    found = []
    while pairs is not None:
        pairs, last = pairs
        found.append(last)
    return tuple(reversed(found))
