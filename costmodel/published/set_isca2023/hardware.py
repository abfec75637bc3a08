"""The hardware that the released SET evaluator counts for: an NVDLA-style tile, a mesh of them, DRAM."""

from __future__ import annotations

import re
from dataclasses import dataclass, field, fields

from costmodel.errors import InputError, did_you_mean
from costmodel.number_checks import is_whole
from costmodel.published.set_isca2023.nvdla_tile.hardware import NvdlaTile


@dataclass(frozen=True)
class Platform:
    """A mesh of ``columns`` x ``rows`` tiles, numbered in stripes of ``stripe`` columns (section 3.3.2).

    DRAM ports are at both ends of every row. Least utilizations: below them an S cut's division of tiles is
    not possible, and a partition of a layer is not tried. Raises InputError for a mesh whose columns do not
    divide into stripes.
    """

    columns: int
    rows: int
    dram_bytes_per_cycle: int
    stripe: int = 4
    link_bytes_per_cycle: int = 24
    hop_pj_per_byte: float = 5.6
    dram_pj_per_byte: float = 60.0
    least_allocation_utilization: float = 0.75
    least_partition_utilization: float = 0.75
    tile: NvdlaTile = field(default_factory=NvdlaTile)

    def __post_init__(self) -> None:
        for item in fields(self):
            value = getattr(self, item.name)
            if item.type == "int" and not is_whole(value, 1):
                raise InputError("platform", "a whole number of at least 1", value, key=item.name)
        if self.columns % self.stripe:
            expected = f"a divisor of the mesh's {self.columns} columns"
            raise InputError("platform", expected, self.stripe, key="stripe")

    @property
    def tiles(self) -> int:
        return self.columns * self.rows

    def position(self, tile: int) -> tuple[int, int]:
        """Column and row of the tile with a number.

        A stripe is numbered row by row, and every other stripe from its last row to its first, so that
        consecutive numbers stay close to each other.
        """
        stripe, within = divmod(tile, self.stripe * self.rows)
        row = within // self.stripe
        return stripe * self.stripe + tile % self.stripe, self.rows - 1 - row if stripe % 2 else row

    @property
    def ports(self) -> tuple[tuple[int, int], ...]:
        """Column and row of the DRAM ports, in the order in which a transfer is divided among them.

        The order matters: a transfer that does not divide gives some ports a byte more.
        """
        return tuple((column, row) for column in (0, self.columns - 1) for row in range(self.rows))


PLATFORMS = {
    "edge": Platform(columns=4, rows=4, dram_bytes_per_cycle=16),
    "cloud": Platform(columns=12, rows=12, dram_bytes_per_cycle=144),
}
"""The two platforms of section 5.1: 0.5 GB/s of DRAM bandwidth for each TOPS, at 1 GHz."""


def load_platform(name: str) -> Platform:
    """A platform of the paper by name, or one of the same kind by its columns and rows, such as ``8x8``."""
    if name in PLATFORMS:
        return PLATFORMS[name]
    if mesh := re.fullmatch(r"(\d{1,3})x(\d{1,3})", name):
        columns, rows = int(mesh[1]), int(mesh[2])
        # a tile does 2 x 1024 operations a cycle, about 2 TOPS at 1 GHz. At 0.5 GB/s for each TOPS, that is a
        # byte a cycle for each tile
        return Platform(columns, rows, dram_bytes_per_cycle=columns * rows)
    expected = f"one of {', '.join(PLATFORMS)}, or columns x rows such as 8x8"
    raise InputError("platform", expected, name, did_you_mean(name, PLATFORMS))
