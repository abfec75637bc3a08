"""Technology files: YAML with the constants of the laws of energy and area, read into :class:`Technology`.

# The technology file

```yaml
name: thistle-45nm
description: what it is                # for people
word_bits: 16                          # bits of the words and MACs that the constants are of
register_energy:                       # of an access to a register file, for each word that the file holds
  value: 0.00906719 pJ
  source: where the number is from     # each number has one
sram_energy: {value: 0.01788 pJ, source: ...}    # of an access to an SRAM, times the square root of its words
dram_energy: {value: 128 pJ, source: ...}        # of an access to a word of DRAM
mac_energy: {value: 2.2 pJ, source: ...}         # of a multiply-accumulate
register_area: {value: 19.874 um2, source: ...}  # of a word of registers
sram_area: {value: 6.806 um2, source: ...}       # of a word of SRAM
mac_area: {value: 1239.5 um2, source: ...}       # of a MAC unit
```

All keys must be there. A plain number is in pJ or um2. How energies and areas of other widths follow from
these is said at :class:`costmodel.hardware.technology.Technology`.
"""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import Field

from costmodel.errors import InputError
from costmodel.formats.yaml.architecture_document import Area, AtLeastOne, Energy
from costmodel.formats.yaml.file_keys import Keys, check_keys
from costmodel.hardware.technology import Sourced, Technology

Text = Annotated[str, Field(min_length=1)]


class SourcedEnergy(Keys):
    """An energy and where it was read."""

    value: Energy
    """The energy."""
    source: Text
    """The publication, table or measurement that it is from."""


class SourcedArea(Keys):
    """An area and where it was read."""

    value: Area
    """The area."""
    source: Text
    """The publication, table or measurement that it is from."""


class TechnologyKeys(Keys):
    """A technology: the constants from which energies and areas of parts follow, each with its source."""

    name: Text
    """The technology's name, by which architecture files speak of it."""
    description: Text
    """What it is, for people."""
    word_bits: AtLeastOne
    """Bits of the words and MAC units that the constants are of."""
    register_energy: SourcedEnergy
    """Of an access to a register file, for each word that the file holds."""
    sram_energy: SourcedEnergy
    """Of an access to an SRAM, times the square root of the words that it holds."""
    dram_energy: SourcedEnergy
    """Of an access to a word of DRAM."""
    mac_energy: SourcedEnergy
    """Of one multiply-accumulate."""
    register_area: SourcedArea
    """Of a word of registers."""
    sram_area: SourcedArea
    """Of a word of SRAM."""
    mac_area: SourcedArea
    """Of one MAC unit."""


def technology_from_document(document: Any, where: str) -> Technology:
    """The technology of a parsed file called ``where`` in errors.

    InputError names the key that is missing, unknown or wrong; a constant of 0 is wrong, for what an axis
    changes would be free of charge.
    """
    keys = check_keys(TechnologyKeys, document, where)
    return Technology(
        name=keys.name,
        description=keys.description,
        word_bits=keys.word_bits,
        register_energy_pj=_sourced(keys.register_energy, where, "register_energy"),
        sram_energy_pj=_sourced(keys.sram_energy, where, "sram_energy"),
        dram_energy_pj=_sourced(keys.dram_energy, where, "dram_energy"),
        mac_energy_pj=_sourced(keys.mac_energy, where, "mac_energy"),
        register_area_um2=_sourced(keys.register_area, where, "register_area"),
        sram_area_um2=_sourced(keys.sram_area, where, "sram_area"),
        mac_area_um2=_sourced(keys.mac_area, where, "mac_area"),
    )


def _sourced(number: SourcedEnergy | SourcedArea, where: str, key: str) -> Sourced:
    if number.value.value <= 0:
        raise InputError(where, "a number above 0", number.value.written, key=f"{key}.value")
    return Sourced(float(number.value.value), number.source)
