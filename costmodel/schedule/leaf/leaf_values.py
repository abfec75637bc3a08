"""The records that the compiled search of a leaf computes with.

numba takes NamedTuples of numbers and arrays as they are, and no other records. What comes one a stream is an
array of integers instead, [streams, columns]; ``COLUMN`` names its columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.schedule.leaf.ranges_kernel import Four, KernelSpace, Ranges
from costmodel.schedule.leaf.streams import StreamRow
from costmodel.schedule.mesh.mesh_kernel import Mesh

Array = NDArray[Any]


COLUMN = StreamRow(*range(len(StreamRow._fields)))
"""The column of each field of a :class:`.streams.StreamRow`; the sizes, parts and steps of dim d are in
``COLUMN.size_k + d`` and so on."""


class KernelLeaf(NamedTuple):
    """One layer on the tiles from ``tile`` on, and the ``streams`` [n, columns] of its data.

    ``sizes``: K, B, H and W of its outputs. All is counted over ``runs`` batches, for which weights are
    loaded once.
    """

    space: KernelSpace
    sizes: Four
    tile: int
    runs: int
    streams: Array


class Flows(NamedTuple):
    """Bytes between DRAM and the mesh, sorted by how far they go; see ``mesh/flows_kernel.py``.

    From DRAM: ``east`` and ``west`` [X] by the last column that is reached, ``south`` and ``north`` [X, Y] in
    each column by the last row that is reached. To DRAM: ``out`` [X, Y] by the tile that sends.
    """

    east: Array
    west: Array
    south: Array
    north: Array
    out: Array


class PortCounts(NamedTuple):
    """How many DRAM ports use a link that leaves tile (x, y).

    Sending ports use links along their own row first: ``to_east`` [X, Y] are those in row y at column x or
    before, ``to_west`` those at x or after. Then they use links along columns: ``to_south`` [Y] are those in
    any row up to y, ``to_north`` those in row y or after.
    Receiving ports are reached along the tile's row first: ``east_of`` [X] are those in columns after x,
    ``west_of`` those before. Then along the port's column: ``south_of`` [X, Y] are those in column x in rows
    after y, ``north_of`` those before.
    """

    to_east: Array
    to_west: Array
    to_south: Array
    to_north: Array
    east_of: Array
    west_of: Array
    south_of: Array
    north_of: Array


class Senders(NamedTuple):
    """Bytes of one range that tiles send, summed by column [X] and by row [Y] of the mesh.

    ``from_above`` [Y], ``from_below`` [Y]: scratch of ``mesh/senders_kernel.py``, the bytes of the rows
    above, or below, each times its distance.
    """

    by_column: Array
    by_row: Array
    from_above: Array
    from_below: Array


class Workspace(NamedTuple):
    """A chip's mesh, and the arrays that hold one partition while it is counted.

    The mesh's links hold bytes times DRAM ports: data that is spread evenly over p ports puts bytes / p on
    each port's way, so these products are whole numbers.
    ``least`` [streams]: a lower bound on the hops of each stream, whatever the placement.
    ``near`` and ``common`` are about direct streams, for each dim of the data and each part of the leaf.
    ``near`` [streams, 2, 4, tiles]: the first and the last part of the producer that has some of the part's
    range. ``common`` [streams, 4, tiles, tiles]: how many channels, samples, rows or columns each of these
    has of it.
    """

    mesh: Mesh
    ranges: Ranges
    flows: Flows
    ports: PortCounts
    senders: Senders
    least: Array
    near: Array
    common: Array


class LeafPlacement(NamedTuple):
    """A leaf cut into ``parts`` [4]; ``steps``: how many tiles further the next part along K, B, H, W is."""

    leaf: KernelLeaf
    parts: Array
    steps: Four


class PartitionTable(NamedTuple):
    """The partitions that a search chooses from, and all placement orders.

    ``parts`` [n, 4]: into how many K, B, H and W are cut. ``energy_pj`` [n]: of all runs, without NoC and
    DRAM. ``cycles`` [n]: of the slowest tile for one run. ``orders`` [16, 24, 4], ``counts`` [16]: the
    placement orders for each set of axes that are cut, and how many.
    """

    parts: Array
    energy_pj: Array
    cycles: Array
    orders: Array
    counts: Array


class FoundRow(NamedTuple):
    """What a search found: a row of the table (-1: none fits), the number of the placement order, DRAM bytes.

    Bytes are those read and written over all runs.
    """

    row: int
    order: int
    dram_read: int
    dram_written: int


FOUND = FoundRow(0, 1, 2, 3)
"""Where each of them is in ``CheapestLeaf.found``."""


class CheapestLeaf(NamedTuple):
    """The arrays that a search fills: the cheapest partition and placement of a leaf.

    ``found`` [4]: see :class:`FoundRow`. ``held`` [streams, tiles]: bytes of one batch of each stream on
    every tile. ``bounds`` [n]: scratch, what each row of the table costs at least.
    """

    found: Array
    held: Array
    bounds: Array


class TransferPrices(NamedTuple):
    """Energy of a byte on a link and in DRAM (pJ), bytes a cycle of both, exponents of energy and cycles."""

    hop_pj: float
    read_pj: float
    write_pj: float
    link_bytes_per_cycle: int
    dram_bytes_per_cycle: int
    energy_exponent: float
    cycles_exponent: float
