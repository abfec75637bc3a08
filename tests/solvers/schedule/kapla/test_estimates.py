"""Estimates of all divisions of a segment at once, against each scheme by itself, number by number."""

from __future__ import annotations

import itertools

import pytest

from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.starts import slowest_by_stage
from costmodel.schedule.tree.segment_flow import Wiring
from solvers.schedule import kapla
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.kapla.estimate import Estimates
from solvers.schedule.kapla.floors import LayerFloor
from solvers.schedule.kapla.footprints import Footprints
from solvers.schedule.kapla.leaf_floors import LeafFloor, LeafFloors, PlacedLeaf
from solvers.schedule.kapla.regions import Region, Regions
from solvers.schedule.kapla.segments import Scheme, Slicing
from solvers.schedule.problem import ScheduleProblem
from tests.solvers.schedule.kapla.test_footprints import small_chip, table_of


class Plain:
    """What :class:`Estimates` says of one scheme, from the least of its layers and its flow alone."""

    def __init__(self, slicing: Slicing, estimates: Estimates) -> None:
        self.slicing, self.chip, self.floors = slicing, estimates.chip, estimates.floors
        self.regions = estimates.regions
        self.leaves = LeafFloors(slicing.problem.graph, self.chip, self.floors)

    def leaf(self, number: int, tiles: int, scheme: Scheme, streamed: bool) -> LeafFloor | None:
        batch = self.slicing.batch // scheme.subbatches
        return self.leaves.of(PlacedLeaf(number, batch, tiles, scheme.subbatches, streamed))

    def fits(self, scheme: Scheme, region: Region, streamed: bool) -> bool:
        held = self.held(scheme, region, streamed)
        leaves = [self.leaf(number, region.tiles, scheme, streamed) for number in region.layers]
        return all(leaves) and held <= region.tiles * self.chip.tile.buffer.size_bits

    def held(self, scheme: Scheme, region: Region, streamed: bool) -> int:
        """The most that the region's tiles hold at a time: of one layer and perhaps of the next, too."""
        samples = self.slicing.batch // scheme.subbatches
        found: list[int] = []
        for number in region.layers:
            floor, inputs = self.floors[number], samples * self.floors[number].input_bits
            if len(region.layers) == 1 and scheme.subbatches > 1:
                inputs *= 2
            weights = 0 if streamed else floor.weights
            cuts = [k for k in range(1, region.tiles + 1) if region.tiles % k == 0]
            least = min(k * inputs + region.tiles // k * weights for k in cuts)
            found.append(least if floor.repeats else inputs + weights)
        if len(found) == 1:
            return found[0]
        stay = scheme.subbatches > 1 and not streamed
        pinned = [self.floors[number].weights if stay else 0 for number in region.layers]
        free = [one - own for one, own in zip(found, pinned, strict=True)]
        if scheme.segment.kind == "turns":
            free = [one + after for one, after in itertools.pairwise(free)]
        return sum(pinned) + max(free)

    def again(self, scheme: Scheme) -> dict[int, int]:
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
        passing = sum(slowest_by_stage(found, stages))
        return max(((scheme.subbatches - 1) * max(found) + passing) / scheme.subbatches, every)

    def least(self, number: int, tiles: int, scheme: Scheme) -> LeafFloor:
        ways = [self.leaf(number, tiles, scheme, streamed) for streamed in (False, True)]
        return LeafFloor(*map(min, zip(*(way for way in ways if way), strict=True)))


@pytest.mark.parametrize(
    ("name", "layers", "batch", "buffer_kib"),
    [("lstm", 9, 4, 128), ("trans_cell", 12, 2, 32), ("goog", 8, 4, 64), ("resnet", 9, 4, 64)],
)
def test_all_divisions_at_once_are_estimated_as_one_by_one(
    name: str, layers: int, batch: int, buffer_kib: int
) -> None:
    graph, chip = LayerGraph(name, load_graph(name).layers[:layers]), small_chip(buffer_kib << 10)
    costs = table_of(graph, chip, batch)
    slicing = Slicing(ScheduleProblem(graph, ChipModel(chip, costs), batch), kapla.Params(most_layers=5))
    regions = Regions(slicing, costs.normalized_cycles)
    floors = [LayerFloor.of(graph, number, chip) for number in range(layers)]
    estimates, wiring = Estimates(slicing, chip, floors, regions), Wiring.of(graph.producers)
    footprints = Footprints(graph, chip, costs, regions)
    plain, compared, streaming, refused = Plain(slicing, estimates), 0, 0, 0
    for segment in slicing.segments():
        schemes = [Scheme(segment, division) for division in slicing.divisions(segment)]
        fitting = [Scheme(segment, one) for one in estimates.fitting(segment, slicing.divisions(segment))]
        for one in schemes:
            assert (one in fitting) == all(plain.fits(one, region, True) for region in regions.of(segment))
            # what is remembered of regions changes nothing
            fresh = Footprints(graph, chip, costs, regions)
            assert footprints.may_fit(one) == fresh.may_fit(one)
            refused += not footprints.may_fit(one)
        flow = slicing.flow(segment, wiring)
        if not fitting:
            continue
        for division, found in estimates.least(segment, [one.division for one in fitting]):
            scheme = Scheme(segment, division)
            once, written, sent = estimates._moved(segment, flow)
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
            compared, streaming = compared + 1, streaming + bool(again and division.subbatches > 1)
    assert compared > 20
    assert streaming > 0
    assert refused > 0 or name == "lstm"
