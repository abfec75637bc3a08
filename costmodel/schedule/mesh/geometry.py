"""A chip's mesh as the arrays that compiled code computes with.

Modules with compiled code are imported inside of functions: importing numba takes a second, which commands
that count no schedule should not wait for.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip

Array = NDArray[Any]


def mesh_of(
    sizes: tuple[int, int],
    positions: Sequence[tuple[int, int]],
    ports: Sequence[tuple[int, int]],
    with_links: bool,
) -> Any:
    """The :class:`.mesh_kernel.Mesh` of ``sizes`` = (columns, rows), tiles at ``positions``, DRAM at
    ``ports``.
    """
    from costmodel.schedule.mesh.mesh_kernel import Mesh

    tiles, at = np.array(positions, np.int64).T.copy(), np.array(ports, np.int64).T.copy()
    along = _along(at[0], sizes[0]), _along(at[1], sizes[1])
    rows = np.arange(len(at[0]) + 1)[:, None]
    to_tile = along[0][rows, tiles[0], tiles[0]] + along[1][rows, tiles[1], tiles[1]]
    reached = np.zeros(sizes[0], np.int64), np.zeros(sizes[0], np.int64)
    links = np.zeros(sizes[0] * sizes[1] * 4 if with_links else 0, np.int64)
    return Mesh(tiles[0], tiles[1], at[0], at[1], *along, to_tile, *reached, links)


def flows_of(chip: Chip) -> Any:
    """Empty :class:`.flows_kernel.Flows` for the chip's mesh."""
    from costmodel.schedule.mesh.flows_kernel import Flows

    at = np.zeros((chip.columns, chip.rows), np.int64)
    east, west = (np.zeros(chip.columns, np.int64) for _ in range(2))
    south, north, out = (np.zeros_like(at) for _ in range(3))
    return Flows(east, west, south, north, out)


def senders_of(chip: Chip) -> Any:
    """Empty :class:`.senders_kernel.Senders` for the chip's mesh."""
    from costmodel.schedule.mesh.senders_kernel import Senders

    columns, by_row = np.zeros((3, chip.columns), np.int64), np.zeros(chip.rows, np.int64)
    at, south, north = (np.zeros((chip.columns, chip.rows), np.int64) for _ in range(3))
    return Senders(
        at=at,
        by_column=columns[0],
        by_row=by_row,
        east=columns[1],
        west=columns[2],
        south=south,
        north=north,
    )


def port_counts(chip: Chip) -> Any:
    """How many DRAM ports use the links that leave each tile; see :class:`.flows_kernel.PortCounts`.

    ``at`` [X, Y] counts ports by position. Each of the other counts sums it over rows or columns on one side
    of the tile, which is a product with a triangular matrix of ones.
    """
    from costmodel.schedule.mesh.flows_kernel import PortCounts

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


def _along(ports: Array, length: int) -> Array:
    """Links along one axis from all ports to every index from ``first`` to ``last`` [ports + 1, length,
    length].

    A port at index p reaches from min(p, first) to max(p, last). Row r adds up the links of the ports that
    send one of r units which do not divide by the ports: port p sends one if floor(r (p + 1) / ports) is more
    than floor(r p / ports). The last row adds up the links of all ports.
    """
    count = len(ports)
    first, last = np.arange(length)[:, None, None], np.arange(length)[None, :, None]
    links = np.maximum(ports, last) - np.minimum(ports, first)
    sums = np.arange(count)[:, None] * np.arange(count + 1)[None, :] // count
    sent = np.vstack([np.diff(sums, axis=1), np.ones((1, count), np.int64)])
    return np.ascontiguousarray(np.einsum("flp,rp->rfl", links, sent))
