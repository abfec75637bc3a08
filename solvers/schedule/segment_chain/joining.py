"""Joins neighbouring segments of a tree into one, which keeps the data between them on the chip.

There are several ways to join two segments:

- A T cut with both as its children keeps every edge between them, whatever they are themselves: layers in
  turn, a pipeline, or a cut of many sub-batches.
- Where one of them is a T cut of one sub-batch, its children may become children of the new cut. Then only
  the last of them hands data on, and less is held.
- Two T cuts of equally many sub-batches may become one, which goes through the layers of both each time.
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
from solvers.schedule.problem import tree_value, value_up_to


def joined(
    tree: Cut, evaluator: ChipEvaluator, objective: Objective, go_on: Callable[[], bool]
) -> tuple[Cut, int]:
    """The tree with its segments joined as long as that pays, and how many trees were counted for it.

    ``tree``: a root T cut that the chip can run. The pair whose joining makes the objective least is joined
    first, and so on until no pair makes it less. ``go_on`` is asked before each pair is tried; where it says
    no, the best tree found until then is the result.
    """
    least, counted = tree_value(tree, evaluator, objective), 0
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
                    value = value_up_to(changed, evaluator, objective, least)
                except NotPossibleError:
                    continue
                if value is not None and value < least:
                    found, least = changed, value
        if found is None:
            return tree, counted
        tree = found


def joints(one: TreeNode, other: TreeNode) -> Iterator[Cut]:
    """The T cuts of two segments; none where one has bands of rows, which only a whole segment can have."""
    if has_bands(one) or has_bands(other):
        return
    if _are_turns(one) and _are_turns(other) and one.subbatches == other.subbatches > 1:
        yield Cut("T", one.batch, one.subbatches, (*one.children, *other.children))
    seen = []
    for before, after in product(_as_children(one), _as_children(other)):
        children = (*before, *after)
        if children not in seen:
            seen.append(children)
            yield Cut("T", one.batch, 1, children)


def has_bands(node: TreeNode) -> bool:
    """Whether a node has bands of rows itself; only segments do."""
    return isinstance(node, Cut) and node.bands > 1


def _are_turns(node: TreeNode) -> TypeGuard[Cut]:
    """Whether a node is a T cut."""
    return isinstance(node, Cut) and node.kind == "T"


def _as_children(node: TreeNode) -> Iterator[Sequence[TreeNode]]:
    yield (node,)
    if _are_turns(node) and node.subbatches == 1:
        yield node.children
