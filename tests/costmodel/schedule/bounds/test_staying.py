"""Edges that cannot stay on the chip: no tree that fits keeps one of them there."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from costmodel.hardware.widths import BYTES
from costmodel.published.set_isca2023.segment_flow import SegmentFlow
from costmodel.schedule.bounds.bounds import ScheduleBounds
from costmodel.schedule.bounds.compulsory import compulsory, layers_traffic
from costmodel.schedule.bounds.staying import edges_that_can_stay, layers_by_themselves
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tree.tree import Leaf
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.schedule.tree.wiring import Wiring
from tests.costmodel.schedule.chip_cases import FormulaCosts, chip, every_kind, layer, random_tree, routed


def heavy() -> LayerGraph:
    """Layers with 256 bytes of weights, for 64 bytes of inputs and of outputs a sample, and one without."""
    sizes: dict[str, Any] = {"c": 16, "k": 16, "h": 2, "w": 2}
    layers = (
        layer("first", external_c=16, **sizes),
        layer("plain", "ptp", producers=(0,), **sizes),
        layer("second", producers=(1,), **sizes),
        layer("third", producers=(2,), **sizes),
    )
    return LayerGraph("heavy", layers)


@pytest.mark.slow
@pytest.mark.parametrize("buffer", [90, 235, 300, 345, 600])
@pytest.mark.parametrize("graph", [heavy(), every_kind(), routed()], ids=lambda graph: graph.name)
def test_no_node_that_fits_keeps_another_edge(graph: LayerGraph, buffer: int) -> None:
    """Every node of random trees is tried as a segment, as whole trees hardly ever fit small buffers."""
    random, on, batch, kept, fitting = Random(2), chip(2, 1, buffer), 4, 0, 0
    evaluator = ChipEvaluator(graph, on, batch, FormulaCosts(graph, slices=(1, 2, 4, 16)))
    wiring = Wiring.of(graph.producers)
    stays = {samples: edges_that_can_stay(graph, on, samples) for samples in (1, 2, 4)}
    single = {samples: layers_by_themselves(graph, on, samples) for samples in stays}
    for _ in range(100):
        waiting = [random_tree(random, graph, batch, deepest=3)]
        while waiting:
            node = waiting.pop()
            waiting += [] if isinstance(node, Leaf) else node.children
            try:
                evaluator.segment(node)
            except NotPossibleError:
                continue
            fitting += 1
            flow = SegmentFlow(node, wiring)
            assert single[node.batch].isdisjoint(flow.layers)
            for consumer, producers in flow.sources.items():
                kept += len(producers)
                assert all((producer, consumer) in stays[node.batch] for producer in producers)
    assert fitting > 100
    assert kept > (0 if buffer == 90 else 5)


def test_an_edge_stays_where_both_layers_fit_with_a_slice_of_their_weights() -> None:
    """By hand, on two tiles, each with half of the rows: slices of 16 bytes on both and 64 bytes of inputs.

    64 bytes arrive for the consumer meanwhile, which makes 160 for a producer with weights, and 128 for one
    without. How many samples there are makes no difference, as a leaf may take one at a time.
    """
    graph = heavy()
    for samples in (1, 2):
        assert edges_that_can_stay(graph, chip(2, 1, 80), samples) == {(0, 1), (1, 2), (2, 3)}
        assert edges_that_can_stay(graph, chip(2, 1, 79), samples) == {(1, 2)}
        assert edges_that_can_stay(graph, chip(2, 1, 63), samples) == set()


def test_a_layer_that_no_tiles_hold_runs_by_itself() -> None:
    """By hand, on two tiles, each with half of the rows: 32 bytes of inputs, 16 of weights, 8 for outputs."""
    graph = heavy()
    assert layers_by_themselves(graph, chip(2, 1, 56), 1) == frozenset()
    assert layers_by_themselves(graph, chip(2, 1, 55), 1) == {0, 2, 3}
    # a leaf may take one sample of four at a time
    assert layers_by_themselves(graph, chip(2, 1, 56), 4) == frozenset()
    assert not edges_that_can_stay(graph, chip(2, 1, 55), 1)


def test_what_cannot_stay_is_written_and_read_and_each_round_loads_weights() -> None:
    graph, on = heavy(), chip(2, 1, 79)
    least = compulsory(graph, 2, BYTES)
    in_one_round = layers_traffic(graph, 2, BYTES, 1, edges_that_can_stay(graph, on, 2))
    in_two_rounds = layers_traffic(graph, 2, BYTES, 2, edges_that_can_stay(graph, on, 1))
    leaving = 8 * 2 * 2 * 64
    for found in (in_one_round, in_two_rounds):
        assert sum(one.dram_write for one in found) == least.dram_write + leaving
    assert sum(one.dram_read for one in in_one_round) == least.dram_read + leaving
    assert sum(one.dram_read for one in in_two_rounds) == least.dram_read + leaving + 8 * 3 * 256


def test_the_product_is_that_of_one_number_of_rounds() -> None:
    """Few rounds take less time here and more energy; no schedule has the least of both."""
    bounds = ScheduleBounds(2.0, 3.0, ((2.0, 7.0), (5.0, 3.0)))
    assert bounds.product((1.0, 1.0)) == 14.0
    assert bounds.product((1.0, 0.0)) == 2.0
    assert bounds.product((0.0, 1.0)) == 3.0
    assert ScheduleBounds(2.0, 3.0).product((1.0, 1.0)) == 6.0
