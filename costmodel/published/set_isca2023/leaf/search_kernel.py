"""The compiled half of :mod:`.search`: the best partition and placement of one layer.

The search is exhaustive but for bounds. Each partition has a lower bound on its value under any placement;
partitions are tried in ascending order of it, until it exceeds the best value found. Within a partition a
placement is given up once its hops alone make it worse than the best.
"""

from __future__ import annotations

from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import called, entry, inlined
from costmodel.published.set_isca2023.leaf.hops_kernel import hop_bytes
from costmodel.published.set_isca2023.leaf.partition_kernel import dram_bytes, least_hops
from costmodel.published.set_isca2023.leaf.values import (
    CYCLES,
    DIRECT,
    DRAM,
    HELD,
    HOPS,
    PARTS,
    STEPS,
    TILE,
    ReleasedLeaf,
    ReleasedPlacement,
    ReleasedPrices,
    ReleasedTable,
    ReleasedWorkspace,
)
from costmodel.published.set_isca2023.nvdla_tile.mapper_kernel import objective_value
from costmodel.schedule.leaf.kernels.placement_kernel import axes_cut, steps_of, tile_of
from costmodel.schedule.leaf.kernels.ranges_kernel import (
    ANY,
    INPUTS,
    WEIGHTS,
    Four,
    Ranges,
    ceil_divided,
    fill_ranges,
    size_of,
)

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Int64 = numba.int64
Best = tuple[float, Int, Int, Int]
"""The best placement so far: its value, the partition's row in the table, the number of its placement order,
and its hops times bytes."""


@entry
def search(
    workspace: ReleasedWorkspace,
    leaf: ReleasedLeaf,
    table: ReleasedTable,
    prices: ReleasedPrices,
    bounds: Array,
    answer: tuple[Array, Array],
) -> None:
    """Fill ``answer``: (row of the table, number of the order) [2], and the numbers of a ReleasedLeafCost.

    ``bounds`` [n] is workspace for the lower bound of each partition. The first loop fills it, and tries
    placements that match a producer's, to have a good value to compare with early. The second loop takes
    partitions by ascending bound; one that is taken gets an infinite bound.

    Of equally cheap ones the first is taken, by row and then by order, as if all were tried in the table's
    order. So a partition whose bound equals the best value is still tried if it comes earlier in the table.
    """
    # Int64, here and below: what is called with literal numbers would be compiled once more for them.
    best: Best = (np.inf, Int64(-1), Int64(0), Int64(0))
    for row in range(table.parts.shape[0]):
        fill_ranges(leaf.space, leaf.sizes, table.parts[row], workspace.ranges, True)
        dram = dram_bytes(workspace.ranges, leaf, table.parts[row])
        bounds[row] = _value(table, prices, row, least_hops(workspace, leaf, table.parts[row]), dram)
        number = _as_a_producer(leaf, table, row)
        if number >= 0:
            best = _tried(workspace, leaf, table, prices, (row, number, dram), best)
    for _ in range(table.parts.shape[0]):
        cheapest: Int = np.argmin(bounds)
        least = bounds[cheapest]
        bounds[cheapest] = np.inf
        if least > best[0]:
            break
        # A bound that equals the best value cannot be beaten, only met; that counts for rows further up in
        # the table alone, as the first of equals is taken.
        if least == best[0] and cheapest > best[1]:
            continue
        parts = table.parts[cheapest]
        fill_ranges(leaf.space, leaf.sizes, parts, workspace.ranges, True)
        dram = dram_bytes(workspace.ranges, leaf, parts)
        for number in range(table.counts[axes_cut(parts)]):
            best = _tried(workspace, leaf, table, prices, (cheapest, number, dram), best)
    answer[0][0], answer[0][1] = best[1], best[2]
    parts = table.parts[best[1]]
    steps = steps_of(parts, table.orders[axes_cut(parts), best[2]])
    # Links are counted now, for the one placement that was picked: contention has no say in the choice.
    _fill_numbers(workspace, ReleasedPlacement(leaf, parts, steps, True), answer[1])
    waiting = ceil_divided(answer[1][DRAM], prices.dram_bytes_per_cycle)
    answer[1][CYCLES] = max(table.cycles[best[1]], waiting)


@called
def _tried(
    workspace: ReleasedWorkspace,
    leaf: ReleasedLeaf,
    table: ReleasedTable,
    prices: ReleasedPrices,
    candidate: tuple[Int, Int, Int],
    best: Best,
) -> Best:
    """The better of ``best`` and ``candidate`` = (row, order, DRAM bytes).

    The caller has filled in the ranges of the candidate's partition.
    """
    row, number, dram = candidate
    parts = table.parts[row]
    most = _most_hops(table, prices, row, dram, best[0])
    steps = steps_of(parts, table.orders[axes_cut(parts), number])
    hops = hop_bytes(workspace, ReleasedPlacement(leaf, parts, steps, False), most)
    if hops > most:
        return best
    value = _value(table, prices, row, hops, dram)
    first = row < best[1] or (row == best[1] and number < best[2])
    if value < best[0] or (value == best[0] and first):
        return value, row, number, hops
    return best


@inlined
def _as_a_producer(leaf: ReleasedLeaf, table: ReleasedTable, row: Int) -> Int:
    """The number of the order in which a partition lies on the tiles just as a producer's does; -1: none.

    Such a layer finds much of its input on the tiles that need it, so few placements are better: it is tried
    first, and bounds end the others sooner. A producer counts whose outputs stay on the chip, which begins at
    the same tile and is cut into as many parts of each dim; then orders are compared by the steps in tiles
    from one part to the next.
    """
    parts = table.parts[row]
    for number in range(leaf.sources.shape[0]):
        source = leaf.sources[number]
        if source[DIRECT] and source[TILE] == leaf.tile:
            same = True
            for axis in range(4):
                same = same and parts[axis] == source[PARTS + axis]
            if same:
                cut = axes_cut(parts)
                for order in range(table.counts[cut]):
                    if _same_steps(steps_of(parts, table.orders[cut, order]), source, parts):
                        return order
    return -1


@inlined
def _same_steps(steps: Four, source: Array, parts: Array) -> bool:
    """Whether parts follow one another as the producer's do; an axis that is not cut has no next part."""
    same = True
    for axis in range(4):
        same = same and (parts[axis] == 1 or steps[axis] == source[STEPS + axis])
    return same


@inlined
def _most_hops(table: ReleasedTable, prices: ReleasedPrices, row: Int, dram: Int, least: float) -> Int:
    """Hops times bytes above which a candidate is certainly worse than the best value ``least``.

    The objective is solved for the energy, and that for the hops. The result is rounded up generously: it may
    only save time, and the value itself decides between close candidates.
    """
    exponent = prices.exponent
    if least == np.inf or exponent == 0:
        return ANY
    cycles = float(max(table.cycles[row], ceil_divided(dram, prices.dram_bytes_per_cycle)))
    if exponent > 0:
        energy = (least / cycles) ** (1.0 / exponent)
    elif exponent == -1:
        energy = least
    else:
        energy = least / cycles**-exponent
    hops = (energy * (1 + 1e-9) - table.energy_pj[row] - dram * prices.dram_pj) / prices.hop_pj
    return Int64(min(hops, 1e18)) + 1


@inlined
def _value(table: ReleasedTable, prices: ReleasedPrices, row: Int, hops: Int, dram: Int) -> Any:
    """The objective for these hops times bytes and DRAM bytes; contention on links does not count."""
    energy = table.energy_pj[row] + (hops * prices.hop_pj + dram * prices.dram_pj)
    cycles = max(table.cycles[row], ceil_divided(dram, prices.dram_bytes_per_cycle))
    return objective_value(energy, float(cycles), prices.exponent)


@called
def _fill_numbers(workspace: ReleasedWorkspace, placement: ReleasedPlacement, numbers: Array) -> None:
    """Fill ``numbers``, but for the cycles, as :class:`.leaf.ReleasedLeafCost` describes them.

    Weights that are activations are not pinned, so they are added to the tiles' inputs.
    """
    leaf, tiles = placement.leaf, workspace.mesh.x.shape[0]
    fill_ranges(leaf.space, leaf.sizes, placement.parts, workspace.ranges, True)
    workspace.mesh.links[:] = 0
    numbers[HOPS] = hop_bytes(workspace, placement, Int64(ANY))
    numbers[DRAM] = dram_bytes(workspace.ranges, leaf, placement.parts)
    _hold(workspace.ranges, placement, INPUTS, numbers, HELD)
    if leaf.space.has_weights:
        _hold(
            workspace.ranges,
            placement,
            WEIGHTS,
            numbers,
            HELD if leaf.space.weights_follow_b else HELD + tiles,
        )
    for link in range(workspace.mesh.links.shape[0]):
        numbers[HELD + 2 * tiles + link] = workspace.mesh.links[link]


@called
def _hold(ranges: Ranges, placement: ReleasedPlacement, kind: Int, held: Array, begin: Int) -> None:
    """Add the bytes that every tile holds of a kind of data to ``held``, from column ``begin`` on.

    Inputs count once for each operand of an element-wise layer.
    """
    parts, times = placement.parts, placement.leaf.space.operands if kind == INPUTS else 1
    for k in range(parts[0]):
        for b in range(parts[1]):
            for h in range(parts[2]):
                for w in range(parts[3]):
                    size = size_of(ranges, (kind, k, b, h, w), (0, ANY))
                    held[begin + tile_of(placement, k, b, h, w)] += size * times
