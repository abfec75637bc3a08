"""The tuples of numbers and arrays that :mod:`.leaf_kernel` computes with."""

from __future__ import annotations

from typing import Any, NamedTuple

from numpy.typing import NDArray

from costmodel.schedule.leaf.ranges_kernel import Four, Ranges, Shape
from costmodel.schedule.mesh.mesh_kernel import Mesh

Array = NDArray[Any]

OF_WEIGHTS, FIRST, LAST, DIRECT, BATCH, SIZES, PARTS, STEPS, TILE, WIDTH = 0, 1, 2, 3, 4, 5, 9, 13, 17, 18
"""Columns of a source: of the weights?, its channels, from a tile?, and of such a producer: batch, K/B/H/W
sizes, parts and steps, first tile."""


class ReleasedLeaf(NamedTuple):
    """One layer on tiles from ``tile`` on: its sources [n, WIDTH] and where its outputs go.

    ``weight_share``: into how many parts the single load of its weights is divided.
    """

    shape: Shape
    sizes: Four
    tile: int
    sources: Array
    to_dram: bool
    weight_share: int


class ReleasedWorkspace(NamedTuple):
    """The mesh, and room for the ranges of one partition."""

    mesh: Mesh
    ranges: Ranges


class ReleasedPlacement(NamedTuple):
    """A leaf cut into ``parts``, and how many tiles further the next part along K, B, H and W is.

    ``counted``: whether bytes are to be counted on every link.
    """

    leaf: ReleasedLeaf
    parts: Array
    steps: Four
    counted: bool


class ReleasedTable(NamedTuple):
    """A layer's possible partitions: ``parts`` [n, 4], energy without NoC and DRAM, a tile's cycles [n].

    ``orders`` [16, 24, 4], ``counts`` [16]: placement orders for each set of axes cut, in the order tried.
    """

    parts: Array
    energy_pj: Array
    cycles: Array
    orders: Array
    counts: Array


class ReleasedPrices(NamedTuple):
    """What NoC and DRAM cost, and the objective's exponent."""

    hop_pj: float
    dram_pj: float
    dram_bytes_per_cycle: int
    exponent: int
