"""Known trees on another chip: the best by the objective, what does not fit left out, costs asked for."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.chips import load_chip
from costmodel.hardware.chip import Chip
from costmodel.schedule.layer_graph.graph import LayerGraph, NetworkLayer
from costmodel.schedule.tree.text import format_tree
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.known_trees import CostedTrees, KnownTree, best_of
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.tiles.cost_table import TabledTileCosts, TileCostsNeeded, solved_costs
from solvers.schedule.tiles.layer_parts import TileCostDemand, TilePart, requested_parts
from solvers.schedule.tiles.mapper import TileMapper, TilePartCost, architecture_of
from tests.solvers.schedule.small_trees import every_tree

NAMES = ("a", "b", "c")


def layer(name: str, c: int, k: int, before: tuple[int, ...]) -> NetworkLayer:
    """A 3 x 3 convolution over 8 x 8 pixels."""
    sizes: dict[str, Any] = {"c": c, "k": k, "h": 8, "w": 8, "input_h": 8, "input_w": 8, "r": 3, "s": 3}
    steps: dict[str, Any] = {"stride_h": 1, "stride_w": 1, "pad_h": 1, "pad_w": 1}
    return NetworkLayer(name, "conv", **sizes, **steps, producers=before, external_c=0 if before else c)


GRAPH = LayerGraph("chain", (layer("a", 16, 32, ()), layer("b", 32, 64, (0,)), layer("c", 64, 32, (1,))))
TREES = [KnownTree(f"task {number}", format_tree(tree)) for number, tree in enumerate(every_tree(NAMES, 4))]


def problem_on(chip: Chip, objective: str = "edp") -> ScheduleProblem:
    demand = TileCostDemand(GRAPH, chip.tile, chip.tiles, 4)
    costs = solved_costs(demand, TileMapper("nvdla"))
    return ScheduleProblem(GRAPH, ChipModel(chip, costs), 4, Objective.named(objective))


@pytest.fixture(scope="module")
def chip() -> Chip:
    return load_chip("set-edge", {"mesh": [2, 1]})


def dominates(one: tuple[float, int], other: tuple[float, int]) -> bool:
    return one != other and one[0] <= other[0] and one[1] <= other[1]


@pytest.mark.parametrize("objective", ["edp", "energy", "cycles", "e2d"])
def test_the_best_tree_is_the_one_of_least_objective_and_none_dominates_it(
    chip: Chip, objective: str
) -> None:
    problem = problem_on(chip, objective)
    found = best_of(problem, TREES, 10.0)
    judge, costs = problem.judge(), {}
    for tree, node in zip(TREES, every_tree(NAMES, 4), strict=True):
        try:
            cost = judge.evaluate(node)
        except NotPossibleError:
            continue
        costs[tree] = cost.energy_pj, cost.cycles
    assert {one.tree: (one.energy_pj, one.cycles) for one in found.possible} == costs
    assert (len(costs) + found.not_possible, found.not_possible > 0) == (len(TREES), True)
    assert found.best is not None
    assert found.outcome.solution is not None
    best = costs[found.best]
    assert problem.objective.value(*best) == min(problem.objective.value(*one) for one in costs.values())
    assert not any(dominates(one, best) for one in costs.values())
    assert best == (found.outcome.solution.energy_pj, found.outcome.solution.cycles)
    kept = [(one.energy_pj, one.cycles) for one in found.nondominated]
    expected = {one for one in costs.values() if not any(dominates(other, one) for other in costs.values())}
    assert len(kept) == len(expected)
    assert set(kept) == expected


def test_trees_that_need_more_tiles_or_larger_buffers_are_left_out(chip: Chip) -> None:
    side_by_side: TreeNode = Cut("S", 4, 4, tuple(Leaf(name, 1) for name in NAMES))
    in_turn: TreeNode = Cut("T", 4, 1, tuple(Leaf(name, 4) for name in NAMES))
    trees = [KnownTree("wide", format_tree(side_by_side)), KnownTree("tall", format_tree(in_turn))]
    # two tiles cannot run three layers at once
    found = best_of(problem_on(chip), trees, 10.0)
    assert ([one.tree.found_by for one in found.possible], found.not_possible) == (["tall"], 1)
    # beside its stream of outputs a tile has 1 KiB: no partition of any layer fits
    tile = replace(chip.tile, buffer=replace(chip.tile.buffer, size_bytes=11_264))
    none = best_of(problem_on(replace(chip, tile=tile)), trees, 10.0)
    assert (str(none.outcome.status), none.best, none.not_possible) == ("unknown", None, 2)
    assert "none of 2 trees" in none.outcome.note


def test_a_tree_of_other_layers_is_an_error_and_not_left_out(chip: Chip) -> None:
    other: TreeNode = Cut("T", 4, 1, (Leaf("a", 4), Leaf("b", 4)))
    with pytest.raises(InputError, match="chain"):
        best_of(problem_on(chip), [KnownTree("other", format_tree(other))], 10.0)


def asked_step_by_step(chip: Chip, trees: list[KnownTree]) -> tuple[CostedTrees, int]:
    """What comes out where only the costs are known that were asked for, and after how many questions."""
    architecture, mapper = architecture_of(chip.tile), TileMapper("nvdla")
    known: dict[TilePart, TilePartCost | None] = {}
    for questions in range(40):
        table = TabledTileCosts(GRAPH, chip.tile, known)
        try:
            return best_of(ScheduleProblem(GRAPH, ChipModel(chip, table), 4), trees, 10.0), questions
        except TileCostsNeeded as needed:
            before = len(known)
            for request in needed.requests:
                for part in requested_parts(GRAPH, request, chip.tile, table.pruning):
                    known[part] = mapper.cost(architecture, part)
            assert len(known) > before
    raise AssertionError("it asks for ever")


@pytest.mark.slow
def test_costs_that_are_missing_are_asked_for_and_change_nothing(chip: Chip) -> None:
    trees = TREES[:60]
    found, questions = asked_step_by_step(chip, trees)
    whole = best_of(problem_on(chip), trees, 10.0)
    assert questions > 0
    assert (found.possible, found.best) == (whole.possible, whole.best)
