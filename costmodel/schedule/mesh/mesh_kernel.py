"""Trees on the mesh, compiled: XY routing, along the source's row first; a multicast is one tree.

Rows are numbered from north to south, columns from west to east. A multicast is described by its ``span``
(the first and last column that it reaches) and, in the mesh, by the lowest and highest row that it reaches in
each column.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.compiled import called, inlined

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Span = tuple[Int, Int]
"""First and last column that a multicast reaches."""

EAST, NORTH, WEST, SOUTH = 0, 1, 2, 3
"""The link that leaves tile (x, y) in a direction is number (x * rows + y) * 4 + direction."""


class Mesh(NamedTuple):
    """A chip's mesh as arrays: where tiles and ports are, hop counts made once, and the state of a count.

    ``x``, ``y`` [tiles] and ``port_x``, ``port_y`` [ports]: columns and rows.
    ``along_x`` [ports + 1, X, X]: links along a row from all ports to every column from the first index to
    the last; ``along_y`` [ports + 1, Y, Y] the same along columns; ``to_tile`` [ports + 1, tiles] to one
    tile. Their last row is for one unit of data from each port. Row r < ports is for r units in all, of which
    port p sends floor(r (p + 1) / ports) - floor(r p / ports): what is left when data does not divide by the
    ports. The unit is the caller's: the chip model counts bits times ports, SET's count bytes.
    ``lowest``, ``highest`` [X]: the rows that the multicast at hand reaches in each column; ``highest`` is -1
    where it reaches none. ``links`` [X * Y * 4]: units on each link, or [0] where nobody asks for them.
    """

    x: Array
    y: Array
    port_x: Array
    port_y: Array
    along_x: Array
    along_y: Array
    to_tile: Array
    lowest: Array
    highest: Array
    links: Array


@inlined
def distance(mesh: Mesh, x: Int, y: Int, span: Span) -> Int:
    """Links of the tree from tile (x, y) to all tiles that the multicast reaches.

    Along the row it spans from the source to the farthest columns, then in each column from the source's row
    to the farthest rows.
    """
    hops = max(x, span[1]) - min(x, span[0])
    for column in range(span[0], span[1] + 1):
        if mesh.highest[column] >= 0:
            hops += max(y, mesh.highest[column]) - min(y, mesh.lowest[column])
    return hops


@called
def route(mesh: Mesh, x: Int, y: Int, span: Span, size: Int, links: Array) -> None:
    """Add ``size`` to every link of the tree that :func:`distance` measures.

    A link belongs to the tile that it leaves: to the west from column + 1, to the north from row + 1.
    """
    rows = mesh.along_y.shape[1]
    route_along_row(mesh, x, y, span, size, links)
    for column in range(span[0], span[1] + 1):
        if mesh.highest[column] >= 0:
            for row in range(mesh.lowest[column], y):
                links[(column * rows + row + 1) * 4 + NORTH] += size
            for row in range(y, mesh.highest[column]):
                links[(column * rows + row) * 4 + SOUTH] += size


@inlined
def route_along_row(mesh: Mesh, x: Int, y: Int, span: Span, size: Int, links: Array) -> None:
    """The links of :func:`route` in the row of the source."""
    rows = mesh.along_y.shape[1]
    for column in range(span[0], x):
        links[((column + 1) * rows + y) * 4 + WEST] += size
    for column in range(x, span[1]):
        links[(column * rows + y) * 4 + EAST] += size


@called
def port_hops(mesh: Mesh, size: Int, span: Span) -> Int:
    """Hops times units of data, of ``size`` units that the ports send together to all tiles reached."""
    ports = mesh.port_x.shape[0]
    # Every port sends ``each`` units and some ports one more. Which ones these are follows from ``rest``, so
    # the links of their trees are in a table, by that number.
    each, rest = size // ports, size % ports
    hops = each * mesh.along_x[ports, span[0], span[1]] + mesh.along_x[rest, span[0], span[1]]
    for column in range(span[0], span[1] + 1):
        if mesh.highest[column] >= 0:
            low, high = mesh.lowest[column], mesh.highest[column]
            hops += each * mesh.along_y[ports, low, high] + mesh.along_y[rest, low, high]
    return hops


@inlined
def port_distance(mesh: Mesh, span: Span) -> Int:
    """Links of the trees from all ports, together, to all tiles that are reached."""
    ports = mesh.port_x.shape[0]
    hops = mesh.along_x[ports, span[0], span[1]]
    for column in range(span[0], span[1] + 1):
        if mesh.highest[column] >= 0:
            hops += mesh.along_y[ports, mesh.lowest[column], mesh.highest[column]]
    return hops


@inlined
def tile_hops(mesh: Mesh, size: Int, tile: Int) -> Int:
    """Hops times units of data, of ``size`` units between one tile and all ports together."""
    ports = mesh.port_x.shape[0]
    return size // ports * mesh.to_tile[ports, tile] + mesh.to_tile[size % ports, tile]


@inlined
def port_units(mesh: Mesh, size: Int, port: Int) -> Int:
    """The units of data that one port sends or takes of ``size`` units, divided evenly among all ports."""
    ports = mesh.port_x.shape[0]
    return size * (port + 1) // ports - size * port // ports
