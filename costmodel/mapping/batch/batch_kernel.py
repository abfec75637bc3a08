"""Compiled: checks and counts whole mappings, row after row of arrays, as ``evaluate`` does one.

What the exact mapper counts as well stands in ``counting_kernel.py``. Item numbers are those of the semantics
list in ``costmodel/mapping/counts/traffic.py``. Importing this module imports numba, which takes a while:
:mod:`costmodel.mapping.batch.batch` does it when it first evaluates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined
from costmodel.mapping.batch.counting_kernel import (
    delivered_words,
    filled,
    level_cycles,
    sent,
    sums_come_back,
    tile_words,
)
from costmodel.mapping.batch.multicast_kernel import count_groups
from costmodel.mapping.batch.timing_kernel import count_walk, walk_cycles

if TYPE_CHECKING:
    from costmodel.mapping.batch.batch_tables import BatchRows, RowCounts, Tables, TemporalLoops

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""

NEVER = np.iinfo(np.int64).max
"""The cycles of a row that is no valid mapping."""
LINK, FILLS, SUMS = range(3)
"""The entries of ``RowCounts.processing``."""


@entry
def evaluate_rows(
    tables: Tables, rows: BatchRows, counts: RowCounts, cycles: Array, energy_pj: Array, valid: Array
) -> None:
    """Fill ``cycles``, ``energy_pj``, ``valid`` [n]; an invalid row gets the largest int64 and infinity."""
    for row in range(rows.temporal.shape[0]):
        cycles[row] = NEVER
        energy_pj[row] = np.inf
        valid[row] = prepare_row(tables, rows, row, counts)
        if valid[row]:
            cycles[row], energy_pj[row] = row_cost(tables, rows, row, counts, tables.mac_energy_pj)


@inlined
def prepare_row(tables: Tables, rows: BatchRows, row: int, counts: RowCounts) -> bool:
    """Fill the ``tiles``, ``words``, ``loops`` and ``groups`` of ``counts``; False if the row is no valid
    mapping."""
    if (
        _products_and_fanouts(tables, rows, row, counts.tiles)
        and _capacity(tables, rows, row, counts.tiles, counts.words)
        and _loops(rows, row, counts.tiles, counts.loops)
        and (not tables.wide_sums or _sums_fit(tables, rows, row, counts))
    ):
        count_groups(tables, rows, row, counts)
        return True
    return False


@inlined
def _products_and_fanouts(tables: Tables, rows: BatchRows, row: int, tiles: Array) -> bool:
    """Fill ``tiles``: what each dim covers at each level.

    False if the factors of a dim do not multiply to its size, a fan-out is exceeded, or a dim stands on both
    sides of one. The product is compared with the size as it grows, so that no row can overflow it."""
    levels, dims = tiles.shape
    # Each level multiplies what the one inside covers. Factors are checked here as well: rows come from
    # searches, whose draws may have left a row invalid.
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
    # No dim covers more than its size, so the differences cannot cancel: 0 means that all are covered.
    missing = 0
    for dim in range(dims):
        missing += tables.sizes[dim] - tiles[levels - 1, dim]
    return missing == 0


@inlined
def _loops(rows: BatchRows, row: int, tiles: Array, loops: TemporalLoops) -> bool:
    """Fill ``loops``; False if a level's row of ``permutation`` does not name every dim once."""
    levels, dims = tiles.shape
    count = 0
    for level in range(levels):
        loops.starts[level] = count
        seen = 0  # a bit for every dim met
        for position in range(dims):
            dim = rows.permutation[row, level, position]
            if dim < 0 or dim >= dims:
                return False
            seen |= 1 << dim
            bound = rows.temporal[row, level, dim]
            if bound > 1:
                loops.dim[count] = dim
                loops.bound[count] = bound
                loops.stride[count] = tiles[level, dim] // bound
                count += 1
        if seen != (1 << dims) - 1:
            return False
    loops.starts[levels] = count
    return True


@inlined
def _capacity(tables: Tables, rows: BatchRows, row: int, tiles: Array, words: Array) -> bool:
    """Fill ``words`` (items 1 and 10): the tile of each tensor at each level.

    False if the tiles that a level keeps do not fit it together, or it cannot keep one of them, or the
    outermost level bypasses a tensor. All outputs are taken to be finished: see :func:`_sums_fit`."""
    levels, tensors = words.shape
    for level in range(levels):
        kept = 0
        for tensor in range(tensors):
            words[level, tensor] = tile_words(tables, tensor, tiles[level])
            if rows.keep[row, level, tensor]:
                kept += words[level, tensor] * tables.units[level, tensor]
                if not tables.can_keep[level, tensor]:
                    return False
            elif level == levels - 1:
                return False
        if kept > tables.usable_words[level]:
            return False
    return True


@inlined
def _sums_fit(tables: Tables, rows: BatchRows, row: int, counts: RowCounts) -> bool:
    """Whether the tiles still fit if outputs are as wide as partial sums wherever more products come.

    ``counts.loops`` must be filled."""
    levels, tensors = counts.words.shape
    inner = -1
    for level in range(levels):
        if not rows.keep[row, level, tables.output]:
            continue
        first = counts.loops.starts[inner + 1] if inner >= 0 else 0
        if sums_come_back(tables, counts.loops, first, inner >= 0) or _sums_are_split(
            tables, rows, row, level
        ):
            kept = counts.words[level, tables.output] * (
                tables.sum_units[level] - tables.units[level, tables.output]
            )
            for tensor in range(tensors):
                if rows.keep[row, level, tensor]:
                    kept += counts.words[level, tensor] * tables.units[level, tensor]
            if kept > tables.usable_words[level]:
                return False
        inner = level
    return True


@inlined
def _sums_are_split(tables: Tables, rows: BatchRows, row: int, level: int) -> bool:
    """Whether fan-outs outside a level spread summed dims, so that its instances have parts of the sums."""
    for outer in range(level + 1, rows.temporal.shape[1]):
        for dim in range(rows.temporal.shape[2]):
            spread = rows.spatial_x[row, outer, dim] * rows.spatial_y[row, outer, dim]
            if spread > 1 and not tables.relevant[tables.output, dim]:
                return True
    return False


@inlined
def row_cost(
    tables: Tables, rows: BatchRows, row: int, counts: RowCounts, mac_energy_pj: float
) -> tuple[Int, float]:
    """Cycles (item 11) and energy in pJ (item 10) of a row that :func:`prepare_row` found valid.

    ``mac_energy_pj`` is that of all MACs.
    """
    levels, tensors = counts.words.shape
    compute_cycles = begin_row(rows, row, counts)
    energy_pj = mac_energy_pj
    for tensor in range(tensors):
        energy_pj += _tensor_cost(tables, rows, row, tensor, counts, compute_cycles)
    cycles: Int = compute_cycles
    if tables.timing.timed is not None:
        cycles = _timed_cycles(tables, rows, row, counts, compute_cycles)
    else:
        for level in range(levels):
            read, write = counts.read_demand[level], counts.write_demand[level]
            cycles = max(cycles, np.int64(level_cycles(tables, level, read, write, compute_cycles)))
    for level in range(levels):
        energy_pj += tables.leakage_pj[level] * cycles * counts.instances[level]
    return cycles, energy_pj


@inlined
def _timed_cycles(tables: Tables, rows: BatchRows, row: int, counts: RowCounts, compute_cycles: int) -> Int:
    """The cycles of a row on a machine with timing (:mod:`costmodel.mapping.timing`)."""
    timing, walk, loops = tables.timing, counts.walk, counts.loops
    inner = float(compute_cycles) if timing.counts_macs else 0.0
    for level in range(timing.inner_levels):
        read, written = counts.read_words[level], counts.written_words[level]
        inner = max(inner, read / tables.read_bandwidth[level])
        inner = max(inner, written / tables.write_bandwidth[level])
        inner = max(inner, (read + written) / tables.shared_bandwidth[level])
    if timing.processes:
        macs = compute_cycles + timing.accumulate * counts.processing[SUMS]
        inner = max(inner, max(macs, counts.processing[LINK]) + counts.processing[FILLS])
    outermost = counts.words.shape[0] - 1
    first = loops.starts[outermost]
    walk.loops[0] = loops.starts[outermost + 1] - first
    for loop in range(walk.loops[0]):
        walk.dim[loop] = loops.dim[first + loop]
        walk.bound[loop] = loops.bound[first + loop]
    count_walk(timing, tables.sizes, walk, False)
    cycles: Int = np.int64(np.ceil(walk_cycles(timing, walk.cycles, inner)))
    return cycles


@inlined
def begin_row(rows: BatchRows, row: int, counts: RowCounts) -> Int:
    """The compute cycles of a row; fills ``counts.instances`` and sets the demands of all levels to zero."""
    levels = counts.words.shape[0]
    compute_cycles: Int = 1
    for loop in range(counts.loops.starts[levels]):
        compute_cycles *= counts.loops.bound[loop]
    # The outermost level is there once; further inside every fan-out multiplies the instances.
    counts.instances[levels - 1] = 1
    for level in range(levels - 2, -1, -1):
        counts.instances[level] = counts.instances[level + 1] * _spread(rows, row, level + 1)
    for level in range(levels):
        counts.read_demand[level] = 0.0
        counts.write_demand[level] = 0.0
        counts.read_words[level] = 0
        counts.written_words[level] = 0
    for cause in range(len(counts.processing)):
        counts.processing[cause] = 0.0
    return compute_cycles


@inlined
def _spread(rows: BatchRows, row: int, level: int) -> Int:
    """Children in use below one instance of a level."""
    spread = 1
    for dim in range(rows.temporal.shape[2]):
        spread *= rows.spatial_x[row, level, dim] * rows.spatial_y[row, level, dim]
    return spread


@inlined
def _tensor_cost(
    tables: Tables, rows: BatchRows, row: int, tensor: int, counts: RowCounts, compute_cycles: int
) -> float:
    """Energy in pJ of one tensor's accesses; its words per cycle and instance are added to the demands."""
    is_output = tensor == tables.output
    if is_output:
        fill_partitions(tables, rows, row, tensor, counts)
    outermost = counts.instances.shape[0] - 1
    energy_pj = 0.0
    # From the MAC units outwards: ``through`` are the words that one child asks for. The fan-out multiplies
    # them by the children that hold different tiles. A level that keeps the tensor answers, and asks only for
    # what is delivered into its own tile; one that does not hands the request on (item 7).
    # ``keepers`` are the levels met so far that keep the tensor. On an array of PEs the partial sums that
    # leave the first of them count (``SUMS``): the second one's updates, divided by the PEs that it serves.
    through = compute_cycles  # item 4: the MAC units ask for every operand in every cycle
    keepers, served = 0, 1
    for level in range(outermost + 1):
        through *= counts.groups[level, tensor]
        if is_output and keepers == 1 and tables.timing.processes:
            served *= _spread_of(tables, rows, row, level, tensor)
        if not rows.keep[row, level, tensor]:
            continue
        delivered = 0  # nothing fills the outermost level
        if level < outermost:
            words = counts.words[level, tensor]
            delivered = delivered_words(tables, tensor, counts.tiles[level], words, 1, counts.loops, level)
        reads, updates = sent(is_output, through, counts.partitions[level])
        fills = filled(is_output, delivered, counts.partitions[level])
        # From here on in units: elements of a precision's widths, an output's being partial sums but for the
        # last update of each sum, which finishes it.
        narrow = tables.units[level, tensor]
        wide = tables.sum_units[level] if is_output else narrow
        finished = 0
        if wide > narrow and not _sums_are_split(tables, rows, row, level):
            finished = min(updates, counts.partitions[level])
        reads, fills, updates = reads * wide, fills * wide, updates * wide - finished * (wide - narrow)
        counts.read_demand[level] += reads / compute_cycles
        counts.write_demand[level] += (fills + updates) / compute_cycles
        if tables.timing.timed is not None:  # known when this is compiled: other machines do without
            counts.read_words[level] += reads
            counts.written_words[level] += fills + updates
        keepers += 1
        if tables.timing.processes:
            _count_links(tables, counts, level, tensor, (reads, updates))
            if is_output and keepers == 2:
                counts.processing[SUMS] = updates / served
        energy_pj += counts.instances[level] * (
            blocks(reads, tables.block_size[level]) * tables.read_pj[level]
            + blocks(fills, tables.block_size[level]) * tables.write_pj[level]
            + blocks(updates, tables.block_size[level]) * tables.update_pj[level]
        )
        through = delivered
    return energy_pj


@inlined
def _spread_of(tables: Tables, rows: BatchRows, row: int, level: int, tensor: int) -> Int:
    """Children in use below one instance of a level that hold different parts of a tensor, by its dims."""
    spread = 1
    for dim in range(rows.temporal.shape[2]):
        if tables.relevant[tensor, dim]:
            spread *= rows.spatial_x[row, level, dim] * rows.spatial_y[row, level, dim]
    return spread


@inlined
def _count_links(tables: Tables, counts: RowCounts, level: int, tensor: int, moved: tuple[Int, Int]) -> None:
    """Raise ``counts.processing`` by the words that one instance reads and updates, a tensor of a level."""
    timing, (reads, updates) = tables.timing, moved
    # a first partial sum is a zero that comes in over the link, too
    inwards = updates if tensor == tables.output else reads
    cycles = max(inwards / timing.link_read[level, tensor], updates / timing.link_write[level, tensor])
    counts.processing[LINK] = max(counts.processing[LINK], cycles)
    if level == counts.instances.shape[0] - 1:
        counts.processing[FILLS] += reads / timing.fill[tensor]


@inlined
def blocks(words: int, block_size: int) -> Int:
    """Accesses for so many words (item 10); the branch spares most machines a division."""
    return words if block_size == 1 else (words + block_size - 1) // block_size


@inlined
def fill_partitions(tables: Tables, rows: BatchRows, row: int, tensor: int, counts: RowCounts) -> None:
    """Fill ``counts.partitions`` (item 9): the words of the output that one instance of each level is
    responsible for and begins at zero, from the whole output at the outermost level inwards; none where
    partial sums are there before."""
    levels, dims = counts.tiles.shape
    words = 0 if tables.begun else counts.words[levels - 1, tensor]
    counts.partitions[levels - 1] = words
    for level in range(levels - 2, -1, -1):
        for dim in range(dims):
            x, y = rows.spatial_x[row, level + 1, dim], rows.spatial_y[row, level + 1, dim]
            counts.union[dim] = counts.tiles[level, dim] * x * y
        tile, union = counts.words[level, tensor], tile_words(tables, tensor, counts.union)
        # The same quotient either way; dividing first, where that is exact, keeps the product within 64 bits.
        words = words // (union // tile) if union % tile == 0 else words * tile // union
        counts.partitions[level] = words
