"""What layers mapped on the whole chip pay for, against what passes DRAM for every choice of such layers."""

from __future__ import annotations

from itertools import product
from random import Random

import pytest

from costmodel.schedule.bounds.compulsory import layers_traffic, touched_inputs
from costmodel.schedule.bounds.staying import Edge
from costmodel.schedule.bounds.through_dram import Paid, paid_by_layers
from costmodel.schedule.layer_graph.element_bits import ElementBits
from costmodel.schedule.layer_graph.graph import LayerGraph
from tests.costmodel.schedule.chip_cases import chain, chip, every_kind, recurrent, routed

BATCH = 3
ON = chip(2, 2)


def _edges(graph: LayerGraph) -> list[Edge]:
    return [
        (producer, consumer)
        for consumer, layer in enumerate(graph.layers)
        for producer in (*layer.producers, *layer.weight_producers)
    ]


def _own(graph: LayerGraph, staying: frozenset[Edge], number: int, kept: set[Edge]) -> Paid:
    """What a layer reads and writes for edges in ``staying`` but for those ``kept``."""
    layer = graph.layers[number]
    bits = BATCH * ElementBits.of(layer, ON.tile.widths).inputs
    through = {edge for edge in staying if edge not in kept}
    read = sum(
        bits * touched_inputs(layer, one.channels)
        for one in graph.reads(layer)[0]
        if (one.producer, number) in through
    )
    outputs = BATCH * ElementBits.of(layer, ON.tile.widths).outputs * layer.compulsory_elements(1).outputs
    return Paid(read, outputs * any(producer == number for producer, _ in through))


@pytest.mark.parametrize(
    "graph", [chain(4), every_kind(), routed(), recurrent()], ids=lambda graph: graph.name
)
def test_no_choice_passes_less_than_is_paid(graph: LayerGraph) -> None:
    """For all choices of a few layers, of known and unknown costs, edges are followed one by one."""
    random, equal = Random(0), 0
    for _ in range(20):
        staying = frozenset(edge for edge in _edges(graph) if random.random() < 0.8)
        traffic = layers_traffic(graph, BATCH, ON.tile.widths, 1, staying)
        dearness = [random.choice((None, random.uniform(-1, 1))) for _ in graph.layers]
        paid = paid_by_layers(graph, ON, BATCH, staying, traffic, dearness)
        unknown = [one is None for one in dearness]
        assert all(pays == Paid() for pays, one in zip(paid, unknown, strict=True) if one)
        some = random.sample(range(len(graph.layers)), min(6, len(graph.layers)))
        for choice in product((False, True), repeat=len(some)):
            mapped = {number for number, on_chip in zip(some, choice, strict=True) if on_chip}
            kept = {edge for edge in staying if not mapped & set(edge)}
            moved = [_own(graph, staying, number, kept) for number in range(len(graph.layers))]
            # What the bounds count: of a layer that is mapped so, at a known cost, all that it reads and
            # writes, and what it pays; of all others nothing that may stay.
            counted = [Paid()] * len(graph.layers)
            for number in mapped:
                if not unknown[number]:
                    own, pays = _own(graph, staying, number, set()), paid[number]
                    counted[number] = Paid(own.read + pays.read, own.written + pays.written)
            # Of layers that are not mapped so the bounds count outputs that are written anyway elsewhere.
            written = sum(
                one.written
                for number, one in enumerate(moved)
                if number in mapped or not traffic[number].dram_write
            )
            assert sum(one.read for one in counted) <= sum(one.read for one in moved)
            assert sum(one.written for one in counted) <= written
            equal += sum(one.read for one in counted) == sum(one.read for one in moved) > 0
    assert equal
