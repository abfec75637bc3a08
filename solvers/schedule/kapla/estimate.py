"""Segments before their layers are solved: whether their data can fit, and the least that they may cost."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from typing import NamedTuple

from costmodel.hardware.chip import Chip
from costmodel.schedule.tree.segment_flow import SegmentFlow, Wiring
from solvers.schedule.kapla.floors import LayerFloor
from solvers.schedule.kapla.leaf_floors import LeafFloor, LeafFloors, PlacedLeaf
from solvers.schedule.kapla.regions import Region, Regions
from solvers.schedule.kapla.segments import Scheme, Segment, Slicing


@dataclass(frozen=True)
class BatchCost:
    """Energy and cycles of a segment or chain for the whole batch."""

    energy_pj: float
    cycles: float

    def __add__(self, other: BatchCost) -> BatchCost:
        return BatchCost(self.energy_pj + other.energy_pj, self.cycles + other.cycles)


class SegmentAccesses(NamedTuple):
    """Bytes that a segment moves at least: of each layer from and to DRAM and into buffers; over the NoC."""

    read: tuple[int, ...]
    written: tuple[int, ...]
    filled: tuple[float, ...]
    sent: int

    @property
    def counts(self) -> tuple[float, ...]:
        """All of them, as Pareto pruning compares them."""
        return (*self.read, *self.written, *self.filled, self.sent)


class SchemeEstimate(NamedTuple):
    """The least that a scheme may cost, and the accesses behind it."""

    cost: BatchCost
    accesses: SegmentAccesses


@dataclass(frozen=True)
class Estimates:
    """Conservative validity and optimistic costs (section IV-B) of the schemes of ``slicing`` on ``chip``.

    ``floors``: of every layer. ``regions``: which layers have which tiles.
    """

    slicing: Slicing
    chip: Chip
    floors: Sequence[LayerFloor]
    regions: Regions

    @cached_property
    def _wiring(self) -> Wiring:
        return Wiring.of(self.slicing.problem.graph.producers)

    @cached_property
    def _leaves(self) -> LeafFloors:
        return LeafFloors(self.slicing.problem.graph, self.chip, self.floors)

    def may_fit(self, scheme: Scheme) -> bool:
        """Whether the least data that has to be on tiles at once fits the buffers of those tiles together.

        What is held when is the chip model's (``costmodel.schedule.buffers``). Cutting K repeats inputs,
        cutting anything else repeats weights (:meth:`LayerFloor.held_bytes`); uneven parts and halos only
        take more.
        And each layer for itself has a partition that fits. So no valid segment is refused.
        """
        segment, size = scheme.segment, self.chip.tile.buffer.size_bytes
        if not self._weights_fit(scheme):
            return False
        together = segment.kind == "turns"
        return all(
            all(self._leaf(number, region.tiles, scheme.subbatches) for number in region.layers)
            and self._held(region, scheme.subbatches, together) <= region.tiles * size
            for region in self.regions.of(segment)
        )

    def _weights_fit(self, scheme: Scheme) -> bool:
        """Whether the weights that stay, those of all layers but for turns without sub-batches, fit."""
        segment = scheme.segment
        if segment.kind == "turns" and scheme.subbatches == 1:
            return True
        weights = self._weights_before[segment.end] - self._weights_before[segment.first]
        return weights <= self.chip.tiles * self.chip.tile.buffer.size_bytes

    @cached_property
    def _weights_before(self) -> list[int]:
        sums = [0]
        for floor in self.floors:
            sums.append(sums[-1] + floor.weights)
        return sums

    def _leaf(self, number: int, tiles: int, subbatches: int) -> LeafFloor | None:
        return self._leaves.of(PlacedLeaf(number, self.slicing.batch // subbatches, tiles, subbatches))

    def _held(self, region: Region, subbatches: int, together: bool) -> int:
        """Bytes that the tiles of a region hold at least.

        A layer alone: its weights and inputs, and the next inputs with more than one sub-batch. Layers in
        turn: those of a layer, and of the next one too where the region is a segment (``together``); with
        more than one sub-batch the weights of all, which stay.
        """
        batch = self.slicing.batch // subbatches
        layers = [self.floors[number] for number in region.layers]
        if len(layers) == 1:
            return layers[0].held_bytes(batch * (2 if subbatches > 1 else 1), region.tiles)
        held = [layer.held_bytes(batch, region.tiles) for layer in layers]
        pinned = [layer.weights if subbatches > 1 else 0 for layer in layers]
        free = [one - own for one, own in zip(held, pinned, strict=True)]
        return sum(pinned) + max(map(sum, pairwise(free)) if together else free)

    def least(self, segment: Segment, subbatches: Sequence[int]) -> Iterator[tuple[int, SchemeEstimate]]:
        """What the segment costs with so many sub-batches if every byte moves as little as can be.

        DRAM and NoC move each byte once, buffers take in what the best way to cut each layer needs, and the
        most even way to cut it keeps all PEs busy. No cost is below if the floors of layers hold.
        """
        flow = self.slicing.flow(segment, self._wiring)
        read, written, sent = self._moved(segment, flow)
        transfers_pj = self._transfers_pj(sum(read.values()), sum(written.values()), sent)
        busy = {number: (read[number] + written[number]) / self.chip.dram.bytes_per_cycle for number in read}
        for parts in subbatches:
            leaves = dict(self._of_leaves(Scheme(segment, parts)))
            slowest = max(
                sum(max(parts * leaves[number].cycles, busy[number]) for number in region.layers)
                for region in self.regions.of(segment)
            )
            cycles = slowest
            if segment.kind != "turns":
                cycles = max((1 + max(flow.stages[0]) / parts) * slowest, sum(busy.values()))
            energy_pj = transfers_pj + sum(leaf.energy_pj for leaf in leaves.values())
            filled = tuple(leaf.filled_bytes for leaf in leaves.values())
            accesses = SegmentAccesses(tuple(read.values()), tuple(written.values()), filled, sent)
            yield parts, SchemeEstimate(BatchCost(energy_pj, cycles), accesses)

    def _of_leaves(self, scheme: Scheme) -> Iterator[tuple[int, LeafFloor]]:
        """The floors of a scheme's leaves, of all partitions where none fits."""
        for region in self.regions.of(scheme.segment):
            for number in region.layers:
                leaf = self._leaf(number, region.tiles, scheme.subbatches)
                yield number, leaf or self._unfit(number, region.tiles, scheme.subbatches)

    def _unfit(self, number: int, tiles: int, subbatches: int) -> LeafFloor:
        """A layer that fits no buffer: what no way to cut it would take less of."""
        floor, batch = self.floors[number], self.slicing.batch
        energy_pj = batch * floor.energy_pj + floor.weights_pj
        filled, cycles = batch * floor.input_bytes + floor.weights, batch * floor.tile_cycles / tiles
        return LeafFloor(energy_pj, filled, cycles / subbatches)

    def _moved(self, segment: Segment, flow: SegmentFlow) -> tuple[dict[int, int], dict[int, int], int]:
        """Bytes for the whole batch: of every layer from and to DRAM, and of all to other tiles."""
        batch, sent = self.slicing.batch, 0
        read: dict[int, int] = {}
        written: dict[int, int] = {}
        for region in self.slicing.regions(segment):
            for number in region:
                layer, near = self.floors[number], flow.sources.get(number, ())
                far = sum(count for producer, count in layer.inputs if producer not in near)
                here = sum(count for producer, count in layer.inputs if producer in region)
                read[number] = layer.weights + batch * far
                written[number] = batch * layer.outputs if number in flow.written else 0
                sent += batch * max(0, layer.input_bytes - far - here)  # a hop at least
        return read, written, sent

    def _transfers_pj(self, read: int, written: int, sent: int) -> float:
        """What so many bytes take in DRAM and on links."""
        dram, hop_pj = self.chip.dram, self.chip.noc.hop_pj_per_byte
        away_pj = self._hops_to_dram * hop_pj
        energy_pj = read * (dram.read_pj_per_byte + away_pj) + written * (dram.write_pj_per_byte + away_pj)
        return energy_pj + sent * hop_pj

    @cached_property
    def _hops_to_dram(self) -> float:
        """Hops of a byte between DRAM, over all ports alike, and the tile that is nearest to them."""
        ports = self.chip.ports
        return min(
            sum(abs(column - port_column) + abs(row - port_row) for port_column, port_row in ports)
            / len(ports)
            for column, row in self.chip.positions
        )
