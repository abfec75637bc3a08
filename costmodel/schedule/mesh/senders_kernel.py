"""One multicast from many tiles: trees that reach the same tiles, counted together; compiled.

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
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.mesh.mesh_kernel import NORTH, SOUTH, Mesh, Span

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


class Senders(NamedTuple):
    """Bits of one range that tiles send, summed by column [X] and by row [Y] of the mesh.

    ``from_above`` [Y], ``from_below`` [Y]: scratch of :func:`hops_of_senders`, the bits of the rows
    above, or below, each times its distance.
    """

    by_column: Array
    by_row: Array
    from_above: Array
    from_below: Array


@inlined
def no_senders(senders: Senders) -> None:
    """Forget all senders."""
    senders.by_column[:] = 0
    senders.by_row[:] = 0


@inlined
def add_sender(senders: Senders, x: Int, y: Int, size: Int) -> None:
    """Note that the tile in column ``x`` and row ``y`` sends ``size`` bits."""
    senders.by_column[x] += size
    senders.by_row[y] += size


@called
def hops_of_senders(mesh: Mesh, senders: Senders, span: Span) -> Int:
    """Hops times bits of all trees together; ``span`` and the mesh say what they reach."""
    rows, total, hops = senders.by_row.shape[0], 0, 0
    for x in range(senders.by_column.shape[0]):
        total += senders.by_column[x]
        hops += senders.by_column[x] * (max(x, span[1]) - min(x, span[0]))
    # bits of rows that were passed, and these times their distance to the row at hand
    passed, away = 0, 0
    for row in range(rows):
        senders.from_above[row] = away
        passed += senders.by_row[row]
        away += passed
    passed, away = 0, 0
    for row in range(rows - 1, -1, -1):
        senders.from_below[row] = away
        passed += senders.by_row[row]
        away += passed
    for column in range(span[0], span[1] + 1):
        low, high = mesh.lowest[column], mesh.highest[column]
        if high >= 0:
            hops += total * (high - low) + senders.from_above[low] + senders.from_below[high]
    return hops


@called
def route_along_columns(mesh: Mesh, senders: Senders, span: Span, times: Int, links: Array) -> None:
    """Add the bits of all trees, so many ``times``, to the links along the columns that are reached.

    The link from a row to the next one to the south carries what the rows down to it send, if a tile further
    to the south is reached; those to the north are alike.
    """
    rows = senders.by_row.shape[0]
    passed = 0
    for row in range(rows - 1):
        passed += senders.by_row[row]
        for column in range(span[0], span[1] + 1):
            if row < mesh.highest[column]:
                links[(column * rows + row) * 4 + SOUTH] += times * passed
    passed = 0
    for row in range(rows - 1, 0, -1):
        passed += senders.by_row[row]
        for column in range(span[0], span[1] + 1):
            # an unreached column has its lowest row below all others
            if row > mesh.lowest[column]:
                links[(column * rows + row) * 4 + NORTH] += times * passed
