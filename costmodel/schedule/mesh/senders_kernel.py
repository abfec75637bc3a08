"""Many tiles that send to the same tiles: their trees counted together; compiled.

Tiles of a producer often hold a piece each of a range that many tiles need. All their trees go along the
senders' rows to the same columns, and along these to the same rows. What such a tree has in one column
depends on the sender's row only, so sums of the senders' bits by row serve for all trees at once. With
``bits`` of the senders in each row, a column that is reached from ``lowest`` to ``highest``:

    row   bits      reached
     0      5                  the 5 bits go down to row 3: 3 links
     1      0          r
     2      7          |       the 7 bits go up to row 1 and down to row 3: 2 links
     3      0          r
     4      2                  the 2 bits go up to row 1: 3 links

    hops * bits = all bits * (highest - lowest) + bits above, each times its distance to lowest,
                   + bits below, each times its distance to highest
                 = 14 * 2 + 5 * 1 + 2 * 1 = 35

Along the rows it is the same with the first and the last column that is reached.

Several multicasts may have the same senders, each with the same part of what it sends: two leaves' samples,
each from all tiles that have a few of the producer's rows. Then the sums are made once, and a multicast costs
a look-up in each column. For loads of links, multicasts are sorted by how far they go, as transfers from DRAM
are (:mod:`costmodel.schedule.mesh.flows_kernel`), and a link to the south of row y in a column carries

    (bits of senders in rows up to y) * (multicasts whose last row in the column is below y)
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.mesh.mesh_kernel import EAST, NORTH, SOUTH, WEST, Mesh, Span

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


class Senders(NamedTuple):
    """Bits that tiles send, and the multicasts that they send them in.

    ``at`` [X, Y]: bits of each tile; ``by_column`` [X], ``by_row`` [Y]: their sums. ``east``, ``west`` [X]:
    multicasts by the last, or the first, column that they reach; ``south``, ``north`` [X, Y]: by the last, or
    the first, row that they reach in a column.
    """

    at: Array
    by_column: Array
    by_row: Array
    east: Array
    west: Array
    south: Array
    north: Array


@inlined
def no_senders(senders: Senders) -> None:
    """Forget all senders."""
    senders.at[:] = 0
    no_sums(senders)


@inlined
def no_sums(senders: Senders) -> None:
    """Forget the sums over all senders, where nobody asks for the bits of single ones afterwards."""
    senders.by_column[:] = 0
    senders.by_row[:] = 0


@inlined
def add_sender(senders: Senders, x: Int, y: Int, size: Int) -> None:
    """Note that the tile in column ``x`` and row ``y`` sends ``size`` bits."""
    senders.at[x, y] += size
    senders.by_column[x] += size
    senders.by_row[y] += size


@called
def add_distances(
    senders: Senders, from_west: Array, from_east: Array, from_above: Array, from_below: Array
) -> Int:
    """Fill in the bits times their distance, once all senders are known; the result is all their bits.

    ``from_west`` [X], ``from_east`` [X], ``from_above`` [Y], ``from_below`` [Y]: for each column or row the
    bits on that side of it, each times its distance.
    """
    _distances(senders.by_column, from_west, from_east)
    return _distances(senders.by_row, from_above, from_below)


@inlined
def _distances(bits: Array, before: Array, after: Array) -> Int:
    """Fill ``before`` and ``after`` with the bits on either side, each times its distance."""
    # ``passed``: bits of the indices passed so far; ``away``: these, times their distance to the one at hand
    passed, away = 0, 0
    for index in range(bits.shape[0]):
        before[index] = away
        passed += bits[index]
        away += passed
    total, passed, away = passed, 0, 0
    for index in range(bits.shape[0] - 1, -1, -1):
        after[index] = away
        passed += bits[index]
        away += passed
    return total


@inlined
def hops_of_senders(
    mesh: Mesh,
    total: Int,
    from_west: Array,
    from_east: Array,
    from_above: Array,
    from_below: Array,
    span: Span,
) -> Int:
    """Hops times bits of all trees together; ``span`` and the mesh say what they reach.

    ``total`` and the arrays are what :func:`add_distances` has found.
    """
    left, right = span
    hops = total * (right - left) + from_west[left] + from_east[right]
    for column in range(left, right + 1):
        low, high = mesh.lowest[column], mesh.highest[column]
        if high >= 0:
            hops += total * (high - low) + from_above[low] + from_below[high]
    return hops


@inlined
def hops_to_tile(
    from_west: Array, from_east: Array, from_above: Array, from_below: Array, x: Int, y: Int
) -> Int:
    """Hops times bits of all ways to one tile."""
    hops: Int = from_west[x] + from_east[x] + from_above[y] + from_below[y]
    return hops


@inlined
def no_multicasts(senders: Senders) -> None:
    """Forget what the senders send to."""
    senders.east[:] = 0
    senders.west[:] = 0
    senders.south[:] = 0
    senders.north[:] = 0


@inlined
def add_multicast(mesh: Mesh, senders: Senders, span: Span, times: Int) -> None:
    """Note that all senders send their bits, so many ``times``, to what ``span`` and the mesh say."""
    senders.east[span[1]] += times
    senders.west[span[0]] += times
    for column in range(span[0], span[1] + 1):
        if mesh.highest[column] >= 0:
            senders.south[column, mesh.highest[column]] += times
            senders.north[column, mesh.lowest[column]] += times


@called
def route_multicasts(senders: Senders, links: Array) -> None:
    """Add the bits of all multicasts to the links that they use."""
    columns, rows = senders.at.shape
    for y in range(rows):
        if senders.by_row[y] == 0:
            continue
        # the multicasts that go on beyond a column are all but those that end up to it
        beyond, bits = senders.east.sum(), 0
        for x in range(columns - 1):
            beyond -= senders.east[x]
            bits += senders.at[x, y]
            links[(x * rows + y) * 4 + EAST] += bits * beyond
        beyond, bits = senders.west.sum(), 0
        for x in range(columns - 1, 0, -1):
            beyond -= senders.west[x]
            bits += senders.at[x, y]
            links[(x * rows + y) * 4 + WEST] += bits * beyond
    for x in range(columns):
        beyond, bits = senders.south[x].sum(), 0
        if beyond == 0:
            continue
        for y in range(rows - 1):
            beyond -= senders.south[x, y]
            bits += senders.by_row[y]
            links[(x * rows + y) * 4 + SOUTH] += bits * beyond
        beyond, bits = senders.north[x].sum(), 0
        for y in range(rows - 1, 0, -1):
            beyond -= senders.north[x, y]
            bits += senders.by_row[y]
            links[(x * rows + y) * 4 + NORTH] += bits * beyond
