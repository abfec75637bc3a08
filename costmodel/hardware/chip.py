"""A tiled chip: tiles on a mesh of links, with DRAM at both ends of every row, and what each part costs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields, replace
from functools import cached_property
from math import prod
from typing import Any

from costmodel.errors import InputError
from costmodel.hardware.architecture import LARGEST, Architecture
from costmodel.hardware.widths import BYTES, Widths
from costmodel.number_checks import is_whole


class _BitAccesses:
    """Energies per bit of a part whose own energies are per byte.

    Schedules are counted in bits, because an element need not be whole bytes. An eighth of a floating-point
    number is exact, so energies of whole bytes are the same whether they are counted in bits or in bytes.
    """

    read_pj_per_byte: float
    write_pj_per_byte: float

    @property
    def read_pj_per_bit(self) -> float:
        return self.read_pj_per_byte / 8

    @property
    def write_pj_per_bit(self) -> float:
        return self.write_pj_per_byte / 8


@dataclass(frozen=True)
class TileBuffer(_BitAccesses):
    """The buffer of a tile, which the NoC reads and writes."""

    size_bytes: int
    read_pj_per_byte: float
    write_pj_per_byte: float

    def __post_init__(self) -> None:
        _check(self, "tile buffer", whole=("size_bytes",))

    @property
    def size_bits(self) -> int:
        return 8 * self.size_bytes


@dataclass(frozen=True)
class Tile:
    """A tile: PEs behind a buffer, and vector units for layers without weights.

    ``macs`` is the most multiply-accumulates per cycle, ``vector_units`` the element operations per cycle.
    ``output_stream_bytes`` of the buffer are reserved for outputs on their way out. ``architecture`` is the
    inside of the tile, on which mapping solvers map a tile's part of a layer: its outermost level is the
    buffer. ``vector_area_um2`` is the area of one vector unit. ``leakage_pj_per_cycle`` is what the tile
    takes in every cycle of a run, whether it works or not, beside what the levels of its architecture leak.
    ``widths``: bits of the elements that it takes in, holds in its buffer and sends.
    """

    buffer: TileBuffer
    macs: int
    mac_pj: float
    vector_units: int
    vector_operation_pj: float
    output_stream_bytes: int = 0
    architecture: Architecture | None = None
    vector_area_um2: float = 0.0
    leakage_pj_per_cycle: float = 0.0
    widths: Widths = BYTES

    def __post_init__(self) -> None:
        _check(self, "tile", whole=("macs", "vector_units"))
        if self.output_stream_bytes >= self.buffer.size_bytes:
            expected = f"less than the buffer's {self.buffer.size_bytes} bytes"
            raise InputError("tile", expected, self.output_stream_bytes, key="output_stream_bytes")
        self._check_timing()

    def _check_timing(self) -> None:
        """InputError for timing of an array that computes more at once than ``macs``: bounds rest on them."""
        timing = None if self.architecture is None else self.architecture.timing
        if timing is None or timing.array is None:
            return
        if (points := prod(points for _, points in timing.array.block)) > self.macs:
            expected = f"a block of at most {self.macs} weights, one for each of the tile's MAC units"
            raise InputError("tile", expected, points, key="architecture.timing.array.block")

    @property
    def output_stream_bits(self) -> int:
        return 8 * self.output_stream_bytes

    @property
    def free_bits(self) -> int:
        """Bits of the buffer for inputs and weights."""
        return self.buffer.size_bits - self.output_stream_bits


@dataclass(frozen=True)
class Noc:
    """A mesh of links with XY routing and multicast trees.

    A link carries ``link_bytes_per_cycle`` in each direction; each byte costs ``hop_pj_per_byte`` for each
    link that it crosses. ``router_area_um2`` is the area of one tile's router with the wires of its links.
    """

    link_bytes_per_cycle: int
    hop_pj_per_byte: float
    router_area_um2: float = 0.0

    def __post_init__(self) -> None:
        _check(self, "NoC", whole=("link_bytes_per_cycle",))

    @property
    def link_bits_per_cycle(self) -> int:
        return 8 * self.link_bytes_per_cycle

    @property
    def hop_pj_per_bit(self) -> float:
        return self.hop_pj_per_byte / 8


@dataclass(frozen=True)
class Dram(_BitAccesses):
    """All DRAM of the chip together; every transfer is spread evenly over the ports of :attr:`Chip.ports`.

    ``interface_area_um2`` is the area of all interfaces on the chip. ``idle_pj_per_cycle`` is what DRAM and
    its interfaces take in every cycle of a run, beside their transfers.
    """

    bytes_per_cycle: int
    read_pj_per_byte: float
    write_pj_per_byte: float
    interface_area_um2: float = 0.0
    idle_pj_per_cycle: float = 0.0

    def __post_init__(self) -> None:
        _check(self, "DRAM", whole=("bytes_per_cycle",))

    @property
    def bits_per_cycle(self) -> int:
        return 8 * self.bytes_per_cycle


MOST_TILES = 4096
"""The most tiles of a mesh: tables of its links and partitions grow beyond memory above this."""


@dataclass(frozen=True)
class Chip:
    """``columns`` x ``rows`` equal tiles on a mesh, numbered in stripes of ``stripe`` columns.

    The numbering is that of section 3.3.2 of SET's paper. It goes through one stripe after the other, row by
    row; every other stripe is walked from its last row to its first, so that tiles with consecutive numbers
    are near each other. The last stripe may be narrower. Four columns, two rows and a stripe of two::

        row 0:  0  1 | 6  7
        row 1:  2  3 | 4  5

    Raises InputError for numbers that no chip has.
    """

    name: str
    columns: int
    rows: int
    tile: Tile
    noc: Noc
    dram: Dram
    stripe: int = 4
    frequency_ghz: float = 1.0

    def __post_init__(self) -> None:
        _check(self, f"chip {self.name}", whole=("columns", "rows", "stripe"))
        if self.tiles > MOST_TILES:
            expected = f"a mesh of at most {MOST_TILES:,} tiles"
            raise InputError(f"chip {self.name}", expected, f"{self.columns} x {self.rows}", key="mesh")
        if not self.frequency_ghz > 0:
            raise InputError(f"chip {self.name}", "more than 0 GHz", self.frequency_ghz, key="frequency_ghz")

    @property
    def tiles(self) -> int:
        return self.columns * self.rows

    @property
    def idle_pj_per_cycle(self) -> float:
        """What all tiles and DRAM together take in every cycle of a run, whether they work or not."""
        return self.tiles * self.tile.leakage_pj_per_cycle + self.dram.idle_pj_per_cycle

    @cached_property
    def area_um2(self) -> float:
        """Area of tiles, routers with their links and DRAM interfaces; a part without an area counts 0."""
        tile = self.tile
        inside = tile.architecture.area_um2 if tile.architecture is not None else 0.0
        units = tile.vector_units * tile.vector_area_um2
        return self.tiles * (inside + units + self.noc.router_area_um2) + self.dram.interface_area_um2

    @cached_property
    def positions(self) -> tuple[tuple[int, int], ...]:
        """(column, row) of every tile, by its number."""
        found: list[tuple[int, int]] = []
        for number, left in enumerate(range(0, self.columns, self.stripe)):
            rows = range(self.rows - 1, -1, -1) if number % 2 else range(self.rows)
            right = min(left + self.stripe, self.columns)
            found += [(column, row) for row in rows for column in range(left, right)]
        return tuple(found)

    @cached_property
    def ports(self) -> tuple[tuple[int, int], ...]:
        """(column, row) of the tiles next to DRAM: both ends of every row."""
        ends = dict.fromkeys((0, self.columns - 1))
        return tuple((column, row) for column in ends for row in range(self.rows))

    @property
    def computing_tiles(self) -> int:
        """Tiles that can compute."""
        return self.tiles

    @property
    def store_ports(self) -> tuple[tuple[int, int], ...]:
        """As many (column, row) as :attr:`ports`: where what is stored leaves the mesh."""
        return self.ports

    @property
    def dram_write_bits_per_cycle(self) -> int | None:
        """DRAM's rate for writes where it has one of its own; None: reads and writes share a rate."""
        return None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data that :meth:`from_json` reads back."""
        # the architecture has a faster form of its own than `asdict` would make of it
        architecture = self.tile.architecture
        bare = replace(self, tile=replace(self.tile, architecture=None))
        data = asdict(bare)
        data["tile"]["architecture"] = architecture and architecture.to_json()
        if self.tile.widths == BYTES:
            # Identities of tasks are hashes of this data: those of chips of bytes stay what they were.
            del data["tile"]["widths"]
        return data

    @staticmethod
    def from_json(data: Mapping[str, Any]) -> Chip:
        """The chip of :meth:`to_json`; raises InputError for numbers that no chip has."""
        tile = dict(data["tile"])
        architecture = tile["architecture"] and Architecture.from_json(tile["architecture"])
        inside = {
            "buffer": TileBuffer(**tile["buffer"]),
            "architecture": architecture,
            "widths": Widths(**tile.get("widths", {})),
        }
        parts = {
            "tile": Tile(**{**tile, **inside}),
            "noc": Noc(**data["noc"]),
            "dram": Dram(**data["dram"]),
        }
        return Chip(**{**data, **parts})

    @property
    def links(self) -> int:
        """How many links there are: two between neighbours, one for each direction."""
        return 2 * ((self.columns - 1) * self.rows + self.columns * (self.rows - 1))

    @property
    def link_port_bits_per_cycle(self) -> int:
        """What a link carries in a cycle, in bits times ports, in which loads of links are counted."""
        return self.noc.link_bits_per_cycle * len(self.ports)

    def least_cycles(self, dram_bits: int, busiest: int, runs: int = 1) -> int:
        """The least cycles of one of ``runs`` equal runs, given the traffic of all of them together.

        ``dram_bits`` are what DRAM moves. ``busiest`` is what the busiest link carries, in bits times ports:
        a transfer is divided evenly among the ports, and in this unit its parts are whole numbers. Neither
        DRAM nor that link can be faster than its rate.
        """
        dram = -(-dram_bits // (self.dram.bits_per_cycle * runs))
        return max(dram, -(-busiest // (self.link_port_bits_per_cycle * runs)))


def _check(value: Any, where: str, whole: tuple[str, ...]) -> None:
    """InputError unless the fields ``whole`` are whole, from 1 to LARGEST, and no number is negative."""
    for item in fields(value):
        number = getattr(value, item.name)
        if item.name in whole and not is_whole(number, 1):
            raise InputError(where, "a whole number of at least 1", number, key=item.name)
        if item.name in whole and number > LARGEST:
            raise InputError(where, f"at most {LARGEST:,}", number, key=item.name)
        if item.type in ("int", "float") and not 0 <= number < float("inf"):
            raise InputError(where, "a number of at least 0", number, key=item.name)
