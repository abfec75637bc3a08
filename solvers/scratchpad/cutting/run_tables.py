"""What the compiled play of a run (:mod:`.run_kernel`) reads and writes: a graph as arrays, and a workspace.

Compiled code allocates nothing. So the arrays of :class:`RunWork` are as large as some run has needed, and a
run that needs more gets larger ones.
"""

from __future__ import annotations

from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.scratchpad.cut import TensorCut
from costmodel.scratchpad.divisions import DivisibleGraph, RowWindow

Array = NDArray[Any]

NEVER = 1 << 40
"""The position of a reader that does not exist; all positions and steps are before it."""
RESIDENT, COPIED = 1, 2
"""Bits that say of a band whether it is in the scratchpad, and whether the host has a copy."""
PLAYED, MISFIT, TOO_SMALL = range(3)
"""What a play ends with: the run is played; some piece does not fit, or more is moved than is allowed; the
workspace has too little room."""
MOVED, MACS, FLAGS, PIECES = range(4)
"""Entries of ``RunWork.result``: bytes moved so far, multiply-accumulates of the run, flags of bands left,
and pieces."""


class DivisionTables(NamedTuple):
    """A divisible graph: operators by their position in the order, tensors by their number.

    Reads of the operator at position p are entries ``read_first[p]`` up to ``read_first[p + 1]`` of the
    arrays of reads; what it makes and who reads a tensor are kept alike.
    """

    read_first: Array
    read_tensor: Array
    read_windowed: Array
    """Whether only the rows of a window are read; then its size, stride, rows above, and dilation."""
    read_size: Array
    read_stride: Array
    read_before: Array
    read_dilation: Array
    read_groups: Array
    read_joined: Array
    """The output's channel at which the input's begin, where inputs are joined; elsewhere -1."""
    read_over: Array
    """Whether the output may be written over this input."""
    made_first: Array
    made_tensor: Array
    by_rows: Array
    by_channels: Array
    sums: Array
    """0: nothing is added up; 1: bands of rows; 2: bands of channels."""
    weights: Array
    others: Array
    loose: Array
    macs: Array
    held: Array
    """Bytes of the parameters that lie in the scratchpad with the whole operator."""
    rows: Array
    channels: Array
    elements: Array
    traffic: Array
    block: Array
    on_host: Array
    reader_first: Array
    reader: Array
    settings: Array
    """[3] bits of an element, bytes of the alignment, whether parameters lie in the scratchpad."""


class RunCuts(NamedTuple):
    """The tensors of a run: those left by the runs before, then those that it touches first.

    ``flags``: of the bands of the former, one after the other, RESIDENT and COPIED.
    """

    tensor: Array
    rows: Array
    channels: Array
    recomputed: Array
    flags: Array


class RunWork(NamedTuple):
    """What the play of a run writes."""

    # by tensor
    base: Array
    """Its first band. Bands go by rows and then channels; behind those of tensors are sums and parameters."""
    row_first: Array
    """Where its bands' rows begin in ``row_start`` and ``row_end``."""
    row_count: Array
    parts: Array
    """Its bands of channels."""
    recomputed: Array
    row_start: Array
    row_end: Array
    # by band
    tensor: Array
    traffic: Array
    block: Array
    host: Array
    flags: Array
    made: Array
    """Whether a piece of the run makes it."""
    use_first: Array
    """Where its uses begin in ``use``, and which of them is the next."""
    use_next: Array
    pinned: Array
    place: Array
    """Where it stands in ``resident``; -1 where it is not in the scratchpad."""
    later: Array
    """The position of its next reader behind the run."""
    resident: Array
    parameters: Array
    """Of one operator the bands of its parameters; the last entry: the band of the sum so far."""
    # by piece
    operator: Array
    piece_held: Array
    entry_first: Array
    inputs: Array
    """How many of a piece's entries are inputs; what it makes follows."""
    waits: Array
    heap: Array
    order: Array
    # by entry: a band that a piece touches
    entry: Array
    over: Array
    use: Array
    result: Array


def division_tables(divisible: DivisibleGraph) -> DivisionTables:
    """The arrays of a graph."""
    graph, divisions, operators = divisible.whole, divisible.divisions, divisible.whole.operators
    reads = [read for division in divisions for read in division.reads]
    windows = [read.window or RowWindow() for read in reads]
    over = [
        any(source == read.tensor for source, _ in operator.overwrites)
        for operator, division in zip(operators, divisions, strict=True)
        for read in division.reads
    ]
    readers = graph.consumers
    settings = graph.settings
    return DivisionTables(
        read_first=_first(len(division.reads) for division in divisions),
        read_tensor=_numbers(read.tensor for read in reads),
        read_windowed=_numbers(read.window is not None for read in reads),
        read_size=_numbers(window.size for window in windows),
        read_stride=_numbers(window.stride for window in windows),
        read_before=_numbers(window.before for window in windows),
        read_dilation=_numbers(window.dilation for window in windows),
        read_groups=_numbers(read.groups for read in reads),
        read_joined=_numbers(-1 if read.joined_at is None else read.joined_at for read in reads),
        read_over=_numbers(over),
        made_first=_first(len(operator.outputs) for operator in operators),
        made_tensor=_numbers(tensor for operator in operators for tensor in operator.outputs),
        by_rows=_numbers(division.rows for division in divisions),
        by_channels=_numbers(division.channels for division in divisions),
        sums=_numbers(("", "rows", "channels").index(division.sums) for division in divisions),
        weights=_numbers(division.weights for division in divisions),
        others=_numbers(division.others for division in divisions),
        loose=_numbers(division.loose for division in divisions),
        macs=_numbers(division.macs for division in divisions),
        held=_numbers(operator.parameter_bytes for operator in operators),
        rows=_numbers(extent.rows for extent in divisible.extents),
        channels=_numbers(extent.channels for extent in divisible.extents),
        elements=_numbers(extent.elements for extent in divisible.extents),
        traffic=_numbers(tensor.traffic_bytes for tensor in graph.tensors),
        block=_numbers(tensor.block_bytes for tensor in graph.tensors),
        on_host=_numbers(tensor in graph.on_host for tensor in range(len(graph.tensors))),
        reader_first=_first(map(len, readers)),
        reader=_numbers(reader for own in readers for reader in own),
        settings=_numbers((settings.bits_per_element, settings.alignment_bytes, settings.parameters)),
    )


def _numbers(numbers: Any) -> Array:
    return np.array([int(number) for number in numbers], dtype=np.int64)


def _first(counts: Any) -> Array:
    return np.array([0, *accumulate(counts)], dtype=np.int64)


def run_cuts(cuts: dict[int, TensorCut], flags: Array) -> RunCuts:
    """The arrays of a run's tensors, of which the first have bands with these flags."""
    own = list(cuts.values())
    return RunCuts(
        np.array(list(cuts), dtype=np.int64),
        np.array([cut.rows for cut in own], dtype=np.int64),
        np.array([cut.channels for cut in own], dtype=np.int64),
        np.array([cut.recomputed for cut in own], dtype=np.int64),
        flags,
    )


def run_work(tensors: int, size: int) -> RunWork:
    """A workspace of a graph of so many tensors, for up to so many bands, pieces, rows and entries."""
    by_tensor = {"base", "row_first", "row_count", "parts", "recomputed"}
    flags = {"host", "flags", "made"}
    lengths = [tensors if f in by_tensor else 4 if f == "result" else size + 1 for f in RunWork._fields]
    return RunWork(
        *(
            np.zeros(length, np.uint8 if field in flags else np.int64)
            for field, length in zip(RunWork._fields, lengths, strict=True)
        )
    )
