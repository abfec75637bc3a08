"""The compiled half of :mod:`.mapper`: the cheapest loop nest of one workload on one tile.

All counts are those of the released SET program (section 4.2.2), so that its tables can be reproduced. It
computes in unsigned integers of 32 and 64 bits. Where a stride exceeds its filter, overlaps are negative and
these integers wrap around to huge counts, which make such nests lose. ``_low32`` and ``_unsigned`` repeat the
wrap-around, so that the same nests lose here.

The nest of one PE, from the outside in; a block is what fits the PE's buffers (``OutputBlock``):

    groups > blocks along K > samples and blocks along H > blocks along W > within a block

So the weights of a block stay while all its positions pass, and activations are fetched again for each block
along K. Passing weights or activations on among PEs changes how often the global buffer is read.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined
from costmodel.published.set_isca2023.nvdla_tile.mapper_values import (
    BufferAccesses,
    NestProblem,
    OutputBlock,
    Rounds,
    Sharing,
    Spread,
    TileNumbers,
    TileWork,
)

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Real = Any
"""A 64-bit float of compiled code."""

C, K, H, W, B = 0, 1, 2, 3, 4
SPLITS = np.array([[C, K], [C, B], [B, K], [C, W], [H, K], [H, W]])
"""The two dims that the rows and columns of the PE grid are split along, in the order tried."""

ENERGY, CYCLES, SHARED, BUFFERS, BUS, MACS = 0, 1, 2, 3, 4, 5
"""Positions in ``best`` [6]: total energy and cycles of the cheapest nest, then its energy by part (pJ)."""


@inlined
def _low32(value: Int) -> Int:
    """The value as an unsigned integer of 32 bits: a negative one becomes huge."""
    return value & 0xFFFFFFFF


@inlined
def _unsigned(value: Int) -> Real:
    """The value as an unsigned integer of 64 bits, made a float: a negative one gains 2^64."""
    return float(value) if value >= 0 else float(value) + 18446744073709551616.0


@inlined
def _ceil(value: Int, divisor: Int) -> Int:
    return (value + divisor - 1) // divisor


@inlined
def objective_value(energy: Real, cycles: Real, exponent: Int) -> Real:
    """The objective of an energy E and a delay D, by SET's ``exponent`` k.

    E^k D for k > 0, D for 0, E for -1, E D^-k for k < -1.
    """
    if exponent == 1:
        return energy * cycles
    if exponent == 0:
        return cycles
    if exponent == -1:
        return energy
    if exponent > 0:
        return energy ** float(exponent) * cycles
    return energy * cycles ** float(-exponent)


@entry
def best_nest(problem: NestProblem, best: Array) -> None:
    """Fill ``best`` [6] with the cheapest loop nest; its energy is infinite where none fits.

    For every split of the PE grid, a block holds as many output channels as the weight buffers allow
    (``most_k``). Its columns ``w`` go down from the widest block that fits, and each width takes the most
    rows ``h`` that then fit: ``positions`` input positions fit the activation buffer, as a PE keeps all its
    input channels of each. A narrower block with the same number of rows is skipped: the wider one has fewer
    rounds.
    """
    tile, work = problem.tile, problem.work
    best[:] = 0.0
    best[ENERGY] = np.inf
    for split in range(SPLITS.shape[0]):
        spread = _spread(tile, work, split)
        vectors = work.r * work.s * spread.vectors_c
        most_k = tile.weight_bytes // vectors
        positions = tile.activation_bytes // spread.vectors_c
        widest = positions // work.r
        if tile.output_bytes == 0 or most_k == 0 or widest < work.s:
            continue
        widest = min((widest - work.s) // work.stride_w + 1, tile.output_bytes, spread.w)
        last_h = 0
        for w in range(widest, 0, -1):
            inputs = (w - 1) * work.stride_w + work.s
            h = min((positions // inputs - work.r) // work.stride_h + 1, tile.output_bytes // w, spread.h)
            if h != last_h:
                last_h = h
                _try_sharing(problem, spread, OutputBlock(min(spread.vectors_k, most_k), h, w), best)


@inlined
def _spread(tile: TileNumbers, work: TileWork, split: Int) -> Spread:
    """The PE grid split along the two dims of ``SPLITS[split]``, ``grid`` PEs along each."""
    first, second = SPLITS[split, 0], SPLITS[split, 1]
    c, k, h, w, b = 1, 1, 1, 1, 1
    for dim in (first, second):
        c *= tile.grid if dim == C else 1
        k *= tile.grid if dim == K else 1
        h *= tile.grid if dim == H else 1
        w *= tile.grid if dim == W else 1
        b *= tile.grid if dim == B else 1
    side_by_side, rounds = 1, work.groups
    if work.groups > 1:
        # 0 where one group has more channels than a vector or than lanes. The released program then counts no
        # words in _fits_bus and _cycles, so no bandwidth limits such a layer; kept, to count as it does
        side_by_side = min(tile.vector // work.c, tile.lanes // work.k)
        if side_by_side > 1:
            side_by_side = min(side_by_side, work.groups)
            rounds = _ceil(work.groups, side_by_side)
    return Spread(
        c,
        k,
        h,
        w,
        b,
        _ceil(work.c, tile.vector * c),
        _ceil(work.k, tile.lanes * k),
        _ceil(work.c, c),
        _ceil(work.k, k),
        _ceil(work.h, h),
        _ceil(work.w, w),
        _ceil(work.b, b),
        side_by_side,
        rounds,
    )


@inlined
def _try_sharing(problem: NestProblem, spread: Spread, block: OutputBlock, best: Array) -> None:
    """Try the ways of passing data on that can save something for these loop counts.

    The variants: 0 passes nothing on; 1 weights; 2 weights and activations; 3 activations, with the second
    weight buffer; 4 weights and activations, with it. The conditions are the released program's. A variant is
    used if several PEs hold different blocks of what is passed on (``shared_k`` or ``shared_w`` above 1), and
    if loops outside would otherwise fetch the same data again.
    """
    rounds_k, rounds_w = _ceil(spread.vectors_k, block.k), _ceil(spread.w, block.w)
    shared_k = min(rounds_k, spread.pe_h * spread.pe_w * spread.pe_b)
    shared_w = min(rounds_w, spread.pe_k)
    several = spread.b > 1 or _ceil(spread.h, block.h) > 1
    for variant in range(5):
        if variant == 0:
            used = True
        elif variant == 1:
            used = several and rounds_w > 1 and shared_k > 1
        elif variant == 2:
            used = shared_w > 1 and shared_k > 1 and _ceil(rounds_k, shared_k) > 1
        else:
            used = shared_w > 1 and several and _ceil(rounds_w, shared_w) > 1
            if variant == 3:
                used = used and rounds_k > 1
            else:
                used = used and shared_k > 1 and _ceil(rounds_k, shared_k) > 1
        if used:
            sharing = Sharing(variant in (1, 2, 4), variant >= 2, variant >= 3)
            _try(problem, spread, block, sharing, best)


@inlined
def _rounds(spread: Spread, block: OutputBlock, sharing: Sharing) -> Rounds:
    """How many blocks follow one another: see :class:`.mapper_values.Rounds`."""
    # PEs along H, W and B work with the same weights; PEs along K read the same activations
    k, w, h = _ceil(spread.vectors_k, block.k), _ceil(spread.w, block.w), _ceil(spread.h, block.h)
    share_w, share_a = spread.pe_h * spread.pe_w * spread.pe_b, spread.pe_k
    # neighbours can hold as many different blocks as there are of them, and no more than there are blocks
    shared_k, shared_w = min(k, share_w), min(w, share_a)
    outer_k = _ceil(k, shared_k) if sharing.weights else k
    outer_w = _ceil(w, shared_w) if sharing.activations else w
    return Rounds(
        k, w, h, outer_k, outer_w, shared_k, share_w, share_a, w * h * spread.b, outer_w * h * spread.b
    )


@inlined
def _strip(work: TileWork, spread: Spread, rows: Int) -> Int:
    """Input rows, times channels and samples, when the tile's rows are cut into ``rows`` blocks a PE.

    Each cut adds the rows by which windows overlap. ``work.h`` stands for the input rows: that is exact for
    stride 1 with padding that keeps the size. The released program takes it for larger strides, too.
    """
    return (work.h + (work.r - work.stride_h) * (rows * spread.pe_h - 1)) * work.c * work.b


@inlined
def _across(work: TileWork, spread: Spread, rounds: Int) -> Int:
    """Input columns, with overlaps, when the tile's columns are cut into ``rounds`` blocks a PE."""
    return work.w + (work.s - work.stride_w) * (rounds * spread.pe_w - 1)


@inlined
def _activations(
    work: TileWork, spread: Spread, block: OutputBlock, sharing: Sharing, rounds: Rounds
) -> BufferAccesses:
    """Bytes of activations that the nest moves.

    ``strip`` x ``columns`` are the inputs that are written to buffers in one round along K. Where a PE has a
    single block along W, blocks along H follow one another directly and the buffer keeps the rows that both
    need: then only the cuts between PEs add overlaps. A read serves all lanes of a PE, so the buffers are
    read once for each vector of output channels.

    With sharing, what PEs write beyond the reads of the global buffer has come over the bus (``passed``), and
    was read from a neighbour's buffer for that. ``last`` corrects the reads for an incomplete last round, in
    which ``rounds.w % share_a`` blocks are left and some PEs have nothing to pass on.
    """
    strip = _low32(_strip(work, spread, 1 if rounds.w == 1 else rounds.h))
    columns = _low32(_across(work, spread, rounds.outer_w if sharing.activations else 1))
    rows = 1 if rounds.outer_w == 1 else rounds.h
    fetched = _low32(_strip(work, spread, rows) * _across(work, spread, 1))
    # with variant 2 the inputs are read once from the global buffer, not once for each round along K
    once = sharing.weights and sharing.activations and not sharing.second_weights
    shared_read = fetched * (1 if once else rounds.outer_k)
    # A vector of output channels reads its inputs once for all lanes: the operations of one output channel,
    # times the vectors.
    read = _operations(work) // work.k * spread.vectors_k * spread.pe_k
    # Written anew in each round along K, in each of the PEs that divide K and so need the same inputs.
    write = strip * columns * rounds.outer_k * rounds.share_a
    passed = 0
    if sharing.activations:
        overlap = strip * _low32(work.s - work.stride_w) * spread.pe_w * rounds.outer_k
        whole = block.w * (rounds.w - rounds.w % rounds.share_a) + work.stride_w - work.s
        last = strip * _low32(work.w - whole * spread.pe_w) * rounds.outer_k + overlap
        write += overlap * rounds.outer_w * (rounds.share_a - 1)
        # Whatever is written and was not read from the global buffer came from a neighbour.
        passed = write - shared_read
        read += passed - last * ((rounds.share_a - 1) * rounds.w % rounds.share_a)
    return BufferAccesses(read, write, passed, shared_read, 0)


@inlined
def _weights(
    problem: NestProblem, spread: Spread, block: OutputBlock, sharing: Sharing, rounds: Rounds
) -> BufferAccesses:
    """Bytes of weights that the nest moves.

    ``fetches`` says how often the weights enter the PEs' buffers. Once if nothing is passed on: a block stays
    while all positions pass. Weights that go round come back for every block of positions. ``last`` corrects
    the reads for an incomplete last round along K, as in :func:`_activations`.
    """
    tile, work = problem.tile, problem.work
    # One byte each; of one group.
    size = work.r * work.s * work.c * work.k
    fetches = 1
    if sharing.weights:
        fetches = rounds.all
    elif sharing.second_weights:
        fetches = rounds.outer
    second_read = size * (rounds.outer if sharing.activations or sharing.second_weights else 1)
    shared_read = size if sharing.second_weights else second_read
    read = size * rounds.all * rounds.share_w
    write = size * fetches * rounds.share_w
    passed = 0
    if sharing.weights:
        whole = block.k * tile.lanes * spread.pe_k * (rounds.k - rounds.k % rounds.share_w)
        last = size // work.k * _low32(work.k - whole) * fetches
        passed = write - second_read
        read += passed - last * ((rounds.share_w - 1) * rounds.k % rounds.share_w)
    return BufferAccesses(read, write, passed, shared_read, second_read)


@inlined
def _operations(work: TileWork) -> Int:
    """MACs of one group."""
    return work.c * work.k * work.r * work.s * work.h * work.w * work.b


@inlined
def _fits_bus(
    problem: NestProblem, spread: Spread, block: OutputBlock, sharing: Sharing, shared_k: Int
) -> bool:
    """Whether the bus is fast enough to pass the blocks on while the PEs compute.

    A block of weights must arrive within the cycles of one block. A block of activations has longer where
    weights go round inside it: as many times longer as there are blocks of weights.
    """
    tile, work = problem.tile, problem.work
    cycles = work.r * work.s * spread.vectors_c * block.k * block.h * block.w
    if sharing.weights:
        words = work.r * work.s * spread.each_c * min(spread.each_k, block.k * tile.lanes)
        if cycles * tile.bus_bytes_per_cycle < words * spread.side_by_side:
            return False
    if sharing.activations:
        cycles *= shared_k if sharing.weights else 1
        words = (block.h + work.r - work.stride_h) * block.w * spread.each_c
        if cycles * tile.bus_bytes_per_cycle < words * spread.side_by_side:
            return False
    return True


@inlined
def _cycles(problem: NestProblem, spread: Spread, shared_read: Int, second_read: Int) -> Int:
    """Cycles of one round of groups: the longest of computing and of reading each of the two buffers."""
    tile, work = problem.tile, problem.work
    cycles = spread.vectors_c * spread.vectors_k * spread.h * spread.w * spread.b * work.r * work.s
    cycles = max(cycles, _ceil(shared_read * spread.side_by_side, tile.shared_bytes_per_cycle))
    return max(cycles, _ceil(second_read * spread.side_by_side, tile.shared_bytes_per_cycle))


@inlined
def _try(problem: NestProblem, spread: Spread, block: OutputBlock, sharing: Sharing, best: Array) -> None:
    """Count the energy and cycles of one nest; keep it if it is cheaper than ``best``.

    Of equally cheap nests the first one tried stays.
    """
    tile, work, exponent = problem.tile, problem.work, problem.exponent
    rounds = _rounds(spread, block, sharing)
    if not _fits_bus(problem, spread, block, sharing, rounds.shared_k):
        return
    a = _activations(work, spread, block, sharing, rounds)
    w = _weights(problem, spread, block, sharing, rounds)
    operations, outputs = _operations(work), work.h * work.w * work.k * work.b
    # every vector of input channels adds to a partial sum: one read and one write of the PE's output buffer.
    # At the end each PE along C reads its sums once more and hands them to the shared output buffer
    partial = operations // work.c * spread.vectors_c * spread.pe_c
    buffers_pj = (
        _unsigned(a.read) * tile.activation_pj[0]
        + _unsigned(a.write) * tile.activation_pj[1]
        + _unsigned(w.read) * tile.weight_pj[0]
        + _unsigned(w.write) * tile.weight_pj[1]
        + (partial + spread.pe_c * outputs) * tile.output_pj[0]
        + partial * tile.output_pj[1]
        + outputs * tile.output_shared_pj[0]
        + outputs * tile.output_shared_pj[1]
    )
    shared_read = a.shared_read + w.shared_read
    shared_pj = _unsigned(shared_read) * tile.shared_pj[0] + outputs * tile.shared_pj[1]
    bus_pj = _unsigned(w.passed) * tile.bus_pj + _unsigned(a.passed) * tile.bus_pj
    mac_pj = operations * tile.mac_pj
    second_read = w.second_read if sharing.second_weights else 0
    cycles = _cycles(problem, spread, shared_read, second_read) * spread.group_rounds
    energy = (shared_pj + buffers_pj + bus_pj + mac_pj) * work.groups
    least = objective_value(best[ENERGY], best[CYCLES], exponent) if best[ENERGY] < np.inf else np.inf
    if objective_value(energy, float(cycles), exponent) < least:
        best[ENERGY], best[CYCLES] = energy, cycles
        best[SHARED], best[BUFFERS] = shared_pj * work.groups, buffers_pj * work.groups
        best[BUS], best[MACS] = bus_pj * work.groups, mac_pj * work.groups
