"""States of the search for a plan, what running an operator changes, and which operators run at once.

A state says which operators have run, which tensors are resident and which have a copy on the host. It lists
live tensors only: those made or arrived that an operator to come still reads.

**Safe moves.** A ready operator v runs at once, instead of being one choice among several, if

1. its inputs are resident and it fits without an eviction;
2. the outputs that it keeps take no more bytes than the inputs D that it frees;
3. evicting all that it keeps (spill and retrieval) costs no more than evicting any single tensor of D, or it
   keeps nothing.

Proof. Take an optimal completion, in which v runs after u1 ... uk, and move v to its front. While the
completion keeps D resident, the changed one holds v's outputs instead of D: no more bytes, by 2. Where the
completion first evicts some d of D, the changed one evicts v's outputs, for no more by 3, and from then on
holds less. It retrieves them at the step at which v used to run, where the completion held D and the outputs
at once. From there on both hold the same tensors, and the changed one has no fewer host copies. Without 3
the rule would be wrong, if rarely: ``tests/solvers/scratchpad/test_search.py`` has a graph on which it costs
twice the optimum.

**Safe chains.** Operators v1 ... vk, each of which is the only successor of the one before, run at once if

1. each in turn is ready, has its inputs resident and fits without an eviction;
2. the outputs K that vk keeps take no more bytes than what the chain frees of the tensors present before it,
   and no more than what any earlier vi keeps;
3. evicting K costs no more than evicting any single tensor that dies in the chain.

So a padded copy that the next operator reduces need not wait. Proof. Any completion runs v1 ... vk in this
order; move them all to its front. Let Xi be what the completion holds for the chain between vi and vi+1: the
outputs of vi, which only vi+1 reads, and what later members free. Before v1, X0 is all that the chain frees.
The changed completion holds K instead of Xi: no more bytes, by 2. Where the completion first evicts a tensor
of some Xi, the changed one evicts K, for no more by 3, and retrieves it at the step at which vk used to run,
where the completion holds K, too. An input that the chain reads and that stays live is resident now, and
afterwards follows the completion.

**Safe moves first.** Where a safe move or chain lacks nothing but room, an eviction that makes enough of it
is made for it, and for nothing else: of all ways on from a state, "evict E and run w" is left out if after E
another operator v is a safe move or begins a safe chain. Proof. Some optimal completion of the state after E
runs v first. It also begins with "evict of E what v's step needs, and run v": what is left of E can leave
later. If that way is left out for a third operator in its turn, another one takes its place with a smaller
set, or with the same set and the third operator. Of several that are safe after the same set, only the first
in the graph's order is followed. So one of the ways remains.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from math import inf
from typing import NamedTuple

from solvers.scratchpad.masks import GraphMasks, bits, mask_of

LONGEST_CHAIN = 6
"""The most operators of a chain."""


class State(NamedTuple):
    """Where a search stands; sets are the bits of an int.

    ``executed``: operators that have run; ``ready``: those that have not, but whose predecessors all have;
    ``resident``: tensors in the scratchpad; ``host``: tensors with a copy off chip; ``bytes``: of the
    resident tensors; ``cost``: bytes moved or charged so far; ``last``: operators that are the only ones
    left to read one of their inputs; all of them, but for inputs of the network that were read before a part.
    """

    executed: int
    ready: int
    resident: int
    host: int
    bytes: int
    cost: int
    last: int


class SafeChain(NamedTuple):
    """Operators that may run at once, in this order, if ``lacking`` bytes leave the scratchpad before.

    ``needed`` are the tensors present before the chain that it reads, and ``after`` is the state at its end.
    """

    members: tuple[int, ...]
    lacking: int
    needed: int
    after: State


class Tail(NamedTuple):
    """Operators that run at once after the one that made ``source``, the only tensor the first one reads.

    Each is the only reader of what the one before keeps, and a safe move wherever there is room for it.
    ``operators`` are the members as a bit set, ``room`` the bytes that must be free when ``source`` is made,
    ``shrinks`` those by which what the last one keeps is smaller.
    """

    members: tuple[int, ...]
    operators: int
    source: int
    room: int
    shrinks: int


@dataclass(frozen=True)
class Moves:
    """What operators do to states in a scratchpad of ``capacity`` bytes; a ``longest_chain`` of 1 leaves
    single operators as the only safe moves."""

    masks: GraphMasks
    capacity: int
    longest_chain: int = LONGEST_CHAIN

    def traffic_of(self, tensors: int) -> int:
        """Bytes to retrieve all of a set of tensors."""
        traffic, total = self.masks.traffic, 0
        while tensors:
            lowest = tensors & -tensors
            total += traffic[lowest.bit_length() - 1]
            tensors ^= lowest
        return total

    def excess(self, state: State, operator: int) -> int:
        """Bytes by which the operator's step would exceed the capacity if nothing were evicted."""
        masks = self.masks
        needed = state.bytes + masks.step_bytes[operator]
        if arriving := masks.inputs[operator] & ~state.resident:
            needed += masks.bytes_of(arriving)
        # Rare, and slower than all the rest: only operators that may write in place ask which inputs die in
        # their step.
        if masks.graph.operators[operator].overwrites:
            dead = masks.dying(operator, state.executed | 1 << operator)
            needed -= masks.overwritten_bytes(operator, dead)
        return needed - self.capacity

    def ran(self, state: State, operator: int) -> State:
        """The state after the operator's step, which must fit."""
        masks = self.masks
        executed = state.executed | 1 << operator
        dead, last = masks.read_by(operator, state.last, executed)
        arriving = masks.inputs[operator] & ~state.resident & ~dead
        leaving = dead & state.resident
        size = state.bytes + masks.kept_bytes[operator]
        if arriving:
            size += masks.bytes_of(arriving)
        if leaving:
            size -= masks.bytes_of(leaving)
        return State(
            executed,
            masks.ready_after(operator, state.ready, executed),
            (state.resident | arriving | masks.kept[operator]) & ~dead,
            state.host & ~dead,
            size,
            state.cost,
            last,
        )

    def evicted(self, state: State, tensors: int) -> State:
        """The state after resident tensors left for the host, but for the cost of that."""
        return state._replace(
            resident=state.resident & ~tensors,
            host=state.host | tensors,
            bytes=state.bytes - self.masks.bytes_of(tensors),
        )

    @cached_property
    def _tails(self) -> tuple[Tail | None, ...]:
        """The tail of every operator that has one."""
        return tuple(map(self._tail, range(len(self.masks.graph.operators))))

    def _tail(self, operator: int) -> Tail | None:
        masks, members = self.masks, list[int]()
        source, size, room = masks.kept[operator], masks.kept_bytes[operator], 0
        made, moved, followers = size, self.traffic_of(source), masks.successors[operator]
        while len(followers) == 1 and source.bit_count() == 1:
            (follower,) = followers
            kept, traffic = masks.kept_bytes[follower], self.traffic_of(masks.kept[follower])
            alone = masks.inputs[follower] == masks.kept[operator]
            if not alone or kept > made or traffic > moved or masks.graph.operators[follower].overwrites:
                break
            members.append(follower)
            room = max(room, made - size + masks.step_bytes[follower])
            operator, made, moved, followers = follower, kept, traffic, masks.successors[follower]
            if masks.kept[operator].bit_count() != 1:
                break
        if not members:
            return None
        return Tail(tuple(members), mask_of(members), source, room, size - made)

    def onward(self, state: State, operator: int, goal: int) -> tuple[tuple[int, ...], State]:
        """What runs at once after the operator that ran last, and the state after it.

        These are the safe moves that :meth:`at_once` would find one by one, all at once.
        """
        tail = self._tails[operator]
        if (
            tail is None
            or tail.operators & (state.executed | ~goal)
            or state.bytes + tail.room > self.capacity
        ):
            return (), state
        # A copy on the host makes it cheaper to evict the source, and then it may be better to wait.
        if tail.source & ~state.resident or tail.source & state.host:
            return (), state
        last, executed = tail.members[-1], state.executed | tail.operators
        return tail.members, state._replace(
            executed=executed,
            ready=self.masks.ready_after(last, state.ready & ~tail.operators, executed),
            resident=state.resident & ~tail.source | self.masks.kept[last],
            bytes=state.bytes - tail.shrinks,
            last=state.last & ~tail.operators,
        )

    def at_once(self, state: State, operator: int, goal: int) -> tuple[tuple[int, ...], State]:
        """The operators to run now, in this order (see the module's docstring), and the state after them;
        none and the same state where there is no safe chain that fits."""
        chain = self.safe_chain(state, operator, goal, 0)
        return ((), state) if chain is None else (chain.members, chain.after)

    def safe_chain(self, state: State, operator: int, goal: int, most_lacking: int) -> SafeChain | None:
        """The ready ``operator``, if running it by itself is safe, or else the shortest safe chain of
        ``goal``'s operators from it on that lacks at most so many bytes of room.

        None where there is none: an input is away, there is too little room, or a member frees nothing that
        was there before the chain, or its outputs have several readers, or one outside ``goal``.
        """
        masks, chain, present = self.masks, list[int](), state.resident
        freed, least_kept, price, made, lacking, needed = 0, inf, inf, 0, 0, 0
        # Most ready operators free nothing, and are asked about in every state: they are sorted out first.
        dead, kept = masks.dying(operator, state.executed | 1 << operator), masks.kept[operator]
        while (dead or not kept) and len(chain) < self.longest_chain:
            if masks.inputs[operator] & ~state.resident:
                break
            lacking = max(lacking, self.excess(state, operator))
            if lacking > most_lacking:
                break
            chain.append(operator)
            needed |= masks.inputs[operator] & present
            if not kept:
                return SafeChain(tuple(chain), lacking, needed, self.ran(state, operator))
            # What a member frees includes the outputs of the one before, which were not there at the chain's
            # start: they are taken off again, so ``freed`` is of tensors present before it (condition 2).
            freed += masks.bytes_of(dead) - made
            if not freed:
                break
            price = min(price, self._cheapest_eviction(state, dead))
            made = masks.kept_bytes[operator]
            # Twice the traffic: evicting what is kept means a spill and a retrieval (condition 3).
            if made <= min(freed, least_kept) and 2 * self.traffic_of(kept) <= price:
                return SafeChain(tuple(chain), lacking, needed, self.ran(state, operator))
            followers = masks.successors[operator]
            # With a second successor the outputs would have to stay for it, and the proof moves the chain as
            # a whole.
            if len(followers) != 1 or not goal >> followers[0] & 1:
                break
            state = self.ran(state, operator)
            if not state.ready >> followers[0] & 1:
                break
            least_kept, operator = min(least_kept, made), followers[0]
            dead, kept = masks.dying(operator, state.executed | 1 << operator), masks.kept[operator]
        return None

    def _cheapest_eviction(self, state: State, tensors: int) -> float:
        """The least that evicting one of the tensors costs: its retrieval, and a spill without a copy."""
        traffic = self.masks.traffic
        costs = [traffic[t] if state.host >> t & 1 else 2 * traffic[t] for t in bits(tensors)]
        return min(costs, default=inf)
