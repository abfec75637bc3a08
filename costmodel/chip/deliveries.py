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

from costmodel.chip.hardware import Chip
from costmodel.chip.room import port_counts

Array = NDArray[Any]


class Delivery(NamedTuple):
    """``group`` [columns, rows]: the group of each tile in use; ``size`` [groups]: bytes from or to each."""

    group: Array
    size: Array
    to_dram: bool


def link_loads(chip: Chip, deliveries: Iterable[Delivery]) -> Array:
    """Bytes times DRAM ports on the links [X, Y, 4] from every tile to the east, north, west and south."""
    ports = port_counts(chip)
    loads = np.zeros((chip.columns, chip.rows, 4), np.int64)
    for delivery in deliveries:
        (_add_merging if delivery.to_dram else _add_spreading)(loads, ports, delivery)
    return loads


def _add_spreading(loads: Array, ports: Any, delivery: Delivery) -> None:
    columns, rows, _ = loads.shape
    first, last, columns_reached = _reach(delivery.group, delivery.size)
    east, west, south, north = loads[:, :, 0], loads[:, :, 2], loads[:, :, 3], loads[:, :, 1]
    east += _further(last, delivery.size, columns)[:, None] * ports.to_east
    west += _before(first, delivery.size, columns)[:, None] * ports.to_west
    for column, (top, bottom, size) in enumerate(columns_reached):
        south[column] += _further(bottom, size, rows) * ports.to_south
        north[column] += _before(top, size, rows) * ports.to_north


def _add_merging(loads: Array, ports: Any, delivery: Delivery) -> None:
    columns, rows, _ = loads.shape
    first, last, rows_reached = _reach(delivery.group.T, delivery.size)
    east, west, south, north = loads[:, :, 0], loads[:, :, 2], loads[:, :, 3], loads[:, :, 1]
    for row, (left, right, size) in enumerate(rows_reached):
        east[:, row] += _up_to(left, size, columns) * ports.east_of
        west[:, row] += _from(right, size, columns) * ports.west_of
    south += _up_to(first, delivery.size, rows) * ports.south_of
    north += _from(last, delivery.size, rows) * ports.north_of


def _reach(group: Array, size: Array) -> tuple[Array, Array, list[tuple[Array, Array, Array]]]:
    """Of groups [lines, places]: the first and last line [groups] that each is in; and of every line the
    first and last place, and the bytes, of each group in it."""
    lines, places = group.shape
    first, last = np.full(len(size), lines), np.full(len(size), -1)
    reached = []
    for line in range(lines):
        here, low = np.unique(group[line], return_index=True)
        high = places - 1 - np.unique(group[line, ::-1], return_index=True)[1]
        first[here], last[here] = np.minimum(first[here], line), line
        reached.append((low, high, size[here]))
    return first, last, reached


def _at(place: Array, size: Array, length: int) -> Array:
    sums = np.zeros(length, np.int64)
    np.add.at(sums, place, size)
    return sums


def _up_to(place: Array, size: Array, length: int) -> Array:
    """Bytes [length] of all that is at a place or before it."""
    return np.cumsum(_at(place, size, length))


def _from(place: Array, size: Array, length: int) -> Array:
    """Bytes [length] of all that is at a place or after it."""
    return np.cumsum(_at(place, size, length)[::-1])[::-1]


def _before(place: Array, size: Array, length: int) -> Array:
    return _up_to(place, size, length) - _at(place, size, length)


def _further(place: Array, size: Array, length: int) -> Array:
    return _from(place, size, length) - _at(place, size, length)
