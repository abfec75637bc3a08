"""The actors of one runtime: started, fed with calls, listened to, and replaced when they die."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, NamedTuple

from clusters.execution import ItemReport
from clusters.ledger import CALLS_PER_WORKER, Item
from clusters.pace import sub_drivers_for
from clusters.ray import start as ray_start
from clusters.ray.session import signals_pass
from clusters.ray.worker import HEADROOM_BYTES
from clusters.runtime import MemoryLimitError, RuntimeSettings, WorkersUnavailableError

CHECK_SECONDS = 2.0
"""How often the number of actors follows the CPUs, and how long a failed start holds up the next."""

MOST_FAILED_STARTS = 4
"""How many actors may die in a row before they answer, with no other at work; then the pool gives up."""


CALLS_AT_ONCE = CALLS_PER_WORKER + 2
"""Threads of a sub-driver: one for each call that it holds, and two that answer short questions."""


@dataclass(slots=True, eq=False)
class _Call:
    """One batch of items at an actor: the stream of its reports, and the items not yet answered, in order."""

    stream: Any
    waiting: deque[Item]

    def held(self) -> list[Item]:
        """The items that no later call has taken over."""
        return [item for item in self.waiting if item.holder is self]


@dataclass(slots=True, eq=False)
class Actor:
    """One worker or sub-driver. It is starting until it has a name; then it runs the first item of its first
    call.

    ``started``: a reference that Ray fulfils once it has started. ``running_since``: by the monotonic clock.
    """

    handle: Any
    started: Any
    name: str = ""
    node: str = ""
    calls: deque[_Call] = field(default_factory=deque)
    running_since: float = 0.0

    def takes_calls(self) -> bool:
        """Whether it may get calls: not while it runs a suspect, an item that ran when another worker died.

        That item then is the only one to blame if this worker dies, too.
        """
        running = self.running()
        return bool(self.name) and not (running and running.strikes)

    def running(self) -> Item | None:
        """The item that it runs, None if it runs none or another call has taken that item over."""
        call = self.calls[0] if self.calls else None
        return call.waiting[0] if call and call.waiting[0].holder is call else None

    def not_started(self) -> list[Item]:
        """The items it holds behind the running one."""
        running = self.running()
        return [item for call in self.calls for item in call.held() if item is not running]


class ItemDone(NamedTuple):
    """An actor has reported on an item."""

    actor: Actor
    item: Item
    report: ItemReport


class ActorLost(NamedTuple):
    """An actor is gone. blameless: its node is gone or out of Ray's reach, so no item is to be suspected."""

    actor: Actor
    reason: str
    blameless: bool


class RayPool:
    """As many actors as asked for, or one for each CPU the cluster has at the moment.

    Where CPUs become fewer, actors that run already stay.

    Ray's own restarts and retries are off: they cannot tell which item of a batch killed a worker, and they
    are used up while a node is out of reach. Instead the caller gets back what a lost actor had not answered.
    """

    def __init__(self, ray: Any, work: bytes, settings: RuntimeSettings) -> None:
        self._ray, self._wanted = ray, settings.workers
        ray.cloudpickle.register_pickle_by_value(ray_start)
        self._class, self._arguments = self._kind(work, settings)
        self._memory_limit = settings.memory_limit_bytes
        self._actors: list[Actor] = []
        self._retires = False
        self._checked = float("-inf")
        self._failed_starts = 0
        self._no_start_before = float("-inf")
        self.workers = self.target = 0
        """``workers``: how many are wanted; ``target``: how many actors that makes, fewer if they are
        sub-drivers."""
        self.tend()

    def _kind(self, work: bytes, settings: RuntimeSettings) -> tuple[Any, tuple[Any, ...]]:
        """The class of the actors, and what they are made with."""
        actor = self._ray.remote(num_cpus=1, max_restarts=0, max_task_retries=0)(ray_start.Start)
        prepare = self._ray.cloudpickle.dumps(settings.prepare)
        return actor, (settings.packages, work, settings.memory_limit_bytes, prepare)

    def _actors_for(self, workers: int) -> int:
        """How many actors there are for so many workers."""
        return workers

    @property
    def sub_drivers(self) -> int:
        return 0

    def want(self, workers: int) -> None:
        """Have so many workers from the next :meth:`tend` on.

        Those that are too many end when they idle, as another sub-driver of the run waits for their CPUs.
        """
        self._wanted, self._retires = workers, True
        self._checked = float("-inf")

    def tend(self) -> None:
        """Start or end actors until there are as many as wanted; asks for the CPUs every CHECK_SECONDS.

        Ends only those that have not started yet and, once :meth:`want` was called, those that are idle.
        """
        if time.monotonic() - self._checked > CHECK_SECONDS:
            self._checked = time.monotonic()
            # one actor waits even where there is no CPU: without demand an autoscaler adds no node
            cpus = int(self._ray.cluster_resources().get("CPU", 0))
            self.workers = max(1, cpus) if self._wanted is None else self._wanted
            self.target = self._actors_for(self.workers)
        if time.monotonic() > self._no_start_before:
            while len(self._actors) < self.target:
                self._start()
        surplus = max(0, len(self._actors) - self.target)
        gone = [actor for actor in self._actors if not actor.name]
        if self._retires:
            gone += [actor for actor in self._actors if actor.name and not actor.calls]
        for actor in gone[:surplus]:
            self.end(actor)

    def _start(self) -> None:
        handle = self._class.remote(*self._arguments)
        self._actors.append(Actor(handle, handle.identity.remote()))

    def free_actors(self, calls: int, seconds: float) -> list[Actor]:
        """Actors that hold fewer than ``calls`` calls, idle ones first.

        Those whose item has run for more than ``seconds`` are left out: what they got now would wait.
        """
        stuck = set(self.overdue(seconds))
        free = [a for a in self._actors if a.takes_calls() and len(a.calls) < calls and a not in stuck]
        if self._retires and (surplus := len(self._actors) - self.target) > 0:
            free = free[surplus:]
        return sorted(free, key=lambda actor: len(actor.calls))

    def send(self, actor: Actor, items: Sequence[Item]) -> None:
        stream = actor.handle.run.options(num_returns="streaming").remote([item.payload for item in items])
        if not actor.calls:
            actor.running_since = time.monotonic()
        call = _Call(stream, deque(items))
        for item in items:
            item.holder = call
        actor.calls.append(call)

    def collect(self, timeout: float) -> list[ItemDone | ActorLost]:
        """What happened since the last call; waits up to timeout seconds for something to happen."""
        awaited = {}
        for actor in self._actors:
            if not actor.name:
                awaited[actor.started] = actor
            elif actor.calls:
                awaited[actor.calls[0].stream] = actor
        with signals_pass():
            ready, _ = self._ray.wait(list(awaited), num_returns=1, timeout=timeout)
            if ready and len(awaited) > 1:
                ready, _ = self._ray.wait(list(awaited), num_returns=len(awaited), timeout=0)
        happened: list[ItemDone | ActorLost] = []
        for reference in ready:
            actor = awaited[reference]
            try:
                with signals_pass():
                    self._listen(actor, happened)
            except self._ray.exceptions.RayError as error:
                self._check_cause(error)
                happened.append(self._lost(actor, error))
        return happened

    def _listen(self, actor: Actor, happened: list[ItemDone | ActorLost]) -> None:
        """Take all reports that are ready; raises RayError when the actor is lost."""
        if not actor.name:
            name, node, taken = self._ray.get(actor.started)
            self._check_memory(taken)
            actor.name, actor.node = name, node
            self._failed_starts = 0
            return
        call = actor.calls[0]
        while call.waiting:
            report = self._ray.get(next(call.stream))
            happened.append(ItemDone(actor, call.waiting.popleft(), report))
            if not call.stream.next_ready():
                break
        if not call.waiting:
            actor.calls.popleft()
        # the next item started earlier than this, if the caller was busy: late is lenient, never unjust
        actor.running_since = time.monotonic()

    def _check_cause(self, error: Exception) -> None:
        """Raises what a sub-driver raised because it cannot have workers; another one could not either."""
        cause = getattr(error, "cause", None)
        if isinstance(cause, (MemoryLimitError, WorkersUnavailableError)):
            raise cause from error

    def _check_memory(self, taken: int) -> None:
        """Raises MemoryLimitError where a prepared worker has too little left below the limit."""
        least = taken + HEADROOM_BYTES
        if self._memory_limit is not None and self._memory_limit < least:
            raise MemoryLimitError(self._memory_limit, taken, least)

    def _lost(self, actor: Actor, error: Exception) -> ActorLost:
        if not actor.name:
            self._start_failed(error)
        exceptions = self._ray.exceptions
        blameless = isinstance(error, exceptions.ActorUnavailableError) or (
            isinstance(error, exceptions.RayActorError) and (error.preempted or not self._alive(actor.node))
        )
        return ActorLost(actor, str(error), blameless)

    def _start_failed(self, error: Exception) -> None:
        self._failed_starts += 1
        self._no_start_before = time.monotonic() + CHECK_SECONDS
        if self._failed_starts >= MOST_FAILED_STARTS and not any(actor.name for actor in self._actors):
            raise WorkersUnavailableError(
                f"{self._failed_starts} workers in a row died while starting; the last one said: {error}"
            ) from error

    def _alive(self, node: str) -> bool:
        return any(entry["Alive"] and entry["NodeID"] == node for entry in self._ray.nodes())

    def overdue(self, seconds: float) -> list[Actor]:
        """Actors whose running item has been running for longer than this."""
        now = time.monotonic()
        return [actor for actor in self._actors if actor.calls and now - actor.running_since > seconds]

    def stuck_items(self, seconds: float) -> list[Item]:
        """If an actor is idle: the items that others hold behind one that has run for longer than this."""
        if all(actor.calls or not actor.name for actor in self._actors):
            return []
        return [item for actor in self.overdue(seconds) for item in actor.not_started()]

    def end(self, actor: Actor) -> None:
        """Kill the actor. What it held is the caller's to queue again, before or after."""
        self._actors.remove(actor)
        self._ray.kill(actor.handle, no_restart=True)

    def close(self) -> None:
        for actor in list(self._actors):
            self.end(actor)


class SubDriverPool(RayPool):
    """Sub-drivers, each with an even part of the workers that are wanted, or that the cluster has CPUs for.

    They are spread over the nodes and ask for no CPU: what one computes is under half of a CPU among those
    of its workers. Their workers are actors that they start, and end with them.
    """

    def __init__(self, ray: Any, work: bytes, settings: RuntimeSettings, runtime: object) -> None:
        """``runtime``: the class of what each of them feeds its workers with."""
        self._runtime = runtime
        super().__init__(ray, work, settings)

    def _kind(self, work: bytes, settings: RuntimeSettings) -> tuple[Any, tuple[Any, ...]]:
        self._fixed = settings.sub_drivers
        self._fed: dict[Actor, int] = {}
        options = {"num_cpus": 0, "max_restarts": 0, "max_task_retries": 0, "max_concurrency": CALLS_AT_ONCE}
        actor = self._ray.remote(scheduling_strategy="SPREAD", **options)(ray_start.StartSubDriver)
        own = replace(settings, workers=1, sub_drivers=0, address="")
        return actor, (settings.packages, work, self._ray.cloudpickle.dumps((own, self._runtime)))

    def _actors_for(self, workers: int) -> int:
        return min(workers, self._fixed or max(1, sub_drivers_for(workers)))

    @property
    def sub_drivers(self) -> int:
        return max(1, self.target)

    def tend(self) -> None:
        super().tend()
        count = len(self._actors)
        for number, actor in enumerate(self._actors):
            workers = self.workers // count + (number < self.workers % count)
            if self._fed.get(actor) != workers:
                actor.handle.feed.remote(workers)
                self._fed[actor] = workers

    def end(self, actor: Actor) -> None:
        self._fed.pop(actor, None)
        super().end(actor)
