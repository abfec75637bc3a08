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

A producer can also make all rows of an iteration's windows *anew*: rows 0 1 2, then 1 2 3 4, 3 4 5 6 and
5 6 7. That is more work, but nothing has to stay for the next iteration. So loops inside may move its tile.
Rows and columns are alike, each with a loop of its own. Below a loop over rows and one over columns a layer
can make tiles of both anew, or columns anew with rows that stay, or the other way round.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from costmodel.mapping.fused.layers.group import Intermediate, IntermediateRead, LayerGroup, SlidingRead
from costmodel.mapping.fused.mapping import MadeAnew

Rows = tuple[tuple[int, int], ...]
"""Of each iteration of a loop, the rows that a layer makes: the first one, and the first one behind them."""


def rows_made(
    group: LayerGroup,
    position: int,
    name: str,
    step: int,
    last: int,
    anew: Collection[MadeAnew] = (),
) -> Rows | None:
    """The rows that a layer makes in each iteration of the loop ``name`` with this step.

    ``last``: the last layer below the loop; what later ones read does not count. ``anew``: the layers that
    make rows anew, each with the loop in which it does. None where no layer up to ``last`` has the windows,
    or where one reads the rows along another dim, so that the loop cannot cut them.
    """
    # The loop's own layer makes ``step`` rows at a time. Any other makes what its readers need next, so its
    # readers are asked first.
    if (own := group.dim_of[position].get(name)) is not None:
        size = group.layers[position].sizes[own]
        return tuple((end - step, end) for end in range(step, size + 1, step))
    rows = group.layers[position].sizes[group.slides[position][name]]
    readers: list[tuple[Link | None, Rows]] = []
    for _, link, reader in _reads(group, position, name, last):
        points = rows_made(group, reader, name, step, last, anew) if link is not None else None
        if points is None:
            return None
        readers.append((link, points))
    if not readers:
        return None
    found, before, count = [], 0, len(readers[0][1])
    for number in range(count):
        end = max(_needed(link, points[number][1], rows) for link, points in readers)
        # the last iteration makes what is left, if nothing reads it
        end = rows if number == count - 1 else end
        begin = before
        if (group.layers[position].name, name) in anew:
            reading = [(link, *points[number]) for link, points in readers]
            begin = min([before, *(_begins(link, first) for link, first, stop in reading if first < stop)])
        found.append((begin, end))
        before = end
    return tuple(found)


def kept_rows(
    group: LayerGroup,
    one: Intermediate,
    name: str,
    step: int,
    last: int,
    anew: Collection[MadeAnew] = (),
) -> tuple[int, int]:
    """The most rows that an intermediate's backing tile has below the loop ``name``, and the most that stay.

    Those that stay are there in the next iteration, too; none where the producer makes them ``anew``.

    The loop and the layers are such that :func:`rows_made` is not None.
    """
    made = rows_made(group, one.producer, name, step, last, anew)
    assert made is not None, "rows of loops that slide along nothing are not asked for"
    if (group.layers[one.producer].name, name) in anew:
        return max(end - begin for begin, end in made), 0
    # In iteration i the tile reaches from the first row that some reader still needs, now or later, to the
    # last one made.
    ends = [end for _, end in made]
    begins = [begin for begin, _ in made]
    for _, link, reader in _reads(group, one.producer, name, last):
        points = rows_made(group, reader, name, step, last, anew)
        assert points is not None, "a producer's rows are known from all of its readers"
        needed: int | None = None
        for number in reversed(range(len(points))):
            first, stop = points[number]
            if first < stop:
                row = _begins(link, first)
                needed = row if needed is None else min(needed, row)
            if needed is not None:
                begins[number] = min(begins[number], needed)
    most = max(end - first for end, first in zip(ends, begins, strict=True))
    carried = max((end - first for end, first in zip(ends, begins[1:], strict=False)), default=0)
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


def _begins(link: Link | None, point: int) -> int:
    """The first row that the reader's row ``point`` needs."""
    return link.begins(point) if isinstance(link, SlidingRead) else point
