"""Schedules a network that repeats a block: head, block and tail by themselves, then the whole, counted once.

Decoders repeat a block tens of times. A search over the whole network takes as many times longer and finds,
at best, the same for every copy. Here a schedule solver answers for one copy; the layers before and behind
all copies are networks of their own. The trees of the parts are put together, one for each copy, and the cost
model counts the whole tree: what copies save by following one another is in the answer, and its bound is
that of the whole network.

What is given up: no segment has layers of two copies.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tree.tree import TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import LEAST_SECONDS, Budget, Deadline
from solvers.outcome import Outcome, noting_limits
from solvers.schedule.chip_model import chip_model_of
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, answer, no_tree, tree_value
from solvers.schedule.repeated.blocks import RepeatedBlock, part_of, repeated_block
from solvers.schedule.repeated.trees import joined, renamed
from solvers.schedule.tiles.cost_table import TabledTileCosts, TileCostsNeeded
from solvers.schedule.tiles.layer_parts import Request

VERSION = "2"

Solve = Callable[[ScheduleProblem, Budget, Any], Outcome[ScheduleSolution]]
"""A schedule solver: problem, budget and its parameters."""

FOR_PARTS = 0.8
"""The part of the time that the solver has for head, block and tail, by their layers; the rest is for the
count of the whole and its bound."""

NO_BLOCK = "no block of the network repeats: it was scheduled as a whole"


@noting_limits
def solve_repeated(
    problem: ScheduleProblem, budget: Budget, params: Any, solve: Solve
) -> Outcome[ScheduleSolution]:
    """The answer for a network from answers of ``solve`` for its parts; for the whole where nothing repeats.

    Raises TileCostsNeeded with what all parts lack, by the numbers of the whole network's layers. InputError
    for a model other than the chip model.
    """
    block = repeated_block(problem.graph)
    if block is None:
        outcome = solve(problem, budget, params)
        return replace(outcome, note="; ".join(filter(None, [NO_BLOCK, outcome.note])))
    chip_model_of(problem, "repeated blocks")
    deadline = Deadline(budget.wall_seconds)
    parts = _parts(problem.graph, block)
    kept, waiting = (1 - FOR_PARTS) * budget.wall_seconds, sum(len(graph.layers) for _, graph in parts)
    outcomes, needed = list[Outcome[ScheduleSolution]](), dict[Request, None]()
    for first, graph in parts:
        # What a part leaves of its time goes to those behind it.
        seconds = max(LEAST_SECONDS, (deadline.left - kept) * len(graph.layers) / waiting)
        waiting -= len(graph.layers)
        try:
            outcomes.append(solve(_part(problem, graph), replace(budget, wall_seconds=seconds), params))
        except TileCostsNeeded as more:
            # All parts are asked before any is answered, so that their costs are solved side by side.
            needed |= dict.fromkeys(one._replace(layer=one.layer + first) for one in more.requests)
    if needed:
        raise TileCostsNeeded(tuple(needed))
    trees = list[TreeNode]()
    for (first, graph), outcome in zip(parts, outcomes, strict=True):
        if outcome.solution is None:
            name = graph.layers[0].name
            return no_tree(problem, f"no schedule of the part from {name} on: {outcome.note}", deadline)
        trees += _copies(problem.graph, block, first, outcome.solution.tree)
    tree, note = _best(problem, joined(trees, problem.batch)), _note(problem, block, outcomes)
    try:
        found = answer(problem, tree, _phases(parts, block, outcomes), deadline, note)
    except NotPossibleError as reason:
        return no_tree(
            problem, f"the chip cannot run the schedules of all parts together: {reason}", deadline
        )
    return replace(found, evaluations=sum(outcome.evaluations for outcome in outcomes))


def _parts(graph: LayerGraph, block: RepeatedBlock) -> list[tuple[int, LayerGraph]]:
    """Head, one copy and tail, each with the number of its first layer; those without layers are left out."""
    parts = ((first, part_of(graph, first, end)) for first, end in block.ranges(graph))
    return [(first, part) for first, part in parts if part is not None]


def _part(problem: ScheduleProblem, graph: LayerGraph) -> ScheduleProblem:
    """The same question of a part of the network; tile costs that one part solves are known to the others."""
    model = chip_model_of(problem, "repeated blocks")
    costs = model.tile_costs
    if isinstance(costs, TabledTileCosts):
        costs = costs.of_part(graph)
    return replace(problem, graph=graph, model=replace(model, tile_costs=costs))


def _copies(graph: LayerGraph, block: RepeatedBlock, first: int, tree: TreeNode) -> list[TreeNode]:
    """The tree of a part, once; that of the block for each copy, under the names of the copy's layers."""
    if first != block.first:
        return [tree]
    names = [layer.name for layer in graph.layers[block.first : block.end]]
    own = names[: block.layers]
    return [
        renamed(tree, dict(zip(own, names[start : start + block.layers], strict=True)))
        for start in range(0, len(names), block.layers)
    ]


def _best(problem: ScheduleProblem, trees: Sequence[TreeNode]) -> TreeNode:
    """The best of ``trees`` that the chip can run, else the first. A single one is not counted here."""
    if len(trees) == 1:
        return trees[0]
    judge, values = problem.judge(), dict[float, TreeNode]()
    for tree in trees:
        try:
            values.setdefault(tree_value(tree, judge, problem.objective), tree)
        except NotPossibleError:
            continue
    return values[min(values)] if values else trees[0]


def _phases(
    parts: Sequence[tuple[int, LayerGraph]],
    block: RepeatedBlock,
    outcomes: Sequence[Outcome[ScheduleSolution]],
) -> tuple[Any, ...]:
    """The record of the block's search: those of head and tail are short, and of other networks."""
    for (first, _), outcome in zip(parts, outcomes, strict=True):
        if first == block.first and outcome.solution is not None:
            return outcome.solution.phases
    return ()


def _note(
    problem: ScheduleProblem, block: RepeatedBlock, outcomes: Sequence[Outcome[ScheduleSolution]]
) -> str:
    layers = problem.graph.layers
    first, last = layers[block.first].name, layers[block.first + block.layers - 1].name
    own = f"{block.layers} layers, {first} to {last}, scheduled once for {block.copies} copies of them"
    return "; ".join(dict.fromkeys([own, *(outcome.note for outcome in outcomes if outcome.note)]))
