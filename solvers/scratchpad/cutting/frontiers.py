"""Bytes that every plan moves, however the graph is cut, where windows of rows overlap.

At any moment of a plan some rows of a tensor are *complete* (all their channels were made), some *opened*
(at least one channel was), the others are not begun. Take bytes that can follow one another through the
operators, from complete rows to rows that are not opened, such that no byte is on two of these paths::

    rows of x     ##########......      complete: #
    rows of y     #######.........      a window of 3 rows: y's row 7 needs row 8 of x
                         |
                      frontier          rows 6 and 7 of x are read again, and are live

Somewhere on each path is the last byte that is finished: it is live, or the next one is a sum so far that
holds what was read of it. So as many bytes are live as there are paths, and by Menger's theorem these are as
many as the narrowest *frontier* has: rows without which no path is left. What of it does not fit in the
scratchpad has left and comes back, as at a barrier (:mod:`.barriers`).

**Any order.** A plan may make rows in any order, so sets of rows are known by their numbers only. ``b`` rows
of an output need at least so many rows of the input, and so many rows of the input are read by at least so
many of the output (:func:`_least_union`, over all sets of that size). Per tensor four numbers are searched:
rows that are complete, opened, *reached* (before or on the frontier) and *passed* (before it). They are
ordered as the tables say, and the least bytes of rows that are reached and not passed are a minimum cut.

**Any moment.** A plan begins with nothing opened and ends with all. For limits on how many rows of some
tensors are opened there is a moment at which one of them is at its limit and its next row is about to be
made, while the others are within theirs (:meth:`_Window.exit`). The least of these exits is a bound. Limits
that are passed cheaply are given up, and the others tried again (:meth:`_Window.live_bits`).

**Any cut.** A piece reads whole rows of the channels that it reads, so columns do not matter; rows of several
bands in one step are taken for made one after the other, for the piece holds all that it reads and makes. A
tensor that may be recomputed is complete once and may be gone: paths lead through its rows but begin in none.
Flows are spread evenly over channels, so that each channel leads on to its own; where tensors were joined
they are not even, and lead on to operators that read all channels, or to the same channels alone.

Bounds of windows of the order that have no tensor in common add up (:mod:`.bounds`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from costmodel.scratchpad.cut import may_recompute
from costmodel.scratchpad.divisions import DivisibleGraph, InputRead, RowWindow, Span
from solvers.budget import InTime
from solvers.scratchpad.cutting.proofs import Proof, moved_bytes, positions

if TYPE_CHECKING:
    from ortools.graph.python.max_flow import SimpleMaxFlow

Numbers = np.ndarray[Any, np.dtype[np.int64]]

MOST_EDGES = 24
"""Positions of the order at which windows begin and end."""
MOST_LIMITED = 16
"""Tensors of a window that have limits."""
SHARES = (0.0, 0.5, 0.8, 1.0)
"""Limits, as shares of a tensor's rows; the last row is never within them."""
FEW_OPERATORS = 200
"""Up to so many the whole order is looked at before parts of it."""
ENDLESS = 1 << 50
"""The capacity of an arc that no cut takes; all bits of a graph are fewer."""
COMPLETE, OPENED, REACHED, PASSED = range(4)
NOTHING_BEGUN, ALL_DONE = 0, 1
"""Nodes of the flow network: its source and its sink."""


class _Relation(NamedTuple):
    """Rows of tensor ``source`` and of ``made``, which an operator makes of it.

    ``needed``: by a number of rows of ``made`` the least number of rows of ``source`` that they need.
    ``readers``: by a number of rows of ``source`` the least number of rows of ``made`` that read any of them;
    None where paths do not lead this way. ``dense``: every channel reads all channels; ``joined``: a channel
    reads one of several tensors.
    """

    source: int
    made: int
    needed: Numbers
    readers: Numbers | None
    dense: bool
    joined: bool


def frontier_proofs(
    divisible: DivisibleGraph, capacity: int, in_time: InTime, recomputed: bool = True
) -> Iterator[Proof]:
    """What frontiers of windows of the order prove; windows within those that prove nothing are left out.

    ``recomputed`` off: of plans that make nothing twice.
    """
    rows = _Rows(divisible, recomputed)
    edges = _edges(divisible)
    count = len(edges) - 1
    waiting, seen = [(0, count)], set[tuple[int, int]]()
    if len(divisible.divisions) > FEW_OPERATORS:
        # cuts of the whole take seconds each round: first windows of a quarter and of a half
        eighths = [count * part // 8 for part in range(9)]
        waiting = [
            (eighths[n], eighths[n + span]) for span in (2, 4, 8) for n in range(0, 9 - span, span // 2)
        ]
    while waiting:
        first, end = waiting.pop(0)
        if (first, end) in seen or end <= first:
            continue
        seen.add((first, end))
        window = _Window(rows, edges[first], edges[end])
        live = window.live_bits(8 * capacity, in_time)
        if not in_time():
            return
        if moved := moved_bytes(divisible, window.tensors, -(-live // 8) - capacity):
            yield Proof(moved, frozenset(window.tensors))
            half, third = -(-(end - first) // 2), -(-2 * (end - first) // 3)
            middle = first + (end - first - half) // 2
            waiting += [(first, first + third), (end - third, end)]
            waiting += [(first, first + half), (middle, middle + half), (end - half, end)]


def _edges(divisible: DivisibleGraph) -> list[int]:
    """Where windows may begin and end: behind operators whose output several others read, or anywhere."""
    graph = divisible.whole
    count = len(graph.operators)
    found = [
        n + 1
        for n, own in enumerate(graph.operators)
        if any(len(graph.consumers[t]) > 1 for t in own.outputs)
    ]
    if len(found) < MOST_EDGES // 4:
        found = list(range(1, count))
    return sorted({0, count, *_thinned(found, MOST_EDGES)})


def _thinned(numbers: Sequence[int], most: int) -> list[int]:
    """At most so many of them, spread evenly."""
    if len(numbers) <= most:
        return list(numbers)
    return [numbers[index * len(numbers) // most] for index in range(most)]


class _Rows:
    """What is the same for all windows of a graph."""

    def __init__(self, divisible: DivisibleGraph, recomputed: bool = True) -> None:
        self.divisible, self.graph = divisible, divisible.whole
        self.counts = [extent.rows for extent in divisible.extents]
        bits = divisible.whole.settings.bits_per_element
        self.bits = [extent.channels * extent.elements * bits for extent in divisible.extents]
        """By tensor the bits of one row."""
        tensors = range(len(self.counts))
        self.made_once = [not (recomputed and may_recompute(divisible, tensor)) for tensor in tensors]
        self._uneven: set[int] = set()
        """Tensors whose channels carry flows of different tensors."""
        self.relations = [tuple(self._relations(number)) for number in range(len(divisible.whole.operators))]

    def _relations(self, number: int) -> Iterator[_Relation]:
        division = self.divisible.divisions[number]
        for made in self.graph.operators[number].outputs:
            for read in division.reads:
                yield self._relation(number, read, made)

    def _relation(self, number: int, read: InputRead, made: int) -> _Relation:
        division, extents = self.divisible.divisions[number], self.divisible.extents
        source, output = extents[read.tensor], extents[made]
        window = read.window if division.cuttable else None
        spans = _spans(window, output.rows, source.rows)
        joined = division.cuttable and read.joined_at is not None
        dense = not division.cuttable or (not joined and read.groups == 1)
        alone = not dense and not joined and len(division.reads) == 1
        same = alone and read.groups == source.channels == output.channels
        flows = True
        if joined:
            self._uneven.add(made)
            flows = source.elements == output.elements
        elif not dense and read.tensor in self._uneven:
            flows = same and output.elements >= source.elements
            if flows:
                self._uneven.add(made)
        readers = _least_union(_readers(spans, source.rows)) if flows else None
        return _Relation(read.tensor, made, _least_union(spans), readers, dense, joined)


def _spans(window: RowWindow | None, made: int, rows: int) -> tuple[Span, ...]:
    """By row of the output the rows of the input that it reads, of a dilated window only those of one tap."""
    if window is None:
        return ((0, rows),) * made
    if window.dilation > 1:
        before = window.before - window.size // 2 * window.dilation
        window = RowWindow(1, window.stride, before)
    spans = []
    for row in range(made):
        first, end = (min(max(edge, 0), rows) for edge in window.of((row, row + 1)))
        spans.append((first, end))
    return tuple(spans)


def _readers(spans: tuple[Span, ...], rows: int) -> tuple[Span, ...]:
    """By row of the input the rows of the output that read it; an empty span where none does."""
    found = []
    first = end = 0
    for row in range(rows):
        # both ends of the windows go down row by row
        while end < len(spans) and spans[end][0] <= row:
            end += 1
        while first < end and spans[first][1] <= row:
            first += 1
        found.append((first, end))
    return tuple(found)


@lru_cache(maxsize=512)
def _least_union(spans: tuple[Span, ...]) -> Numbers:
    """By a number of the spans, the least that so many of them hold together, whichever they are.

    Both ends of the spans go up from one to the next. So of what a span adds to others before it only the
    last of these has a part, and the least is found span by span.
    """
    first = np.array([span[0] for span in spans], dtype=np.int64)
    end = np.array([span[1] for span in spans], dtype=np.int64)
    added = np.maximum(0, end[None, :] - np.maximum(first[None, :], end[:, None]))
    later = np.arange(len(spans))[:, None] < np.arange(len(spans))[None, :]
    added = np.where(later, added, ENDLESS)
    least, found = end - first, [0]
    for _ in spans:
        found.append(int(least.min()))
        least = (least[:, None] + added).min(axis=0)
    return np.array(found, dtype=np.int64)


class _Window:
    """The tensors whose positions are in ``[first, end)``, as nodes and arcs of a flow network.

    A tensor of r rows has 4 r nodes: that at least 1, 2 ... r of its rows are complete, opened, reached,
    passed. An arc without an end leads from a node to what follows from it; one from "k are reached" to "k
    are passed" costs the bits of a row.
    """

    def __init__(self, rows: _Rows, first: int, end: int) -> None:
        self.rows, self.operators = rows, range(first, end)
        self.tensors = [t for t, place in enumerate(positions(rows.graph)) if first <= place < end]
        self.nodes: dict[int, int] = {}
        self.count = 2
        for tensor in self.tensors:
            self.nodes[tensor] = self.count
            self.count += 4 * rows.counts[tensor]
        arcs = [*self._orders(), *self._of_operators()]
        self._tails = np.concatenate([tail for tail, _, _ in arcs])
        self._heads = np.concatenate([head for _, head, _ in arcs])
        costs = [np.full(len(tail), cost, dtype=np.int64) for tail, _, cost in arcs]
        self._costs = np.concatenate(costs)

    def node(self, tensor: int, which: int, count: int) -> int:
        """The node that says that at least ``count`` rows are complete, opened, reached or passed."""
        return self.nodes[tensor] + which * self.rows.counts[tensor] + count - 1

    def _orders(self) -> Iterator[tuple[Numbers, Numbers, int]]:
        """What follows within one tensor: complete rows are opened and reached, passed ones both as well."""
        for tensor in self.tensors:
            each = np.arange(self.rows.counts[tensor], dtype=np.int64)
            complete, opened, reached, passed = (self.node(tensor, which, 1) + each for which in range(4))
            for nodes in (complete, opened, reached, passed):
                yield nodes[1:], nodes[:-1], ENDLESS
            yield complete, opened, ENDLESS
            yield passed, opened, ENDLESS
            yield passed, reached, ENDLESS
            yield reached, passed, self.rows.bits[tensor]
            if self.rows.made_once[tensor]:
                yield complete, reached, ENDLESS

    def _of_operators(self) -> Iterator[tuple[Numbers, Numbers, int]]:
        """What follows from an output's rows for an input's, and from passed rows for their readers."""
        for number in self.operators:
            for source, made, needed, readers, dense, joined in self.rows.relations[number]:
                if source not in self.nodes or made not in self.nodes:
                    continue
                some = np.flatnonzero(needed)
                behind = needed[some] - 1
                complete, opened = self.node(source, COMPLETE, 1), self.node(source, OPENED, 1)
                if dense:
                    yield self.node(made, OPENED, 0) + some, complete + behind, ENDLESS
                else:
                    yield self.node(made, COMPLETE, 0) + some, complete + behind, ENDLESS
                if not dense and not joined:
                    yield self.node(made, OPENED, 0) + some, opened + behind, ENDLESS
                if readers is not None:
                    some = np.flatnonzero(readers)
                    reached = self.node(made, REACHED, 1) + readers[some] - 1
                    yield self.node(source, PASSED, 0) + some, reached, ENDLESS

    def live_bits(self, least: int, in_time: InTime) -> int:
        """Bits that are live at some moment of every plan, if they are more than ``least``; else that."""
        for limited in self._limited():
            for share in SHARES:
                least = self._within(self._limits(limited, share), least, in_time)
        return least

    def _limited(self) -> list[list[int]]:
        """Sets of tensors to limit: those of several readers, and those made of all channels of others."""
        made = [
            (t, self.rows.relations[n]) for n in self.operators for t in self.rows.graph.operators[n].outputs
        ]
        known = [
            (tensor, relations)
            for tensor, relations in made
            if self.rows.bits[tensor] and not any(relation.joined for relation in relations)
        ]
        shared = [tensor for tensor, _ in known if len(self.rows.graph.consumers[tensor]) > 1]
        dense = [tensor for tensor, relations in known if all(relation.dense for relation in relations)]
        return [_thinned(tensors, MOST_LIMITED) for tensors in (shared, dense) if tensors]

    def _limits(self, limited: Sequence[int], share: float) -> dict[int, int]:
        counts = self.rows.counts
        return {tensor: min(counts[tensor] - 1, int(share * counts[tensor])) for tensor in limited}

    def _within(self, limits: dict[int, int], least: int, in_time: InTime) -> int:
        """The most that the exits from such limits prove as one after the other is given up; or ``least``."""
        known = dict.fromkeys(limits, 0)
        while limits:
            # the exit that was the cheapest before is likely to be it again: that ends the round early
            for tensor in sorted(limits, key=lambda tensor: known[tensor]):
                if not in_time():
                    return least
                known[tensor] = self.exit(tensor, limits)
                if known[tensor] <= least:
                    del limits[tensor]
                    break
            else:
                cheapest = min(limits, key=lambda tensor: known[tensor])
                if known[cheapest] >= ENDLESS:
                    return least
                least = known[cheapest]
                del limits[cheapest]
        return least

    def exit(self, tensor: int, limits: dict[int, int]) -> int:
        """The least bits that are live while this tensor goes beyond its limit as the first one does.

        ENDLESS or more: it cannot be the first.
        """
        limit = limits[tensor]
        true = [self.node(tensor, OPENED, limit)] if limit else []
        (maker,) = {self.rows.graph.producers[tensor]}
        assert maker is not None
        for relation in self.rows.relations[maker]:
            needed = int(relation.needed[limit + 1])
            if relation.made == tensor and relation.source in self.nodes and needed:
                true.append(self.node(relation.source, COMPLETE if relation.dense else OPENED, needed))
        false = [self.node(one, OPENED, most + 1) for one, most in limits.items()]
        return self._cut(true, false) if true else 0

    def _cut(self, true: Sequence[int], false: Sequence[int]) -> int:
        """The least bits of a frontier where some nodes are known to hold, and some not to."""
        from ortools.graph.python.max_flow import SimpleMaxFlow

        flow: SimpleMaxFlow = SimpleMaxFlow()
        forced = len(true) + len(false)
        tails = np.concatenate(
            [self._tails, np.array([*[NOTHING_BEGUN] * len(true), *false], dtype=np.int64)]
        )
        heads = np.concatenate([self._heads, np.array([*true, *[ALL_DONE] * len(false)], dtype=np.int64)])
        costs = np.concatenate([self._costs, np.full(forced, ENDLESS, dtype=np.int64)])
        flow.add_arcs_with_capacity(tails, heads, costs)
        if flow.solve(NOTHING_BEGUN, ALL_DONE) != SimpleMaxFlow.OPTIMAL:
            return 0  # more than the library can add up: nothing is proven
        return int(flow.optimal_flow())
