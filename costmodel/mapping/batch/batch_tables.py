"""The arrays that the compiled half of :mod:`costmodel.mapping.batch.batch` works on."""

from __future__ import annotations

from math import inf
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.architecture import Architecture
from costmodel.mapping.batch.timing_tables import TimingTables, WalkCounts, timing_tables, walk_workspace
from costmodel.mapping.counts.traffic import refuse_begun
from costmodel.mapping.element_bits import mac_pj, stack_in_units, units_of
from costmodel.workload.network import Layer, Tensor

Array = NDArray[Any]
LARGEST = np.iinfo(np.int64).max


class BatchRows(NamedTuple):
    """The arrays of a :class:`MappingBatch`, as compiled code takes them."""

    temporal: Array
    permutation: Array
    spatial_x: Array
    spatial_y: Array
    keep: Array


class Tables(NamedTuple):
    """One layer on one architecture as compiled code takes it; levels innermost first."""

    sizes: Array
    """[dims] the layer's sizes."""
    relevant: Array
    """[tensors, dims] whether the dim moves the tensor."""
    slides: Array
    """[tensors] whether neighbouring tiles can overlap."""
    axes: Array
    """[tensors] how many axes there are."""
    term_dims: Array
    """[tensors, axes, terms] the dims that an axis sums, -1 beyond the last."""
    term_steps: Array
    """[tensors, axes, terms] the coefficients of these dims, 0 beyond the last."""
    axis_of: Array
    """[tensors, dims] the axis that a dim moves the tensor along, -1 if none."""
    step_of: Array
    """[tensors, dims] by how many words one point of the dim moves it along that axis: the coefficient."""
    output: int
    """The index of the output tensor."""
    begun: bool
    """Whether partial sums of the output are there before the layer starts."""
    can_keep: Array
    """[levels, tensors] whether the level can keep the tensor. The hardware numbers that follow are [levels]
    and mean what they do in ``StorageLevel``; no limit is infinity, of words the largest int64. Where the
    architecture has a precision, their words are units of bits (``costmodel/mapping/element_bits.py``)."""
    usable_words: Array
    fanout_x: Array
    fanout_y: Array
    block_size: Array
    read_pj: Array
    write_pj: Array
    update_pj: Array
    leakage_pj: Array
    read_bandwidth: Array
    write_bandwidth: Array
    shared_bandwidth: Array
    mac_energy_pj: float
    """pJ of all MACs of the layer."""
    timing: TimingTables
    units: Array
    """[levels, tensors] units of an element, of an output that is finished; 1 where elements are words."""
    sum_units: Array
    """[levels] units of a partial sum."""
    wide_sums: bool
    """Whether a partial sum takes more units than a finished output at some level."""


class TemporalLoops(NamedTuple):
    """The temporal loops above 1 of a mapping, all levels in one row, innermost loop first.

    The loops of level ``i`` are those numbered ``starts[i]`` to ``starts[i + 1] - 1``; what lies outside the
    tile of level ``i`` are the loops from ``starts[i + 1]`` on. The row may begin above 0: the exact mapper
    decides the outermost level first, and fills the row from its end.
    """

    dim: Array
    """[levels * dims] the dim, as an index of the layer's dims."""
    bound: Array
    """[levels * dims] how many steps the loop makes."""
    stride: Array
    """[levels * dims] the points of the dim that the loops inside this one cover: one step's distance."""
    starts: Array
    """[levels + 1] where each level's loops begin; the last entry is where the row ends."""


class RowCounts(NamedTuple):
    """Workspace for one row, levels innermost first."""

    tiles: Array
    """[levels, dims] points of each dim that one instance covers."""
    words: Array
    """[levels, tensors] words of these tiles."""
    groups: Array
    """[levels, tensors] different tiles among the children below one instance."""
    loops: TemporalLoops
    instances: Array
    """[levels] instances in use."""
    partitions: Array
    """[levels] words of the output that one instance is responsible for (item 9)."""
    union: Array
    """[dims] points that the children below one instance cover together, of the level looked at."""
    read_demand: Array
    """[levels] words read per compute cycle and instance."""
    write_demand: Array
    """[levels] words written (filled and updated) per compute cycle and instance."""
    read_words: Array
    """[levels] words read per instance, whatever the cycles; timed cycles need them."""
    written_words: Array
    """[levels] words written per instance."""
    processing: Array
    """[3] of an array of PEs with links: cycles of the busiest link (LINK) and of exposed fills (FILLS), and
    the partial sums that leave one innermost instance (SUMS). The names of the entries are
    ``batch_kernel``'s; see ``ProcessingTiming``."""
    term_bounds: Array
    """[terms] bounds of the spatial loops along one axis of one tensor."""
    term_strides: Array
    """[terms] their strides in words."""
    sums: Array
    """[children] the positions that three or more such loops take the children to; empty where no axis sums
    so many dims."""
    walk: WalkCounts
    """The steps of a machine with timing."""


def tables_of(architecture: Architecture, layer: Layer) -> Tables:
    """The layer on the architecture, as compiled code takes it."""
    refuse_begun(architecture, layer)
    levels = stack_in_units(architecture, layer).levels
    units = units_of(architecture, layer)
    widths, sums = np.ones((len(levels), len(layer.tensors)), np.int64), np.ones(len(levels), np.int64)
    if units is not None:
        widths[:] = [[one.elements[tensor.name] for tensor in layer.tensors] for one in units]
        sums[:] = [one.sums for one in units]
    output = layer.tensors.index(layer.output)
    dims = [dim for dim, _ in layer.dims]
    return Tables(
        sizes=np.array([size for _, size in layer.dims], np.int64),
        relevant=np.array([[dim in tensor.dims for dim in dims] for tensor in layer.tensors]),
        slides=np.array([tensor.slides for tensor in layer.tensors]),
        axes=np.array([len(tensor.terms) for tensor in layer.tensors], np.int64),
        term_dims=_terms(layer, 0, -1),
        term_steps=_terms(layer, 1, 0),
        axis_of=np.array([[_axis_of(t, dim)[0] for dim in dims] for t in layer.tensors], np.int64),
        step_of=np.array([[_axis_of(t, dim)[1] for dim in dims] for t in layer.tensors], np.int64),
        output=output,
        begun=layer.output.begun,
        can_keep=np.array([[level.can_keep(tensor) for tensor in layer.tensors] for level in levels]),
        usable_words=np.array([_whole(level.usable_words) for level in levels], np.int64),
        fanout_x=np.array([level.fanout_x for level in levels], np.int64),
        fanout_y=np.array([level.fanout_y for level in levels], np.int64),
        block_size=np.array([level.block_size for level in levels], np.int64),
        read_pj=np.array([float(level.read_energy_pj) for level in levels]),
        write_pj=np.array([float(level.write_energy_pj) for level in levels]),
        update_pj=np.array([float(level.update_energy_pj) for level in levels]),
        leakage_pj=np.array([float(level.leakage_pj_per_cycle) for level in levels]),
        read_bandwidth=np.array([_limit(level.read_bandwidth) for level in levels]),
        write_bandwidth=np.array([_limit(level.write_bandwidth) for level in levels]),
        shared_bandwidth=np.array([_limit(level.shared_bandwidth) for level in levels]),
        mac_energy_pj=float(layer.macs * mac_pj(architecture, layer)),
        timing=timing_tables(architecture, layer),
        units=widths,
        sum_units=sums,
        wide_sums=bool((sums > widths[:, output]).any()),
    )


def workspace(tables: Tables) -> RowCounts:
    """Workspace for one row at a time; what it holds has no meaning before a row is counted."""
    (levels, tensors), dims = tables.can_keep.shape, len(tables.sizes)
    terms = tables.term_dims.shape[2]
    most_children = int((tables.fanout_x * tables.fanout_y).max())
    return RowCounts(
        tiles=np.empty((levels, dims), np.int64),
        words=np.empty((levels, tensors), np.int64),
        groups=np.empty((levels, tensors), np.int64),
        loops=loops_workspace(levels, dims),
        instances=np.empty(levels, np.int64),
        partitions=np.empty(levels, np.int64),
        union=np.empty(dims, np.int64),
        read_demand=np.empty(levels, np.float64),
        write_demand=np.empty(levels, np.float64),
        read_words=np.empty(levels, np.int64),
        written_words=np.empty(levels, np.int64),
        processing=np.zeros(3),
        term_bounds=np.empty(terms, np.int64),
        term_strides=np.empty(terms, np.int64),
        # Two dims of one axis have a closed form (``distinct_pairs``); only three or more are listed one by
        # one.
        sums=np.empty(most_children if terms > 2 else 0, np.int64),
        walk=walk_workspace(tables.timing),
    )


def loops_workspace(levels: int, dims: int) -> TemporalLoops:
    """Workspace for the loops of one mapping at a time; what it holds has no meaning yet."""
    dim, bound, stride = (np.zeros(levels * dims, np.int64) for _ in range(3))
    return TemporalLoops(dim, bound, stride, np.zeros(levels + 1, np.int64))


def _whole(words: float) -> int:
    # A tile is a whole number of words, so it fits a fractional capacity exactly if it fits what is below it.
    # No limit is the largest integer, as compiled code compares integers only.
    return LARGEST if words == inf else int(words)


def _limit(bandwidth: float | None) -> float:
    return inf if bandwidth is None else float(bandwidth)


def _axis_of(tensor: Tensor, dim: str) -> tuple[int, int]:
    """The axis along which a dim moves a tensor, and its coefficient there; (-1, 0) if there is none."""
    for index, axis in enumerate(tensor.terms):
        # A dim stands on one axis of a tensor at most, so the first found is the only one.
        for name, coefficient in axis:
            if name == dim:
                return index, coefficient
    return -1, 0


def _terms(layer: Layer, part: int, missing: int) -> Array:
    """The dims (``part`` 0, as indices) or coefficients (``part`` 1) of all axes, ``missing`` beyond the last
    term: int64 [tensors, axes, terms]."""
    index = {dim: number for number, (dim, _) in enumerate(layer.dims)}
    axes = max((len(tensor.terms) for tensor in layer.tensors), default=1)
    terms = max([2, *(len(axis) for tensor in layer.tensors for axis in tensor.terms)])
    table = np.full((len(layer.tensors), max(1, axes), terms), missing, np.int64)
    for number, tensor in enumerate(layer.tensors):
        for axis_index, axis in enumerate(tensor.terms):
            for position, (dim, coefficient) in enumerate(axis):
                table[number, axis_index, position] = (index[dim], coefficient)[part]
    return table
