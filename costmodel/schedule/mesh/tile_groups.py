"""Which tiles need the same data of a loop nest mapped on the whole chip, and what DRAM sends them.

DRAM's spatial loops number the tiles. Two tiles need the same tile of a tensor exactly if it begins at the
same element for both, that is if the loops between them do not move the tensor.
"""

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
    """Ways to place DRAM's spatial loops on a ``mesh`` of (columns, rows).

    All move the same words, but over different links. Each loop of a side is tried as its innermost one,
    whose iterations are neighbours; and the two sides are exchanged where they then still fit the mesh.
    """
    spread = nest_of(mapping).spatial[-1]
    count = len(mapping.levels[-1].spatial_x)
    sides = tuple(spread[:count]), tuple(spread[count:])
    for x, y in (sides, sides[::-1]):
        if _length(x) <= mesh[0] and _length(y) <= mesh[1]:
            yield from ((along_x, along_y) for along_x in _rotated(x) for along_y in _rotated(y))


def deliveries_of(nest: Layer, sides: Sides, moved: ReadOnlyDict[str, tuple[int, int]]) -> list[Delivery]:
    """What DRAM exchanges with groups of tiles; ``moved``: words read and written of each tensor.

    Every group of tiles gets the same number of words, rounded up.
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
    """The group of each tile in use [columns, rows]: tiles whose part of the tensor begins at one element."""
    along_x, along_y = (_origins(tensor, loops) for loops in sides)
    origins = along_x[:, None, :] + along_y[None, :, :]
    codes = np.ravel_multi_index(tuple(np.moveaxis(origins, 2, 0)), tuple(origins.max(axis=(0, 1)) + 1))
    _, group = np.unique(codes, return_inverse=True)
    return np.asarray(group).reshape(codes.shape)


def _origins(tensor: Tensor, loops: Sequence[StridedLoop]) -> Array:
    """Where the data begins along each axis of the tensor, for every index of one side [n, axes]."""
    index = np.arange(_length(loops))
    origins = np.zeros((len(index), len(tensor.axes)), np.int64)
    for loop in loops:
        if loop.dim in tensor.steps:
            step = loop.inner * np.array(tensor.steps[loop.dim])
            origins += (index % loop.bound)[:, None] * step
        index //= loop.bound
    return origins


def _rotated(loops: tuple[StridedLoop, ...]) -> list[tuple[StridedLoop, ...]]:
    return [loops[first:] + loops[:first] for first in range(max(len(loops), 1))]


def _length(loops: Sequence[StridedLoop]) -> int:
    return prod(loop.bound for loop in loops)
