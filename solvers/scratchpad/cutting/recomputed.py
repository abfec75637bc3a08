"""What is live at some moment of every plan, whichever tensors it recomputes.

A tensor that one operator reads may be recomputed: it then has a band for each band of that reader's output,
with all the rows that it needs. Where the reader's output is recomputed, too, bands grow from one layer to
the one before, and each is made whole, of all its rows, before the next begins::

    u, kept                   |#|          a band of u: at least one row
    y, recomputed            |###|         the rows that it needs
    x, recomputed           |#####|        the rows that these need
    w, kept           .....|#######|....

**Towers.** Let an operator make y of x, each channel of y of all channels of x. Take the band of y for some
row of u, the rows of x for it, and the moment at which the first channel of the band of y is finished. Then
all of these rows of x were made. If another channel of the band of y was not begun, all of them are read
again, and are live. If every one was begun, then all of the band is there, as bands or as sums so far. So
one of the two is live in full, the rows of x or the band of y. It does not matter whether x is recomputed or
kept, for what was made once and is read again is live. This holds for every row of u, so for the row that
needs the most, if y and all tensors from y up to u are recomputed; and where y is u, if x is. It does not
matter whether u is kept, either: each of its rows is in some band, and a larger one needs no fewer rows. But
where operators skip rows of u, these may never be made, and the row counts that needs the least.

**Either, or.** A plan in which all the tensors of a tower are recomputed has the tower's bytes live at some
moment. Any other one keeps one of them, and what it keeps has a frontier (:mod:`.frontiers`), which only
grows with what else it keeps. So :func:`least_live` begins with plans of which nothing is known, and where a
tower is higher than what they have been proven to hold it tells them apart by the first tensor of the tower
that they keep. The least of all kinds of plans is a bound for all plans, at any time.
"""

from __future__ import annotations

from collections.abc import Iterator
from heapq import heappop, heappush
from itertools import count
from typing import NamedTuple

from costmodel.limits import limit_reached
from costmodel.scratchpad.divisions import DivisibleGraph, InputRead, Span
from solvers.budget import InTime
from solvers.scratchpad.cutting.frontiers import Live, LiveWindow

MOST_KINDS = 200
"""Kinds of plans that are told apart in one window."""


class Tower(NamedTuple):
    """So many bits are live at some moment of every plan that recomputes all of these tensors."""

    tensors: frozenset[int]
    bits: int


class _Kind(NamedTuple):
    """Plans that keep some tensors and recompute others, and what frontiers prove of them.

    Entries of a heap are compared field by field: ``bits`` are live in each of the plans, and of equal ones
    the one with the smaller ``number`` comes first. ``searched``: all limits of the frontier were tried.
    """

    bits: int
    number: int
    kept: frozenset[int]
    recomputed: frozenset[int]
    live: Live
    searched: bool


class Recomputable:
    """The ``tensors`` of a graph that may be recomputed, and the towers over them."""

    def __init__(self, divisible: DivisibleGraph, tensors: frozenset[int]) -> None:
        self.divisible, self.graph, self.tensors = divisible, divisible.whole, tensors
        self.always_kept = frozenset(range(len(self.graph.tensors))) - tensors

    def towers(self, window: LiveWindow) -> list[Tower]:
        """Those whose tensors are all in the window, with the fewest recomputed ones first."""
        inside, found = set(window.tensors), dict[frozenset[int], int]()
        made = window.rows.always_made
        for low in window.tensors:
            for reader in self.graph.consumers[low]:
                read, division = self.divisible.read(reader, low), self.divisible.divisions[reader]
                if not division.cuttable or read.groups != 1 or read.joined_at is not None:
                    continue
                for path in self._paths(low, self.graph.operators[reader].outputs[0], inside):
                    recomputed = frozenset(path[:-1] or [low])
                    found[recomputed] = max(self._height(low, read, path, made), found.get(recomputed, 0))
        return sorted((Tower(*one) for one in found.items()), key=lambda tower: len(tower.tensors))

    def _paths(self, low: int, high: int, inside: set[int]) -> Iterator[list[int]]:
        """From ``high``, which is made of ``low``, up to each tensor that may be the kept one on top."""
        if high not in inside:
            return
        path = [high]
        if low in self.tensors:
            yield path
        while path[-1] in self.tensors:
            above = self.graph.operators[self.graph.consumers[path[-1]][0]].outputs[0]
            if above not in inside:
                return
            path = [*path, above]
            yield path

    def _height(self, low: int, read: InputRead, path: list[int], always_made: frozenset[int]) -> int:
        """The bits of the lower of two: the band of the path's first tensor, and the rows of ``low`` for it.

        They are for the row of the path's last tensor that needs the most, where all of its rows are made.
        """
        heights = []
        for row in range(self.divisible.extents[path[-1]].rows):
            band = (row, row + 1)
            for tensor in reversed(path[:-1]):
                band = self._needed(tensor, band)
            if band[0] >= band[1]:
                heights.append(0)
                continue
            rows = _rows_read(read, band, self.divisible.extents[low].rows)
            heights.append(min((band[1] - band[0]) * self._row_bits(path[0]), rows * self._row_bits(low)))
        return max(heights) if path[-1] in always_made else min(heights)

    def _needed(self, tensor: int, made: Span) -> Span:
        """The rows of a recomputed tensor's band for these rows of its reader's output; of a strip perhaps
        none."""
        window = self.divisible.read(self.graph.consumers[tensor][0], tensor).window
        assert window is not None  # it may be recomputed
        first, end = window.of(made) if made[0] < made[1] else (0, 0)
        return max(first, 0), min(end, self.divisible.extents[tensor].rows)

    def _row_bits(self, tensor: int) -> int:
        extent = self.divisible.extents[tensor]
        return extent.channels * extent.elements * self.graph.settings.bits_per_element


def _rows_read(read: InputRead, made: Span, rows: int) -> int:
    """How many rows of an input are read for these rows of the output."""
    if read.window is None:
        return rows
    if read.window.gapless:
        first, end = read.window.of(made)
        return max(0, min(end, rows) - max(first, 0))
    return sum(read.window.touches(made, (row, row + 1)) for row in range(rows))


def least_live(
    window: LiveWindow, recomputable: Recomputable, once: Live, least: int, in_time: InTime
) -> int:
    """Bits that are live at some moment of every plan, if they are more than ``least``; else that.

    ``once``: what is live at some moment of every plan that recomputes nothing.
    """
    if once.bits <= least:
        return least
    towers = [tower for tower in recomputable.towers(window) if tower.bits > least]
    numbers = count()
    nothing = frozenset[int]()
    kinds = [_Kind(least, next(numbers), nothing, nothing, Live(least, once.limits), False)]
    while True:
        kind = heappop(kinds)
        if not in_time():
            return kind.bits
        kept = recomputable.always_kept | kind.kept
        if not kind.searched:
            live = window.live(kept, window.live_within(kept, kind.live, in_time), in_time)
            bits = max(kind.bits, live.bits)
            heappush(kinds, kind._replace(bits=bits, live=live, searched=True))
            continue
        higher = [tower for tower in towers if tower.bits > kind.bits and not tower.tensors & kind.kept]
        if not higher:
            return kind.bits
        if kind.number > MOST_KINDS:
            limit_reached("kinds of plans", MOST_KINDS, "the bound for all cuts may be lower")
            return kind.bits
        tower = min(higher, key=lambda tower: (len(tower.tensors - kind.recomputed), -tower.bits))
        recomputed = kind.recomputed
        for tensor in sorted(tower.tensors - recomputed):
            live = window.live_within(kept | {tensor}, kind.live, in_time)
            bits = max(kind.bits, live.bits)
            heappush(kinds, _Kind(bits, next(numbers), kind.kept | {tensor}, recomputed, live, False))
            recomputed |= {tensor}
        heappush(kinds, _Kind(tower.bits, next(numbers), kind.kept, recomputed, kind.live, True))
