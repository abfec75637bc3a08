"""The hardware as expressions of its free sizes and fan-outs: capacities, Eq 4's energies, Eq 5's area."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from functools import cached_property
from math import inf

from costmodel.hardware.architecture import Architecture, StorageLevel
from solvers.codesign.family import ArchitectureFamily
from solvers.codesign.thistle.geometric_program import PosynomialLimit
from solvers.mapping.thistle.convex.signomial import Signomial, monomial, variable

SIZE, FANOUT = "size.", "fanout."
"""What the names of the hardware's variables start with, before the level's."""


@dataclass(frozen=True)
class HardwareVariables:
    """The family's levels, innermost first, some with variables for sizes and fan-outs.

    ``free_sizes`` and ``free_fanouts`` name the levels whose size, or fan-out below, is a variable.

    What is not free is as in the family's base; without anything free this is a fixed architecture.
    """

    family: ArchitectureFamily
    free_sizes: tuple[str, ...] = ()
    free_fanouts: tuple[str, ...] = ()

    @property
    def base(self) -> Architecture:
        """The member that the family's file states."""
        return self.family.base

    @cached_property
    def fanned(self) -> tuple[bool, ...]:
        """Which levels have, or may have, several children."""
        return tuple(level.fanout > 1 or level.name in self.free_fanouts for level in self.base.levels)

    def size(self, level: StorageLevel) -> Signomial | None:
        """Words of one instance; None where there is no limit."""
        if level.name in self.free_sizes:
            return variable(SIZE + level.name)
        return None if level.size_words is None else monomial(float(level.size_words))

    def capacity(self, level: StorageLevel) -> Signomial | None:
        """Words that the tiles kept at one time may take; None where there is no limit."""
        if level.name in self.free_sizes:
            return variable(SIZE + level.name) * (1 / level.multiple_buffering)
        return None if level.usable_words == inf else monomial(float(level.usable_words))

    def fanout(self, level: StorageLevel) -> Signomial:
        """Children of one instance."""
        if level.name in self.free_fanouts:
            return variable(FANOUT + level.name)
        return monomial(float(level.fanout))

    def energy(self, level: StorageLevel, pj_per_block: float) -> Signomial:
        """pJ per word of accesses that cost ``pj_per_block`` a block at the base's size (Eq. 4)."""
        per_word = monomial(pj_per_block / level.block_size)
        if level.name not in self.free_sizes or level.size_words is None:
            return per_word
        exponent = self.family.law(level.name).energy_exponent
        name = SIZE + level.name
        return per_word * monomial(level.size_words**-exponent, {name: exponent})

    @cached_property
    def area(self) -> Signomial:
        """um2 of all instances and MAC units (the left side of Eq 5)."""
        total, instances = Signomial(()), monomial()
        for level in reversed(self.base.levels):
            total = total + instances * self._instance_area(level)
            instances = instances * self.fanout(level)
        return total + instances * monomial(self.base.compute.area_um2)

    def area_limit(self, area_um2: float) -> PosynomialLimit:
        """Eq 5."""
        return PosynomialLimit(self.area, monomial(area_um2))

    def _instance_area(self, level: StorageLevel) -> Signomial:
        if level.name not in self.free_sizes:
            return monomial(level.area_um2)
        law = self.family.law(level.name)
        return monomial(law.fixed_um2) + variable(SIZE + level.name) * law.um2_per_word


def sizes_of(point: ReadOnlyDict[str, float]) -> dict[str, float]:
    """The free sizes (words) at a point, by level."""
    return {name.removeprefix(SIZE): value for name, value in point.items() if name.startswith(SIZE)}


def fanouts_of(point: ReadOnlyDict[str, float]) -> dict[str, float]:
    """The free fan-outs at a point, by level."""
    return {name.removeprefix(FANOUT): value for name, value in point.items() if name.startswith(FANOUT)}
