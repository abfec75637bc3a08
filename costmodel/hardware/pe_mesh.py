"""A mesh of PEs beside a global buffer and DRAM, as a chip on which programs run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from costmodel.errors import InputError
from costmodel.hardware.architecture import LARGEST
from costmodel.hardware.chip import Chip, Dram, Noc, Tile, TileBuffer
from costmodel.number_checks import is_whole

SENDING_SIDE, RECEIVING_SIDE = (0, 1), (1, 0)
"""(column, row) of what the global buffer sends from and of where it takes in."""


@dataclass(frozen=True)
class PeMesh(Chip):
    """A chip whose tiles are *units*: whatever works by itself, such as a PE or one direction of a port.

    PEs stand at columns and rows from 1 on, and the global buffer has a port at the corner of the mesh: it
    sends from a router of its own to the west of that corner, and takes in at another one to the north::

              0        1       2       3
        0           receives
        1   sends     PE  ---  PE  ---  PE
        2             PE  ---  PE  ---  PE

    So X-Y routes lead through the PEs' routers only, and all that the buffer sends crosses one link, as all
    that it takes in crosses one other. DRAM is beside the global buffer: its transfers cross no link.

    ``units``: (column, row) of every unit; several may share a router, between which data takes no time.
    ``dram_write_bytes_per_cycle``: DRAM's rate for writes, beside that for reads, which is then
    ``dram.bytes_per_cycle``; None: both share the latter.
    """

    units: tuple[tuple[int, int], ...] = ()
    dram_write_bytes_per_cycle: int | None = None

    def __post_init__(self) -> None:
        super().__post_init__()
        where = f"mesh {self.name}"
        if not all(0 <= x < self.columns and 0 <= y < self.rows for x, y in self.units) or not self.units:
            expected = f"units within {self.columns} columns and {self.rows} rows"
            raise InputError(where, expected, self.units, key="units")
        rate = self.dram_write_bytes_per_cycle
        if rate is not None and not (is_whole(rate, 1) and rate <= LARGEST):
            expected = "a whole number of at least 1, or none"
            raise InputError(where, expected, rate, key="dram_write_bytes_per_cycle")

    @property
    def tiles(self) -> int:
        return len(self.units)

    @property
    def computing_tiles(self) -> int:
        """PEs, those that a mapping leaves idle too."""
        return (self.columns - 1) * (self.rows - 1)

    @property
    def positions(self) -> tuple[tuple[int, int], ...]:
        return self.units

    @property
    def ports(self) -> tuple[tuple[int, int], ...]:
        return (SENDING_SIDE,)

    @property
    def store_ports(self) -> tuple[tuple[int, int], ...]:
        return (RECEIVING_SIDE,)

    @property
    def dram_write_bits_per_cycle(self) -> int | None:
        rate = self.dram_write_bytes_per_cycle
        return None if rate is None else 8 * rate

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data that :meth:`from_json` reads back."""
        return {
            "name": self.name,
            "columns": self.columns,
            "rows": self.rows,
            "link_bytes_per_cycle": self.noc.link_bytes_per_cycle,
            "dram_bytes_per_cycle": self.dram.bytes_per_cycle,
            "dram_write_bytes_per_cycle": self.dram_write_bytes_per_cycle,
            "buffer_bytes": self.tile.buffer.size_bytes,
            "units": [list(unit) for unit in self.units],
        }

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> PeMesh:
        """The mesh of :meth:`to_json`; raises InputError for numbers that no mesh has."""
        return pe_mesh(
            data["name"],
            (data["columns"], data["rows"]),
            tuple((x, y) for x, y in data["units"]),
            data["link_bytes_per_cycle"],
            (data["dram_bytes_per_cycle"], data["dram_write_bytes_per_cycle"]),
            data["buffer_bytes"],
        )


def pe_mesh(
    name: str,
    sides: tuple[int, int],
    units: tuple[tuple[int, int], ...],
    link_bytes_per_cycle: int,
    dram_bytes_per_cycle: tuple[int, int | None],
    buffer_bytes: int,
) -> PeMesh:
    """A mesh of so many columns and rows; bytes a cycle of DRAM are those of reads and of writes.

    Programs of a mesh ask for no energies, so there are none. ``buffer_bytes`` bounds the addresses of each
    unit.
    """
    columns, rows = sides
    read, write = dram_bytes_per_cycle
    tile = Tile(TileBuffer(buffer_bytes, 0, 0), macs=1, mac_pj=0, vector_units=1, vector_operation_pj=0)
    noc, dram = Noc(link_bytes_per_cycle, 0), Dram(read, 0, 0)
    return PeMesh(name, columns, rows, tile, noc, dram, units=units, dram_write_bytes_per_cycle=write)
