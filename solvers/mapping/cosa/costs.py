"""What the cost model counts, over a program's counts of primes (``surrogate: cost``; not in the paper).

CoSA adds up logarithms, for those are linear in its variables: that is the logarithm of a product of
traffics, and not of the sum that energy is. Each access count by itself is a power of 2 whose exponent is
linear, so energy is a sum of such powers, which is convex:

    energy = constant + sum over k of  factor[k] * 2 ** exponent[k]

A convex function is the maximum of its tangents, and a program takes a few of them as linear rows
(:mod:`solvers.mapping.cosa.cost_program`). The exponents are the paper's own D, L and T (Eq. 7 to 10).

Where this differs from the cost model: a tile that slides is fetched whole (the cost model fetches only what
is new), copies of sliding tiles at several instances count as different, accesses are not rounded up to
blocks, and leakage lasts for the compute cycles.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import log2
from typing import NamedTuple

from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.workload.network import Layer
from solvers.mapping.cosa.linear import Terms, added, value
from solvers.mapping.cosa.objectives import Boundary, CosaTraffic, compute
from solvers.mapping.cosa.patterns import Pattern
from solvers.mapping.cosa.variables import Variables
from solvers.mapping.problem import Objective


class Power(NamedTuple):
    """``factor * 2 ** exponent``; the exponent is linear in the program's variables."""

    factor: float
    exponent: Terms

    def at(self, values: Sequence[int]) -> float:
        """Its value for a solution."""
        return self.factor * float(2.0 ** value(self.exponent, values))


class BoundaryWords(NamedTuple):
    """Words over one boundary, each as a logarithm.

    The parent's instances read ``sent`` words, and those of an output ``taken`` words in; the child's are
    filled with ``received``. ``taken`` is None for an operand, ``received`` for a MAC. Partial sums are
    read and filled in again at every visit but the first.
    """

    boundary: Boundary
    sent: Terms
    taken: Terms | None
    received: Terms | None


@dataclass(frozen=True, eq=False)
class Costs:
    """Energy in pJ and cycles of a layer on an architecture, over the variables of one program."""

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
        """The logarithm of the instances of a level in use."""
        v = self.variables
        return v.loops(self.layer.sizes, v.at(range(level + 1, v.depth), "x", "y"))

    @cached_property
    def energy(self) -> tuple[Power, ...]:
        """The energy that depends on the mapping."""
        powers = [*self._access_energy(), *self._leakage()]
        return tuple(power for power in powers if power.factor)

    def _access_energy(self) -> Iterator[Power]:
        levels = self.architecture.levels
        for transfer in self._transfers:
            parent, child = levels[transfer.boundary.parent], levels[transfer.boundary.child]
            yield Power(parent.read_energy_pj / parent.block_size, transfer.sent)
            if transfer.taken is not None:
                yield Power(parent.update_energy_pj / parent.block_size, transfer.taken)
            if transfer.received is not None:
                yield Power(child.write_energy_pj / child.block_size, transfer.received)

    def _leakage(self) -> Iterator[Power]:
        for index, level in enumerate(self.architecture.levels):
            yield Power(level.leakage_pj_per_cycle, added((1.0, self.comp), (1.0, self._instances(index))))

    @property
    def mac_energy_pj(self) -> float:
        """The energy that no mapping changes."""
        return self.layer.macs * self.architecture.compute.energy_pj

    @cached_property
    def ports(self) -> tuple[tuple[Power, ...], ...]:
        """Per bandwidth the cycles that it asks for, as a sum of powers."""
        found = []
        for index, level in enumerate(self.architecture.levels):
            reads, writes = self._moved(index)
            for bandwidth, words in _bandwidths(level, reads, writes):
                found.append(tuple(Power(1.0 / bandwidth, exponent) for exponent in words))
        return tuple(port for port in found if port)

    def _moved(self, level: int) -> tuple[list[Terms], list[Terms]]:
        """The words that one instance of a level reads, and those that are written to it."""
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
        """The cycles of a solution: the slowest of the MACs and all ports."""
        compute_cycles = float(2.0 ** value(self.comp, values))
        return max(compute_cycles, *(sum(power.at(values) for power in port) for port in self.ports), 0.0)


def _bandwidths(
    level: StorageLevel, reads: list[Terms], writes: list[Terms]
) -> Iterator[tuple[float, list[Terms]]]:
    for bandwidth, words in (
        (level.read_bandwidth, reads),
        (level.write_bandwidth, writes),
        (level.shared_bandwidth, reads + writes),
    ):
        if bandwidth is not None and words:
            yield bandwidth, words


def log_sum_tangent(powers: Sequence[Power], values: Sequence[int]) -> tuple[Terms, float]:
    """The tangent at ``values`` of the logarithm of a sum of powers: a linear expression and a constant.

    The logarithm of such a sum is convex, so it is nowhere below its tangent.
    """
    sizes = [power.at(values) for power in powers]
    total = sum(sizes)
    weighted = added(
        *((size / total, power.exponent) for size, power in zip(sizes, powers, strict=True) if size)
    )
    return weighted, log2(total) - value(weighted, values)
