"""Which tiles need the same data of a loop nest mapped on the whole chip, and how much DRAM sends them."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.chip.deliveries import Delivery
from costmodel.mapping import Mapping
from costmodel.traffic import PlacedLoop, nest_of
from costmodel.workload import Layer, Tensor

Array = NDArray[Any]


def deliveries_of(nest: Layer, mapping: Mapping, moved: ReadOnlyDict[str, tuple[int, int]]) -> list[Delivery]:
    """What ``moved`` says of each tensor, words read from and written to DRAM, shared by groups of tiles.

    All groups get the same number of words, rounded up.
    """
    spread = nest_of(mapping).spatial[-1]
    sides = spread[: len(mapping.levels[-1].spatial_x)], spread[len(mapping.levels[-1].spatial_x) :]
    found = []
    for tensor in nest.tensors:
        group = tile_groups(tensor, sides)
        groups = int(group.max()) + 1
        for words, to_dram in zip(moved[tensor.name], (False, True), strict=True):
            if words:
                found.append(Delivery(group, np.full(groups, -(-words // groups)), to_dram))
    return found


def tile_groups(tensor: Tensor, sides: tuple[Sequence[PlacedLoop], Sequence[PlacedLoop]]) -> Array:
    """Of each tile in use [columns, rows] the number of its group, from 0: those whose tiles of data begin
    at the same place, as equal iterations of ``sides``, innermost loops first, are spread along x and y."""
    along_x, along_y = (_origins(tensor, loops) for loops in sides)
    origins = along_x[:, None, :] + along_y[None, :, :]
    shape = origins.shape[:2]
    _, group = np.unique(origins.reshape(-1, origins.shape[2]), axis=0, return_inverse=True)
    return np.asarray(group).reshape(shape)


def _origins(tensor: Tensor, loops: Sequence[PlacedLoop]) -> Array:
    """Where along each axis [places, axes] the tile of data begins at every place of one side."""
    place = np.arange(prod(loop.bound for loop in loops))
    origins = np.zeros((len(place), len(tensor.axes)), np.int64)
    for loop in loops:
        if loop.dim in tensor.steps:
            step = loop.inner * np.array(tensor.steps[loop.dim])
            origins += (place % loop.bound)[:, None] * step
        place //= loop.bound
    return origins
