"""Lower bounds, attacked with random trees, and exact where a schedule does nothing but what it must."""

from __future__ import annotations

from random import Random

import pytest

from costmodel.hardware.chip import Chip
from costmodel.hardware.widths import BYTES
from costmodel.schedule.bounds.bounds import least_by_rounds, lower_bounds
from costmodel.schedule.bounds.compulsory import compulsory
from costmodel.schedule.bounds.staying import layers_by_themselves
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.training import training_graph
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget
from solvers.outcome import Status
from solvers.schedule import exhaustive
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from tests.costmodel.schedule.chip_cases import (
    FormulaCosts,
    MappedCosts,
    chain,
    chip,
    every_kind,
    layer,
    mapped_chip,
    of_widths,
    random_segments,
    random_tree,
    recurrent,
    routed,
    shared_heads,
    strided,
)
from tests.thorough import how_many

SMALLEST = 72
"""Bytes of buffers that two layers of a small network do not fit."""
TREES = how_many(32, thorough=80)


@pytest.mark.slow
@pytest.mark.parametrize(
    "graph", [every_kind(), routed(), recurrent(), shared_heads(), chain(5)], ids=lambda graph: graph.name
)
@pytest.mark.parametrize(
    "on",
    [chip(2, 2), chip(3, 2, link=1), chip(2, 1, dram=1), of_widths(chip(2, 2, 2000, dram=1), 4, 12, 24)],
    ids=lambda on: f"{on.tiles} {on.name}",
)
def test_random_trees_are_not_below(graph: LayerGraph, on: Chip) -> None:
    random, costs, fitting = Random(0), FormulaCosts(graph), 0
    for batch in (1, 6):
        bounds = lower_bounds(graph, on, batch, costs)
        evaluator = ChipEvaluator(graph, on, batch, costs)
        for _ in range(TREES):
            try:
                found = evaluator.evaluate(random_tree(random, graph, batch))
            except NotPossibleError:
                continue
            fitting += 1
            assert found.energy_pj >= bounds.energy_pj
            assert found.cycles >= bounds.cycles
            for exponents in ((2.0, 1.0), (1.0, 1.0), (1.0, 3.0)):
                assert Objective(*exponents).value(found.energy_pj, found.cycles) >= bounds.product(exponents)
    assert fitting > how_many(3, thorough=8)


@pytest.mark.slow
@pytest.mark.parametrize("graph", [strided(), training_graph(strided())], ids=lambda graph: graph.name)
@pytest.mark.parametrize(
    "on",
    [
        mapped_chip(2, 2, 256),
        mapped_chip(3, 1, 2000, link=1),
        mapped_chip(1, 2, 300, dram=1),
        of_widths(mapped_chip(2, 2, 600, dram=1), 4, 8, 16),
    ],
    ids=lambda on: f"{on.tiles} {on.name}",
)
def test_trees_with_layers_on_the_whole_chip_are_not_below(graph: LayerGraph, on: Chip) -> None:
    random, mapped, fitting = Random(1), 0, 0
    for batch in (1, 4):
        costs = MappedCosts(graph, on, random)
        bounds = lower_bounds(graph, on, batch, costs)
        for exponents in ((1.0, 0.0), (0.0, 1.0), (1.0, 1.0)):
            evaluator = ChipEvaluator(graph, on, batch, costs, exponents)
            for _ in range(TREES // 4):
                try:
                    found = evaluator.evaluate(random_segments(random, graph, batch))
                except NotPossibleError:
                    continue
                fitting += 1
                mapped += sum(segment.whole_chip is not None for segment in found.segments)
                assert found.energy_pj >= bounds.energy_pj
                assert found.cycles >= bounds.cycles
                for asked in ((1.0, 1.0), (2.0, 1.0), (1.0, 3.0)):
                    value = Objective(*asked).value(found.energy_pj, found.cycles)
                    assert value >= bounds.product(asked)
    assert fitting > how_many(3, thorough=8)
    assert mapped > how_many(3, thorough=8)


@pytest.mark.slow
@pytest.mark.parametrize("exponents", [(1.0, 0.0), (0.0, 1.0), (1.0, 1.0)], ids=["energy", "cycles", "edp"])
@pytest.mark.parametrize("size", [SMALLEST, 300, 2000])
def test_the_best_trees_of_small_networks_are_not_below(size: int, exponents: tuple[float, float]) -> None:
    """Every tree is costed. Two layers do not fit the smallest buffers, however few weights are there."""
    whole, on, batch = strided(), mapped_chip(2, 1, size), 2
    graph = LayerGraph("first layers", whole.layers[:4])
    costs = MappedCosts(graph, on, Random(4))
    problem = ScheduleProblem(graph, ChipModel(on, costs), batch, Objective(*exponents))
    best = exhaustive.solve(problem, Budget())
    assert best.status is Status.OPTIMAL
    assert best.objective is not None
    bound = problem.bound()
    assert bound is not None
    assert 0 < bound <= best.objective * (1 + 1e-12)
    single = layers_by_themselves(graph, on, batch)
    assert single == ({0, 1} if size == SMALLEST else set())


def test_layers_by_themselves_take_their_times_one_after_the_other() -> None:
    """One layer computes for long, and one waits for DRAM: neither can have the other's time."""
    slow = layer("slow", c=64, k=64, h=8, w=8, external_c=64)
    heavy = layer("heavy", "fc", c=64, k=64, h=1, w=1, r=8, s=8, input_h=8, input_w=8, producers=(0,))
    graph = LayerGraph("two", (slow, heavy))
    costs = FormulaCosts(graph)
    least = {}
    for size in (10**6, 2 * 64 * 64):
        on = mapped_chip(1, 1, size)
        (least[size],) = least_by_rounds(graph, on, 1, costs)
    together, apart = least.values()
    assert len(together.segments) == 1
    assert [len(one.segments) for one in (together, apart)] == [1, 2]
    work = sum(one.operations for one in graph.layers) / 4
    assert together.cycles == max(work, together.segments[0].dram)
    assert apart.cycles == sum(one.cycles for one in apart.segments)


def test_one_layer_on_one_tile_is_what_it_must_be() -> None:
    graph, on = chain(1), chip(1, 1)
    bounds = lower_bounds(graph, on, 3, FormulaCosts(graph))
    found = ChipEvaluator(graph, on, 3, FormulaCosts(graph)).evaluate(parse_tree("layer0 3"))
    assert bounds.energy_pj == found.energy_pj
    assert bounds.cycles == found.cycles


def test_compulsory_traffic_of_every_kind() -> None:
    """Counted by hand: strides leave rows out, activations are no weights, operands share a producer."""
    moved = compulsory(every_kind(), 2, BYTES)
    weights = 6 * 27 + 4 * 6 + 6 * 2 * 3 + 6 * 6 + 4 * 11 + 5 * 5 * 2 + 7 * 6 * 4
    assert moved.dram_read == 8 * (weights + 2 * 3 * 20)
    assert moved.dram_write == 8 * 2 * 7
    outputs = 120 + 80 + 120 + 120 + 100 + 20 + 16 + 10 + 10 + 8 + 8 + 7
    assert moved.emptied == 8 * 2 * outputs
    # both reads rows and columns 0 and 2 of 3 x 3; pooled 4 x 4 of 4 x 5
    inputs = 60 + 120 + 120 + 120 + 200 + 80 + 11 * 4 + 20 + 10 + 20 + 8 + 24
    assert moved.filled == 8 * (weights + 2 * (inputs + 2 * 5))
