"""The compiled half of :mod:`.nvdla`: lists the mappings of one tile part that have the dataflow.

From the inside out, with the loops of each level; every factor that is not named is 1:

    WeightRegisters   Q, P: the output positions of a block, while each MAC holds one weight
    Accumulators      R, S, C: everything that is summed up.     Spread: C over the MACs of a lane
    WeightBuffer      K: the output channels whose weights a lane holds
    ActivationBuffer  none.                                      Spread: K, then groups, over the lanes
    OutputBuffer      none.                                      Spread: two dims over the grid of PEs
    Buffer            Q, P, N, K, groups: block after block, so that weights stay while positions pass
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined
from costmodel.mapping.batch_tables import BatchRows

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""

R, S, P, Q, C, K, N, G = range(8)
"""Positions of the dims in ``NvdlaPart.dims``; a depthwise layer's channels are its K, and it has no C."""
REGISTERS, ACCUMULATORS, WEIGHTS, ACTIVATIONS, OUTPUTS, BUFFER = range(6)
SPLITS = np.array([[C, K], [C, N], [N, K], [C, Q], [P, K], [P, Q]])
"""The dims that the columns and the rows of the grid of PEs are spread over, as in SET's released program."""
INPUT_TENSOR, OUTPUT_TENSOR = 1, 2


class NvdlaNumbers(NamedTuple):
    """A tile: MACs a lane, lanes a PE, columns and rows of PEs, and the words that one buffer can hold."""

    vector: int
    lanes: int
    columns: int
    rows: int
    accumulator_words: int
    weight_words: int
    activation_words: int
    output_words: int


class NvdlaPart(NamedTuple):
    """A tile part: ``dims`` [8] are the indices of its dims, -1 for one that it does not have; ``sizes`` are
    by these indices."""

    dims: Array
    sizes: Array
    stride_h: int
    stride_w: int


@entry
def list_mappings(tile: NvdlaNumbers, part: NvdlaPart, rows: BatchRows) -> Int:
    """Fill ``rows`` from the first on and return how many there are; rows that do not fit are left out.

    ``rows`` have their permutations and kept tensors already, but for the output buffer, which may pass
    finished outputs on instead of keeping them. For each split every width ``w`` of a block takes the most
    rows ``h`` that fit with it, and then the most output channels. The caller makes enough rows:
    :func:`most_rows`.
    """
    count: Int = 0
    r, s = _size(part, R), _size(part, S)
    for split in range(SPLITS.shape[0]):
        first, second = SPLITS[split, 0], SPLITS[split, 1]
        vector = _divisor(_size(part, C), tile.vector)
        lanes = _divisor(_size(part, K), tile.lanes)
        # lanes that compute different groups read different activations: a PE reads one vector a cycle
        groups = _divisor(_size(part, G), min(tile.lanes // lanes, tile.vector // vector))
        columns = _divisor(_left(part, first, vector, lanes), tile.columns)
        over_rows = _divisor(_left(part, second, vector, lanes), tile.rows)
        c, k = _left(part, C, vector, lanes), _left(part, K, vector, lanes)
        p, q = _size(part, P), _size(part, Q)
        for dim, spread in ((first, columns), (second, over_rows)):
            c //= spread if dim == C else 1
            k //= spread if dim == K else 1
            p //= spread if dim == P else 1
            q //= spread if dim == Q else 1
        summed = c * vector
        # all PEs together make so many times the outputs of one lane: those that sum up C make the same
        makers = lanes * groups * (1 if first == C else columns) * over_rows
        if r * s * summed > tile.weight_words:
            continue
        for w in range(min(q, tile.accumulator_words), 0, -1):
            if q % w:
                continue
            across = summed * groups * ((w - 1) * part.stride_w + s)
            most = min(
                (tile.activation_words // across - r) // part.stride_h + 1, tile.accumulator_words // w
            )
            h = _divisor(p, most)
            if most < 1:
                continue
            for kept in range(2):
                channels = tile.weight_words // (r * s * summed)
                if kept:
                    channels = min(channels, tile.output_words // (h * w * makers))
                if channels < 1:
                    continue
                _clear(rows, count)
                held = _divisor(k, channels)
                _loop(rows.temporal, count, REGISTERS, part, Q, w)
                _loop(rows.temporal, count, REGISTERS, part, P, h)
                _loop(rows.temporal, count, ACCUMULATORS, part, R, r)
                _loop(rows.temporal, count, ACCUMULATORS, part, S, s)
                _loop(rows.temporal, count, ACCUMULATORS, part, C, c)
                _loop(rows.spatial_y, count, ACCUMULATORS, part, C, vector)
                _loop(rows.temporal, count, WEIGHTS, part, K, held)
                _loop(rows.spatial_x, count, ACTIVATIONS, part, K, lanes)
                _loop(rows.spatial_x, count, ACTIVATIONS, part, G, groups)
                _loop(rows.spatial_x, count, OUTPUTS, part, first, columns)
                _loop(rows.spatial_y, count, OUTPUTS, part, second, over_rows)
                _loop(rows.temporal, count, BUFFER, part, Q, q // w)
                _loop(rows.temporal, count, BUFFER, part, P, p // h)
                _loop(rows.temporal, count, BUFFER, part, K, k // held)
                _loop(rows.temporal, count, BUFFER, part, G, _size(part, G) // groups)
                samples = _size(part, N) // (columns if first == N else over_rows if second == N else 1)
                _loop(rows.temporal, count, BUFFER, part, N, samples)
                rows.keep[count, OUTPUTS, OUTPUT_TENSOR] = kept == 1
                count += 1
    return count


def most_rows(divisors_of_q: int) -> int:
    """How many rows :func:`list_mappings` can fill at most: the width of a block divides Q."""
    return 2 * len(SPLITS) * divisors_of_q


@inlined
def _size(part: NvdlaPart, dim: Int) -> Int:
    """The size of a dim, 1 for one that the part does not have."""
    return part.sizes[part.dims[dim]] if part.dims[dim] >= 0 else 1


@inlined
def _left(part: NvdlaPart, dim: Int, vector: Int, lanes: Int) -> Int:
    """What MACs and lanes leave of a dim for PEs and loops in time."""
    return _size(part, dim) // (vector if dim == C else lanes if dim == K else 1)


@inlined
def _divisor(size: Int, most: Int) -> Int:
    """The largest divisor of ``size`` that is at most ``most``; 1 where ``most`` is less."""
    for found in range(min(size, most), 1, -1):
        if size % found == 0:
            return found
    return 1


@inlined
def _clear(rows: BatchRows, row: Int) -> None:
    """Make all factors of a row 1."""
    rows.temporal[row] = 1
    rows.spatial_x[row] = 1
    rows.spatial_y[row] = 1


@inlined
def _loop(factors: Array, row: Int, level: Int, part: NvdlaPart, dim: Int, bound: Int) -> None:
    """Set one factor; a dim that the part does not have has none."""
    if part.dims[dim] >= 0:
        factors[row, level, part.dims[dim]] = bound
