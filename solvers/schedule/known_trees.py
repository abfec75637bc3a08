"""Costs trees that were found for other chips on this chip, and answers with the best of them.

Whether a search finds a tree is partly luck. A tree does not depend on tiles or buffers, so it can be costed
on every chip that runs the same layers with the same batch. This needs no search: with the costs of all
layers known, a tree takes milliseconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from costmodel.schedule.tile_cost import TileFloor, TileRows
from costmodel.schedule.tree.text import parse_tree
from costmodel.schedule.tree.tree import TreeNode, has_bands, has_reductions, rounds_of_segments
from costmodel.schedule.tree.validity import NotPossibleError, violations
from costmodel.schedule.whole_chip.cost import WholeChipCost
from solvers.budget import Deadline
from solvers.outcome import Outcome, noting_limits
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import nondominated
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, TreeCost, answer, no_tree
from solvers.schedule.tiles.cost_table import TabledTileCosts, TileCostsNeeded
from solvers.schedule.tiles.layer_parts import Request

VERSION = "11"


@dataclass(frozen=True)
class KnownTree:
    """A tree and its source: ``found_by`` is the id of the schedule task whose answer it is."""

    found_by: str
    text: str


@dataclass(frozen=True)
class CostedTree:
    """What a known tree costs on this chip; ``energy_pj`` in pJ."""

    tree: KnownTree
    energy_pj: float
    cycles: int


@dataclass(frozen=True)
class CostedTrees:
    """The best of the trees as an answer, and the costs of all that the chip can run.

    ``possible``: in the order of the trees. ``not_possible``: how many the chip cannot run.
    """

    outcome: Outcome[ScheduleSolution]
    possible: tuple[CostedTree, ...]
    not_possible: int
    best: KnownTree | None

    @property
    def nondominated(self) -> tuple[CostedTree, ...]:
        """The trees that no other dominates, with less of energy or cycles and no more of the other.

        In the order of rising energy, each pair of energy and cycles once.
        """
        return tuple(nondominated(self.possible, lambda one: (one.energy_pj, one.cycles)))


def rank(objective: float, energy_pj: float, cycles: int) -> tuple[float, float, int]:
    """The key by which the best of several schedules is chosen: the objective, then energy, then cycles.

    So no tree dominates the one that is chosen. One that takes no more of either and less of one has a
    smaller E^n D^m or, where an exponent is 0, the same one and comes first by energy or by cycles.
    """
    return objective, energy_pj, cycles


def best_of(problem: ScheduleProblem, trees: Sequence[KnownTree], wall_seconds: float) -> CostedTrees:
    """Cost all ``trees``, of the same network and batch, and answer with the best by :func:`rank`.

    A tree that the chip cannot run is counted and left out. All trees are costed however long it takes;
    ``wall_seconds`` limits the bound that comes after them.

    Where the model's table lacks costs that it cannot solve, TileCostsNeeded is raised with all costs that
    the trees are known to need so far; the caller has them solved and calls again. InputError for a tree of
    another network or batch.
    """
    deadline = Deadline(wall_seconds)
    if isinstance(problem.model, ChipModel):
        nodes = [parse_tree(one.text) for one in trees]
        wider = replace(
            problem.model,
            bands=problem.model.bands or any(map(has_bands, nodes)),
            reductions=problem.model.reductions or any(map(has_reductions, nodes)),
        )
        problem = replace(problem, model=wider)
    costed: list[CostedTree] = []

    @noting_limits
    def chosen() -> Outcome[ScheduleSolution]:
        # Within the function that notes limits, so that limits reached while costing are in the outcome's
        # note.
        costed.extend(_costed(problem, trees))
        if not costed:
            return no_tree(problem, f"the chip can run none of {len(trees)} trees", deadline)
        return answer(problem, parse_tree(_best(problem, costed).text), (), deadline)

    outcome = replace(chosen(), evaluations=len(trees))
    best = _best(problem, costed) if costed else None
    return CostedTrees(outcome, tuple(costed), len(trees) - len(costed), best)


def evaluated(problem: ScheduleProblem, text: str) -> TreeCost:
    """What one tree costs, which the chip can run; TileCostsNeeded as for :func:`best_of`."""
    evaluator, node = _asking(problem).evaluator(), parse_tree(text)
    needed = dict[Request, None]()
    for segment in rounds_of_segments(node)[1]:
        try:
            evaluator.segment(segment)
        except TileCostsNeeded as more:
            needed |= dict.fromkeys(more.requests)
    if needed:
        raise TileCostsNeeded(tuple(needed))
    return evaluator.evaluate(node)


def _best(problem: ScheduleProblem, costed: Sequence[CostedTree]) -> KnownTree:
    value = problem.objective.value
    return min(costed, key=lambda o: rank(value(o.energy_pj, o.cycles), o.energy_pj, o.cycles)).tree


def _costed(problem: ScheduleProblem, trees: Sequence[KnownTree]) -> list[CostedTree]:
    """The costs of the trees that the chip can run; one evaluator counts all, for trees have much in common.

    A table that lacks costs raises at the first one. So every segment of every tree is tried first, and all
    missing costs are asked for together.
    """
    asking = _asking(problem)
    evaluator, needed, found = asking.evaluator(), dict[Request, None](), []
    for tree in trees:
        node = parse_tree(tree.text)
        # A tree of a larger chip may need more tiles side by side than this one has. That is no mistake of
        # whoever gave it.
        if _too_wide(problem, node):
            continue
        # A tree that lacks a cost is not counted in this call, but its other segments are tried as well: what
        # they lack is asked for in the same request.
        lacking = len(needed)
        for segment in rounds_of_segments(node)[1]:
            try:
                evaluator.segment(segment)
            except NotPossibleError:
                break
            except TileCostsNeeded as more:
                needed |= dict.fromkeys(more.requests)
        else:
            if len(needed) == lacking:
                cost: TreeCost = evaluator.evaluate(node)
                found.append(CostedTree(tree, cost.energy_pj, cost.cycles))
    if needed:
        raise TileCostsNeeded(tuple(needed))
    return found


def _too_wide(problem: ScheduleProblem, node: TreeNode) -> bool:
    """Whether the tree needs more tiles side by side than there are; any other violation is an error."""
    producers = problem.graph.producers
    reasons = violations(node, producers, problem.batch, problem.model.tiles)
    return bool(reasons) and not violations(node, producers, problem.batch)


def _asking(problem: ScheduleProblem) -> ScheduleProblem:
    """The problem with a table that asks for what it lacks, where the model has such a table."""
    model = problem.model
    if not (isinstance(model, ChipModel) and isinstance(model.tile_costs, TabledTileCosts)):
        return problem
    return replace(problem, model=replace(model, tile_costs=_AskingCosts(model.tile_costs)))


@dataclass(frozen=True)
class _AskingCosts:
    """A table of tile costs that raises TileCostsNeeded for each cost that it lacks and cannot solve."""

    table: TabledTileCosts

    def rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        self.table.need([Request(layer, batch, tiles)])
        return self.table.rows(layer, batch, tiles)

    def streamed_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        self.table.need([Request(layer, batch, tiles)])
        return self.table.streamed_rows(layer, batch, tiles)

    @property
    def shares_weights(self) -> bool:
        return self.table.shares_weights

    def shared_rows(self, layer: int, batch: int, tiles: int) -> TileRows:
        self.table.need([Request(layer, batch, tiles)])
        return self.table.shared_rows(layer, batch, tiles)

    def shared_band_rows(
        self, layer: int, batch: int, tiles: int, heights: Sequence[int]
    ) -> Sequence[TileRows]:
        self.table.need([Request(layer, batch, tiles, tuple(heights))])
        return self.table.shared_band_rows(layer, batch, tiles, heights)

    def band_rows(self, layer: int, batch: int, tiles: int, heights: Sequence[int]) -> Sequence[TileRows]:
        self.table.need([Request(layer, batch, tiles, tuple(heights))])
        return self.table.band_rows(layer, batch, tiles, heights)

    def reduced_rows(self, layer: int, batch: int, tiles: int, reduced: int) -> TileRows:
        self.table.need([Request(layer, batch, tiles, reduced=reduced)])
        return self.table.reduced_rows(layer, batch, tiles, reduced)

    def normalized_cycles(self, layer: int) -> float:
        self.table.need([Request(layer, 1, 1)])
        return self.table.normalized_cycles(layer)

    def on_whole_chip(self, layer: int, batch: int) -> WholeChipCost | None:
        self.table.need([Request(layer, batch, 0)])
        return self.table.on_whole_chip(layer, batch)

    def floor(self, layer: int, batches: Sequence[int], tiles: int) -> TileFloor:
        return self.table.floor(layer, batches, tiles)
