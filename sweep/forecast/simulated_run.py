"""The run loop of clusters/ray/actors.py on a simulated clock, with the real ledger of batches.

:class:`SimulatedRun` has one solve an item, :class:`SimulatedBlockRun` blocks of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field
from heapq import heappop, heappush
from random import Random

import numpy as np

from clusters.ledger import Item, Ledger
from clusters.pace import DISPATCH_SECONDS, pace_for
from results.store.row_batch import PART_ROWS
from sweep.blocks.sizes import BLOCKS_A_WORKER, SMOOTHING, solves_of_block


@dataclass(frozen=True)
class DriverCosts:
    """The costs in seconds of having a solve done, apart from the solve itself.

    item: the runtime's work in the driver for one item: submit it, take its report.
    study: the run loop's work in the driver for one item: task id, store lookup, rows, Parquet.
    call: the driver's work for one call to a worker beyond its items.
    scan: the driver's look at one worker in one round (ray.wait over all streams, twice).
    latency: the way of a call or a report between driver and worker.
    worker: the worker's own time for one item beside the solve.
    start: from asking for a worker until it answers, its imports included.

    The defaults are CPU seconds of the driver with Ray 2.60.0 and Python 3.11 on one core of an x86-64 VM:
    items without work at 2 workers, in full and in single batches (item, call); 48 workers of 0.5 s (scan);
    100,800 tasks with a trivial solver (study). ``benchmarks/scaling.py --measure`` finds them anew.
    """

    item: float = 117e-6
    study: float = 250e-6
    call: float = 540e-6
    scan: float = 18e-6
    latency: float = 500e-6
    worker: float = 150e-6
    start: float = 3.0


@dataclass(frozen=True)
class BlockCosts:
    """The costs in seconds of having blocks done, apart from the solves.

    block: the run loop's work in the driver for a block, whatever is in it: make it, take in what came of it.
    solve: the same for each solve in it. worker: the worker's time for a solve beside solving: its task, its
    row, its part of a design's row. part: the worker's time for a part of the store, which it writes where a
    block has enough solves. runtime: what the runtime does for an item; a block is one.

    With sub-drivers: share and share_solve are block and solve of the driver, for what it hands to one of
    them; cut is what a sub-driver does for a worker's block, beside solve for each of its solves.

    The defaults are CPU seconds of one core of an x86-64 VM. ``worker``, ``part`` and ``runtime`` are from
    ``benchmarks/blocks.py`` with 2 workers, the others from ``benchmarks/block_costs.py``: with the runtime
    they come to 4.9 ms for a block of 2,779 solves, for which real runs took the driver 4.6 to 5.
    """

    block: float = 0.91e-3
    solve: float = 1.2e-6
    share: float = 1.4e-3
    share_solve: float = 0.28e-6
    cut: float = 1.7e-3
    worker: float = 140e-6
    part: float = 20e-3
    runtime: DriverCosts = DriverCosts()


@dataclass(slots=True, eq=False)
class _Worker:
    number: int
    free: float = 0.0
    """The time at which it has done all that it holds."""
    calls: deque[deque[tuple[float, float, Item]]] = field(default_factory=deque)
    """The calls that it holds, each the reports to come: time at the driver, seconds of the solve, item."""


class SimulatedRun:
    """One run; every solve takes one of the measured ``seconds``, drawn at random.

    After :meth:`to_the_end`: ``now`` is the wall time, ``busy`` the driver's own time, ``useful`` the
    seconds of answered solves, ``idle_end`` the worker seconds lost after the last work was handed out,
    ``answered`` the time of each answer.
    """

    def __init__(
        self, seconds: Sequence[float], solves: int, workers: int, costs: DriverCosts, random: Random
    ) -> None:
        self.costs = costs
        self.now = self.busy = self.useful = self.idle_end = 0.0
        self.answered: list[float] = []
        self._seconds, self._random = seconds, random
        self._to_submit = solves
        self._ledger = Ledger(pace_for(workers))
        self._workers = [_Worker(number) for number in range(workers)]
        self._idle: deque[_Worker] = deque()
        self._with_one_call: deque[_Worker] = deque()
        self._events: list[tuple[float, int]] = []
        """A heap of (time, worker): its next report arrives or, if it holds no call, it has started."""
        self._queue_empty = 0.0
        for worker in self._workers:
            heappush(self._events, (costs.start, worker.number))

    sub_drivers = 0

    @property
    def workers(self) -> int:
        return len(self._workers)

    @property
    def start(self) -> float:
        """When the first worker has started."""
        return self.costs.start

    def to_the_end(self) -> None:
        """Simulate rounds of the driver's loop until nothing is pending.

        A round looks at all workers, sends calls, waits for the next report and takes in all that have
        arrived. While it files their answers, it sends calls every DISPATCH_SECONDS, so that no worker waits
        for long.
        """
        self._fill()
        while len(self._ledger):
            self._round()
        self.idle_end = sum(self.now - max(w.free, self._queue_empty) for w in self._workers)

    def _round(self) -> None:
        self._spend(self.costs.scan * len(self._workers))
        self._dispatch()
        self._wait()
        self._answer_all(self._collect())

    def _answer_all(self, taken: Sequence[tuple[Item, float]]) -> None:
        """Take in what has come back; in between workers get new calls, at the latest every
        DISPATCH_SECONDS."""
        dispatched = self.now
        for item, seconds in taken:
            self._answer(item, seconds)
            if self.now - dispatched > DISPATCH_SECONDS:
                self._dispatch()
                dispatched = self.now

    def _spend(self, seconds: float) -> None:
        """Let the driver compute for ``seconds``."""
        self.now += seconds
        self.busy += seconds

    def _fill(self) -> None:
        """Submit what the ledger accepts; half of an item's cost arises here, half when it is answered."""
        while self._to_submit and self._ledger.capacity(len(self._workers)) > 0:
            self._spend((self.costs.item + self.costs.study) / 2)
            self._ledger.accept(str(self._to_submit), b"")
            self._to_submit -= 1

    def _dispatch(self) -> None:
        """Send batches while there are queued items and a worker that can hold another call."""
        while self._ledger.queued and (worker := self._with_capacity()):
            if batch := self._ledger.take_batch(len(self._workers)):
                self._send(worker, batch)
        if not self._ledger.queued and not self._to_submit:
            # The first time only: from then on workers without work are lost time at the end.
            self._queue_empty = self._queue_empty or self.now

    def _with_capacity(self) -> _Worker | None:
        """A worker that can take a call: an idle one, else one that holds a single call of short items.

        A worker may have got a call since it was put into a queue; then its entry there is out of date.
        """
        while self._idle:
            if not (worker := self._idle.popleft()).calls:
                return worker
        while self._with_one_call and self._ledger.calls_per_worker > 1:
            if len((worker := self._with_one_call.popleft()).calls) == 1:
                return worker
        return None

    def _send(self, worker: _Worker, batch: list[Item]) -> None:
        """Have ``worker`` do ``batch`` after what it holds; each item draws the seconds of its solve."""
        self._spend(self.costs.call)
        # A call arrives while the worker is busy with the one before, or finds it idle.
        start = max(self.now + self.costs.latency, worker.free)
        reports: deque[tuple[float, float, Item]] = deque()
        for item in batch:
            seconds = self._solving(item)
            start += seconds + self._beside(item)
            reports.append((start + self.costs.latency, seconds, item))
        worker.free = start
        worker.calls.append(reports)
        if len(worker.calls) == 1:
            self._expect(worker)
            self._with_one_call.append(worker)

    def _solving(self, item: Item) -> float:
        """The seconds that a worker solves for the item."""
        return self._random.choice(self._seconds)

    def _beside(self, item: Item) -> float:
        """The seconds that a worker needs for the item beside solving."""
        return self.costs.worker

    def _expect(self, worker: _Worker) -> None:
        """Enter the worker's next report as an event: one at a time, for later ones follow from it."""
        heappush(self._events, (worker.calls[0][0][0], worker.number))

    def _wait(self) -> None:
        """Let time pass until the next event, unless it has arrived already."""
        self.now = max(self.now, self._events[0][0])

    def _collect(self) -> list[tuple[Item, float]]:
        """The reports that have arrived by now; those that arrive while these are taken in come next time."""
        arrived: list[tuple[Item, float]] = []
        until = self.now
        while self._events and self._events[0][0] <= until:
            _, number = heappop(self._events)
            worker = self._workers[number]
            if worker.calls:
                arrived.append(self._take(worker))
            else:
                self._idle.append(worker)
        return arrived

    def _take(self, worker: _Worker) -> tuple[Item, float]:
        """Take in the worker's next report; it can hold another call after the last report of one."""
        self._spend(self.costs.item / 2)
        _, seconds, item = worker.calls[0].popleft()
        if not worker.calls[0]:
            worker.calls.popleft()
            (self._with_one_call if worker.calls else self._idle).append(worker)
        if worker.calls:
            self._expect(worker)
        return item, seconds

    def _answer(self, item: Item, seconds: float) -> None:
        """File the answer to an item, and submit what the ledger then accepts."""
        self._spend(self.costs.study / 2)
        if self._ledger.finish(item, seconds):
            self.useful += seconds
            self.answered.append(self.now)
        self._fill()


class SimulatedBlockRun(SimulatedRun):
    """One run of :class:`sweep.run.block_run.BlockRun`: ``useful`` are the seconds of solves, as there.

    Blocks are as large as that run makes them, small ones before the first was timed and at the end. The
    runtime has a block for an item, and gets no more of them than the run hands out at once.
    """

    def __init__(
        self, seconds: Sequence[float], solves: int, workers: int, costs: BlockCosts, random: Random
    ) -> None:
        super().__init__(seconds, solves, workers, costs.runtime, random)
        self._blocks = costs
        self._sizes: dict[str, int] = {}
        """By key of a block that is handed out, how many solves it has."""
        self._mean: float | None = None
        self._numbers = np.random.default_rng(random.getrandbits(32))

    def _fill(self) -> None:
        workers = len(self._workers)
        while self._to_submit and len(self._ledger) < BLOCKS_A_WORKER * workers:
            if self._ledger.capacity(workers) <= 0:
                return
            size = min(self._to_submit, solves_of_block(self._mean, self._to_submit, workers))
            self._spend((self.costs.item + self._blocks.block + size * self._blocks.solve) / 2)
            key = str(self._to_submit)
            self._sizes[key] = size
            self._ledger.accept(key, b"")
            self._to_submit -= size

    def _solving(self, item: Item) -> float:
        return float(self._numbers.choice(self._seconds, self._sizes[item.key]).sum())

    def _beside(self, item: Item) -> float:
        size = self._sizes[item.key]
        return size * self._blocks.worker + (self._blocks.part if size >= PART_ROWS else 0.0)

    def _answer(self, item: Item, seconds: float) -> None:
        size = self._sizes[item.key]
        self._spend((self._blocks.block + size * self._blocks.solve) / 2)
        if self._ledger.finish(item, seconds):
            each = (seconds + self._beside(item)) / size
            self._mean = each if self._mean is None else self._mean + SMOOTHING * (each - self._mean)
            self.useful += seconds
            self.answered.append(self.now)
        self._fill()
