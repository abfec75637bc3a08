"""Lower bounds, attacked with random trees, and exact where a schedule does nothing but what it must."""

from __future__ import annotations

from random import Random

import pytest

from costmodel.hardware.chip import Chip
from costmodel.schedule.bounds import lower_bounds
from costmodel.schedule.compulsory import compulsory
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.training import training_graph
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.validity import NotPossibleError
from tests.costmodel.schedule.chip_cases import (
    FormulaCosts,
    MappedCosts,
    chain,
    chip,
    every_kind,
    mapped_chip,
    random_segments,
    random_tree,
    strided,
)

TREES = 80


@pytest.mark.parametrize("graph", [every_kind(), chain(5)], ids=lambda graph: graph.name)
@pytest.mark.parametrize(
    "on", [chip(2, 2), chip(3, 2, link=1), chip(2, 1, dram=1)], ids=lambda on: f"{on.tiles}"
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
            assert found.energy_pj**2 * found.cycles >= bounds.product((2.0, 1.0))
    assert fitting > 8


@pytest.mark.parametrize("graph", [strided(), training_graph(strided())], ids=lambda graph: graph.name)
@pytest.mark.parametrize(
    "on",
    [mapped_chip(2, 2, 256), mapped_chip(3, 1, 2000, link=1), mapped_chip(1, 2, 300, dram=1)],
    ids=lambda on: on.tiles,
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
    assert fitting > 8
    assert mapped > 8


def test_one_layer_on_one_tile_is_what_it_must_be() -> None:
    graph, on = chain(1), chip(1, 1)
    bounds = lower_bounds(graph, on, 3, FormulaCosts(graph))
    found = ChipEvaluator(graph, on, 3, FormulaCosts(graph)).evaluate(parse_tree("layer0 3"))
    assert bounds.energy_pj == found.energy_pj
    assert bounds.cycles == found.cycles


def test_compulsory_traffic_of_every_kind() -> None:
    """Counted by hand: strides leave rows out, activations are no weights, operands share a producer."""
    moved = compulsory(every_kind(), 2)
    weights = 6 * 27 + 4 * 6 + 6 * 2 * 3 + 6 * 6 + 4 * 11 + 5 * 5 * 2 + 7 * 6 * 4
    assert moved.dram_read == weights + 2 * 3 * 20
    assert moved.dram_write == 2 * 7
    outputs = 120 + 80 + 120 + 120 + 100 + 20 + 16 + 10 + 10 + 8 + 8 + 7
    assert moved.emptied == 2 * outputs
    # both reads rows and columns 0 and 2 of 3 x 3; pooled 4 x 4 of 4 x 5
    inputs = 60 + 120 + 120 + 120 + 200 + 80 + 11 * 4 + 20 + 10 + 20 + 8 + 24
    assert moved.filled == weights + 2 * (inputs + 2 * 5)
