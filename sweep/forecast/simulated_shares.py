"""A run with sub-drivers on simulated clocks: one for the driver, one for each of them."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from heapq import heapify, heappop, heapreplace
from math import inf
from random import Random

from clusters.ledger import CALLS_PER_WORKER, Item
from sweep.blocks.sizes import SMOOTHING, solves_in_time, solves_of_block, solves_of_share
from sweep.forecast.simulated_run import BlockCosts, SimulatedBlockRun


@dataclass(slots=True, eq=False)
class _Share:
    """One share at a sub-driver: so many ``solves``, of which at most ``at_once`` make a block.

    ``handed``: how many solves workers got; ``left``: how many are not answered. ``arrives``: when the
    sub-driver has it, in seconds from the start of the run. ``seconds``: what workers have spent on it.
    """

    arrives: float
    solves: int
    at_once: int
    left: int
    handed: int = 0
    seconds: float = 0.0


class _SubDriver(SimulatedBlockRun):
    """One sub-driver: the same loop with its workers, as far as it has shares."""

    def __init__(
        self,
        seconds: Sequence[float],
        workers: int,
        costs: BlockCosts,
        random: Random,
        ended: Callable[[_SubDriver, _Share], None],
    ) -> None:
        super().__init__(seconds, 0, workers, costs, random)
        self.shares: deque[_Share] = deque()
        self._ended = ended
        self._of: dict[str, _Share] = {}
        self._number = 0
        # the sub-driver has to start before its workers can
        self._events = [(time + costs.runtime.start, number) for time, number in self._events]

    def next_time(self) -> float:
        """When something happens; infinity where nothing is to come."""
        first = self._events[0][0] if self._events else inf
        coming = (share.arrives for share in self.shares if share.handed < share.solves)
        return max(self.now, min(first, next(coming, inf)))

    def step(self) -> None:
        """One round of the loop, from the next event on."""
        self.now = self.next_time()
        taken = self._collect()
        self._spend(self.costs.scan * len(self._workers))
        self._fill()
        self._dispatch()
        self._answer_all(taken)
        self._dispatch()

    def last_free(self) -> list[float]:
        """When each worker has done all that it got."""
        return [max(worker.free, self._queue_empty) for worker in self._workers]

    def _fill(self) -> None:
        workers = len(self._workers)
        for share in self.shares:
            while share.arrives <= self.now and share.handed < share.solves:
                if self._ledger.capacity(workers) <= 0:
                    return
                size = min(share.solves - share.handed, self._size(share))
                share.handed += size
                self._spend((self.costs.item + self._blocks.cut + size * self._blocks.solve) / 2)
                self._number += 1
                key = str(self._number)
                self._sizes[key], self._of[key] = size, share
                self._ledger.accept(key, b"")

    def _size(self, share: _Share) -> int:
        """As :meth:`sweep.blocks.division.BlockDivision._size`."""
        if self._mean is None:
            return share.at_once
        by_time = int(solves_in_time(self._mean, len(self._workers)))
        return max(1, min(share.at_once, by_time))

    def _answer(self, item: Item, seconds: float) -> None:
        size, share = self._sizes[item.key], self._of.pop(item.key)
        self._spend((self._blocks.cut + size * self._blocks.solve) / 2)
        taken = seconds + self._beside(item)
        if self._ledger.finish(item, seconds):
            each = taken / size
            self._mean = each if self._mean is None else self._mean + SMOOTHING * (each - self._mean)
            self.useful += seconds
        share.left -= size
        share.seconds += taken
        if not share.left:
            self.shares.remove(share)
            self._ended(self, share)
        self._fill()


class SimulatedShares:
    """As :class:`SimulatedBlockRun`, with sub-drivers.

    After :meth:`to_the_end`, in seconds: ``now`` is the wall time, ``busy`` what the busiest process spent,
    be it the driver or a sub-driver; ``useful`` and ``idle_end`` are sums over all sub-drivers. The times of
    answers (``answered``) are not kept.

    The driver serves what sub-drivers send in the order of its coming, and has a share for each in return.
    ``workers`` are those of all ``shards`` sub-drivers together; ``seconds`` are measured ones of single
    solves, of which each of the ``solves`` draws one.
    """

    def __init__(
        self,
        seconds: Sequence[float],
        solves: int,
        workers: int,
        shards: int,
        costs: BlockCosts,
        random: Random,
    ) -> None:
        self.workers, self.sub_drivers, self.costs = workers, shards, costs.runtime
        self.now = self.busy = self.useful = self.idle_end = 0.0
        self.start = 2 * costs.runtime.start
        self._blocks, self._left = costs, solves
        self._mean: float | None = None
        self._free = costs.runtime.start
        """When the driver has time for what comes next: it waits for the first sub-drivers to be there."""
        sizes = [workers // shards + (number < workers % shards) for number in range(shards)]
        self._shards = [
            _SubDriver(seconds, size, costs, Random(random.getrandbits(32)), self._share_ended)
            for size in sizes
        ]
        for _ in range(CALLS_PER_WORKER):
            for shard in self._shards:
                self._hand_out(shard)

    def to_the_end(self) -> None:
        """Let the sub-driver go on whose next event is the first, until nothing is left."""
        order = [(shard.next_time(), number) for number, shard in enumerate(self._shards)]
        heapify(order)
        while order and order[0][0] < inf:
            time, number = order[0]
            shard = self._shards[number]
            if shard.next_time() > time:  # it has been given a share since, or was
                heapreplace(order, (shard.next_time(), number))
                continue
            if not shard.shares:
                heappop(order)
                continue
            shard.step()
            heapreplace(order, (shard.next_time(), number))
        self.now = max(self._free, *(shard.now for shard in self._shards))
        self.useful = sum(shard.useful for shard in self._shards)
        self.busy = max(self.busy, *(shard.busy for shard in self._shards))
        self.idle_end = sum(self.now - free for shard in self._shards for free in shard.last_free())

    def _share_ended(self, shard: _SubDriver, share: _Share) -> None:
        """The driver takes in what became of a share, and hands out another."""
        each = share.seconds / share.solves
        self._mean = each if self._mean is None else self._mean + SMOOTHING * (each - self._mean)
        self._spend(shard.now + self.costs.latency, share.solves)
        self._hand_out(shard)

    def _hand_out(self, shard: _SubDriver) -> None:
        if not self._left:
            return
        at_once = solves_of_block(self._mean, self._left, self.workers, self.sub_drivers)
        solves = min(self._left, solves_of_share(at_once, self.workers, self.sub_drivers))
        self._left -= solves
        self._spend(0.0, solves, self.costs.call + self.costs.scan * self.sub_drivers)
        shard.shares.append(_Share(self._free + self.costs.latency, solves, at_once, solves))

    def _spend(self, arrives: float, solves: int, beside: float = 0.0) -> None:
        """Half of what a share of so many ``solves`` costs the driver, from when the share ``arrives`` or, if
        later, from when the driver is free. ``beside``: seconds of the driver to add to that half."""
        half = (self.costs.item + self._blocks.share + solves * self._blocks.share_solve) / 2
        self._free = max(self._free, arrives) + half + beside
        self.busy += half + beside
