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
    """Fill ``found`` [4]: elements of inputs on the fullest tile and on all tiles, then the same of weights.

    The fullest tile has the longest interval in every dim at once, as dims are cut independently. All tiles
    together hold every distinct range as often as there are tiles that get it; ``to_idle`` says whether tiles
    without outputs do (see :func:`.ranges_kernel.fill_ranges`).
    """
    fill_ranges(space, sizes, parts, ranges, to_idle)
    for kind in (INPUTS, WEIGHTS):
        largest = 1
        for dim in range(4):
            axis, longest = ranges.axis[kind, dim], 0
            for part in range(parts[axis] if axis >= 0 else 1):
                longest = max(longest, ranges.end[kind, dim, part] - ranges.first[kind, dim, part])
            largest *= longest
        found[2 * (kind - INPUTS)] = largest
        found[2 * (kind - INPUTS) + 1] = volume(ranges, kind, (0, ANY), parts) * replicas_of(ranges, kind)
