r"""Late chains: operators that wait until the one that their outcome is for runs.

A branch often begins with operators that make more out of what they read: an activation that keeps its own
copy of a tensor others read, too, a padded copy, a wider channel count. Running them early gains nothing::

    h ---> u1 ---> o1 ---> ... ---> uk ---> ok ---> v          sizes:  h <= o1, ..., ok
    |                                               ^          steps:  ui's <= v's
    +---> other operators that read h               |
                        other tensors that v reads -+

A *late chain* is u1, ..., uk and v, in which each ui makes one tensor, which only the next one reads, and
reads nothing else; u1 reads h, which others may read as well. None writes in place. In the search its
operators run as one move, u1 right before u2 and so on up to v, if

1. h takes no more bytes than any oi, and moves no more;
2. no step of a ui takes more (what it reads, what it makes, its parameters) than v's step takes for ok, for
   what it makes and for its parameters.

Proof. Take an optimal completion in which other operators run between u1 and v, and let u1 ... uk wait until
just before v, after what the completion evicts for v's step and before what it retrieves for it. Between its
u1 and v, whenever the completion has h or some oi resident, the changed one has h.

- *Bytes.* That is no more, by 1. When u1 ... uk run in the changed completion, there is besides h what the
  completion has in v's step besides ok, what v makes and its parameters. By 2 there is room for every ui.
  Whether h is there in v's step is as in the completion: it leaves after u1 at the latest.
- *Transfers.* The changed completion has h away for as long as the completion has both h and the present oi
  away. That ends in the completion with a retrieval of one of them, which moves no less than h's, by 1. For h
  to be away it must have been spilled once. In the completion either h was spilled as well, or nobody read it
  any more and oi was spilled, for no less.

From v on both hold the same tensors, and the changed one has no host copy of a live tensor that the other has
not. So some optimal completion runs every chain in a row. That one can be had for all chains at once: no
operator is in two of them, so that no ui of a chain is moved in between those of another.

The step of the whole chain is v's with ok in it. What makes room for it makes room for every ui, so the move
evicts one smallest set before u1; of that set h leaves after u1, for which it is still needed.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from solvers.scratchpad.cosma.moves import Moves, State
from solvers.scratchpad.masks import GraphMasks, bits


class LateChain(NamedTuple):
    """``members`` are u1, ..., uk and v, ``operators`` the same as a bit set.

    ``source`` is h, ``others`` are v's inputs but for ok, ``makers`` the operators that make these: sets of
    tensors and operators as bits. ``step_bytes`` is what v's step takes for ok, for its outputs and for its
    parameters.
    """

    members: tuple[int, ...]
    operators: int
    source: int
    others: int
    makers: int
    step_bytes: int

    def excess(self, moves: Moves, state: State) -> int:
        """Bytes by which v's step would exceed the capacity if nothing were evicted."""
        masks = moves.masks
        arriving = (self.source | self.others) & ~state.resident
        needed = state.bytes + masks.bytes_of(arriving) + self.step_bytes
        return needed - masks.bytes_of(self._dead(masks, state)) - moves.capacity

    def may_leave(self, masks: GraphMasks, state: State) -> int:
        """The tensors that may be evicted for v's step, a bit set."""
        return (state.resident | self.source) & ~self.others & ~self._dead(masks, state)

    def ran(self, moves: Moves, state: State, evicted: int) -> State:
        """The state after the whole chain, for which ``evicted`` left."""
        first, *rest = self.members
        state = moves.ran(moves.evicted(state, evicted & ~self.source), first)
        state = moves.evicted(state, evicted & self.source)
        for member in rest:
            state = moves.ran(state, member)
        return state

    def _dead(self, masks: GraphMasks, state: State) -> int:
        """h, if nobody reads it after u1."""
        return masks.dying(self.members[0], state.executed | 1 << self.members[0])


def late_chains(masks: GraphMasks, operators: int) -> dict[int, LateChain]:
    """The longest late chains among ``operators`` (a bit set), by their first operator.

    Where several chains lead to one v, the longest of them is late, and the others are not.
    """
    found, used = dict[int, LateChain](), 0
    # From the last operator on: a chain that ends where a longer one goes on is a part of that one.
    for last in sorted(bits(operators), reverse=True):
        if used >> last & 1 or masks.graph.operators[last].overwrites:
            continue
        inputs = masks.graph.operators[last].inputs
        waiting = max((_waiting(masks, operators, last, tensor) for tensor in inputs), key=len, default=())
        if waiting:
            chain = _chain(masks, (*waiting, last))
            found[waiting[0]] = chain
            used |= chain.operators
    return found


def _waiting(masks: GraphMasks, operators: int, last: int, tensor: int) -> tuple[int, ...]:
    """u1, ..., uk of the longest late chain through ``tensor`` to v (``last``); none where there is none."""
    graph, waiting, longest = masks.graph, list[int](), 0
    most = masks.blocks[tensor] + masks.step_bytes[last]
    block = traffic = inf
    while (maker := graph.producers[tensor]) is not None and operators >> maker & 1:
        node = graph.operators[maker]
        alone = masks.kept[maker] == 1 << tensor and masks.readers[tensor].bit_count() == 1
        if not alone or len(node.inputs) != 1 or node.overwrites:
            break
        block, traffic = min(block, masks.blocks[tensor]), min(traffic, masks.traffic[tensor])
        (tensor,) = node.inputs
        if masks.blocks[tensor] + masks.step_bytes[maker] > most:
            break
        waiting.append(maker)
        # What the chain reads may be too large here and small enough further up.
        if masks.blocks[tensor] <= block and masks.traffic[tensor] <= traffic:
            longest = len(waiting)
    return tuple(reversed(waiting[:longest]))


def _chain(masks: GraphMasks, members: tuple[int, ...]) -> LateChain:
    operators, before, last = sum(1 << member for member in members), members[-2], members[-1]
    return LateChain(
        members,
        operators,
        source=masks.inputs[members[0]],
        others=masks.inputs[last] & ~masks.kept[before],
        makers=masks.predecessors[last] & ~(1 << before),
        step_bytes=masks.kept_bytes[before] + masks.step_bytes[last],
    )
