"""Compiled: the counts that every compiled caller shares, written once.

``batch_kernel.py`` counts whole mappings, row after row; the exact mapper's kernels count a mapping whose
inner levels are still open. Both need the same five counts, and take them from here:

* the words of a tile (items 1 and 10),
* the words delivered into a tile while all loops outside it run (item 3),
* the children of a fan-out that hold different tiles, where two dims of one axis are spread (item 5),
* the reads, fills and updates that moving words makes at either end (item 8),
* the cycles that the bandwidths of a level ask for (item 11).

Item numbers are those of the semantics list in ``costmodel/mapping/counts/traffic.py``. The readable
definition of all of them is ``traffic.py`` and ``latency.py``, to which tests hold these functions equal.

The batch counter passes words as 64-bit integers, the exact mapper as floating-point numbers, because some of
its words are bounds that are no whole numbers. Every function is compiled for either. Counts below 2**53 are
the same in both.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import inlined

if TYPE_CHECKING:
    from costmodel.mapping.batch.batch_tables import Tables, TemporalLoops

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Words = Any
"""A count of words: a 64-bit integer, or a floating-point number where it is a bound."""


@inlined
def extent(tables: Tables, tensor: int, axis: int, tile: Array) -> Int:
    """Words from the first to the last that a tile [dims] touches on one axis of a tensor."""
    length = 1
    for term in range(tables.term_dims.shape[2]):
        dim = tables.term_dims[tensor, axis, term]
        if dim >= 0:
            length += tables.term_steps[tensor, axis, term] * (tile[dim] - 1)
    return length


@inlined
def tile_words(tables: Tables, tensor: int, tile: Array) -> Int:
    """Words of a tensor's tile: the bounding box of what ``tile`` [dims] points of each dim touch."""
    words = 1
    for axis in range(tables.axes[tensor]):
        words *= extent(tables, tensor, axis, tile)
    return words


@inlined
def delivered_words(
    tables: Tables, tensor: int, tile: Array, whole: int, one: Words, loops: TemporalLoops, level: int
) -> Words:
    """Words delivered into the tile of one instance of ``level`` while all loops outside it run (item 3).

    ``tile`` [dims] is what the instance covers and ``whole`` is ``tile_words`` of it. ``one`` is 1, or 1.0
    where the deliveries can be more than a 64-bit integer counts; the result is of its type.
    """
    words = one * whole
    loop, end = loops.starts[level + 1], loops.starts[loops.starts.shape[0] - 1]
    # Loops inside the first one that moves the tile cost nothing: the tile stays where it is.
    while loop < end and not tables.relevant[tensor, loops.dim[loop]]:
        loop += 1
    if not tables.slides[tensor]:  # tiles never overlap, so that every step brings a whole one
        while loop < end:
            words *= loops.bound[loop]
            loop += 1
        return words
    if loop == end:
        return words
    # From here on: the closed form of ``traffic.delivered_words`` for dims that stand on one axis each.
    # A step of the first moving loop moves the tile by ``first`` words along ``axis``; what then overlaps
    # with the tile before stays:
    #
    #     tile before   |-----------------|
    #     tile after           |-----------------|
    #                   |first |         |  new  |      new words of the axis = min(first, extent)
    #
    # When a loop further outside steps, all loops inside it go back to their start, which moves the tile
    # back by ``back``, the sum of their strides (Timeloop looks at their second iteration, not at the last).
    # So the tile moves by ``stride - back`` in all: not at all, or as far as a step of the first loop, or
    # otherwise, which brings a whole tile. Once a loop on another axis has moved the tile, no later step is
    # along one axis alone, and each brings a whole tile.
    # ``extra`` are the words beyond the first tile; every loop repeats those of the loops inside it.
    axis = tables.axis_of[tensor, loops.dim[loop]]
    first = tables.step_of[tensor, loops.dim[loop]] * loops.stride[loop]
    length = extent(tables, tensor, axis, tile)
    new_words = one * (whole // length * min(first, length))
    extra, back, one_axis = (loops.bound[loop] - 1) * new_words, first, True
    for outer in range(loop + 1, end):
        dim, bound = loops.dim[outer], loops.bound[outer]
        cost = words
        if tables.axis_of[tensor, dim] == axis:
            stride = tables.step_of[tensor, dim] * loops.stride[outer]
            if one_axis and stride == back:
                cost = 0
            elif one_axis and stride - back == first:
                cost = new_words
            back += stride
        elif tables.relevant[tensor, dim]:
            one_axis = False
        extra = extra * bound + (bound - 1) * cost
    return words + extra


@inlined
def distinct_pairs(bound_a: int, a: int, bound_b: int, b: int) -> Int:
    """How many values ``a * i + b * j`` takes over ``i < bound_a`` and ``j < bound_b``; a, b at least 1.

    With g the greatest common divisor of a and b, (i, j) and (i - b/g, j + a/g) have the same value, and no
    other pairs have. So every pair that has such a neighbour inside the rectangle repeats a value.
    """
    common, rest = a, b
    while rest:
        common, rest = rest, common % rest
    return bound_a * bound_b - max(0, bound_a - b // common) * max(0, bound_b - a // common)


@inlined
def sent(is_output: bool, words: Words, partition: Words) -> tuple[Words, Words]:
    """Reads and updates of one instance that sends ``words`` inwards, or takes so many in (item 8).

    Of an output the words come back as partial sums: each is an update, and all but the first for each of the
    ``partition`` words that the instance is responsible for (item 9) are read before.
    """
    reads, updates = words, 0
    if is_output:
        reads, updates = max(0, words - partition), words
    return reads, updates


@inlined
def filled(is_output: bool, words: Words, partition: Words) -> Words:
    """Fills of one instance into which ``words`` are delivered (item 8).

    The first visit of each of the ``partition`` words of an output begins at zero and fills nothing.
    """
    return max(0, words - partition) if is_output else words


@inlined
def sums_come_back(tables: Tables, loops: TemporalLoops, first: Int, held: bool) -> bool:
    """Whether the loops from number ``first`` outwards bring more products to sums that were taken away.

    ``held``: whether a level holds the sums inside these loops. Then summed loops directly outside its tile
    leave them where they are (``costmodel/mapping/element_bits.py``).
    """
    loop, end = first, loops.starts[loops.starts.shape[0] - 1]
    while held and loop < end and not tables.relevant[tables.output, loops.dim[loop]]:
        loop += 1
    while loop < end:
        if not tables.relevant[tables.output, loops.dim[loop]]:
            return True
        loop += 1
    return False


@inlined
def level_cycles(tables: Tables, level: int, read: float, write: float, compute_cycles: Words) -> float:
    """Cycles that the bandwidths of a level ask for, a whole number (item 11).

    ``read`` and ``write`` are words per compute cycle and instance. The order of the operations is that of
    ``latency.py``: its roundings decide whether a demand that divides exactly takes one cycle more.
    """
    slowdown = 1.0
    if read > tables.read_bandwidth[level]:
        slowdown = min(slowdown, tables.read_bandwidth[level] / read)
    if write > tables.write_bandwidth[level]:
        slowdown = min(slowdown, tables.write_bandwidth[level] / write)
    if read + write > tables.shared_bandwidth[level]:
        slowdown = min(slowdown, tables.shared_bandwidth[level] / (read + write))
    cycles: float = np.ceil(compute_cycles / slowdown)
    return cycles
