"""What a partition moves under every placement, compiled: DRAM bytes, and a lower bound on hops."""

from __future__ import annotations

from typing import Any

from numpy.typing import NDArray

from costmodel.compiled import called, inlined
from costmodel.published.set_isca2023.leaf.values import (
    BATCH,
    DIRECT,
    FIRST,
    LAST,
    OF_WEIGHTS,
    ReleasedLeaf,
    ReleasedWorkspace,
)
from costmodel.schedule.leaf.kernels.ranges_kernel import (
    COUNTS,
    INPUTS,
    OUTPUTS,
    WEIGHTS,
    Ranges,
    Two,
    of_kind,
    smallest,
    volume,
)

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


@called
def dram_bytes(ranges: Ranges, leaf: ReleasedLeaf, parts: Array) -> Int:
    """Bytes of one batch read from and written to DRAM.

    Weights are loaded once a run; a batch is charged its fraction of that load, rounded down.
    """
    total = 0
    if leaf.space.has_weights and not leaf.space.weights_follow_b:
        total = _volume(ranges, WEIGHTS, (0, leaf.sizes[0]), parts) // leaf.batches_of_run
    for number in range(leaf.sources.shape[0]):
        source = leaf.sources[number]
        if not source[DIRECT]:
            kind = WEIGHTS if source[OF_WEIGHTS] else INPUTS
            total += _volume(ranges, kind, (source[FIRST], source[LAST]), parts)
    if leaf.to_dram:
        total += leaf.sizes[0] * leaf.sizes[1] * leaf.sizes[2] * leaf.sizes[3]
    return total


@called
def least_hops(workspace: ReleasedWorkspace, leaf: ReleasedLeaf, parts: Array) -> Int:
    """A lower bound on hops times bytes for every placement of a partition whose ranges are filled in.

    If each range goes to a single tile, a placement only decides which range goes to which tile. Every tile
    gets one, and none is smaller than the smallest: so the bound is the smallest size, divided among the
    ports, times the hops from all ports to all tiles. If a range goes to n tiles, its tree has at least n - 1
    links, so the bound is its bytes times n - 1.
    """
    ranges, ports = workspace.ranges, workspace.mesh.port_x.shape[0]
    to_all_tiles = _port_distance(workspace, leaf, parts)
    least = 0
    if leaf.space.has_weights and not leaf.space.weights_follow_b:
        spread = _least_load(ranges, WEIGHTS, (0, leaf.sizes[0]), parts, to_all_tiles, ports)
        least = spread // leaf.batches_of_run
    for number in range(leaf.sources.shape[0]):
        source = leaf.sources[number]
        kind = WEIGHTS if source[OF_WEIGHTS] else INPUTS
        channels = (source[FIRST], source[LAST])
        if not source[DIRECT]:
            least += _least_load(ranges, kind, channels, parts, to_all_tiles, ports)
        elif source[BATCH] == leaf.sizes[1] and source[FIRST] == 0:
            # only then do the producer's messages add up to the whole range: other batches are rounded down,
            # and later producers of concatenated channels may send nothing (see hops_kernel._forward)
            least += _volume(ranges, kind, channels, parts) * (_replicas(ranges, kind) - 1)
    if leaf.to_dram:
        least += smallest(ranges, OUTPUTS, (0, leaf.sizes[0]), parts) // ports * to_all_tiles
    return least


@inlined
def _least_load(ranges: Ranges, kind: Int, channels: Two, parts: Array, to_all_tiles: Int, ports: Int) -> Int:
    """The bound of :func:`least_hops` for one kind of data that DRAM sends."""
    replicas = _replicas(ranges, kind)
    if replicas > 1:
        return _volume(ranges, kind, channels, parts) * (replicas - 1)
    return smallest(ranges, kind, channels, parts) // ports * to_all_tiles


@inlined
def _volume(ranges: Ranges, kind: Int, channels: Two, parts: Array) -> Int:
    """Elements of all ranges of a kind of data."""
    return volume(ranges, of_kind(ranges, kind), kind, channels, parts)


@inlined
def _replicas(ranges: Ranges, kind: Int) -> Int:
    """How many tiles get each range; all ranges have as many, as parts that follow an axis stay apart."""
    return of_kind(ranges, kind).counts[COUNTS.fewest]


@inlined
def _port_distance(workspace: ReleasedWorkspace, leaf: ReleasedLeaf, parts: Array) -> Int:
    """The sum of hops from every port to every tile of the leaf."""
    mesh, total = workspace.mesh, 0
    for tile in range(leaf.tile, leaf.tile + parts[0] * parts[1] * parts[2] * parts[3]):
        total += mesh.to_tile[mesh.port_x.shape[0], tile]
    return total
