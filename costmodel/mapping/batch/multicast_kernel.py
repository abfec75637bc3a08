"""Compiled, for ``batch_kernel.py``: how many children of a fan-out hold different tiles (item 5).

Children that hold equal tiles form a multicast group: a word is sent to them once. Two children can hold the
same tile because a dim that is spread does not move the tensor, or because two spread dims take them to the
same position of a sliding axis: output row 1 with kernel row 0 reads the same input row as output row 0 with
kernel row 1.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from costmodel.compiled import inlined
from costmodel.mapping.batch.counting_kernel import distinct_pairs

if TYPE_CHECKING:
    from costmodel.mapping.batch.batch_tables import BatchRows, RowCounts, Tables

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


@inlined
def count_groups(tables: Tables, rows: BatchRows, row: int, counts: RowCounts) -> None:
    """Fill ``counts.groups``: how many different tiles the children below each spatial block hold (item 5).

    Children differ by every relevant dim that is spread; along sliding axes some of them are equal again."""
    levels, tensors = counts.groups.shape
    for level in range(levels):
        for tensor in range(tensors):
            counts.groups[level, tensor] = 1
        for dim in range(rows.temporal.shape[2]):
            bound = rows.spatial_x[row, level, dim] * rows.spatial_y[row, level, dim]
            if bound > 1:
                for tensor in range(tensors):
                    if tables.relevant[tensor, dim]:
                        counts.groups[level, tensor] *= bound
        for tensor in range(tensors):
            if tables.slides[tensor] and counts.groups[level, tensor] > 1:
                _merge_equal(tables, rows, row, level, tensor, counts)


@inlined
def _merge_equal(
    tables: Tables, rows: BatchRows, row: int, level: int, tensor: int, counts: RowCounts
) -> None:
    """Count the children that a sliding axis takes to equal positions once.

    ``counts.groups`` has counted all children along an axis as different; where several of its dims are
    spread, that factor is replaced by how many different positions they reach.

    Two output rows and three filter rows on six children of a convolution of stride 1 reach four input rows::

                      filter row 0   1   2
        output row 0             0   1   2
        output row 1             1   2   3
    """
    for axis in range(tables.axes[tensor]):
        count, children = 0, 1
        for term in range(tables.term_dims.shape[2]):
            dim = tables.term_dims[tensor, axis, term]
            bound = rows.spatial_x[row, level, dim] * rows.spatial_y[row, level, dim] if dim >= 0 else 1
            if bound > 1:
                inner = counts.tiles[level - 1, dim] if level else 1
                counts.term_bounds[count] = bound
                counts.term_strides[count] = inner * tables.term_steps[tensor, axis, term]
                count += 1
                children *= bound
        if count > 1:
            bounds, strides = counts.term_bounds, counts.term_strides
            if count == 2:
                distinct = distinct_pairs(bounds[0], strides[0], bounds[1], strides[1])
            else:
                distinct = _distinct_sums(counts, count)
            counts.groups[level, tensor] = counts.groups[level, tensor] // children * distinct


@inlined
def _distinct_sums(counts: RowCounts, count: int) -> Int:
    """How many positions ``count`` loops along one axis reach, for three or more.

    There is no short formula. All sums are listed in ``counts.sums``, one loop after the other, and
    repetitions are dropped before the next loop multiplies their number."""
    counts.sums[0], distinct = 0, 1
    for term in range(count):
        bound, stride = counts.term_bounds[term], counts.term_strides[term]
        # The sums known so far stay in front; behind them comes a copy for each further index of this loop.
        for index in range(1, bound):
            for known in range(distinct):
                counts.sums[index * distinct + known] = counts.sums[known] + index * stride
        distinct = _sorted_once(counts.sums, bound * distinct)
    return distinct


@inlined
def _sorted_once(values: Array, count: int) -> Int:
    """Sort the first ``count`` values and drop repetitions; how many are left.

    Shell's method (1959), in place: for a gap, every value is moved forward in steps of the gap past larger
    ones. Gaps are halved; the last one is 1, which sorts what is nearly sorted already.
    """
    gap = count // 2
    while gap > 0:
        for position in range(gap, count):
            value, hole = values[position], position
            while hole >= gap and values[hole - gap] > value:
                values[hole] = values[hole - gap]
                hole -= gap
            values[hole] = value
        gap //= 2
    left = 1
    for position in range(1, count):
        if values[position] != values[left - 1]:
            values[left] = values[position]
            left += 1
    return left
