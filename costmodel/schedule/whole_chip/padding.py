"""Tells the image in a convolution's inputs from the padding around it, which no memory holds.

A loop nest reads all positions under its windows and does not know which of them are padding. On the chip
only the image comes from DRAM. So of the words that a mapping fetches, those beyond the edges of the image
are left out.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.counts.traffic import StridedLoop
from costmodel.schedule.layer_graph.graph import NetworkLayer
from costmodel.schedule.whole_chip.steps import fetched_boxes
from costmodel.workload.network import Tensor
from costmodel.workload.projection import Axis

Array = NDArray[Any]


def padded_inputs(layer: NetworkLayer) -> Tensor | None:
    """The inputs of a layer whose windows reach beyond the edges of the image; None where none does.

    The projections of its rows and columns say what an axis of a loop nest's tensor does not: the image has
    ``length`` rows, and ``-offset`` rows of padding come before it. There is no such tensor for the layers of
    a training step that run on the whole chip only: their nests are those of the forward layers, whose
    tensors have other parts there.
    """
    if layer.needs_whole_chip:
        return None
    space = layer.space(1)
    (inputs, *_) = (tensor for tensor in space.tensors if tensor.role == "inputs")
    last = {dim: size - 1 for dim, size in space.dims}
    padded = any(axis.offset < 0 or axis.at(last) >= space.length(axis) for axis in inputs.axes)
    return inputs if padded else None


def _window(inputs: Tensor, axis: Axis) -> tuple[int, int] | None:
    """Along an axis of the nest's inputs, where the image begins, and its length; None without a window."""
    for one in inputs.axes:
        if one.length is not None and {step[:2] for step in one.steps} == set(axis):
            return -one.offset, one.length
    return None


def image_words(
    inputs: Tensor,
    extents: Sequence[int],
    loops: Sequence[StridedLoop],
    origins: Array,
    padded: Tensor,
    delivered: int,
) -> Array | None:
    """Words of the image that groups of tiles fetch in all iterations of DRAM's ``loops``: [groups].

    ``delivered``: the words that the cost model counts for a tile, padding included, by Timeloop's rule. None
    where a tile that goes through the iterations fetches another number. That happens where two loops move
    along one axis: the rule counts each of them as if it had two iterations.

    ``padded``: the layer's :func:`padded_inputs`. ``extents``: of the box of ``inputs`` that a tile keeps.
    ``origins`` [groups, axes]: where the first box of each group begins.
    """
    # What loops outside the outermost one along an image axis do is done anew in each of their iterations:
    # the box moves back by then, so all of it is fetched, as at the very beginning.
    windows = [_window(padded, axis) for axis in inputs.terms]
    dims = {dim for axis, one in zip(inputs.terms, windows, strict=True) if one for dim, _ in axis}
    inside = max((number + 1 for number, loop in enumerate(loops) if loop.dim in dims), default=0)
    outside = list(loops[inside:])
    if not inside:  # loops that do not move the inputs leave the first box in the buffer
        while outside and outside[0].dim not in inputs.steps:
            outside.pop(0)
    fetched = fetched_boxes(inputs, extents, loops[:inside])
    times = prod(loop.bound for loop in outside)
    if times * int((fetched.end - fetched.first).prod(axis=1).sum()) != delivered:
        return None
    words: Array = np.full((1, len(fetched.step)), times, np.int64)
    group: Array = np.zeros(len(origins), np.int64)
    for axis, window in enumerate(windows):
        first, end = fetched.first[:, axis], fetched.end[:, axis]
        if window is None:
            words = words * (end - first)
            continue
        # all groups that begin at the same row (column) have the same lengths along the axis
        begins, own = np.unique(origins[:, axis], return_inverse=True)
        begin, length = window
        shift = begins[:, None] - begin
        lengths = np.minimum(end + shift, length) - np.maximum(first + shift, 0)
        words = (words[:, None, :] * np.maximum(lengths, 0)[None, :, :]).reshape(-1, len(fetched.step))
        group = group * len(begins) + own.reshape(-1)
    found: Array = words.sum(axis=1)[group]
    return found


def first_image_words(inputs: Tensor, extents: Sequence[int], origins: Array, padded: Tensor) -> Array:
    """Words of the image in the first box of each group of tiles: [groups]; see :func:`image_words`."""
    found: Array = np.ones(len(origins), np.int64)
    for axis, (at, extent) in enumerate(zip(inputs.terms, extents, strict=True)):
        window = _window(padded, at)
        if window is None:
            found = found * extent
            continue
        first = origins[:, axis] - window[0]
        found = found * np.maximum(np.minimum(first + extent, window[1]) - np.maximum(first, 0), 0)
    return found
