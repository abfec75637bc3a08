"""Orders of a graph's operators in which runs are looked for.

Runs are neighbours in one order, so what an order puts far apart is never cut together. Exporters write down
a cell of a searched network branch by branch, and the first layer of a later cell where that cell begins,
though it makes a fifth of the bytes that it reads. So besides the graph's own order there are

- *narrowing*: of the operators that are ready, one that frees as many bytes as it makes, if there is one;
  of several the one whose last input is the youngest, so that branches are followed to their ends;
- *hoisted*: the order of least peak of the whole graph, in which whatever leads to fewer bytes by itself
  comes as soon as what it reads is made.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace

from costmodel.scratchpad.divisions import DivisibleGraph
from costmodel.scratchpad.graph import OperatorGraph
from solvers.scratchpad.peak import minimum_peak


def in_order(divisible: DivisibleGraph, order: Sequence[int]) -> DivisibleGraph:
    """The same graph with its operators in this order."""
    operators = tuple(divisible.whole.operators[number] for number in order)
    divisions = tuple(divisible.divisions[number] for number in order)
    return replace(divisible, whole=replace(divisible.whole, operators=operators), divisions=divisions)


def orders(graph: OperatorGraph, peak_seconds: float) -> Iterator[tuple[int, ...]]:
    """Different orders, the graph's own first; ``peak_seconds`` for the search for the least peak."""
    own = tuple(range(len(graph.operators)))
    known = {own}
    yield own
    for make in (narrowing, lambda graph: hoisted(graph, minimum_peak(graph, peak_seconds).order)):
        order = make(graph)
        if order not in known:
            known.add(order)
            yield order


def narrowing(graph: OperatorGraph) -> tuple[int, ...]:
    """Depth first, but what frees as many bytes as it makes comes before anything else."""
    unread = [len(readers) for readers in graph.consumers]
    # by tensor the step after which it was there
    made = {tensor: -1 for tensor, own in enumerate(graph.tensors) if own.given}
    waits = [sum(tensor not in made for tensor in own.inputs) for own in graph.operators]
    ready = [number for number, waiting in enumerate(waits) if not waiting]
    order: list[int] = []

    def urgency(number: int) -> tuple[bool, int, int, int]:
        own = graph.operators[number]
        more = sum(graph.tensors[tensor].traffic_bytes for tensor in own.outputs if graph.consumers[tensor])
        more -= sum(graph.tensors[tensor].traffic_bytes for tensor in own.inputs if unread[tensor] == 1)
        youngest = max((made[tensor] for tensor in own.inputs), default=-1)
        return more > 0, -youngest, more, number

    while ready:
        number = min(ready, key=urgency)
        ready.remove(number)
        for tensor in graph.operators[number].inputs:
            unread[tensor] -= 1
        for tensor in graph.operators[number].outputs:
            made[tensor] = len(order)
            for reader in graph.consumers[tensor]:
                waits[reader] -= 1
                if not waits[reader]:
                    ready.append(reader)
        order.append(number)
    return tuple(order)


def hoisted(graph: OperatorGraph, order: Sequence[int]) -> tuple[int, ...]:
    """The order, but each chain that makes fewer bytes than it reads comes as soon as it can."""
    ready = {tensor for tensor, own in enumerate(graph.tensors) if own.given}
    found: dict[int, None] = {}
    for number in order:
        waiting = [number]
        while waiting:
            own = waiting.pop()
            if own in found or not ready.issuperset(graph.operators[own].inputs):
                continue
            found[own] = None
            outputs = graph.operators[own].outputs
            ready.update(outputs)
            chains = [_narrowing_chain(graph, reader) for t in outputs for reader in graph.consumers[t]]
            waiting += [step for chain in reversed(chains) for step in reversed(chain)]
    return tuple(found)


def _narrowing_chain(graph: OperatorGraph, number: int) -> list[int]:
    """The operators from this one up to the first that makes fewer bytes than this one reads, each reading
    nothing but what the one before makes; none where there is no such chain."""
    read = sum(graph.tensors[tensor].traffic_bytes for tensor in graph.operators[number].inputs)
    chain = [number]
    while True:
        outputs = graph.operators[chain[-1]].outputs
        if sum(graph.tensors[tensor].traffic_bytes for tensor in outputs) < read:
            return chain
        readers = graph.consumers[outputs[0]] if len(outputs) == 1 else ()
        if len(readers) != 1 or len(graph.operators[readers[0]].inputs) != 1:
            return []
        chain.append(readers[0])
