"""Strips of the rows of all tensors, of which each proves bytes of its own.

A frontier (:mod:`.frontiers`) or a tower (:mod:`.recomputed`) is live at one moment, and a stream has as many
bytes live again a few rows later, which one moment does not count. So the rows of every tensor are divided
into strips, and each strip is looked at as if it were a graph of its own::

    rows of x   |  strip 0  |  strip 1  |  strip 2  |
    rows of y   |  strip 0  |  strip 1  |  strip 2  |      y reads x by windows of 3 rows

**A strip's rows are made as those of a smaller graph are.** What a row of y needs of x in the strip is some
of what it needs of x. So wherever the row is opened or complete, this was made, and where a row of x is gone,
the rows of y in the strip that read it are opened. These facts of a plan are all that the proofs of frontiers
and towers rest on, besides which tensors may be recomputed and of which every row is made, and that is as in
the whole graph. So for each strip there is a moment at which as many bytes of rows of this strip are live as
are proven of the smaller graph.

**Strips add up.** Their moments may come in any order. At each of them at most the scratchpad's bytes are in
it, so what exceeds these has left and comes back. A byte is of one row, that of a band which is made again,
too, and a row is in one strip. So no byte is counted twice, whichever bands it is moved in.

Tensors with too few rows to be divided, as the mean of a map, stay whole in every strip, and their bytes are
not counted in any.
"""

from __future__ import annotations

from dataclasses import replace

from costmodel.scratchpad.divisions import DivisibleGraph, Division, Extent, Span
from costmodel.scratchpad.graph import GraphTensor

LEAST_ROWS = 2
"""Rows of a tensor in a strip; tensors with fewer are not divided."""


def strips(divisible: DivisibleGraph, parts: int) -> list[DivisibleGraph]:
    """The graph's strips, each a graph with operators and tensors of the same numbers."""
    return [_strip(divisible, part, parts) for part in range(parts)]


def _strip(divisible: DivisibleGraph, part: int, parts: int) -> DivisibleGraph:
    graph = divisible.whole
    spans = [_span(extent, part, parts) for extent in divisible.extents]
    extents = tuple(
        replace(
            extent,
            rows=end - first,
            elements=extent.elements if _divided(extent, parts) else 0,
        )
        for extent, (first, end) in zip(divisible.extents, spans, strict=True)
    )
    tensors = []
    for own, extent in zip(graph.tensors, extents, strict=True):
        size = graph.settings.bytes_of(extent.rows * extent.channels * extent.elements)
        tensors.append(GraphTensor(own.name, size, size, own.given))
    divisions = tuple(
        _within(division, spans, operator.outputs)
        for division, operator in zip(divisible.divisions, graph.operators, strict=True)
    )
    return DivisibleGraph(replace(graph, tensors=tuple(tensors)), extents, divisions)


def _divided(extent: Extent, parts: int) -> bool:
    return extent.rows >= LEAST_ROWS * parts


def _span(extent: Extent, part: int, parts: int) -> Span:
    """The rows of a tensor in a strip."""
    if not _divided(extent, parts):
        return 0, extent.rows
    return extent.rows * part // parts, extent.rows * (part + 1) // parts


def _within(division: Division, spans: list[Span], outputs: tuple[int, ...]) -> Division:
    """The same operator where rows are counted from where the strip begins in its inputs and its output."""
    reads = []
    for read in division.reads:
        window = read.window
        if window is not None:
            before = window.before - spans[outputs[0]][0] * window.stride + spans[read.tensor][0]
            window = replace(window, before=before)
        reads.append(replace(read, window=window))
    return replace(division, reads=tuple(reads))
