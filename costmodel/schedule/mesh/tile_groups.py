"""Which tiles need the same data of a loop nest mapped on the whole chip, and how much DRAM sends them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.mapping import Mapping
from costmodel.mapping.traffic import StridedLoop, nest_of
from costmodel.schedule.mesh.deliveries import Delivery
from costmodel.workload.network import Layer, Tensor

Array = NDArray[Any]
Sides = tuple[tuple[StridedLoop, ...], tuple[StridedLoop, ...]]
"""Loops that number the tiles' columns and rows, the innermost first."""


def placements(mapping: Mapping, mesh: tuple[int, int]) -> Iterator[Sides]:
    """Ways to place what DRAM's spatial loops spread on a ``mesh`` of (columns, rows).

    They move equal words over different links. Every loop is once the innermost of its side, so that its
    iterations are neighbours; sides are exchanged, too, where the mesh has room.
    """
    spread = nest_of(mapping).spatial[-1]
    count = len(mapping.levels[-1].spatial_x)
    sides = tuple(spread[:count]), tuple(spread[count:])
    for x, y in (sides, sides[::-1]):
        if _length(x) <= mesh[0] and _length(y) <= mesh[1]:
            yield from ((along_x, along_y) for along_x in _rotated(x) for along_y in _rotated(y))


def deliveries_of(nest: Layer, sides: Sides, moved: ReadOnlyDict[str, tuple[int, int]]) -> list[Delivery]:
    """What ``moved`` says of each tensor, words read from and written to DRAM, shared by groups of tiles.

    All groups get the same number of words, rounded up.
    """
    found = []
    for tensor in nest.tensors:
        group = tile_groups(tensor, sides)
        groups = int(group.max()) + 1
        for words, to_dram in zip(moved[tensor.name], (False, True), strict=True):
            if words:
                found.append(Delivery(group, np.full(groups, -(-words // groups)), to_dram))
    return found


def tile_groups(tensor: Tensor, sides: Sides) -> Array:
    """Of each tile in use [columns, rows] its group's number: that of all whose data begin at one place."""
    along_x, along_y = (_origins(tensor, loops) for loops in sides)
    origins = along_x[:, None, :] + along_y[None, :, :]
    codes = np.ravel_multi_index(tuple(np.moveaxis(origins, 2, 0)), tuple(origins.max(axis=(0, 1)) + 1))
    _, group = np.unique(codes, return_inverse=True)
    return np.asarray(group).reshape(codes.shape)


def _origins(tensor: Tensor, loops: Sequence[StridedLoop]) -> Array:
    """Where along each axis [places, axes] the tile of data begins at every place of one side."""
    place = np.arange(_length(loops))
    origins = np.zeros((len(place), len(tensor.axes)), np.int64)
    for loop in loops:
        if loop.dim in tensor.steps:
            step = loop.inner * np.array(tensor.steps[loop.dim])
            origins += (place % loop.bound)[:, None] * step
        place //= loop.bound
    return origins


def _rotated(loops: tuple[StridedLoop, ...]) -> list[tuple[StridedLoop, ...]]:
    return [loops[first:] + loops[:first] for first in range(max(len(loops), 1))]


def _length(loops: Sequence[StridedLoop]) -> int:
    return prod(loop.bound for loop in loops)
