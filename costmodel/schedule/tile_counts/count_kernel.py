"""Compiled: what happens within one tile, for many mappings, as :mod:`.tile_count` counts it for one.

Of a mapping on the stack of a tile's levels it counts what the buffer and everything inside it do. The
buffer, which is the outermost level, is filled with each tensor's tile once, by whatever lies outside.
Importing this module imports numba: :mod:`.batch` does it when it first counts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined
from costmodel.mapping.batch.batch_kernel import begin_row, blocks, fill_partitions, prepare_row
from costmodel.mapping.batch.counting_kernel import delivered_words, filled, level_cycles, sent

if TYPE_CHECKING:
    from costmodel.mapping.batch.batch_tables import BatchRows, RowCounts, Tables

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


class TileCountColumns(NamedTuple):
    """The fields of a ``TileCount``, an array [n] for each."""

    energy_pj: Array
    filling_pj: Array
    leakage_pj_per_cycle: Array
    cycles: Array


class TileAccessEnergies(NamedTuple):
    """Workspace for one mapping: the energy of accesses in pJ."""

    inside: Array
    """[levels, tensors] of all instances of a level; at the outermost level without what fills it."""
    filling: Array
    """[tensors] of what fills the outermost level."""


@entry
def count_tiles(
    tables: Tables,
    sizes: Array,
    mac_pj: float,
    rows: BatchRows,
    counts: RowCounts,
    energies: TileAccessEnergies,
    found: TileCountColumns,
) -> Int:
    """Fill ``found`` and return -1, or the first row that is no valid mapping of its layer.

    Row i maps a layer of ``sizes[i]`` [dims], all of the same dims and tensors; ``tables.sizes`` are
    overwritten with them. ``mac_pj`` is the energy of one MAC.
    """
    levels, tensors = energies.inside.shape
    for row in range(sizes.shape[0]):
        macs: Int = 1
        for dim in range(sizes.shape[1]):
            tables.sizes[dim] = sizes[row, dim]
            macs *= sizes[row, dim]
        if not prepare_row(tables, rows, row, counts):
            return row
        found.cycles[row] = _count_accesses(tables, rows, row, counts, energies)
        # Sums of floating-point numbers depend on their order: this is that of ``counted_on_stack``.
        energy_pj, filling_pj, leakage = macs * mac_pj, 0.0, 0.0
        for level in range(levels):
            leakage += tables.leakage_pj[level] * counts.instances[level]
            for tensor in range(tensors):
                energy_pj += energies.inside[level, tensor]
        for tensor in range(tensors):
            filling_pj += energies.filling[tensor]
        found.energy_pj[row] = energy_pj
        found.filling_pj[row] = filling_pj
        found.leakage_pj_per_cycle[row] = leakage
    return -1


@inlined
def _count_accesses(
    tables: Tables, rows: BatchRows, row: int, counts: RowCounts, energies: TileAccessEnergies
) -> Int:
    """The cycles of a prepared row; fills ``energies``.

    The words are counted as in ``batch_kernel.py``, from the MAC units outwards. Energies are kept apart, to
    be added up in another order.
    """
    levels, tensors = energies.inside.shape
    compute_cycles = begin_row(rows, row, counts)
    for tensor in range(tensors):
        is_output = tensor == tables.output
        if is_output:
            fill_partitions(tables, rows, row, tensor, counts)
        through = compute_cycles
        for level in range(levels):
            energies.inside[level, tensor] = 0.0
            through *= counts.groups[level, tensor]
            if not rows.keep[row, level, tensor]:
                continue
            words = counts.words[level, tensor]
            # no loop lies outside the outermost level, so that its tile is delivered once
            delivered = delivered_words(tables, tensor, counts.tiles[level], words, 1, counts.loops, level)
            reads, updates = sent(is_output, through, counts.partitions[level])
            fills = filled(is_output, delivered, counts.partitions[level])
            counts.read_demand[level] += reads / compute_cycles
            counts.write_demand[level] += (fills + updates) / compute_cycles
            block, instances = tables.block_size[level], counts.instances[level]
            filling_pj = blocks(fills, block) * tables.write_pj[level]
            inside_pj = blocks(reads, block) * tables.read_pj[level]
            if level == levels - 1:
                energies.filling[tensor] = instances * filling_pj
            else:
                inside_pj += filling_pj
            inside_pj += blocks(updates, block) * tables.update_pj[level]
            energies.inside[level, tensor] = instances * inside_pj
            through = delivered
    cycles: Int = compute_cycles
    for level in range(levels):
        read, write = counts.read_demand[level], counts.write_demand[level]
        cycles = max(cycles, np.int64(level_cycles(tables, level, read, write, compute_cycles)))
    return cycles
