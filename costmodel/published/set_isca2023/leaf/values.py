"""The tuples of numbers and arrays that :mod:`.search_kernel` computes with."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.schedule.leaf.kernels.ranges_kernel import Four, KernelSpace, Ranges
from costmodel.schedule.mesh.mesh_kernel import Mesh

Array = NDArray[Any]

OF_WEIGHTS, FIRST, LAST, DIRECT, BATCH, SIZES, PARTS, STEPS, TILE, WIDTH = 0, 1, 2, 3, 4, 5, 9, 13, 17, 18
"""Columns of a row of ``sources``, each of which says where some input channels of a layer come from.

OF_WEIGHTS: 1 for weights, 0 for inputs. FIRST, LAST: the channels, from the first to before the last. DIRECT:
1 if the producer's tiles send them, 0 if DRAM does. The other columns describe a producer on tiles, and are 0
for DRAM: its batch, its sizes, parts and steps along K, B, H and W (four columns each), and its first tile.
"""
CYCLES, HOPS, DRAM, HELD = 0, 1, 2, 3
"""Columns of the numbers of a leaf and of a node: cycles, hops times bytes, DRAM bytes, and what tiles and
links hold. From HELD on, a leaf has bytes of inputs [tiles], of weights [tiles] and on links [4 tiles]. A
node on the stack has one more block between weights and links: the bytes that each tile holds while it
computes [tiles].
"""


class ReleasedLeaf(NamedTuple):
    """One layer on tiles from number ``tile`` on, with its ``sources`` [n, WIDTH].

    ``to_dram``: whether its outputs go to DRAM. ``batches_of_run``: the number of batches of the leaf in the
    whole run. Weights are loaded once a run, and each batch is charged an equal part of that load.
    """

    space: KernelSpace
    sizes: Four
    tile: int
    sources: Array
    to_dram: bool
    batches_of_run: int


class ReleasedWorkspace(NamedTuple):
    """The mesh, and arrays that hold the ranges of the partition that is being looked at."""

    mesh: Mesh
    ranges: Ranges


class ReleasedPlacement(NamedTuple):
    """A leaf cut into ``parts`` [4] along K, B, H and W, in a certain order on the tiles.

    ``steps``: how many tiles further the next part along each of K, B, H and W lies. ``counted``: whether
    bytes are also added up link by link.
    """

    leaf: ReleasedLeaf
    parts: Array
    steps: Four
    counted: bool


class ReleasedTable(NamedTuple):
    """A layer's possible partitions, with costs that no placement changes.

    ``parts`` [n, 4]; ``energy_pj`` [n]: energy of all tiles without NoC and DRAM; ``cycles`` [n]: of a tile.
    ``orders`` [16, 24, 4]: for each set of axes that are cut (a bit an axis), the placement orders in which
    parts can lie on the tiles, as they are tried; ``counts`` [16] says how many of the 24 there are.
    """

    parts: Array
    energy_pj: Array
    cycles: Array
    orders: Array
    counts: Array


class ReleasedPrices(NamedTuple):
    """Energies (pJ) of a byte and hop and of a byte of DRAM, DRAM's bandwidth, the objective's exponent."""

    hop_pj: float
    dram_pj: float
    dram_bytes_per_cycle: int
    exponent: int
