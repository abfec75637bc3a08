"""The fewest links of transfers to tiles of a leaf, whatever its placement; compiled.

A placement order moves parts among the tiles of a leaf, and never beyond them. So what is known of these
tiles bounds all placements from below:

- data of another tile goes at least to the nearest tile of the leaf (``Nearness.nearest``);
- trees to n tiles of the leaf have no fewer links than trees to the best n tiles (:func:`least_hops`).
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.leaf.kernels.leaf_values import COLUMN, KernelLeaf, Nearness, Workspace
from costmodel.schedule.leaf.kernels.producers_kernel import their_tile
from costmodel.schedule.leaf.kernels.ranges_kernel import ANY

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


@called
def find_nearness(workspace: Workspace, leaf: KernelLeaf, tiles: Int) -> None:
    """Fill in where a leaf on so many ``tiles`` lies, and what is near it."""
    mesh, nearness, first = workspace.mesh, workspace.nearness, leaf.tile
    ports: Int = mesh.port_x.shape[0]
    nearness.ways[:] = 0
    west, east, north, south = mesh.x[first], mesh.x[first], mesh.y[first], mesh.y[first]
    nearest = nearness.nearest
    nearest[:] = nearest.shape[0] + nearest.shape[1]
    for tile in range(first, first + tiles):
        x, y = mesh.x[tile], mesh.y[tile]
        west, east, north, south = min(west, x), max(east, x), min(north, y), max(south, y)
        nearest[x, y] = 0
        nearness.ways[0] += mesh.to_tile[ports, tile]
        nearness.ways[1] = max(nearness.ways[1], mesh.to_tile[ports, tile])
    nearness.columns[0], nearness.columns[1] = west, east
    nearness.rows[0], nearness.rows[1] = north, south
    nearness.links[:] = 0
    _find_nearest(nearest)
    for number in range(leaf.streams.shape[0]):
        if leaf.streams[number, COLUMN.direct]:
            nearness.producers[number] = _nearest_part(workspace, leaf.streams[number])


@inlined
def _find_nearest(nearest: Array) -> None:
    """Fill in the links from each tile to the nearest one that has 0; all others have more than any way.

    The way to it leaves through a neighbour, which has a link less. Neighbours to the north and west are
    looked at in the first pass, those to the south and east in the second, which begins at the other end.
    """
    columns, rows = nearest.shape
    for x in range(columns):
        for y in range(rows):
            if x > 0:
                nearest[x, y] = min(nearest[x, y], nearest[x - 1, y] + 1)
            if y > 0:
                nearest[x, y] = min(nearest[x, y], nearest[x, y - 1] + 1)
    for x in range(columns - 1, -1, -1):
        for y in range(rows - 1, -1, -1):
            if x < columns - 1:
                nearest[x, y] = min(nearest[x, y], nearest[x + 1, y] + 1)
            if y < rows - 1:
                nearest[x, y] = min(nearest[x, y], nearest[x, y + 1] + 1)


@inlined
def _nearest_part(workspace: Workspace, stream: Array) -> Int:
    """Links from the nearest tile of a stream's producer to the leaf."""
    mesh, nearest = workspace.mesh, workspace.nearness.nearest
    links: Int = ANY
    for k in range(stream[COLUMN.parts_k]):
        for b in range(stream[COLUMN.parts_b]):
            for h in range(stream[COLUMN.parts_h]):
                for w in range(stream[COLUMN.parts_w]):
                    tile = their_tile(stream, (k, b, h, w))
                    links = min(links, nearest[mesh.x[tile], mesh.y[tile]])
    return links


@called
def least_from_ports(workspace: Workspace, tiles: Int) -> Int:
    """Links that the trees of all ports to so many tiles of the leaf have at least, all trees together."""
    nearness = workspace.nearness
    if nearness.links[tiles] == 0:
        # each port sends one bit
        ports: Int = workspace.mesh.port_x.shape[0]
        west, east = nearness.ports_west, nearness.ports_east
        above, below = nearness.ports_above, nearness.ports_below
        nearness.links[tiles] = least_hops(nearness, ports, west, east, above, below, tiles)
    return nearness.links[tiles]


@called
def least_hops(
    nearness: Nearness,
    total: Int,
    from_west: Array,
    from_east: Array,
    from_above: Array,
    from_below: Array,
    tiles: Int,
) -> Int:
    """Hops times bits that the trees of some senders to so many tiles of the leaf take at least.

    ``total`` and the arrays are what :func:`.senders_kernel.add_distances` has found of the senders, so that
    :func:`.senders_kernel.hops_of_senders` is what is bounded here: hops along rows to columns from a to b,
    and in each column that is reached hops to rows from c to d.

    Let n tiles be in m columns, with the rows from c to d of a column h = d - c + 1. All h together are no
    less than n. The hops along rows are at least those to the best m columns side by side (W), those in a
    column at least those to its best h rows (H). Both grow with the number of columns or rows. Neither the
    columns nor the heights are known, but H is convex in h: it is the least sum of a convex function of d and
    a convex function of c for a given d - c. So for a given m the sum of all H(h) is least where the heights
    are n / m each, as nearly as whole numbers can be. The bound is the least of these sums over all m.
    """
    if tiles == 1:
        return _least(0, from_west, from_east, nearness.columns, 1) + _least(
            0, from_above, from_below, nearness.rows, 1
        )
    columns = nearness.columns[1] + 1 - nearness.columns[0]
    rows = nearness.rows[1] + 1 - nearness.rows[0]
    least: Int = ANY
    for reached in range((tiles + rows - 1) // rows, min(columns, tiles) + 1):
        height, taller = tiles // reached, tiles % reached
        hops = _least(total, from_west, from_east, nearness.columns, reached)
        hops += (reached - taller) * _least(total, from_above, from_below, nearness.rows, height)
        if taller > 0:
            hops += taller * _least(total, from_above, from_below, nearness.rows, height + 1)
        least = min(least, hops)
    return least


@inlined
def _least(total: Int, before: Array, after: Array, within: Array, length: Int) -> Int:
    """Hops times bits along one axis to the best ``length`` indices side by side of those ``within``."""
    least: Int = ANY
    for first in range(within[0], within[1] + 2 - length):
        least = min(least, before[first] + after[first + length - 1])
    return total * (length - 1) + least
