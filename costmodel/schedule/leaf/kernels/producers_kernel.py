"""Which tiles of a producer have what a range of a leaf needs; compiled.

What a part of the producer has of a range is a box: the product of its overlaps in the four dims, which the
workspace's ``common`` holds dim by dim. Of dims that the producer does not cut, its only part is in
:func:`times_of`: there every sender has the same, so ranges that differ in these dims only have the same
senders, and are a *group*.
"""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.schedule.leaf.kernels.leaf_values import COLUMN, LeafPlacement, Workspace
from costmodel.schedule.leaf.kernels.ranges_kernel import Four, Range, Ranges, Two, distinct
from costmodel.schedule.mesh.mesh_kernel import Span, route
from costmodel.schedule.mesh.senders_kernel import add_sender

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


@inlined
def part_along(ranges: Ranges, which: Range, dim: Int) -> Int:
    """The leaf's part along a dim of the data; 0 for a dim that no axis of the partition cuts."""
    axis = ranges.axis[which[0], dim]
    return which[axis + 1] if axis >= 0 else 0


@inlined
def groups_of(workspace: Workspace, placed: LeafPlacement, number: Int) -> tuple[Four, Four]:
    """Into how many groups each axis of the partition divides the ranges, and how many ranges a group has
    along it; one of the two is 1.
    """
    groups_k, k_each = _groups_along(workspace, placed, number, 0)
    groups_b, b_each = _groups_along(workspace, placed, number, 1)
    groups_h, h_each = _groups_along(workspace, placed, number, 2)
    groups_w, w_each = _groups_along(workspace, placed, number, 3)
    return (groups_k, groups_b, groups_h, groups_w), (k_each, b_each, h_each, w_each)


@inlined
def _groups_along(workspace: Workspace, placed: LeafPlacement, number: Int, axis: Int) -> Two:
    """Both numbers of :func:`groups_of` for one axis."""
    stream, ranges = placed.leaf.streams[number], workspace.ranges
    there = distinct(ranges, stream[COLUMN.kind], axis, placed.parts)
    for dim in range(4):
        if ranges.axis[stream[COLUMN.kind], dim] == axis and stream[COLUMN.parts_k + dim] > 1:
            return there, 1
    return 1, there


@inlined
def times_of(workspace: Workspace, placed: LeafPlacement, which: Range, number: Int) -> Int:
    """By what number the bits of a group's senders are multiplied to be those of this range.

    It is what the range has in common with the producer along the dims that the producer does not cut: there
    every sender has the same.
    """
    near, times = workspace.near[number], 1
    for dim in range(4):
        if placed.leaf.streams[number, COLUMN.parts_k + dim] == 1:
            part = part_along(workspace.ranges, which, dim)
            empty = near[1, dim, part] < near[0, dim, part]
            times *= 0 if empty else workspace.common[number, dim, part, 0]
    return times


@inlined
def senders_near(workspace: Workspace, placed: LeafPlacement, which: Range, number: Int) -> Int:
    """How many parts of the producer may have some of a range; not above 0 where none has."""
    near, count = workspace.near[number], 1
    for dim in range(4):
        if placed.leaf.streams[number, COLUMN.parts_k + dim] > 1:
            part = part_along(workspace.ranges, which, dim)
            count *= max(near[1, dim, part] + 1 - near[0, dim, part], 0)
    return count


@inlined
def near_parts(
    workspace: Workspace, placed: LeafPlacement, which: Range, number: Int
) -> tuple[Two, Two, Two, Two]:
    """For each dim the first part of the producer that has some of a range, and the end of these."""
    return (
        _near(workspace, placed, which, number, 0),
        _near(workspace, placed, which, number, 1),
        _near(workspace, placed, which, number, 2),
        _near(workspace, placed, which, number, 3),
    )


@inlined
def _near(workspace: Workspace, placed: LeafPlacement, which: Range, number: Int, dim: Int) -> Two:
    """:func:`near_parts` along one dim. Where the producer is not cut, that is its only part, whatever it
    has.
    """
    if placed.leaf.streams[number, COLUMN.parts_k + dim] == 1:
        return 0, 1
    part = part_along(workspace.ranges, which, dim)
    return workspace.near[number, 0, dim, part], workspace.near[number, 1, dim, part] + 1


@inlined
def _common(
    workspace: Workspace, placed: LeafPlacement, which: Range, number: Int, dim: Int, theirs: Int
) -> Int:
    """The overlap of two parts along a dim; 1 where the producer is not cut (:func:`times_of`)."""
    if placed.leaf.streams[number, COLUMN.parts_k + dim] == 1:
        return 1
    return workspace.common[number, dim, part_along(workspace.ranges, which, dim), theirs]


@inlined
def common_size(workspace: Workspace, placed: LeafPlacement, which: Range, number: Int) -> Int:
    """Bits that the first of the near parts of the producer has of a range, but for :func:`times_of`."""
    size = placed.leaf.streams[number, COLUMN.bits]
    at = near_parts(workspace, placed, which, number)
    size *= _common(workspace, placed, which, number, 0, at[0][0])
    size *= _common(workspace, placed, which, number, 1, at[1][0])
    size *= _common(workspace, placed, which, number, 2, at[2][0])
    size *= _common(workspace, placed, which, number, 3, at[3][0])
    return size


@inlined
def their_tile(stream: Array, part: Four) -> Int:
    """The tile of a part of the producer."""
    tile: Int = stream[COLUMN.tile]
    tile += part[0] * stream[COLUMN.step_k] + part[1] * stream[COLUMN.step_b]
    tile += part[2] * stream[COLUMN.step_h] + part[3] * stream[COLUMN.step_w]
    return tile


@called
def note_senders(workspace: Workspace, placed: LeafPlacement, which: Range, number: Int) -> None:
    """Note all tiles of the producer that have some of a range, with their bits, but for :func:`times_of`."""
    # Only parts near the range are gone through, and products are taken as far out as they can be: of all of
    # a search these loops run most often. Those of route_from_senders are the same around another body, which
    # a function passed in would slow down.
    stream, mesh = placed.leaf.streams[number], workspace.mesh
    near_k, near_b, near_h, near_w = near_parts(workspace, placed, which, number)
    for k in range(near_k[0], near_k[1]):
        of_k = stream[COLUMN.bits] * _common(workspace, placed, which, number, 0, k)
        for b in range(near_b[0], near_b[1]):
            of_b = of_k * _common(workspace, placed, which, number, 1, b)
            if of_b == 0:
                continue
            for h in range(near_h[0], near_h[1]):
                of_h = of_b * _common(workspace, placed, which, number, 2, h)
                for w in range(near_w[0], near_w[1]):
                    size = of_h * _common(workspace, placed, which, number, 3, w)
                    tile = their_tile(stream, (k, b, h, w))
                    add_sender(workspace.senders, mesh.x[tile], mesh.y[tile], size)


@called
def route_from_senders(
    workspace: Workspace, placed: LeafPlacement, which: Range, number: Int, times: Int, span: Span
) -> None:
    """Add a tree from each of these tiles to the links, with so many ``times`` its bits."""
    stream, mesh = placed.leaf.streams[number], workspace.mesh
    near_k, near_b, near_h, near_w = near_parts(workspace, placed, which, number)
    for k in range(near_k[0], near_k[1]):
        of_k = times * stream[COLUMN.bits] * _common(workspace, placed, which, number, 0, k)
        for b in range(near_b[0], near_b[1]):
            of_b = of_k * _common(workspace, placed, which, number, 1, b)
            if of_b == 0:
                continue
            for h in range(near_h[0], near_h[1]):
                of_h = of_b * _common(workspace, placed, which, number, 2, h)
                for w in range(near_w[0], near_w[1]):
                    size = of_h * _common(workspace, placed, which, number, 3, w)
                    tile = their_tile(stream, (k, b, h, w))
                    route(mesh, mesh.x[tile], mesh.y[tile], span, size, mesh.links)
