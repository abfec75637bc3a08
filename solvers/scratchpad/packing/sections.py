"""A packing problem as arrays over its sections: the moments at which most buffers are alive."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.scratchpad.packing.problem import Buffer, PackingProblem

Array = NDArray[Any]


class Sections(NamedTuple):
    """Buffers sorted by start, with their lifetimes given by sections instead of times.

    A section is a moment whose living buffers are not all alive at another moment: the last start before an
    end. Others add nothing: at any moment the buffers alive are also alive at some section, so two buffers
    overlap in time exactly if they share a section, and a packing fits if it fits at every section.
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
    """The buffers with a size above 0, in the order of :class:`Sections`."""
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
    """The last start before each end, unless there is none since the end before."""
    events = sorted(
        {(buffer.start, True) for buffer in buffers} | {(buffer.end, False) for buffer in buffers}
    )
    moments = [time for (time, starts), (_, follows) in pairwise(events) if starts and not follows]
    return np.array(moments, np.int64)
