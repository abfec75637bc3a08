"""Chip files: YAML with units for tiles on a mesh, read into :class:`Chip`.

# The chip file

```yaml
name: my-chip
description: what it is              # optional, for people
source: where the numbers are from   # optional, a text or a list of texts
technology: set-12nm                 # a name or a file beside this one; absent: that of the tile
frequency: 1 GHz                     # default
word_bits: 8                         # of an element; absent: a word of the tile's outermost level
weight_bits: 4                       # of a weight; absent: word_bits
partial_sum_bits: 32                 # of an output that still lacks products; absent: word_bits
mesh: [4, 4]                         # columns, rows of tiles
stripe: 4                            # columns that tile numbers fill row by row before they go on
noc:
  link_bandwidth: 24 B/cycle         # of a link in each direction
  hop_energy: 5.6 pJ                 # a byte and hop
  router_area: 0.98 mm2              # of one tile's router with its links; or as interface_area
dram:
  bandwidth: 16 GB/s                 # over reads and writes, all ports together
  read_energy: 60 pJ                 # a byte
  write_energy: 60 pJ
  interface_area: {value: 2 mm2, at_bandwidth: 16 GB/s}    # on the chip, all interfaces together
  idle: 3 pJ/cycle                   # of all DRAM in every cycle, beside transfers; or 3 mW
tile:
  architecture: nvdla                # a tile of the library, a library architecture, or a file beside this
  buffer:
    size: 1 MiB
    read_energy: 1.05 pJ             # a byte; with at_size the energies follow the law of SRAM
    write_energy: 1.87 pJ
    at_size: 1 MiB
    area: {value: 2 mm2, at_size: 1 MiB}
  output_stream: 10 KiB              # of the buffer, for outputs on their way out; default 0
  vector_units: 64                   # element operations a cycle, of layers without weights
  vector_energy: 0.09 pJ             # an operation
  vector_area: 1120 um2              # of one unit
  leakage: 5 pJ/cycle                # of one tile in every cycle, beside what its levels leak; or 5 mW
```

**What is absent comes from the technology's laws** (see `costmodel.hardware.technology`): a study that varies
`noc.link_bandwidth`, `dram.bandwidth`, `tile.buffer.size` or `tile.vector_units` then moves energy, area and
leakage with it. What the file states wins, and stays as it is unless it says at which size or bandwidth it is
right. An energy that neither the file nor the technology has is refused; an area or leakage that neither has
is 0. A chip has one technology: one whose tile names another is refused, and a tile that names none has the
chip's.

The tile's architecture is what mapping solvers map a tile's part of a layer on. Its outermost level stands
for the buffer: it has no size there, and takes the energies of ``buffer``.

**Widths.** On links, in DRAM and in what buffers hold of a leaf, elements lie side by side, each with its
bits: ``weight_bits`` of weights and their gradients, ``word_bits`` of all other tensors, and
``partial_sum_bits`` of the partial sums that tiles exchange with DRAM or add up on their way there. Within a
tile an element is a word of each level that keeps it, as in every architecture file; so these words must be
wide enough, of partial sums where a level keeps outputs. A size or bandwidth in ``words`` is in words of
``word_bits``.

Energies of the NoC, DRAM and buffer are of a byte, or of a bit where they say ``pJ/bit``.

Overrides name a value by its dotted key: ``mesh`` (``[4, 4]`` or ``4x4``), ``mesh.columns``, ``mesh.rows``,
``tile.buffer.size``, ``noc.link_bandwidth``, ``dram.bandwidth``, ``tile.architecture``; what follows
``tile.architecture.`` is a key of the architecture's file, as in ``tile.architecture.OutputBuffer.size``.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from typing import Any

from costmodel.errors import InputError, NotFoundError, OverrideError
from costmodel.formats.override_blame import built_with
from costmodel.formats.technologies import load_technology
from costmodel.formats.tiles import load_tile, tile_technology
from costmodel.formats.yaml.chip_document import ChipKeys, PartArea, blamed_for, overridden
from costmodel.formats.yaml.file_keys import check_keys
from costmodel.formats.yaml.quantities import Quantity
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.chip import Chip, Dram, Noc, Tile, TileBuffer
from costmodel.hardware.technology import Access, Technology, area_ratio, energy_ratio
from costmodel.hardware.widths import BYTES, Widths

READ: Access = "read"
WRITE: Access = "write"

WIDER = "Give that level wider words in the tile's file, or the chip's elements fewer bits"
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
    try:
        changed = overridden(document, given, where)
        return _ChipReader(check_keys(ChipKeys, changed, where), where, inner).chip()
    except OverrideError:
        raise
    except InputError as error:
        raise blamed_for(error, given, where) from None


class _ChipReader:
    """Builds the chip from checked keys; quantities become bytes, bytes per cycle and pJ per byte."""

    def __init__(self, keys: ChipKeys, where: str, inner: Mapping[str, Any]) -> None:
        """``inner``: values by key that replace those of the tile's file."""
        self.keys, self.where, self.inner = keys, where, dict(inner)
        self.named, self.table = self._technology()
        self.widths = BYTES

    def chip(self) -> Chip:
        keys = self.keys
        architecture = self._loaded()
        self.widths = self._widths(architecture)
        noc, dram = self._noc(), self._dram()
        try:
            return Chip(
                name=keys.name,
                columns=keys.mesh[0],
                rows=keys.mesh[1],
                tile=self._tile(architecture, noc),
                noc=noc,
                dram=dram,
                stripe=keys.stripe,
                frequency_ghz=keys.frequency.value / 1e9,
            )
        except InputError as error:
            raise error.at(self.where) from None

    def _widths(self, architecture: Architecture) -> Widths:
        """Bits of elements, which must fit the words of the levels inside a tile that keep them."""
        keys = self.keys
        elements = keys.word_bits or architecture.levels[-1].word_bits
        try:
            found = Widths(keys.weight_bits or elements, elements, keys.partial_sum_bits or elements)
        except InputError as error:
            names = {"weights": "weight_bits", "activations": "word_bits", "partial_sums": "partial_sum_bits"}
            raise error.at(self.where, names[error.key]) from None
        needed = {"weights": found.weights, "inputs": found.activations, "outputs": found.partial_sums}
        for level in reversed(architecture.levels):
            for role in level.keeps:
                if level.word_bits < needed[role]:
                    what = "partial sums" if role == "outputs" else role
                    expected = f"words of at least {needed[role]} bits in {level.name}, which keeps {what}"
                    raise InputError(self.where, expected, level.word_bits, WIDER, key="tile.architecture")
        return found

    def _technology(self) -> tuple[str | None, Technology | None]:
        """The technology of the chip, or else that of its tile, by name and read."""
        named = self.keys.technology or self._of_tile()
        try:
            return (named, load_technology(named)) if named else (None, None)
        except NotFoundError as error:
            raise error.at(self.where) from None

    def _of_tile(self) -> str | None:
        """The technology that the tile's file names, or the override of it."""
        return self.inner.get("technology") or tile_technology(self.keys.tile.architecture)

    def _check_one_technology(self) -> None:
        """InputError where chip and tile name two: areas of one do not belong to energies of the other."""
        own, inside = self.keys.technology, self._of_tile()
        if own and inside and load_technology(inside) != self.table:
            found = f"{own}, and {inside} in {self.keys.tile.architecture}"
            remedy = "Take one for chip and tile, or a tile whose file names none"
            raise InputError(self.where, "one technology", found, remedy, key="technology")

    def _noc(self) -> Noc:
        keys = self.keys.noc
        rate = self._rate(keys.link_bandwidth, "noc.link_bandwidth")
        law = self.table.tile_router_um2(rate) if self.table else 0.0
        return Noc(
            rate,
            self._energy(keys.hop_energy, Technology.hop_pj_per_byte, "noc.hop_energy"),
            self._part_area(keys.router_area, rate, law, "noc.router_area"),
        )

    def _dram(self) -> Dram:
        keys = self.keys.dram
        rate = self._rate(keys.bandwidth, "dram.bandwidth")
        gigabytes = rate * self.keys.frequency.value / 1e9
        law = self.table.interface_um2(gigabytes) if self.table else 0.0
        idle = self._per_cycle(self.table.interface_idle_mw(gigabytes)) if self.table else 0.0
        return Dram(
            rate,
            self._energy(keys.read_energy, _dram_byte, "dram.read_energy"),
            self._energy(keys.write_energy, _dram_byte, "dram.write_energy"),
            self._part_area(keys.interface_area, rate, law, "dram.interface_area"),
            idle if keys.idle is None else self._leakage(keys.idle),
        )

    def _loaded(self) -> Architecture:
        """The tile's architecture as its own file states it, with the chip's technology if it names none."""
        named = self.keys.tile.architecture
        changed = self.inner
        if self.named and tile_technology(named) == "":
            # The chip's technology stands behind that of an override, which is what a study varies.
            changed = {"technology": self.named} | changed
        try:
            return load_tile(named, changed)
        except OverrideError as error:
            location = f"override of {self.where}"
            key = f"{ARCHITECTURE}{error.key}"
            raise OverrideError(location, error.expected, error.found, error.remedy, key=key) from None
        except NotFoundError as error:
            raise error.at(self.where, "tile.architecture") from None
        except InputError as error:
            raise error.at(f"{self.where}: tile.architecture: {named}") from None

    def _tile(self, loaded: Architecture, noc: Noc) -> Tile:
        """The chip's tile around the architecture; what the file leaves out follows from the technology."""
        keys, buffer = self.keys.tile, self._buffer()
        if loaded.precision is not None:
            expected = "an architecture without a precision: the chip's own keys say the bits of its elements"
            remedy = "Say word_bits, weight_bits and partial_sum_bits in the chip's file instead"
            raise InputError(self.where, expected, loaded.name, remedy, key="tile.architecture")
        architecture = self._architecture(buffer, loaded)
        stream, vector_area = keys.output_stream, 0.0
        units, macs, leakage = keys.vector_units, architecture.mac_units, 0.0
        if self.table is not None:
            vector_area = self.table.vector_unit_um2()
            leakage = self._per_cycle(
                self.table.tile_leakage_mw(
                    macs, architecture.compute.word_bits, units, noc.link_bytes_per_cycle
                )
            )
        return Tile(
            buffer=buffer,
            macs=macs,
            mac_pj=architecture.compute.energy_pj,
            vector_units=units,
            vector_operation_pj=self._energy(
                keys.vector_energy, Technology.vector_operation_pj, "tile.vector_energy"
            ),
            output_stream_bytes=self._bytes(stream, "tile.output_stream") if stream else 0,
            architecture=architecture,
            vector_area_um2=vector_area if keys.vector_area is None else float(keys.vector_area.value),
            leakage_pj_per_cycle=leakage if keys.leakage is None else self._leakage(keys.leakage),
            widths=self.widths,
        )

    def _buffer(self) -> TileBuffer:
        keys = self.keys.tile.buffer
        size, at_size = self._bytes(keys.size, "tile.buffer.size"), None
        if keys.at_size is not None:
            at_size = self._bytes(keys.at_size, "tile.buffer.at_size")
        read, write = (
            self._buffer_energy(given, size, at_size, access)
            for given, access in ((keys.read_energy, READ), (keys.write_energy, WRITE))
        )
        return TileBuffer(size, read, write)

    def _buffer_energy(self, given: Quantity | None, size: int, at_size: int | None, access: Access) -> float:
        if given is None:
            key = f"tile.buffer.{access}_energy"
            return self._energy(None, lambda table: table.access_energy_pj("sram", size, 8, access), key)
        if at_size is None:
            return float(given.value)
        if self.table is None:
            return energy_ratio("sram", size, at_size) * given.value
        return self.table.energy_ratio("sram", size, at_size, access) * given.value

    def _architecture(self, buffer: TileBuffer, found: Architecture) -> Architecture:
        """The tile's architecture with energies, area and leakage of this buffer as its outermost level."""
        outermost = found.levels[-1]
        self._check_one_technology()
        read, write = (
            pj * (outermost.block_size * outermost.word_bits / 8)
            for pj in (buffer.read_pj_per_byte, buffer.write_pj_per_byte)
        )
        leakage = outermost.leakage_pj_per_cycle
        # What the tile's file states of its outermost level stays; the law is for what it leaves open.
        if not leakage and self.table is not None:
            leakage = self._per_cycle(self.table.storage_leakage_mw("sram", buffer.size_bytes, 8))
        level = replace(
            outermost,
            read_energy_pj=read,
            write_energy_pj=write,
            update_energy_pj=write,
            leakage_pj_per_cycle=leakage,
            area_um2=self._buffer_area(buffer.size_bytes),
        )
        frequency = float(self.keys.frequency.value)
        return replace(found, levels=(*found.levels[:-1], level), frequency_hz=frequency)

    def _buffer_area(self, size: int) -> float:
        given = self.keys.tile.buffer.area
        if given is None:
            return self.table.storage_area_um2("sram", size, 8) if self.table else 0.0
        if given.at_size is None:
            return float(given.value.value)
        return given.value.value * area_ratio(
            "sram", size, self._bytes(given.at_size, "tile.buffer.area.at_size")
        )

    def _part_area(self, given: PartArea | None, rate: int, law: float, key: str) -> float:
        """The area of a part for a ``rate`` in bytes a cycle: as given, or else by the ``law``."""
        if given is None:
            return law
        area = float(given.value.value)
        if given.at_bandwidth is None:
            return area
        return area * rate / self._rate(given.at_bandwidth, f"{key}.at_bandwidth")

    def _energy(self, given: Quantity | None, law: Callable[[Technology], float], key: str) -> float:
        """An energy as given, else by the technology's ``law``; InputError where neither has a number."""
        if given is not None:
            return float(given.value)
        if self.table is None:
            remedy = "Give it (such as 5.6 pJ), or a technology to take it from"
            raise InputError(self.where, "an energy", "nothing", remedy, key=key)
        try:
            return law(self.table)
        except InputError as error:
            raise InputError(self.where, error.expected, "nothing", error.remedy, key=key) from None

    def _per_cycle(self, power_mw: float) -> float:
        return 1e9 * power_mw / float(self.keys.frequency.value)

    def _leakage(self, given: Quantity) -> float:
        return float(given.value / self.keys.frequency.value if given.unit.endswith("/s") else given.value)

    def _bytes(self, size: Quantity, key: str) -> int:
        bits = 1 if size.unit == "bits" else self.widths.activations
        return self._whole(size.value * bits / 8, size, key)

    def _rate(self, bandwidth: Quantity, key: str) -> int:
        """A bandwidth in bytes per cycle, which must be whole: the NoC and DRAM move whole bytes."""
        bits = 1 if bandwidth.unit.startswith("bits") else self.widths.activations
        value = bandwidth.value * bits / 8
        if bandwidth.unit.endswith("/s"):
            value /= self.keys.frequency.value
        # A rate over a clock may miss the whole number that was meant by the last digit of a float.
        return self._whole(round(value, 9), bandwidth, key)

    def _whole(self, value: float, quantity: Quantity, key: str) -> int:
        if value != int(value) or value < 1:
            remedy = f"It makes {value:g}"
            raise InputError(self.where, "whole bytes, at least 1", quantity.written, remedy, key=key)
        return int(value)


def _dram_byte(table: Technology) -> float:
    return table.access_energy_pj("dram", 0, 8)
