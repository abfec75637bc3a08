"""Shared loops over windows: which rows of a producer each iteration makes, and how many stay for the next.

A loop over the rows of a layer also cuts what the layer reads through windows, and what that is made of.
In every iteration a producer makes the rows that the windows of the iteration reach and no earlier iteration
has made. A 3 x 3 convolution of 8 rows, padded by one row on either side, of which each iteration makes 2::

    iteration                            0          1          2          3
    rows of the producer it reads     0 1 2     1 2 3 4    3 4 5 6    5 6 7
    rows that the producer makes      0 1 2         3 4        5 6        7
    rows that stay for the next one     1 2         3 4        5 6

So the first iteration makes more rows than others, the last one whatever is left, and some may make none. The
rows that a window has in common with the next one stay: a line buffer. No row is made twice.

Rows are counted from the first one: ``made[i]`` are those that exist after iteration i, here 3, 5, 7, 8.
"""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.mapping.fused.layers.group import Intermediate, IntermediateRead, LayerGroup, SlidingRead


def rows_made(group: LayerGroup, position: int, name: str, step: int, last: int) -> tuple[int, ...] | None:
    """How many rows of a layer exist after each iteration of the loop ``name`` with this step.

    ``last``: the last layer below the loop; what later ones read does not count. None where no layer up to
    there has the windows, or where one reads the rows along another dim, so that the loop cannot cut them.
    """
    # The loop's own layer makes ``step`` rows at a time. Any other makes what its readers need next, so its
    # readers are asked first.
    if (own := group.dim_of[position].get(name)) is not None:
        size = group.layers[position].sizes[own]
        return tuple(range(step, size + 1, step))
    rows = group.layers[position].sizes[group.slides[position][name]]
    needs = []
    for _, link, reader in _reads(group, position, name, last):
        points = rows_made(group, reader, name, step, last) if link is not None else None
        if points is None:
            return None
        needs.append([_needed(link, some, rows) for some in points])
    if not needs:
        return None
    made = [max(some) for some in zip(*needs, strict=True)]
    return (*made[:-1], rows)


def kept_rows(group: LayerGroup, one: Intermediate, name: str, step: int, last: int) -> tuple[int, int]:
    """The most rows that an intermediate's backing tile has below the loop ``name``, and the most that stay.

    Those that stay are there in the next iteration, too.

    The loop and the layers are such that :func:`rows_made` is not None.
    """
    # In iteration i the tile reaches from the first row that some reader still needs to the last one made.
    made = rows_made(group, one.producer, name, step, last)
    assert made is not None, "rows of loops that slide along nothing are not asked for"
    begins = list(made)
    for _, link, reader in _reads(group, one.producer, name, last):
        points = rows_made(group, reader, name, step, last)
        assert points is not None, "a producer's rows are known from all of its readers"
        for number, first in enumerate((0, *points[:-1])):
            if first < points[-1]:
                row = link.begins(first) if isinstance(link, SlidingRead) else first
                begins[number] = min(begins[number], row)
    most = max(rows - first for rows, first in zip(made, begins, strict=True))
    carried = max((rows - first for rows, first in zip(made, begins[1:], strict=False)), default=0)
    return most, max(0, carried)


def follows(group: LayerGroup, producer: int, read: IntermediateRead, name: str) -> bool:
    """Whether a loop that slides along a producer's rows cuts this read of them in the same way."""
    return name in group.slides[producer] and _link(group, producer, read, name) is not None


Link = SlidingRead | tuple[str, str]
"""How a reader's rows follow from the producer's: through windows, or one for one (a pair of dims)."""


def _reads(
    group: LayerGroup, position: int, name: str, last: int
) -> Iterator[tuple[IntermediateRead, Link | None, int]]:
    """The reads of a layer's output by layers up to ``last``: each with its link and the reader's number."""
    for one in group.intermediates:
        if one.producer == position:
            for read in one.reads:
                if read.layer <= last:
                    yield read, _link(group, position, read, name), read.layer


def _link(group: LayerGroup, producer: int, read: IntermediateRead, name: str) -> Link | None:
    """How the rows along which the loop ``name`` slides reach the reader; None: along another dim of it."""
    rows = group.slides[producer][name]
    for sliding in read.windows:
        if sliding.made == rows and name in group.followed(read.layer, sliding.used):
            return sliding
    for made, used in read.dims:
        if made == rows and name in group.followed(read.layer, used):
            return made, used
    return None


def _needed(link: Link | None, points: int, rows: int) -> int:
    """How many of ``rows`` rows the reader's first ``points`` rows need."""
    return link.needed(points, rows) if isinstance(link, SlidingRead) else points
