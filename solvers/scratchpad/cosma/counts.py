"""A lower bound and an order for graphs of many equal branches: how many are where, instead of which.

The states of :mod:`.search` name the queries that are away; those of this search count them. A state says
how many operators of each class have run (:mod:`.classes`), and two numbers for each kind of tensors, which
are those of equal sizes: a are away, and h have a copy on the host. From the operators that ran follow bounds
on how many tensors of a kind are live. A step fits if the least that can be live, but for what is away,
leaves room for what the step makes. What it reads comes back before: a is at most the most that can be live
besides. So a state allows more than any of the states that it stands for.

**No plan costs less than the cheapest way through these states.** Proof. Take any plan. Retrievals are
charged when a tensor leaves, for a live tensor that is away comes back. Let a', h' and cost' be the plan's,
and t the bytes that a transfer of the kind moves. Then a way through the states, in the order in which the
plan's operators run, keeps a >= a' for every kind, and

    cost + the sum of t (h' - h) over the kinds with h' > h  <=  cost'.

- *Retrievals* lower a' alone. The way retrieves only what has to be there: it caps a by the most that can be
  live besides what is read, and a' is no more than that.
- *Evictions*: where E tensors of a kind leave, u of them without a copy, the plan pays t (E + u). The way
  evicts up to a' + E, which are at most E tensors, and pays for copies above h. As all that is away has a
  copy, a' + E <= h' + u, so the left side grows by at most t (E + u). A spill alone has E = 0.
- *Steps*: what fits in the plan fits in the state, for no less is live in the plan, and no more is away. What
  dies is there, so a' stays as it is. Then a and h are capped by the most that can be live now, which a' and
  h' do not exceed.

The way may also put off evictions until a step needs their bytes, and leave out what it does not need: later
they cost no more. Where a cap lowers h in between, it would have lowered what was away to no more than that,
for which no copy is new. So the search follows only sets of evictions from which nothing can be left out. Of
two states with equal operators, it drops one if the other can catch up with it for the difference of their
costs: evict what more is away there, and pay for the copies that it lacks.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Iterator
from math import inf
from typing import Any, NamedTuple

from costmodel.limits import limit_reached
from solvers.budget import InTime
from solvers.scratchpad.cosma.classes import Classes, Counts
from solvers.scratchpad.masks import GraphMasks, bits

MOST_COUNTED = 1_000_000
"""States of counts that may wait before the search ends, for want of memory."""

_PerKind = tuple[int, ...]


class _State(NamedTuple):
    """How many of each class ran; per kind how many tensors are away, and how many have a host copy."""

    ran: Counts
    away: _PerKind
    copies: _PerKind


class _Entry(NamedTuple):
    """A state that waits; of equal costs the one comes first in which more operators ran."""

    cost: int
    minus_executed: int
    ticket: int
    state: _State
    path: Any


class _Step(NamedTuple):
    """An operator of a class runs.

    ``bytes`` are what its step takes with nothing away. Per kind, at most ``removable`` tensors are away in
    the step, and at most ``live`` are live after it.
    """

    operator_class: int
    ran: Counts
    bytes: int
    removable: _PerKind
    live: _PerKind


class CountedSearch:
    """The cheapest way through states of counts, from none to all of the classes' operators.

    ``bound``: no plan of these operators costs less, at any time.
    """

    def __init__(self, classes: Classes, capacity: int, upper_bound: float = inf) -> None:
        """Ways that cost ``upper_bound`` or more are not followed, for a plan costs that."""
        self.classes, self.capacity, self.upper_bound = classes, capacity, upper_bound
        self.bound = 0.0
        nothing = (0,) * len(classes.kinds)
        self._goal = tuple(len(own.members) for own in classes.operators)
        self._heap: list[_Entry] = []
        self._tickets = 0
        self._best: dict[Counts, list[_Entry]] = {}
        """Entries of which none can do all that another can, by what ran."""
        self._steps: dict[Counts, list[_Step]] = {}
        self._live: dict[Counts, _PerKind] = {}
        # From the largest block on, as a set of evictions is complete with its smallest then.
        self._largest_first = sorted(
            (k for k, kind in enumerate(classes.kinds) if kind.block), key=lambda k: -classes.kinds[k].block
        )
        self._push(0, _State((0,) * len(self._goal), nothing, nothing), ())

    def run(self, in_time: InTime) -> tuple[int, ...] | None:
        """The classes of the operators on the cheapest way, first to last; None where none is found in time
        or below the upper bound."""
        while self._heap:
            self.bound = max(self.bound, self._heap[0].cost)
            if len(self._heap) > MOST_COUNTED:
                limit_reached("states of counts that wait", MOST_COUNTED, "the bound may be lower")
                return None
            if not in_time():
                return None
            entry = heapq.heappop(self._heap)
            if entry.state.ran == self._goal:
                return _listed(entry.path)
            if any(other is entry for other in self._best[entry.state.ran]):
                self._expand(entry)
        self.bound = self.upper_bound
        return None

    def _expand(self, entry: _Entry) -> None:
        for step in self._steps_from(entry.state.ran):
            before = _capped(entry.state, step.removable)
            for price, away in self._evictions(before, step):
                copies = tuple(map(max, before.copies, away))
                after = _State(step.ran, *(tuple(map(min, own, step.live)) for own in (away, copies)))
                self._push(entry.cost + price, after, (entry.path, step.operator_class))

    def _push(self, cost: int, state: _State, path: Any) -> None:
        if cost >= self.upper_bound:
            return
        best = self._best.setdefault(state.ran, [])
        if any(self._dominates(other.cost, other.state, cost, state) for other in best):
            return
        self._tickets += 1
        entry = _Entry(cost, -sum(state.ran), self._tickets, state, path)
        best[:] = [other for other in best if not self._dominates(cost, state, other.cost, other.state)]
        best.append(entry)
        heapq.heappush(self._heap, entry)

    def _dominates(self, cost: int, one: _State, other_cost: int, other: _State) -> bool:
        """Whether ``one`` can do all that the other can for no more, when the same operators ran."""
        spare = other_cost - cost
        if spare < 0:
            return False
        for k, kind in enumerate(self.classes.kinds):
            spare -= kind.traffic * max(0, other.away[k] - one.away[k])
            if not kind.on_host:
                spare -= kind.traffic * max(0, other.copies[k] - one.copies[k])
        return spare >= 0

    def _evictions(self, state: _State, step: _Step) -> Iterator[tuple[int, _PerKind]]:
        """Every smallest set of evictions with which the step fits: its price, and what is away then."""
        kinds = self.classes.kinds
        away_bytes = sum(kind.block * away for kind, away in zip(kinds, state.away, strict=True))
        excess = step.bytes - away_bytes - self.capacity
        if excess <= 0:
            yield 0, state.away
            return
        waiting = [(excess, 0, 0, state.away)]
        while waiting:
            excess, position, price, away = waiting.pop()
            if excess <= 0:
                yield price, away
                continue
            if position == len(self._largest_first):
                continue
            k = self._largest_first[position]
            kind, before = kinds[k], away[k]
            enough = -(-excess // kind.block)
            for more in range(min(enough, step.removable[k] - before) + 1):
                paid = price + kind.price(before, state.copies[k], more)
                left = (*away[:k], before + more, *away[k + 1 :])
                waiting.append((excess - more * kind.block, position + 1, paid, left))

    def _steps_from(self, ran: Counts) -> list[_Step]:
        known = self._steps.get(ran)
        if known is None:
            known = self._steps[ran] = list(self._next_steps(ran))
        return known

    def _next_steps(self, ran: Counts) -> Iterator[_Step]:
        classes, blocks = self.classes, [kind.block for kind in self.classes.kinds]
        least = [tensor.least_live(ran) for tensor in classes.tensors]
        size = sum(blocks[t.kind] * live for t, live in zip(classes.tensors, least, strict=True))
        for r, own in enumerate(classes.operators):
            if ran[r] == len(own.members):
                continue
            if not all(classes.tensors[tensor].allows(ran, r) for tensor, _ in own.reads):
                continue
            needed, removable = size + own.step_bytes, list(self._most_live(ran))
            for number, inputs in own.reads:
                tensor = classes.tensors[number]
                needed += blocks[tensor.kind] * max(0, inputs - least[number])
                removable[tensor.kind] += tensor.removable(ran, inputs) - tensor.most_live(ran)
            after = (*ran[:r], ran[r] + 1, *ran[r + 1 :])
            yield _Step(r, after, needed, tuple(removable), self._most_live(after))

    def _most_live(self, ran: Counts) -> _PerKind:
        known = self._live.get(ran)
        if known is None:
            live = [0] * len(self.classes.kinds)
            for tensor in self.classes.tensors:
                live[tensor.kind] += tensor.most_live(ran)
            known = self._live[ran] = tuple(live)
        return known


def _capped(state: _State, removable: _PerKind) -> _State:
    """The state after what has to be there came back."""
    return state._replace(away=tuple(map(min, state.away, removable)))


def named(masks: GraphMasks, classes: Classes, way: Iterable[int], executed: int) -> tuple[int, ...]:
    """An order of operators in the order of their classes, from the state in which others were ``executed``.

    The members of a class run in the graph's own order, each after what it waits for.
    """
    members = [iter(own.members) for own in classes.operators]
    order = list[int]()
    for r in way:
        waiting = [next(members[r])]
        while waiting:
            operator = waiting[-1]
            before = masks.predecessors[operator] & ~executed
            if before:
                waiting += bits(before)
                continue
            waiting.pop()
            if not executed >> operator & 1:
                executed |= 1 << operator
                order.append(operator)
    return tuple(order)


def _listed(path: Any) -> tuple[int, ...]:
    found = []
    while path:
        path, one = path
        found.append(one)
    return tuple(reversed(found))
