"""The runtime on Ray: batches small items, ends long ones, and re-queues what a lost worker left behind."""

from __future__ import annotations

import pickle
import time
from collections import deque
from collections.abc import Iterator
from dataclasses import replace
from types import TracebackType
from typing import Any, Self

from clusters.execution import ItemReport, completion_of, wall_limit_failure
from clusters.ledger import Item, Ledger
from clusters.pace import DISPATCH_SECONDS, Pace, pace_for, sub_drivers_for
from clusters.ray.pool import Actor, ActorLost, ItemDone, RayPool, SubDriverPool
from clusters.ray.session import RaySession
from clusters.runtime import POISONOUS, Completion, Failure, RuntimeSettings, Work

TICK_SECONDS = 0.25
"""Longest wait for a result before limits and the number of workers are looked at again."""

SUB_DRIVER_WINDOW, SUB_DRIVER_SECONDS = 4, 1e9
"""The pace of sub-drivers. A window of 4 makes each call one payload: two calls at the sub-driver, two in the
queue. A call may take any time, so that a second one is always given, and none counts as stuck."""


class RayRuntime:
    """Runs items on one actor per CPU of a Ray cluster (a local one unless settings.address names it).

    On many CPUs, if payloads can be divided, sub-drivers come between (``sub_driver.py``). They are actors as
    workers are: this process hands items to them in the same way, and replaces one that dies.

    Everything happens in the thread that iterates as_completed. While that thread does something else,
    workers go on with the calls they hold; wall limits are enforced when it comes back.
    """

    def __init__(self, work: Work, settings: RuntimeSettings | None = None) -> None:
        self._settings = settings = settings or RuntimeSettings()
        self._completions: deque[Completion] = deque()
        self._session = RaySession(settings.address, settings.workers)
        self._closed = False
        try:
            self._pool = self._start(work, settings)
        except BaseException:
            self._session.close()
            raise

    def _start(self, work: Work, settings: RuntimeSettings) -> RayPool:
        """The workers, or sub-drivers that start them where there are many."""
        ray = self._session.ray
        pickled = ray.cloudpickle.dumps(work)
        workers = settings.workers or int(ray.cluster_resources().get("CPU", 1))
        wanted = settings.sub_drivers
        if settings.divide is None or not (sub_drivers_for(workers) if wanted is None else wanted):
            pace = pace_for(settings.workers or 1, settings.window, settings.target_seconds)
            self._ledger = Ledger(pace)
            return RayPool(ray, pickled, settings)
        # a sub-driver limits what its workers do, and is given the next payload while it has one
        self._settings = replace(
            settings,
            window=SUB_DRIVER_WINDOW,
            target_seconds=SUB_DRIVER_SECONDS,
            wall_limit_seconds=None,
            memory_limit_bytes=None,
        )
        self._ledger = Ledger(Pace(SUB_DRIVER_WINDOW, SUB_DRIVER_SECONDS), first_seconds=0.0)
        return SubDriverPool(ray, pickled, settings, RayRuntime)

    def feed(self, workers: int) -> None:
        """Have so many workers from now on; may be called from another thread."""
        self._pool.want(workers)

    def submit(self, key: str, payload: Any) -> None:
        if self._closed:
            raise RuntimeError("this runtime is closed")
        self._ledger.accept(key, pickle.dumps(payload, protocol=pickle.HIGHEST_PROTOCOL))

    @property
    def pending(self) -> int:
        return len(self._ledger) + len(self._completions)

    @property
    def workers(self) -> int:
        return max(1, self._pool.workers)

    @property
    def sub_drivers(self) -> int:
        return self._pool.sub_drivers

    @property
    def capacity(self) -> int:
        return max(0, self._ledger.capacity(self._pool.target) - len(self._completions))

    def as_completed(self) -> Iterator[Completion]:
        while self.pending:
            yield from self.round()

    def round(self, seconds: float = TICK_SECONDS) -> Iterator[Completion]:
        """The completions that are there; then wait up to so many seconds for others, if any are pending."""
        dispatched = time.monotonic()
        while self._completions:
            yield self._completions.popleft()
            if time.monotonic() - dispatched > DISPATCH_SECONDS:
                self._dispatch()
                dispatched = time.monotonic()
        if len(self._ledger):
            self._advance(seconds)

    def _advance(self, seconds: float) -> None:
        """One round: hand out items, take results in, end workers whose item is over the wall limit."""
        self._pool.tend()
        settings = self._settings
        self._ledger.pace = pace_for(self._pool.target, settings.window, settings.target_seconds)
        patience = 2 * self._ledger.pace.target_seconds
        if not self._ledger.queued:
            # the last items of a run need not wait behind a long one while other workers are idle
            self._ledger.put_back(self._pool.stuck_items(patience))
        self._dispatch()
        for event in self._pool.collect(seconds):
            if isinstance(event, ItemDone):
                self._answered(event)
            else:
                self._lost(event)
        limit = settings.wall_limit_seconds
        if limit is not None:
            for actor in self._pool.overdue(limit):
                self._end_overdue(actor, limit)

    def _dispatch(self) -> None:
        calls, patience = self._ledger.calls_per_worker, 2 * self._ledger.pace.target_seconds
        while self._ledger.queued and (free := self._pool.free_actors(calls, patience)):
            for actor in free:
                if actor.calls and self._ledger.next_is_suspect:
                    return  # idle workers came first: none is left, and a suspect wants one
                if batch := self._ledger.take_batch(self._pool.target):
                    self._pool.send(actor, batch)

    def _answered(self, answer: ItemDone) -> None:
        actor, item, report = answer
        self._complete(item, actor, report, timed=True)

    def _lost(self, loss: ActorLost) -> None:
        """Queue again what the lost worker had not answered; the item that it was running gets a strike.

        Items behind the running one were not started, so they are not suspected of having killed the worker.
        """
        self._pool.end(loss.actor)
        self._ledger.put_back(loss.actor.not_started())
        running = loss.actor.running()
        if running is None:
            return
        running.strikes += not loss.blameless
        if running.strikes >= self._settings.max_strikes:
            self._give_up(running, loss)
        else:
            running.attempts += 1
            self._ledger.put_back([running])

    def _give_up(self, item: Item, loss: ActorLost) -> None:
        message = (
            f"the worker died {item.strikes} times while running it; the last time: {loss.reason[:1000]}"
        )
        self._complete(item, loss.actor, ItemReport(None, Failure(POISONOUS, message), 0.0, 0.0))

    def _end_overdue(self, actor: Actor, limit: float) -> None:
        self._pool.end(actor)
        self._ledger.put_back(actor.not_started())
        if running := actor.running():
            self._complete(running, actor, ItemReport(None, wall_limit_failure(limit), limit, 0.0))

    def _complete(self, item: Item, actor: Actor, report: ItemReport, timed: bool = False) -> None:
        if self._ledger.finish(item, report.wall_seconds if timed else None):
            self._completions.append(completion_of(item.key, report, actor.name, item.attempts))

    def close(self) -> None:
        if self._closed:
            return
        self._closed = True
        self._ledger.clear()
        self._completions.clear()
        try:
            self._pool.close()
        finally:
            self._session.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()
