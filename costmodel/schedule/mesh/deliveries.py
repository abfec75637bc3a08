"""Data between DRAM and groups of tiles as loads of the mesh's links, as the compiled leaves count it.

DRAM's bytes are spread evenly over its ports. Bytes from DRAM go in one tree from every port to all tiles of
the group that needs them: along the port's row, then along columns. Bytes to DRAM go along the tile's row,
then along the port's column; those of one group are partial sums, added where their ways meet.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.leaf.workspace import port_counts

Array = NDArray[Any]
EAST, NORTH, WEST, SOUTH = 0, 1, 2, 3


class Delivery(NamedTuple):
    """``group`` [columns, rows]: the group of each tile in use; ``size`` [groups]: bytes from or to each."""

    group: Array
    size: Array
    to_dram: bool


class _Reach(NamedTuple):
    """Where groups are in a field of lines of places.

    ``first``, ``last`` [groups]: their lines. ``line``, ``low``, ``high``, ``size`` [pairs], for each group
    and line that it is in: the line, the group's first and last place there, its bytes.
    """

    first: Array
    last: Array
    line: Array
    low: Array
    high: Array
    size: Array


def link_loads(chip: Chip, deliveries: Iterable[Delivery]) -> Array:
    """Bytes times DRAM ports on the links [X, Y, 4] from every tile to the east, north, west and south."""
    ports = port_counts(chip)
    loads = np.zeros((chip.columns, chip.rows, 4), np.int64)
    for delivery in deliveries:
        (_add_merging if delivery.to_dram else _add_spreading)(loads, ports, delivery)
    return loads


def _add_spreading(loads: Array, ports: Any, delivery: Delivery) -> None:
    """From every port along its row to the group's columns, then along these."""
    columns, rows, _ = loads.shape
    reach = _reach(delivery)
    first, last = (_sums(lines, delivery.size, columns) for lines in (reach.first, reach.last))
    loads[:, :, EAST] += (_from(last) - last)[:, None] * ports.to_east
    loads[:, :, WEST] += (_up_to(first) - first)[:, None] * ports.to_west
    low, high = (_sums_of_lines(reach, places, (columns, rows)) for places in (reach.low, reach.high))
    loads[:, :, SOUTH] += (_from(high) - high) * ports.to_south
    loads[:, :, NORTH] += (_up_to(low) - low) * ports.to_north


def _add_merging(loads: Array, ports: Any, delivery: Delivery) -> None:
    """In every row of the group to the port's column, then along it."""
    columns, rows, _ = loads.shape
    reach = _reach(delivery._replace(group=delivery.group.T))
    low, high = (_sums_of_lines(reach, places, (rows, columns)) for places in (reach.low, reach.high))
    loads[:, :, EAST] += (_up_to(low) * ports.east_of).T
    loads[:, :, WEST] += (_from(high) * ports.west_of).T
    first, last = (_sums(lines, delivery.size, rows) for lines in (reach.first, reach.last))
    loads[:, :, SOUTH] += _up_to(first) * ports.south_of
    loads[:, :, NORTH] += _from(last) * ports.north_of


def _reach(delivery: Delivery) -> _Reach:
    """Where the groups of a delivery are; lines are the first axis."""
    lines, places = delivery.group.shape
    groups = len(delivery.size)
    low, high = np.full((groups, lines), places), np.full((groups, lines), -1)
    line, place = np.indices((lines, places))
    np.minimum.at(low, (delivery.group, line), place)
    np.maximum.at(high, (delivery.group, line), place)
    found = high >= 0
    group, line = np.nonzero(found)
    first, last = found.argmax(axis=1), lines - 1 - found[:, ::-1].argmax(axis=1)
    return _Reach(first, last, line, low[found], high[found], delivery.size[group])


def _sums(index: Array, size: Array, length: int) -> Array:
    """Bytes [length] by index."""
    sums = np.zeros(length, np.int64)
    np.add.at(sums, index, size)
    return sums


def _sums_of_lines(reach: _Reach, place: Array, shape: tuple[int, int]) -> Array:
    """Bytes [lines, places] by line and ``place`` [pairs]."""
    return _sums(reach.line * shape[1] + place, reach.size, shape[0] * shape[1]).reshape(shape)


def _up_to(sums: Array) -> Array:
    """Of all that is at a place or before it, along the last axis."""
    return np.cumsum(sums, axis=-1)


def _from(sums: Array) -> Array:
    """Of all that is at a place or after it, along the last axis."""
    return np.cumsum(sums[..., ::-1], axis=-1)[..., ::-1]
