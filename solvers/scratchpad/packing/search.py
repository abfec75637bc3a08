"""A complete search for a packing: which buffer stands at its lowest address, and which does not.

In the drawing time runs to the right and addresses upwards: a buffer is as wide as it lives and as high as
its size. A and B are placed, C and D are not yet::

    address
      |        +------C------+               C is alive with A and B: its address is A's top
      |   +----+-A--+
      |   |         |     +----D----+        D is alive with B only: its address is B's top
      |   |         |  +--+-----B---+--+
      +---+---------+--+---------------+--> time

**Normal form.** Of all packings take one with the least sum of addresses. In it every buffer stands at 0 or
on top of another buffer that is alive with it (its carrier); otherwise it could be moved down.

**Choices.** Placed buffers have their final addresses, and every buffer not placed yet stands above all
placed ones that are alive with it. So the ``address`` of a buffer not placed yet, the highest top of its
placed neighbours, is the least that it can have. A choice takes one such buffer and tries two cases. Either
it stands at its address: it is *placed*. Or it does not: it is *barred*. Then its carrier is not placed yet,
so it stands at least as high as the least top that a neighbour not placed yet can have, and higher than its
address: this is its ``least`` address. A barred buffer can be placed once a carrier has lifted its address
to its least address.

One of the two cases holds, so the search is complete, and where every buffer is barred there is no packing of
normal form. The choice is always one with the lowest ``address`` of those not barred, because then no
neighbour can be placed below it later: if one stood below, so would its carrier and that one's carrier, down
to one that stands at its ``address``, which is not barred and lower than the lowest.

**Forced.** If no neighbour that is not placed yet can reach below the top of a buffer at its address, the
buffer could be moved there from wherever it stands, which would lower the sum of addresses. So it stands
there, and if it is barred the branch holds no packing of normal form.

**Groups.** Buffers not placed yet fall into groups, no two of which are alive at the same moment. Choices in
one group change neither addresses nor bars in another, so each group is a problem of its own. When a group
has no solution, the search goes back to the choice that made the group, past all choices in other groups. A
group with the same members at the same addresses and least addresses has no solution again; two hashes of 64
bits remember it.

**Capacity.** At any moment the buffers alive and not placed yet stand one above the other, none below its
least address (a barred one not below the least top of the others). Stacked in the order of these addresses,
each as low as possible, they must stay below the capacity; else the branch holds no packing.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from solvers.budget import Budget, Stopwatch
from solvers.scratchpad.packing.params import Params
from solvers.scratchpad.packing.problem import Buffer
from solvers.scratchpad.packing.ranks import Ranks
from solvers.scratchpad.packing.sections import Sections, sections

FIRST_NODES = 20_000
"""Placements of the first long search; each later one has twice as many as the one before."""
PROBE_NODES = 1_000
"""Placements from which the pace of the compiled search is learned, before a long one is begun."""
SHORT_NODES = 1_000
"""Placements that a short search has at least; with many buffers it has two a buffer."""
SHORT_PER_LONG = 6
"""Placements of short searches for one of a long search."""


class PackingResult(NamedTuple):
    """``addresses`` of the buffers, in their order, or None; ``proven`` says that there are none.

    ``searches`` were started.
    """

    addresses: tuple[int, ...] | None
    proven: bool
    searches: int


def search_packing(
    buffers: Sequence[Buffer], capacity: int, budget: Budget, params: Params, clock: Stopwatch
) -> PackingResult:
    """Addresses of ``buffers`` (sorted as :func:`sorted_buffers`) below ``capacity``.

    Alignments are not looked at here.

    ``budget.iterations`` is the most searches to start.
    """
    from solvers.scratchpad.packing import kernel
    from solvers.scratchpad.packing.state import MOST_PLACED

    compiled = _PacedKernel(sections(buffers), capacity, budget.wall_seconds, clock)
    work = compiled.work
    ranks = Ranks(buffers, compiled.instance, np.random.default_rng(budget.seed), params.repairs)
    for count, (nodes, plain) in enumerate(_searches(len(buffers), params.restarts)):
        if count == budget.iterations or (count and clock.wall_seconds >= budget.wall_seconds):
            return PackingResult(None, False, count)
        work.rank[:] = ranks.plain() if plain else ranks.next()
        result = compiled.search(nodes)
        if result == kernel.FOUND:
            return PackingResult(tuple(work.address.tolist()), False, count + 1)
        if result == kernel.EXHAUSTED:
            return PackingResult(None, True, count + 1)
        if not plain:
            ranks.learn(work.rank, int(work.counts[MOST_PLACED]), work.failures)
    raise AssertionError("searches are without end")


class _PacedKernel:
    """The compiled search, which does not look at the clock: it gets the placements that there is time for.

    How many a second that is differs a hundredfold between problems, so it is taken from the search before,
    and before the first one from a probe. A search is deterministic for its rank: one that begins again where
    the probe was cut short makes the same placements, and more.
    """

    def __init__(self, instance: Sections, capacity: int, wall_seconds: float, clock: Stopwatch) -> None:
        from solvers.scratchpad.packing.state import workspace

        self.instance, self.capacity = instance, capacity
        self.work = workspace(instance)
        self._wall_seconds, self._clock = wall_seconds, clock
        self._pace: float | None = None
        """Placements a second."""

    def search(self, nodes: int) -> int:
        """What the search with the rank in ``work`` comes to in ``nodes`` placements, or in the time left."""
        from solvers.scratchpad.packing import kernel

        if self._pace is None:
            kernel.search(self.instance, self.work, self.capacity, 0)  # a process's first call loads the code
            result = self._timed(min(nodes, PROBE_NODES))
            if result != kernel.CUT_SHORT or nodes <= PROBE_NODES:
                return result
        assert self._pace is not None
        left = self._wall_seconds - self._clock.wall_seconds
        return self._timed(int(max(1, min(nodes, left * self._pace))))

    def _timed(self, nodes: int) -> int:
        from solvers.scratchpad.packing import kernel

        self.work.failures[:] = 0
        begun = self._clock.wall_seconds
        result = int(kernel.search(self.instance, self.work, self.capacity, nodes))
        self._pace = nodes / max(self._clock.wall_seconds - begun, 1e-6)
        return result


def _searches(buffers: int, restarts: bool) -> Iterator[tuple[int, bool]]:
    """The most placements of each search, and whether it takes the plain rank: without end.

    Many short searches find a packing sooner than a long one, as searches with a heavy tail do; the plain
    ones, each twice as long as the one before, come to an end where there is none.
    """
    long_nodes, short_nodes = FIRST_NODES, max(SHORT_NODES, 2 * buffers)
    while True:
        yield long_nodes, True
        long_nodes *= 2
        if restarts:
            for _ in range(SHORT_PER_LONG * long_nodes // short_nodes):
                yield short_nodes, False
