"""The boxes that DRAM brings step by step where a loop nest is mapped on the whole chip.

A step is one iteration of DRAM's temporal loops. In each of them a tile needs one box of every tensor. The
part of the box that is fetched follows Timeloop's rule, as in the cost model of mappings
(:func:`costmodel.mapping.counts.traffic.delivered_words`):

- nothing, where the box is the one of the step before;
- the elements that the box before did not have, where the box moves by one iteration of the innermost loop
  that moves this tensor;
- the whole box otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import dropwhile
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.counts.traffic import StridedLoop
from costmodel.mapping.mapping import Mapping
from costmodel.workload.network import Layer, Tensor

Array = NDArray[Any]


class FetchedBoxes(NamedTuple):
    """The n boxes that one tile fetches, in order; positions count from the tile's first element.

    ``step`` [n]: the step for which it is fetched. ``first``, ``end`` [n, axes]: its first element, and the
    one behind its last. ``whole`` [n]: whether nothing of the box before is kept. ``start`` [steps, axes]:
    where the tensor's box of each step begins.
    """

    step: Array
    first: Array
    end: Array
    whole: Array
    start: Array


def starts(tensor: Tensor, loops: Sequence[StridedLoop]) -> Array:
    """Where the tensor's box begins in every iteration of ``loops`` (innermost first): [steps, axes]."""
    found = np.zeros((1, len(tensor.axes)), np.int64)
    for loop in loops:
        step = loop.inner * np.array(tensor.steps.get(loop.dim, (0,) * len(tensor.axes)), np.int64)
        found = (np.arange(loop.bound)[:, None, None] * step + found[None]).reshape(-1, len(tensor.axes))
    return found


def fetched_boxes(tensor: Tensor, extents: Sequence[int], loops: Sequence[StridedLoop]) -> FetchedBoxes:
    """The boxes that one tile fetches of a tensor; its box has ``extents``, and ``loops`` are DRAM's."""
    start, size = starts(tensor, loops), np.array(extents, np.int64)
    first, end, whole = start.copy(), start + size, np.ones(len(start), bool)
    moves = np.diff(start, axis=0)
    taken = np.concatenate(([True], moves.any(axis=1)))
    moving = next(dropwhile(lambda loop: loop.dim not in tensor.steps, loops), None)
    if moving is not None and tensor.slides:
        move = moving.inner * np.array(tensor.steps[moving.dim], np.int64)
        # one dim moves a tensor along one axis
        (axis,) = np.flatnonzero(move)
        if move[axis] < size[axis]:
            again = 1 + np.flatnonzero((moves == move).all(axis=1))
            first[again, axis], whole[again] = end[again, axis] - move[axis], False
    return FetchedBoxes(np.flatnonzero(taken), first[taken], end[taken], whole[taken], start)


def regions(
    nest: Layer, mapping: Mapping, bits: Sequence[int], capacity: int, ahead: float = 1.0
) -> list[int]:
    """Bits of a buffer that each tensor of ``nest`` takes: its tile, and space for the next step's data.

    Of the bits that all tiles together leave free, the fraction ``ahead`` is for the next step: tensors that
    move get the bits of their tile once more, the smallest tile first, until that fraction is used up.
    ``bits``: of an element of each tensor; ``capacity``: of the buffer.
    """
    tile, moving = mapping.tiles[-2], {dim for dim, _ in mapping.levels[-1].temporal}
    found = [tensor.words(tile) * width for tensor, width in zip(nest.tensors, bits, strict=True)]
    free = int(ahead * max(capacity - sum(found), 0))
    for number in sorted(range(len(found)), key=lambda one: found[one]):
        if moving & nest.tensors[number].steps.keys():
            more = min(found[number], free)
            found[number], free = found[number] + more, free - more
    return found
