"""Chip files: YAML with units for tiles on a mesh, read into :class:`Chip`.

# The chip file

```yaml
name: my-chip
description: what it is              # optional, for people
source: where the numbers are from   # optional, a text or a list of texts
frequency: 1 GHz                     # default
mesh: [4, 4]                         # columns, rows of tiles
stripe: 4                            # columns that tile numbers fill row by row before they go on
noc:
  link_bandwidth: 24 B/cycle         # of a link in each direction
  hop_energy: 5.6 pJ                 # a byte and hop
dram:
  bandwidth: 16 GB/s                 # over reads and writes, all ports together
  read_energy: 60 pJ                 # a byte
  write_energy: 60 pJ
tile:
  architecture: nvdla                # a tile of the library, a library architecture, or a file beside this
  buffer:
    size: 1 MiB
    read_energy: 1.05 pJ             # a byte; with at_size the energies follow the law of SRAM
    write_energy: 1.87 pJ
    at_size: 1 MiB
  output_stream: 10 KiB              # of the buffer, for outputs on their way out; default 0
  vector_units: 64                   # element operations a cycle, of layers without weights
  vector_energy: 0.09 pJ             # an operation
```

The tile's architecture is what mapping solvers map a tile's part of a layer on. Its outermost level stands
for the buffer: it has no size there, and takes the energies of ``buffer``. Data are bytes (int8) on the NoC
and in DRAM, so its words must have 8 bits.

Energies of the NoC, DRAM and buffer are of a byte, or of a bit where they say ``pJ/bit``.

Overrides name a value by its dotted key: ``mesh`` (``[4, 4]`` or ``4x4``), ``mesh.columns``, ``mesh.rows``,
``tile.buffer.size``, ``noc.link_bandwidth``, ``dram.bandwidth``, ``tile.architecture``; what follows
``tile.architecture.`` is a key of the architecture's file, as in ``tile.architecture.OutputBuffer.size``.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

from costmodel.errors import InputError, NotFoundError, OverrideError
from costmodel.formats.override_blame import built_with
from costmodel.formats.technologies import load_technology
from costmodel.formats.yaml.chip_document import ChipKeys, blamed_for, overridden
from costmodel.formats.yaml.file_keys import check_keys
from costmodel.formats.yaml.quantities import Quantity
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.chip import Chip, Dram, Noc, Tile, TileBuffer
from costmodel.hardware.technology import energy_ratio

BUFFERS = "simba-like-8bit"
"""The technology whose law gives the area of a tile's buffer, which a chip file does not state."""

ARCHITECTURE = "tile.architecture."
"""Overrides that start so are of the tile's architecture file."""


def chip_from_document(document: Any, where: str, overrides: Mapping[str, Any] | None = None) -> Chip:
    """The chip of a file's content with ``overrides`` in place of its values.

    Raises InputError naming the file and the key for what is missing, unknown or impossible.
    """
    given = dict(overrides or {})
    return built_with(partial(_chip, document, where), given, where)


def _chip(document: Any, where: str, overrides: Mapping[str, Any]) -> Chip:
    """The same chip; an InputError at a key that an override replaced names that override."""
    given = dict(overrides)
    inner = {
        key.removeprefix(ARCHITECTURE): given.pop(key) for key in list(given) if key.startswith(ARCHITECTURE)
    }
    changed = overridden(document, given, where)
    try:
        return _ChipReader(check_keys(ChipKeys, changed, where), where).chip(inner)
    except OverrideError:
        raise
    except InputError as error:
        raise blamed_for(error, given, where) from None


@dataclass(frozen=True)
class _ChipReader:
    """Builds the chip from checked keys; quantities become bytes, bytes per cycle and pJ per byte."""

    keys: ChipKeys
    where: str

    def chip(self, inner: Mapping[str, Any]) -> Chip:
        keys = self.keys
        noc = Noc(self._rate(keys.noc.link_bandwidth, "noc.link_bandwidth"), float(keys.noc.hop_energy.value))
        dram = Dram(
            self._rate(keys.dram.bandwidth, "dram.bandwidth"),
            float(keys.dram.read_energy.value),
            float(keys.dram.write_energy.value),
        )
        architecture = self._loaded(inner)
        try:
            return Chip(
                name=keys.name,
                columns=keys.mesh[0],
                rows=keys.mesh[1],
                tile=self._tile(architecture),
                noc=noc,
                dram=dram,
                stripe=keys.stripe,
                frequency_ghz=keys.frequency.value / 1e9,
            )
        except InputError as error:
            raise error.at(self.where) from None

    def _loaded(self, inner: Mapping[str, Any]) -> Architecture:
        """The tile's architecture as its own file states it."""
        from costmodel.formats.tiles import load_tile

        named = self.keys.tile.architecture
        try:
            return load_tile(named, inner)
        except OverrideError as error:
            location = f"override of {self.where}"
            key = f"{ARCHITECTURE}{error.key}"
            raise OverrideError(location, error.expected, error.found, error.remedy, key=key) from None
        except NotFoundError as error:
            raise error.at(self.where, "tile.architecture") from None
        except InputError as error:
            raise error.at(f"{self.where}: tile.architecture: {named}") from None

    def _tile(self, loaded: Architecture) -> Tile:
        keys, buffer = self.keys.tile, self._buffer()
        architecture = self._architecture(buffer, loaded)
        stream = keys.output_stream
        return Tile(
            buffer=buffer,
            macs=architecture.mac_units,
            mac_pj=architecture.compute.energy_pj,
            vector_units=keys.vector_units,
            vector_operation_pj=float(keys.vector_energy.value),
            output_stream_bytes=self._bytes(stream, "tile.output_stream") if stream else 0,
            architecture=architecture,
        )

    def _buffer(self) -> TileBuffer:
        keys = self.keys.tile.buffer
        size, ratio = self._bytes(keys.size, "tile.buffer.size"), 1.0
        if keys.at_size is not None:
            ratio = energy_ratio("sram", size, self._bytes(keys.at_size, "tile.buffer.at_size"))
        return TileBuffer(size, ratio * keys.read_energy.value, ratio * keys.write_energy.value)

    def _architecture(self, buffer: TileBuffer, found: Architecture) -> Architecture:
        """The tile's architecture with the energies and the area of this buffer as its outermost level."""
        outermost, key = found.levels[-1], "tile.architecture"
        if widths := {level.word_bits for level in found.levels} - {8}:
            raise InputError(self.where, "an architecture of 8-bit words", sorted(widths), key=key)
        read, write = (
            pj * outermost.block_size for pj in (buffer.read_pj_per_byte, buffer.write_pj_per_byte)
        )
        level = replace(
            outermost,
            read_energy_pj=read,
            write_energy_pj=write,
            update_energy_pj=write,
            area_um2=load_technology(BUFFERS).storage_area_um2("sram", buffer.size_bytes, 8),
        )
        frequency = float(self.keys.frequency.value)
        return replace(found, levels=(*found.levels[:-1], level), frequency_hz=frequency)

    def _bytes(self, size: Quantity, key: str) -> int:
        return self._whole(size.value / 8 if size.unit == "bits" else size.value, size, key)

    def _rate(self, bandwidth: Quantity, key: str) -> int:
        """A bandwidth in bytes per cycle, which must be whole: the NoC and DRAM move whole bytes."""
        value = bandwidth.value / 8 if bandwidth.unit.startswith("bits") else bandwidth.value
        if bandwidth.unit.endswith("/s"):
            value /= self.keys.frequency.value
        return self._whole(round(value, 9), bandwidth, key)

    def _whole(self, value: float, quantity: Quantity, key: str) -> int:
        if value != int(value) or value < 1:
            remedy = f"It makes {value:g}"
            raise InputError(self.where, "whole bytes, at least 1", quantity.written, remedy, key=key)
        return int(value)
