"""The decision variables: how many equal prime factors of a dim stand at each position of the loop nest.

The paper has a binary X for each prime factor, level and rank (Table II). Equal primes of a dim are
interchangeable, so here one integer counts how many of them stand at a position; that leaves out all mappings
that differ by a swap of equal primes. Ranks are not variables at all (:mod:`solvers.mapping.cosa.patterns`).

The product of some loop bounds becomes linear in these counts by taking logarithms (section III-B)::

    log2(bounds of dims at positions) = sum over groups, positions of  count[group, position] * log2(prime)
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from itertools import product
from math import inf, log2
from typing import Literal

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.mapping import Loop, loops
from costmodel.workload.network import Tensor
from costmodel.workload.projection import Axis
from solvers.divisors import prime_powers
from solvers.mapping.cosa.linear import IntegerProgram, Terms, added, summed
from solvers.mapping.space.space import MappingSpace

Kind = Literal["temporal", "x", "y"]


@dataclass(frozen=True, eq=False)
class PrimeGroup:
    """``count`` prime factors of ``dim`` that all equal ``prime``."""

    dim: str
    prime: int
    count: int


@dataclass(frozen=True, eq=False)
class FactorPosition:
    """Where factors may stand: in the temporal loops of a level, or along one side of its fan-out.

    ``fanout`` is the number of instances along that side; temporal loops have no such limit.
    """

    level: int
    kind: Kind
    fanout: float = inf


def prime_groups(dim: str, size: int) -> Iterator[PrimeGroup]:
    """The prime factorisation of ``size``, smallest prime first."""
    for prime, count in prime_powers(size):
        yield PrimeGroup(dim, prime, count)


def positions_of(architecture: Architecture) -> Iterator[FactorPosition]:
    """All positions from the inside out: each level's temporal loops, then the sides with a fan-out."""
    for index, level in enumerate(architecture.levels):
        yield FactorPosition(index, "temporal")
        if level.fanout_x > 1:
            yield FactorPosition(index, "x", level.fanout_x)
        if level.fanout_y > 1:
            yield FactorPosition(index, "y", level.fanout_y)


class Variables:
    """The counts ``[group, position]`` of one program, and the logarithms that are linear in them."""

    def __init__(self, program: IntegerProgram, space: MappingSpace) -> None:
        self.program = program
        self.layer = space.layer
        self.level_rules = space.level_rules
        self.depth = len(space.architecture.levels)
        self.groups = [group for dim, size in self.layer.dims for group in prime_groups(dim, size)]
        self.positions = list(positions_of(space.architecture))
        self._index = {
            (group, position): program.variable(upper)
            for group in self.groups
            for position in self.positions
            if self._allows(group, position) and (upper := _most(group, position))
        }
        self._extents: dict[tuple[Axis, int], Terms] = {}

    def _allows(self, group: PrimeGroup, position: FactorPosition) -> bool:
        """Whether the user's constraints let the dim of ``group`` stand at ``position``."""
        # Only a side can be forbidden outright, and then has no variables. Bounds on factors, temporal and
        # spatial, are rows (``factors.py``).
        return position.kind == "temporal" or self.level_rules[position.level].allows_side(
            group.dim, position.kind
        )

    def count(self, group: PrimeGroup, positions: Collection[FactorPosition]) -> Terms:
        """How many primes of ``group`` stand at ``positions``."""
        return {
            self._index[group, position]: 1.0 for position in positions if (group, position) in self._index
        }

    def loops(self, dims: Collection[str], positions: Collection[FactorPosition]) -> Terms:
        """log2 of the product of the loop bounds of ``dims`` at ``positions``."""
        return {
            index: log2(group.prime)
            for group in self.groups
            if group.dim in dims
            for index in self.count(group, positions)
        }

    def at(self, levels: Collection[int], *kinds: Kind) -> list[FactorPosition]:
        """The positions of these kinds at these levels."""
        return [
            position for position in self.positions if position.level in levels and position.kind in kinds
        ]

    def within(self, level: int) -> list[FactorPosition]:
        """The positions whose loops make up the tile of one instance of ``level``; none for a MAC (-1)."""
        return [position for position in self.positions if position.level <= level]

    def steps(self, tensor: Tensor, level: int) -> Terms:
        """log2 of the tile of ``tensor`` at ``level`` without its halo, as the paper counts it (Eq. 1).

        A sliding axis counts its longer dim only: the output rows of an image, the taps of a long filter.
        """
        # Longer in words of the axis, so the coefficient (the stride) counts, too.
        dims = {max(axis, key=lambda term: self.layer.sizes[term[0]] * term[1])[0] for axis in tensor.terms}
        return self.loops(dims, self.within(level))

    def words(self, tensor: Tensor, level: int) -> Terms:
        """log2 of the words of the tile of ``tensor`` at ``level``, exact for strides and halos."""
        return summed(self._extent(axis, level) for axis in tensor.terms)

    def _extent(self, axis: Axis, level: int) -> Terms:
        live = [(dim, coefficient) for dim, coefficient in axis if self.layer.sizes[dim] > 1]
        if not live or (len(live) == 1 and live[0][1] == 1):
            return self.loops([dim for dim, _ in live], self.within(level))
        if (axis, level) not in self._extents:
            self._extents[axis, level] = self._sliding_extent(live, level)
        return self._extents[axis, level]

    def _sliding_extent(self, live: list[tuple[str, int]], level: int) -> Terms:
        """log2 of the extent ``1 + sum(c * (t - 1))`` of a window that slides, exactly.

        The extent is no product of the tile sizes t, so its logarithm is not linear in counts. A binary for
        every choice of counts within the tile, of which exactly one is 1, makes it linear.
        """
        within = self.within(level)
        counts = {g: self.count(g, within) for g in self.groups if g.dim in dict(live)}
        return {
            way: log2(1 + sum(c * (bounds.get(dim, 1) - 1) for dim, c in live))
            for way, bounds in self.choices(counts).items()
        }

    def choices(self, counts: ReadOnlyDict[PrimeGroup, Terms]) -> dict[int, dict[str, int]]:
        """A binary for every choice of how many primes each group has by ``counts``, of which one is 1.

        Returns, by the index of each binary, the bound of each dim if that choice is taken. There are as many
        choices as the product of (count + 1) over the groups, a few dozen for two or three dims.
        """
        groups = list(counts)
        ways = {
            self.program.variable(1): chosen
            for chosen in product(*(range(group.count + 1) for group in groups))
        }
        self.program.require(dict.fromkeys(ways, 1.0), low=1, high=1)
        for number, group in enumerate(groups):
            picked = {way: float(chosen[number]) for way, chosen in ways.items() if chosen[number]}
            self.program.require(added((1.0, counts[group]), (-1.0, picked)), low=0, high=0)
        return {way: _bounds(groups, chosen) for way, chosen in ways.items()}

    def block(self, values: Sequence[int], level: int, kind: Kind) -> tuple[Loop, ...]:
        """The loops at one position in a solution, in the layer's order of dims."""
        positions = self.at([level], kind)
        bounds = {dim: 1 for dim, _ in self.layer.dims}
        for group in self.groups:
            for index in self.count(group, positions):
                bounds[group.dim] *= group.prime ** values[index]
        return loops(bounds.items())


def _most(group: PrimeGroup, position: FactorPosition) -> int:
    """The most primes of ``group`` whose product is within the position's fan-out."""
    most = 0
    while most < group.count and group.prime ** (most + 1) <= position.fanout:
        most += 1
    return most


def _bounds(groups: Sequence[PrimeGroup], counts: Sequence[int]) -> dict[str, int]:
    bounds: dict[str, int] = {}
    for group, count in zip(groups, counts, strict=True):
        bounds[group.dim] = bounds.get(group.dim, 1) * group.prime**count
    return bounds
