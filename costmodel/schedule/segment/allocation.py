"""How an S cut divides its tiles among its children (SET, section 3.3.2)."""

from __future__ import annotations

from collections.abc import Sequence
from heapq import heapify, heapreplace

from costmodel.errors import InputError


def allocate(tiles: int, cycles: Sequence[float], least: Sequence[int]) -> tuple[int, ...] | None:
    """How many tiles each child gets; the slowest child, by cycles / tiles, is as fast as possible.

    ``cycles``: each child's normalized processing time, on one tile, above 0. ``least``: tiles that each
    needs at least. All ``tiles`` are given away; None where they are fewer than the sum of ``least``.

    Every spare tile goes to the child that is slowest by then, the first of equals. That is optimal: let c be
    the slowest child in the end, and t its time. An allocation with less than t gives c more tiles than it
    has here, and so gives some other child i fewer. But i got its last tile above ``least`` when it was the
    slowest: without that tile, i takes at least as long as c took then, which is at least t.
    """
    if not cycles or min(cycles) <= 0:
        raise InputError("allocation", "processing times above 0", list(cycles))
    spare = tiles - sum(least)
    if spare < 0:
        return None
    given = [max(few, most) for few, most in zip(least, _surely_given(spare, cycles), strict=True)]
    waiting = [(-time / given[child], child) for child, time in enumerate(cycles)]
    heapify(waiting)
    for _ in range(tiles - sum(given)):
        child = waiting[0][1]
        given[child] += 1
        heapreplace(waiting, (-cycles[child] / given[child], child))
    return tuple(given)


def _surely_given(spare: int, cycles: Sequence[float]) -> list[int]:
    """Tiles that each child has in the end at least, if it needs none: most of them, to begin with.

    A child of k tiles gets another one before all children take at most a time t if it takes longer than t by
    then, which it does for k < cycles / t. So no more than sum(cycles) / t + n tiles are given to n children
    until then, and these are no more than the spare ones for the t of below. Rounding down leaves out a tile
    where cycles / t is nearly a whole number.
    """
    if spare <= len(cycles):
        return [0] * len(cycles)
    slow_enough = sum(cycles) / (spare - len(cycles)) * (1 + 1e-9)
    return [int(time / slow_enough) for time in cycles]
