"""The six operators of Fig. 7: what they make is in the space, reaches all of it, and is what they say."""

from __future__ import annotations

from itertools import permutations
from random import Random

import pytest

from costmodel.errors import InputError
from costmodel.schedule.tree.text import format_tree, parse_tree
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, leaves
from solvers.schedule.set.canonical import sequential_tree
from solvers.schedule.set.operators.editing import path_to, with_batch, with_subbatches
from solvers.schedule.set.operators.operators import OPERATORS, WEIGHTS, Current, Operators
from solvers.schedule.set.params import OperatorsOf
from solvers.schedule.set.search import OPERATORS_OF
from solvers.schedule.set.space import SPACES, SpaceName, TreeSpace
from tests.solvers.schedule.small_trees import every_tree

DIAMOND = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c"), "e": ("d", "a")}


every_kind = pytest.mark.parametrize("kind", OPERATORS_OF)


def walk(space: TreeSpace, steps: int, kind: OperatorsOf) -> list[tuple[str, TreeNode, TreeNode]]:
    """Operators applied one after the other: (name, tree before, tree after)."""
    random, operators = Random(0), OPERATORS_OF[kind](space, WEIGHTS["paper"])
    current, made = Current(sequential_tree(list(space.producers), space.batch)), []
    for _ in range(steps):
        name, tree = operators.draw(current, random)
        if tree is not None:
            made.append((name, current.tree, tree))
            current = Current(tree)
    return made


# the released code aborts for batches that are no powers of two
IN_SPACE = [(name, batch) for name in SPACES for batch in (1, 4, 6) if (name, batch) != ("released", 6)]


@every_kind
@pytest.mark.parametrize(("name", "batch"), IN_SPACE)
def test_operators_stay_in_the_space(name: SpaceName, batch: int, kind: OperatorsOf) -> None:
    space = TreeSpace(DIAMOND, batch, tiles=5, name=name)
    made = walk(space, 3000, kind)
    assert len(made) > 300
    for operator, before, tree in made:
        assert not space.violations(tree), (operator, format_tree(before), format_tree(tree))
        assert parse_tree(format_tree(tree)) == tree


def test_paths_lead_to_the_leaves_from_left_to_right() -> None:
    for tree in every_tree(("a", "b", "c", "d"), 2):
        ends = [path_to(tree, number)[-1] for number in range(tree.leaf_count)]
        assert [step.cut.children[step.rank] for step in ends] == list(leaves(tree))
        for path in (path_to(tree, number) for number in range(tree.leaf_count)):
            assert [path[0].cut, *[step.cut.children[step.rank] for step in path[:-1]]] == [
                tree,
                *[step.cut for step in path[1:]],
            ]


@pytest.mark.slow
@every_kind
@pytest.mark.parametrize(("name", "batch"), [("paper", 2), ("released", 2), ("layer_pipeline", 6)])
def test_operators_reach_the_whole_space(name: SpaceName, batch: int, kind: OperatorsOf) -> None:
    """Section 4.2.1: any two trees can be transformed into each other; against enumeration."""
    producers: dict[str, tuple[str, ...]] = {"a": (), "b": (), "c": ("a",)}
    space = TreeSpace(producers, batch, tiles=3, name=name)
    members = {
        tree
        for order in permutations(producers)
        for tree in every_tree(order, batch)
        if not space.violations(tree)
    }
    reached = {tree for _, _, tree in walk(space, 25_000, kind)}
    assert members <= reached
    # nothing else, but the start, which need not be drawn again
    assert not reached - members


@every_kind
def test_what_each_operator_changes(kind: OperatorsOf) -> None:
    space = TreeSpace(DIAMOND, 4, tiles=5)
    seen, reordered = set(), False
    for operator, before, after in walk(space, 4000, kind):
        seen.add(operator)
        same_order = [leaf.layer for leaf in leaves(before)] == [leaf.layer for leaf in leaves(after)]
        if kind != "leaf" and operator == "move":
            reordered |= not same_order
        else:
            assert same_order == (operator != "swap")
        cuts = count_cuts(after) - count_cuts(before)
        if operator == "swap":
            assert shape(before) == shape(after)
        elif operator == "move":
            assert cuts == 0
        elif operator == "ungroup":
            assert cuts == -1
        elif operator == "group":
            # a new cut around all of the root's children takes the root's place
            assert cuts in (0, 1)
        else:
            assert cuts == 0
            parts = total_subbatch_products(after), total_subbatch_products(before)
            assert parts[0] != parts[1]
    assert seen == set(OPERATORS)
    assert reordered == (kind != "leaf")


def count_cuts(node: TreeNode) -> int:
    return 0 if isinstance(node, Leaf) else 1 + sum(count_cuts(child) for child in node.children)


def shape(node: TreeNode) -> object:
    if isinstance(node, Leaf):
        return node.batch
    return node.kind, node.batch, node.subbatches, [shape(child) for child in node.children]


def total_subbatch_products(node: TreeNode) -> list[int]:
    if isinstance(node, Leaf):
        return []
    return [node.subbatches, *(one for child in node.children for one in total_subbatch_products(child))]


@pytest.mark.parametrize("batch", [1, 2, 3, 4, 6, 12, 24])
def test_other_batches_keep_trees_valid(batch: int) -> None:
    inner = Cut("T", 6, 3, (Leaf("a", 2), Cut("S", 2, 2, (Leaf("b", 1), Leaf("c", 1)))))
    changed = with_batch(inner, batch)
    producers: dict[str, tuple[str, ...]] = {"a": (), "b": (), "c": ()}
    assert not TreeSpace(producers, batch, tiles=3).violations(changed)
    for parts in (parts for parts in range(1, batch + 1) if batch % parts == 0):
        assert isinstance(changed, Cut)
        tree = with_subbatches(changed, parts)
        assert tree.subbatches == parts
        assert not TreeSpace(producers, batch, tiles=3).violations(tree)


def test_a_chain_is_never_reordered_and_one_sample_never_divided() -> None:
    chain = {"a": (), "b": ("a",), "c": ("b",)}
    operators = Operators(TreeSpace(chain, 1, tiles=3), WEIGHTS["paper"])
    assert set(operators.names) == {"move", "group", "ungroup"}


def test_operators_need_a_weight() -> None:
    with pytest.raises(InputError, match="a weight above 0"):
        Operators(TreeSpace(DIAMOND, 1, tiles=3), dict.fromkeys(OPERATORS, 0.0))
