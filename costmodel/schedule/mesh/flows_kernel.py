"""Transfers between DRAM and tiles as loads of links, compiled.

DRAM's bits are spread evenly over its ports. A transfer from DRAM is a tree from every port: along the
port's row over all columns that are reached, then along these columns. A transfer to DRAM goes along the
tile's row to the port's column, then along that column.

Every transfer comes from all ports alike, so its trees need not be walked link by link. A link to the east at
column x carries the transfers whose last column is beyond x, once for every port at x or before:

    load of the link from column x to x + 1 in row y
        = (bits of transfers with last column > x) * (ports in row y with column <= x)

The first factor is a running sum over ``Flows.east``, the second is ``PortCounts.to_east``; the other
directions are alike. So a transfer costs a few additions (:func:`load`), and each link one multiplication for
all transfers together (:func:`add_to_links`).
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.mesh.mesh_kernel import EAST, NORTH, SOUTH, WEST, Mesh, Span

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


class Flows(NamedTuple):
    """Bits between DRAM and the mesh, sorted by how far they go.

    From DRAM: ``east`` and ``west`` [X] by the last column that is reached, ``south`` and ``north`` [X, Y] in
    each column by the last row that is reached. To DRAM: ``out`` [X, Y] by the tile that sends.
    """

    east: Array
    west: Array
    south: Array
    north: Array
    out: Array


class PortCounts(NamedTuple):
    """How many DRAM ports use a link that leaves tile (x, y).

    Sending ports use links along their own row first: ``to_east`` [X, Y] are those in row y at column x or
    before, ``to_west`` those at x or after. Then they use links along columns: ``to_south`` [Y] are those in
    any row up to y, ``to_north`` those in row y or after.
    Receiving ports are reached along the tile's row first: ``east_of`` [X] are those in columns after x,
    ``west_of`` those before. Then along the port's column: ``south_of`` [X, Y] are those in column x in rows
    after y, ``north_of`` those before.
    """

    to_east: Array
    to_west: Array
    to_south: Array
    to_north: Array
    east_of: Array
    west_of: Array
    south_of: Array
    north_of: Array


@called
def clear(flows: Flows) -> None:
    """Forget all transfers: no bits anywhere."""
    flows.east[:] = 0
    flows.west[:] = 0
    flows.south[:] = 0
    flows.north[:] = 0
    flows.out[:] = 0


@called
def load(mesh: Mesh, flows: Flows, span: Span, size: Int) -> None:
    """Note ``size`` bits from DRAM to a group of tiles.

    ``span``: the first and last column with tiles of the group; the mesh's ``lowest`` and ``highest`` say
    which rows of each column are reached.
    """
    flows.east[span[1]] += size
    flows.west[span[0]] += size
    for column in range(span[0], span[1] + 1):
        # A column between the first and the last may have no tile of the group; the tree only passes through.
        if mesh.highest[column] >= 0:
            flows.south[column, mesh.highest[column]] += size
            flows.north[column, mesh.lowest[column]] += size


@called
def add_to_links(mesh: Mesh, flows: Flows, ports: PortCounts) -> None:
    """Add all flows, in bits, to the mesh's links, in bits times ports."""
    _along_rows(flows, ports, mesh.links)
    _along_columns(flows, ports, mesh.links)


@inlined
def _link(rows: Int, column: Int, row: Int, direction: Int) -> Int:
    """The index of the link that leaves tile (column, row) of a mesh with so many ``rows``."""
    return (column * rows + row) * 4 + direction


@inlined
def _along_rows(flows: Flows, ports: PortCounts, links: Array) -> None:
    """Links to the east and west: first what comes from DRAM, then what goes to it.

    ``further`` is the running sum of bits that go beyond the column at hand.
    """
    columns, rows = flows.out.shape
    further: Int = 0
    # From the east inwards, so that ``further`` has all bits whose last column is beyond this one.
    for column in range(columns - 2, -1, -1):
        further += flows.east[column + 1]
        for row in range(rows):
            links[_link(rows, column, row, EAST)] += further * ports.to_east[column, row]
    further = 0
    for column in range(1, columns):
        further += flows.west[column - 1]
        for row in range(rows):
            links[_link(rows, column, row, WEST)] += further * ports.to_west[column, row]
    for row in range(rows):
        further = 0
        for column in range(columns - 1):
            further += flows.out[column, row]
            links[_link(rows, column, row, EAST)] += further * ports.east_of[column]
        further = 0
        for column in range(columns - 1, 0, -1):
            further += flows.out[column, row]
            links[_link(rows, column, row, WEST)] += further * ports.west_of[column]


@inlined
def _along_columns(flows: Flows, ports: PortCounts, links: Array) -> None:
    """Links to the south and north: first what comes from DRAM, then what goes to it.

    From DRAM, ``further`` is the running sum of bits of a column that go beyond the row at hand. What goes to
    DRAM has reached the port's column by then, so ``leaving`` sums whole rows of tiles: a link to the south
    carries what all rows above it send to each port below it.
    """
    columns, rows = flows.out.shape
    for column in range(columns):
        further: Int = 0
        for row in range(rows - 2, -1, -1):
            further += flows.south[column, row + 1]
            links[_link(rows, column, row, SOUTH)] += further * ports.to_south[row]
        further = 0
        for row in range(1, rows):
            further += flows.north[column, row - 1]
            links[_link(rows, column, row, NORTH)] += further * ports.to_north[row]
    leaving: Int = 0
    for row in range(rows - 1):
        for column in range(columns):
            leaving += flows.out[column, row]
        for column in range(columns):
            links[_link(rows, column, row, SOUTH)] += leaving * ports.south_of[column, row]
    leaving = 0
    for row in range(rows - 1, 0, -1):
        for column in range(columns):
            leaving += flows.out[column, row]
        for column in range(columns):
            links[_link(rows, column, row, NORTH)] += leaving * ports.north_of[column, row]
