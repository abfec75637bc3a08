"""How many elements the tiles of a partition hold, compiled."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import entry
from costmodel.schedule.leaf.kernels.ranges_kernel import (
    INPUTS,
    WEIGHTS,
    Four,
    KernelSpace,
    Ranges,
    fill_ranges,
)

Array = NDArray[Any]


@entry
def volumes(
    space: KernelSpace, sizes: Four, parts: Array, ranges: Ranges, to_idle: bool, found: Array
) -> None:
    """Fill ``found`` [n, 4] for each of the partitions ``parts`` [n, 4].

    A row has the elements of inputs on the fullest tile and on all tiles, then the same of weights. The
    fullest tile has the longest interval in every dim at once, as dims are cut independently. The sum over
    all tiles is the product of sums of interval lengths over parts, times the parts along axes that no dim
    follows; ``to_idle`` says whether parts without outputs are among these (see
    :func:`.ranges_kernel.fill_ranges`).
    """
    for row in range(len(parts)):
        cut = parts[row]
        fill_ranges(space, sizes, cut, ranges, to_idle)
        for kind in (INPUTS, WEIGHTS):
            largest, of_all = 1, 1
            for dim in range(4):
                axis, longest, length = ranges.axis[kind, dim], 0, 0
                for part in range(cut[axis] if axis >= 0 else 1):
                    extent = ranges.end[kind, dim, part] - ranges.first[kind, dim, part]
                    longest, length = max(longest, extent), length + max(extent, 0)
                largest *= longest
                of_all *= length
            for axis in range(4):
                of_all *= 1 if ranges.follows[kind, axis] else ranges.served[axis]
            found[row, 2 * (kind - INPUTS)] = largest
            found[row, 2 * (kind - INPUTS) + 1] = of_all
