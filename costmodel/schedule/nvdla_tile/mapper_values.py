"""The tuples of numbers that :mod:`.mapper_kernel` computes with."""

from __future__ import annotations

from typing import NamedTuple


class TileNumbers(NamedTuple):
    """A :class:`.hardware.NvdlaTile` as plain numbers: sizes are bytes a vector lane, energies pJ a byte."""

    vector: int
    lanes: int
    grid: int
    activation_bytes: int
    weight_bytes: int
    output_bytes: int
    bus_bytes_per_cycle: int
    shared_bytes_per_cycle: int
    mac_units: int
    mac_pj: float
    bus_pj: float
    activation_pj: tuple[float, float]
    weight_pj: tuple[float, float]
    output_pj: tuple[float, float]
    output_shared_pj: tuple[float, float]
    shared_pj: tuple[float, float]


class TileWork(NamedTuple):
    """One tile's share of a layer: ``groups`` times C x K x H x W x R x S for ``b`` samples."""

    c: int
    k: int
    h: int
    w: int
    r: int
    s: int
    stride_h: int
    stride_w: int
    b: int
    groups: int


class NestProblem(NamedTuple):
    """A workload for a tile, and the objective's exponent."""

    tile: TileNumbers
    work: TileWork
    exponent: int


class Spread(NamedTuple):
    """PEs along every dim, and what is left for the loops of one PE."""

    pe_c: int
    pe_k: int
    pe_h: int
    pe_w: int
    pe_b: int
    vectors_c: int
    vectors_k: int
    each_c: int
    each_k: int
    h: int
    w: int
    b: int
    side_by_side: int
    group_rounds: int


class OutputBlock(NamedTuple):
    """What a PE holds at once: ``k`` vectors of outputs for ``h`` x ``w`` positions."""

    k: int
    h: int
    w: int


class Rounds(NamedTuple):
    """How often blocks follow one another along K, W and H, and outside of what neighbours share.

    ``shared_k`` blocks of weights go round the ``share_w`` PEs that need the same weights (``share_a`` for
    activations); ``all`` and ``outer`` are the rounds over positions and samples.
    """

    k: int
    w: int
    h: int
    outer_k: int
    outer_w: int
    shared_k: int
    share_w: int
    share_a: int
    all: int
    outer: int


class BufferAccesses(NamedTuple):
    """Bytes read from and written to the PEs' buffers, passed over the bus, read from the global buffer.

    ``second_read``: from the second weight buffer.
    """

    read: int
    write: int
    passed: int
    shared_read: int
    second_read: int


class Sharing(NamedTuple):
    """Neighbours pass on weights or activations over the bus; a second weight buffer (of no size) is used."""

    weights: bool
    activations: bool
    second_weights: bool
