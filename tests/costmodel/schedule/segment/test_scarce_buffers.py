"""Leaves of segments that overflow: partitions and streamed weights, chosen by prices of buffers' bits."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from random import Random
from typing import Any

import numpy as np

from costmodel.replay.replay import replay
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.leaf import LeafSearch
from costmodel.schedule.leaf.leaf_cost import LeafCost
from costmodel.schedule.leaf.streams import BufferPrices, LeafRun
from costmodel.schedule.program.checker import violations
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.segment.buffers import Held, busy_in_turn
from costmodel.schedule.segment.node_cost import NodeCost, running_pj
from costmodel.schedule.tile_cost import TileRows
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.tree import TreeNode, rounds_of_segments
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.problem import ScheduleProblem, tree_value
from solvers.schedule.set import solver as set_annealing
from tests.costmodel.schedule.chip_cases import FormulaCosts, chip, every_kind, layer, random_tree

TREE = "T 4/4\n\tone 1\n\ttwo 1\n\tthree 1\n"
BATCH = 4


def three_layers() -> LayerGraph:
    """Three layers of unequal weights, each of which can be cut along channels, rows and columns."""
    sizes: dict[str, Any] = {"h": 8, "w": 8, "r": 1, "s": 1}
    return LayerGraph(
        "three",
        (
            layer("one", external_c=16, c=16, k=64, **sizes),
            layer("two", producers=(0,), c=64, k=32, **sizes),
            layer("three", producers=(1,), c=32, k=64, **sizes),
        ),
    )


class Chosen:
    """Tile costs of which each layer has a single row: pinned (``streamed`` False) or streamed."""

    def __init__(self, costs: FormulaCosts, rows: tuple[tuple[bool, int], ...]) -> None:
        self._costs, self._rows = costs, rows

    def __getattr__(self, name: str) -> Any:
        return getattr(self._costs, name)

    def rows(self, number: int, batch: int, tiles: int) -> TileRows:
        return self._one(self._costs.rows(number, batch, tiles), number, False)

    def streamed_rows(self, number: int, batch: int, tiles: int) -> TileRows:
        return self._one(self._costs.streamed_rows(number, batch, tiles), number, True)

    def _one(self, rows: TileRows, number: int, streamed: bool) -> TileRows:
        wanted, at = self._rows[number]
        return rows.kept(np.arange(len(rows.parts)) == (at if wanted == streamed else -1))


def counted(size: int, costs: Any) -> Any:
    graph = three_layers()
    try:
        return ChipEvaluator(graph, chip(2, 1, size), BATCH, costs).evaluate(parse_tree(TREE))
    except NotPossibleError:
        return None


def test_what_is_found_fits_and_is_near_the_best_of_all_choices() -> None:
    """All choices of a row for each leaf are counted; buffers hold all, less, or not even the least."""
    graph = three_layers()
    costs = FormulaCosts(graph, slices=(4,))
    ways = [
        [(False, at) for at in range(len(costs.rows(number, 1, 2).parts))]
        + [(True, at) for at in range(len(costs.streamed_rows(number, 1, 2).parts))]
        for number in range(3)
    ]
    every = list(product(*ways))
    ratios, streaming = [], 0
    for size in (9_000, 5_500, 4_600, 4_300, 3_500, 500):
        found = counted(size, costs)
        fitting = [one for rows in every if (one := counted(size, Chosen(costs, rows))) is not None]
        if not fitting:
            assert found is None
            continue
        assert found is not None
        best = min(one.energy_pj * one.cycles for one in fitting)
        assert found.most_held <= 8 * size
        streaming += any(node.leaf.slices for node in found.nodes() if node.leaf)
        ratios.append(found.energy_pj * found.cycles / best)
        program = write_program(graph, found)
        assert violations(program) == []
        assert replay(program).dram_read_bytes == found.dram_read_bytes
    assert len(ratios) >= 5
    assert streaming > 0
    assert min(ratios) >= 1 - 1e-12
    assert max(ratios) < 1.05


def test_a_leaf_under_prices_takes_the_cheapest_of_all_its_ways() -> None:
    """Each way is counted by itself at no price, and the price of its bits is added here."""
    graph, on, size = three_layers(), chip(2, 1, 9_000), 8 * 9_000
    costs = FormulaCosts(graph, slices=(4,))
    run, search = LeafRun(1, 0, 2, BATCH, True), LeafSearch(graph, on, costs, (1, 1))
    ways = [(False, at) for at in range(len(costs.rows(0, 1, 2).parts))]
    ways += [(True, at) for at in range(len(costs.streamed_rows(0, 1, 2).parts))]
    each = [LeafSearch(graph, on, Chosen(costs, (way, way, way)), (1, 1)).cost(0, run, {}) for way in ways]
    free = search.cost(0, run, {})
    assert free is not None
    unit = float(free.value * BATCH) ** 0.5
    taken = set()
    for kept, running in product((0.0, 0.25, 1.0, 64.0), repeat=2):
        prices = BufferPrices(kept * unit / size, running * unit / size)

        def priced(one: LeafCost, prices: BufferPrices = prices) -> float:
            bits = prices.kept * one.stay_bits + prices.running * one.run_bits
            return float(one.value * (1 + bits / unit) ** 2)

        found = search.cost(0, replace(run, prices=prices), {})
        assert found is not None
        assert np.isclose(priced(found), min(priced(one) for one in each if one is not None), rtol=1e-12)
        taken.add((found.placement, found.slices))
    assert len(taken) > 1


def test_data_from_further_up_leaves_when_its_consumers_have_run() -> None:
    """By hand: the first and the last of three children get 10 and 20 bits for each of two sub-batches."""
    none = np.zeros(1, np.int64)

    def child(further: int) -> Held:
        return Held((none, none + further), none, none, none + further)

    busy = busy_in_turn([child(10), child(0), child(20)], 2, True)
    # The first child runs with all 60 bits; then one of its 10 has gone, and 20 with the last child's run.
    assert [int(one[0]) for one in busy] == [60, 50, 50]
    assert [int(one[0]) for one in busy_in_turn([child(10), child(0), child(20)], 1, True)] == [30, 20, 20]


def test_without_prices_a_segment_costs_no_less() -> None:
    """Random segments in buffers of several sizes. What fits at once costs the same by both counts."""
    graph, random = every_kind(), Random(3)
    costs, dearer, impossible, same = FormulaCosts(graph, slices=(2, 4)), 0, 0, 0
    trees = [random_tree(random, graph, 4) for _ in range(60)]
    for size in (120, 160, 200, 300, 400):
        on = chip(2, 2, size)
        evaluator = ChipEvaluator(graph, on, 4, costs)

        def value(asked: ChipEvaluator, segment: TreeNode) -> float | None:
            try:
                cost: NodeCost = asked.segment(segment)
            except NotPossibleError:
                return None
            return running_pj(cost, asked.chip) * cost.cycles

        for segment in [one for tree in trees for one in rounds_of_segments(tree)[1]]:
            quick, priced = value(evaluator.quick, segment), value(evaluator, segment)
            if quick is None:
                impossible += priced is not None
                continue
            assert priced is not None
            assert priced <= quick
            dearer += priced < quick
            same += priced == quick
    assert min(dearer, impossible, same) > 3


def test_annealers_answer_with_what_the_tree_costs_at_prices() -> None:
    graph = three_layers()
    model = ChipModel(chip(2, 1, 4_300), FormulaCosts(graph, slices=(4,)))
    problem = ScheduleProblem(graph, model, BATCH)
    outcome = set_annealing.solve(problem, Budget(60, seed=1), set_annealing.Params(beta=20))
    assert outcome.solution is not None
    tree = outcome.solution.tree
    assert outcome.objective == tree_value(tree, problem.judge(), problem.objective)
    assert outcome.objective <= tree_value(tree, problem.evaluator().quick, problem.objective)
