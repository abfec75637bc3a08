"""A packing problem as arrays: the moments with most buffers alive, and who is alive there."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.scratchpad.packing.problem import Buffer, PackingProblem

Array = NDArray[Any]


class Sections(NamedTuple):
    """Buffers sorted by start; times only as sections, the moments whose living buffers no other has all.

    Two buffers share a moment if they share a section: of all moments of an overlap, one between a start
    and the next end has the most buffers alive.
    """

    first: Array
    """[buffers] the first section in which each is alive."""
    last: Array
    """[buffers] the last one."""
    size: Array
    load: Array
    """[sections] the sizes of all buffers alive there."""

    @property
    def buffers(self) -> int:
        return len(self.size)


def sorted_buffers(problem: PackingProblem) -> tuple[Buffer, ...]:
    """The buffers that take room, in the order of :class:`Sections`."""
    taking = (buffer for buffer in problem.buffers if buffer.size)
    return tuple(sorted(taking, key=lambda buffer: (buffer.start, -buffer.end, -buffer.size)))


def sections(buffers: Sequence[Buffer]) -> Sections:
    """The sections of ``buffers``, which stand in the order of :func:`sorted_buffers`."""
    moments = _section_moments(buffers)
    start = np.array([buffer.start for buffer in buffers], np.int64)
    end = np.array([buffer.end for buffer in buffers], np.int64)
    size = np.array([buffer.size for buffer in buffers], np.int64)
    first = np.searchsorted(moments, start, side="left")
    last = np.searchsorted(moments, end, side="left") - 1
    change = np.zeros(len(moments) + 1, np.int64)
    np.add.at(change, first, size)
    np.subtract.at(change, last + 1, size)
    return Sections(first, last, size, np.cumsum(change)[:-1])


def _section_moments(buffers: Sequence[Buffer]) -> Array:
    """The last start before each end that has one after the end before it."""
    events = sorted(
        {(buffer.start, True) for buffer in buffers} | {(buffer.end, False) for buffer in buffers}
    )
    moments = [time for (time, starts), (_, follows) in pairwise(events) if starts and not follows]
    return np.array(moments, np.int64)
