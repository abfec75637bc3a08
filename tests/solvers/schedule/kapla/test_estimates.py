"""Estimates of all divisions of a segment at once, against each scheme by itself, number by number."""

from __future__ import annotations

import itertools
from math import prod
from typing import NamedTuple

import numpy as np
import pytest

from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.published.set_isca2023.segment_flow import SegmentFlow
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.partitions import factorizations
from costmodel.schedule.starts import slowest_by_stage
from costmodel.schedule.tree.wiring import Wiring
from solvers.schedule import kapla
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.kapla.estimates.estimate import Estimates
from solvers.schedule.kapla.estimates.floors import LayerFloor
from solvers.schedule.kapla.regions import Region, Regions
from solvers.schedule.kapla.segments import BatchDivision, Scheme, Segment, Slicing
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.tiles.partition_ranking import held_weights, least_inputs
from tests.solvers.schedule.kapla.test_footprints import small_chip, table_of


class Least(NamedTuple):
    """What a leaf takes at least: energy and bits into buffers of all runs, cycles of one."""

    energy_pj: float
    filled_bits: float
    cycles: float


class Plain:
    """What :class:`Estimates` says of one scheme, from the floors of its layers and its flow alone."""

    def __init__(self, slicing: Slicing, estimates: Estimates, shares: bool = False) -> None:
        self.slicing, self.chip, self.floors = slicing, estimates.chip, estimates.floors
        self.graph, self.regions, self.shares = slicing.problem.graph, estimates.regions, shares
        self.known: dict[tuple[int, int, BatchDivision, bool], Least | None] = {}

    def leaf(self, number: int, tiles: int, scheme: Scheme, streamed: bool) -> Least | None:
        """The least over all partitions, one after the other; None if none fits."""
        key = number, tiles, scheme.division, streamed
        if key not in self.known:
            ways = [self.cut(number, tuple(parts), *key[2:]) for parts in factorizations(tiles)]
            found = [way for way in ways if way]
            self.known[key] = Least(*map(min, zip(*found, strict=True))) if found else None
        return self.known[key]

    def cut(
        self, number: int, parts: tuple[int, ...], division: BatchDivision, streamed: bool
    ) -> Least | None:
        layer, floor, tile = self.graph.layers[number], self.floors[number], self.chip.tile
        samples, bits = self.slicing.batch // division.subbatches, ElementBits.of(layer, tile.widths)
        sizes = layer.sizes(samples)
        largest = np.array([[-(-size // part) for size, part in zip(sizes, parts, strict=True)]])
        together = largest.copy()
        if streamed or self.shares:
            together[0, 0] = 1
        held = bits.inputs * int(least_inputs(layer, largest)[0]) // division.bands
        held += bits.weights * int(held_weights(layer, together)[0])
        if held > tile.free_bits or (division.bands > 1 and (streamed or parts[2] > 1)):
            return None
        k, *others = (min(part, size) for part, size in zip(parts, sizes, strict=True))
        inputs = self.slicing.batch * floor.input_bits
        weights = floor.weights * (division.subbatches if streamed else 1)
        # parts of K repeat the inputs, all others the weights
        filled = inputs * k + weights * prod(others) if floor.repeats else inputs + weights
        energy_pj = self.slicing.batch * floor.energy_pj + floor.weights_pj
        energy_pj += (filled - inputs - floor.weights) * tile.buffer.write_pj_per_bit
        cycles = prod(largest[0].tolist()) * floor.tile_cycles / (layer.k * layer.h * layer.w)
        return Least(energy_pj, filled, cycles)

    def fits(self, scheme: Scheme, region: Region, streamed: bool) -> bool:
        held = self.held(scheme, region, streamed)
        leaves = [self.leaf(number, region.tiles, scheme, streamed) for number in region.layers]
        return all(leaves) and held <= region.tiles * self.chip.tile.buffer.size_bits

    def held(self, scheme: Scheme, region: Region, streamed: bool) -> int:
        """The most that the region's tiles hold at a time: of one layer and perhaps of the next, too."""
        samples = self.slicing.batch // scheme.subbatches
        if len(region.layers) == 1 and scheme.subbatches > 1 and scheme.bands == 1:
            samples *= 2
        found: list[int] = []
        for number in region.layers:
            floor = self.floors[number]
            inputs, weights = samples * floor.input_bits // scheme.bands, 0 if streamed else floor.weights
            cuts = [k for k in range(1, region.tiles + 1) if region.tiles % k == 0]
            least = min(k * inputs + region.tiles // k * weights for k in cuts)
            found.append(least if floor.repeats and not self.shares else inputs + weights)
        if len(found) == 1:
            return found[0]
        stay = scheme.subbatches * scheme.bands > 1 and not streamed
        pinned = [self.floors[number].weights if stay else 0 for number in region.layers]
        free = [one - own for one, own in zip(found, pinned, strict=True)]
        if scheme.segment.kind == "turns":
            free = [one + after for one, after in itertools.pairwise(free)]
        return sum(pinned) + max(free)

    def again(self, scheme: Scheme) -> dict[int, int]:
        if scheme.bands > 1:
            return {}
        regions, size = self.regions.of(scheme.segment), self.chip.tile.buffer.size_bits
        weights = {number: self.floors[number].weights for region in regions for number in region.layers}
        found: dict[int, int] = {}
        for region in regions:
            if not self.fits(scheme, region, False):
                own = {number: weights[number] for number in region.layers}
                least = min(own, key=lambda number: (own[number] == 0, own[number], number))
                pinned = region.tiles * size - self.held(scheme, region, True)
                found[least] = max(own[least], sum(own.values()) - pinned)
        fits = sum(weights.values()) <= self.chip.tiles * size
        if not found and not fits and (scheme.segment.kind != "turns" or scheme.subbatches > 1):
            least = min(weights, key=lambda number: (weights[number] == 0, weights[number], number))
            found[least] = weights[least]
        return {number: (scheme.subbatches - 1) * bits for number, bits in found.items()}

    def moved(self, segment: Segment, flow: SegmentFlow) -> tuple[dict[int, int], dict[int, int], int]:
        """Bits of each layer read from DRAM, of each written to it, and of all sent between tiles.

        An input comes from DRAM, from the tiles of another region, or from those of its own region. Only the
        second must cross a link: a tile of the same region may hold what it needs already.
        """
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
                sent += batch * max(0, layer.input_bits - far - here)  # a hop at least
        return read, written, sent

    def cycles(
        self, scheme: Scheme, stages: list[int], read: dict[int, int], written: dict[int, int]
    ) -> float:
        found: list[float] = []
        every = 0.0
        for region in self.regions.of(scheme.segment):
            computing = waiting = 0.0
            for number in region.layers:
                computing += scheme.subbatches * self.least(number, region.tiles, scheme).cycles
                waiting += (read[number] + written[number]) / self.chip.dram.bits_per_cycle
                every += (read[number] + written[number]) / self.chip.dram.bits_per_cycle
            found.append(max(computing, waiting))
        if scheme.segment.kind == "turns":
            return found[0]
        if scheme.bands > 1:
            return max(self.cycles_of_bands(scheme, stages), every)
        passing = sum(slowest_by_stage(found, stages))
        return max(((scheme.subbatches - 1) * max(found) + passing) / scheme.subbatches, every)

    def cycles_of_bands(self, scheme: Scheme, stages: list[int]) -> float:
        """The first band goes through all stages, and then the slowest region has the rest of its work."""
        heights, firsts, rests = self.slicing.heights(scheme), [], []
        for region in self.regions.of(scheme.segment):
            runs = {number: self.least(number, region.tiles, scheme).cycles for number in region.layers}
            first = sum(
                run * heights[number][0] / self.graph.layers[number].h for number, run in runs.items()
            )
            firsts.append(first)
            rests.append(scheme.subbatches * sum(runs.values()) - first)
        return sum(slowest_by_stage(firsts, stages)) + max(rests)

    def least(self, number: int, tiles: int, scheme: Scheme) -> Least:
        ways = [self.leaf(number, tiles, scheme, streamed) for streamed in (False, True)]
        if any(ways):
            return Least(*map(min, zip(*(way for way in ways if way), strict=True)))
        floor, batch = self.floors[number], self.slicing.batch
        filled, cycles = batch * floor.input_bits + floor.weights, batch * floor.tile_cycles / tiles
        return Least(batch * floor.energy_pj + floor.weights_pj, filled, cycles / scheme.subbatches)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "layers", "batch", "buffer_kib", "bands", "shares"),
    [
        ("lstm", 9, 4, 128, 1, False),
        ("trans_cell", 12, 2, 32, 1, False),
        ("goog", 8, 4, 64, 1, False),
        ("resnet", 9, 4, 64, 1, False),
        ("goog", 8, 2, 32, 7, False),
        ("resnet", 9, 2, 32, 8, False),
        ("goog", 7, 2, 24, 1, True),
    ],
)
def test_all_divisions_at_once_are_estimated_as_one_by_one(
    name: str, layers: int, batch: int, buffer_kib: int, bands: int, shares: bool
) -> None:
    graph, chip = LayerGraph(name, load_graph(name).layers[:layers]), small_chip(buffer_kib << 10)
    costs = table_of(graph, chip, batch)
    params = kapla.Params(most_layers=5, bands=bands)
    slicing = Slicing(ScheduleProblem(graph, ChipModel(chip, costs, bands=bands > 1), batch), params)
    regions = Regions(slicing, costs.normalized_cycles)
    floors = [LayerFloor.of(graph, number, chip) for number in range(layers)]
    estimates = Estimates(slicing, chip, floors, regions, shares)
    wiring = Wiring.of(graph.producers)
    plain = Plain(slicing, estimates, shares)
    compared, streaming, refused, banded = 0, 0, 0, 0
    for segment in slicing.segments():
        divisions = slicing.divisions(segment)
        fitting = estimates.fitting(segment, divisions)
        for division in divisions:
            one = Scheme(segment, division)
            fits = [plain.fits(one, region, division.bands == 1) for region in regions.of(segment)]
            assert (division in fitting) == all(fits)
            refused += not all(fits)
            held = [plain.held(one, region, False) / region.tiles for region in regions.of(segment)]
            full = max(held) / chip.tile.buffer.size_bits
            assert estimates.fullness(one) == pytest.approx(full, rel=1e-12)
        flow = SegmentFlow(slicing.node(Scheme(segment, BatchDivision(batch))), wiring)
        asked = [division for division in divisions if slicing.has_rows(Scheme(segment, division))]
        for division, found in estimates.least(segment, asked):
            scheme = Scheme(segment, division)
            once, written, sent = plain.moved(segment, flow)
            again = plain.again(scheme)
            read = {number: bits + again.get(number, 0) for number, bits in once.items()}
            leaves = [
                plain.least(number, region.tiles, scheme)
                for region in regions.of(segment)
                for number in region.layers
            ]
            cycles = plain.cycles(scheme, flow.stages[0] if flow.stages else [], read, written)
            dram, hop_pj = chip.dram, chip.noc.hop_pj_per_bit
            away_pj = estimates._hops_to_dram * hop_pj
            energy_pj = sum(read.values()) * (dram.read_pj_per_bit + away_pj)
            energy_pj += sum(written.values()) * (dram.write_pj_per_bit + away_pj) + sent * hop_pj
            energy_pj += sum(leaf.energy_pj for leaf in leaves) + chip.idle_pj_per_cycle * cycles
            assert found.cost.energy_pj == pytest.approx(energy_pj, rel=1e-12)
            assert found.cost.cycles == pytest.approx(cycles, rel=1e-12)
            assert found.accesses.read == tuple(read.values())
            assert found.accesses.written == tuple(written.values())
            assert found.accesses.filled == tuple(leaf.filled_bits for leaf in leaves)
            assert found.accesses.sent == sent
            compared, streaming = compared + 1, streaming + bool(again and division.subbatches > 1)
            banded += division.bands > 1 and len(regions.of(segment)) > 1
    assert compared > 20
    assert streaming > 0
    assert refused > 0 or name == "lstm"
    assert banded > 0 or bands == 1
