"""The exhaustive search: no tree is better, whoever makes it; and what it leaves out changes nothing."""

from __future__ import annotations

from dataclasses import replace
from random import Random

import pytest

from costmodel.errors import InputError
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, leaves
from costmodel.schedule.tree.validity import NotPossibleError, least_tiles
from costmodel.schedule.tree.validity import violations as tree_violations
from solvers.budget import Budget
from solvers.outcome import Outcome, Status
from solvers.schedule import exhaustive
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.exhaustive import SetOfLayers, SmallTrees
from solvers.schedule.kapla import solver as kapla
from solvers.schedule.objective import Objective
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, TreeCost, violations
from solvers.schedule.set import solver as annealing
from tests.costmodel.schedule.chip_cases import FormulaCosts, chain, chip, every_kind, layer, random_tree
from tests.solvers.schedule.small_trees import every_tree

BRANCHES = LayerGraph("branches", every_kind().layers[:4])
RESIDUAL = LayerGraph(
    "residual",
    (
        layer("first", external_c=4),
        layer("second", producers=(0,)),
        layer("sum", "eltwise", c=8, operands=2, producers=(0, 1)),
    ),
)
CASES = [
    (chain(3), (2, 2), 2, 1 << 20, "edp"),
    (chain(3, h=7), (2, 1), 4, 170, "cycles"),
    (RESIDUAL, (2, 2), 2, 400, "energy"),
    (RESIDUAL, (3, 1), 2, 300, "ed2"),
    (BRANCHES, (2, 1), 1, 500, "edp"),
]


ENOUGH = Budget(600)


def problem_of(
    graph: LayerGraph, mesh: tuple[int, int], batch: int, buffer: int, objective: str
) -> ScheduleProblem:
    model = ChipModel(chip(*mesh, buffer), FormulaCosts(graph))
    return ScheduleProblem(graph, model, batch, Objective.named(objective))


def solved(problem: ScheduleProblem, budget: Budget = ENOUGH) -> Outcome[ScheduleSolution]:
    return exhaustive.solve(problem, budget)


def cost_of(problem: ScheduleProblem, tree: TreeNode) -> TreeCost | None:
    try:
        return problem.evaluator().evaluate(tree)
    except NotPossibleError:
        return None


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda case: f"{case[0].name} {case[-1]}")
def test_the_answer_is_proven_and_no_other_tree_or_solver_is_better(
    case: tuple[LayerGraph, tuple[int, int], int, int, str],
) -> None:
    problem, random = problem_of(*case), Random(3)
    outcome = solved(problem)
    assert outcome.status is Status.OPTIMAL
    assert outcome.bound == outcome.objective is not None
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    names, fitting = tuple(one.name for one in problem.graph.layers), 0
    drawn = [random_tree(random, problem.graph, problem.batch) for _ in range(150)]
    for tree in (
        *every_tree(names, problem.batch),
        *drawn,
        *(with_cuts_of_one(random, one) for one in drawn),
    ):
        cost = cost_of(problem, tree)
        if cost is not None:
            fitting += 1
            value = problem.objective.value(cost.energy_pj, cost.cycles)
            assert value >= outcome.objective * (1 - 1e-12)
    assert fitting > 20
    for other in (annealing.solve(problem, Budget()), kapla.solve(problem, Budget())):
        assert other.objective is None or other.objective >= outcome.objective * (1 - 1e-12)


def with_cuts_of_one(random: Random, node: TreeNode) -> TreeNode:
    """The tree with cuts of one child around some nodes, some of which divide the samples further."""
    if isinstance(node, Cut):
        node = replace(node, children=tuple(with_cuts_of_one(random, child) for child in node.children))
    while random.random() < 0.3:
        parts = random.choice((1, 1, 2, 3))
        if parts > 1:
            node = Cut(random.choice("ST"), node.batch * parts, parts, (node,))  # type: ignore[arg-type]
            return divided(node, parts)
        node = Cut(random.choice("ST"), node.batch, 1, (node,))  # type: ignore[arg-type]
    return node


def divided(node: TreeNode, parts: int) -> TreeNode:
    """The tree for a fraction of its samples; itself where some node's samples are not divisible."""
    if any(leaf.batch % parts for leaf in leaves(node)):
        return node.children[0] if isinstance(node, Cut) else node
    if isinstance(node, Leaf):
        return Leaf(node.layer, node.batch // parts)
    return replace(
        node, batch=node.batch // parts, children=tuple(divided(child, parts) for child in node.children)
    )


def searched(node: TreeNode) -> TreeNode:
    """The tree that the exhaustive search looks at instead."""
    if isinstance(node, Leaf):
        return node
    children = tuple(map(searched, node.children))
    if len(children) > 1:
        return replace(node, children=children)
    (child,) = children
    if node.subbatches == 1:
        return child
    if isinstance(child, Cut) and child.kind == "T":
        return Cut("T", node.batch, node.subbatches * child.subbatches, child.children)
    return Cut("T", node.batch, node.subbatches, children)


def rooted(tree: TreeNode) -> TreeNode:
    """The tree without needless cuts of one child below its root T cut, whose segments it keeps."""
    if isinstance(tree, Cut) and tree.kind == "T":
        return replace(tree, children=tuple(map(searched, tree.children)))
    return searched(tree)


@pytest.mark.slow
def test_trees_that_are_left_out_have_one_that_takes_the_same_energy_and_no_more_of_the_buffers() -> None:
    random, changed = Random(5), 0
    for graph, mesh, batch, buffer in ((RESIDUAL, (2, 2), 4, 900), (chain(3), (3, 1), 6, 300)):
        problem = problem_of(graph, mesh, batch, buffer, "edp")
        evaluator = ChipEvaluator(graph, problem.model.chip, batch, FormulaCosts(graph))  # type: ignore[attr-defined]
        trees = SmallTrees.of(graph, problem.model.tiles)
        every = set(trees.of_set(SetOfLayers((1 << len(graph.layers)) - 1, batch)))
        for _ in range(400):
            tree = with_cuts_of_one(random, random_tree(random, graph, batch))
            assert tree_violations(tree, graph.producers, batch) == []
            other = searched(tree)
            if least_tiles(other) > problem.model.tiles:
                continue
            assert other in every
            try:
                before = evaluator.segment(tree)
            except NotPossibleError:
                continue
            after = evaluator.segment(other)
            assert sum(after.parts_pj) == pytest.approx(sum(before.parts_pj), rel=1e-12)
            assert after.held.most <= before.held.most
            changed += other != tree
    assert changed > 40


def test_large_problems_and_other_models_are_refused() -> None:
    with pytest.raises(InputError, match="network: expected a network of at most 6 layers, found 7"):
        solved(problem_of(chain(7), (2, 2), 1, 1 << 20, "edp"))
    with pytest.raises(InputError, match="mesh: expected a chip of at most 4 tiles, found 6"):
        solved(problem_of(chain(2), (3, 2), 1, 1 << 20, "edp"))


def test_an_unfinished_search_proves_nothing() -> None:
    problem = problem_of(chain(3), (2, 2), 2, 1 << 20, "edp")
    whole, stopped = solved(problem), solved(problem, Budget(600, iterations=20))
    assert (stopped.status, stopped.evaluations) == (Status.FEASIBLE, 20)
    assert stopped.objective is not None
    assert whole.objective is not None
    assert stopped.objective >= whole.objective
    assert "stopped after 20 segments" in stopped.note
    none = solved(problem, Budget(600, iterations=1))
    assert (none.status, none.solution) == (Status.UNKNOWN, None)


def test_where_no_tree_can_run_that_is_proven() -> None:
    outcome = solved(problem_of(chain(2), (2, 1), 1, 30, "edp"))
    assert outcome.status is Status.INFEASIBLE
    assert "none of the trees can run; the last reason: " in outcome.note
