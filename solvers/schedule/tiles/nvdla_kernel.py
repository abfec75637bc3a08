"""The compiled half of :mod:`.nvdla`: lists and counts the mappings of tile parts that have the dataflow.

From the inside out, with the loops of each level; every factor that is not named is 1:

    WeightRegisters   Q, P: the output positions of a block, while each MAC holds one weight
    Accumulators      R, S, C: everything that is summed up.     Spread: C over the MACs of a lane
    WeightBuffer      K: the output channels whose weights a lane holds
    ActivationBuffer  none.                                      Spread: K, then groups, over the lanes
    OutputBuffer      none.                                      Spread: two dims over the grid of PEs
    Buffer            Q, P, N, K, groups: block after block, so that weights stay while positions pass
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import called, entry, inlined
from costmodel.mapping.batch.batch_kernel import prepare_row, row_cost

if TYPE_CHECKING:
    from costmodel.mapping.batch.batch_tables import BatchRows, RowCounts, Tables

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""

R, S, P, Q, C, K, N, G = range(8)
"""Positions of the dims in ``NvdlaForm.dims``; a depthwise layer's channels are its K, and it has no C."""
REGISTERS, ACCUMULATORS, WEIGHTS, ACTIVATIONS, OUTPUTS, BUFFER = range(6)
SPLITS = np.array([[C, K], [C, N], [N, K], [C, Q], [P, K], [P, Q]])
"""The dims that the columns and the rows of the grid of PEs are spread over, as in SET's released program."""
OUTPUT_TENSOR = 2
ENERGY, CYCLES, EDP = range(3)
"""Objectives."""


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


class NvdlaForm(NamedTuple):
    """What tile parts with the same dims and tensors have in common.

    ``dims`` [8] are the indices of the dims, -1 for one that the parts do not have. ``sizes`` [dims] is
    workspace: the sizes of the part that is looked at, padded or not. It is the array of the same name in the
    tables.
    """

    dims: Array
    sizes: Array
    stride_h: int
    stride_w: int


class FoundMappings(NamedTuple):
    """The best mapping of each of n parts; rows of parts that have none (``listed`` 0) mean nothing."""

    rows: BatchRows
    """n + 1 rows, with their permutations and kept tensors. The last is workspace: each mapping is written to
    it, counted, and copied to its part's row if it is better."""
    sizes: Array
    """[n, dims] the sizes that the mapping executes, with its padding."""
    objective: Array
    """[n] in pJ, cycles or pJ cycles."""
    cycles: Array
    energy_pj: Array
    listed: Array
    """[n] how many mappings were counted."""


@entry
def best_mappings(
    tile: NvdlaNumbers,
    form: NvdlaForm,
    parts: Array,
    judge: tuple[int, float],
    tables: Tables,
    counts: RowCounts,
    padded: Array,
    found: FoundMappings,
) -> None:
    """Fill ``found`` with the best mappings of ``parts`` [n, dims], as they are or padded.

    ``judge`` is the objective (ENERGY, CYCLES or EDP) and the energy of one MAC in pJ. ``padded`` [8, dims]
    is workspace.
    """
    for part in range(parts.shape[0]):
        found.objective[part] = found.energy_pj[part] = np.inf
        found.listed[part] = 0
        for variant in range(padded.shape[0]):
            _pad(tile, form, parts[part], variant, padded[variant])
            if not _is_new(padded, variant):
                continue
            macs: Int = 1
            for dim in range(form.sizes.shape[0]):
                form.sizes[dim] = padded[variant, dim]
                macs *= padded[variant, dim]
            _look_through(tile, form, part, (judge[0], macs * judge[1]), tables, counts, found)


@called
def _pad(tile: NvdlaNumbers, form: NvdlaForm, part: Array, variant: Int, sizes: Array) -> None:
    """Fill ``sizes`` [dims]: the part as it is (0), with dims that fill MACs and lanes (1), and those that
    fill the sides of the grid along each of SPLITS as well (2 to 7)."""
    for dim in range(part.shape[0]):
        sizes[dim] = part[dim]
    if variant == 0:
        return
    for dim, unit in ((K, tile.lanes), (C, tile.vector)):
        if form.dims[dim] >= 0:
            sizes[form.dims[dim]] = _filled(sizes[form.dims[dim]], unit)
    if variant == 1:
        return
    for side in range(2):
        dim = SPLITS[variant - 2, side]
        if form.dims[dim] < 0:
            dim = K  # a depthwise layer has no C
        unit = tile.lanes if dim == K else tile.vector if dim == C else 1
        size = sizes[form.dims[dim]]
        if size > unit:
            pes = tile.columns if side == 0 else tile.rows
            sizes[form.dims[dim]] = unit * _filled(size // unit, pes)


@inlined
def _filled(size: Int, unit: Int) -> Int:
    """The size rounded up to a multiple of ``unit``; one that is smaller than ``unit`` stays."""
    return size if size <= unit else (size + unit - 1) // unit * unit


@called
def _is_new(padded: Array, variant: Int) -> bool:
    """Whether no earlier row of ``padded`` is equal."""
    for earlier in range(variant):
        equal = True
        for dim in range(padded.shape[1]):
            equal = equal and padded[earlier, dim] == padded[variant, dim]
        if equal:
            return False
    return True


@called
def _look_through(
    tile: NvdlaNumbers,
    part: NvdlaForm,
    number: Int,
    judge: tuple[int, float],
    tables: Tables,
    counts: RowCounts,
    found: FoundMappings,
) -> None:
    """List the mappings of the part of ``part.sizes``, count each, and keep the best for part ``number``.

    For each split every width ``w`` of a block takes the most rows ``h`` that fit with it, and then the most
    output channels. The output buffer keeps outputs, or passes finished ones on. ``judge`` is the objective
    and the energy of all MACs.
    """
    row, at = found.rows, found.rows.temporal.shape[0] - 1
    r, s, depthwise = _size(part, R), _size(part, S), part.dims[C] < 0
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
            # every lane of a depthwise layer reads the inputs of its own channels, all others the same
            across = (lanes if depthwise else summed * groups) * ((w - 1) * part.stride_w + s)
            most = min(
                (tile.activation_words // across - r) // part.stride_h + 1, tile.accumulator_words // w
            )
            h = _divisor(p, most)
            if most < 1:
                continue
            for kept in range(2):
                channels = tile.weight_words // (r * s * summed)
                if depthwise:
                    channels = min(
                        channels, tile.activation_words // (across * ((h - 1) * part.stride_h + r))
                    )
                if kept:
                    channels = min(channels, tile.output_words // (h * w * makers))
                if channels < 1:
                    continue
                _clear(row, at)
                held = _divisor(k, channels)
                _loop(row.temporal, at, REGISTERS, part, Q, w)
                _loop(row.temporal, at, REGISTERS, part, P, h)
                _loop(row.temporal, at, ACCUMULATORS, part, R, r)
                _loop(row.temporal, at, ACCUMULATORS, part, S, s)
                _loop(row.temporal, at, ACCUMULATORS, part, C, c)
                _loop(row.spatial_y, at, ACCUMULATORS, part, C, vector)
                _loop(row.temporal, at, WEIGHTS, part, K, held)
                _loop(row.spatial_x, at, ACTIVATIONS, part, K, lanes)
                _loop(row.spatial_x, at, ACTIVATIONS, part, G, groups)
                _loop(row.spatial_x, at, OUTPUTS, part, first, columns)
                _loop(row.spatial_y, at, OUTPUTS, part, second, over_rows)
                _loop(row.temporal, at, BUFFER, part, Q, q // w)
                _loop(row.temporal, at, BUFFER, part, P, p // h)
                _loop(row.temporal, at, BUFFER, part, K, k // held)
                _loop(row.temporal, at, BUFFER, part, G, _size(part, G) // groups)
                samples = _size(part, N) // (columns if first == N else over_rows if second == N else 1)
                _loop(row.temporal, at, BUFFER, part, N, samples)
                row.keep[at, OUTPUTS, OUTPUT_TENSOR] = kept == 1
                found.listed[number] += 1
                if prepare_row(tables, row, at, counts):
                    _keep_if_better(tables, counts, at, judge, number, found)


@inlined
def _keep_if_better(
    tables: Tables, counts: RowCounts, row: Int, judge: tuple[int, float], number: Int, found: FoundMappings
) -> None:
    """Put the prepared ``row`` into ``found`` where it beats what is there: by the objective, then by cycles,
    then by energy."""
    objective, mac_energy_pj = judge
    cycles, energy_pj = row_cost(tables, found.rows, row, counts, mac_energy_pj)
    value = energy_pj if objective == ENERGY else float(cycles) if objective == CYCLES else energy_pj * cycles
    if value > found.objective[number]:
        return
    if value == found.objective[number]:
        if cycles > found.cycles[number]:
            return
        if cycles == found.cycles[number] and energy_pj >= found.energy_pj[number]:
            return
    found.objective[number], found.cycles[number], found.energy_pj[number] = value, cycles, energy_pj
    rows, levels = found.rows, found.rows.temporal.shape[1]
    for dim in range(found.sizes.shape[1]):
        found.sizes[number, dim] = tables.sizes[dim]
        for level in range(levels):
            rows.temporal[number, level, dim] = rows.temporal[row, level, dim]
            rows.spatial_x[number, level, dim] = rows.spatial_x[row, level, dim]
            rows.spatial_y[number, level, dim] = rows.spatial_y[row, level, dim]
    for level in range(levels):
        for tensor in range(rows.keep.shape[2]):
            rows.keep[number, level, tensor] = rows.keep[row, level, tensor]


@inlined
def _size(part: NvdlaForm, dim: Int) -> Int:
    """The size of a dim, 1 for one that the part does not have."""
    return part.sizes[part.dims[dim]] if part.dims[dim] >= 0 else 1


@inlined
def _left(part: NvdlaForm, dim: Int, vector: Int, lanes: Int) -> Int:
    """What MACs and lanes leave of a dim for PEs and loops in time."""
    return _size(part, dim) // (vector if dim == C else lanes if dim == K else 1)


@called
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
def _loop(factors: Array, row: Int, level: Int, part: NvdlaForm, dim: Int, bound: Int) -> None:
    """Set one factor; a dim that the part does not have has none."""
    if part.dims[dim] >= 0:
        factors[row, level, part.dims[dim]] = bound
