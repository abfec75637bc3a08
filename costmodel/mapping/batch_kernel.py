"""The compiled half of :mod:`costmodel.mapping.batch`: the counts of traffic.py, row after row of arrays.

Item numbers are those of the semantics list in ``tests/data/timeloop/README.md``. Importing this module
imports numba, which takes a while: :mod:`costmodel.mapping.batch` does it when it first evaluates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined
from costmodel.mapping.multicast_kernel import count_groups

if TYPE_CHECKING:
    from costmodel.mapping.batch_tables import Nest, Rows, Tables

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


NEVER = np.iinfo(np.int64).max


@entry
def evaluate_rows(
    tables: Tables, rows: Rows, nest: Nest, cycles: Array, energy_pj: Array, valid: Array
) -> None:
    """Fill ``cycles``, ``energy_pj``, ``valid`` [n]; an invalid row gets the largest int64 and infinity."""
    for row in range(rows.temporal.shape[0]):
        cycles[row] = NEVER
        energy_pj[row] = np.inf
        valid[row] = (
            _products_and_fanouts(tables, rows, row, nest.tiles)
            and _capacity(tables, rows, row, nest.tiles, nest.words)
            and _loops(rows, row, nest.tiles, nest.loops, nest.starts)
        )
        if valid[row]:
            count_groups(tables, rows, row, nest)
            cycles[row], energy_pj[row] = _cost(tables, rows, row, nest)


@inlined
def _products_and_fanouts(tables: Tables, rows: Rows, row: int, tiles: Array) -> bool:
    """Fill ``tiles``: what each dim covers at each level; False if a product or a fan-out is not met."""
    levels, dims = tiles.shape
    for level in range(levels):
        used_x, used_y = 1, 1
        for dim in range(dims):
            x = rows.spatial_x[row, level, dim]
            y = rows.spatial_y[row, level, dim]
            temporal = rows.temporal[row, level, dim]
            if x < 1 or y < 1 or temporal < 1 or (x > 1 and y > 1):
                return False
            used_x *= x
            used_y *= y
            if used_x > tables.fanout_x[level] or used_y > tables.fanout_y[level]:
                return False
            inner = tiles[level - 1, dim] if level else 1
            covered = inner * x * y
            if covered > tables.sizes[dim]:
                return False
            tiles[level, dim] = covered * temporal
            if tiles[level, dim] > tables.sizes[dim]:
                return False
    missing = 0
    for dim in range(dims):
        missing += tables.sizes[dim] - tiles[levels - 1, dim]
    return missing == 0


@inlined
def _loops(rows: Rows, row: int, tiles: Array, loops: Array, starts: Array) -> bool:
    """Fill ``loops`` (dim, bound, stride) with the temporal loops above 1, innermost first, and where each
    level's begin; False if a row of ``permutation`` is not a permutation."""
    levels, dims = tiles.shape
    count = 0
    for level in range(levels):
        starts[level] = count
        seen = 0
        for place in range(dims):
            dim = rows.permutation[row, level, place]
            if dim < 0 or dim >= dims:
                return False
            seen |= 1 << dim
            bound = rows.temporal[row, level, dim]
            if bound > 1:
                loops[0, count] = dim
                loops[1, count] = bound
                loops[2, count] = tiles[level, dim] // bound
                count += 1
        if seen != (1 << dims) - 1:
            return False
    starts[levels] = count
    return True


@inlined
def _capacity(tables: Tables, rows: Rows, row: int, tiles: Array, words: Array) -> bool:
    """Fill ``words`` (items 1 and 10): the tile of each tensor at each level; False if they do not fit."""
    levels, tensors = words.shape
    for level in range(levels):
        kept = 0
        for tensor in range(tensors):
            words[level, tensor] = _words(tables, tensor, tiles[level])
            if rows.keep[row, level, tensor]:
                kept += words[level, tensor]
                if not tables.can_keep[level, tensor]:
                    return False
            elif level == levels - 1:
                return False
        if kept > tables.usable_words[level]:
            return False
    return True


@inlined
def _extent(tables: Tables, tensor: int, axis: int, tile: Array) -> Int:
    """Length of one axis of a tile's bounding box."""
    extent = 1
    for term in range(tables.term_dims.shape[2]):
        dim = tables.term_dims[tensor, axis, term]
        if dim >= 0:
            extent += tables.term_steps[tensor, axis, term] * (tile[dim] - 1)
    return extent


@inlined
def _words(tables: Tables, tensor: int, tile: Array) -> Int:
    words = 1
    for axis in range(tables.axes[tensor]):
        words *= _extent(tables, tensor, axis, tile)
    return words


@inlined
def _cost(tables: Tables, rows: Rows, row: int, nest: Nest) -> tuple[Int, float]:
    """Cycles (item 11) and energy (item 10) of a valid row."""
    levels, tensors = nest.words.shape
    compute_cycles = 1
    for loop in range(nest.starts[levels]):
        compute_cycles *= nest.loops[1, loop]
    nest.instances[levels - 1] = 1
    for level in range(levels - 2, -1, -1):
        nest.instances[level] = nest.instances[level + 1] * _spread(rows, row, level + 1)
    nest.demand[:] = 0.0
    energy_pj = tables.mac_energy_pj
    for tensor in range(tensors):
        energy_pj += _tensor_cost(tables, rows, (row, tensor), nest, compute_cycles)
    cycles = compute_cycles
    for level in range(levels):
        cycles = max(cycles, _level_cycles(tables, level, nest.demand, compute_cycles))
    for level in range(levels):
        energy_pj += tables.leakage_pj[level] * cycles * nest.instances[level]
    return cycles, energy_pj


@inlined
def _spread(rows: Rows, row: int, level: int) -> Int:
    """Children in use below one instance of a level."""
    spread = 1
    for dim in range(rows.temporal.shape[2]):
        spread *= rows.spatial_x[row, level, dim] * rows.spatial_y[row, level, dim]
    return spread


@inlined
def _tensor_cost(
    tables: Tables, rows: Rows, which: tuple[int, int], nest: Nest, compute_cycles: int
) -> float:
    """Energy of one tensor's accesses; adds its words per cycle and instance to ``nest.demand``."""
    row, tensor = which
    output = tensor == tables.output
    if output:
        _shares(tables, rows, which, nest)
    outermost = nest.instances.shape[0] - 1
    energy_pj = 0.0
    through = compute_cycles  # item 4: the MAC units ask for every operand in every cycle
    for level in range(outermost + 1):
        through *= nest.groups[level, tensor]
        if not rows.keep[row, level, tensor]:
            continue  # item 7: what the inner level asks for passes through
        delivered = _delivered(tables, level, tensor, nest) if level < outermost else 0
        reads, fills, updates = through, delivered, 0
        if output:  # item 8
            reads, updates = max(0, through - nest.shares[level]), through
            fills = max(0, delivered - nest.shares[level])
        nest.demand[0, level] += reads / compute_cycles
        nest.demand[1, level] += (fills + updates) / compute_cycles
        energy_pj += nest.instances[level] * (
            _blocks(reads, tables.block_size[level]) * tables.read_pj[level]
            + _blocks(fills, tables.block_size[level]) * tables.write_pj[level]
            + _blocks(updates, tables.block_size[level]) * tables.update_pj[level]
        )
        through = delivered
    return energy_pj


@inlined
def _blocks(words: int, block_size: int) -> Int:
    return words if block_size == 1 else (words + block_size - 1) // block_size


@inlined
def _shares(tables: Tables, rows: Rows, which: tuple[int, int], nest: Nest) -> None:
    """Fill ``nest.shares`` (item 9): each instance's part of the output, from the outermost level inwards."""
    row, tensor = which
    levels, dims = nest.tiles.shape
    share = nest.words[levels - 1, tensor]
    nest.shares[levels - 1] = share
    for level in range(levels - 2, -1, -1):
        for dim in range(dims):
            x, y = rows.spatial_x[row, level + 1, dim], rows.spatial_y[row, level + 1, dim]
            nest.union[dim] = nest.tiles[level, dim] * x * y
        tile, union = nest.words[level, tensor], _words(tables, tensor, nest.union)
        share = share // (union // tile) if union % tile == 0 else share * tile // union
        nest.shares[level] = share


@inlined
def _delivered(tables: Tables, level: int, tensor: int, nest: Nest) -> Int:
    """Item 3: words delivered into one tile at ``level`` while all temporal loops outside it run.

    The closed form of ``traffic.delivered_words``. Where dims stand on one axis each, the first moving loop
    moves the tile by ``first`` along ``axis``; a loop around it costs less than a whole tile only if every
    moving loop so far was on that axis, and moves the tile by ``stride - back``.
    """
    tile = nest.words[level, tensor]
    place, end = nest.starts[level + 1], nest.starts[nest.starts.shape[0] - 1]
    while place < end and not tables.relevant[tensor, nest.loops[0, place]]:
        place += 1
    if not tables.slides[tensor]:
        words = tile
        while place < end:
            words *= nest.loops[1, place]
            place += 1
        return words
    if place == end:
        return tile
    axis = tables.axis_of[tensor, nest.loops[0, place]]
    first = tables.step_of[tensor, nest.loops[0, place]] * nest.loops[2, place]
    extent = _extent(tables, tensor, axis, nest.tiles[level])
    new_words = tile // extent * min(first, extent)
    extra, back, one_axis = (nest.loops[1, place] - 1) * new_words, first, True
    for loop in range(place + 1, end):
        dim, bound = nest.loops[0, loop], nest.loops[1, loop]
        cost = tile
        if tables.axis_of[tensor, dim] == axis:
            stride = tables.step_of[tensor, dim] * nest.loops[2, loop]
            if one_axis and stride == back:
                cost = 0
            elif one_axis and stride - back == first:
                cost = new_words
            back += stride
        elif tables.relevant[tensor, dim]:
            one_axis = False
        extra = extra * bound + (bound - 1) * cost
    return tile + extra


@inlined
def _level_cycles(tables: Tables, level: int, demand: Array, compute_cycles: int) -> Int:
    """Cycles that one level's bandwidths ask for, in the order of latency.py: roundings are part of it."""
    read, write = demand[0, level], demand[1, level]
    slowdown = 1.0
    if read > tables.read_bandwidth[level]:
        slowdown = min(slowdown, tables.read_bandwidth[level] / read)
    if write > tables.write_bandwidth[level]:
        slowdown = min(slowdown, tables.write_bandwidth[level] / write)
    if read + write > tables.shared_bandwidth[level]:
        slowdown = min(slowdown, tables.shared_bandwidth[level] / (read + write))
    return np.int64(np.ceil(compute_cycles / slowdown))
