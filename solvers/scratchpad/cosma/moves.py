"""States of the search for a plan, what running an operator changes, and which operators run at once.

A state is (executed operators, resident tensors, tensors with a host copy), the latter two among the live
ones: made or arrived, with an operator to come that reads them.

Safe moves: a ready operator v runs at once if its inputs are resident, it fits without an eviction, the
outputs it keeps take no more bytes than the inputs D that it frees, and either it keeps none or evicting
all it keeps (spill and retrieval) costs no more than evicting any single tensor of D. Proof. Take an
optimal completion, where v runs after u1..uk, and move v to the front. As long as the completion keeps D
resident among u1..uk, the changed one holds v's outputs in place of D: no more bytes. Where the completion
first evicts some d of D, the changed one evicts v's outputs, from then on holding less, and retrieves them
at v's old step, where the other held D and the outputs at once: by the condition it has paid no more. From
there on both hold the same tensors, with no fewer host copies. Without the last condition the rule is
wrong, if rarely: see ``tests/solvers/scratchpad/test_search.py`` for a graph where it costs twice the
optimum.

Safe chains: operators v1..vk, each but the first the only successor of the one before, run at once if each
in turn is ready, has its inputs resident and fits without an eviction, and the outputs K that vk keeps take
no more bytes than the tensors the chain frees that were there before, nor than what any earlier vi keeps,
and evicting K costs no more than evicting any single tensor that dies in the chain. So a padded copy that
the next operator reduces need not wait. Proof. Any completion runs v1..vk in this order; move them all to
its front. Between its vi and vi+1 the completion has Xi live: what vi keeps, which only vi+1 reads, and
what later members free; before v1, X0 is all that the chain frees of what was there. The changed completion
holds K in place of Xi: no more bytes. Where the completion first evicts some tensor of an Xi, the changed
one evicts K, for no more, and retrieves it at vk's old step, where the other holds K too. An input that the
chain reads and leaves live is resident now and follows the completion afterwards.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import inf
from typing import NamedTuple

from solvers.scratchpad.masks import GraphMasks, bits

LONGEST_CHAIN = 6
"""Operators after which a chain is given up."""


class State(NamedTuple):
    """Sets as bits; ``bytes`` of the resident tensors, ``cost`` in bytes paid so far."""

    executed: int
    ready: int
    resident: int
    host: int
    bytes: int
    cost: int


@dataclass(frozen=True)
class Moves:
    """What operators do to states in a scratchpad of ``capacity`` bytes; a ``longest_chain`` of 1 leaves
    single operators as the only safe moves."""

    masks: GraphMasks
    capacity: int
    longest_chain: int = LONGEST_CHAIN

    def traffic_of(self, tensors: int) -> int:
        """Bytes to retrieve all of a set of tensors."""
        traffic = self.masks.traffic
        return sum(traffic[tensor] for tensor in bits(tensors))

    def excess(self, state: State, operator: int) -> int:
        """Bytes over the capacity if the operator ran now and nothing left."""
        masks = self.masks
        needed = state.bytes + masks.step_bytes[operator]
        if arriving := masks.inputs[operator] & ~state.resident:
            needed += masks.bytes_of(arriving)
        if masks.graph.operators[operator].overwrites:
            dead = masks.dying(operator, state.executed | 1 << operator)
            needed -= masks.overwritten_bytes(operator, dead)
        return needed - self.capacity

    def ran(self, state: State, operator: int) -> State:
        """After the operator's step, for which there is room."""
        masks = self.masks
        executed = state.executed | 1 << operator
        dead = masks.dying(operator, executed)
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
        )

    def fits(self, state: State, operator: int) -> bool:
        """Whether the operator can run without a retrieval or an eviction."""
        masks = self.masks
        if masks.inputs[operator] & ~state.resident:
            return False
        if state.bytes + masks.step_bytes[operator] <= self.capacity:
            return True
        return bool(masks.graph.operators[operator].overwrites) and self.excess(state, operator) <= 0

    def at_once(self, state: State, operator: int, goal: int) -> tuple[int, ...]:
        """The ready operator, if running it now is safe, or the shortest safe chain of ``goal``'s operators
        from it on (see the module's docstring); none, as soon as a member does not fit."""
        masks, chain = self.masks, list[int]()
        freed, least_kept, price, made = 0, inf, inf, 0
        while len(chain) < self.longest_chain and self.fits(state, operator):
            chain.append(operator)
            kept = masks.kept[operator]
            if not kept:
                return tuple(chain)
            dead = masks.dying(operator, state.executed | 1 << operator)
            freed += masks.bytes_of(dead) - made
            if not freed:
                return ()
            price = min(price, self._cheapest_eviction(state, dead))
            made = masks.kept_bytes[operator]
            if made <= min(freed, least_kept) and 2 * self.traffic_of(kept) <= price:
                return tuple(chain)
            followers = masks.successors[operator]
            if len(followers) != 1 or not goal >> followers[0] & 1:
                return ()
            state = self.ran(state, operator)
            if not state.ready >> followers[0] & 1:
                return ()
            least_kept, operator = min(least_kept, made), followers[0]
        return ()

    def _cheapest_eviction(self, state: State, tensors: int) -> float:
        """The least that evicting one of the tensors costs: its retrieval, and a spill without a copy."""
        traffic = self.masks.traffic
        costs = [traffic[t] if state.host >> t & 1 else 2 * traffic[t] for t in bits(tensors)]
        return min(costs, default=inf)
