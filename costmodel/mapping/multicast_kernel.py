"""The part of :mod:`costmodel.mapping.batch_kernel` that counts who gets the same tile, to be sent once (item
5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from costmodel.compiled import inlined

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
                _merge_equal(tables, rows, (row, level, tensor), nest)


@inlined
def _merge_equal(tables: Tables, rows: Rows, place: tuple[int, int, int], nest: Nest) -> None:
    """Count the children that a sliding axis takes to equal positions once."""
    row, level, tensor = place
    for axis in range(tables.axes[tensor]):
        count, children = 0, 1
        for term in range(tables.term_dims.shape[2]):
            dim = tables.term_dims[tensor, axis, term]
            bound = rows.spatial_x[row, level, dim] * rows.spatial_y[row, level, dim] if dim >= 0 else 1
            if bound > 1:
                inner = nest.tiles[level - 1, dim] if level else 1
                nest.terms[0, count] = bound
                nest.terms[1, count] = inner * tables.term_steps[tensor, axis, term]
                count += 1
                children *= bound
        if count > 1:
            distinct = _distinct_pairs(nest.terms) if count == 2 else _distinct_sums(nest, count)
            nest.groups[level, tensor] = nest.groups[level, tensor] // children * distinct


@inlined
def _distinct_pairs(terms: Array) -> Int:
    """Different values of a*i + b*j, i < bound_a, j < bound_b: (i, j) equals (i - b/g, j + a/g)."""
    bound_a, bound_b = terms[0, 0], terms[0, 1]
    a, b = terms[1, 0], terms[1, 1]
    common = _gcd(a, b)
    return bound_a * bound_b - max(0, bound_a - b // common) * max(0, bound_b - a // common)


@inlined
def _distinct_sums(nest: Nest, count: int) -> Int:
    """The same for ``count`` terms, listed in ``nest.sums`` one term after the other."""
    nest.sums[0], distinct = 0, 1
    for term in range(count):
        bound, stride = nest.terms[0, term], nest.terms[1, term]
        for index in range(1, bound):
            for place in range(distinct):
                nest.sums[index * distinct + place] = nest.sums[place] + index * stride
        distinct = _sorted_once(nest.sums, bound * distinct)
    return distinct


@inlined
def _sorted_once(values: Array, count: int) -> Int:
    """Sort the first ``count`` values (Shell 1959) and drop repetitions; how many are left."""
    gap = count // 2
    while gap > 0:
        for place in range(gap, count):
            value, hole = values[place], place
            while hole >= gap and values[hole - gap] > value:
                values[hole] = values[hole - gap]
                hole -= gap
            values[hole] = value
        gap //= 2
    left = 1
    for place in range(1, count):
        if values[place] != values[left - 1]:
            values[left] = values[place]
            left += 1
    return left


@inlined
def _gcd(a: int, b: int) -> Int:
    while b:
        a, b = b, a % b
    return a
