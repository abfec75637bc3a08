"""Whether the footprints of a segment's leaves fit the buffers, for all divisions of its batch: compiled."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""

REPEATED, RUNNING, AHEAD, INPUTS = range(4)
"""The numbers of a :class:`.footprints.LeafFootprint`. All are infinite where no partition fits, and no
numbers where the footprint is not known yet."""


class FootprintQuestion(NamedTuple):
    """A segment, and in how many sub-batches it is asked about.

    ``rows`` [layers]: those of its layers in the table of footprints. ``begins`` [regions + 1]: the first
    layer of each region, which are consecutive layers. ``in_turn``: there is one region. ``columns`` [n]: the
    column of the table for each number of ``subbatches`` [n]. ``free_bits``: of a tile for inputs and
    weights; ``size_bits``: of its buffer.
    """

    rows: Array
    begins: Array
    in_turn: bool
    columns: Array
    subbatches: Array
    free_bits: int
    size_bits: int


@entry
def segment_fits(known: Array, asked: FootprintQuestion, begin: Int, fits: Array) -> Int:
    """Fill ``fits`` [n] from number ``begin`` on, up to the first footprint that is not known.

    ``known`` [rows, columns, 4]. Returns n times the layer of that footprint, plus the number at which it was
    missing; -1 if none was. Footprints take long, so none is asked for behind a region that does not fit.
    """
    for number in range(begin, fits.shape[0]):
        fits[number] = True
        for region in range(asked.begins.shape[0] - 1):
            first, end = asked.begins[region], asked.begins[region + 1]
            missing = first_refusal(known, asked, asked.columns[number], first, end)
            if missing < end and np.isnan(known[asked.rows[missing], asked.columns[number], REPEATED]):
                return fits.shape[0] * missing + number
            fits[number] = missing == end and region_fits(known, asked, number, first, end)
            if not fits[number]:
                break
    return -1


@inlined
def first_refusal(known: Array, asked: FootprintQuestion, column: Int, first: Int, end: Int) -> Int:
    """The first layer of a region of which no partition fits, or nothing is known; else ``end``."""
    for layer in range(first, end):
        repeated = known[asked.rows[layer], column, REPEATED]
        if np.isnan(repeated) or repeated == np.inf:
            return layer
    return end


@inlined
def region_fits(known: Array, asked: FootprintQuestion, number: Int, first: Int, end: Int) -> Any:
    """Whether the data that is there with some partition of each leaf of a region fits.

    While a leaf runs, the data of the next one arrives (``costmodel.schedule.segment.buffers``). In a segment
    in turns that of the first one does so after the last, for the next sub-batch; in a region of a pipeline
    the inputs of the next sub-batch arrive all the time.
    """
    column, again = asked.columns[number], asked.subbatches[number] > 1
    if end - first == 1:
        return not again or known[asked.rows[first], column, REPEATED] <= asked.free_bits
    most = 0.0
    for layer in range(first, end):
        following = 0.0
        if layer + 1 < end:
            following = known[asked.rows[layer + 1], column, AHEAD]
        elif again and asked.in_turn:
            following = known[asked.rows[first], column, AHEAD]
        most = max(most, known[asked.rows[layer], column, RUNNING] + following)
    if again and not asked.in_turn:
        most += known[asked.rows[first], column, INPUTS]
    return most <= asked.size_bits
