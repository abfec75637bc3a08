"""Bytes that every plan moves, however the graph is cut.

A *barrier* is an operator of which no piece can begin before all of some tensors are made, and after which
these tensors are read again. In a block with a gate (squeeze and excite) ::

    x ---> average ---> fc ---> gate
    x ---------------------> scale(x, gate)

every band of the gate follows from all of ``x``, and every piece of ``scale`` reads a band of the gate. So
before the first piece of ``scale`` all of ``x`` was there, and all of it is read afterwards. What of it is
not in the scratchpad at that moment has left and comes back: of a tensor that the host does not have, each
byte twice. That holds for bands of rows and of channels, for sums, and for any order. It holds only for a
tensor that is not recomputed: one that several operators read, or that cannot be. Bounds of barriers that
have no tensor in common add up.
"""

from __future__ import annotations

from costmodel.scratchpad.cut import may_recompute
from costmodel.scratchpad.divisions import DivisibleGraph, InputRead, RowWindow
from solvers.scratchpad.cutting.proofs import Proof, moved_bytes
from solvers.scratchpad.masks import bits


def barrier_proofs(divisible: DivisibleGraph, capacity: int) -> list[Proof]:
    """What barriers prove; often nothing. No two of the proofs have a tensor in common."""
    graph, facts = divisible.whole, _Needs(divisible)
    kept = [not may_recompute(divisible, tensor) for tensor in range(len(graph.tensors))]
    found = []
    for barrier in range(len(graph.operators)):
        behind = facts.behind(barrier)
        live = [
            tensor
            for tensor in bits(facts.before(barrier))
            if kept[tensor]
            and any(facts.reads_all(r, tensor) for r in graph.consumers[tensor] if r in behind)
        ]
        excess = sum(graph.tensors[tensor].traffic_bytes for tensor in live) - capacity
        if moved := moved_bytes(divisible, live, excess):
            found.append(Proof(moved, frozenset(live)))
    chosen, used = list[Proof](), set[int]()
    for proof in sorted(found, key=lambda proof: -proof.moved):
        if not used & proof.tensors:
            chosen.append(proof)
            used |= proof.tensors
    return chosen


class _Needs:
    """Which whole tensors must be there before parts of others; sets of tensors are bits of an int."""

    def __init__(self, divisible: DivisibleGraph) -> None:
        self.divisible, self.graph = divisible, divisible.whole
        count = len(self.graph.tensors)
        self._for_any = [0] * count
        """By tensor what must be made, whole, before any finished row of a channel of it."""
        self._for_all = [0] * count
        """The same, before all of it is made."""
        for number, operator in enumerate(self.graph.operators):
            for_any = self.before(number)
            for_all = for_any
            for read in divisible.divisions[number].reads:
                if self.reads_all(number, read.tensor):
                    for_all |= 1 << read.tensor | self._for_all[read.tensor]
            for output in operator.outputs:
                self._for_any[output], self._for_all[output] = for_any, for_all

    def before(self, number: int) -> int:
        """Tensors that are made, whole, before a piece of the operator makes a finished row of a channel."""
        division = self.divisible.divisions[number]
        found = 0
        for position, read in enumerate(division.reads):
            own = self._for_any[read.tensor]
            if not division.cuttable or self._reads_all_at_once(number, read):
                own |= 1 << read.tensor | self._for_all[read.tensor]
            if read.joined_at is not None:
                # a channel of what is joined needs one of the inputs: what all of them need
                found = own if position == 0 else found & own
            elif self._reads_always(number, read):
                found |= own
        return found

    def behind(self, barrier: int) -> set[int]:
        """The operators of which every piece follows the first piece of the barrier, which is one of them.

        Sums begin before what they need is whole: an operator that adds up is no barrier.
        """
        if self.divisible.divisions[barrier].sums:
            return set()
        found, made = {barrier}, set(self.graph.operators[barrier].outputs)
        for number in range(barrier + 1, len(self.graph.operators)):
            reads = self.divisible.divisions[number].reads
            after = [r.tensor in made and self._reads_always(number, r) for r in reads]
            joins = any(read.joined_at is not None for read in reads)
            if all(after) if joins else any(after):
                found.add(number)
                made.update(self.graph.operators[number].outputs)
        return found

    def reads_all(self, number: int, tensor: int) -> bool:
        """Whether the operator's pieces together read all rows of all channels of an input."""
        read = next(read for read in self.divisible.divisions[number].reads if read.tensor == tensor)
        window = read.window
        if window is None:
            return True
        rows = self._rows(number)
        first, end = window.of((0, rows))
        gapless = window.stride == 1 and rows >= window.dilation
        gapless |= window.dilation == 1 and window.size >= window.stride
        return gapless and first <= 0 and end >= self.divisible.extents[tensor].rows

    def _rows(self, number: int) -> int:
        return self.divisible.extents[self.graph.operators[number].outputs[0]].rows

    def _reads_all_at_once(self, number: int, read: InputRead) -> bool:
        """Whether each row of each channel of the output follows from all of an input."""
        own = self.divisible.extents[read.tensor]
        rows = read.window is None or (own.rows == 1 and read.window == RowWindow())
        return rows and read.joined_at is None and (read.groups == 1 or own.channels == 1)

    def _reads_always(self, number: int, read: InputRead) -> bool:
        """Whether no row of the output reads padding only."""
        if read.window is None:
            return True
        rows, source = self._rows(number), self.divisible.extents[read.tensor].rows
        spans = [read.window.of((row, row + 1)) for row in (0, rows - 1)]
        return all(end > 0 and first < source for first, end in spans)
