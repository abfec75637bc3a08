"""What one layer costs on hardware with open sizes, for one class of loop orders: Eq. 3 and 5, any levels."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from functools import cached_property, lru_cache

from costmodel.hardware.architecture import StorageLevel
from costmodel.workload.network import Layer, Tensor
from solvers.codesign.thistle.geometric_program import PosynomialLimit
from solvers.codesign.thistle.hardware import HardwareVariables
from solvers.codesign.thistle.loops import ClassLoops
from solvers.mapping.thistle.convex.signomial import Signomial, monomial, variable
from solvers.mapping.thistle.nest.expressions import Expressions, TilingBlock

CYCLES = variable("cycles")
"""The layer's cycles: at least what every component takes (section V-B)."""
NOTHING = Signomial(())


@dataclass(frozen=True)
class LayerTraffic:
    """One tensor at one level: words per instance, as expressions of trip counts."""

    reads: Signomial
    fills: Signomial
    updates: Signomial


@dataclass(frozen=True)
class LayerCosts:
    """A layer with the loops ``loops`` on ``hardware``, every level of which keeps each tensor whose role it
    can keep: bypass is no choice here.

    ``literal``: partial sums are counted as Eq. 3 does, else as the cost model does (:meth:`_kept_traffic`).
    """

    hardware: HardwareVariables
    layer: Layer
    loops: ClassLoops
    literal: bool = False

    @cached_property
    def expressions(self) -> Expressions:
        """Algorithm 1's footprints and volumes of the layer with these loops."""
        return Expressions(self.layer, self.hardware.fanned, self.loops.fixed)

    @cached_property
    def energy(self) -> Signomial:
        """pJ of all MACs, accesses and leakage; negative terms are first reads of partial sums."""
        parts = [monomial(self.layer.macs * self.hardware.base.compute.energy_pj)]
        for index, level in enumerate(self.hardware.base.levels):
            accesses = [self._access_energy(level, traffic) for traffic in self._traffic_at(index)]
            leakage = CYCLES * level.leakage_pj_per_cycle
            parts.append(self.expressions.instances(index) * _sum([*accesses, leakage]))
        return _sum(parts)

    @cached_property
    def cycle_limits(self) -> tuple[PosynomialLimit, ...]:
        """:data:`CYCLES` is at least the loops' iterations and what each level's bandwidths take."""
        return (PosynomialLimit(self.expressions.compute_cycles(), CYCLES), *self._bandwidth_limits())

    @cached_property
    def space_limits(self) -> tuple[PosynomialLimit, ...]:
        """Tiles fit the capacities, and spatial loops the fan-outs."""
        return (*self._capacity_limits(), *self._fanout_limits())

    @cached_property
    def whole_dims(self) -> tuple[Signomial, ...]:
        """Monomials that are 1 where the trip counts of every tiled dim multiply to its size."""
        fixed = dict(self.loops.fixed)
        found = []
        for dim, size in self.layer.dims:
            names = [block.trips(dim) for block in self.expressions.blocks]
            trips = monomial(1 / size, dict.fromkeys(names, 1.0)).with_constants(fixed)
            found.append(trips)
        return tuple(trips for trips in found if trips.variables)

    @property
    def has_leakage(self) -> bool:
        """Whether the energy depends on the cycles."""
        return any(level.leakage_pj_per_cycle for level in self.hardware.base.levels)

    def _kept(self, level: StorageLevel) -> list[Tensor]:
        return [tensor for tensor in self.layer.tensors if level.can_keep(tensor)]

    def _access_energy(self, level: StorageLevel, traffic: LayerTraffic) -> Signomial:
        energy = self.hardware.energy
        return (
            traffic.reads * energy(level, level.read_energy_pj)
            + traffic.fills * energy(level, level.write_energy_pj)
            + traffic.updates * energy(level, level.update_energy_pj)
        )

    def _bandwidth_limits(self) -> Iterator[PosynomialLimit]:
        for index, level in enumerate(self.hardware.base.levels):
            reads = _sum(traffic.reads for traffic in self._traffic_at(index))
            writes = _sum(traffic.fills + traffic.updates for traffic in self._traffic_at(index))
            for bandwidth, words in (
                (level.read_bandwidth, reads),
                (level.write_bandwidth, writes),
                (level.shared_bandwidth, reads + writes),
            ):
                if bandwidth is not None and words.terms:
                    yield PosynomialLimit(words, CYCLES * bandwidth)

    def _capacity_limits(self) -> Iterator[PosynomialLimit]:
        for index, level in enumerate(self.hardware.base.levels):
            capacity = self.hardware.capacity(level)
            if capacity is not None and (kept := self._kept(level)):
                yield PosynomialLimit(
                    _sum(_footprint(self.expressions, tensor, index) for tensor in kept), capacity
                )

    def _fanout_limits(self) -> Iterator[PosynomialLimit]:
        fixed = dict(self.loops.fixed)
        for index, level in enumerate(self.hardware.base.levels):
            if self.hardware.fanned[index]:
                names = [TilingBlock(index, True).trips(dim) for dim, _ in self.layer.dims]
                used = monomial(1.0, dict.fromkeys(names, 1.0)).with_constants(fixed)
                yield PosynomialLimit(used, self.hardware.fanout(level))

    def _traffic_at(self, index: int) -> list[LayerTraffic]:
        return [traffic for levels in self._traffic if (traffic := levels[index])]

    @cached_property
    def _traffic(self) -> list[list[LayerTraffic | None]]:
        return [self._tensor_traffic(tensor) for tensor in self.layer.tensors]

    def _tensor_traffic(self, tensor: Tensor) -> list[LayerTraffic | None]:
        """As :func:`costmodel.mapping.counts.traffic.tensor_traffic` counts, level by level; None where it is
        bypassed.
        """
        found: list[LayerTraffic | None] = []
        through = self.expressions.compute_cycles()
        for index, level in enumerate(self.hardware.base.levels):
            content = through * self.expressions.groups(tensor, index)
            if level.can_keep(tensor):
                delivered = self._delivered(tensor, index)
                found.append(self._kept_traffic(tensor, index, content, delivered))
                through = delivered
            else:
                # A level that does not keep the tensor hands the words through; its own fan-out has
                # multiplied them.
                found.append(None)
                through = content
        return found

    def _delivered(self, tensor: Tensor, index: int) -> Signomial:
        if index == len(self.hardware.base.levels) - 1:
            return NOTHING
        return self.expressions.delivered(tensor, index, self.loops.orders)

    def _kept_traffic(
        self, tensor: Tensor, index: int, content: Signomial, delivered: Signomial
    ) -> LayerTraffic:
        """The words of a kept tensor: the level sends ``content`` inwards, and ``delivered`` come in."""
        if self.literal:
            # Eq. 3: a multicast is written once, every partial sum comes in and goes out, and what goes out
            # is read here
            once = delivered * self._copies(tensor, index) if delivered.terms else NOTHING
            return (
                LayerTraffic(content + once, once, content)
                if tensor.is_output
                else LayerTraffic(content, once, NOTHING)
            )
        if not tensor.is_output:
            return LayerTraffic(content, delivered, NOTHING)
        first_reads = self._partition(tensor, index) * -1.0
        fills = delivered + first_reads if delivered.terms else NOTHING
        # The first partial sum of a word starts from zero: nothing is read for it at this level, and nothing
        # is filled into it from outside.
        return LayerTraffic(content + first_reads, fills, content)

    def _copies(self, tensor: Tensor, index: int) -> Signomial:
        """1 over the instances that have the same tile: over the spatial loops of dims that it lacks."""
        outside = (
            TilingBlock(level, True).trips(dim)
            for level in range(index + 1, len(self.hardware.fanned))
            if self.hardware.fanned[level]
            for dim, _ in self.layer.dims
            if dim not in tensor.dims
        )
        return monomial(1.0, dict.fromkeys(outside, -1.0)).with_constants(dict(self.loops.fixed))

    def _partition(self, tensor: Tensor, index: int) -> Signomial:
        """Words of the output that belong to one instance: all over the spatial loops that divide it."""
        fixed = dict(self.loops.fixed)
        outside = (
            TilingBlock(level, True).trips(dim)
            for level in range(index + 1, len(self.hardware.fanned))
            if self.hardware.fanned[level]
            for dim in tensor.dims
        )
        words = float(tensor.words(self.layer.sizes))
        return monomial(words, dict.fromkeys(outside, -1.0)).with_constants(fixed)


@lru_cache(maxsize=256)
def _footprint(expressions: Expressions, tensor: Tensor, level: int) -> Signomial:
    """The same in all classes of orders: most of the time that expressions take would go here."""
    return expressions.footprint(tensor, level)


def _sum(parts: Iterable[Signomial]) -> Signomial:
    return Signomial.collected(term for part in parts for term in part.terms)
