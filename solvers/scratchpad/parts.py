"""Serial parts: operators that every other one comes before or after cut a graph into independent problems.

When such an operator has run, every order has executed the same operators. If nothing but its own outputs
is live then, they are resident, nothing has a host copy, and one part's replacement cannot touch another's:
the least off-chip bytes of the graph are the sum of its parts' (and a sum of their lower bounds bounds it).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from solvers.scratchpad.cosma.moves import State
from solvers.scratchpad.cosma.search import Reached
from solvers.scratchpad.masks import GraphMasks, bits


class Part(NamedTuple):
    """Operators that run after ``start``'s executed ones and before all others."""

    start: Reached
    operators: int

    @property
    def goal(self) -> int:
        """All that ran once the part did."""
        return self.start.state.executed | self.operators


def serial_parts(masks: GraphMasks) -> list[Part]:
    """The graph in as many parts as there are, first to last; without a cut that is the whole graph."""
    starts = [_start(masks, executed, resident) for executed, resident in [(0, 0), *_cuts(masks)]]
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
        (masks.blocks[t], masks.traffic[t], masks.given >> t & 1, not masks.readers[t] & part.operators)
        for t in numbers
    )
    return tuple(described), sizes, tuple(numbers.get(t, -1) for t in bits(part.start.state.resident))


def positions(order: Sequence[int], part: Part) -> tuple[int, ...]:
    """An order of the part's operators in terms of their places in the part."""
    place = {operator: index for index, operator in enumerate(bits(part.operators))}
    return tuple(place[operator] for operator in order)


def at_positions(places: Sequence[int], part: Part) -> tuple[int, ...]:
    """The reverse of :func:`positions`, perhaps for an equal part."""
    operators = tuple(bits(part.operators))
    return tuple(operators[place] for place in places)


def _own(masks: GraphMasks, operator: int) -> object:
    """What distinguishes operators over the same tensors."""
    node = masks.graph.operators[operator]
    places = {tensor: place for place, tensor in enumerate((*node.inputs, *node.outputs))}
    return node.parameter_bytes, tuple((places[one], places[two]) for one, two in node.overwrites)


def _cuts(masks: GraphMasks) -> Iterator[tuple[int, int]]:
    """(executed operators, resident tensors) behind every operator that cuts the graph, first to last."""
    count = len(masks.graph.operators)
    before, after = ancestors_and_descendants(masks)
    cutting = [v for v in range(count) if before[v].bit_count() + after[v].bit_count() == count - 1]
    for operator in sorted(cutting, key=lambda v: before[v].bit_count())[:-1]:
        executed = before[operator] | 1 << operator
        if _live(masks, executed) == masks.kept[operator]:
            yield executed, masks.kept[operator]


def ancestors_and_descendants(masks: GraphMasks) -> tuple[list[int], list[int]]:
    """Per operator the sets of those that must run before it, and after it."""
    count = len(masks.graph.operators)
    before, after = [0] * count, [0] * count
    for operator in range(count):
        for maker in bits(masks.predecessors[operator]):
            before[operator] |= before[maker] | 1 << maker
    for operator in reversed(range(count)):
        for successor in masks.successors[operator]:
            after[operator] |= after[successor] | 1 << successor
    return before, after


def _live(masks: GraphMasks, executed: int) -> int:
    """Tensors that are made or arrived, with an operator to come that reads them."""
    live = 0
    for tensor, readers in enumerate(masks.readers):
        maker = masks.graph.producers[tensor]
        there = readers & executed if maker is None else executed >> maker & 1
        if there and readers & ~executed:
            live |= 1 << tensor
    return live


def _start(masks: GraphMasks, executed: int, resident: int) -> Reached:
    host = 0
    if masks.graph.settings.inputs_on_host:
        host = sum(1 << t for t in bits(masks.given) if masks.readers[t] & ~executed)
    ready = sum(
        1 << operator
        for operator in bits(masks.all_operators & ~executed)
        if not masks.predecessors[operator] & ~executed
    )
    return Reached(State(executed, ready, resident, host, masks.bytes_of(resident), 0), ())
