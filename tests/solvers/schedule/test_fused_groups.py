"""Schedules whose segments may be mapped together: what is offered, what it is worth, and what is proven."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import pytest

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.formats.networks import load_network
from costmodel.hardware.chip import Chip
from costmodel.hardware.whole_chip import tile_stack
from costmodel.mapping.fused.layers.links import group_of
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.fused_groups.cuts import cuts_of
from costmodel.schedule.fused_groups.members import chip_group
from costmodel.schedule.layer_graph.graph import LayerGraph
from solvers.budget import Budget
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.fused_groups import (
    FusedGroupCosts,
    GroupMapper,
    check_groups,
    groups_of,
    names_of,
    solved_groups,
)
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.segment_chain import solver as chain_solver
from solvers.schedule.tiles.cost_table import TabledTileCosts, solved_costs
from solvers.schedule.tiles.layer_parts import TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper
from tests.costmodel.schedule.chip_cases import mapped_chip
from tests.costmodel.schedule.fused_cases import GRAPHS, attention, bottleneck, gated

SMALL = 96
"""Bytes of a tile's buffer in which layers do not hand on their outputs."""


@cache
def small_chip() -> Chip:
    return mapped_chip(2, 1, SMALL)


@cache
def costs(graph: LayerGraph) -> TabledTileCosts:
    on = small_chip()
    demand = TileCostDemand(graph, on.tile, on.tiles, 1)
    return solved_costs(demand, TileMapper("exact", budget=Budget(20.0)), on)


def solved(
    graph: LayerGraph, objective: str, groups: FusedGroupCosts | None
) -> tuple[float, float, ChipEvaluation]:
    """The objective and bound of the best chain of segments, and what it costs."""
    model = ChipModel(small_chip(), costs(graph), groups=groups)
    problem = ScheduleProblem(graph, model, 1, Objective.named(objective))
    found = chain_solver.solve(problem, Budget(60.0))
    assert found.solution is not None
    assert found.bound is not None
    assert found.objective is not None
    cost = problem.judge().evaluate(found.solution.tree)
    assert isinstance(cost, ChipEvaluation)
    return found.objective, found.bound, cost


@pytest.mark.slow
@pytest.mark.parametrize("objective", ["energy", "edp", "cycles"])
def test_small_buffers_make_groups_worth_it(objective: str) -> None:
    """A bottleneck whose maps fit no buffer: together it takes less, and the bound knows that it may."""
    graph, named = bottleneck(), Objective.named(objective)
    groups = solved_groups(graph, small_chip(), 1, GroupMapper(named.of_tiles, Budget(20.0)), named)
    apart, bound_apart, without = solved(graph, objective, None)
    together, bound, found = solved(graph, objective, groups)
    assert bound <= together <= apart
    assert bound <= bound_apart
    grouped = [segment for segment in found.segments if segment.group is not None]
    if objective != "cycles":
        assert grouped
        assert together < apart
        assert found.dram_bytes < without.dram_bytes
    for segment in grouped:
        assert segment.group is not None
        assert segment.cycles == sum(layer.cycles for layer in segment.group.layers)
        assert sum(segment.parts_pj) == pytest.approx(segment.group.whole.energy_pj)


@pytest.mark.parametrize(
    ("graph", "expected"),
    [
        (bottleneck(), {"expand depthwise", "expand depthwise project", "depthwise project"}),
        (attention(), {"scores softmax values"}),
        (gated(), {"gate up active times down"}),
    ],
    ids=["bottleneck", "attention", "gated"],
)
def test_what_is_a_group(graph: LayerGraph, expected: set[str]) -> None:
    """Keys and rows pass through weights, of which no loop cuts anything: they may still be kept whole."""
    found = {
        " ".join(layer.name for layer in graph.layers if layer.name in names_of(graph, group))
        for group in groups_of(graph, mapped_chip(2, 2), 1)
    }
    assert expected <= found
    for group in groups_of(graph, mapped_chip(2, 2), 1):
        assert all(cut.tiles <= 4 for cut in cuts_of(group.group, (2, 2), 8))


def test_layers_that_others_read_or_that_read_others_are_no_group() -> None:
    graph = bottleneck()
    stack = tile_stack(mapped_chip())
    assert stack is not None
    read = replace(graph.layers[2], name="other", c=4, k=2, producers=(0,))
    twice = LayerGraph("twice", (*graph.layers, read))
    # what the expansion makes is read outside: it goes to DRAM, and over that border nothing stays
    assert chip_group(graph, {0, 1}, 1, stack) is not None
    assert chip_group(twice, {0, 1}, 1, stack) is None
    # a vector layer that reads something from outside is none of a group
    gated_graph, _ = GRAPHS["gated"]
    assert chip_group(gated_graph, {1, 2, 3, 4}, 1, stack) is None
    # one product alone is none
    assert chip_group(graph, {0}, 1, stack) is None


def test_a_library_network_has_the_groups_that_its_graph_of_operators_has() -> None:
    """Loops of the group that the chip's network makes are those that the operator graph makes."""
    names = ("block3.1.expand", "block3.1.depthwise", "block3.1.project")
    graph = load_layer_graph("mobilenet_v2")
    stack = tile_stack(load_chip("set-edge-eyeriss"))
    assert stack is not None
    mine = chip_group(graph, {graph.index[name] for name in names}, 1, stack)
    theirs = group_of(stack, load_network("mobilenet_v2"), names)
    assert mine is not None
    assert mine.group.cutting == theirs.cutting
    assert mine.group.slides == theirs.slides
    assert [layer.dims for layer in mine.group.layers] == [layer.dims for layer in theirs.layers]
    assert [one.reads for one in mine.group.intermediates] == [one.reads for one in theirs.intermediates]


def test_tiles_without_levels_are_refused() -> None:
    on = mapped_chip()
    check_groups(on)
    with pytest.raises(InputError, match="tiles with an architecture"):
        check_groups(replace(on, tile=replace(on.tile, architecture=None)))
