"""Architecture families: a file with open sizes and fan-outs, and the laws of energy and area in them."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from functools import cached_property
from math import isclose, log
from typing import Any

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.hardware.architecture import Architecture, StorageLevel

PROBES_WORDS = (256, 1024, 4096)
"""Sizes in words at which the file is loaded to learn a level's laws; the third checks the other two."""

Sides = tuple[int, int]
"""A fan-out: instances in X and in Y."""


@dataclass(frozen=True)
class SizeLaw:
    """How one level's access energies and area depend on its size (Thistle's Eq 4 and the terms of Eq 5).

    Energies grow as ``size ** energy_exponent``; the area of one instance is
    ``fixed_um2 + um2_per_word * size``.
    """

    energy_exponent: float
    fixed_um2: float
    um2_per_word: float


@dataclass(frozen=True)
class ArchitectureFamily:
    """All architectures that an architecture file describes when sizes and fan-outs are chosen anew.

    ``source`` is a library name or a file with a technology; ``overrides`` are what the whole family changes
    in it, as (key, value) pairs of :func:`costmodel.formats.architectures.load_architecture`.
    """

    source: str
    overrides: tuple[tuple[str, Any], ...] = ()

    @cached_property
    def base(self) -> Architecture:
        """The member that the file states."""
        return load_architecture(self.source, dict(self.overrides))

    def member(self, sizes_words: ReadOnlyDict[str, int], fanouts: ReadOnlyDict[str, Sides]) -> Architecture:
        """The architecture with these sizes (words) and fan-outs by level name; the rest is the base's.

        InputError for what the file cannot be.
        """
        changes: dict[str, Any] = {f"{name}.size": size for name, size in sizes_words.items()}
        changes |= {f"{name}.fanout": list(sides) for name, sides in fanouts.items()}
        return load_architecture(self.source, dict(self.overrides) | changes)

    def in_line(self, name: str, instances: int) -> Sides:
        """A fan-out with all ``instances`` on one side: on Y where the base has them there, else on X.

        That allows every split into spatial factors that an X by Y array of as many instances does: the
        paper's logical grid.
        """
        level = self._level(name)
        return (1, instances) if level.fanout_x == 1 < level.fanout_y else (instances, 1)

    def law(self, name: str) -> SizeLaw:
        """The laws of the level called ``name``, as the loader applies them.

        InputError for a level without a size, and for laws of another form.
        """
        if name not in self._laws:
            self._laws[name] = self._read_off(name)
        return self._laws[name]

    @cached_property
    def _laws(self) -> dict[str, SizeLaw]:
        """The laws read off so far."""
        return {}

    def _read_off(self, name: str) -> SizeLaw:
        if self._level(name).size_words is None:
            where = f"architecture {self.source}"
            raise InputError(where, "a level with a size", f"{name}, which is unlimited", key=name)
        small, middle, large = (self._at_size(name, size) for size in PROBES_WORDS)
        energy, further = _growth(small, middle), _growth(middle, large)
        slope = (middle.area_um2 - small.area_um2) / (PROBES_WORDS[1] - PROBES_WORDS[0])
        fixed = small.area_um2 - slope * PROBES_WORDS[0]
        straight = isclose(large.area_um2, fixed + slope * PROBES_WORDS[2], rel_tol=1e-9, abs_tol=1e-9)
        if not straight or not isclose(energy, further, abs_tol=1e-9):
            expected = "an energy that is a power of the size, and an area that is linear in it"
            raise InputError(f"architecture {self.source}", expected, "another law", key=name)
        return SizeLaw(round(energy, 9), max(0.0, fixed) if fixed > 1e-6 else 0.0, slope)

    def _level(self, name: str) -> StorageLevel:
        return self.base.levels[self.base.index(name)]

    def _at_size(self, name: str, size_words: int) -> StorageLevel:
        return self.member({name: size_words}, {}).levels[self.base.index(name)]


def _growth(small: StorageLevel, large: StorageLevel) -> float:
    """The exponent by which energies grow from one probe to the next; 0 for a level without energies."""
    energies = [
        (getattr(small, key), getattr(large, key))
        for key in ("read_energy_pj", "write_energy_pj", "update_energy_pj")
        if getattr(small, key) > 0
    ]
    exponents = [log(after / before) / log(4) for before, after in energies]
    return exponents[0] if exponents else 0.0
