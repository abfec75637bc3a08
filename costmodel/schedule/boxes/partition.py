"""Partitions: an iteration space cut into one box for each of several tiles.

Every dim may be cut, also one that is summed over. The parts of a dim differ in length by one at most: of 10
rows in 4 parts they begin at rows 0, 3, 5 and 8. With more parts than indices some boxes are empty.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import prod

import numpy as np

from costmodel.errors import InputError
from costmodel.schedule.boxes.arrays import Array, Interval, with_empty_ones_alike
from costmodel.schedule.boxes.images import whole
from costmodel.workload.network import Layer


def part_of(length: int, parts: int, part: int) -> Interval:
    """The indices of one part: part p of n begins at p * length / n, rounded up."""
    return -(-part * length // parts), -(-(part + 1) * length // parts)


@dataclass(frozen=True)
class BoxPartition:
    """Into how many parts dims are cut, and the order of the parts on tiles.

    ``cuts``: (dim, parts) pairs; parts along the last one lie on neighbouring tiles, as digits of a number
    are counted. With cuts ``(("K", 2), ("P", 3))`` tile 4 has part 1 of K and part 1 of P. Dims that are not
    among them are whole.
    """

    cuts: tuple[tuple[str, int], ...]

    def __post_init__(self) -> None:
        if len({dim for dim, _ in self.cuts}) != len(self.cuts) or any(n < 1 for _, n in self.cuts):
            raise InputError("partition", "different dims in at least 1 part", self.cuts, key="cuts")

    @cached_property
    def parts(self) -> int:
        """How many boxes there are, one a tile."""
        return prod(parts for _, parts in self.cuts)

    def boxes(self, space: Layer) -> Array:
        """The box of each part [parts, dims, 2], in the order of tiles."""
        found = np.broadcast_to(whole(space), (self.parts, len(space.dims), 2)).copy()
        step = self.parts
        for dim, parts in self.cuts:
            if dim not in space.index:
                known = [name for name, _ in space.dims]
                raise InputError(f"partition of {space.name}", f"dims among {known}", dim, key="cuts")
            step //= parts
            size = space.dims[space.index[dim]][1]
            intervals = np.array([part_of(size, parts, part) for part in range(parts)], np.int64)
            found[:, space.index[dim]] = intervals[np.arange(self.parts) // step % parts]
        return with_empty_ones_alike(found)
