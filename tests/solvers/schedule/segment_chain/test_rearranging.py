"""Changes to the cuts of a tree: all give valid trees, none is kept that costs more; nesting hides loads."""

from __future__ import annotations

from random import Random
from typing import Any

import pytest

from costmodel.replay.replay import replay
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.program.writer import write_program
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, leaves
from costmodel.schedule.tree.validity import violations
from solvers.budget import Budget
from solvers.schedule import segment_chain
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem
from solvers.schedule.segment_chain import Params
from solvers.schedule.segment_chain.rearranging import changes, rearranged
from tests.costmodel.schedule.chip_cases import FormulaCosts, chip, layer


def random_node(random: Random, names: list[str], batch: int) -> TreeNode:
    if len(names) == 1:
        return Leaf(names[0], batch)
    subbatches = random.choice([parts for parts in (1, 2, 4) if batch % parts == 0])
    ends = sorted(random.sample(range(1, len(names)), random.randint(1, min(3, len(names) - 1))))
    parts = [names[a:b] for a, b in zip([0, *ends], [*ends, len(names)], strict=True)]
    children = tuple(random_node(random, part, batch // subbatches) for part in parts)
    return Cut(random.choice(("S", "T")), batch, subbatches, children)


def random_tree(random: Random, count: int, rounds: int = 1) -> Cut:
    names = [str(number) for number in range(count)]
    ends = sorted(random.sample(range(1, count), random.randint(1, min(3, count - 1))))
    parts = [names[a:b] for a, b in zip([0, *ends], [*ends, count], strict=True)]
    return Cut("T", 4, rounds, tuple(random_node(random, part, 4 // rounds) for part in parts))


@pytest.mark.parametrize("reshaping", [False, True])
def test_every_change_gives_another_valid_tree_of_as_many_rounds(reshaping: bool) -> None:
    random, seen = Random(0), 0
    for _ in range(200):
        count, rounds = random.randint(2, 7), random.choice((1, 2))
        tree = random_tree(random, count, rounds)
        reads = {str(number): [str(number - 1)] if number else [] for number in range(count)}
        for other in changes(tree, reshaping):
            seen += 1
            assert other.kind == "T"
            assert other.subbatches == rounds
            assert violations(other, reads, 4) == []
            assert [leaf.layer for leaf in leaves(other)] == list(reads)
            assert other != tree
    assert seen > 1000


def test_what_is_nested_can_be_opened_and_what_has_moved_can_come_back() -> None:
    flat = parse_tree("T 4/1\n\tT 4/1\n\t\ta 4\n\t\tb 4\n\t\tc 4\n\td 4\n")
    nested = parse_tree("T 4/1\n\tT 4/1\n\t\tT 4/1\n\t\t\ta 4\n\t\t\tb 4\n\t\tc 4\n\td 4\n")
    moved = parse_tree("T 4/1\n\tT 4/2\n\t\ta 2\n\t\tb 2\n\tT 4/4\n\t\tc 1\n\t\td 1\n")
    further = parse_tree("T 4/1\n\ta 4\n\tT 4/4\n\t\tb 1\n\t\tc 1\n\t\td 1\n")
    for one, other in ((flat, nested), (moved, further)):
        assert isinstance(one, Cut)
        assert isinstance(other, Cut)
        assert other in list(changes(one))
    assert isinstance(nested, Cut)
    assert flat in list(changes(nested))


def test_layers_may_run_in_other_parts_of_the_samples_or_side_by_side() -> None:
    """By hand: each tree is one change of how layers run from the first one, and all but joints lead back."""
    first = "T 4/1\n\tT 4/2\n\t\tT 2/1\n\t\t\ta 2\n\t\t\tb 2\n\t\tc 2\n\td 4\n"
    one = parse_tree(first)
    turned = first.replace("\tT 4/2", "\tS 4/2")
    fewer = "T 4/1\n\tT 4/1\n\t\tT 4/1\n\t\t\ta 4\n\t\t\tb 4\n\t\tc 4\n\td 4\n"
    same_samples = "T 4/1\n\tT 4/1\n\t\tT 4/2\n\t\t\ta 2\n\t\t\tb 2\n\t\tc 4\n\td 4\n"
    below = first.replace("\t\tT 2/1\n\t\t\ta 2\n\t\t\tb 2", "\t\tT 2/2\n\t\t\ta 1\n\t\t\tb 1")
    joint = "T 4/1\n\tT 4/4\n\t\tT 1/1\n\t\t\tT 1/1\n\t\t\t\ta 1\n\t\t\t\tb 1\n\t\t\tc 1\n\t\td 1\n"
    assert isinstance(one, Cut)
    for text in (turned, fewer, same_samples, below, joint):
        other = parse_tree(text)
        assert other in list(changes(one, reshaping=True)), text
        assert other not in list(changes(one)), text
        assert isinstance(other, Cut)
        assert text == joint or one in list(changes(other, reshaping=True)), text


def test_cuts_with_bands_stay_as_they_are() -> None:
    bands = Cut("T", 4, 4, (Leaf("a", 1), Leaf("b", 1)), 2)
    tree = Cut("T", 4, 1, (bands, Leaf("c", 4), Leaf("d", 4)))
    found = list(changes(tree, reshaping=True))
    assert found
    assert all(other.children[0] is bands for other in found)


def chain_of_weights(buffer: int) -> ScheduleProblem:
    """Two layers of large maps, then three with more weights than outputs: these are loaded during the first
    two, or DRAM holds them up."""
    window: dict[str, Any] = {"r": 3, "s": 3, "pad_h": 1, "pad_w": 1, "h": 2, "w": 2}
    graph = LayerGraph(
        "weights at the end",
        (
            layer("0", external_c=4, h=16, w=16),
            layer("1", producers=(0,), h=16, w=16),
            layer("2", producers=(1,), stride_h=8, stride_w=8, h=2, w=2),
            layer("3", producers=(2,), **window),
            layer("4", producers=(3,), **window),
        ),
    )
    return ScheduleProblem(
        graph, ChipModel(chip(2, 2, buffer), FormulaCosts(graph)), 2, Objective.named("cycles")
    )


def test_weights_come_earlier_after_nesting_and_a_replay_agrees() -> None:
    problem = chain_of_weights(1 << 20)
    evaluator = problem.evaluator()
    assert isinstance(evaluator, ChipEvaluator)
    names = [one.name for one in problem.graph.layers]
    flat = Cut("T", 2, 1, (Cut("T", 2, 1, tuple(Leaf(name, 2) for name in names)),))
    found, counted = rearranged(flat, evaluator, problem.objective, 1000, lambda: True)
    assert counted > 10
    before, after = evaluator.evaluate(flat), evaluator.evaluate(found)
    assert after.cycles < before.cycles
    assert after.dram_bytes == before.dram_bytes
    took = [replay(write_program(problem.graph, one)).cycles for one in (before, after)]
    assert took[1] < took[0]
    assert took[1] == pytest.approx(after.cycles, rel=0.1)


@pytest.mark.slow
def test_it_ends_where_it_is_told_to_and_costs_no_more() -> None:
    problem = chain_of_weights(3000)
    none = segment_chain.solve(problem, Budget(), Params(changes=0, reshapes=0))
    some = segment_chain.solve(problem, Budget(), Params(changes=7, reshapes=0))
    unshaped = segment_chain.solve(problem, Budget(), Params(reshapes=0))
    every = segment_chain.solve(problem, Budget())
    for one in (none, some, unshaped, every):
        assert one.objective is not None
        assert one.bound is not None
        assert one.bound <= one.objective * (1 + 1e-12)
    assert none.evaluations <= some.evaluations <= none.evaluations + 7
    values = [one.objective or 0.0 for one in (every, unshaped, some, none)]
    assert values[0] > 0
    assert values == sorted(values)
