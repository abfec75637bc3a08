"""On which tiles the parts of a placed leaf lie, compiled.

The chip model and the count of SET's released program use these functions with records of their own.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.leaf.kernels.ranges_kernel import COUNTS, EqualParts, Four, Range, is_skipped
from costmodel.schedule.mesh.mesh_kernel import Span

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Workspace = Any
LeafPlacement = Any
"""The chip model's or the released program's; numba compiles the functions once for each."""


@inlined
def axes_cut(parts: Array) -> Int:
    """The axes that are cut into several parts, as bits: 1 for K, 2 for B, 4 for H, 8 for W."""
    cut = 0
    for axis in range(4):
        cut += (parts[axis] > 1) << axis
    return cut


@inlined
def tiles_of(parts: Array) -> Int:
    """On how many tiles a partition lies."""
    return parts[0] * parts[1] * parts[2] * parts[3]


@inlined
def steps_of(parts: Array, order: Array) -> Four:
    """How many tiles further the next part along K, B, H and W is.

    ``order`` [4]: axes of the partition; parts along the last one are neighbours, as digits of a number are
    counted.
    """
    k, b, h, w, step = 0, 0, 0, 0, 1
    for rank in range(3, -1, -1):
        axis = order[rank]
        k = step if axis == 0 else k
        b = step if axis == 1 else b
        h = step if axis == 2 else h
        w = step if axis == 3 else w
        step *= parts[axis]
    return k, b, h, w


@inlined
def tile_of(placed: LeafPlacement, k: Int, b: Int, h: Int, w: Int) -> Int:
    """The tile that computes one part."""
    steps = placed.steps
    return placed.leaf.tile + steps[0] * k + steps[1] * b + steps[2] * h + steps[3] * w


@called
def reach(workspace: Workspace, placed: LeafPlacement, equal: EqualParts, which: Range) -> Span:
    """First and last column of the tiles that get a range.

    Fills the mesh's ``lowest`` and ``highest`` row in every column. The loops go from the given part, the
    first of those that need the range, through the others, without those that are skipped. Of joined streams
    the parts along K are in a chain.
    """
    mesh, until = workspace.mesh, equal.until
    if equal.counts[COUNTS.most] == 1:
        tile = tile_of(placed, which[1], which[2], which[3], which[4])
        x = mesh.x[tile]
        mesh.lowest[x], mesh.highest[x] = mesh.y[tile], mesh.y[tile]
        return x, x
    span = mesh.lowest.shape[0], -1
    mesh.lowest[:] = mesh.along_y.shape[1]
    mesh.highest[:] = -1
    for k in range(which[1], until[0, which[1]]):
        span = _reach_part(workspace, placed, equal, which, k, span)
    if equal.begin >= 0:
        other: Int = equal.alike[equal.begin + which[1]]
        while other >= 0:
            span = _reach_part(workspace, placed, equal, which, other % until.shape[1], span)
            other = equal.alike[other]
    return span


@inlined
def _reach_part(
    workspace: Workspace, placed: LeafPlacement, equal: EqualParts, which: Range, k: Int, span: Span
) -> Span:
    """The same with the tiles of one part along K, which the columns of ``span`` are extended by."""
    mesh, ranges, until = workspace.mesh, workspace.ranges, equal.until
    left, right = span
    for b in range(which[2], until[1, which[2]]):
        for h in range(which[3], until[2, which[3]]):
            for w in range(which[4], until[3, which[4]]):
                if is_skipped(ranges, k, b, h, w):
                    continue
                tile = tile_of(placed, k, b, h, w)
                x, y = mesh.x[tile], mesh.y[tile]
                left, right = min(left, x), max(right, x)
                mesh.lowest[x] = min(mesh.lowest[x], y)
                mesh.highest[x] = max(mesh.highest[x], y)
    return left, right
