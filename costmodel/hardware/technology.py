"""Energy, area and leakage of parts by kind, size, width and bandwidth, with the source of every number.

The constants are files in ``technologies/``, which :mod:`costmodel.formats.technologies` reads.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt
from typing import Literal, get_args

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture, StorageLevel

Kind = Literal["dram", "sram", "register"]
KINDS: tuple[Kind, ...] = get_args(Kind)
Access = Literal["read", "write", "update"]
ACCESSES: tuple[Access, ...] = get_args(Access)


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
    sram      ``sram_energy_pj`` * (N * b/w)**x * b/w        ``sram_area_um2`` * N * b/w
    dram      ``dram_energy_pj`` * b/w                       0 (off chip)
    MAC       ``mac_energy_pj`` * (b/w)**2                   ``mac_area_um2`` * (b/w)**2
    ========  =============================================  ==========================

    x is ``sram_exponent``, or 1/2 where that is absent. Writes and updates of an SRAM have
    ``sram_write_energy_pj`` and ``sram_write_exponent`` instead, where the technology tells them from reads.

    With b = w and x = 1/2 these are equations 4 and 5 of Thistle's paper. The scaling with b is ours. A level
    is charged for its bits, however they are cut into words: a register's selector is b bits wide, and an
    SRAM's rows and columns follow from its number of bits. An array multiplier has b*b cells; that makes 0.55
    pJ at 8 bits of 2.2 pJ at 16, where the Simba-like table has 0.56.

    Laws for the parts of a chip, whose data are bytes. B is the bandwidth of a link in one direction in bytes
    a cycle, G that of all DRAM together in GB/s:

    ==============  ==========================================  ==============================
    part            energy in pJ                                area in um2
    ==============  ==========================================  ==============================
    vector unit     ``vector_energy_pj`` an operation           ``vector_area_um2``
    link, router    ``hop_energy_pj`` a byte and hop            ``router_area_um2`` * B a tile
    DRAM interface  that of DRAM: ``dram_energy_pj`` * 8/w      ``dram_interface_area_um2`` * G
    ==============  ==========================================  ==============================

    Power in mW, of every part in every cycle: ``register_leakage_mw`` and ``sram_leakage_mw`` * N * b/w,
    ``mac_leakage_mw`` * (b/w)**2, ``vector_leakage_mw``, ``router_leakage_mw`` * B, ``dram_idle_mw`` * G.

    A constant is None where nobody published it. Laws of energy then raise InputError, because the number has
    to be stated by the file that names the technology. Laws of area and power then give 0.
    """

    name: str
    description: str
    word_bits: int
    register_energy_pj: Sourced | None = None
    sram_energy_pj: Sourced | None = None
    sram_exponent: Sourced | None = None
    sram_write_energy_pj: Sourced | None = None
    sram_write_exponent: Sourced | None = None
    dram_energy_pj: Sourced | None = None
    mac_energy_pj: Sourced | None = None
    vector_energy_pj: Sourced | None = None
    hop_energy_pj: Sourced | None = None
    register_area_um2: Sourced | None = None
    sram_area_um2: Sourced | None = None
    mac_area_um2: Sourced | None = None
    vector_area_um2: Sourced | None = None
    router_area_um2: Sourced | None = None
    dram_interface_area_um2: Sourced | None = None
    register_leakage_mw: Sourced | None = None
    sram_leakage_mw: Sourced | None = None
    mac_leakage_mw: Sourced | None = None
    vector_leakage_mw: Sourced | None = None
    router_leakage_mw: Sourced | None = None
    dram_idle_mw: Sourced | None = None

    def access_energy_pj(
        self, kind: Kind, size_words: float, word_bits: int, access: Access = "read"
    ) -> float:
        """Energy of reading, writing or updating one word; ``size_words`` does not matter for DRAM.

        InputError where the technology has no such number.
        """
        width = word_bits / self.word_bits
        if kind == "register":
            return self._needed(self.register_energy_pj, "register_energy") * size_words * width
        if kind == "dram":
            return self._needed(self.dram_energy_pj, "dram_energy") * width
        constant = self.sram_energy_pj
        if access != "read" and self.sram_write_energy_pj is not None:
            constant = self.sram_write_energy_pj
        words = size_words * width
        return self._needed(constant, "sram_energy") * self._sram_power(words, access) * width

    def energy_ratio(
        self, kind: Kind, size_words: float, at_size_words: float, access: Access = "read"
    ) -> float:
        """The factor from the access energy at ``at_size_words`` to that at ``size_words``.

        Exactly 1 where the sizes are equal.
        """
        if kind != "sram":
            return energy_ratio(kind, size_words, at_size_words)
        return self._sram_power(size_words / at_size_words, access)

    def storage_area_um2(self, kind: Kind, size_words: float, word_bits: int) -> float:
        """Area of one instance; 0 for DRAM, which is another chip."""
        per_word = {"dram": None, "register": self.register_area_um2, "sram": self.sram_area_um2}[kind]
        return _value(per_word) * size_words * (word_bits / self.word_bits)

    def storage_leakage_mw(self, kind: Kind, size_words: float, word_bits: int) -> float:
        """What one instance leaks; 0 for DRAM, whose idle power follows from its bandwidth."""
        per_word = {"dram": None, "register": self.register_leakage_mw, "sram": self.sram_leakage_mw}[kind]
        return _value(per_word) * size_words * (word_bits / self.word_bits)

    def multiply_energy_pj(self, word_bits: int) -> float:
        """Energy of one multiply-accumulate; InputError where the technology has no such number."""
        return self._needed(self.mac_energy_pj, "mac_energy") * (word_bits / self.word_bits) ** 2

    def multiply_area_um2(self, word_bits: int) -> float:
        """Area of one MAC unit."""
        return _value(self.mac_area_um2) * (word_bits / self.word_bits) ** 2

    def vector_operation_pj(self) -> float:
        """Energy of one element operation; InputError where the technology has no such number."""
        return self._needed(self.vector_energy_pj, "vector_energy")

    def hop_pj_per_byte(self) -> float:
        """Energy of a byte over a link and through a router; InputError where there is no such number."""
        return self._needed(self.hop_energy_pj, "hop_energy")

    def vector_unit_um2(self) -> float:
        """Area of one vector unit."""
        return _value(self.vector_area_um2)

    def tile_router_um2(self, link_bytes_per_cycle: float) -> float:
        """Area of one tile's router with the wires of its links."""
        return _value(self.router_area_um2) * link_bytes_per_cycle

    def interface_um2(self, gigabytes_per_second: float) -> float:
        """Area on the chip of the interfaces to all DRAM together."""
        return _value(self.dram_interface_area_um2) * gigabytes_per_second

    def interface_idle_mw(self, gigabytes_per_second: float) -> float:
        """Power of DRAM and its interfaces beside their transfers."""
        return _value(self.dram_idle_mw) * gigabytes_per_second

    def tile_leakage_mw(
        self, macs: int, word_bits: int, vector_units: int, link_bytes_per_cycle: int
    ) -> float:
        """What MAC units, vector units and the router of a tile leak; its levels leak by themselves."""
        computing = macs * (word_bits / self.word_bits) ** 2 * _value(self.mac_leakage_mw)
        vectors = vector_units * _value(self.vector_leakage_mw)
        return computing + vectors + link_bytes_per_cycle * _value(self.router_leakage_mw)

    def _sram_power(self, words: float, access: Access) -> float:
        exponent = self.sram_exponent
        if access != "read" and self.sram_write_energy_pj is not None:
            exponent = self.sram_write_exponent
        # the square root is exact where the power may be off by the last bit
        return sqrt(words) if exponent is None else float(words**exponent.value)

    def _needed(self, constant: Sourced | None, key: str) -> float:
        if constant is None:
            remedy = f"{self.name} has none that was published: state it in the file that names {self.name}"
            raise InputError(f"technology {self.name}", f"a {key}", "nothing", remedy, key=key)
        return constant.value


def _value(constant: Sourced | None) -> float:
    """The number, or 0 where nobody published one."""
    return 0.0 if constant is None else constant.value


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
