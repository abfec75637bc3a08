"""The keys, types and units of an architecture file, as pydantic checks them."""

from __future__ import annotations

from typing import Annotated, Any

from pydantic import BeforeValidator, Field, PlainValidator

from costmodel.architecture import ALL_ROLES
from costmodel.errors import InputError
from costmodel.frontends.file_keys import Keys
from costmodel.frontends.quantities import (
    ACCESS_ENERGY,
    AREA,
    BANDWIDTH,
    BYTE_ENERGY,
    ENERGY,
    FREQUENCY,
    LEAKAGE,
    SIZE,
    Quantity,
    reader,
)
from costmodel.technology import Kind
from costmodel.workload import Role

_read_access_energy = reader(
    ACCESS_ENERGY,
    "'4.58 pJ' for one access, which moves a block of block_size words, or '0.29 pJ/bit', '4.58 pJ/word'",
    zero=True,
)
_read_area = reader(AREA, "'1239.5 um2'", zero=True)

Size = Annotated[Quantity, PlainValidator(reader(SIZE, "'128 KiB' or '512 words'", zero=False))]
Bandwidth = Annotated[
    Quantity, PlainValidator(reader(BANDWIDTH, "'16 words/cycle' or '25.6 GB/s'", zero=False))
]
Energy = Annotated[Quantity, PlainValidator(reader(ENERGY, "'4.58 pJ', whatever the width", zero=True))]
AccessEnergy = Annotated[Quantity, PlainValidator(_read_access_energy)]
ByteEnergy = Annotated[
    Quantity, PlainValidator(reader(BYTE_ENERGY, "'5.6 pJ' for one byte, or '0.7 pJ/bit'", zero=True))
]
Leakage = Annotated[Quantity, PlainValidator(reader(LEAKAGE, "'0.5 pJ/cycle' or '2 mW'", zero=True))]
Area = Annotated[Quantity, PlainValidator(_read_area)]
Frequency = Annotated[Quantity, PlainValidator(reader(FREQUENCY, "'1 GHz'", zero=False))]
AtLeastOne = Annotated[int, Field(ge=1, le=2**31)]
LevelName = Annotated[str, Field(pattern=r"^[A-Za-z_][A-Za-z0-9_-]*$")]


def _listed(written: Any) -> Any:
    return [written] if isinstance(written, str) else written


Sources = Annotated[list[str], BeforeValidator(_listed)]
"""Where the numbers of a file are from: a text or a list of texts."""


class AccessEnergies(Keys):
    """Energy of one access, of a word or of a bit; with ``at_size`` it follows the kind's law of sizes."""

    read: AccessEnergy
    write: AccessEnergy
    update: AccessEnergy
    at_size: Size | None = None


def _one_energy_for_all(written: Any) -> Any:
    if written is None or isinstance(written, dict):
        return written
    energy = _read_access_energy(written)
    return AccessEnergies.model_construct(read=energy, write=energy, update=energy, at_size=None)


class InstanceArea(Keys):
    """Area of one instance; with ``at_size`` it follows the kind's law when the size moves."""

    value: Area
    at_size: Size | None = None


def _fixed_area(written: Any) -> Any:
    if written is None or isinstance(written, dict):
        return written
    return InstanceArea.model_construct(value=_read_area(written), at_size=None)


def _pair(written: Any) -> Any:
    if not isinstance(written, list) or len(written) != 2:
        raise InputError("", "two whole numbers [x, y]", repr(written))
    return written


class LevelKeys(Keys):
    """One entry of ``levels``."""

    name: LevelName
    kind: Kind
    size: Size | None = None
    word_bits: AtLeastOne | None = None
    block_size: AtLeastOne = 1
    read_bandwidth: Bandwidth | None = None
    write_bandwidth: Bandwidth | None = None
    shared_bandwidth: Bandwidth | None = None
    energy: Annotated[AccessEnergies | None, BeforeValidator(_one_energy_for_all)] = None
    leakage: Leakage = Quantity(0.0, "pJ/cycle", 0.0)
    area: Annotated[InstanceArea | None, BeforeValidator(_fixed_area)] = None
    fanout: Annotated[list[AtLeastOne], BeforeValidator(_pair)] = Field(default_factory=lambda: [1, 1])
    keeps: Annotated[list[Role], Field(min_length=1)] = Field(default_factory=lambda: list(ALL_ROLES))
    multiple_buffering: Annotated[float, Field(ge=1)] = 1.0


class ComputeKeys(Keys):
    """The ``compute`` entry: the MAC units below the innermost level."""

    name: LevelName = "MAC"
    word_bits: AtLeastOne | None = None
    energy: Energy | None = None
    area: Area | None = None


class ArchitectureKeys(Keys):
    """A whole architecture file; ``levels`` are OUTERMOST FIRST."""

    name: Annotated[str, Field(min_length=1)]
    description: str = ""
    source: Sources = Field(default_factory=list)
    technology: str | None = None
    frequency: Frequency = Quantity(1e9, "Hz", "1 GHz")
    word_bits: AtLeastOne | None = None
    levels: Annotated[list[LevelKeys], Field(min_length=1)]
    compute: ComputeKeys = ComputeKeys()
