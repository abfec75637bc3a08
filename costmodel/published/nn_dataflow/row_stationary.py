"""Row-stationary mapping to the PE array: folding, replication and the processing passes they lead to.

A set of PEs computes one output map from one input map: it has a row of PEs for each row of the window, and a
column of PEs for each row of outputs. A set that is larger than the array is folded, and its folds follow one
another in time. A smaller one is copied, and its copies work on other channels. ``docs/kapla.md`` has the
rules. Floating-point operations are in the released order, so that counts which are not whole, as of uneven
folds, are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import ceil, inf, prod
from typing import NamedTuple

from costmodel.published.nn_dataflow.layers import C, Counts, K, LayerShape, N, Words


@dataclass(frozen=True)
class Folding:
    """How a set of PEs is put on the array.

    ``fold_h``, ``fold_w``: folds of its rows and columns, which follow one another in time. ``copies_h``,
    ``copies_w``: copies side by side along the array's rows and columns. ``rows`` and ``columns``: those of
    the folded set.
    """

    fold_h: int
    fold_w: int
    copies_h: int
    copies_w: int
    rows: int
    columns: int

    @property
    def pes(self) -> int:
        return self.rows * self.columns


class ProcessingPass(NamedTuple):
    """One pass of the array, the body of the blocked loops.

    ``loop_counts``: how many passes along each loop cover the layer. ``operations``: of all PEs.
    ``accesses[level][tensor]``: words. ``buffer_words``, ``register_words``: the words of each tensor that
    a pass occupies in the buffer and in a PE's registers. ``related``: for each tensor the loops that index
    it. ``copies``: how many input and how many output channels the copies of the folded set work on.
    """

    loop_counts: Counts
    operations: float
    cycles: int
    accesses: tuple[Words, ...]
    buffer_words: Counts
    register_words: Counts
    related: tuple[tuple[int, ...], ...]
    copies: tuple[int, int] = (1, 1)

    def words_once(self, level: int, tensor: int) -> float:
        """Words of a tensor at a level if passes that need the same data of it fetch it only once."""
        return self.accesses[level][tensor] * prod(self.loop_counts[loop] for loop in self.related[tensor])


class _Copies(NamedTuple):
    """Copies of the folded set side by side.

    ``inputs``, ``outputs``: channels that they work on; ``sets``: how many copies that takes.
    ``loop_counts``: trips that remain along each loop, and ``occupied`` how full these are, as a fraction,
    because channels need not divide.
    """

    inputs: int
    outputs: int
    loop_counts: Counts
    occupied: Words
    tensors: Counts
    """How many different pieces of each tensor the copies work on."""
    sets: int


def processing_passes(
    layer: LayerShape, batch: int, array: tuple[int, int], occupied: float = 1.0
) -> list[ProcessingPass]:
    """The passes that a node may make, in the order in which the tool meets them.

    ``occupied``: the fraction of a node's operations that is real, where the layer is the largest part of a
    divided one.
    """
    folding = fold(layer.window_h, layer.out_h, array)
    single = _single_pass(layer, folding)
    return [_copied(single, copies, occupied) for copies in _all_copies(layer, batch, folding)]


def fold(set_h: int, set_w: int, array: tuple[int, int]) -> Folding:
    """Fold a set where it exceeds the array, copy it where it fits more than once.

    Folds of the set's columns use free rows of the array first (``stacked``): these then run at the same time
    and are neither folds in time nor copies.
    """
    height, width = array
    fold_h, copies_h = ceil(set_h / height), max(1, height // set_h)
    fold_w, copies_w = ceil(set_w / width), max(1, width // set_w)
    stacked = min(copies_h, fold_w)
    fold_w = ceil(fold_w / stacked)
    return Folding(
        fold_h, fold_w, copies_h // stacked, copies_w, rows=ceil(set_h / fold_h), columns=ceil(set_w / fold_w)
    )


def _single_pass(layer: LayerShape, folding: Folding) -> ProcessingPass:
    """A pass without copies: one piece of one output map, from one input map, with all folds of the window.

    A piece has ``out_h / fold_w`` output rows on average, which accesses count; buffers must hold the largest
    piece.
    """
    rows, most_rows = layer.out_h / folding.fold_w, ceil(layer.out_h / folding.fold_w)
    in_columns = layer.window_w + (layer.out_w - 1) * layer.stride_w
    filters = layer.window_h * layer.window_w if layer.has_filters else 0
    inputs, outputs = _input_rows(layer, rows) * in_columns, rows * layer.out_w
    # a convolution reads its inputs again for each fold of the window, a local layer only once
    again = folding.fold_h if layer.has_filters else 1
    merged = layer.window_h * layer.window_w * (1 if layer.has_filters else layer.operands)
    operations = outputs * merged
    per_pe = (
        (layer.window_w if layer.has_filters else 0) * folding.pes * folding.fold_h,
        in_columns * folding.pes * again,
        layer.out_w * folding.pes * folding.fold_h,
    )
    row_operations = layer.window_w * layer.out_w * (1 if layer.has_filters else layer.operands)
    return ProcessingPass(
        loop_counts=(1, 1, 1),
        operations=operations,
        cycles=folding.fold_h * row_operations,
        accesses=(
            (filters, inputs, outputs),
            (filters, inputs * again, outputs * folding.fold_h),
            per_pe,
            (operations if layer.has_filters else 0.0, operations, operations),
        ),
        buffer_words=(filters, int(_input_rows(layer, most_rows)) * in_columns, most_rows * layer.out_w),
        register_words=(layer.window_w if layer.has_filters else 0, layer.window_w, 1),
        related=layer.related,
    )


def _input_rows(layer: LayerShape, out_rows: float) -> float:
    return layer.window_h + (out_rows - 1) * layer.stride_h


def _all_copies(layer: LayerShape, batch: int, folding: Folding) -> Iterator[_Copies]:
    """The ways in which copies of the set work on other channels.

    Copies along the array's columns work on output channels. Those along its rows are divided:
    ``input_copies`` of them work on input channels, the others on output channels. As in the tool, a way is
    taken if it has no more trips than those before it.
    """
    trips = batch * folding.fold_w
    if not layer.has_filters:
        outputs = min(folding.copies_h * folding.copies_w, layer.channels_out)
        left = ceil(layer.channels_out / outputs)
        occupied = (1.0, layer.channels_out / outputs / left, 1.0)
        yield _Copies(1, outputs, (1, left, trips), occupied, (0, outputs, outputs), outputs)
        return
    fewest = inf
    for input_copies in range(1, folding.copies_h + 1):
        if folding.copies_h % input_copies:
            continue
        inputs = min(input_copies, layer.channels_in)
        outputs = min(folding.copies_h // input_copies * folding.copies_w, layer.channels_out)
        loop_counts = ceil(layer.channels_in / inputs), ceil(layer.channels_out / outputs), trips
        if prod(loop_counts) > fewest:
            continue
        fewest = prod(loop_counts)
        yield _Copies(
            inputs,
            outputs,
            loop_counts,
            (
                layer.channels_in / inputs / loop_counts[C],
                layer.channels_out / outputs / loop_counts[K],
                1.0,
            ),
            (inputs * outputs, inputs, outputs),
            inputs * outputs,
        )


def _copied(single: ProcessingPass, copies: _Copies, occupied: float) -> ProcessingPass:
    """The pass of all copies: what they read in common counts once at DRAM and buffer.

    Accesses of the bus and the registers are those of each copy. ``filled`` is how full the loops of a tensor
    are: the last trips have fewer channels than the others.
    """
    full = copies.occupied[C] * copies.occupied[K] * copies.occupied[N]
    sets = copies.sets
    filled = [prod(copies.occupied[loop] for loop in loops) for loops in single.related]
    dram, buffer, bus, registers = single.accesses
    return single._replace(
        loop_counts=copies.loop_counts,
        operations=single.operations * sets * occupied * full,
        accesses=(
            tuple(words * n * o for words, n, o in zip(dram, copies.tensors, filled, strict=True)),
            tuple(words * n * o for words, n, o in zip(buffer, copies.tensors, filled, strict=True)),
            tuple(words * sets * o for words, o in zip(bus, filled, strict=True)),
            tuple(words * sets * occupied * full for words in registers),
        ),
        buffer_words=tuple(words * n for words, n in zip(single.buffer_words, copies.tensors, strict=True)),
        copies=(copies.inputs, copies.outputs),
    )
