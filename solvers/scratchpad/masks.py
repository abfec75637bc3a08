"""An operator graph as bit sets: which operators ran, which tensors are live, what running one changes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from costmodel.scratchpad.graph import OperatorGraph


def bits(mask: int) -> Iterator[int]:
    """The indices of the set bits, smallest first."""
    while mask:
        lowest = mask & -mask
        yield lowest.bit_length() - 1
        mask ^= lowest


def mask_of(indices: tuple[int, ...] | list[int]) -> int:
    """The set of these indices as bits."""
    mask = 0
    for index in indices:
        mask |= 1 << index
    return mask


@dataclass(frozen=True)
class GraphMasks:
    """What the searches ask of each operator and tensor in their inner loops; a set is the bits of an int.

    Of each tensor: ``blocks`` are its bytes in the scratchpad, ``traffic`` those that a spill or a retrieval
    moves, ``readers`` the operators that read it. ``given`` are the network's inputs,
    ``on_host`` the tensors that the host has a copy of from the beginning.

    Of each operator: ``inputs`` are the tensors that it reads; ``kept`` the outputs that some operator reads
    (others are freed after the operator's own step), and ``kept_bytes`` their bytes; ``step_bytes`` the bytes
    of its outputs and parameters, which its step holds besides what is resident. ``predecessors`` is the set
    of operators that make its inputs; ``successors`` are the numbers of those that read its outputs.
    ``all_operators`` is the set of all, ``sources`` that of those without predecessors, ``keep_nothing`` that
    of those without a kept output, ``only_readers`` that of those that read what no other operator reads.
    """

    graph: OperatorGraph
    blocks: tuple[int, ...]
    traffic: tuple[int, ...]
    given: int
    on_host: int
    readers: tuple[int, ...]
    inputs: tuple[int, ...]
    kept: tuple[int, ...]
    kept_bytes: tuple[int, ...]
    step_bytes: tuple[int, ...]
    predecessors: tuple[int, ...]
    successors: tuple[tuple[int, ...], ...]
    all_operators: int
    sources: int
    keep_nothing: int
    only_readers: int

    @classmethod
    def of(cls, graph: OperatorGraph) -> GraphMasks:
        """The sets of ``graph``."""
        operators, blocks = graph.operators, tuple(tensor.block_bytes for tensor in graph.tensors)
        readers = tuple(mask_of(consumers) for consumers in graph.consumers)
        kept = [tuple(t for t in operator.outputs if readers[t]) for operator in operators]
        makers = [
            sorted({maker for t in operator.inputs if (maker := graph.producers[t]) is not None})
            for operator in operators
        ]
        successors: list[list[int]] = [[] for _ in operators]
        for index, before in enumerate(makers):
            for maker in before:
                successors[maker].append(index)
        return cls(
            graph=graph,
            blocks=blocks,
            traffic=tuple(tensor.traffic_bytes for tensor in graph.tensors),
            given=mask_of([index for index, tensor in enumerate(graph.tensors) if tensor.given]),
            on_host=mask_of(sorted(graph.on_host)),
            readers=readers,
            inputs=tuple(mask_of(operator.inputs) for operator in operators),
            kept=tuple(map(mask_of, kept)),
            kept_bytes=tuple(sum(blocks[t] for t in outputs) for outputs in kept),
            step_bytes=tuple(
                sum(blocks[t] for t in operator.outputs) + operator.parameter_bytes for operator in operators
            ),
            predecessors=tuple(map(mask_of, makers)),
            successors=tuple(map(tuple, successors)),
            all_operators=(1 << len(operators)) - 1,
            sources=mask_of([index for index, before in enumerate(makers) if not before]),
            keep_nothing=mask_of([index for index, outputs in enumerate(kept) if not outputs]),
            only_readers=mask_of(list({own[0] for own in graph.consumers if len(own) == 1})),
        )

    def ready_after(self, operator: int, ready: int, executed: int) -> int:
        """The ready operators once ``operator`` (a member of ``executed``) ran."""
        ready &= ~(1 << operator)
        for successor in self.successors[operator]:
            if not self.predecessors[successor] & ~executed:
                ready |= 1 << successor
        return ready

    def dying(self, operator: int, executed: int) -> int:
        """Inputs of ``operator`` (a member of ``executed``) that nothing reads any more."""
        dead, readers, waiting = 0, self.readers, ~executed
        for tensor in self.graph.operators[operator].inputs:
            if not readers[tensor] & waiting:
                dead |= 1 << tensor
        return dead

    def read_by(self, operator: int, last: int, executed: int) -> tuple[int, int]:
        """What dies as ``operator`` (a member of ``executed``) runs, and the operators that are then the only
        ones left to read some tensor; ``last``: those before."""
        dead, readers, waiting = 0, self.readers, ~executed
        for tensor in self.graph.operators[operator].inputs:
            left = readers[tensor] & waiting
            if not left:
                dead |= 1 << tensor
            elif not left & (left - 1):
                last |= left
        return dead, last & waiting

    def bytes_of(self, tensors: int) -> int:
        """Scratchpad bytes of a set of tensors."""
        blocks, total = self.blocks, 0
        while tensors:  # as bits(), without a generator: this is where searches spend their time
            lowest = tensors & -tensors
            total += blocks[lowest.bit_length() - 1]
            tensors ^= lowest
        return total

    def overwritten_bytes(self, operator: int, dead: int) -> int:
        """Bytes saved by an output that is written over one of the ``dead`` inputs (in-place operators)."""
        for source, target in self.graph.operators[operator].overwrites:
            if dead >> source & 1:
                return self.blocks[target]
        return 0

    def overwritten(self, operator: int, executed: int) -> tuple[int, int] | None:
        """The (input, output) pair of :meth:`overwritten_bytes`, if there is one."""
        dead = self.dying(operator, executed)
        return next((pair for pair in self.graph.operators[operator].overwrites if dead >> pair[0] & 1), None)
