"""Transfers between DRAM and groups of tiles, as loads of the mesh's links.

The rules are those of ``flows_kernel.py``, for any groups of tiles in NumPy: DRAM's bits are spread evenly
over its ports. Bits from DRAM go in one tree from every port to all tiles of the group that needs them,
along the port's row, then along columns. Bits to DRAM go along the tile's row, then along the port's column;
those of one group are partial sums of the same outputs, and are added where their ways meet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.mesh.geometry import port_counts

Array = NDArray[Any]
EAST, NORTH, WEST, SOUTH = 0, 1, 2, 3


class Delivery(NamedTuple):
    """Bits of one tensor from DRAM, or to it.

    ``group`` [columns, rows]: the group that each tile in use belongs to. ``size`` [groups]: bits for each.
    """

    group: Array
    size: Array
    to_dram: bool


class _Reach(NamedTuple):
    """How far groups extend over the tiles, line by line; lines are columns, or rows for the transposed mesh.

    ``first``, ``last`` [groups]: the first and last line with a tile of the group. The rest has one entry for
    each group and each line that it is in, [pairs]: ``line``, the ``low``est and ``high``est index of the
    group's tiles within it, and ``size``, the group's bits.
    """

    first: Array
    last: Array
    line: Array
    low: Array
    high: Array
    size: Array


def link_loads(chip: Chip, deliveries: Iterable[Delivery]) -> Array:
    """Bits times DRAM ports on the links [X, Y, 4] of every tile to the east, north, west and south."""
    ports = port_counts(chip)
    loads = np.zeros((chip.columns, chip.rows, 4), np.int64)
    for delivery in deliveries:
        (_add_merging if delivery.to_dram else _add_spreading)(loads, ports, delivery)
    return loads


def _add_spreading(loads: Array, ports: Any, delivery: Delivery) -> None:
    """Data from DRAM: from every port along its row to the group's columns, then along these.

    A link carries the bits of all groups that reach further than it, once for each port on its other side.
    Running sums give these bits.
    """
    columns, rows, _ = loads.shape
    reach = _reach(delivery)
    first, last = (_sums(lines, delivery.size, columns) for lines in (reach.first, reach.last))
    loads[:, :, EAST] += (_from(last) - last)[:, None] * ports.to_east
    loads[:, :, WEST] += (_up_to(first) - first)[:, None] * ports.to_west
    low, high = (_sums_of_lines(reach, ends, (columns, rows)) for ends in (reach.low, reach.high))
    loads[:, :, SOUTH] += (_from(high) - high) * ports.to_south
    loads[:, :, NORTH] += (_up_to(low) - low) * ports.to_north


def _add_merging(loads: Array, ports: Any, delivery: Delivery) -> None:
    """Data to DRAM: in every row of the group to the port's column, then along it, adding up on the way.

    The tile of a row that is farthest from the port sends first; the other tiles of the group add to that, so
    the row's links carry the group's bits once.
    """
    columns, rows, _ = loads.shape
    # Data to DRAM goes along rows first, data from DRAM along the port's row and then columns: so here lines
    # are rows.
    reach = _reach(delivery._replace(group=delivery.group.T))
    low, high = (_sums_of_lines(reach, ends, (rows, columns)) for ends in (reach.low, reach.high))
    loads[:, :, EAST] += (_up_to(low) * ports.east_of).T
    loads[:, :, WEST] += (_from(high) * ports.west_of).T
    first, last = (_sums(lines, delivery.size, rows) for lines in (reach.first, reach.last))
    loads[:, :, SOUTH] += _up_to(first) * ports.south_of
    loads[:, :, NORTH] += _from(last) * ports.north_of


def _reach(delivery: Delivery) -> _Reach:
    """How far the groups of a delivery extend; lines are the first axis of ``group``."""
    lines, length = delivery.group.shape
    groups = len(delivery.size)
    low, high = np.full((groups, lines), length), np.full((groups, lines), -1)
    line, index = np.indices((lines, length))
    # Unbuffered, as several tiles of a group in one line write to the same entry.
    np.minimum.at(low, (delivery.group, line), index)
    np.maximum.at(high, (delivery.group, line), index)
    found = high >= 0
    group, line = np.nonzero(found)
    # ``argmax`` of booleans is the first that is true; on the reversed array it is the last.
    first, last = found.argmax(axis=1), lines - 1 - found[:, ::-1].argmax(axis=1)
    return _Reach(first, last, line, low[found], high[found], delivery.size[group])


def _sums(index: Array, size: Array, length: int) -> Array:
    """The sum of ``size`` for every value of ``index`` below ``length``."""
    sums = np.zeros(length, np.int64)
    np.add.at(sums, index, size)
    return sums


def _sums_of_lines(reach: _Reach, index: Array, shape: tuple[int, int]) -> Array:
    """Bits of the given ``shape``, summed by line and by ``index`` [pairs] within it."""
    return _sums(reach.line * shape[1] + index, reach.size, shape[0] * shape[1]).reshape(shape)


def _up_to(sums: Array) -> Array:
    """Running sums from the start: all that is at an index or before it, along the last axis."""
    return np.cumsum(sums, axis=-1)


def _from(sums: Array) -> Array:
    """Running sums from the end: all that is at an index or after it, along the last axis."""
    return np.cumsum(sums[..., ::-1], axis=-1)[..., ::-1]
