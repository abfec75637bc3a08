"""Segments before their layers are solved: whether their data can fit, and the least that they may cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise

from costmodel.chip import Chip
from costmodel.chip.allocation import allocate
from costmodel.ratree import SegmentFlow, Wiring
from solvers.schedule.kapla.floors import LayerFloor
from solvers.schedule.kapla.segments import Segment, Slicing


@dataclass(frozen=True)
class Cost:
    """Energy and cycles of a segment or chain for the whole batch."""

    energy_pj: float
    cycles: float

    def __add__(self, other: Cost) -> Cost:
        return Cost(self.energy_pj + other.energy_pj, self.cycles + other.cycles)


@dataclass(frozen=True)
class Estimates:
    """Conservative validity and optimistic costs (section IV-B) of the segments of ``slicing`` on ``chip``.

    ``floors``: of every layer. ``normalized``: its cycles for a sample on one tile, by which pipelines share
    tiles.
    """

    slicing: Slicing
    chip: Chip
    floors: Sequence[LayerFloor]
    normalized: Sequence[float]

    @cached_property
    def _wiring(self) -> Wiring:
        return Wiring.of(self.slicing.problem.graph.producers)

    def may_fit(self, segment: Segment, subbatches: int) -> bool:
        """Whether the least data that has to be on tiles at once fits the buffers of those tiles together.

        What is held when is the chip model's (``costmodel.chip.buffers``). Cutting K repeats inputs, cutting
        anything else repeats weights (:meth:`LayerFloor.held_bytes`); uneven parts and halos only take more.
        So no valid segment is refused.
        """
        size = self.chip.tile.buffer.size_bytes
        regions = self.slicing.regions(segment)
        together = segment.kind == "turns"
        return all(
            self._held(region, tiles, subbatches, together) <= tiles * size
            for region, tiles in zip(regions, self._shares(segment), strict=True)
        )

    def _held(self, region: list[int], tiles: int, subbatches: int, together: bool) -> int:
        """Bytes that the tiles of a region hold at least.

        A layer alone: its weights and inputs, and the next inputs with more than one sub-batch. Layers in
        turn: those of a layer, and of the next one too where the region is a segment (``together``); with
        more than one sub-batch the weights of all, which stay.
        """
        batch = self.slicing.batch // subbatches
        layers = [self.floors[number] for number in region]
        if len(layers) == 1:
            return layers[0].held_bytes(batch * (2 if subbatches > 1 else 1), tiles)
        held = [layer.held_bytes(batch, tiles) for layer in layers]
        pinned = [layer.weights if subbatches > 1 else 0 for layer in layers]
        free = [one - own for one, own in zip(held, pinned, strict=True)]
        return sum(pinned) + max(map(sum, pairwise(free)) if together else free)

    def _shares(self, segment: Segment) -> tuple[int, ...]:
        """The tiles of every region."""
        regions = self.slicing.regions(segment)
        cycles = [sum(self.normalized[number] for number in region) for region in regions]
        shares = allocate(self.chip.tiles, cycles, [1] * len(regions))
        assert shares is not None  # there are no pipelines of more regions than tiles
        return shares

    def least(self, segment: Segment, subbatches: int) -> Cost:
        """What the segment costs if every byte moves as little as can be and no PE of its tiles waits.

        ``subbatches``: the most that the segment may have, which fills and drains a pipeline soonest. No cost
        is below if the floors of layers hold for all partitions.
        """
        flow, regions = self.slicing.flow(segment, self._wiring), self.slicing.regions(segment)
        moved_bytes, energy_pj = self._moved(segment, flow)
        batch, bandwidth = self.slicing.batch, self.chip.dram.bytes_per_cycle
        layers = [self.floors[number] for number in range(segment.first, segment.end)]
        energy_pj += sum(batch * layer.energy_pj + layer.weights_pj for layer in layers)
        slowest = max(
            sum(
                max(batch * self.floors[number].tile_cycles / tiles, moved_bytes[number] / bandwidth)
                for number in region
            )
            for region, tiles in zip(regions, self._shares(segment), strict=True)
        )
        if segment.kind == "turns":
            return Cost(energy_pj, slowest)
        filled = 1 + max(flow.stages[0]) / subbatches
        return Cost(energy_pj, max(filled * slowest, sum(moved_bytes.values()) / bandwidth))

    def _moved(self, segment: Segment, flow: SegmentFlow) -> tuple[dict[int, int], float]:
        """Bytes of every layer to and from DRAM for the whole batch; what all transfers take, in pJ."""
        batch, noc_bytes = self.slicing.batch, 0
        read: dict[int, int] = {}
        written: dict[int, int] = {}
        for region in self.slicing.regions(segment):
            for number in region:
                layer, near = self.floors[number], flow.sources.get(number, ())
                far = sum(count for producer, count in layer.inputs if producer not in near)
                here = sum(count for producer, count in layer.inputs if producer in region)
                read[number] = layer.weights + batch * far
                written[number] = batch * layer.outputs if number in flow.written else 0
                noc_bytes += batch * max(0, layer.input_bytes - far - here)  # to other tiles: a hop at least
        dram, hop_pj = self.chip.dram, self.chip.noc.hop_pj_per_byte
        away_pj = self._hops_to_dram * hop_pj
        energy_pj = sum(read.values()) * (dram.read_pj_per_byte + away_pj)
        energy_pj += sum(written.values()) * (dram.write_pj_per_byte + away_pj)
        return {number: read[number] + written[number] for number in read}, energy_pj + noc_bytes * hop_pj

    @cached_property
    def _hops_to_dram(self) -> float:
        """Hops of a byte between DRAM, over all ports alike, and the tile that is nearest to them."""
        ports = self.chip.ports
        return min(
            sum(abs(column - port_column) + abs(row - port_row) for port_column, port_row in ports)
            / len(ports)
            for column, row in self.chip.positions
        )
