"""Energy, time and capacities of a tiling as a geometric program: Thistle's Eq. 3 as the cost model counts.

* Energy (Eq. 3): accesses of every level times the energy of one, the MACs' energy, leakage.
* Time (section V-B): the slowest of the MACs and of every level's words over its bandwidth.
* Capacities and fan-outs (the constraints of Eq. 3): ``Volumes.fills`` and the limits of the domain.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import exp, log, prod
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.architecture import Architecture, StorageLevel
from costmodel.workload.network import Layer, Tensor
from solvers.mapping.problem import Objective
from solvers.mapping.thistle.convex.program import ClassProgram, LogDomain, Posynomial
from solvers.mapping.thistle.nest.expressions import Order, TilingBlock
from solvers.mapping.thistle.nest.tiling import Tiling
from solvers.mapping.thistle.nest.volumes import Volumes

Array = NDArray[Any]


class Words(NamedTuple):
    """What one tensor asks of a level that keeps it: posynomials, in words of one instance of the level.

    ``sent`` are the words that go inwards (of outputs: those that come from there), ``filled`` those that
    come from outside (of outputs: that go there); None at the outermost level.
    """

    tensor: Tensor
    level: int
    sent: Posynomial
    filled: Posynomial | None


@dataclass(frozen=True, eq=False)
class TilingCosts:
    """The programs of one tiling: one for each choice of an order of loops, or of none yet, per level.

    Three things differ from the cost model. Partial sums count once in and once out each time (the factor 2
    of Algorithm 1), while the cost model leaves out the first read and fill of each copy of an output, where
    copies are instances with partial sums of the same outputs. That saving is subtracted as a straight line
    over the variables' logarithms: the constant ``first_reads_pj`` and the slopes ``saved``. It is the chord
    of a convex function, the number of copies, so it is nowhere below the saving. Accesses are not rounded up
    to blocks of words. Leakage lasts for the compute cycles only.

    With ``literal`` the expressions are those of Eq. 3. Nothing stands in for first reads. What goes out of a
    level is read there (the register energy of DVol of R to S, the SRAM energy of S to D), which the cost
    model does not count, as Timeloop does not. And a word that is multicast is written once, as DVol counts
    it, not in every PE.
    """

    volumes: Volumes
    objective: Objective
    literal: bool = field(default=False, kw_only=True)

    @property
    def tiling(self) -> Tiling:
        return self.volumes.tiling

    @property
    def architecture(self) -> Architecture:
        return self.tiling.space.architecture

    @property
    def layer(self) -> Layer:
        return self.tiling.layer

    def program(self, orders: Sequence[Order | None]) -> ClassProgram:
        """The geometric program of these orders; ``orders[i]`` innermost first, of level i's loops."""
        words = [w for tensor in self.layer.tensors for w in self._words(tensor, tuple(orders))]
        energy = [self._fixed_energy, *(self._access_energy(w) for w in words)]
        return ClassProgram(
            self.objective,
            self._listed(orders),
            self.volumes.total(energy),
            self._saved,
            (self.volumes.compute_cycles, *self._transfers(words)),
            self.volumes.fills,
        )

    def estimate(self, program: ClassProgram, x: Array) -> float:
        """The objective at the logarithms ``x``, less what first reads save."""
        energy_pj = program.energy_at(x) - self.first_reads_pj
        if self.objective == "energy":
            return energy_pj
        return program.cycles_at(x) * (energy_pj if self.objective == "edp" else 1.0)

    @cached_property
    def box(self) -> LogDomain:
        """Ranges of the variables, sizes of dims as products of trip counts, and fan-outs."""
        tiling = self.tiling
        number_of = {dim: number for number, dim in enumerate(tiling.tiled_dims)}
        group = np.array([number_of[choice.dim] for choice in tiling.choices], int)
        sums = np.array([log(self.layer.sizes[dim]) for dim in tiling.tiled_dims])
        return LogDomain(*tiling.logs, group, sums, tuple(self._limits()))

    def _listed(self, orders: Sequence[Order | None]) -> LogDomain:
        """The domain in which dims that an order leaves out have their least trip count at that level."""
        most = self.box.most.copy()
        for column, choice in enumerate(self.tiling.choices):
            order = None if choice.block.spatial else orders[choice.block.level]
            # An order that leaves a dim out says that the dim does not loop there, for the walks assume so.
            if order is not None and choice.dim not in order:
                most[column] = self.box.least[column]
        return replace(self.box, most=most)

    @cached_property
    def first_reads_pj(self) -> float:
        """The constant part of what first reads and fills save, in pJ."""
        words = self.layer.output.words(self.layer.sizes)
        return words * sum(pj * self._copies(level)[0] for level, pj in self._first_read_pj.items())

    @cached_property
    def _saved(self) -> Array:
        """What they save in addition, in pJ for each unit of each variable's logarithm."""
        words = self.layer.output.words(self.layer.sizes)
        saved = np.zeros(len(self.volumes.names))
        for level, pj in self._first_read_pj.items():
            saved += words * pj * self._copies(level)[1] * self._copying(level)
        return saved

    @cached_property
    def _first_read_pj(self) -> dict[int, float]:
        """Per level that keeps the outputs, the energy of one word's first read and first fill."""
        if self.literal:
            return {}
        outermost, name = len(self.tiling.keep) - 1, self.layer.output.name
        return {
            index: (level.read_energy_pj + (level.write_energy_pj if index < outermost else 0.0))
            / level.block_size
            for index, level in enumerate(self.architecture.levels)
            if name in self.tiling.keep[index]
        }

    def _copies(self, level: int) -> tuple[float, float]:
        """The copies of an output at ``level`` as (constant, slope) of a line in the variables' logarithms.

        Spatial loops over dims that the outputs do not have make copies. Their number is the exponential of a
        sum of logarithms, which is convex: the chord over the range of that sum is nowhere below it.
        """
        fixed = self._fixed_trips(range(level + 1, len(self.tiling.keep)), self._absent)
        least, most = self._copies_range(level)
        if most <= least:
            return fixed * exp(most), 0.0
        # The chord is above the curve, so what first reads save is overstated and the energy understated.
        # That is the side a bound has to err on; a search only ranks by it.
        slope = (exp(most) - exp(least)) / (most - least)
        return fixed * (exp(least) - slope * least), fixed * slope

    @property
    def most_copies(self) -> float:
        """The largest logarithm of the copies that variables make, at the innermost level that has them."""
        return self._copies_range(self._innermost)[1]

    @property
    def _innermost(self) -> int:
        return min(self._first_read_pj)

    def _copies_range(self, level: int) -> tuple[float, float]:
        """Between which logarithms the variables' part of the copies at ``level`` can be."""
        most = min(float(self._copying(level) @ self.tiling.logs[1]), self._units_left(level))
        return 0.0, max(0.0, most)

    def _copying(self, level: int) -> Array:
        """1 for each variable that makes copies: spatial, outside ``level``, over a dim that outputs lack."""
        choices = self.tiling.choices
        spatial = (c.block.spatial and c.block.level > level and c.dim in self._absent for c in choices)
        return np.array([*spatial], float)

    @cached_property
    def _absent(self) -> frozenset[str]:
        return frozenset(self.layer.sizes) - self.layer.output.dims

    def _units_left(self, level: int) -> float:
        """The logarithm of what fixed spatial loops leave of the fan-outs outside ``level``."""
        outside = range(level + 1, len(self.tiling.keep))
        fanouts = prod(self.architecture.levels[index].fanout for index in outside)
        return log(fanouts / self._fixed_trips(outside, frozenset(self.layer.sizes)))

    def _fixed_trips(self, levels: Sequence[int], dims: frozenset[str]) -> float:
        """The product of the fixed spatial trip counts below ``levels``."""
        return prod(
            self.tiling.fixed.get(TilingBlock(i, True).trips(dim), 1.0) for i in levels for dim in dims
        )

    def _limits(self) -> Iterator[tuple[Array, float]]:
        """P_i P_j P_k <= P of Eq. 3: what fixed spatial loops leave of each fan-out to the variables."""
        for index, level in enumerate(self.architecture.levels):
            here = [c.block.spatial and c.block.level == index for c in self.tiling.choices]
            if any(here):
                taken = self._fixed_trips([index], frozenset(self.layer.sizes))
                yield np.array(here, float), log(level.fanout / taken)

    def _words(self, tensor: Tensor, orders: tuple[Order | None, ...]) -> Iterator[Words]:
        """The words at every level that keeps the tensor, from the MAC units outwards.

        Levels that do not keep it are passed by: see items 4 to 8 of the cost model's list.
        """
        sent = self.volumes.compute_cycles
        for level, kept in enumerate(self.tiling.keep):
            sent = sent.times(self.volumes.groups(tensor, level))
            if tensor.name in kept:
                # Nothing is filled into the outermost level: all tensors are there to begin with.
                outermost = level == len(self.tiling.keep) - 1
                filled = None if outermost else self.volumes.delivered(tensor, level, orders[level + 1 :])
                yield Words(tensor, level, sent, filled)
                # Inwards a level sends what it is asked for; it asks the next one for what is filled into it.
                sent = filled or sent

    def _access_energy(self, words: Words) -> Posynomial:
        """Eq. 3: accesses of all instances times the energy of one; outputs are read and updated."""
        level, output = self.architecture.levels[words.level], words.tensor.is_output
        sending_pj = level.read_energy_pj + (level.update_energy_pj if output else 0.0)
        instances = self.volumes.instances(words.level)
        parts = [words.sent.scaled(sending_pj / level.block_size).times(instances)]
        if words.filled is not None:
            filling_pj = level.write_energy_pj + (level.read_energy_pj if self.literal and output else 0.0)
            filled = instances if not self.literal else self._distinct(words)
            parts.append(words.filled.scaled(filling_pj / level.block_size).times(filled))
        return self.volumes.total(parts)

    def _distinct(self, words: Words) -> Posynomial:
        """How many instances of the level have different tiles of the tensor."""
        found = self.volumes.constant(1.0)
        for outer in range(words.level + 1, len(self.tiling.keep)):
            found = found.times(self.volumes.groups(words.tensor, outer))
        return found

    @cached_property
    def _fixed_energy(self) -> Posynomial:
        """The MACs' energy, and leakage during the compute cycles."""
        parts = [self.volumes.constant(float(self.layer.macs)).scaled(self.architecture.compute.energy_pj)]
        for index, level in enumerate(self.architecture.levels):
            leaking = self.volumes.compute_cycles.times(self.volumes.instances(index))
            parts.append(leaking.scaled(level.leakage_pj_per_cycle))
        return self.volumes.total(parts)

    def _transfers(self, words: Sequence[Words]) -> Iterator[Posynomial]:
        """Section V-B: the cycles that each level takes for its words at its bandwidths."""
        for index, level in enumerate(self.architecture.levels):
            yield from self._transfer(level, *self._moved([w for w in words if w.level == index]))

    def _moved(self, words: Sequence[Words]) -> tuple[list[Posynomial], list[Posynomial]]:
        """The words that a level reads, and those that are written to it."""
        outputs = [w.sent for w in words if w.tensor.is_output]
        drained = [w.filled for w in words if self.literal and w.tensor.is_output and w.filled]
        return [w.sent for w in words] + drained, [w.filled for w in words if w.filled] + outputs

    def _transfer(
        self, level: StorageLevel, reads: list[Posynomial], writes: list[Posynomial]
    ) -> Iterator[Posynomial]:
        for bandwidth, moved in (
            (level.read_bandwidth, reads),
            (level.write_bandwidth, writes),
            (level.shared_bandwidth, reads + writes),
        ):
            if bandwidth and moved:
                yield self.volumes.total(moved).scaled(1 / bandwidth)
