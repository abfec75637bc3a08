"""The ways to share weights that schedules try, and what kapla_schedule estimates of them."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import ceil, prod

import pytest

from costmodel.formats.chips import load_chip
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.schedule import kapla
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.kapla.estimates.estimate import Estimates
from solvers.schedule.kapla.estimates.floors import LayerFloor
from solvers.schedule.kapla.regions import Regions
from solvers.schedule.kapla.segments import Scheme, Slicing
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import (
    Pruning,
    Request,
    TileCostDemand,
    TilePart,
    requested_parts,
    shared_partitions,
)
from solvers.schedule.tiles.mapper import TileMapper
from tests.costmodel.schedule.chip_cases import FormulaCosts, chip, layer
from tests.costmodel.schedule.test_shared_weights import wide

EVERY = Pruning(0.0, share_weights=True)


@pytest.mark.parametrize("size", [600, 1000, 3000])
def test_ways_to_share_by_enumeration(size: int) -> None:
    """Of each partition the fewest slices that fit, for one run and for two, and the least of each kind."""
    one, tile = layer("one", c=16, k=24, h=6, w=4, external_c=16), chip(4, 3, size).tile
    parts, slices, sharers = shared_partitions(one, 2, 12, tile, EVERY)
    found = {
        (tuple(part), each, among)
        for part, each, among in zip(parts.tolist(), slices.tolist(), sharers.tolist(), strict=True)
    }
    sizes = one.sizes(2)
    expected = set()
    for part in {tuple(one) for one in parts.tolist()}:
        alike = prod(min(part[axis], sizes[axis]) for axis in (1, 2, 3))
        ways = []
        for among in range(2, alike + 1):
            for each in (1, 2, 4):
                count = among * each
                if alike % among or part[0] * count > one.k:
                    continue
                share, of_slice = (16 * ceil(one.k / (part[0] * cut)) for cut in (among, count))
                others = min(2, count - each)
                inputs = 16 * prod(ceil(sizes[axis] / part[axis]) for axis in (1, 2, 3))
                held = inputs + share + others * of_slice
                ways.append((count, among, held, held + inputs + of_slice))
        ways.sort()
        free = tile.free_bits // 8
        for column in (2, 3):
            fitting = [way for way in ways if way[column] <= free]
            expected |= {(part, *way[:2]) for way in fitting[:1]}
        for each in (1, 2, 4):
            alike_ways = sorted((way for way in ways if way[0] == each * way[1]), key=lambda way: way[2])
            fitting = [way for way in alike_ways if way[2] <= free]
            expected |= {(part, *way[:2]) for way in fitting[:1]}
    assert found == expected
    assert found


def test_costs_are_asked_for_and_tabled_only_where_weights_may_be_shared() -> None:
    graph = LayerGraph("one", (layer("one", c=16, k=24, h=6, w=4, external_c=16),))
    on = load_chip("set-edge")
    asked = {}
    for share in (False, True):
        pruning = Pruning(share_weights=share)
        asked[share] = set(requested_parts(graph, Request(0, 2, 12), on.tile, pruning))
        costs = solved_costs(TileCostDemand(graph, on.tile, 12, 2, pruning), TileMapper("nvdla"))
        assert costs.shares_weights == share
        rows = costs.shared_rows(0, 2, 12)
        assert bool(len(rows.parts)) == share
        assert ((rows.sharers > 1) & (rows.slices % rows.sharers == 0)).all()
    assert asked[False] < asked[True]
    assert all(isinstance(part, TilePart) for part in asked[True])


def test_content_of_a_pruning_that_shares_nothing_is_as_before() -> None:
    """Stored answers have these in their ids."""
    assert Pruning().content == {"least_utilization": 0.75, "most": None}
    shared = Pruning(0.5, 3, share_weights=True)
    assert Pruning(**shared.content) == shared


@pytest.mark.slow
def test_nothing_valid_is_pruned_and_nothing_costs_less_than_estimated() -> None:
    """Every segment in every number of sub-batches, costed in full with shared weights to choose from."""
    graph, batch, sharing, possible, pruned = wide(), 4, 0, 0, 0
    # Where weights can be streamed, too, no segment shares them.
    for size, slices in product((160, 200, 230, 260, 320, 400, 500), ((), (3, 2))):
        on = chip(2, 2, size, link=16, dram=8)
        # vector units as fast as the formula says
        on = replace(on, tile=replace(on.tile, vector_units=on.tile.macs))
        model = ChipModel(on, FormulaCosts(graph, slices=slices, shares=((2, 1), (2, 2), (4, 1))))
        problem = ScheduleProblem(graph, model, batch)
        slicing = Slicing(problem, kapla.Params())
        floors = [LayerFloor.of(graph, number, on) for number in range(len(graph.layers))]
        regions = Regions(slicing, model.tile_costs.normalized_cycles)
        estimates = Estimates(slicing, on, floors, regions, True)
        evaluator = model.evaluator(graph, batch, problem.objective)
        for segment in slicing.segments():
            for division, least in estimates.least(segment, slicing.divisions(segment)):
                scheme = Scheme(segment, division)
                pruned += not estimates.may_fit(scheme)
                try:
                    cost = evaluator.segment(slicing.node(scheme))
                except NotPossibleError:
                    continue
                possible += 1
                sharing += any(one.leaf and one.leaf.sharing for one in (cost, *cost.children))
                assert estimates.may_fit(scheme), scheme
                assert least.cost.energy_pj <= sum(cost.parts_pj) * (1 + 1e-12), scheme
                assert least.cost.cycles <= cost.cycles * (1 + 1e-12), scheme
                assert sum(least.accesses.read) <= cost.dram_read_bits, scheme
    assert possible > 20
    assert pruned > 5
    assert sharing > 2
