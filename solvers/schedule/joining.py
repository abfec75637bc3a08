"""Neighbouring segments of a tree that become one: what the first hands to the second stays on the chip.

A T cut with the two segments as its children keeps every edge between them, whatever they are themselves:
layers in turn, a pipeline, or many sub-batches. Where one of them is a T cut of one sub-batch its children
may as well become children of the new cut: then only the last of them hands anything on, and less is held.
Two T cuts of equally many sub-batches may also become one, which goes through the layers of both each time.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import product
from typing import TypeGuard

from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.tree.tree import Cut, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.schedule.objective import Objective


def joined(
    tree: Cut, evaluator: ChipEvaluator, objective: Objective, go_on: Callable[[], bool]
) -> tuple[Cut, int]:
    """The tree with its segments joined as long as that pays, and how many trees were counted for it.

    ``tree``: a root T cut that the chip can run. Of all pairs of neighbours, the one whose joining makes the
    objective least is joined first. ``go_on``: asked before each pair.
    """
    least, counted = _value(tree, evaluator, objective), 0
    while True:
        found = None
        for number, (one, other) in enumerate(zip(tree.children, tree.children[1:], strict=False)):
            if not go_on():
                return found or tree, counted
            for segment in joints(one, other):
                counted += 1
                changed = replace(
                    tree, children=(*tree.children[:number], segment, *tree.children[number + 2 :])
                )
                try:
                    value = _value(changed, evaluator, objective)
                except NotPossibleError:
                    continue
                if value < least:
                    found, least = changed, value
        if found is None:
            return tree, counted
        tree = found


def joints(one: TreeNode, other: TreeNode) -> Iterator[Cut]:
    """The T cuts of two segments; none where one has bands of rows, which only a whole segment can have."""
    if any(isinstance(node, Cut) and node.bands > 1 for node in (one, other)):
        return
    if _are_turns(one) and _are_turns(other) and one.subbatches == other.subbatches > 1:
        yield Cut("T", one.batch, one.subbatches, (*one.children, *other.children))
    seen = []
    for before, after in product(_as_children(one), _as_children(other)):
        children = (*before, *after)
        if children not in seen:
            seen.append(children)
            yield Cut("T", one.batch, 1, children)


def _are_turns(node: TreeNode) -> TypeGuard[Cut]:
    """Whether a node is a T cut."""
    return isinstance(node, Cut) and node.kind == "T"


def _as_children(node: TreeNode) -> Iterator[Sequence[TreeNode]]:
    yield (node,)
    if _are_turns(node) and node.subbatches == 1:
        yield node.children


def _value(tree: Cut, evaluator: ChipEvaluator, objective: Objective) -> float:
    cost = evaluator.evaluate(tree)
    return objective.value(cost.energy_pj, cost.cycles)
