"""The best chain of gathered segments, compared with all chains of them written down one by one."""

from __future__ import annotations

from itertools import pairwise
from random import Random

import pytest

from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.segment.node_cost import running_pj
from costmodel.schedule.tree.tree import Cut, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget, Deadline, OutOfTimeError
from solvers.outcome import Status
from solvers.schedule.chip_model import ChipModel, LastEvaluator
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, tree_value, violations
from solvers.schedule.segment_chain.recombining import CountedPool, recombined
from solvers.schedule.set.canonical import sequential_tree
from solvers.schedule.set.operators.operators import WEIGHTS, Current, Operators
from solvers.schedule.set.space import TreeSpace
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, chip

BATCH, LAYERS = 2, 5


def shared_problem() -> ScheduleProblem:
    """A problem whose searches share an evaluator."""
    graph = chain(LAYERS)
    model = ChipModel(chip(2, 2, 2000), FormulaCosts(graph), searching=LastEvaluator())
    return ScheduleProblem(graph, model, BATCH, Objective(1, 1))


def walked(problem: ScheduleProblem, evaluator: ChipEvaluator, steps: int, seed: int) -> list[TreeNode]:
    """Trees of a random walk that the chip can run; the evaluator counts and so remembers their segments."""
    random, found = Random(seed), []
    names = [layer.name for layer in problem.graph.layers]
    space = TreeSpace(problem.graph.producers, BATCH, problem.model.tiles, "paper")
    operators = Operators(space, WEIGHTS["released"])
    first: TreeNode = sequential_tree(names, BATCH, 1)
    tree = first
    for step in range(steps):
        tree = tree if step % 8 else first
        _, drawn = operators.draw(Current(tree), random)
        if drawn is not None:
            try:
                evaluator.evaluate(drawn)
            except NotPossibleError:
                continue
            tree = drawn
            found.append(tree)
    return found


def every_chain(problem: ScheduleProblem, evaluator: ChipEvaluator) -> dict[int, list[tuple[TreeNode, ...]]]:
    """By rounds, all chains of remembered segments that no other of the same layers beats by itself."""
    index, found = problem.graph.index, {}
    for rounds in (1, 2):
        segments: dict[tuple[int, int], list[tuple[float, int, TreeNode]]] = {}
        for layers, cost in evaluator.remembered():
            numbers = sorted(index[name] for name in layers)
            neighbours = all(b == a + 1 for a, b in pairwise(numbers))
            if neighbours and cost.node.batch * rounds == BATCH:
                one = (running_pj(cost, evaluator.chip), cost.cycles, cost.node)
                segments.setdefault((numbers[0], numbers[-1] + 1), []).append(one)
        chains: list[list[tuple[TreeNode, ...]]] = [[()], *([] for _ in range(LAYERS))]
        for end in range(1, LAYERS + 1):
            for first in range(end):
                for energy, cycles, node in segments.get((first, end), []):
                    others = [(e, c) for e, c, _ in segments[first, end] if (e, c) != (energy, cycles)]
                    if not any(e <= energy and c <= cycles for e, c in others):
                        chains[end] += [(*before, node) for before in chains[first]]
        found[rounds] = chains[LAYERS]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_the_best_chain_is_the_best_of_all_chains_of_gathered_segments(seed: int) -> None:
    problem = shared_problem()
    evaluator = problem.evaluator()
    assert isinstance(evaluator, ChipEvaluator)
    trees = walked(problem, evaluator, 400, seed)
    pool = CountedPool(problem)
    pool.gather(evaluator)
    pool.gather(evaluator)  # what comes twice changes nothing
    chains = every_chain(problem, evaluator)
    assert sum(map(len, chains.values())) > 20
    least = min(
        tree_value(Cut("T", BATCH, rounds, segments), evaluator, problem.objective)
        for rounds, found in chains.items()
        for segments in found
    )
    outcome = recombined(problem, Budget(), pool)
    assert outcome.objective == pytest.approx(least, rel=1e-12)
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    assert least <= tree_value(trees[0], evaluator, problem.objective)


def test_without_segments_of_all_layers_there_is_no_tree() -> None:
    problem = shared_problem()
    evaluator = problem.evaluator()
    assert isinstance(evaluator, ChipEvaluator)
    names = [layer.name for layer in problem.graph.layers]
    for segment in sequential_tree(names, BATCH, 1).children[1:]:
        evaluator.segment(segment)
    pool = CountedPool(problem)
    pool.gather(evaluator)
    assert recombined(problem, Budget(), pool).status is Status.UNKNOWN


def test_the_clock_ends_it() -> None:
    problem = shared_problem()
    evaluator = problem.evaluator()
    assert isinstance(evaluator, ChipEvaluator)
    evaluator.evaluate(sequential_tree([layer.name for layer in problem.graph.layers], BATCH, 1))
    pool = CountedPool(problem)
    pool.gather(evaluator)

    def over() -> None:
        raise OutOfTimeError("over")

    with pytest.raises(OutOfTimeError):
        pool.best(evaluator, over)
    assert pool.best(evaluator, Deadline(60).check) is not None
