"""Energy and area of memories and MAC units by kind, size and width, with the source of every number.

The constants are files in ``technologies/``, which :mod:`costmodel.formats.technologies` reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal, get_args

from costmodel.hardware.architecture import Architecture, StorageLevel

Kind = Literal["dram", "sram", "register"]
KINDS: tuple[Kind, ...] = get_args(Kind)


@dataclass(frozen=True)
class Sourced:
    """A number and where it was read."""

    value: float
    source: str


@dataclass(frozen=True)
class Technology:
    """The constants of one technology, all stated for words and MACs of ``word_bits`` (w below).

    Laws for a level of N words of b bits each, per access of one word:

    ========  =============================================  ==========================
    kind      energy in pJ                                   area in um2
    ========  =============================================  ==========================
    register  ``register_energy_pj`` * N * b/w               ``register_area_um2`` * N * b/w
    sram      ``sram_energy_pj`` * sqrt(N * b/w) * b/w       ``sram_area_um2`` * N * b/w
    dram      ``dram_energy_pj`` * b/w                       0 (off chip)
    MAC       ``mac_energy_pj`` * (b/w)**2                   ``mac_area_um2`` * (b/w)**2
    ========  =============================================  ==========================

    With b = w these are equations 4 and 5 of Thistle's paper. The scaling with b is ours. A level is charged
    for its bits, however they are cut into words: a register's selector is b bits wide, and an SRAM's rows
    and columns follow from its number of bits. An array multiplier has b*b cells; that makes 0.55 pJ at 8
    bits of 2.2 pJ at 16, where the Simba-like table has 0.56.
    """

    name: str
    description: str
    word_bits: int
    register_energy_pj: Sourced
    sram_energy_pj: Sourced
    dram_energy_pj: Sourced
    mac_energy_pj: Sourced
    register_area_um2: Sourced
    sram_area_um2: Sourced
    mac_area_um2: Sourced

    def access_energy_pj(self, kind: Kind, size_words: float, word_bits: int) -> float:
        """Energy of reading, writing or updating one word; ``size_words`` does not matter for DRAM."""
        width = word_bits / self.word_bits
        if kind == "register":
            return self.register_energy_pj.value * size_words * width
        if kind == "sram":
            return self.sram_energy_pj.value * sqrt(size_words * width) * width
        return self.dram_energy_pj.value * width

    def storage_area_um2(self, kind: Kind, size_words: float, word_bits: int) -> float:
        """Area of one instance; 0 for DRAM, which is another chip."""
        if kind == "dram":
            return 0.0
        per_word = self.register_area_um2 if kind == "register" else self.sram_area_um2
        return per_word.value * size_words * (word_bits / self.word_bits)

    def multiply_energy_pj(self, word_bits: int) -> float:
        """Energy of one multiply-accumulate."""
        return self.mac_energy_pj.value * (word_bits / self.word_bits) ** 2

    def multiply_area_um2(self, word_bits: int) -> float:
        """Area of one MAC unit."""
        return self.mac_area_um2.value * (word_bits / self.word_bits) ** 2


def energy_ratio(kind: Kind, size_words: float, at_size_words: float) -> float:
    """The factor from the access energy at ``at_size_words`` to that at ``size_words``, by the kind's law.

    Exactly 1 where the sizes are equal.
    """
    if kind == "dram":
        return 1.0
    ratio = size_words / at_size_words
    return sqrt(ratio) if kind == "sram" else ratio


def area_ratio(kind: Kind, size_words: float, at_size_words: float) -> float:
    """The factor from the area at ``at_size_words`` to that at ``size_words``: areas grow linearly."""
    return 1.0 if kind == "dram" else size_words / at_size_words


def energy_inversions(architecture: Architecture) -> list[str]:
    """A warning for every pair of levels whose inner one costs more per word read than the outer one.

    Pairs that can keep no common tensor do not count. For any other, a mapping of least energy bypasses the
    inner level wherever it can, which says more about the energy table than about the chip.
    """
    levels = architecture.levels
    return [
        f"{inner.name} costs {_read_pj(inner):.4g} pJ a word, more than {outer.name} outside it "
        f"({_read_pj(outer):.4g} pJ): mappings that bypass {inner.name} look better than they are"
        for i, inner in enumerate(levels)
        for outer in levels[i + 1 :]
        if _read_pj(inner) > _read_pj(outer) and set(inner.keeps) & set(outer.keeps)
    ]


def _read_pj(level: StorageLevel) -> float:
    return level.read_energy_pj / level.block_size
