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
from costmodel.mapping.counting_kernel import distinct_pairs

if TYPE_CHECKING:
    from costmodel.mapping.batch_tables import Nest, Rows, Tables

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


@inlined
def count_groups(tables: Tables, rows: Rows, row: int, nest: Nest) -> None:
    """Fill ``nest.groups`` (item 5): how many different tiles the children below each spatial block hold."""
    levels, tensors = nest.groups.shape
    for level in range(levels):
        for tensor in range(tensors):
            nest.groups[level, tensor] = 1
        for dim in range(rows.temporal.shape[2]):
            bound = rows.spatial_x[row, level, dim] * rows.spatial_y[row, level, dim]
            if bound > 1:
                for tensor in range(tensors):
                    if tables.relevant[tensor, dim]:
                        nest.groups[level, tensor] *= bound
        for tensor in range(tensors):
            if tables.slides[tensor] and nest.groups[level, tensor] > 1:
                _merge_equal(tables, rows, row, level, tensor, nest)


@inlined
def _merge_equal(tables: Tables, rows: Rows, row: int, level: int, tensor: int, nest: Nest) -> None:
    """Count the children that a sliding axis takes to equal positions once.

    ``nest.groups`` has counted all children along an axis as different; where several of its dims are
    spread, that factor is replaced by how many different positions they reach."""
    for axis in range(tables.axes[tensor]):
        count, children = 0, 1
        for term in range(tables.term_dims.shape[2]):
            dim = tables.term_dims[tensor, axis, term]
            bound = rows.spatial_x[row, level, dim] * rows.spatial_y[row, level, dim] if dim >= 0 else 1
            if bound > 1:
                inner = nest.tiles[level - 1, dim] if level else 1
                nest.term_bounds[count] = bound
                nest.term_strides[count] = inner * tables.term_steps[tensor, axis, term]
                count += 1
                children *= bound
        if count > 1:
            bounds, strides = nest.term_bounds, nest.term_strides
            if count == 2:
                distinct = distinct_pairs(bounds[0], strides[0], bounds[1], strides[1])
            else:
                distinct = _distinct_sums(nest, count)
            nest.groups[level, tensor] = nest.groups[level, tensor] // children * distinct


@inlined
def _distinct_sums(nest: Nest, count: int) -> Int:
    """How many positions ``count`` loops along one axis reach, for three or more.

    There is no short formula: all sums are listed in ``nest.sums``, one loop after the other, and repetitions
    dropped before the next loop multiplies their number."""
    nest.sums[0], distinct = 0, 1
    for term in range(count):
        bound, stride = nest.term_bounds[term], nest.term_strides[term]
        for index in range(1, bound):
            for known in range(distinct):
                nest.sums[index * distinct + known] = nest.sums[known] + index * stride
        distinct = _sorted_once(nest.sums, bound * distinct)
    return distinct


@inlined
def _sorted_once(values: Array, count: int) -> Int:
    """Sort the first ``count`` values (Shell 1959) and drop repetitions; how many are left."""
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
