"""The decision variables: how many equal primes of a dim stand at each place of the loop nest."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, log2, prod
from typing import Literal

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.mapping import Loop, loops
from costmodel.workload.network import Axis, Tensor
from solvers.divisors import prime_powers
from solvers.mapping.cosa.linear import IntegerProgram, Terms, summed
from solvers.mapping.space.space import MappingSpace

Kind = Literal["temporal", "x", "y"]


@dataclass(frozen=True, eq=False)
class PrimeGroup:
    """``count`` equal prime factors ``prime`` of ``dim``: interchangeable, so counted and not placed."""

    dim: str
    prime: int
    count: int


@dataclass(frozen=True, eq=False)
class FactorPosition:
    """A place for factors: the temporal block of a level, or its fan-out along x or y (of size ``room``)."""

    level: int
    kind: Kind
    room: float = inf


def prime_groups(dim: str, size: int) -> Iterator[PrimeGroup]:
    """The prime factorisation of ``size``, smallest prime first."""
    for prime, count in prime_powers(size):
        yield PrimeGroup(dim, prime, count)


def slots_of(architecture: Architecture) -> Iterator[FactorPosition]:
    """All places, inside out: of each level the temporal block, then the sides with a fan-out."""
    for index, level in enumerate(architecture.levels):
        yield FactorPosition(index, "temporal")
        if level.fanout_x > 1:
            yield FactorPosition(index, "x", level.fanout_x)
        if level.fanout_y > 1:
            yield FactorPosition(index, "y", level.fanout_y)


class Variables:
    """``m[group, slot]`` of one program, and the logarithms that are linear in them."""

    def __init__(self, program: IntegerProgram, space: MappingSpace) -> None:
        self.program = program
        self.layer = space.layer
        self.level_rules = space.level_rules
        self.depth = len(space.architecture.levels)
        self.groups = [group for dim, size in self.layer.dims for group in prime_groups(dim, size)]
        self.slots = list(slots_of(space.architecture))
        self._index = {
            (group, slot): program.variable(upper)
            for group in self.groups
            for slot in self.slots
            if self._allows(group, slot) and (upper := _most(group, slot))
        }
        self._extents: dict[tuple[Axis, int], Terms] = {}

    def _allows(self, group: PrimeGroup, slot: FactorPosition) -> bool:
        """Whether the user's constraints let the dim be there."""
        return slot.kind == "temporal" or self.level_rules[slot.level].allows_side(group.dim, slot.kind)

    def count(self, group: PrimeGroup, slots: Collection[FactorPosition]) -> Terms:
        """How many primes of ``group`` stand in ``slots``."""
        return {self._index[group, slot]: 1.0 for slot in slots if (group, slot) in self._index}

    def loops(self, dims: Collection[str], slots: Collection[FactorPosition]) -> Terms:
        """log2 of the product of the loop bounds of ``dims`` in ``slots``."""
        return {
            index: log2(group.prime)
            for group in self.groups
            if group.dim in dims
            for index in self.count(group, slots)
        }

    def at(self, levels: Collection[int], *kinds: Kind) -> list[FactorPosition]:
        """The places of these kinds at these levels."""
        return [slot for slot in self.slots if slot.level in levels and slot.kind in kinds]

    def within(self, level: int) -> list[FactorPosition]:
        """What makes up the tile of one instance of ``level`` (-1: of one MAC, which is nothing)."""
        return [slot for slot in self.slots if slot.level <= level]

    def steps(self, tensor: Tensor, level: int) -> Terms:
        """log2 of the tile of ``tensor`` at ``level`` without its halo, as the paper counts it (Eq. 1).

        A sliding axis counts its longer dim only: the output rows of an image, the taps of a long filter.
        """
        dims = {max(axis, key=lambda term: self.layer.sizes[term[0]] * term[1])[0] for axis in tensor.axes}
        return self.loops(dims, self.within(level))

    def words(self, tensor: Tensor, level: int) -> Terms:
        """log2 of the words of the tile of ``tensor`` at ``level``, exact for strides and halos."""
        return summed(self._extent(axis, level) for axis in tensor.axes)

    def _extent(self, axis: Axis, level: int) -> Terms:
        live = [(dim, coefficient) for dim, coefficient in axis if self.layer.sizes[dim] > 1]
        if not live or (len(live) == 1 and live[0][1] == 1):
            return self.loops([dim for dim, _ in live], self.within(level))
        if (axis, level) not in self._extents:
            self._extents[axis, level] = self._sliding_extent(live, level)
        return self._extents[axis, level]

    def _sliding_extent(self, live: list[tuple[str, int]], level: int) -> Terms:
        """log2(1 + sum c * (t - 1)) is not linear in counts: one binary for every way to tile the axis."""
        groups = [group for group in self.groups if group.dim in dict(live)]
        extent: Terms = {}
        ways: list[tuple[int, tuple[int, ...]]] = []
        for counts in product(*(range(group.count + 1) for group in groups)):
            way = self.program.variable(1)
            ways.append((way, counts))
            extent[way] = log2(1 + sum(c * (_bound(groups, counts, dim) - 1) for dim, c in live))
        self.program.require({way: 1.0 for way, _ in ways}, low=1, high=1)
        for position, group in enumerate(groups):
            terms = self.count(group, self.within(level))
            terms.update({way: -float(counts[position]) for way, counts in ways if counts[position]})
            self.program.require(terms, low=0, high=0)
        return extent

    def block(self, values: Sequence[int], level: int, kind: Kind) -> tuple[Loop, ...]:
        """The loops of one block in a solution, in the layer's order of dims."""
        slots = self.at([level], kind)
        bounds = {dim: 1 for dim, _ in self.layer.dims}
        for group in self.groups:
            for index in self.count(group, slots):
                bounds[group.dim] *= group.prime ** values[index]
        return loops(bounds.items())


def _most(group: PrimeGroup, slot: FactorPosition) -> int:
    most = 0
    while most < group.count and group.prime ** (most + 1) <= slot.room:
        most += 1
    return most


def _bound(groups: list[PrimeGroup], counts: tuple[int, ...], dim: str) -> int:
    return prod(g.prime**n for g, n in zip(groups, counts, strict=True) if g.dim == dim)
