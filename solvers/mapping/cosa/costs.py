"""Energy and cycles as the cost model counts them, written in the variables of CoSA's program.

This is for ``surrogate: cost``, which is not in the paper. The paper's objective adds up logarithms of
traffics, because a logarithm of a traffic is linear in the program's variables. Such a sum is the logarithm
of a product of traffics, but energy is a sum of them. Each access count by itself is a power of 2 whose
exponent is linear, and energy is a sum of such powers:

    energy = constant + sum over k of  factor[k] * 2 ** exponent[k] + cycles * sum over levels of  leakage

That is convex, and a convex function is the maximum of its tangents, some of which the program takes as
linear rows (:mod:`solvers.mapping.cosa.cost_program`). The exponents are made of the paper's own D, L and T
(Eq. 7 to 10).

It is close to what the cost model counts, and differs in these points:

* A tile whose window slides is fetched whole; the cost model fetches only what is new.
* Copies of such tiles at several instances count as different words, although they overlap.
* Accesses are not rounded up to whole blocks of words.
* Of an array of PEs with timing, and of steps of a level inside, the cycles are those of MACs and bandwidths
  alone. Any other ``timing:`` counts (:mod:`solvers.mapping.cosa.timed_costs`).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import NamedTuple

from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.workload.network import Layer
from solvers.mapping.cosa.linear import Power, Terms, added, value
from solvers.mapping.cosa.objectives import Boundary, CosaTraffic, compute
from solvers.mapping.cosa.patterns import Pattern
from solvers.mapping.cosa.timed_costs import TimedCosts
from solvers.mapping.cosa.variables import Variables
from solvers.mapping.problem import Objective


class BoundaryWords(NamedTuple):
    """How many words cross a boundary, as logarithms to base 2.

    ``sent``: what the parent's instances read, all of them together, each multicast once; ``received``: what
    the child's are filled with, copies included. Outputs move outwards, too: the parent takes in ``taken``
    words of them, and their partial sums are read and filled in again at every visit but the first.
    ``taken`` is None for an operand; ``received`` is None if the child is a MAC unit.
    """

    boundary: Boundary
    sent: Terms
    taken: Terms | None
    received: Terms | None


@dataclass(frozen=True, eq=False)
class Costs:
    """Energy in pJ and cycles of a layer on an architecture, over the variables of one program.

    ``pattern``: the loop order that savings assume at the level above the network, where the program does not
    choose it itself.
    """

    architecture: Architecture
    variables: Variables
    traffic: CosaTraffic
    pattern: Pattern
    objective: Objective

    @property
    def layer(self) -> Layer:
        return self.variables.layer

    @cached_property
    def comp(self) -> Terms:
        """The logarithm of the cycles that the MACs take."""
        return compute(self.variables)

    @cached_property
    def _transfers(self) -> tuple[BoundaryWords, ...]:
        return tuple(self._transfer(boundary) for boundary in self.traffic.boundaries)

    def _transfer(self, boundary: Boundary) -> BoundaryWords:
        sent = self.traffic.sent(boundary, self.pattern)
        received = self.traffic.received(boundary, self.pattern) if boundary.child >= 0 else None
        if not boundary.tensor.is_output:
            return BoundaryWords(boundary, sent, None, received)
        again = self.traffic.again(boundary)
        back = None if received is None else added((1.0, received), (1.0, again))
        return BoundaryWords(boundary, added((1.0, sent), (1.0, again)), sent, back)

    def _instances(self, level: int) -> Terms:
        """The logarithm of how many instances of a level are in use."""
        v = self.variables
        return v.loops(self.layer.sizes, v.at(range(level + 1, v.depth), "x", "y"))

    @cached_property
    def energy(self) -> tuple[Power, ...]:
        """The energy in pJ of all accesses, as powers to be added up."""
        return tuple(power for power in self._access_energy() if power.factor)

    @cached_property
    def leakage(self) -> tuple[Power, ...]:
        """The pJ that all levels leak in a cycle, of computing or of waiting, as powers to be added up."""
        levels = enumerate(self.architecture.levels)
        powers = (Power(level.leakage_pj_per_cycle, self._instances(index)) for index, level in levels)
        return tuple(power for power in powers if power.factor)

    @property
    def counts_cycles(self) -> bool:
        """Whether the objective depends on the cycles; energy does where something leaks."""
        return self.objective != "energy" or bool(self.leakage)

    def _access_energy(self) -> Iterator[Power]:
        # A parent reads what it sends. Of an output it reads the partial sum and writes the updated one.
        levels = self.architecture.levels
        for transfer in self._transfers:
            parent, child = levels[transfer.boundary.parent], levels[transfer.boundary.child]
            yield Power(parent.read_energy_pj / parent.block_size, transfer.sent)
            if transfer.taken is not None:
                yield Power(parent.update_energy_pj / parent.block_size, transfer.taken)
            if transfer.received is not None:
                yield Power(child.write_energy_pj / child.block_size, transfer.received)

    @property
    def mac_energy_pj(self) -> float:
        """The energy in pJ of all MACs, which no mapping changes."""
        return self.layer.macs * self.architecture.compute.energy_pj

    def energy_at(self, values: Sequence[int]) -> float:
        """The energy in pJ of a solution."""
        accesses = sum(power.at(values) for power in self.energy)
        leaked = sum(power.at(values) for power in self.leakage)
        # a machine that leaks nothing has no need of its cycles
        waiting = leaked * self.cycles_at(values) if leaked else 0.0
        return self.mac_energy_pj + accesses + waiting

    @cached_property
    def paces(self) -> tuple[tuple[Power, ...], ...]:
        """Sums of powers, of which the largest is the cycles: those of the MACs and of every bandwidth, or on
        an architecture with timing those of its components and of how they overlap."""
        timing, macs = self.architecture.timing, (Power(1.0, self.comp),)
        outermost = len(self.architecture.levels) - 1
        if timing is None or not self.counts_cycles or not TimedCosts.counts(self.architecture):
            return (macs, *self._ports(range(outermost + 1)))
        # What the timing describes takes the place of the outermost level's bandwidths, and of the MACs.
        described = timing.load is not None and timing.store is not None
        inner = (*([] if timing.array else [macs]), *self._ports(range(outermost + (not described))))
        leaving = {b.tensor.name: b for b in self.traffic.boundaries if b.parent == outermost}
        saved = {name: self.traffic.saved_outermost(boundary) for name, boundary in leaving.items()}
        again = {} if timing.keeps_partial_sums else self.traffic.again(leaving[self.layer.output.name])
        return TimedCosts(self.architecture, self.variables, inner, saved, again).paces

    def _ports(self, levels: Iterable[int]) -> Iterator[tuple[Power, ...]]:
        """For every bandwidth in turn, the cycles that it asks for, as powers to be added up."""
        for index in levels:
            reads, writes = self._moved(index)
            for bandwidth, words in _bandwidths(self.architecture.levels[index], reads, writes):
                yield tuple(Power(1.0 / bandwidth, exponent) for exponent in words)

    def _moved(self, level: int) -> tuple[list[Terms], list[Terms]]:
        """The words that one instance of a level reads, and those that are written to it, by transfer."""
        reads: list[Terms] = []
        writes: list[Terms] = []
        for transfer in self._transfers:
            if transfer.boundary.parent == level:
                reads.append(transfer.sent)
                writes += [] if transfer.taken is None else [transfer.taken]
            if transfer.boundary.child == level and transfer.received is not None:
                writes.append(transfer.received)
        instances = self._instances(level)
        reads, writes = ([added((1.0, t), (-1.0, instances)) for t in terms] for terms in (reads, writes))
        return reads, writes

    def cycles_at(self, values: Sequence[int]) -> float:
        """The cycles of a solution: the largest of the paces."""
        return max(sum(power.at(values) for power in pace) for pace in self.paces)


def _bandwidths(
    level: StorageLevel, reads: list[Terms], writes: list[Terms]
) -> Iterator[tuple[float, list[Terms]]]:
    """The bandwidths that a level has, in words a cycle, each with the transfers that it carries."""
    for bandwidth, words in (
        (level.read_bandwidth, reads),
        (level.write_bandwidth, writes),
        (level.shared_bandwidth, reads + writes),
    ):
        if bandwidth is not None and words:
            yield bandwidth, words


def log_sum_tangent(powers: Sequence[Power], values: Sequence[int]) -> tuple[Terms, float]:
    """The tangent at ``values`` of the logarithm of a sum of powers: a linear expression and a constant.

    The logarithm of such a sum is convex in the exponents, so it is nowhere below its tangent. The tangent
    weights each exponent by the power's fraction of the sum.
    """
    sizes = [power.at(values) for power in powers]
    total = sum(sizes)
    weighted = added(
        *((size / total, power.exponent) for size, power in zip(sizes, powers, strict=True) if size)
    )
    return weighted, log2(total) - value(weighted, values)
