"""Segments that become one: T cuts of blocks keep every edge, and joining them never makes a tree worse."""

from __future__ import annotations

from itertools import combinations
from random import Random

import pytest

from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tree.data_flow import DataFlow
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.tree import Cut, Leaf, depth, leaves
from solvers.budget import Budget
from solvers.schedule import segment_chain
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, violations
from solvers.schedule.segment_chain import Params
from solvers.schedule.segment_chain.blocks import block_ends, blocks
from solvers.schedule.segment_chain.forms import comb
from solvers.schedule.segment_chain.joining import joined, joints
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, chip, layer


def random_edges(random: Random, count: int) -> list[tuple[int, int]]:
    """Every place but the first reads one or two before it, mostly near ones."""
    return [
        (max(0, after - random.choice((1, 1, 1, 2, 4))), after)
        for after in range(1, count)
        for _ in range(random.choice((1, 1, 2)))
    ]


def test_there_are_no_more_blocks_than_these() -> None:
    random = Random(0)
    for count in range(2, 8):
        for _ in range(30):
            edges = random_edges(random, count)
            ways = [
                ends
                for number in range(1, count)
                for ends in combinations(range(1, count), number)
                if all(sum(before < end <= after for end in ends) <= 1 for before, after in edges)
            ]
            *ends, last = block_ends(edges, count)
            assert last == count
            assert tuple(ends) in ways
            assert len(ends) == max(map(len, ways))


def test_blocks_keep_every_edge_on_the_chip() -> None:
    """By the flow of the paper's tree, which knows nothing of blocks."""
    random, nested = Random(1), 0
    for _ in range(60):
        count = random.randint(2, 9)
        edges = random_edges(random, count)
        tree = blocks([Leaf(str(number), 2) for number in range(count)], edges)
        assert [leaf.layer for leaf in leaves(tree)] == [str(number) for number in range(count)]
        reads = {str(one): sorted({str(a) for a, b in edges if b == one}) for one in range(count)}
        # as a segment: children of a root T cut exchange all data through DRAM
        assert all(edge.on_chip for edge in DataFlow(Cut("T", 2, 1, (tree,)), reads).edges)
        nested += depth(tree) > 1
    assert nested > 20


def test_a_residual_block_is_nested_once() -> None:
    edges = [(0, 1), (1, 2), (2, 3), (0, 3), (3, 4), (4, 5), (5, 6), (3, 6)]
    tree = blocks([Leaf(name, 8) for name in "abcdefg"], edges)
    assert tree == parse_tree(
        "T 8/1\n\ta 8\n\tT 8/1\n\t\tb 8\n\t\tc 8\n\t\td 8\n\tT 8/1\n\t\te 8\n\t\tf 8\n\t\tg 8\n"
    )
    flat = blocks([Leaf(name, 8) for name in "abc"], [(0, 1), (1, 2)])
    assert flat == Cut("T", 8, 1, tuple(Leaf(name, 8) for name in "abc"))


def residual(count: int) -> LayerGraph:
    """Pairs of layers, each pair's inputs added to its outputs."""
    layers = [layer("0", external_c=4)]
    for number in range(1, 3 * count, 3):
        layers += [
            layer(f"{number}", producers=(number - 1,)),
            layer(f"{number + 1}", producers=(number,)),
            layer(f"{number + 2}", "eltwise", c=8, operands=2, producers=(number - 1, number + 1)),
        ]
    return LayerGraph("residual", tuple(layers))


def problem_on(buffer: int, graph: LayerGraph, name: str = "edp") -> ScheduleProblem:
    return ScheduleProblem(
        graph, ChipModel(chip(2, 2, buffer), FormulaCosts(graph)), 2, Objective.named(name)
    )


def test_combs_and_blocks_keep_every_edge_and_a_comb_may_hold_less() -> None:
    """What came from further up leaves a comb as it is read; a block that runs has all inputs of the next."""
    graph = residual(5)
    batch = [Leaf(one.name, 2) for one in graph.layers]
    edges = [(one, number) for number, it in enumerate(graph.layers) for one in it.producers]
    held = {}
    for name, tree in (("comb", comb(batch)), ("blocks", blocks(batch, edges))):
        evaluator = ChipEvaluator(graph, chip(2, 2, 1 << 20), 2, FormulaCosts(graph))
        cost = evaluator.segment(tree)
        held[name] = cost.held.most, cost.dram_bits
    assert held["comb"][1] == held["blocks"][1]
    assert held["comb"][0] < held["blocks"][0]


@pytest.mark.parametrize("name", ["edp", "energy", "cycles"])
@pytest.mark.parametrize("buffer", [700, 1500, 1 << 20])
def test_joining_makes_no_tree_worse(buffer: int, name: str) -> None:
    problem = problem_on(buffer, residual(3), name)
    alone = segment_chain.solve(
        problem, Budget(), Params(longest=2, blocks=False, joined=False, changes=0, reshapes=0)
    )
    more = segment_chain.solve(problem, Budget(), Params(longest=2, blocks=False, changes=0, reshapes=0))
    assert alone.solution is not None
    assert more.solution is not None
    assert more.objective is not None
    assert alone.objective is not None
    assert violations(problem, more.solution) == []
    assert more.objective <= alone.objective
    assert more.evaluations > alone.evaluations
    assert more.bound is not None
    assert more.bound <= more.objective * (1 + 1e-12)


def test_what_is_joined_is_the_best_pair_first() -> None:
    problem = problem_on(1 << 20, chain(4))
    evaluator = problem.evaluator()
    assert isinstance(evaluator, ChipEvaluator)
    names = [one.name for one in problem.graph.layers]
    tree = Cut("T", 2, 1, tuple(Leaf(name, 2) for name in names))

    def value(of: Cut) -> float:
        cost = evaluator.evaluate(of)
        return problem.objective.value(cost.energy_pj, cost.cycles)

    asked = iter([True, True, True])
    one_step, _ = joined(tree, evaluator, problem.objective, lambda: next(asked, False))
    pairs = [
        Cut(
            "T",
            2,
            1,
            (*tree.children[:at], Cut("T", 2, 1, tree.children[at : at + 2]), *tree.children[at + 2 :]),
        )
        for at in range(3)
    ]
    assert value(one_step) == min(map(value, pairs)) < value(tree)
    to_the_end, counted = joined(tree, evaluator, problem.objective, lambda: True)
    assert value(to_the_end) <= value(one_step)
    assert counted > 3


def test_joints_of_turns_and_of_what_has_bands() -> None:
    turns, leaf = Cut("T", 2, 1, (Leaf("a", 2), Leaf("b", 2))), Leaf("c", 2)
    assert list(joints(turns, leaf)) == [
        Cut("T", 2, 1, (turns, leaf)),
        Cut("T", 2, 1, (Leaf("a", 2), Leaf("b", 2), leaf)),
    ]
    halves = Cut("T", 2, 2, (Leaf("a", 1), Leaf("b", 1)))
    assert list(joints(leaf, halves)) == [Cut("T", 2, 1, (leaf, halves))]
    assert list(joints(leaf, Cut("T", 2, 2, (Leaf("a", 1),), 2))) == []
