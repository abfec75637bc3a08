"""Segments of one layer mapped on the whole chip: which way counts, what is added up, what refused."""

from __future__ import annotations

from dataclasses import replace

import pytest

from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.layer_graph.training import training_graph
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.schedule.whole_chip.cost import WholeChipCost
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, chip, strided

BATCH = 4


class OfferedCosts(FormulaCosts):
    """Formulas, and the same costs on the whole chip for any layer and batch."""

    def __init__(self, graph: LayerGraph, offered: WholeChipCost | None) -> None:
        super().__init__(graph)
        self.offered = offered

    def on_whole_chip(self, layer: int, batch: int) -> WholeChipCost | None:
        return self.offered


def evaluated(
    tree: TreeNode,
    offered: WholeChipCost | None,
    exponents: tuple[float, float] = (1.0, 1.0),
    graph: LayerGraph | None = None,
    buffer: int = 1 << 20,
) -> ChipEvaluation:
    graph = graph or chain(3)
    evaluator = ChipEvaluator(graph, chip(2, 2, buffer), BATCH, OfferedCosts(graph, offered), exponents)
    return evaluator.evaluate(tree)


def half_the_energy_thrice_the_cycles() -> WholeChipCost:
    pinned = evaluated(Leaf("layer0", BATCH), None, graph=chain(1)).segments[0]
    tiles, transfers, noc, dram = (part / 2 for part in pinned.parts_pj)
    return WholeChipCost((tiles, transfers, noc, dram), 3 * pinned.cycles, 2 * pinned.busy, 7, 5, 11.5)


@pytest.mark.parametrize(
    ("exponents", "mapped"),
    [((1.0, 0.0), True), ((0.0, 1.0), False), ((1.0, 1.0), False), ((2.0, 1.0), True)],
)
def test_a_layer_runs_as_the_objective_says(exponents: tuple[float, float], mapped: bool) -> None:
    offered = half_the_energy_thrice_the_cycles()
    found = evaluated(Leaf("layer0", BATCH), offered, exponents, chain(1))
    assert (found.segments[0].whole_chip is offered) == mapped
    assert (found.segments[0].leaf is None) == mapped


def test_a_schedule_adds_up_layers_on_the_whole_chip_and_pinned() -> None:
    """Two rounds of a layer mapped on the whole chip, and of two in turns, which stay pinned."""
    offered = replace(half_the_energy_thrice_the_cycles(), parts_pj=(0.0, 1.0, 2.0, 3.0), cycles=1)
    turns = Cut("T", 2, 1, (Leaf("layer1", 2), Leaf("layer2", 2)))
    found = evaluated(Cut("T", BATCH, 2, (Leaf("layer0", 2), turns)), offered, (1.0, 0.0))
    mapped, pinned = found.segments
    assert mapped.whole_chip is offered
    assert all(child.leaf is not None for child in pinned.children)
    assert found.cycles == 2 * (1 + pinned.cycles)
    assert found.energy_pj == pytest.approx(2 * (6.0 + sum(pinned.parts_pj)))
    assert found.dram_read_bits == 2 * (7 + pinned.dram_read_bits)
    assert found.dram_write_bits == 2 * (5 + pinned.dram_write_bits)
    assert found.noc_hop_bits == 2 * (11.5 + int(pinned.links.sum()) / 4)
    assert found.bubble_tile_cycles == 4 * found.cycles - 2 * (offered.tile_cycles + pinned.busy)
    drawn = found.spatial_temporal(chain(3).producers)
    assert {(one.first_tile, one.end_tile) for one in drawn if one.layer == "layer0"} == {(0, 4)}


def test_weights_that_fit_no_buffer_are_streamed() -> None:
    offered = half_the_energy_thrice_the_cycles()
    with pytest.raises(NotPossibleError, match="layer0: no partition of 4 samples"):
        evaluated(Leaf("layer0", BATCH), None, graph=chain(1), buffer=16)
    assert (
        evaluated(Leaf("layer0", BATCH), offered, graph=chain(1), buffer=16).segments[0].whole_chip is offered
    )


def test_layers_that_need_the_whole_chip_are_segments_of_their_own() -> None:
    graph = training_graph(strided())
    names = [layer.name for layer in graph.layers]
    single = Cut("T", BATCH, 1, tuple(Leaf(name, BATCH) for name in names))
    offered = replace(half_the_energy_thrice_the_cycles(), cycles=10**9)
    found = evaluated(single, offered, (0.0, 1.0), graph)
    only = {layer.name for layer in graph.layers if layer.needs_whole_chip}
    assert {one.part for one in graph.layers if one.needs_whole_chip} == {"error", "update"}
    assert only == {segment.node.layer for segment in found.segments if segment.whole_chip}  # type: ignore[union-attr]
    with pytest.raises(
        NotPossibleError, match="runs only mapped on the whole chip, and has no mapping of 4 samples"
    ):
        evaluated(single, None, graph=graph)
    pair = Cut("S", BATCH, 1, tuple(Leaf(name, BATCH) for name in names[-2:]))
    rest = tuple(Leaf(name, BATCH) for name in names[:-2])
    with pytest.raises(NotPossibleError, match="runs only mapped on the whole chip, as a segment of its own"):
        evaluated(Cut("T", BATCH, 1, (*rest, pair)), offered, graph=graph)
