"""What a chip takes in every cycle of a run: in the count, in the bounds, and in what searches choose."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from costmodel.hardware.chip import Chip
from costmodel.hardware.whole_chip import counted_architecture
from costmodel.mapping.evaluate import evaluate
from costmodel.schedule.bounds.bounds import lower_bounds
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.tile_cost import TileRows
from costmodel.schedule.tree.tree import Leaf
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.schedule.whole_chip.cost import WholeChipCost, whole_chip_cost
from tests.costmodel.schedule.chip_cases import (
    FormulaCosts,
    chain,
    chip,
    every_kind,
    mapped_chip,
    random_mapping,
    random_tree,
)


def idling(on: Chip, tile_pj: float, dram_pj: float) -> Chip:
    """The same chip, whose tiles and DRAM take so much in every cycle."""
    tile = replace(on.tile, leakage_pj_per_cycle=tile_pj)
    return replace(on, tile=tile, dram=replace(on.dram, idle_pj_per_cycle=dram_pj))


def test_all_tiles_and_dram_count_in_all_cycles() -> None:
    """Also tiles that no leaf has, and all rounds; cycles and every other part stay what they are."""
    graph, costs = chain(2), FormulaCosts(chain(2))
    random = Random(3)
    counted = 0
    for _ in range(30):
        tree = random_tree(random, graph, 6)
        # one objective without energy, so that idle energy cannot change what the leaves choose
        plain = ChipEvaluator(graph, chip(3, 2), 6, costs, (0.0, 1.0))
        idle = ChipEvaluator(graph, idling(chip(3, 2), 2.0, 5.0), 6, costs, (0.0, 1.0))
        try:
            before, after = plain.evaluate(tree), idle.evaluate(tree)
        except NotPossibleError:
            continue
        counted += 1
        assert before.cycles == after.cycles
        assert after.parts_pj == before.parts_pj | {"idle": (6 * 2 + 5) * after.cycles}
        assert after.energy_pj == pytest.approx(before.energy_pj + 17 * after.cycles)
    assert counted > 8


def test_a_chip_that_takes_nothing_has_no_such_part() -> None:
    graph = chain(1)
    found = ChipEvaluator(graph, chip(1, 1), 1, FormulaCosts(graph)).evaluate(Leaf("layer0", 1))
    assert list(found.parts_pj) == ["tiles", "transfers", "noc", "dram"]


@pytest.mark.slow
@pytest.mark.parametrize("on", [chip(2, 2), chip(3, 2, link=1)], ids=lambda on: on.tiles)
def test_random_trees_are_not_below_the_bounds(on: Chip) -> None:
    graph, random, fitting = every_kind(), Random(0), 0
    costs, waiting = FormulaCosts(graph), idling(on, 30.0, 100.0)
    bounds, plain = lower_bounds(graph, waiting, 6, costs), lower_bounds(graph, on, 6, costs)
    assert bounds.energy_pj == plain.energy_pj + (30 * on.tiles + 100) * plain.cycles
    evaluator = ChipEvaluator(graph, waiting, 6, costs)
    for _ in range(60):
        try:
            found = evaluator.evaluate(random_tree(random, graph, 6))
        except NotPossibleError:
            continue
        fitting += 1
        assert found.energy_pj >= bounds.energy_pj
    assert fitting > 4


class TwoPartitions(FormulaCosts):
    """Of one layer: 10 pJ less in 1,000 cycles, or 10 pJ more in 10 cycles."""

    def streamed_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        return TileRows.of([])

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        return TileRows.of([((1, 1, 4, 1), 90.0, 1000), ((1, 1, 1, 4), 110.0, 10)])


def test_a_leaf_that_minimises_energy_sees_what_its_cycles_take() -> None:
    """Both cut the layer into equal rows or columns, and fill buffers alike."""
    graph, cycles = chain(1), []
    for idle_pj in (0.0, 100.0):
        on = idling(chip(2, 2, link=10**6, dram=10**6), 0.0, idle_pj)
        found = ChipEvaluator(graph, on, 1, TwoPartitions(graph), (1.0, 0.0)).evaluate(Leaf("layer0", 1))
        cycles.append(found.cycles)
    # the first fetch takes one more
    assert cycles == [1001, 11]


class OnWholeChip(FormulaCosts):
    """A layer that may also run on the whole chip: nearly for free, in 100,000 cycles."""

    def on_whole_chip(self, layer: int, batch: int) -> WholeChipCost:
        return WholeChipCost((1.0, 1.0, 1.0, 1.0), 100_000, 0, 0, 0, 0.0)


def test_a_segment_sees_it_when_it_chooses_how_to_run() -> None:
    graph, mapped = chain(1), []
    for idle_pj in (0.0, 100.0):
        on = idling(chip(2, 2), 0.0, idle_pj)
        found = ChipEvaluator(graph, on, 1, OnWholeChip(graph), (1.0, 0.0)).evaluate(Leaf("layer0", 1))
        mapped.append(found.segments[0].whole_chip is not None)
    assert mapped == [True, False]


def test_one_tile_is_still_its_stack_of_levels() -> None:
    """Its DRAM leaks what tile and DRAM take, so ``evaluate`` and the chip model agree on every mapping."""
    on, graph, random, checked = idling(mapped_chip(1, 1, 4096), 0.75, 0.5), chain(1), Random(5), 0
    nest, stack = graph.layers[0].nest(2), counted_architecture(on)
    assert stack is not None
    while checked < 20:
        mapping = random_mapping(random, stack, nest)
        if mapping is None:
            continue
        checked += 1
        cost, counted = whole_chip_cost(on, nest, mapping), evaluate(stack, nest, mapping)
        if cost.cycles == counted.cycles:  # links may be slower than DRAM
            assert cost.energy_pj + on.idle_pj_per_cycle * cost.cycles == pytest.approx(counted.energy_pj)
        else:
            assert cost.cycles > counted.cycles
