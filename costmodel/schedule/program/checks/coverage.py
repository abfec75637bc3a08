"""Whether the works of a program compute every point of every layer once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.schedule.program.instruction_values import COMPUTE
from costmodel.schedule.program.listing import Listing, boxes_of
from costmodel.schedule.program.program import Box, LayerNest, Program

Array = NDArray[Any]


def coverage_reasons(program: Program, listing: Listing) -> Iterator[str]:
    """Layers whose works do not cover their nest once. Works that only add partial sums do not count."""
    rows = np.flatnonzero(listing.code == COMPUTE)
    times = np.zeros(len(program.works), np.int64)
    np.add.at(times, listing.number[rows], listing.times[rows])
    works: dict[str, list[int]] = defaultdict(list)
    for number in np.flatnonzero(times).tolist():
        if not program.works[number].adds:
            works[program.works[number].layer].append(number)
    for nest in program.layers:
        yield from _covered(program, nest, works[nest.layer], times)


def _covered(program: Program, nest: LayerNest, works: list[int], times: Array) -> Iterator[str]:
    """Why ``works`` do not cover a nest once; ``times`` [works of the program]: how often each is done.

    The nest is divided into cells at all indices where a box begins or ends. Every box is then a number of
    whole cells, and every cell has to be in one box.
    """
    sizes = np.array([size for _, size in nest.dims])
    found: list[Array] = []
    for number in works:
        work = program.works[number]
        if times[number] != prod(count for count, _ in work.moves):
            often = f"is done {times[number]} times, its box moves another number of times"
            yield f"{nest.layer}: work {number} {often}"
            return
        boxes = boxes_of(work.box, work.moves)
        beyond: Array = np.ones(len(boxes), bool)
        if boxes.shape[1] == len(sizes):
            first, end = boxes[:, :, 0], boxes[:, :, 1]
            beyond = np.logical_not(((first >= 0) & (first < end) & (end <= sizes)).all(axis=1))
        if beyond.any():
            box = _plain(boxes[int(np.argmax(beyond))])
            yield f"{nest.layer}: {box} is not within its nest of {dict(nest.dims)}"
            return
        found.append(boxes)
    every = np.concatenate(found) if found else np.zeros((0, len(sizes), 2), np.int64)
    edges = [np.unique(np.append(every[:, axis].ravel(), (0, size))) for axis, size in enumerate(sizes)]
    cells = np.stack([np.searchsorted(axis, every[:, i]) for i, axis in enumerate(edges)], axis=1)
    done = np.zeros([len(axis) - 1 for axis in edges], np.int32)
    # Most boxes are a single cell. They are counted together, without a loop over boxes.
    single = (np.diff(cells, axis=2) == 1).all(axis=(1, 2))
    np.add.at(done, tuple(cells[single, :, 0].T), 1)
    for box in cells[~single].tolist():
        done[tuple(slice(first, end) for first, end in box)] += 1
    if (done != 1).any():
        cell = np.argwhere(done != 1)[0]
        where = tuple((int(axis[i]), int(axis[i + 1])) for axis, i in zip(edges, cell, strict=True))
        yield f"{nest.layer}: {where} of its nest is computed {int(done[tuple(cell)])} times"


def _plain(box: Array) -> Box:
    return tuple((first, end) for first, end in box.tolist())
