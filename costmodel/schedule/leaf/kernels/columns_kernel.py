"""Links along columns of the mesh, and what a placed leaf loads them with; compiled.

Of placements whose hops do not rule them out, most have a link that carries too much. Along columns the loads
of links follow from the same tables as hops do, without a look at single senders. So they are counted first,
and what goes along rows is counted for the few placements that are left. In a column that is reached from row
``low`` to ``high``, a link to the south of row y < high carries the bits of all senders up to row y, and a
link to the north of row y > low those of all senders from row y on. Both are differences of neighbouring
sums of :func:`.senders_kernel.add_distances`::

    from_above[y]       =  sum of bits in rows r < y, each times y - r
    from_above[y + 1]   =  the same, and once more for each row up to y
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.leaf.kernels.equal_parts_kernel import equal_parts
from costmodel.schedule.leaf.kernels.leaf_values import COLUMN, LeafPlacement, Workspace
from costmodel.schedule.leaf.kernels.placement_kernel import reach, tile_of
from costmodel.schedule.leaf.kernels.producers_kernel import groups_of
from costmodel.schedule.leaf.kernels.ranges_kernel import COUNTS, Four, Range
from costmodel.schedule.mesh.mesh_kernel import NORTH, SOUTH

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Truth = Any
"""A truth value of compiled code."""


@called
def column_above(workspace: Workspace, placed: LeafPlacement, most: Int) -> Truth:
    """Whether some link along a column carries more than ``most`` bits times ports.

    The mesh's links have the loads of DRAM's streams, and the tables of all direct streams are filled. Loads
    only grow, so the count ends with the first link that is above.
    """
    mesh, columns = workspace.mesh, workspace.columns
    rows = columns.shape[1]
    for x in range(columns.shape[0]):
        for y in range(rows):
            columns[x, y, 0] = mesh.links[(x * rows + y) * 4 + NORTH]
            columns[x, y, 1] = mesh.links[(x * rows + y) * 4 + SOUTH]
            if columns[x, y, 0] > most or columns[x, y, 1] > most:
                return True
    for number in range(placed.leaf.streams.shape[0]):
        if placed.leaf.streams[number, COLUMN.direct] and _receive(workspace, placed, number, most):
            return True
    return False


@inlined
def _receive(workspace: Workspace, placed: LeafPlacement, number: Int, most: Int) -> Truth:
    """Add what the tiles of one producer send; whether some link is above ``most`` then."""
    kind = placed.leaf.streams[number, COLUMN.kind]
    groups, each = groups_of(workspace, placed, number)
    group: Int = 0
    for k in range(groups[0]):
        for b in range(groups[1]):
            for h in range(groups[2]):
                for w in range(groups[3]):
                    if _receive_group(workspace, placed, (kind, k, b, h, w), each, number, group) > most:
                        return True
                    group += 1
    return False


@inlined
def _receive_group(
    workspace: Workspace, placed: LeafPlacement, first: Range, each: Four, number: Int, group: Int
) -> Int:
    """Add a group of ranges with the same senders; the result is the largest load of the links that it
    uses.
    """
    mesh, tables = workspace.mesh, workspace.tables
    ports: Int = mesh.port_x.shape[0]
    equal = equal_parts(workspace, placed.leaf, number)
    single = equal.counts[COUNTS.most] == 1
    index: Int = group * each[0] * each[1] * each[2] * each[3] - 1
    most: Int = 0
    for k in range(first[1], first[1] + each[0]):
        for b in range(first[2], first[2] + each[1]):
            for h in range(first[3], first[3] + each[2]):
                for w in range(first[4], first[4] + each[3]):
                    index += 1
                    times = ports * tables.sizes[number, index]
                    if times == 0:
                        continue
                    if single:
                        tile = tile_of(placed, k, b, h, w)
                        x, y = mesh.x[tile], mesh.y[tile]
                        most = max(most, _add(workspace, number, group, times, x, y, y))
                        continue
                    span = reach(workspace, placed, equal, (first[0], k, b, h, w))
                    for column in range(span[0], span[1] + 1):
                        if mesh.highest[column] >= 0:
                            low, high = mesh.lowest[column], mesh.highest[column]
                            most = max(most, _add(workspace, number, group, times, column, low, high))
    return most


@inlined
def _add(workspace: Workspace, number: Int, group: Int, times: Int, x: Int, low: Int, high: Int) -> Int:
    """Add to column ``x``, of which rows from ``low`` to ``high`` are reached, so many ``times`` what the
    senders of a group have. The result is the largest load of the links that are used.
    """
    tables, columns = workspace.tables, workspace.columns
    alone = tables.alone[number, group]
    most: Int = 0
    if alone >= 0:
        row, load = workspace.mesh.y[alone], times * tables.total[number, group]
        for y in range(low + 1, row + 1):
            columns[x, y, 0] += load
            most = max(most, columns[x, y, 0])
        for y in range(row, high):
            columns[x, y, 1] += load
            most = max(most, columns[x, y, 1])
        return most
    above, below = tables.from_above[number, group], tables.from_below[number, group]
    for y in range(low + 1, columns.shape[1]):
        columns[x, y, 0] += times * (below[y - 1] - below[y])
        most = max(most, columns[x, y, 0])
    for y in range(high):
        columns[x, y, 1] += times * (above[y + 1] - above[y])
        most = max(most, columns[x, y, 1])
    return most
