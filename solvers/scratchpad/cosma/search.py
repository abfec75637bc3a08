"""Best-first search for the order and the replacement of least off-chip bytes (Eqs. 1-8 and 12).

Addresses (Eqs. 9-11) are left out: the sizes of what is resident add up to at most the capacity, so the
optimum here is a lower bound on the problem with addresses. A move runs one ready operator. Before its step
its missing inputs are retrieved, and other tensors are evicted until it fits.

- A retrieval is charged when its eviction is made, for a live tensor that leaves has to come back. So an
  eviction costs the tensor's traffic once, or twice if the host has no copy yet (Eq. 12; by Eq. 8 a tensor is
  spilled once).
- Only evictions that the present step needs are made, and only sets from which no tensor can be left out.
  Any other eviction can wait at the same cost.
- Dominance: take two states in which the same operators ran. State 1 can do all that state 2 can, once it has
  evicted what only it has resident. A tensor that only state 2 still has resident, state 1 has evicted; its
  retrieval was charged then, so it may come back at no further cost. A host copy that only state 2 has may
  save it one spill. If state 1 costs no more with all of that added, state 2 is dropped.

States are taken in the order of what they cost so far plus a lower bound on what they will still cost
(:mod:`.estimate`). :mod:`.moves` says, and proves, which operators run at once, and which evictions are made
for no other operator than these; :mod:`.late`, which operators wait for another and run right before it;
:mod:`.twins`, which states are as good as each other.
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from random import Random
from typing import Any, NamedTuple

from costmodel.limits import limit_reached
from solvers.budget import Deadline, InTime, always_in_time
from solvers.scratchpad.cosma.estimate import WideStepEstimate
from solvers.scratchpad.cosma.late import late_chains
from solvers.scratchpad.cosma.moves import LONGEST_CHAIN, Moves, SafeChain, State
from solvers.scratchpad.cosma.twins import Twins
from solvers.scratchpad.masks import GraphMasks, bits

MOST_ENTRIES = 3_000_000
"""Successors that may wait before the search gives up for want of memory (about 200 bytes each)."""


LOOK_EVERY = 256
"""Sets of evictions between two looks at the clock."""


_Costs = dict[tuple[int, int, int], int]
"""By operators that ran, resident tensors and those with a host copy, the least cost so far."""


class Reached(NamedTuple):
    """A state and the operators that led to it, as a linked list ``(earlier, operator)``."""

    state: State
    path: Any


@dataclass(frozen=True)
class Switches:
    """What makes the search faster; with any of these off it finds the same optimum, later.

    ``safe_moves`` runs at once what is never a mistake, with ``safe_chains`` also several operators in a row.
    ``dominance`` drops states that are no better than another. ``estimate`` adds a lower bound on what a
    state still has to pay. ``safe_first`` lets evictions that make room for what is never a mistake be
    followed by nothing else. ``late_chains`` runs operators that only make more of what they read right
    before the operator that reads it. ``twins`` follows one of the states that differ only by which of
    several equal branches is how far. A ``seed`` above 0 takes equal states in another order.
    """

    safe_moves: bool = True
    dominance: bool = True
    seed: int = 0
    safe_chains: bool = True
    estimate: bool = True
    safe_first: bool = True
    late_chains: bool = True
    twins: bool = True


class _Entry(NamedTuple):
    """A successor that is not built yet: ``parent`` runs ``operator``, or the late chain that begins with it,
    after evicting ``evicted``.

    ``least`` bounds the cost of every way on from it, ``cost`` is paid by then. Entries are compared field by
    field: of equal bounds the one with more operators behind it comes first (``minus_executed``), then the
    one with the smaller ``ticket``, which numbers them as they come, or at random by the seed. ``evicted`` is
    a set as bits; ``operator`` is -1 for a state from which the search begins.
    """

    least: float
    minus_executed: int
    ticket: int
    cost: int
    parent: Reached
    operator: int
    evicted: int


def start(masks: GraphMasks) -> Reached:
    """Nothing ran; the host has the network's inputs where the settings say so."""
    return Reached(State(0, masks.sources, 0, masks.on_host, 0, 0, masks.only_readers), ())


def operators_of(path: Any) -> tuple[int, ...]:
    """The operators of a path, first to last."""
    order = []
    while path:
        path, operator = path
        order.append(operator)
    return tuple(reversed(order))


class PlanSearch:
    """The search from some states to all in which exactly the operators of ``goal`` ran; can be continued.

    ``bound``: no way there that :meth:`run` has yet to return costs less; ``upper_bound`` once none is left.
    States that cost ``upper_bound`` or more are not followed.
    """

    def __init__(
        self,
        masks: GraphMasks,
        capacity: int,
        starts: Iterable[Reached] = (),
        goal: int | None = None,
        switches: Switches = Switches(),
        in_time: InTime = always_in_time,
    ) -> None:
        """``in_time`` says how long twins may be looked for and the estimate be prepared."""
        self.masks, self.switches = masks, switches
        self.moves = Moves(masks, capacity, LONGEST_CHAIN if switches.safe_chains else 1)
        self.goal = masks.all_operators if goal is None else goal
        begin = list(starts) or [start(masks)]
        to_run = self.goal & ~begin[0].state.executed
        self._twins = Twins(masks, to_run if switches.twins else 0, in_time)
        self._late = late_chains(masks, to_run) if switches.late_chains else {}
        self._estimate = WideStepEstimate(masks, capacity, to_run, in_time) if switches.estimate else None
        self.upper_bound: float = inf
        self.bound: float = 0.0
        self.expanded = 0
        self._tickets = 0
        self._ties = Random(switches.seed) if switches.seed else None
        self._heap: list[_Entry] = []
        self._known: _Costs = {}
        """The costs of states, with twins sorted, as entries lead to them: many do in another order, ..."""
        self._cheapest: _Costs = {}
        """... and after everything that runs at once."""
        self._followed: dict[int, list[State]] = {}
        """States that were followed, with twins sorted, by the operators that ran."""
        for reached in begin:
            self._push(reached.state.cost, reached, -1, 0)

    def tighten(self, upper_bound: float) -> None:
        """From here on drop all states that cost ``upper_bound`` or more."""
        self.upper_bound = upper_bound
        self._heap = [entry for entry in self._heap if entry.least < upper_bound]
        heapq.heapify(self._heap)

    @property
    def exhausted(self) -> bool:
        """Whether nothing below ``upper_bound`` is left."""
        return not self._heap

    def run(self, wall_seconds: float, most_expanded: float = inf) -> Reached | None:
        """The next cheapest goal state; None when there is none left, or at a limit (see ``bound``)."""
        deadline, last = Deadline(wall_seconds), self.expanded + most_expanded
        while self._heap:
            entry = heapq.heappop(self._heap)
            self.bound = max(self.bound, entry.least)
            crowded = len(self._heap) > MOST_ENTRIES
            if crowded:
                effect = "the search ends before its proof, for want of memory"
                limit_reached("states that wait in the search", MOST_ENTRIES, effect)
            full = self.expanded >= last or crowded
            if full or not deadline.in_time():
                heapq.heappush(self._heap, entry)
                return None
            entered = self._entered(entry)
            entered_like = self._twins.sorted(entered.state)
            if not self._cheaper(self._known, entered_like):
                continue
            reached = self._closed(entered) if self.switches.safe_moves else entered
            like = self._twins.sorted(reached.state)
            if not self._is_new(like):
                continue
            if reached.state.executed == self.goal:
                return reached
            if not self._expand(reached, deadline.in_time):
                self._forget(entered_like, like)
                heapq.heappush(self._heap, entry)
                return None
        self.bound = self.upper_bound
        return None

    def _push(self, cost: int, parent: Reached, operator: int, evicted: int) -> None:
        least = cost + self._to_come(parent.state, operator, evicted)
        if least >= self.upper_bound:
            return
        self._tickets += 1
        ticket = self._tickets if not self._ties else self._ties.getrandbits(62)
        depth = -parent.state.executed.bit_count()
        heapq.heappush(self._heap, _Entry(least, depth, ticket, cost, parent, operator, evicted))

    def _to_come(self, state: State, operator: int, evicted: int) -> int:
        """The least that is still to pay once the state's operator ran (-1: as it is)."""
        if self._estimate is None:
            return 0
        waiting, resident = self.goal & ~state.executed, state.resident & ~evicted
        late = self._late.get(operator)
        if late is not None:
            waiting &= ~late.operators
            resident |= late.source & ~evicted
            operator = late.members[-1]
        if operator >= 0:
            waiting &= ~(1 << operator)
            resident |= self.masks.inputs[operator] | self.masks.kept[operator]
        return self._estimate.bytes_to_come(waiting, resident, state.host | evicted)

    def _is_new(self, state: State) -> bool:
        """Whether the state is neither known as cheap nor dominated by one that was followed."""
        if not self._cheaper(self._cheapest, state):
            return False
        if not self.switches.dominance:
            return True
        followed = self._followed.setdefault(state.executed, [])
        if any(self._dominates(other, state) for other in reversed(followed)):
            return False
        followed.append(state)
        return True

    def _dominates(self, one: State, two: State) -> bool:
        """Whether ``one`` can do all that ``two`` can for no more; both executed the same operators."""
        spare = two.cost - one.cost
        extra = one.resident & ~two.resident
        uncopied = two.host & ~one.host & ~extra
        if not extra and not uncopied:
            return spare >= 0
        if spare <= 0:
            return False
        return self._eviction_cost(extra, one.host) + self.moves.traffic_of(uncopied) <= spare

    def _eviction_cost(self, tensors: int, host: int) -> int:
        """Retrievals of all, spills of those without a host copy."""
        return self.moves.traffic_of(tensors) + self.moves.traffic_of(tensors & ~host)

    @staticmethod
    def _cheaper(costs: _Costs, state: State) -> bool:
        """Whether the state costs less than any like it before, which it then does from here on."""
        key = (state.executed, state.resident, state.host)
        known = costs.get(key)
        if known is not None and known <= state.cost:
            return False
        costs[key] = state.cost
        return True

    def _forget(self, entered: State, state: State) -> None:
        """Undo what :meth:`run` noted of the last state that it took, whose ways on are not all known."""
        del self._known[entered.executed, entered.resident, entered.host]
        del self._cheapest[state.executed, state.resident, state.host]
        if self.switches.dominance:
            self._followed[state.executed].pop()

    def _expand(self, reached: Reached, in_time: InTime) -> bool:
        """Push all ways on from a state; False if the time is up first, for there may be very many."""
        self.expanded += 1
        state, moves = reached.state, self.moves
        first: list[SafeChain] | None = None
        for operator in bits(state.ready & self.goal):
            late = self._late.get(operator)
            if late is not None and late.makers & ~state.executed:
                continue
            excess = moves.excess(state, operator) if late is None else late.excess(moves, state)
            if excess <= 0:
                self._push(state.cost, reached, operator, 0)
                continue
            if first is None:
                first = self._lacking_room(state)
            leaving, source = state.resident & ~self.masks.inputs[operator], 0
            if late is not None:
                leaving, source = late.may_leave(self.masks, state), late.source
            for cost, evicted in self._evictions(state, leaving, excess, in_time):
                # What a late chain begins with leaves after its first operator, and makes no room before.
                if not self._is_for_another(operator, evicted & ~source, first):
                    self._push(cost, reached, operator, evicted)
            if not in_time():
                return False
        return True

    def _lacking_room(self, state: State) -> list[SafeChain]:
        """What would run at once if it had room, in the graph's order."""
        if not self.switches.safe_first:
            return []
        # A late chain has no move that runs its first operator by itself.
        able = [v for v in bits(self._able(state)) if v not in self._late]
        found = (self.moves.safe_chain(state, v, self.goal, self.moves.capacity) for v in able)
        return [chain for chain in found if chain is not None]

    def _is_for_another(self, operator: int, evicted: int, first: list[SafeChain]) -> bool:
        """Whether the evictions before ``operator`` make room for what is safe and has to run first."""
        if not first:
            return False
        freed = self.masks.bytes_of(evicted)
        for chain in first:
            if chain.lacking <= freed and not chain.needed & evicted:
                return chain.members[0] != operator
        return False

    def _evictions(
        self, state: State, leaving: int, excess: int, in_time: InTime = always_in_time
    ) -> Iterable[tuple[int, int]]:
        """Every set of ``leaving`` tensors that frees ``excess`` bytes, and from which none can be left out.

        Yields the cost so far with the set evicted, and the set. Sets with which the cost cannot stay below
        ``upper_bound`` are left out. Ends early when the time is up.
        """
        # Tensors are looked at from the largest to the smallest, and each is taken or left. A set is complete
        # as soon as it frees enough. It is minimal then, because its last member was needed and is the
        # smallest. ``remaining``: what all tensors from an index on free together; ``cheapest``: the least
        # price of one.
        blocks, traffic = self.masks.blocks, self.masks.traffic
        tensors = sorted((t for t in bits(leaving) if blocks[t]), key=lambda t: -blocks[t])
        free = [(blocks[t], 1 << t, traffic[t] if state.host >> t & 1 else 2 * traffic[t]) for t in tensors]
        remaining = [0] * (len(free) + 1)
        cheapest: list[float] = [inf] * (len(free) + 1)
        for index in reversed(range(len(free))):
            remaining[index] = remaining[index + 1] + free[index][0]
            cheapest[index] = min(cheapest[index + 1], free[index][2])
        looked = 0
        open_sets = [(0, excess, state.cost, 0)]
        while open_sets:
            looked += 1
            if not looked % LOOK_EVERY and not in_time():
                return
            index, missing, cost, evicted = open_sets.pop()
            if missing <= 0:
                if cost < self.upper_bound:
                    yield cost, evicted
            elif missing <= remaining[index]:
                size, tensor, price = free[index]
                if cost + -(-missing // size) * cheapest[index] >= self.upper_bound:
                    continue  # so many more would have to go, none for less
                open_sets.append((index + 1, missing, cost, evicted))
                open_sets.append((index + 1, missing - size, cost + price, evicted | tensor))

    def _entered(self, entry: _Entry) -> Reached:
        """The state that an entry leads to."""
        reached = entry.parent
        if entry.operator < 0:
            return reached
        state = reached.state._replace(cost=entry.cost)
        late = self._late.get(entry.operator)
        if late is None:
            state = self.moves.evicted(state, entry.evicted)
            return Reached(self.moves.ran(state, entry.operator), (reached.path, entry.operator))
        path = reached.path
        for member in late.members:
            path = path, member
        return Reached(late.ran(self.moves, state, entry.evicted), path)

    def _closed(self, reached: Reached) -> Reached:
        """After everything that may run at once."""
        state, path = self._onward(*reached)
        moved = True
        while moved:
            moved = False
            for operator in bits(self._able(state)):
                members, state = self.moves.at_once(state, operator, self.goal)
                for member in members:
                    path, moved = (path, member), True
                if members:
                    state, path = self._onward(state, path)
        return Reached(state, path)

    def _onward(self, state: State, path: Any) -> Reached:
        """After what follows the last operator at once."""
        members, state = self.moves.onward(state, path[1], self.goal) if path else ((), state)
        for member in members:
            path = path, member
        return Reached(state, path)

    def _able(self, state: State) -> int:
        """The ready operators that may begin what runs at once: all others free nothing."""
        return state.ready & self.goal & (state.last | self.masks.keep_nothing)
