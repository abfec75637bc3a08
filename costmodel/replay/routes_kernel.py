"""Which links a message crosses, compiled.

A message goes along the row of where it comes from first, then along columns (XY routing). A message to
several tiles is one tree: each link carries it once. The link that leaves tile (x, y) in a direction is
number (x * rows + y) * 4 + direction.

All DRAM transfers are divided into equal parts, one for each port. A bit cannot be divided, so links are
counted in *port bits*: bits times the number of ports. In this unit the part of a port is the size of the
whole message, a whole number, and what a tile sends weighs as many port bits a bit as there are ports.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.compiled import entry, inlined

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""

EAST, NORTH, WEST, SOUTH = 0, 1, 2, 3


class Positions(NamedTuple):
    """Columns ``x`` and rows ``y`` of tiles [tiles], and ``port_x``, ``port_y`` of ports [ports].

    ``lowest``, ``highest``: work space, as long as the longer side of the mesh.
    """

    x: Array
    y: Array
    port_x: Array
    port_y: Array
    lowest: Array
    highest: Array


@entry
def add_route(positions: Positions, rows: Int, sources: Array, targets: Array, weights: Array) -> Int:
    """Add to ``weights`` [links] the port bits that each bit of a message puts on every link.

    ``sources`` are empty for a message from DRAM, ``targets`` for one to DRAM. Returns the links of the
    longest way from a source to a target.
    """
    ports: Int = positions.port_x.shape[0]
    longest: Int = 0
    if sources.shape[0] == 0:
        for port in range(ports):
            way = _spread(
                positions, rows, (positions.port_x[port], positions.port_y[port], 1), targets, weights
            )
            longest = max(longest, way)
        return longest
    if targets.shape[0] == 0:
        for port in range(ports):
            way = _merged(
                positions, rows, sources, (positions.port_x[port], positions.port_y[port], 1), weights
            )
            longest = max(longest, way)
        return longest
    if sources.shape[0] > 1:
        target = targets[0]
        return _merged(positions, rows, sources, (positions.x[target], positions.y[target], ports), weights)
    source = sources[0]
    return _spread(positions, rows, (positions.x[source], positions.y[source], ports), targets, weights)


@inlined
def _spread(
    positions: Positions, rows: Int, start: tuple[Int, Int, Int], targets: Array, weights: Array
) -> Int:
    """The tree from (column, row) with so much weight to all targets; the links of its longest way.

    ``lowest`` and ``highest`` are the rows that the tree reaches in each column.
    """
    x, y, weight = start
    positions.lowest[:] = y
    positions.highest[:] = y
    west, east, longest = x, x, 0
    for number in range(targets.shape[0]):
        column, row = positions.x[targets[number]], positions.y[targets[number]]
        west, east = min(west, column), max(east, column)
        positions.lowest[column] = min(positions.lowest[column], row)
        positions.highest[column] = max(positions.highest[column], row)
        longest = max(longest, abs(column - x) + abs(row - y))
    # the trunk along the row of the source, then a branch up and down each column that has a target
    for column in range(west, x):
        weights[((column + 1) * rows + y) * 4 + WEST] += weight
    for column in range(x, east):
        weights[(column * rows + y) * 4 + EAST] += weight
    for column in range(west, east + 1):
        for row in range(positions.lowest[column], y):
            weights[(column * rows + row + 1) * 4 + NORTH] += weight
        for row in range(y, positions.highest[column]):
            weights[(column * rows + row) * 4 + SOUTH] += weight
    return longest


@inlined
def _merged(
    positions: Positions, rows: Int, sources: Array, end: tuple[Int, Int, Int], weights: Array
) -> Int:
    """The ways of all sources to (column, row) with so much weight, where a link carries the sum once; the
    links of the longest.

    Each source goes along its row to the end's column, then along that column. ``lowest`` and ``highest``
    are the columns from which a row sends: between them and the end's column the row's links are used.
    """
    x, y, weight = end
    positions.lowest[:] = x
    positions.highest[:] = x
    north, south, longest = y, y, 0
    for number in range(sources.shape[0]):
        column, row = positions.x[sources[number]], positions.y[sources[number]]
        positions.lowest[row] = min(positions.lowest[row], column)
        positions.highest[row] = max(positions.highest[row], column)
        north, south = min(north, row), max(south, row)
        longest = max(longest, abs(column - x) + abs(row - y))
    # Partial sums of the same outputs are added where their ways meet: a link that several sources use
    # carries one message. So every row sends from its farthest sources inwards, and the end's column takes
    # it all, from the farthest rows inwards.
    for row in range(north, south + 1):
        for column in range(positions.lowest[row], x):
            weights[(column * rows + row) * 4 + EAST] += weight
        for column in range(x, positions.highest[row]):
            weights[((column + 1) * rows + row) * 4 + WEST] += weight
    for row in range(north, y):
        weights[(x * rows + row) * 4 + SOUTH] += weight
    for row in range(y, south):
        weights[(x * rows + row + 1) * 4 + NORTH] += weight
    return longest
