"""Serial parts: operators that cut a graph into problems that can be solved one after the other.

An operator cuts the graph if every other operator must run before it or after it, and if nothing but its own
outputs is live when it has run. Every order then has executed the same operators at that moment, its outputs
are resident, and nothing has a host copy, so that no decision in one part touches another part: the least
off-chip bytes of the graph are the sum of its parts' (and lower bounds of the parts add up to one of the
graph). A chain of layers falls into about as many parts as it has layers.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import accumulate
from typing import NamedTuple

from solvers.scratchpad.cosma.moves import State
from solvers.scratchpad.cosma.search import Reached, start
from solvers.scratchpad.masks import GraphMasks, bits


class Part(NamedTuple):
    """The ``operators`` (a bit set) that run after those executed at ``start`` and before all others."""

    start: Reached
    operators: int

    @property
    def goal(self) -> int:
        """All operators that have run at the end of the part, a bit set."""
        return self.start.state.executed | self.operators


def serial_parts(masks: GraphMasks) -> list[Part]:
    """As many parts as the graph falls into, first to last; without a cut that is the whole graph.

    The time is linear in operators and tensors: graphs of language models have thousands of both.
    """
    last_read = _inputs_by_last_read(masks)
    host = masks.on_host
    starts, begun = [start(masks)], 0
    for cut in _cuts(masks):
        for operator in range(begun, cut + 1):
            host &= ~last_read[operator]
        starts.append(_start_behind(masks, cut, host))
        begun = cut + 1
    ends = [reached.state.executed for reached in starts[1:]] + [masks.all_operators]
    return [Part(reached, end & ~reached.state.executed) for reached, end in zip(starts, ends, strict=True)]


def same_problem(masks: GraphMasks, part: Part) -> object:
    """A value that is equal for parts with the same operators over tensors of the same sizes.

    Operators and tensors are numbered by first appearance, so that repeated layers compare equal.
    """
    graph, numbers = masks.graph, dict[int, int]()
    described = []
    for operator in bits(part.operators):
        touched = (*graph.operators[operator].inputs, *graph.operators[operator].outputs)
        tensors = tuple(numbers.setdefault(tensor, len(numbers)) for tensor in touched)
        described.append((tensors, len(graph.operators[operator].inputs), _own(masks, operator)))
    sizes = tuple(
        (masks.blocks[t], masks.traffic[t], *_kind(masks, t), not masks.readers[t] & part.operators)
        for t in numbers
    )
    return tuple(described), sizes, tuple(numbers.get(t, -1) for t in bits(part.start.state.resident))


def positions(order: Sequence[int], part: Part) -> tuple[int, ...]:
    """An order of the part's operators as positions among them, which also fits an equal part."""
    position = {operator: index for index, operator in enumerate(bits(part.operators))}
    return tuple(position[operator] for operator in order)


def at_positions(order: Sequence[int], part: Part) -> tuple[int, ...]:
    """The operators of the part at these positions: the reverse of :func:`positions`."""
    operators = tuple(bits(part.operators))
    return tuple(operators[position] for position in order)


def _kind(masks: GraphMasks, tensor: int) -> tuple[int, int]:
    """Whether a tensor arrives, and whether it may be dropped at no cost."""
    return masks.given >> tensor & 1, masks.on_host >> tensor & 1


def _own(masks: GraphMasks, operator: int) -> object:
    """What distinguishes operators over the same tensors: parameters, and what may be overwritten."""
    node = masks.graph.operators[operator]
    position = {tensor: index for index, tensor in enumerate((*node.inputs, *node.outputs))}
    return node.parameter_bytes, tuple((position[one], position[two]) for one, two in node.overwrites)


def _cuts(masks: GraphMasks) -> list[int]:
    """The operators that cut the graph, first to last.

    The graph's own order is topological, so all operators before a cut stand before it there, too: what has
    run once cut ``v`` has run is 0, 1, ..., v, whatever the order. Everything before v must run before v if v
    is the only one of 0 ... v without a successor among them; everything after it must run after it if v, v +
    1, ... have no member but v without a predecessor among them.
    """
    count = len(masks.graph.operators)
    first_successor = [min(successors, default=count) for successors in masks.successors]
    last_predecessor = [makers.bit_length() - 1 for makers in masks.predecessors]
    all_lead_to = [True] * count  # [v]: every operator before v leads to it
    latest = 0
    for operator in range(count):
        all_lead_to[operator] = latest <= operator
        latest = max(latest, first_successor[operator])
    comparable = []
    earliest = count
    for operator in reversed(range(count)):
        if all_lead_to[operator] and earliest >= operator:
            comparable.append(operator)
        earliest = min(earliest, last_predecessor[operator])
    live = _live_tensors(masks)
    # Nothing is gained by a cut after the last of them, most often the last operator of all.
    return [v for v in reversed(comparable[1:]) if live[v] == masks.kept[v].bit_count()]


def _live_tensors(masks: GraphMasks) -> list[int]:
    """How many tensors are live once each operator of the graph's own order has run.

    A tensor is live from its maker, or the first reader of one that arrives, to just before its last reader.
    """
    change = [0] * len(masks.graph.operators)
    for maker, readers in zip(masks.graph.producers, masks.graph.consumers, strict=True):
        if readers:
            change[min(readers) if maker is None else maker] += 1
            change[max(readers)] -= 1
    return list(accumulate(change))


def _inputs_by_last_read(masks: GraphMasks) -> list[int]:
    """Per operator the network's inputs that nobody after it reads, as a bit set."""
    ending = [0] * len(masks.graph.operators)
    for tensor in bits(masks.given):
        if masks.readers[tensor]:
            ending[masks.readers[tensor].bit_length() - 1] |= 1 << tensor
    return ending


def _start_behind(masks: GraphMasks, cut: int, host: int) -> Reached:
    """The state when ``cut`` and all before it have run; ``host``: the tensors with a host copy."""
    executed, resident = (2 << cut) - 1, masks.kept[cut]
    ready = masks.ready_after(cut, 0, executed)
    last = masks.only_readers & ~executed
    return Reached(State(executed, ready, resident, host, masks.bytes_of(resident), 0, last), ())
