"""Energy and area of memories and MAC units by kind, size and width, with the source of every number."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal, get_args

from costmodel.errors import InputError, did_you_mean
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
    """The constants of one table, all for words and MACs of ``word_bits`` (w below).

    Laws for a level of N words of b bits each, per access of one word:

    ========  =============================================  ==========================
    kind      energy in pJ                                   area in um2
    ========  =============================================  ==========================
    register  ``register_energy_pj`` * N * b/w               ``register_area_um2`` * N * b/w
    sram      ``sram_energy_pj`` * sqrt(N * b/w) * b/w       ``sram_area_um2`` * N * b/w
    dram      ``dram_energy_pj`` * b/w                       0 (off chip)
    MAC       ``mac_energy_pj`` * (b/w)**2                   ``mac_area_um2`` * (b/w)**2
    ========  =============================================  ==========================

    With b = w these are Thistle's Eq 4 and 5. The scaling with b is ours: a bit costs the same whatever word
    it belongs to (a register's selector is b wide; an SRAM's rows and columns follow its bits, not words),
    and an array multiplier has b*b cells (0.55 pJ for 8 bits from 2.2 pJ for 16; the Simba-like table: 0.56).
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


_THISTLE = "Thistle (co-design by geometric programming), Table III, 45 nm, int16"
_SIMBA = "Simba-like model of the Timeloop cases (public PAT tables)"

THISTLE_45NM = Technology(
    name="thistle-45nm",
    description="Thistle's Table III: 45 nm, 16-bit words, Eyeriss as its baseline",
    word_bits=16,
    register_energy_pj=Sourced(9.06719e-3, f"{_THISTLE}: register energy constant, per register of the file"),
    sram_energy_pj=Sourced(
        17.88e-3,
        f"{_THISTLE}: SRAM energy constant 17.88, printed without its unit; fJ x sqrt(words), as it gives "
        "the 4.58 pJ of Eyeriss's 65,536 words",
    ),
    dram_energy_pj=Sourced(128.0, f"{_THISTLE}: energy per DRAM access"),
    mac_energy_pj=Sourced(2.2, f"{_THISTLE}: energy per int16 MAC"),
    register_area_um2=Sourced(19.874, f"{_THISTLE}: area per register"),
    sram_area_um2=Sourced(6.806, f"{_THISTLE}: area per SRAM word"),
    mac_area_um2=Sourced(1239.5, f"{_THISTLE}: area per MAC"),
)

SIMBA_LIKE_8BIT = Technology(
    name="simba-like-8bit",
    description="8-bit energies of the Simba-like Timeloop model; areas are Thistle's, scaled to 8 bits",
    word_bits=8,
    register_energy_pj=Sourced(0.03, f"{_SIMBA}: Registers, one word"),
    sram_energy_pj=Sourced(
        3 / 256,
        f"{_SIMBA}: GlobalBuffer, 24 pJ a block of 8 out of 65,536 words; WeightBuffer (12 pJ, 16,384 words) "
        "lies on the same square root",
    ),
    dram_energy_pj=Sourced(64.0, f"{_SIMBA}: DRAM, 4096 pJ a block of 64; 8 pJ a bit, as Thistle's"),
    mac_energy_pj=Sourced(0.56, f"{_SIMBA}: MAC of 8 bits"),
    register_area_um2=Sourced(19.874 / 2, f"{_THISTLE}: area per register, x 8/16"),
    sram_area_um2=Sourced(6.806 / 2, f"{_THISTLE}: area per SRAM word, x 8/16"),
    mac_area_um2=Sourced(1239.5 / 4, f"{_THISTLE}: area per MAC, x (8/16)^2"),
)

TECHNOLOGIES = {table.name: table for table in (THISTLE_45NM, SIMBA_LIKE_8BIT)}


def technology(name: str) -> Technology:
    """The table called ``name``; InputError with the names there are."""
    if name in TECHNOLOGIES:
        return TECHNOLOGIES[name]
    expected = f"one of {', '.join(TECHNOLOGIES)}"
    raise InputError("technology", expected, name, did_you_mean(name, TECHNOLOGIES), key="technology")


def energy_ratio(kind: Kind, size_words: float, at_size_words: float) -> float:
    """How an access energy known at one size changes with the size: the kind's law without its constant.

    Exactly 1 when the sizes are equal.
    """
    if kind == "dram":
        return 1.0
    ratio = size_words / at_size_words
    return sqrt(ratio) if kind == "sram" else ratio


def area_ratio(kind: Kind, size_words: float, at_size_words: float) -> float:
    """How an area known at one size changes with the size: the laws of areas are linear."""
    return 1.0 if kind == "dram" else size_words / at_size_words


def energy_inversions(architecture: Architecture) -> list[str]:
    """A warning for every level whose reads cost more per word than those of a level outside it.

    Only pairs that can keep a common tensor count: there an energy-optimal mapping would bypass the inner
    level wherever multicast makes the outer one reachable, which says more about the table than the chip.
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
