r"""A lower bound on what a state still has to pay: wide operators evict what other wide operators need.

A *fork* is a set of operators that descend from one tensor, the hub. A *chain* of tensors leads from the hub
to each member w: every chain tensor is made by an operator that reads the one before, and w reads the last::

            hub
           /   \
          a1    b1          u's chain is hub, a1, a2; w's chain is hub, b1
          |      |
          a2     w          u's step leaves too few bytes for the hub or b1,
          |                 w's step leaves too few for the hub, a1 or a2
          u

When a member u runs, the hub has been there, so for every other member w that has not run, some tensor of w's
chain is live. If u touches none of that chain and its step leaves fewer bytes than the chain's smallest
block, the live tensor is off chip during that step. It comes back before w runs, because w waits for the
operator that reads it. The members of a fork are chosen such that this holds for any two of them, both ways
(they *agree*). So between any two members that run one after the other, in whatever order, one retrieval of
the later one's chain is due.

From a state on, that is one retrieval for each waiting member but the one that runs first. Which one that
will be is open. So the bound adds up the cheapest chain tensor of every waiting member and leaves out the
dearest of these. Chain tensors that are away already are subtracted, as their retrieval was paid when they
left. If no chain tensor has a host copy, at least one of them has to be spilled as well. Forks that have no
chain tensor in common are about different transfers, so their bytes add up.

An operator that reads or makes the hub needs it in its own step and is no member. Of several chains to an
operator, the one whose smallest block is largest counts.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from costmodel.limits import limit_reached
from solvers.budget import InTime, always_in_time
from solvers.scratchpad.masks import GraphMasks, bits

REACH = 150
"""The operators after a hub's first reader among which its members are looked for: more take long."""


class _Member(NamedTuple):
    """A wide operator of a fork.

    ``chain`` is the set of its chain's tensors and ``block`` the smallest of their sizes. ``free`` are the
    bytes that its step leaves, ``touched`` is the set of tensors that it reads or makes.
    """

    operator: int
    chain: int
    block: int
    free: int
    touched: int

    def agrees(self, other: _Member) -> bool:
        """Whether each leaves too few bytes for what the other waits for."""
        return self._pushes(other) and other._pushes(self)

    def _pushes(self, other: _Member) -> bool:
        return self.free < other.block and not self.touched & other.chain


class Fork(NamedTuple):
    """Operators each of which leaves too few bytes for what the others wait for.

    ``retrieval`` has per operator the least bytes of a tensor of its chain; ``tensors`` are all chains'.
    """

    operators: int
    retrieval: dict[int, int]
    tensors: int

    def waiting_bytes(self, waiting: int) -> int:
        """Bytes of the retrievals between the members that have not run."""
        due = [self.retrieval[operator] for operator in bits(self.operators & waiting)]
        return sum(due) - max(due) if due else 0


class ForkEstimate:
    """The least bytes to come of states of a search through ``operators``.

    It rests on the forks that are found in time: fewer of them make it lower, never wrong.
    """

    def __init__(
        self, masks: GraphMasks, capacity: int, operators: int, in_time: InTime = always_in_time
    ) -> None:
        self.masks = masks
        self.forks = _disjoint(_forks(masks, capacity, operators, in_time))
        self._spill = [min(masks.traffic[t] for t in bits(fork.tensors)) for fork in self.forks]
        self._known: list[dict[int, int]] = [{} for _ in self.forks]

    def bytes_to_come(self, waiting: int, resident: int, host: int) -> int:
        """A lower bound on what is paid from a state on until the operators of ``waiting`` ran."""
        total = 0
        for fork, known, spill in zip(self.forks, self._known, self._spill, strict=True):
            members = fork.operators & waiting
            # Fewer than two members wait: the first of them is free, so nothing is due.
            if not members & (members - 1):
                continue
            due = known.get(members)
            if due is None:
                due = known[members] = fork.waiting_bytes(members)
            copies = host & fork.tensors
            for tensor in bits(copies & ~resident):
                # On the host and not resident: it has to come back anyway, but its retrieval was charged when
                # it was evicted, and nothing may be charged twice.
                due -= self.masks.traffic[tensor]
            if due > 0:
                # What is retrieved must have been spilled before; of the tensors that could be, the cheapest.
                total += due if copies else due + spill
        return total


def _disjoint(forks: Iterator[Fork]) -> list[Fork]:
    """Forks without common tensors, those with the most bytes first."""
    chosen, used = list[Fork](), 0
    for fork in sorted(forks, key=lambda fork: -fork.waiting_bytes(fork.operators)):
        if not fork.tensors & used:
            chosen.append(fork)
            used |= fork.tensors
    return chosen


def _forks(masks: GraphMasks, capacity: int, operators: int, in_time: InTime) -> Iterator[Fork]:
    """A fork for each tensor that several of the operators read, where there is one."""
    order = list(bits(operators))
    position = {operator: index for index, operator in enumerate(order)}
    free = {v: capacity - masks.graph.working_bytes(masks.graph.operators[v]) for v in order}
    for hub in dict.fromkeys(tensor for v in order for tensor in masks.graph.operators[v].inputs):
        if not in_time():
            return
        readers = masks.readers[hub] & operators
        if readers.bit_count() < 2:
            continue
        first = position[next(bits(readers))]
        reach = order[first : first + REACH]
        if len(order) > first + REACH:
            limit_reached(
                "operators past a tensor's first reader", REACH, "the bound of the search may be lower"
            )
        if sum(free[v] < masks.blocks[hub] for v in reach) < 2:
            continue
        members = _agreeing(_candidates(masks, hub, reach, free))
        if len(members) > 1:
            yield _fork(masks, members)


def _candidates(masks: GraphMasks, hub: int, reach: list[int], free: dict[int, int]) -> list[_Member]:
    """The hub's descendants within reach; of the chains to each, the one whose smallest block is largest."""
    widest = {hub: (masks.blocks[hub], 1 << hub)}
    found = []
    for operator in reach:
        node = masks.graph.operators[operator]
        reached = [widest[tensor] for tensor in node.inputs if tensor in widest]
        if not reached:
            continue
        # The chain whose smallest block is largest is pushed out by the most operators, so the most members
        # agree with it.
        block, chain = max(reached)
        for tensor in node.outputs:
            widest[tensor] = min(block, masks.blocks[tensor]), chain | 1 << tensor
        touched = masks.inputs[operator] | sum(1 << tensor for tensor in node.outputs)
        # An operator that reads the hub needs it in its own step: it does not push the hub out, and so is no
        # member.
        if not touched >> hub & 1:
            found.append(_Member(operator, chain, block, free[operator], touched))
    return found


def _agreeing(candidates: list[_Member]) -> list[_Member]:
    """Members that agree pairwise, taken greedily: large chains first, then those that leave little."""
    members: list[_Member] = []
    for one in sorted(candidates, key=lambda m: (-m.block, m.free, m.chain.bit_count())):
        if all(one.agrees(other) for other in members):
            members.append(one)
    return members


def _fork(masks: GraphMasks, members: list[_Member]) -> Fork:
    operators = tensors = 0
    for member in members:
        operators |= 1 << member.operator
        tensors |= member.chain
    retrieval = {m.operator: min(masks.traffic[t] for t in bits(m.chain)) for m in members}
    return Fork(operators, retrieval, tensors)
