"""How many words enter a tile while the loops above it run: the closed form that all counts rest on.

A tile is a box of its tensor. When a loop moves it, only the words that the tile did not have before enter::

    before   [a b c d]
    after        [c d e f]     c and d stay, e and f enter

All iterations of a loop move the tile by the same step, except the first one of a sliding window and the
last one where the step does not divide the extent. The count therefore looks at most three times at what a
loop has inside, however many iterations it has.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import prod

from costmodel.mapping.fused.problem import AxisTerms


@dataclass(frozen=True)
class Span:
    """A stretch of a dim: ``extent`` indices from ``offset`` on.

    ``lead`` of them are the head of a sliding window, which the first iteration of a shared loop makes.
    """

    offset: int
    extent: int
    lead: int = 0


Spans = Mapping[str, Span]
"""The stretch of every dim that is worked on."""


@dataclass(frozen=True)
class PlacedLoop:
    """A loop over ``dim``; an iteration leaves ``step`` indices of it.

    ``slides``: a shared loop over windows, whose first iteration takes the span's lead as well. Any other
    loop cuts the span as it is, and its last iteration may be shorter.
    """

    dim: str
    step: int
    slides: bool = False

    def runs(self, span: Span) -> Iterator[tuple[int, Span]]:
        """Runs of equal iterations, first to last: how many, and the span of the run's first iteration."""
        offset, extent = span.offset, span.extent
        if self.slides and span.lead:
            first = min(self.step + span.lead, extent)
            yield 1, Span(offset, first, span.lead)
            offset, extent = offset + first, extent - first
        whole, rest = divmod(extent, self.step)
        if whole:
            yield whole, Span(offset, self.step)
        if rest:
            yield 1, Span(offset + whole * self.step, rest)


def begun(loops: tuple[PlacedLoop, ...], spans: Spans) -> Spans:
    """The spans of the first iteration of all these loops: the largest there are."""
    current = dict(spans)
    for loop in loops:
        _, current[loop.dim] = next(loop.runs(current[loop.dim]))
    return current


def tile_words(axes: tuple[AxisTerms, ...], spans: Spans) -> int:
    """The words of a tensor that the points in ``spans`` touch."""
    return prod(indices(axis, spans)[1].bit_count() for axis in axes)


def words_entering(
    axes: tuple[AxisTerms, ...],
    loops: tuple[PlacedLoop, ...],
    spans: Spans,
    emptied_below: int,
) -> int:
    """Words that enter a tile below ``loops`` (outermost first), from the first iteration to the last.

    Every iteration of the ``emptied_below`` outermost loops finds the tile empty; within them, what the last
    position of the tile has in common with the next one stays.
    """
    return _Movement(axes, loops, emptied_below).visit(0, spans).words


@dataclass(frozen=True)
class _Visit:
    """What happens below some loops: ``words`` that enter an empty tile, its first and its last position."""

    words: int
    first: Spans
    last: Spans


@dataclass(frozen=True)
class _Movement:
    axes: tuple[AxisTerms, ...]
    loops: tuple[PlacedLoop, ...]
    emptied_below: int

    def visit(self, depth: int, spans: Spans) -> _Visit:
        """The visit of the loops from ``depth`` inwards, with these spans above them."""
        if depth == len(self.loops):
            return _Visit(tile_words(self.axes, spans), spans, spans)
        loop, words = self.loops[depth], 0
        first: Spans | None = None
        last: Spans | None = None
        for times, span in loop.runs(spans[loop.dim]):
            inner = self.visit(depth + 1, {**spans, loop.dim: span})
            # The iterations of a run do the same, each one step further along the dim. So each brings in what
            # an empty tile would need, less the words that the end of one iteration and the beginning of the
            # next have in common: (times - 1) times between two iterations of this run, and once between the
            # run before and this one.
            beyond = _moved(inner.last, loop.dim, (times - 1) * span.extent)
            words += times * inner.words
            if depth >= self.emptied_below:
                words -= (times - 1) * self._common(inner.last, _moved(inner.first, loop.dim, span.extent))
                words -= self._common(last, inner.first) if last is not None else 0
            first, last = first or inner.first, beyond
        if first is None or last is None:
            raise AssertionError("every span has at least one iteration")
        return _Visit(words, first, last)

    def _common(self, before: Spans, after: Spans) -> int:
        """Words that two positions of the tile have in common."""
        return prod(_common_indices(indices(axis, before), indices(axis, after)) for axis in self.axes)


def indices(axis: AxisTerms, spans: Spans) -> tuple[int, int]:
    """The indices of an axis that are touched: the first one, and a bit for each from there on.

    A range would not do, because a stride leaves gaps: 2*q with three q touches 0, 2 and 4, bits 10101.
    """
    start, bits = 0, 1
    for dim, times in axis:
        span = spans[dim]
        start += times * span.offset
        reached = 0
        if times == 1 and bits & (bits + 1) == 0:
            # a stretch of ones, made longer: the case of nearly every axis
            reached = (1 << (bits.bit_length() + span.extent - 1)) - 1
        else:
            for index in range(span.extent):
                reached |= bits << (times * index)
        bits = reached
    return start, bits


def _common_indices(one: tuple[int, int], other: tuple[int, int]) -> int:
    (start, bits), (other_start, other_bits) = sorted((one, other))
    return (bits >> (other_start - start) & other_bits).bit_count()


def _moved(spans: Spans, dim: str, by: int) -> Spans:
    span = spans[dim]
    return {**spans, dim: Span(span.offset + by, span.extent, span.lead)}
