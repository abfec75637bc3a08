"""Transfers on the mesh, compiled: XY routing, along the source's row first; a multicast is one tree."""

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


class Mesh(NamedTuple):
    """Positions of tiles and DRAM ports, and room for what a multicast reaches and for the bytes on links.

    ``along_x`` [ports + 1, X, X] and ``along_y``: hops from all ports to the places from the first to the
    last; row r is for r bytes shared among the ports by floored prefix sums, the last row for a byte from
    each; ``to_tile`` [ports + 1, tiles] is that for single tiles. ``lowest``, ``highest`` [X]: the rows
    reached in a column, highest -1 for none. ``links`` [X * Y * 4] or [0] when nobody asks: bytes a link.
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
    """Links of the tree from tile (x, y) to all that are reached."""
    hops = max(x, span[1]) - min(x, span[0])
    for column in range(span[0], span[1] + 1):
        if mesh.highest[column] >= 0:
            hops += max(y, mesh.highest[column]) - min(y, mesh.lowest[column])
    return hops


@called
def route(mesh: Mesh, x: Int, y: Int, span: Span, size: Int, links: Array) -> None:
    """Add ``size`` to every link of that tree."""
    rows = mesh.along_y.shape[1]
    for column in range(span[0], x):
        links[((column + 1) * rows + y) * 4 + WEST] += size
    for column in range(x, span[1]):
        links[(column * rows + y) * 4 + EAST] += size
    for column in range(span[0], span[1] + 1):
        if mesh.highest[column] >= 0:
            for row in range(mesh.lowest[column], y):
                links[(column * rows + row + 1) * 4 + NORTH] += size
            for row in range(y, mesh.highest[column]):
                links[(column * rows + row) * 4 + SOUTH] += size


@called
def port_hops(mesh: Mesh, size: Int, span: Span) -> Int:
    """Hops times bytes of ``size`` bytes that all ports share, to all that are reached."""
    ports = mesh.port_x.shape[0]
    each, rest = size // ports, size % ports
    hops = each * mesh.along_x[ports, span[0], span[1]] + mesh.along_x[rest, span[0], span[1]]
    for column in range(span[0], span[1] + 1):
        if mesh.highest[column] >= 0:
            low, high = mesh.lowest[column], mesh.highest[column]
            hops += each * mesh.along_y[ports, low, high] + mesh.along_y[rest, low, high]
    return hops


@inlined
def port_distance(mesh: Mesh, span: Span) -> Int:
    """Links from all ports, together, to all that are reached."""
    ports = mesh.port_x.shape[0]
    hops = mesh.along_x[ports, span[0], span[1]]
    for column in range(span[0], span[1] + 1):
        if mesh.highest[column] >= 0:
            hops += mesh.along_y[ports, mesh.lowest[column], mesh.highest[column]]
    return hops


@inlined
def tile_hops(mesh: Mesh, size: Int, tile: Int) -> Int:
    """Hops times bytes of ``size`` bytes that all ports share, to or from one tile."""
    ports = mesh.port_x.shape[0]
    return size // ports * mesh.to_tile[ports, tile] + mesh.to_tile[size % ports, tile]


@inlined
def port_share(mesh: Mesh, size: Int, port: Int) -> Int:
    """What one port carries of ``size`` bytes."""
    ports = mesh.port_x.shape[0]
    return size * (port + 1) // ports - size * port // ports
