"""What a partition moves whatever its placement, compiled: bytes held, DRAM bytes, and hops at least."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.published.set_isca2023.leaf_values import (
    BATCH,
    DIRECT,
    FIRST,
    LAST,
    OF_WEIGHTS,
    ReleasedLeaf,
    ReleasedWorkspace,
)
from costmodel.schedule.leaf.ranges_kernel import (
    INPUTS,
    OUTPUTS,
    WEIGHTS,
    Ranges,
    Two,
    replicas_of,
    smallest,
    volume,
)

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


@called
def dram_bytes(ranges: Ranges, leaf: ReleasedLeaf, parts: Array) -> Int:
    """Bytes read from and written to DRAM; of weights their share, rounded down."""
    total = 0
    if leaf.shape.has_weights and not leaf.shape.weights_follow_b:
        total = volume(ranges, WEIGHTS, (0, leaf.sizes[0]), parts) // leaf.weight_share
    for number in range(leaf.sources.shape[0]):
        source = leaf.sources[number]
        if not source[DIRECT]:
            kind = WEIGHTS if source[OF_WEIGHTS] else INPUTS
            total += volume(ranges, kind, (source[FIRST], source[LAST]), parts)
    if leaf.to_dram:
        total += leaf.sizes[0] * leaf.sizes[1] * leaf.sizes[2] * leaf.sizes[3]
    return total


@called
def least_hops(room: ReleasedWorkspace, leaf: ReleasedLeaf, parts: Array) -> Int:
    """A lower bound on hops times bytes for every placement of a partition whose ranges are filled in.

    Data for one tile each: no transfer is smaller than the smallest, and together they go to all tiles. Data
    for several tiles: a tree that reaches n tiles has n - 1 links at least.
    """
    ranges, ports = room.ranges, room.mesh.port_x.shape[0]
    to_all_tiles = _port_distance(room, leaf, parts)
    least = 0
    if leaf.shape.has_weights and not leaf.shape.weights_follow_b:
        spread = _least_load(ranges, WEIGHTS, (0, leaf.sizes[0]), parts, to_all_tiles, ports)
        least = spread // leaf.weight_share
    for number in range(leaf.sources.shape[0]):
        source = leaf.sources[number]
        kind = WEIGHTS if source[OF_WEIGHTS] else INPUTS
        channels = (source[FIRST], source[LAST])
        if not source[DIRECT]:
            least += _least_load(ranges, kind, channels, parts, to_all_tiles, ports)
        elif source[BATCH] == leaf.sizes[1] and source[FIRST] == 0:
            # messages of equal batches and no lost channels make up the whole range
            least += volume(ranges, kind, channels, parts) * (replicas_of(ranges, kind, parts) - 1)
    if leaf.to_dram:
        least += smallest(ranges, OUTPUTS, (0, leaf.sizes[0]), parts) // ports * to_all_tiles
    return least


@inlined
def _least_load(ranges: Ranges, kind: Int, channels: Two, parts: Array, to_all_tiles: Int, ports: Int) -> Int:
    replicas = replicas_of(ranges, kind, parts)
    if replicas > 1:
        return volume(ranges, kind, channels, parts) * (replicas - 1)
    return smallest(ranges, kind, channels, parts) // ports * to_all_tiles


@inlined
def _port_distance(room: ReleasedWorkspace, leaf: ReleasedLeaf, parts: Array) -> Int:
    """Hops from every port to every tile of the leaf, together."""
    mesh, total = room.mesh, 0
    for tile in range(leaf.tile, leaf.tile + parts[0] * parts[1] * parts[2] * parts[3]):
        total += mesh.to_tile[mesh.port_x.shape[0], tile]
    return total
