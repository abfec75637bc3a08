"""How many elements the tiles of a partition hold, compiled."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import entry
from costmodel.schedule.leaf.kernels.ranges_kernel import (
    ANY,
    INPUTS,
    WEIGHTS,
    Four,
    KernelSpace,
    Ranges,
    fill_ranges,
    replicas_of,
    volume,
)

Array = NDArray[Any]


@entry
def volumes(
    space: KernelSpace, sizes: Four, parts: Array, ranges: Ranges, to_idle: bool, found: Array
) -> None:
    """Fill ``found`` [n, 4] for each of the partitions ``parts`` [n, 4].

    A row has the elements of inputs on the fullest tile and on all tiles, then the same of weights. The
    fullest tile has the longest interval in every dim at once, as dims are cut independently. All tiles
    together hold every distinct range as often as there are tiles that get it; ``to_idle`` says whether tiles
    without outputs do (see :func:`.ranges_kernel.fill_ranges`).
    """
    for row in range(len(parts)):
        cut = parts[row]
        fill_ranges(space, sizes, cut, ranges, to_idle)
        for kind in (INPUTS, WEIGHTS):
            largest = 1
            for dim in range(4):
                axis, longest = ranges.axis[kind, dim], 0
                for part in range(cut[axis] if axis >= 0 else 1):
                    longest = max(longest, ranges.end[kind, dim, part] - ranges.first[kind, dim, part])
                largest *= longest
            of_all = volume(ranges, kind, (0, ANY), cut) * replicas_of(ranges, kind)
            found[row, 2 * (kind - INPUTS)] = largest
            found[row, 2 * (kind - INPUTS) + 1] = of_all
