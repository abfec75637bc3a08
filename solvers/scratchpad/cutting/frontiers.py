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
made, while the others are within theirs (:meth:`LiveWindow.exit`). The least of these exits is a bound.
Limits that are passed cheaply are given up, and the others tried again (:meth:`LiveWindow.live`).

**Any cut.** A piece reads whole rows of the channels that it reads, so columns do not matter; rows of several
bands in one step are taken for made one after the other, for the piece holds all that it reads and makes. A
tensor that is recomputed is complete once and may be gone: paths lead through its rows but begin in none. So
what is proven holds for plans that keep some stated tensors; :mod:`.recomputed` has the least over all
choices of these. Flows are spread evenly over channels, so that each channel leads on to its own; where
tensors were joined they are not even, and lead on to operators that read all channels, or to the same
channels alone.

Bounds of windows of the order that have no tensor in common add up (:mod:`.bounds`).
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from costmodel.scratchpad.cut import may_recompute
from costmodel.scratchpad.divisions import DivisibleGraph, InputRead, RowWindow, Span
from solvers.budget import InTime
from solvers.scratchpad.cutting.proofs import positions

if TYPE_CHECKING:
    from ortools.graph.python.max_flow import SimpleMaxFlow

Numbers = np.ndarray[Any, np.dtype[np.int64]]

MOST_LIMITED = 16
"""Tensors of a window that have limits."""
SHARES = (0.0, 0.5, 0.8, 1.0)
"""Limits, as shares of a tensor's rows; the last row is never within them."""
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


def thinned(numbers: Sequence[int], most: int) -> list[int]:
    """At most so many of them, spread evenly."""
    if len(numbers) <= most:
        return list(numbers)
    return [numbers[index * len(numbers) // most] for index in range(most)]


class Live(NamedTuple):
    """So many bits are live at some moment; the limits of rows that are opened which prove it."""

    bits: int
    limits: Mapping[int, int] = MappingProxyType({})


class _Arcs(NamedTuple):
    """Arcs of a flow network: from ``tails`` to ``heads``, of these ``costs``."""

    tails: Numbers
    heads: Numbers
    costs: Numbers

    @staticmethod
    def of(arcs: Iterable[tuple[Numbers, Numbers, int]]) -> _Arcs:
        """Of groups of arcs that cost the same."""
        own = list(arcs)
        return _Arcs(
            np.concatenate([tails for tails, _, _ in own]),
            np.concatenate([heads for _, heads, _ in own]),
            np.concatenate([np.full(len(tails), cost, dtype=np.int64) for tails, _, cost in own]),
        )

    def with_more(self, other: _Arcs) -> _Arcs:
        return _Arcs(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


class Rows:
    """What is the same for all windows of a graph; ``made``: the tensors of which every row is made."""

    def __init__(self, divisible: DivisibleGraph, made: frozenset[int]) -> None:
        self.divisible, self.graph = divisible, divisible.whole
        self.counts = [extent.rows for extent in divisible.extents]
        bits = divisible.whole.settings.bits_per_element
        self.bits = [extent.channels * extent.elements * bits for extent in divisible.extents]
        """By tensor the bits of one row."""
        self.always_made = made
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


def always_made(divisible: DivisibleGraph) -> frozenset[int]:
    """The tensors of which every row is made in every plan.

    Of a recomputed tensor no row is made that nothing needs, where strides skip it: neither rows that its
    reader skips, nor those that only skipped rows of the reader's output need.
    """
    graph = divisible.whole
    found = {tensor for tensor in range(len(graph.tensors)) if not may_recompute(divisible, tensor)}
    # what a reader makes stands behind what it reads
    for number, operator in reversed(list(enumerate(graph.operators))):
        if operator.outputs[0] in found:
            found.update(t for t in operator.inputs if divisible.reads_all(number, t))
    return frozenset(found)


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


class LiveWindow:
    """The tensors whose positions are in ``[first, end)``, as nodes and arcs of a flow network.

    A tensor of r rows has 4 r nodes: that at least 1, 2 ... r of its rows are complete, opened, reached,
    passed. An arc without an end leads from a node to what follows from it; one from "k are reached" to "k
    are passed" costs the bits of a row.
    """

    def __init__(self, rows: Rows, first: int, end: int) -> None:
        self.rows, self.operators = rows, range(first, end)
        self.tensors = [t for t, place in enumerate(positions(rows.graph)) if first <= place < end]
        self.nodes: dict[int, int] = {}
        self.count = 2
        for tensor in self.tensors:
            self.nodes[tensor] = self.count
            self.count += 4 * rows.counts[tensor]
        self._arcs = _Arcs.of([*self._orders(), *self._of_operators()])

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

    def _keeping(self, kept: Container[int]) -> _Arcs:
        """All arcs where these tensors are kept: their complete rows are reached."""
        own = [tensor for tensor in self.tensors if tensor in kept]
        if not own:
            return self._arcs
        each = [np.arange(self.rows.counts[tensor], dtype=np.int64) for tensor in own]
        pairs = [
            (self.node(tensor, COMPLETE, 1) + rows, self.node(tensor, REACHED, 1) + rows, ENDLESS)
            for tensor, rows in zip(own, each, strict=True)
        ]
        return self._arcs.with_more(_Arcs.of(pairs))

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

    def live(self, kept: Container[int], least: Live, in_time: InTime) -> Live:
        """What is live at some moment of every plan that keeps these tensors, if more than ``least``."""
        arcs = self._keeping(kept)
        for limited in self._limited():
            for share in SHARES:
                least = self._within(arcs, self._limits(limited, share), least, in_time)
        return least

    def live_within(self, kept: Container[int], least: Live, in_time: InTime) -> Live:
        """The same by the limits alone that proved ``least``, of plans that keep more tensors."""
        return self._within(self._keeping(kept), dict(least.limits), least, in_time)

    def _limited(self) -> list[list[int]]:
        """Sets of tensors to limit: those of several readers, and those made of all channels of others.

        Their last row is made in every plan, so there is a moment at which one goes beyond its limit.
        """
        made = [
            (t, self.rows.relations[n]) for n in self.operators for t in self.rows.graph.operators[n].outputs
        ]
        known = [
            (tensor, relations)
            for tensor, relations in made
            if self.rows.bits[tensor]
            and tensor in self.rows.always_made
            and not any(relation.joined for relation in relations)
        ]
        shared = [tensor for tensor, _ in known if len(self.rows.graph.consumers[tensor]) > 1]
        dense = [tensor for tensor, relations in known if all(relation.dense for relation in relations)]
        return [thinned(tensors, MOST_LIMITED) for tensors in (shared, dense) if tensors]

    def _limits(self, limited: Sequence[int], share: float) -> dict[int, int]:
        counts = self.rows.counts
        return {tensor: min(counts[tensor] - 1, int(share * counts[tensor])) for tensor in limited}

    def _within(self, arcs: _Arcs, limits: dict[int, int], least: Live, in_time: InTime) -> Live:
        """The most that the exits from such limits prove as one after the other is given up; or ``least``."""
        known = dict.fromkeys(limits, 0)
        while limits:
            # the exit that was the cheapest before is likely to be it again: that ends the round early
            for tensor in sorted(limits, key=lambda tensor: known[tensor]):
                if not in_time():
                    return least
                known[tensor] = self.exit(arcs, tensor, limits)
                if known[tensor] <= least.bits:
                    del limits[tensor]
                    break
            else:
                cheapest = min(limits, key=lambda tensor: known[tensor])
                if known[cheapest] >= ENDLESS:
                    return least
                least = Live(known[cheapest], dict(limits))
                del limits[cheapest]
        return least

    def exit(self, arcs: _Arcs, tensor: int, limits: Mapping[int, int]) -> int:
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
        return self._cut(arcs, true, false) if true else 0

    def _cut(self, arcs: _Arcs, true: Sequence[int], false: Sequence[int]) -> int:
        """The least bits of a frontier where some nodes are known to hold, and some not to."""
        from ortools.graph.python.max_flow import SimpleMaxFlow

        flow: SimpleMaxFlow = SimpleMaxFlow()
        known = _Arcs(
            np.array([*[NOTHING_BEGUN] * len(true), *false], dtype=np.int64),
            np.array([*true, *[ALL_DONE] * len(false)], dtype=np.int64),
            np.full(len(true) + len(false), ENDLESS, dtype=np.int64),
        )
        flow.add_arcs_with_capacity(*arcs.with_more(known))
        if flow.solve(NOTHING_BEGUN, ALL_DONE) != SimpleMaxFlow.OPTIMAL:
            return 0  # more than the library can add up: nothing is proven
        return int(flow.optimal_flow())
