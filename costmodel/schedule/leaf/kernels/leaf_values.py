"""The records that the compiled search of a leaf computes with.

numba takes NamedTuples of numbers and arrays as they are, and no other records. What comes one a stream is an
array of integers instead, [streams, columns]; ``COLUMN`` names its columns.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.schedule.leaf.kernels.ranges_kernel import Four, KernelSpace, Ranges
from costmodel.schedule.leaf.streams import StreamRow
from costmodel.schedule.mesh.flows_kernel import Flows, PortCounts
from costmodel.schedule.mesh.mesh_kernel import Mesh
from costmodel.schedule.mesh.senders_kernel import Senders

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


class StreamTables(NamedTuple):
    """What is the same for all placement orders of a partition; filled in when it is first asked for.

    The ranges of a stream are numbered in the order in which loops go through them, those of a group of equal
    senders (``producers_kernel.py``) one after the other. ``known`` [streams]: of how many groups the tables
    are filled, or whether for a stream of DRAM. ``sizes`` [streams, tiles]: for each range the bits that DRAM
    exchanges over all runs, or how many times it needs what its group's senders have.

    The rest is for each group of ranges. ``total`` [streams, tiles]: bits of all senders. ``alone`` [streams,
    tiles]: the tile of the only sender, or negative. ``from_west``, ``from_east`` [streams, tiles, X],
    ``from_above``, ``from_below`` [streams, tiles, Y]: what :func:`.senders_kernel.add_distances` finds.
    """

    known: Array
    sizes: Array
    total: Array
    alone: Array
    from_west: Array
    from_east: Array
    from_above: Array
    from_below: Array


class Nearness(NamedTuple):
    """Where the tiles of a leaf are, and how near to the others and to DRAM (``nearness_kernel.py``).

    ``columns``, ``rows`` [2]: the first and last that have tiles of the leaf. ``nearest`` [X, Y]: links from
    each tile of the mesh to the nearest tile of the leaf. ``producers`` [streams]: of these the fewest from a
    tile of a direct stream's producer. ``ways`` [2]: links from all ports together to all tiles of the leaf,
    and to the farthest one.

    ``ports_west``, ``ports_east`` [X], ``ports_above``, ``ports_below`` [Y]: what
    :func:`.senders_kernel.add_distances` finds of the ports, if each sends one bit. ``links`` [tiles + 1]:
    what :func:`.least_from_ports` has found for a number of tiles, or 0.
    """

    columns: Array
    rows: Array
    nearest: Array
    producers: Array
    ways: Array
    ports_west: Array
    ports_east: Array
    ports_above: Array
    ports_below: Array
    links: Array


class WatchedLink(NamedTuple):
    """A link along a row that is counted before all others (``watched_link_kernel.py``).

    ``at`` [3]: the column and row of the tile that it leaves, and its direction, negative for no link.
    ``known`` [1]: whether ``passing`` is filled for this link and partition. ``passing`` [streams, tiles]:
    for each group of ranges the bits of its senders that come to the link on their way to tiles beyond it.
    """

    at: Array
    known: Array
    passing: Array


class Workspace(NamedTuple):
    """A chip's mesh, and the arrays that hold one partition while it is counted.

    The mesh's links hold bits times DRAM ports: data that is spread evenly over p ports puts bits / p on
    each port's way, so these products are whole numbers.
    ``least`` [streams]: a lower bound on the hops of each stream, whatever the placement.
    ``near`` and ``common`` are about direct streams, for each dim of the data and each part of the leaf.
    ``near`` [streams, 2, 4, tiles]: the first and the last part of the producer that has some of the part's
    range. ``common`` [streams, 4, tiles, tiles]: how many channels, samples, rows or columns each of these
    has of it.

    ``own_equal`` [streams]: whether parts get the same of a stream that do not get the same of its kind of
    data; ``until`` [streams, 4, tiles] and ``counts`` [streams, 3] are then the stream's own
    :class:`.ranges_kernel.EqualParts`. ``alike`` [streams x tiles]: the parts that get the same as each part.
    ``chain_heads`` [streams x tiles]: scratch, the parts with which chains of such parts begin.

    ``tables``: what no placement order changes. ``nearness``: what no partition changes. ``columns`` [X, Y,
    2]: loads of the links to the north and south of each tile, while these are counted by themselves.
    ``watched``: the one link that is counted before those.
    """

    mesh: Mesh
    ranges: Ranges
    flows: Flows
    ports: PortCounts
    senders: Senders
    least: Array
    near: Array
    common: Array
    own_equal: Array
    until: Array
    counts: Array
    alike: Array
    chain_heads: Array
    tables: StreamTables
    nearness: Nearness
    columns: Array
    watched: WatchedLink


class LeafPlacement(NamedTuple):
    """A leaf cut into ``parts`` [4]; ``steps``: how many tiles further the next part along K, B, H, W is."""

    leaf: KernelLeaf
    parts: Array
    steps: Four


class PartitionTable(NamedTuple):
    """The partitions that a search chooses from, and all placement orders.

    ``parts`` [n, 4]: into how many K, B, H and W are cut. ``energy_pj`` [n]: of all runs, without NoC and
    DRAM. ``cycles`` [n]: of the slowest tile for one run. ``factors`` [n]: by what E^n D^m is multiplied, for
    the bits of buffers that the partition takes. ``orders`` [16, 24, 4], ``counts`` [16]: the placement
    orders for each set of axes that are cut, and how many.
    """

    parts: Array
    energy_pj: Array
    cycles: Array
    factors: Array
    orders: Array
    counts: Array


class FoundRow(NamedTuple):
    """What a search found: a row of the table (-1: none fits), the number of the placement order, DRAM bits.

    Bits are those read and written over all runs.
    """

    row: int
    order: int
    dram_read: int
    dram_written: int


FOUND = FoundRow(*range(len(FoundRow._fields)))
"""Where each of them is in ``CheapestLeaf.found``."""


class CheapestLeaf(NamedTuple):
    """The arrays that a search fills: the cheapest partition and placement of a leaf.

    ``found`` [fields]: see :class:`FoundRow`. ``held`` [streams, tiles]: bits of one batch of each stream on
    every tile. ``with_dram`` [kinds, links] and ``received`` [streams, links]: bits times ports over all
    runs, as :func:`.links_kernel.load_apart` counts them. ``bounds`` [n]: scratch, what each row of the table
    costs at least.
    """

    found: Array
    held: Array
    with_dram: Array
    received: Array
    bounds: Array


class TransferPrices(NamedTuple):
    """Energy of a bit on a link and in DRAM (pJ), bits a cycle of both, exponents of energy and cycles."""

    hop_pj: float
    read_pj: float
    write_pj: float
    link_bits_per_cycle: int
    dram_bits_per_cycle: int
    energy_exponent: float
    cycles_exponent: float
