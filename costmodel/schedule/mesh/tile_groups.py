"""Groups the tiles that need the same data of a loop nest mapped on the whole chip.

DRAM's spatial loops number the tiles of the chip. Two of these need the same part of a tensor exactly if that
part begins at the same element for both, which means that the loops between them do not move the tensor.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from collections.abc import Mapping as ReadOnlyDict
from math import prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.counts.traffic import StridedLoop, nest_of
from costmodel.mapping.mapping import Mapping
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.mesh.deliveries import Delivery
from costmodel.workload.network import Layer, Role, Tensor

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


class TileGroups(NamedTuple):
    """``of_tile`` [columns, rows]: the group of each tile in use, whose parts of a tensor begin at one
    element. ``origins`` [groups, axes]: that element."""

    of_tile: Array
    origins: Array


class Moved(NamedTuple):
    """Elements of a tensor that DRAM reads and that are written to it, and their bits.

    ``read``: elements; of outputs they are partial sums, which are brought back to be added to. ``written``:
    elements, of which ``partial`` come back later. ``read_element``, ``final``, ``sum``: bits of an element
    read, of a complete output, and of a partial sum. ``of_group`` [groups]: elements read for each group of
    tiles where these are not equally many.
    """

    read: int
    written: int
    partial: int
    read_element: int
    final: int
    sum: int
    of_group: Array | None = None

    @staticmethod
    def of(role: Role, read: int, written: int, bits: ElementBits) -> Moved:
        """What is moved of a tensor of a ``role``, with ``read`` and ``written`` elements of it."""
        if role != "outputs":
            return Moved(read, written, 0, bits.weights if role == "weights" else bits.inputs, 0, 0)
        # each partial sum that is read was written before, and is replaced by a later one
        return Moved(read, written, read, bits.partial_sums, bits.outputs, bits.partial_sums)

    @property
    def read_bits(self) -> int:
        return self.read * self.read_element

    @property
    def written_bits(self) -> int:
        return (self.written - self.partial) * self.final + self.partial * self.sum


def deliveries_of(nest: Layer, sides: Sides, moved: ReadOnlyDict[str, Moved]) -> list[Delivery]:
    """The transfers between DRAM and groups of tiles; ``moved``: by tensor, the elements read and written.

    Where a group has several tiles, each of them sends partial sums, which are added on the way. So links
    carry the bits of partial sums there.
    """
    found = []
    for tensor in nest.tensors:
        group, one = tile_groups(tensor, sides).of_tile, moved[tensor.name]
        groups = int(group.max()) + 1
        if one.read:
            equal = np.full(groups, one.read // groups)
            elements = equal if one.of_group is None else one.of_group
            found.append(Delivery(group, elements * one.read_element, False))
        if one.written:
            written, partial = one.written // groups, one.partial // groups
            final = one.sum if groups < group.size else one.final
            size = (written - partial) * final + partial * one.sum
            found.append(Delivery(group, np.full(groups, size), True))
    return found


def tile_groups(tensor: Tensor, sides: Sides) -> TileGroups:
    """The groups of tiles that need the same of a tensor."""
    along_x, along_y = (_origins(tensor, loops) for loops in sides)
    origins = along_x[:, None, :] + along_y[None, :, :]
    codes = np.ravel_multi_index(tuple(np.moveaxis(origins, 2, 0)), tuple(origins.max(axis=(0, 1)) + 1))
    _, first, group = np.unique(codes, return_index=True, return_inverse=True)
    return TileGroups(np.asarray(group).reshape(codes.shape), origins.reshape(-1, origins.shape[2])[first])


def first_points(dims: Sequence[str], sides: Sides) -> Array:
    """Where the points of each tile begin along the ``dims`` of the nest: [columns, rows, dims]."""
    along = []
    for loops in sides:
        index = np.arange(_length(loops))
        points = np.zeros((len(index), len(dims)), np.int64)
        for loop in loops:
            points[:, dims.index(loop.dim)] += index % loop.bound * loop.inner
            index //= loop.bound
        along.append(points)
    found: Array = along[0][:, None, :] + along[1][None, :, :]
    return found


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
