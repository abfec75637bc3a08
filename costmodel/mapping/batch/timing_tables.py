"""What the compiled timed cycles read and write: a machine's timing for one layer as arrays, and a workspace.

Compiled code knows dims, tensors, levels and caches by number, in the order in which the layer, the
architecture and the timing have them. What a machine does not describe gets a number that changes nothing.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from math import gcd
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture, Compute, StorageLevel
from costmodel.hardware.timing import CacheTiming, Timing, TransferTiming
from costmodel.mapping.timing.caches import TensorInMemory, hit_rate, lines_of_box, tensor_in_memory
from costmodel.mapping.timing.walk import dim_of, is_product
from costmodel.workload.network import Layer

Array = NDArray[Any]


class TimingTables(NamedTuple):
    """``costmodel.hardware.timing.Timing`` for one layer; without timing only ``timed`` has a meaning.

    Axes are those of tensors in memory, OUTERMOST FIRST; directions are loads (0) and stores (1).
    """

    timed: int | None
    """1 with timing, None on a machine that has none: numba then compiles nothing of timing."""
    in_flight: int
    whole_steps: int
    """1 if a step keeps its half of the buffers until it has stored, and only then the next but one loads."""
    ahead: float
    """Cycles by which a part of such a step (load, compute, store) may overlap with the part before it."""
    issue: float
    """Cycles to issue one step."""
    rounding: Array
    """[dims] tiles are rounded up to whole multiples of so many points; 1 for no rounding."""
    inner_levels: int
    """How many levels, from the innermost, have bandwidths that the timing does not describe."""
    counts_macs: int
    """1 if the cycles in which the MAC units compute count as well, as the timing describes no array."""
    has_array: int
    block: Array
    """[dims] points that a block of weights holds; 0 for dims that stream through it."""
    streamed: int
    """The dim that is cut into passes, -1 where the layer does not have it."""
    streams: Array
    """[dims] whether all of the dim's points stream through every block, apart from ``streamed``."""
    pass_points: int
    shortest_pass: float
    least_last_pass: float
    axes: Array
    """[tensors] how many axes there are."""
    term_dims: Array
    """[tensors, axes, terms] the dims that an axis sums, -1 beyond the last."""
    term_steps: Array
    """[tensors, axes, terms] their coefficients."""
    axis_block: Array
    """[tensors, axes] positions along an axis that make one of its elements, of a layout in blocks."""
    axis_inside: Array
    """[tensors, axes] of the inner axis of a layout in blocks (8C in ``N C Q P 8C``) the elements of a block,
    which always move together; 0 for any other axis."""
    lengths: Array
    """[tensors, axes] elements along the axis."""
    strides: Array
    """[tensors, axes] bytes of one step along it."""
    relevant: Array
    """[tensors, dims] whether the dim moves the tensor."""
    output: int
    element_bytes: int
    whole_strides: int
    moves: Array
    """[2] by direction, whether its transfers are described. Arrays up to ``row_elements`` are [2], too."""
    request_bytes: Array
    beat_bytes: Array
    buffer_bytes: Array
    """Bytes that the buffer takes in or gives in a cycle."""
    in_proportion: Array
    """Whether a request for less than a beat counts in proportion to its bytes."""
    per_request: Array
    """Cycles for each request."""
    per_row: Array
    """Cycles for each row."""
    joins_rows: Array
    """Whether rows that follow each other in memory are moved as one."""
    row_elements: Array
    """Elements of a row that are moved at once; 0 for no limit."""
    reloads: Array
    """[tensors] whether every step loads the tensor's tile."""
    keeps_partial_sums: int
    """1 if outputs stay in the machine until they are finished."""
    clear_per_row: float
    """Cycles to set a row of outputs to zero."""
    clear_width: int
    """Outputs in such a row: the columns of the array."""
    cache_lines: Array
    """[caches] how many lines each cache has. The arrays up to ``cold`` have an entry for each cache, too."""
    line_bytes: Array
    cache_sets: Array
    cache_ways: Array
    row_sets: Array
    """[caches, tensors] in how many sets the rows of a tensor begin, if a tile has parts of rows; 0 where
    they begin in all sets (``usable_lines`` in ``costmodel/mapping/timing/caches.py``)."""
    read_miss: Array
    """Cycles for each line that is read and missed."""
    write_miss: Array
    """Cycles for each line that is written and missed."""
    cold: Array
    """The fraction of the lines missed by a cold cache that this one misses: 1 where caches start cold, 0
    where they hold the whole layer from the beginning."""
    processes: int
    """1 if the timing describes an array of PEs with links (``ProcessingTiming``), which follows."""
    accumulate: float
    link_read: Array
    """[levels, tensors] words a cycle inwards, infinity for no limit."""
    link_write: Array
    """[levels, tensors] words a cycle outwards."""
    fill: Array
    """[tensors] words a cycle of exposed fills, infinity where there are none."""


class WalkCounts(NamedTuple):
    """Workspace for the timed cycles of one walk over tiles."""

    dim: Array
    """[dims] the loops over tiles, innermost first."""
    bound: Array
    """[dims] their iterations."""
    loops: Array
    """[1] how many there are."""
    tile: Array
    """[dims] points of a tile."""
    tiles: Array
    """[dims] tiles along the dim."""
    last: Array
    """[dims] points of the last of them."""
    box: Array
    """[dims] points that the loops looked at so far cover."""
    lines: Array
    """[dims + 1, tensors] lines of memory touched: row 0 by one tile, row n by all tiles of the n innermost
    loops."""
    missed: Array
    """[tensors] lines that a cache did not hold."""
    stays: Array
    """[tensors] whether a tensor has stayed in the machine during the loops looked at so far."""
    extents: Array
    """[tiles of an axis] elements of a tile along one axis, each kind of tile once."""
    counts: Array
    """[tiles of an axis] how many tiles have so many."""
    cycles: Array
    """[8] cycles of array, loads, stores, misses and issue, each by itself; how many steps there are; and on
    a machine with whole steps how many of them store, and 1 if no two of these follow each other. The names
    of the entries are constants of ``timing_kernel.py``."""


def timing_tables(architecture: Architecture, layer: Layer) -> TimingTables:
    """The architecture's timing for the layer, or tables without one, as compiled code takes them.

    InputError for timing of another level than the outermost, whose parts have tables of their own.
    """
    timing = architecture.timing
    if timing is None:
        points = replace(layer, name="", dims=tuple((dim, 1) for dim, _ in layer.dims))
        return _untimed(len(architecture.levels), points)
    if timing.level not in (None, architecture.levels[-1].name):
        where, expected = f"architecture {architecture.name}", "timing of the outermost level, for batches"
        raise InputError(where, expected, timing.level, "Evaluate mapping by mapping", key="timing")
    return _tables_of(architecture, timing, layer)


@lru_cache(maxsize=256)
def _untimed(levels: int, layer: Layer) -> TimingTables:
    """Tables without timing, in which nothing has a meaning: those of any such machine and sizes will do."""
    stack = tuple(StorageLevel(str(number), None, 8, 0.0, 0.0, 0.0) for number in range(levels))
    machine = Architecture("any", stack, Compute("any", 8, 0.0))
    return _tables_of(machine, Timing(array=None, load=None, store=None), layer)


def _tables_of(architecture: Architecture, timing: Timing, layer: Layer) -> TimingTables:
    """The tables of a machine with this ``timing``, of the outermost level."""
    dims = [dim for dim, _ in layer.dims]
    element_bytes = max(1, architecture.levels[-1].word_bits // 8)
    tensors = [tensor_in_memory(timing, layer, tensor, element_bytes) for tensor in layer.tensors]
    product = is_product(layer)
    directions = (timing.load, timing.store)
    described = timing.load is not None and timing.store is not None
    streamed = dim_of(layer, timing.array.pass_dim) if timing.array else ""
    block = _blocks(timing, layer, dims)
    return TimingTables(
        timed=None if architecture.timing is None else 1,
        in_flight=timing.steps_in_flight,
        whole_steps=int(timing.has_whole_steps(product=product)),
        ahead=float(timing.ahead_cycles),
        issue=float(timing.issue_of(product=product)),
        rounding=_rounding(timing, layer, dims, product),
        inner_levels=len(architecture.levels) - int(described),
        counts_macs=int(timing.array is None),
        has_array=int(timing.array is not None),
        block=block,
        streamed=dims.index(streamed) if streamed in dims else -1,
        streams=np.array([held == 0 and dim != streamed for dim, held in zip(dims, block, strict=True)]),
        pass_points=timing.array.pass_points if timing.array else 1,
        shortest_pass=float(timing.array.shortest_pass_cycles) if timing.array else 0.0,
        least_last_pass=float(timing.array.least_last_pass_cycles) if timing.array else 0.0,
        # A tensor of one element has no axis; one of length 1 is the same.
        axes=np.array([max(1, len(tensor.axes)) for tensor in tensors], np.int64),
        term_dims=_terms(tensors, dims, 0, -1),
        term_steps=_terms(tensors, dims, 1, 0),
        axis_block=_per_axis([tuple(axis.block for axis in tensor.axes) for tensor in tensors]),
        axis_inside=_per_axis([tuple(axis.inside for axis in tensor.axes) or (0,) for tensor in tensors]),
        lengths=_per_axis([tensor.lengths for tensor in tensors]),
        strides=_per_axis([tensor.strides or (element_bytes,) for tensor in tensors]),
        relevant=np.array([[dim in tensor.dims for dim in dims] for tensor in layer.tensors]),
        output=layer.tensors.index(layer.output),
        element_bytes=element_bytes,
        whole_strides=int(timing.whole_strides),
        moves=np.array([one is not None for one in directions]),
        request_bytes=np.array([one.request_bytes if one else 1 for one in directions], np.int64),
        beat_bytes=np.array([float(one.beat_bytes) if one else 1.0 for one in directions]),
        buffer_bytes=np.array(
            [float(one.buffer_bytes or one.beat_bytes) if one else 1.0 for one in directions]
        ),
        in_proportion=np.array([one is not None and one.short_requests_in_proportion for one in directions]),
        per_request=np.array([float(one.cycles_per_request) if one else 0.0 for one in directions]),
        per_row=np.array([float(one.cycles_per_row) if one else 0.0 for one in directions]),
        joins_rows=np.array([one is not None and one.joins_rows for one in directions]),
        row_elements=np.array([_row_elements(one, product) for one in directions], np.int64),
        reloads=np.array([tensor.role in timing.reloads for tensor in layer.tensors]),
        keeps_partial_sums=int(timing.keeps_partial_sums),
        clear_per_row=float(timing.clear_cycles_per_row),
        clear_width=dict(timing.array.block).get("K", 1) if timing.array else 1,
        cache_lines=np.array([float(cache.lines) for cache in timing.caches]),
        line_bytes=np.array([cache.line_bytes for cache in timing.caches], np.int64),
        cache_sets=np.array([cache.sets for cache in timing.caches], np.int64),
        cache_ways=np.array([cache.ways for cache in timing.caches], np.int64),
        row_sets=np.array(
            [[_row_sets(cache, tensor) for tensor in tensors] for cache in timing.caches]
        ).reshape(-1, len(tensors)),
        read_miss=np.array([float(cache.cycles_per_miss) for cache in timing.caches]),
        write_miss=np.array(
            [float(cache.cycles_per_miss * cache.lines_per_write_miss) for cache in timing.caches]
        ),
        cold=np.array([_cold(timing, cache, layer, tensors) for cache in timing.caches]),
        processes=int(timing.processing is not None),
        accumulate=float(timing.processing.accumulate_cycles) if timing.processing else 0.0,
        link_read=_links(architecture, timing, layer, outwards=False),
        link_write=_links(architecture, timing, layer, outwards=True),
        fill=_fills(timing, layer),
    )


def walk_workspace(timing: TimingTables) -> WalkCounts:
    """Workspace for one walk at a time; what it holds has no meaning before a walk is counted."""
    dims, tensors = len(timing.rounding), len(timing.axes)
    # A tile along a dim is whole or the last one, so an axis of n dims has up to 2**n kinds of tiles.
    kinds = 1 << timing.term_dims.shape[2]
    whole = (np.zeros(dims, np.int64) for _ in range(6))
    dim, bound, tile, tiles, last, box = whole
    return WalkCounts(
        dim=dim,
        bound=bound,
        loops=np.zeros(1, np.int64),
        tile=tile,
        tiles=tiles,
        last=last,
        box=box,
        lines=np.zeros((dims + 1, tensors)),
        missed=np.zeros(tensors),
        stays=np.zeros(tensors, np.bool_),
        extents=np.zeros(kinds, np.int64),
        counts=np.zeros(kinds, np.int64),
        cycles=np.zeros(8),
    )


def _cold(timing: Timing, cache: CacheTiming, layer: Layer, tensors: list[TensorInMemory]) -> float:
    """The fraction of a cold cache's misses that remain, as a warm one has what it can hold of the layer."""
    if not timing.starts_warm:
        return 1.0
    lines = sum(lines_of_box(tensor, layer.sizes, cache.line_bytes) for tensor in tensors)
    return 1 - hit_rate(lines / cache.lines)


def _row_sets(cache: CacheTiming, tensor: TensorInMemory) -> float:
    """The part of ``costmodel.mapping.timing.caches.usable_lines`` that does not depend on the tile."""
    stride = tensor.row_stride
    if len(tensor.axes) < 2 or stride < cache.line_bytes or stride % cache.line_bytes:
        return 0.0
    return cache.sets / gcd(max(1, stride // cache.line_bytes), cache.sets)


def _blocks(timing: Timing, layer: Layer, dims: list[str]) -> Array:
    """[dims] points of a dim in one block of weights, 0 for dims that stream through blocks.

    Dims that the weights depend on and dims that are summed make blocks, of one point where the architecture
    file states no size.
    """
    if timing.array is None:
        return np.zeros(len(dims), np.int64)
    size_of = {dim_of(layer, dim): points for dim, points in timing.array.block}
    held = {dim for tensor in layer.tensors if tensor.role == "weights" for dim in tensor.dims}
    held |= layer.summed | size_of.keys()
    return np.array([size_of.get(dim, 1) if dim in held else 0 for dim in dims], np.int64)


def _rounding(timing: Timing, layer: Layer, dims: list[str], product: bool) -> Array:
    points = {dim_of(layer, dim): points for dim, points in timing.product_block} if product else {}
    return np.array([points.get(dim, 1) for dim in dims], np.int64)


def _row_elements(transfer: TransferTiming | None, product: bool) -> int:
    if transfer is None:
        return 0
    if product and transfer.product_row_elements is not None:
        return transfer.product_row_elements
    return transfer.row_elements or 0


def _per_axis(rows: list[tuple[int, ...]]) -> Array:
    """A row of numbers for each tensor, 1 beyond its last axis."""
    table = np.ones((len(rows), max(1, *(len(row) for row in rows))), np.int64)
    for number, row in enumerate(rows):
        table[number, : len(row)] = row
    return table


def _terms(tensors: list[TensorInMemory], dims: list[str], part: int, missing: int) -> Array:
    """The dims (``part`` 0, as indices) or coefficients (``part`` 1) of all axes, ``missing`` beyond the
    last term."""
    axes = max(1, *(len(tensor.axes) for tensor in tensors))
    terms = max([1, *(len(axis.steps) for tensor in tensors for axis in tensor.axes)])
    table = np.full((len(tensors), axes, terms), missing, np.int64)
    for number, tensor in enumerate(tensors):
        for position, axis in enumerate(tensor.axes):
            for term, step in enumerate(axis.steps):
                table[number, position, term] = (dims.index(step.dim), step.coefficient)[part]
    return table


def _links(architecture: Architecture, timing: Timing, layer: Layer, *, outwards: bool) -> Array:
    """[levels, tensors] words a cycle of every tensor's link in one direction; infinity without a link."""
    table = np.full((len(architecture.levels), len(layer.tensors)), np.inf)
    # as in the readable count, the last tensor of a role stands for it
    number_of = {tensor.role: number for number, tensor in enumerate(layer.tensors)}
    for link in timing.processing.links if timing.processing else ():
        bandwidth = link.write_bandwidth if outwards else link.read_bandwidth
        if bandwidth is not None and link.role in number_of:
            table[architecture.index(link.level), number_of[link.role]] = bandwidth
    return table


def _fills(timing: Timing, layer: Layer) -> Array:
    table = np.full(len(layer.tensors), np.inf)
    number_of = {tensor.role: number for number, tensor in enumerate(layer.tensors)}
    for role, bandwidth in timing.processing.exposed_fills if timing.processing else ():
        if role in number_of:
            table[number_of[role]] = bandwidth
    return table
