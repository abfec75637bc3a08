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

A *join* is the same the other way round: from each of its operators a chain leads to one operator, the
meeting, which runs after all of them. When the member that runs last has its step, each other member's chain
has a live tensor, for the meeting waits for it. That tensor is off chip then: it is spilled and comes back.
Here the chains have no tensor in common, for each pays its own way. Of a member that has run nothing is due
where a tensor of its chain has a copy, for that may have been paid already.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from costmodel.limits import limit_reached
from solvers.budget import InTime, always_in_time
from solvers.scratchpad.masks import GraphMasks, bits

REACH = 150
"""Members are looked for among so many operators after a hub's first reader, or before a meeting."""


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


class Join(NamedTuple):
    """Operators each of which leaves too few bytes for what is made of the others and waits for one meeting.

    ``chains`` has per operator its chain's tensors, and twice the least bytes of one of them.
    """

    operators: int
    chains: dict[int, tuple[int, int]]
    tensors: int

    def bytes_to_come(self, waiting: int, host: int) -> int:
        """Bytes of spills and retrievals until the last waiting member had its step."""
        if not self.operators & waiting:
            return 0
        total = most = 0
        for operator, (chain, moved) in self.chains.items():
            if waiting >> operator & 1:
                total += moved
                most = max(most, moved)
            elif not chain & host:
                total += moved
        return total - most


class WideStepEstimate:
    """The least bytes to come of states of a search through ``operators``.

    It rests on the forks and joins that are found in time: fewer of them make it lower, never wrong.
    """

    def __init__(
        self, masks: GraphMasks, capacity: int, operators: int, in_time: InTime = always_in_time
    ) -> None:
        self.masks = masks
        self.forks = _disjoint(_forks(masks, capacity, operators, in_time))
        used = 0
        for fork in self.forks:
            used |= fork.tensors
        self.joins = _apart(_joins(masks, capacity, operators, in_time), used)
        self._spill = [min(masks.traffic[t] for t in bits(fork.tensors)) for fork in self.forks]
        self._known: list[dict[int, int]] = [{} for _ in self.forks]

    def bytes_to_come(self, waiting: int, resident: int, host: int) -> int:
        """A lower bound on what is paid from a state on until the operators of ``waiting`` ran."""
        total = sum(join.bytes_to_come(waiting, host) for join in self.joins)
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


def _apart(joins: Iterator[Join], used: int) -> list[Join]:
    """Joins without common tensors and without ``used`` ones, those that move the most first."""
    chosen = list[Join]()
    for join in sorted(joins, key=lambda join: -join.bytes_to_come(join.operators, 0)):
        if not join.tensors & used:
            chosen.append(join)
            used |= join.tensors
    return chosen


def _joins(masks: GraphMasks, capacity: int, operators: int, in_time: InTime) -> Iterator[Join]:
    """A join for each operator of several inputs, where there is one."""
    order = list(bits(operators))
    free = {v: capacity - masks.graph.working_bytes(masks.graph.operators[v]) for v in order}
    for position, meeting in enumerate(order):
        if not in_time():
            return
        if len(masks.graph.operators[meeting].inputs) < 2:
            continue
        reach = order[max(0, position - REACH) : position]
        members: list[_Member] = []
        for one in sorted(_leading(masks, meeting, reach, free), key=lambda m: (-m.block, m.free)):
            if all(one.agrees(other) and not one.chain & other.chain for other in members):
                members.append(one)
        if len(members) > 1:
            chains = {
                m.operator: (m.chain, 2 * min(masks.traffic[t] for t in bits(m.chain))) for m in members
            }
            operators_of, tensors = 0, 0
            for member in members:
                operators_of |= 1 << member.operator
                tensors |= member.chain
            yield Join(operators_of, chains, tensors)


def _leading(masks: GraphMasks, meeting: int, reach: list[int], free: dict[int, int]) -> list[_Member]:
    """What leads to the meeting from within reach, each by the chain whose smallest block is largest."""
    widest = {t: (masks.blocks[t], 1 << t) for t in masks.graph.operators[meeting].inputs}
    found = []
    for operator in reversed(reach):
        node = masks.graph.operators[operator]
        made = [widest[tensor] for tensor in node.outputs if tensor in widest]
        if not made:
            continue
        block, chain = max(made)
        for tensor in node.inputs:
            if tensor in widest:
                continue
            widest[tensor] = min(block, masks.blocks[tensor]), chain | 1 << tensor
        found.append(_Member(operator, chain, block, free[operator], _touched(masks, operator)))
    return found


def _touched(masks: GraphMasks, operator: int) -> int:
    """The set of tensors that an operator reads or makes."""
    return masks.inputs[operator] | sum(1 << tensor for tensor in masks.graph.operators[operator].outputs)


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
        touched = _touched(masks, operator)
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
