"""The tuples of numbers that :mod:`.mapper_kernel` computes with."""

from __future__ import annotations

from typing import NamedTuple


class TileNumbers(NamedTuple):
    """A :class:`.hardware.NvdlaTile` as plain numbers.

    The three buffer sizes count vectors. Activations: vectors of ``vector`` input channels at one position.
    Weights: such vectors for one output channel and filter position, in the buffer of one lane. Outputs:
    vectors of ``lanes`` output channels at one position. Energies are in pJ, those of buffers a byte and as
    (read, write).
    """

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
    """One tile's part of a layer: ``groups`` times C x K x H x W x R x S for ``b`` samples.

    ``c`` and ``k`` are channels of one group; ``h`` and ``w`` are rows and columns of outputs.
    """

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
    """A workload for a tile, and the objective's exponent (see :func:`.mapper_kernel.objective_value`)."""

    tile: TileNumbers
    work: TileWork
    exponent: int


class Spread(NamedTuple):
    """How the PE grid is split among the dims, and what is left for the loops of one PE.

    ``pe_*``: PEs along each dim. ``vectors_c``, ``vectors_k``: vectors of input and of output channels that
    one PE computes, counted up to full vectors; ``each_c``, ``each_k``: the channels themselves. ``h``,
    ``w``, ``b``: output rows, columns and samples of one PE. ``side_by_side``: groups that a PE computes at
    the same time in its MACs; ``group_rounds``: how many times it computes so that all groups are done.
    """

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
    """What a PE works on between two fetches.

    Its weight buffers hold ``k`` vectors of output channels, its activation buffer the inputs for ``h`` x
    ``w`` output positions, its output buffer the partial sums of these for one vector of output channels.
    """

    k: int
    h: int
    w: int


class Rounds(NamedTuple):
    """How many blocks follow one another in time, within a PE and outside of what neighbours pass on.

    ``k``, ``w``, ``h``: blocks of one PE along each dim. ``share_w`` PEs need the same weights, ``share_a``
    PEs the same activations. PEs that pass weights on hold ``shared_k`` different blocks among them, so that
    only ``outer_k`` rounds along K are fetched from the global buffer; ``outer_w`` is the same for
    activations along W. ``all`` counts a PE's blocks over positions and samples, ``outer`` only those that
    are fetched from the global buffer.
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
    """Bytes of one tensor that a nest moves, on all PEs together.

    ``read`` and ``write``: from and to the PEs' buffers; ``passed``: over the bus between PEs;
    ``shared_read``: from the global buffer; ``second_read``: from the second weight buffer.
    """

    read: int
    write: int
    passed: int
    shared_read: int
    second_read: int


class Sharing(NamedTuple):
    """Which of weights and activations neighbours pass on over the bus, and whether weights are kept nearer.

    ``second_weights``: a second weight buffer stands between the global buffer and the PEs, so that the
    global buffer is read once. The released program gives it neither a capacity nor an energy; it only takes
    cycles.
    """

    weights: bool
    activations: bool
    second_weights: bool
