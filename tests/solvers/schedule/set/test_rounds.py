"""Rounds count what a change made new: every tree costs what it costs counted by itself."""

from __future__ import annotations

from random import Random

import pytest

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.formats.layer_graphs import load_layer_graph
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.tree.tree import Cut, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.schedule.set.canonical import sequential_tree
from solvers.schedule.set.operators.operators import WEIGHTS, Current, Operators
from solvers.schedule.set.space import SpaceName, TreeSpace
from solvers.schedule.tiles.cost_table import solved_costs
from solvers.schedule.tiles.layer_parts import TileCostDemand
from solvers.schedule.tiles.mapper import TileMapper

BATCH = 4


def counts(evaluator: ChipEvaluator, tree: TreeNode) -> object:
    try:
        found = evaluator.evaluate(tree)
    except NotPossibleError as reason:
        return str(reason)
    return found.energy_pj, found.cycles, found.parts_pj, found.transitions, found.segment_cycles


@pytest.mark.parametrize("space", ["paper", "layer_sequential"])
def test_trees_by_way_of_others_cost_what_they_cost_by_themselves(space: SpaceName) -> None:
    """A walk that goes on from a tree, or goes back, as annealing does; two steps at a time, too."""
    graph, chip = load_layer_graph("kapla-mobilenet"), load_chip("set-edge", {"mesh": [3, 2]})
    costs = solved_costs(TileCostDemand(graph, chip.tile, chip.tiles, BATCH), TileMapper("nvdla"))
    by_way = ChipEvaluator(graph, chip, BATCH, costs)
    operators = Operators(TreeSpace(graph.producers, BATCH, chip.tiles, space), WEIGHTS["paper"])
    random, possible = Random(3), 0
    current = Current(sequential_tree([layer.name for layer in graph.layers], BATCH))
    for _ in range(30):
        changed = current
        for _ in range(random.randint(1, 2)):
            tree = None
            while tree is None:
                _, tree = operators.draw(changed, random)
            changed = Current(tree)
        found = counts(by_way, changed.tree)
        assert found == counts(ChipEvaluator(graph, chip, BATCH, costs), changed.tree)
        possible += not isinstance(found, str)
        if not isinstance(found, str) and random.random() < 0.6:
            current = changed
    assert possible > 10


def test_a_tree_that_only_looks_like_the_one_before_is_refused() -> None:
    """Its other segments are those of a valid tree, and so are all of its segments by themselves."""
    graph, chip = load_layer_graph("kapla-mobilenet"), load_chip("set-edge")
    costs = solved_costs(TileCostDemand(graph, chip.tile, chip.tiles, BATCH), TileMapper("nvdla"))
    evaluator = ChipEvaluator(graph, chip, BATCH, costs)
    tree = sequential_tree([layer.name for layer in graph.layers], BATCH)
    evaluator.evaluate(tree)
    layers = tree.children
    for wrong in (
        (*layers[:4], layers[5], layers[4], *layers[6:]),  # each reads the one before
        (*layers[:4], *layers[5:]),
        (*layers[:4], layers[4], layers[4], *layers[5:]),
        (*layers[:4], layers[3], *layers[5:]),
    ):
        with pytest.raises(InputError, match="valid tree"):
            evaluator.evaluate(Cut("T", BATCH, 1, wrong))
