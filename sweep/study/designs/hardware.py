"""The hardware of a design, an accelerator or a chip of tiles, and its numbers that need no solve."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from math import inf
from typing import Any

from costmodel.hardware.architecture import Architecture
from costmodel.hardware.chip import Chip
from results.store.schema.rows import HardwareColumns

Hardware = Architecture | Chip
Load = Callable[[str, Mapping[str, Any]], Hardware]
"""Loads hardware from a library name or a file; values by key replace the file's own."""


def area_um2(hardware: Hardware) -> float:
    """Area in um2, 0 where the file gives none; a chip's includes its routers and DRAM interfaces."""
    return hardware.area_um2


def mac_units(hardware: Hardware) -> float:
    if isinstance(hardware, Architecture):
        return hardware.mac_units
    return hardware.tiles * hardware.tile.macs


def on_chip_bits(hardware: Hardware) -> float:
    """Bits of all levels inside DRAM, infinite where one is unlimited; for a chip, of all tiles' buffers."""
    if isinstance(hardware, Chip):
        return 8 * hardware.tiles * hardware.tile.buffer.size_bytes
    *on_chip, _dram = zip(hardware.instances, hardware.levels, strict=True)
    return sum(
        instances * (inf if level.size_words is None else level.size_words) * level.word_bits
        for instances, level in on_chip
    )


def mapped_on(hardware: Hardware) -> Architecture:
    """The architecture on which layers are mapped: the accelerator, or a tile of the chip."""
    if isinstance(hardware, Architecture):
        return hardware
    assert hardware.tile.architecture is not None, "chip files name the tile's architecture"
    return hardware.tile.architecture


def tiles(hardware: Hardware) -> float:
    """Tiles of a chip; an accelerator is one."""
    return hardware.tiles if isinstance(hardware, Chip) else 1


def frequency_hz(hardware: Hardware) -> float:
    return 1e9 * hardware.frequency_ghz if isinstance(hardware, Chip) else hardware.frequency_hz


QUANTITIES: dict[str, Callable[[Hardware], float]] = {
    "area_um2": area_um2,
    "mac_units": mac_units,
    "on_chip_bits": on_chip_bits,
    "tiles": tiles,
}
"""The quantities that a study may constrain, all known before any solve."""


def hardware_columns(hardware: Hardware) -> HardwareColumns:
    """The columns of a ``designs`` row that hold the whole hardware."""
    if isinstance(hardware, Chip):
        return {"architecture_name": hardware.name, "chip": hardware.to_json()}
    return {"architecture_name": hardware.name, "architecture": hardware.to_json()}
