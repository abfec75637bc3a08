"""Tasks that cost known trees: those that were found for sibling chips, on the chip of one more design."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from costmodel import MODEL_VERSION
from results.store.schema.rows import CostedTreesEntry, ScheduleColumns, ScheduleRow
from solvers.budget import Budget, Stopwatch
from solvers.schedule.known_trees import VERSION, CostedTrees, KnownTree, best_of
from solvers.schedule.tiles.cost_table import TileCostsNeeded
from sweep.study.identity import content_hash
from sweep.tasks.chips.schedule import ScheduleSolve, ScheduleTask
from sweep.tasks.chips.schedule_answer import answer_columns, cost_requests, problem_of
from sweep.tasks.chips.scheduling_costs import SchedulingCosts
from sweep.tasks.columns import CostRequests
from sweep.tasks.mapping import check_versions

KNOWN_TREES = "known_trees"
"""What stands in the column ``solver`` of these rows: no solver of the catalogue, for nothing is searched."""
BOUND_SECONDS = 60.0
"""Wall seconds that the bound of a row may take; the trees themselves are costed however long it takes."""


@dataclass(frozen=True)
class TreeCosting(ScheduleSolve):
    """How known trees are costed, in the form in which other schedule tasks say how they are solved.

    ``asks_for_costs``: whether costs are asked for as trees need them, as the study's schedulers do.
    """

    asks_for_costs: bool = False

    @staticmethod
    def minimising(objective: str, asks_for_costs: bool) -> TreeCosting:
        return TreeCosting(KNOWN_TREES, objective, "{}", Budget(BOUND_SECONDS), asks_for_costs)

    @property
    def asks(self) -> bool:
        return self.asks_for_costs

    @cached_property
    def content(self) -> dict[str, Any]:
        return {
            "objective": self.objective,
            "solver": self.solver,
            "solver_version": VERSION,
            "model_version": MODEL_VERSION,
            "params": {},
            "budget": {"wall_seconds": self.budget.wall_seconds, "seed": None},
        }


@dataclass(frozen=True, eq=False)
class TreeCostingTask(ScheduleTask):
    """Cost ``trees``, found for the same layers and batch, on this chip; the best one is the answer.

    The identity follows from the trees and from the tasks that found them, in any order; these say with
    which versions of solvers they were found.
    """

    trees: tuple[KnownTree, ...] = ()

    @cached_property
    def _trees(self) -> list[list[str]]:
        return sorted([tree.found_by, tree.text] for tree in self.trees)

    @cached_property
    def id(self) -> str:
        solve, network = self.solve.content, self.network.id
        return content_hash(["tree_costing", network, self.batch, self.on.id, solve, self._trees])

    def payload(self, costs: SchedulingCosts, states: Sequence[Any] = ()) -> dict[str, Any]:
        """What a worker is sent; nothing is searched, so there are never ``states`` to go on from."""
        return super().payload(costs, states) | {"kind": "tree_costing", "trees": self._trees}

    @property
    def columns(self) -> ScheduleRow:
        return super().columns | {"params": {"trees": len(self.trees)}}


def run_tree_costing_task(content: ReadOnlyDict[str, Any]) -> ScheduleColumns | CostRequests:
    """Answer a task from its :meth:`TreeCostingTask.payload`; runs on a worker, returns plain data.

    Requests for costs, and errors, are as in :func:`sweep.tasks.chips.schedule_answer.run_schedule_task`.
    """
    check_versions(content, VERSION)
    watch, problem = Stopwatch(), problem_of(content)
    trees = [KnownTree(found_by, text) for found_by, text in content["trees"]]
    try:
        found = best_of(problem, trees, content["budget"]["wall_seconds"])
    except TileCostsNeeded as needed:
        return cost_requests(needed, watch)
    columns = answer_columns(problem, found.outcome) | {"costed_trees": _entry(found)}
    return columns if found.best is None else columns | {"tree_from": found.best.found_by}


def _entry(found: CostedTrees) -> CostedTreesEntry:
    return {
        "possible": len(found.possible),
        "not_possible": found.not_possible,
        "nondominated": [
            {"tree_from": one.tree.found_by, "energy_pj": one.energy_pj, "cycles": one.cycles}
            for one in found.nondominated
        ],
    }
