"""What the buffers hold of leaves in the partitions that are offered, against schemes costed in full."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from costmodel.formats.chips import load_chip
from costmodel.formats.json.layer_graph_json import load_graph
from costmodel.hardware.chip import Chip
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.schedule import kapla
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.kapla.estimates.estimate import Estimates
from solvers.schedule.kapla.estimates.floors import LayerFloor
from solvers.schedule.kapla.estimates.footprints import Footprints
from solvers.schedule.kapla.regions import Regions
from solvers.schedule.kapla.segments import Scheme, Slicing
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.tiles.cost_table import TabledTileCosts, solved_costs
from solvers.schedule.tiles.layer_parts import Pruning, TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper


def small_chip(buffer_bytes: int) -> Chip:
    chip = load_chip("set-edge", {"mesh": [4, 4], "stripe": 2})
    return replace(chip, tile=replace(chip.tile, buffer=replace(chip.tile.buffer, size_bytes=buffer_bytes)))


def table_of(graph: LayerGraph, chip: Chip, batch: int) -> TabledTileCosts:
    demand = TileCostDemand(graph, chip.tile, chip.tiles, batch, Pruning(most=4))
    return solved_costs(demand, TileMapper("nvdla"))


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "layers", "batch", "buffer_kib"),
    [("resnet", 9, 4, 64), ("goog", 8, 4, 64), ("trans_cell", 16, 2, 32), ("trans_cell", 16, 2, 64)],
)
def test_no_scheme_that_is_possible_is_refused(name: str, layers: int, batch: int, buffer_kib: int) -> None:
    """Every segment in every number of sub-batches, costed in full; estimates alone refuse fewer."""
    graph, chip = LayerGraph(name, load_graph(name).layers[:layers]), small_chip(buffer_kib << 10)
    costs = table_of(graph, chip, batch)
    model = ChipModel(chip, costs)
    problem = ScheduleProblem(graph, model, batch)
    slicing = Slicing(problem, kapla.Params(most_layers=5))
    regions = Regions(slicing, costs.normalized_cycles)
    floors = [LayerFloor.of(graph, number, chip) for number in range(layers)]
    estimates = Estimates(slicing, chip, floors, regions)
    footprints = Footprints(graph, chip, costs, regions)
    evaluator = model.evaluator(graph, batch, problem.objective)
    possible = refused = 0
    for segment in slicing.segments():
        for scheme in (Scheme(segment, division) for division in slicing.divisions(segment)):
            may_fit = footprints.may_fit(scheme)
            refused += estimates.may_fit(scheme) and not may_fit
            try:
                evaluator.segment(slicing.node(scheme))
            except NotPossibleError:
                continue
            possible += 1
            assert may_fit, scheme
    assert possible > 10
    assert refused > 2


def test_footprints_are_the_least_of_what_single_layers_hold() -> None:
    """Of a layer in sub-batches the chip model takes one of the partitions, in one of the ways."""
    graph, chip, batch = LayerGraph("resnet", load_graph("resnet").layers[:8]), small_chip(1 << 18), 4
    costs = table_of(graph, chip, batch)
    model = ChipModel(chip, costs)
    slicing = Slicing(ScheduleProblem(graph, model, batch), kapla.Params())
    footprints = Footprints(graph, chip, costs, Regions(slicing, costs.normalized_cycles))
    evaluator = model.evaluator(graph, batch, slicing.problem.objective)
    stream, close = chip.tile.output_stream_bits, 0
    for number in range(len(graph.layers)):
        segment = slicing.single(number)
        for division in slicing.divisions(segment)[1:]:
            try:
                held = evaluator.segment(slicing.node(Scheme(segment, division))).held
            except NotPossibleError:
                continue
            footprint = footprints.of(number, batch // division.subbatches, chip.tiles)
            assert footprint is not None
            assert footprint.repeated <= held.most - stream
            assert footprint.running <= float(np.mean(held.busy + held.weights))
            assert footprint.inputs <= footprint.ahead <= footprint.running
            close += footprint.repeated >= 0.5 * (held.most - stream)
    assert close > 10


def fits_by_footprints(footprints: Footprints, scheme: Scheme) -> bool:
    """Whether each region fits, one leaf after the other, with what arrives for the next one meanwhile."""
    tile, again = footprints.chip.tile, scheme.subbatches > 1
    if len(scheme.segment) == 1 and not again:
        return True
    samples, in_turn = footprints.regions.slicing.batch // scheme.subbatches, scheme.segment.kind == "turns"
    for region in footprints.regions.of(scheme.segment):
        leaves = [footprints.of(number, samples, region.tiles) for number in region.layers]
        found = [leaf for leaf in leaves if leaf]
        if len(found) < len(leaves):
            return False
        if len(found) == 1:
            if again and found[0].repeated > tile.free_bits:
                return False
            continue
        following = [leaf.ahead for leaf in found[1:]] + [found[0].ahead if in_turn and again else 0.0]
        held = max(leaf.running + ahead for leaf, ahead in zip(found, following, strict=True))
        arriving = found[0].inputs if again and not in_turn else 0.0
        if held + arriving > tile.buffer.size_bits:
            return False
    return True


@pytest.mark.slow
def test_segments_fit_where_all_of_their_regions_do() -> None:
    fits: set[str] = set()
    refused: set[str] = set()
    for name, layers, buffer_kib in (("goog", 8, 48), ("resnet", 9, 64), ("lstm", 9, 128)):
        graph, chip = LayerGraph(name, load_graph(name).layers[:layers]), small_chip(buffer_kib << 10)
        costs = table_of(graph, chip, 4)
        slicing = Slicing(ScheduleProblem(graph, ChipModel(chip, costs), 4), kapla.Params(most_layers=5))
        footprints = Footprints(graph, chip, costs, Regions(slicing, costs.normalized_cycles))
        for segment in slicing.segments():
            divisions = slicing.divisions(segment)
            fitting = footprints.fitting(segment, divisions)
            for division in divisions:
                expected = fits_by_footprints(footprints, Scheme(segment, division))
                assert (division in fitting) == expected
                (fits if expected else refused).add(segment.kind)
    assert fits == {"turns", "pipeline", "grouped"}
    assert refused


def test_what_is_offered_is_what_rows_have() -> None:
    """Partitions come first, and their costs when they are asked for: all of these parts have a mapping."""
    graph, chip = LayerGraph("goog", load_graph("goog").layers[:6]), small_chip(1 << 18)
    costs = table_of(graph, chip, 4)
    for number in range(len(graph.layers)):
        for streamed, source in ((False, costs.rows), (True, costs.streamed_rows)):
            parts, slices = costs.partitions(number, 2, 12, streamed)
            rows = source(number, 2, 12)
            assert rows.parts.tolist() == parts.tolist()
            assert rows.slices.tolist() == slices.tolist()
