"""A complete search for a packing: which buffer stands at its lowest place, and which does not.

**Normal form.** Of all packings take one with the least sum of addresses. In it every buffer stands at 0 or
on top of another one that is alive with it (its carrier), or it could be moved down.

**Choices.** Placed buffers have their final addresses, and every buffer not placed yet that is alive with a
placed one stands above it. So the ``address`` of a buffer not placed yet, the highest top of its placed
neighbours, is the least that it can have. A choice takes one and says either that it stands there, and is
placed; or that it does not, and is barred: then it has a carrier that is not placed yet, and stands at
least as high as the least top that one of those can have, and higher than its address (this is its
``least`` address). A barred buffer can be placed once a carrier has lifted its address to its least one.
One of the two cases holds, and where every buffer is barred there is no packing of normal form. The choice
is always the lowest ``address`` of those not barred, because then no neighbour can be placed below it
later: if one stood below, so would its carrier and that one's, down to one that stands at its ``address``,
which is not barred and lower than the lowest.

**Forced.** If no neighbour that is not placed yet can reach below the top of a buffer at its address, the
buffer could be moved there from wherever it stands, which would lower the sum: it stands there, and if it
is barred the branch holds no packing of normal form.

**Groups.** Buffers not placed yet fall into groups that share no moment with each other; what is left of
the problem is one problem a group, since choices elsewhere change neither addresses nor bars of its
members. So when a group has no solution the search goes back to the choice that made it, past all choices
in other groups; and a group with the same members, addresses and least addresses has none again (two hashes
of 64 bits remember it).

**Room.** At any moment the buffers alive and not placed yet stand one above the other, none below its least
address (a barred one not below the least top of the others): stacked in the order of those, each as low as
possible, they must stay below the capacity.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.budget import Budget, Stopwatch
from solvers.scratchpad.packing.params import Params
from solvers.scratchpad.packing.problem import Buffer
from solvers.scratchpad.packing.sections import Sections, sections

Array = NDArray[Any]

FIRST_NODES = 20_000
SHORT_NODES, LONG_NODES = 1_000, 5_000
SHORT_SHARE = 6
"""Placements of short searches for one of a long search."""
NOISE = (0.05, 0.15, 0.4)


class Found(NamedTuple):
    """``places`` in the order of the buffers, or None; ``proven``: there are none."""

    places: tuple[int, ...] | None
    proven: bool
    searches: int


class _Attempt(NamedTuple):
    rank: Array
    nodes: int


def search_packing(
    buffers: Sequence[Buffer], capacity: int, budget: Budget, params: Params, clock: Stopwatch
) -> Found:
    """Addresses of ``buffers`` (sorted as :func:`sorted_buffers`) below ``capacity``, alignments aside.

    ``budget.iterations`` is the most searches to start.
    """
    from solvers.scratchpad.packing import kernel
    from solvers.scratchpad.packing.state import workspace

    instance = sections(buffers)
    work = workspace(instance)
    count = 0
    for attempt in _attempts(buffers, instance, work.failures, budget.seed):
        if count == budget.iterations or (count and clock.wall_seconds >= budget.wall_seconds):
            break
        count += 1
        work.rank[:] = attempt.rank
        nodes = attempt.nodes if params.restarts else 1 << 40
        result = kernel.search(instance, work, capacity, nodes)
        if result == kernel.FOUND:
            return Found(tuple(work.address.tolist()), False, count)
        if result == kernel.EXHAUSTED:
            return Found(None, True, count)
        if not params.restarts:
            break
        work.failures[:] = work.failures * 9 // 10
    return Found(None, False, count)


def _attempts(
    buffers: Sequence[Buffer], instance: Sections, failures: Array, seed: int
) -> Iterator[_Attempt]:
    """Searches without end: a plain one, then many short ones with noise, now and then a longer plain one.

    Short searches from many ranks find a packing sooner than a long one, as searches with a heavy tail do;
    the plain ones, each twice as long as the one before, come to an end where there is none.
    """
    random = np.random.default_rng(seed)
    long_nodes = FIRST_NODES
    keys = _Keys(buffers, instance)
    number = 0
    while True:
        yield _Attempt(keys.plain(), long_nodes)
        long_nodes *= 2
        spent = 0
        while spent < SHORT_SHARE * long_nodes:
            nodes = LONG_NODES if number // 18 % 2 else SHORT_NODES
            yield _Attempt(keys.noisy(number, failures, random), nodes)
            number += 1
            spent += nodes


class _Keys:
    """What buffers are ranked by: crowded moments first, then long, large or wide buffers."""

    def __init__(self, buffers: Sequence[Buffer], instance: Sections) -> None:
        self.instance = instance
        self.size = instance.size.astype(float)
        self.length = np.array([buffer.end - buffer.start for buffer in buffers], float)
        self.spread = (instance.last - instance.first + 1).astype(float)
        self.crowd = self._highest(instance.load) / max(1, instance.load.max())

    def _highest(self, values: Array) -> Array:
        """Per buffer the highest value in its sections."""
        pairs = zip(self.instance.first, self.instance.last, strict=True)
        return np.array([values[first : last + 1].max() for first, last in pairs], float)

    def plain(self) -> Array:
        return _ranks(self.crowd, self.length, self.size * self.length)

    def noisy(self, number: int, failures: Array, random: np.random.Generator) -> Array:
        """Another kind of rank for every ``number``, some of them after where searches ``failures`` were."""
        noise = np.exp(random.normal(0, NOISE[number % 3], len(self.size)))
        kind = (self.size * self.length, self.size, self.spread * self.size)[number // 3 % 3]
        crowd = np.round(self.crowd, 2)
        if number // 9 % 2:
            crowd = np.round(self.crowd + self._highest(failures / max(1, failures.max())), 1)
        return _ranks(crowd, kind * noise)


def _ranks(*keys: Array) -> Array:
    """0 for the buffer with the largest first key; later keys where earlier ones are equal."""
    ranks = np.empty(len(keys[0]), np.int64)
    ranks[np.lexsort([-key for key in reversed(keys)])] = np.arange(len(ranks))
    return ranks
