"""A chip as the arrays that the compiled search of leaves computes with."""

from __future__ import annotations

from typing import Any

import numpy as np

from costmodel.hardware.chip import Chip
from costmodel.schedule.leaf.geometry import mesh_of, ranges_of


def prices_of(chip: Chip, exponents: tuple[float, float]) -> Any:
    """What a byte costs on NoC and DRAM, and the ``exponents`` of energy and cycles in the objective."""
    from costmodel.schedule.leaf.leaf_values import TransferPrices

    return TransferPrices(
        chip.noc.hop_pj_per_byte,
        chip.dram.read_pj_per_byte,
        chip.dram.write_pj_per_byte,
        chip.noc.link_bytes_per_cycle,
        chip.dram.bytes_per_cycle,
        float(exponents[0]),
        float(exponents[1]),
    )


def workspace_of(chip: Chip, streams: int) -> Any:
    """Empty arrays for leaves of up to so many ``streams``; see :class:`.leaf_values.Workspace`."""
    from costmodel.schedule.leaf.leaf_values import Flows, Senders, Workspace

    at = np.zeros((chip.columns, chip.rows), np.int64)
    east, west = (np.zeros(chip.columns, np.int64) for _ in range(2))
    south, north, out = (np.zeros_like(at) for _ in range(3))
    return Workspace(
        mesh_of((chip.columns, chip.rows), chip.positions, chip.ports, True),
        ranges_of(chip.tiles),
        Flows(east, west, south, north, out),
        port_counts(chip),
        Senders(*(np.zeros(size, np.int64) for size in (chip.columns, *[chip.rows] * 3))),
        np.zeros(streams, np.int64),
        np.zeros((streams, 2, 4, chip.tiles), np.int64),
        np.zeros((streams, 4, chip.tiles, chip.tiles), np.int64),
    )


def port_counts(chip: Chip) -> Any:
    """How many DRAM ports use the links that leave each tile; see :class:`.leaf_values.PortCounts`.

    ``at`` [X, Y] counts ports by position. Each of the other counts sums it over rows or columns on one side
    of the tile, which is a product with a triangular matrix of ones.
    """
    from costmodel.schedule.leaf.leaf_values import PortCounts

    columns, rows = np.arange(chip.columns), np.arange(chip.rows)
    at = np.zeros((chip.columns, chip.rows), np.int64)
    for port in chip.ports:
        at[port] += 1
    of_columns, of_rows = at.sum(axis=1), at.sum(axis=0)
    before, after = columns[:, None] >= columns, columns[:, None] <= columns
    above, below = rows[:, None] >= rows, rows[:, None] <= rows
    counts = PortCounts(
        to_east=before @ at,
        to_west=after @ at,
        to_south=above @ of_rows,
        to_north=below @ of_rows,
        east_of=~before @ of_columns,
        west_of=~after @ of_columns,
        south_of=at @ ~above.T,
        north_of=at @ ~below.T,
    )
    return PortCounts(*(np.ascontiguousarray(array, np.int64) for array in counts))
