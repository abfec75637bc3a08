"""The tuples of numbers and arrays that the chip model's compiled code computes with."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.schedule.leaf.ranges_kernel import Four, Ranges, Shape
from costmodel.schedule.mesh.mesh_kernel import Mesh

Array = NDArray[Any]

KIND, FIRST, LAST, TIMES, DIRECT, BATCH, SIZES, PARTS, STEPS, TILE, WIDTH = (
    0,
    1,
    2,
    3,
    4,
    5,
    6,
    10,
    14,
    18,
    19,
)
"""Columns of a stream: are its data outputs (to DRAM), inputs or weights, which channels, how many times do
they come from or go to DRAM, or is it tiles that send them?, and of such a producer its batch, K/B/H/W sizes,
parts and steps, and its first tile."""


class KernelLeaf(NamedTuple):
    """One layer on tiles from ``tile`` on, and the ``streams`` [n, WIDTH] of its data.

    Everything is counted over ``runs`` batches, for which weights are loaded once.
    """

    shape: Shape
    sizes: Four
    tile: int
    runs: int
    streams: Array


class Flows(NamedTuple):
    """Bytes between DRAM and the mesh, by how far they go; links follow from these all at once.

    ``east`` and ``west`` [X]: by the last column reached, ``south`` and ``north`` [X, Y]: in a column by the
    last row reached; ``out`` [X, Y]: by the tile they leave.
    """

    east: Array
    west: Array
    south: Array
    north: Array
    out: Array


class PortCounts(NamedTuple):
    """How many DRAM ports send over a link from (x, y), or take what comes over it.

    Those that send are in row y, at x or before (``to_east`` [X, Y]) or at x or after (``to_west``); or, on
    their way along a column, in any row up to y (``to_south`` [Y]) or from y on (``to_north``). Those that
    take are in columns after x (``east_of`` [X]) or before; or in column x in rows after y (``south_of``
    [X, Y]) or before.
    """

    to_east: Array
    to_west: Array
    to_south: Array
    to_north: Array
    east_of: Array
    west_of: Array
    south_of: Array
    north_of: Array


class Workspace(NamedTuple):
    """The mesh, and workspace for one partition's ranges and its flows.

    The mesh's links hold bytes times DRAM ports: what a link carries of data spread over all ports is whole.
    Of every stream that tiles send, dim and part: ``near`` [streams, 2, 4, tiles], the first and last part of
    the producer that has data for it, ``common`` [streams, 4, tiles, tiles], how much each of these has.
    """

    mesh: Mesh
    ranges: Ranges
    flows: Flows
    ports: PortCounts
    near: Array
    common: Array


class LeafPlacement(NamedTuple):
    """A leaf cut into ``parts``, and how many tiles further the next part along K, B, H and W is."""

    leaf: KernelLeaf
    parts: Array
    steps: Four


class PartitionTable(NamedTuple):
    """A layer's partitions: ``parts`` [n, 4]; pJ without NoC and DRAM over all runs [n], a tile's cycles [n].

    ``orders`` [16, 24, 4], ``counts`` [16]: placement orders for each set of axes that are cut.
    """

    parts: Array
    energy_pj: Array
    cycles: Array
    orders: Array
    counts: Array


class CheapestLeaf(NamedTuple):
    """What a search fills in of the cheapest way to compute a leaf.

    ``found`` [4]: row of the table (-1: none fits), number of the placement order, bytes read from and
    written to DRAM over all runs. ``held`` [streams, tiles]: bytes of one batch of each stream on every tile.
    ``bounds`` [n]: workspace for what each row costs at least.
    """

    found: Array
    held: Array
    bounds: Array


class TransferPrices(NamedTuple):
    """What a byte costs on a link and in DRAM, cycles per byte of both, exponents of energy and cycles."""

    hop_pj: float
    read_pj: float
    write_pj: float
    link_bytes_per_cycle: int
    dram_bytes_per_cycle: int
    energy_exponent: float
    cycles_exponent: float
