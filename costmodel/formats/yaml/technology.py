"""Technology files: YAML with constants of the laws of energy, area and leakage, read into Technology.

# The technology file

```yaml
name: set-12nm
description: what it is                # for people
word_bits: 8                           # bits of the words and MACs that the constants are of
sram_energy:                           # of an access to an SRAM of N words, for each N ** sram_exponent
  value: 0.0476 pJ
  source: where the number is from     # each number has one
sram_exponent: {value: 0.2234, source: ...}      # absent: 0.5
sram_write_energy: {value: 0.01185 pJ, source: ...}  # absent: writes and updates cost what reads do
sram_write_exponent: {value: 0.3652, source: ...}
register_energy: {value: 0.009 pJ, source: ...}  # of an access to a register file, for each of its words
dram_energy: {value: 60 pJ, source: ...}         # of an access to a word of DRAM
mac_energy: {value: 0.018 pJ, source: ...}       # of a multiply-accumulate
vector_energy: {value: 0.0873 pJ, source: ...}   # of an element operation of a vector unit
hop_energy: {value: 5.6 pJ, source: ...}         # of a byte over a link and through a router
register_area: {value: 1.87 um2, source: ...}    # of a word of registers
sram_area: {value: 1.87 um2, source: ...}        # of a word of SRAM
mac_area: {value: 140 um2, source: ...}          # of a MAC unit
vector_area: {value: 1123 um2, source: ...}      # of a vector unit
router_area: {value: 40703 um2, source: ...}     # of a tile's router with its links, for each B/cycle
dram_interface_area: {value: 128638 um2, source: ...}  # on the chip, for each GB/s of DRAM
sram_leakage: {value: 0.001 uW, source: ...}     # of a word, always; also register_leakage, mac_leakage,
                                                 # vector_leakage, router_leakage (for each B/cycle)
dram_idle: {value: 1 mW, source: ...}            # of DRAM and its interface beside transfers, for each GB/s
```

A number that nobody published is left out. What needs an energy that is not there is refused until the file
that names the technology states that energy itself; an area that is not there is not counted, and a study
cannot vary what it would be the price of. A plain number is in pJ, um2 or mW. How energies, areas and
leakage follow from these is said at :class:`costmodel.hardware.technology.Technology`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from costmodel.errors import InputError
from costmodel.formats.yaml.architecture_document import Area, AtLeastOne, ByteEnergy, Energy, Power
from costmodel.formats.yaml.file_keys import Keys, check_keys
from costmodel.hardware.technology import Sourced, Technology

Text = Annotated[str, Field(min_length=1)]


class SourcedEnergy(Keys):
    """An energy and where it was read."""

    value: Energy
    """The energy."""
    source: Text
    """The publication, table or measurement that it is from."""


class SourcedByteEnergy(Keys):
    """The energy of a byte and where it was read."""

    value: ByteEnergy
    """The energy."""
    source: Text
    """The publication, table or measurement that it is from."""


class SourcedArea(Keys):
    """An area and where it was read."""

    value: Area
    """The area."""
    source: Text
    """The publication, table or measurement that it is from."""


class SourcedPower(Keys):
    """A power and where it was read."""

    value: Power
    """The power."""
    source: Text
    """The publication, table or measurement that it is from."""


class SourcedExponent(Keys):
    """The exponent of a law and where it was read."""

    value: Annotated[float, Field(gt=0, le=1)]
    """The exponent."""
    source: Text
    """The publication, table or measurement that it is from."""


class TechnologyKeys(Keys):
    """A technology: constants from which energy, area and leakage of parts follow, each with its source."""

    name: Text
    """The technology's name, by which architecture and chip files speak of it."""
    description: Text
    """What it is, for people."""
    word_bits: AtLeastOne
    """Bits of the words and MAC units that the constants are of."""
    register_energy: SourcedEnergy | None = None
    """The energy of an access to a register file, for each word that the file holds."""
    sram_energy: SourcedEnergy | None = None
    """The energy of an access to an SRAM is this times its words to the power of sram_exponent."""
    sram_exponent: SourcedExponent | None = None
    """How the energy of an SRAM grows with its words. Absent: 0.5, the square root."""
    sram_write_energy: SourcedEnergy | None = None
    """The same of a write or update, with sram_write_exponent. Absent: they cost what reads do."""
    sram_write_exponent: SourcedExponent | None = None
    """How the energy of writes grows, where sram_write_energy is given. Absent: 0.5."""
    dram_energy: SourcedEnergy | None = None
    """The energy of an access to a word of DRAM."""
    mac_energy: SourcedEnergy | None = None
    """The energy of one multiply-accumulate."""
    vector_energy: SourcedEnergy | None = None
    """The energy of one element operation of a vector unit."""
    hop_energy: SourcedByteEnergy | None = None
    """The energy of a byte over a link and through a router."""
    register_area: SourcedArea | None = None
    """The area of a word of registers."""
    sram_area: SourcedArea | None = None
    """The area of a word of SRAM."""
    mac_area: SourcedArea | None = None
    """The area of one MAC unit."""
    vector_area: SourcedArea | None = None
    """The area of one vector unit."""
    router_area: SourcedArea | None = None
    """The area of a tile's router with its links, for each byte a cycle that a link carries."""
    dram_interface_area: SourcedArea | None = None
    """The area of DRAM's interface on the chip, for each GB/s."""
    register_leakage: SourcedPower | None = None
    """What a word of registers leaks."""
    sram_leakage: SourcedPower | None = None
    """What a word of SRAM leaks."""
    mac_leakage: SourcedPower | None = None
    """What one MAC unit leaks."""
    vector_leakage: SourcedPower | None = None
    """What one vector unit leaks."""
    router_leakage: SourcedPower | None = None
    """What a tile's router with its links leaks, for each byte a cycle that a link carries."""
    dram_idle: SourcedPower | None = None
    """The power of DRAM and its interface beside transfers, for each GB/s."""


def technology_from_document(document: Any, where: str) -> Technology:
    """The technology of a parsed file called ``where`` in errors.

    InputError names the key that is missing, unknown or wrong; a constant of 0 is wrong, for what an axis
    changes would be free of charge.
    """
    keys = check_keys(TechnologyKeys, document, where)

    def number(key: str) -> Sourced | None:
        found: SourcedEnergy | SourcedArea | SourcedPower | None = getattr(keys, key)
        if found is None:
            return None
        if found.value.value <= 0:
            raise InputError(where, "a number above 0", found.value.written, key=f"{key}.value")
        # powers are read in pJ a second
        scale = 1e-9 if isinstance(found, SourcedPower) else 1.0
        return Sourced(scale * float(found.value.value), found.source)

    def exponent(found: SourcedExponent | None) -> Sourced | None:
        return None if found is None else Sourced(found.value, found.source)

    return Technology(
        name=keys.name,
        description=keys.description,
        word_bits=keys.word_bits,
        register_energy_pj=number("register_energy"),
        sram_energy_pj=number("sram_energy"),
        sram_exponent=exponent(keys.sram_exponent),
        sram_write_energy_pj=number("sram_write_energy"),
        sram_write_exponent=exponent(keys.sram_write_exponent),
        dram_energy_pj=number("dram_energy"),
        mac_energy_pj=number("mac_energy"),
        vector_energy_pj=number("vector_energy"),
        hop_energy_pj=number("hop_energy"),
        register_area_um2=number("register_area"),
        sram_area_um2=number("sram_area"),
        mac_area_um2=number("mac_area"),
        vector_area_um2=number("vector_area"),
        router_area_um2=number("router_area"),
        dram_interface_area_um2=number("dram_interface_area"),
        register_leakage_mw=number("register_leakage"),
        sram_leakage_mw=number("sram_leakage"),
        mac_leakage_mw=number("mac_leakage"),
        vector_leakage_mw=number("vector_leakage"),
        router_leakage_mw=number("router_leakage"),
        dram_idle_mw=number("dram_idle"),
    )
