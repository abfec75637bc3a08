"""Cuts the input channels of a schedule's leaves where that pays, trying one leaf after the other.

A leaf whose input channels are cut (:mod:`costmodel.schedule.reductions`) keeps its tiles, and so do all
others, because the division of tiles follows from layers and cuts alone. So each leaf has few choices, the
numbers of parts that divide its tiles, and each choice changes one segment. The leaves are tried in the order
of layers, and the best choice of a leaf stays if it makes the schedule better. Passes over all leaves go on
until one changes nothing; for most schedules that is the second.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.reductions import reduction_violations, whole_channels_reason
from costmodel.schedule.tile_cost import TileCosts
from costmodel.schedule.tree.tree import Leaf, TreeNode, leaves
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.divisors import divisors
from solvers.schedule.objective import Objective
from solvers.schedule.tiles.cost_table import need
from solvers.schedule.tiles.layer_parts import Request


def with_channels_cut(
    evaluator: ChipEvaluator,
    costs: TileCosts,
    objective: Objective,
    tree: TreeNode,
    in_time: Callable[[], bool],
) -> TreeNode:
    """The tree with the input channels of leaves cut wherever that lowers its objective.

    Raises TileCostsNeeded, with the tile costs of all choices, where ``costs`` is a table that lacks some of
    them and cannot solve them; the caller has them solved and calls again.
    """
    evaluation = evaluator.evaluate(tree)
    tiles = {one.node.layer: one.tiles for one in evaluation.nodes() if isinstance(one.node, Leaf)}
    choices = {
        leaf.layer: parts
        for leaf in leaves(tree)
        if (parts := list(_choices(evaluator.graph, tree, leaf, tiles[leaf.layer])))
    }
    need(costs, _requests(evaluator.graph, tree, choices, tiles))
    best, changed = objective.value(evaluation.energy_pj, evaluation.cycles), True
    while changed:
        changed = False
        for layer, parts in choices.items():
            for reduced in (1, *parts):
                if not in_time():
                    return tree
                other = _with(tree, layer, reduced)
                try:
                    found = evaluator.evaluate(other)
                except NotPossibleError:
                    continue
                value = objective.value(found.energy_pj, found.cycles)
                if value < best:
                    tree, best, changed = other, value, True
    return tree


def _choices(graph: LayerGraph, tree: TreeNode, leaf: Leaf, tiles: int) -> Iterator[int]:
    """Into how many parts the input channels of a leaf may be cut, beside one."""
    if whole_channels_reason(graph.layers[graph.index[leaf.layer]]):
        return
    for reduced in divisors(tiles)[1:]:
        if not reduction_violations(_with(tree, leaf.layer, reduced), graph):
            yield reduced


def _requests(
    graph: LayerGraph, tree: TreeNode, choices: Mapping[str, list[int]], tiles: Mapping[str, int]
) -> Iterator[Request]:
    """The costs of all choices."""
    for leaf in leaves(tree):
        for reduced in choices.get(leaf.layer, ()):
            number, groups = graph.index[leaf.layer], tiles[leaf.layer] // reduced
            yield Request(number, leaf.batch, groups, reduced=reduced)


def _with(node: TreeNode, layer: str, reduced: int) -> TreeNode:
    """The tree with the input channels of a layer's leaf in so many parts; all else is the same objects."""
    if isinstance(node, Leaf):
        return replace(node, reduced=reduced) if node.layer == layer else node
    children = tuple(_with(child, layer, reduced) for child in node.children)
    same = all(new is old for new, old in zip(children, node.children, strict=True))
    return node if same else replace(node, children=children)
