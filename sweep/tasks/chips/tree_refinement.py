"""Tasks that go on searching from a known tree: of a sibling chip, or of a rival that cannot go on itself."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from collections.abc import Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

from costmodel.schedule.tree.text import parse_tree
from results.store.schema.rows import ScheduleColumns, ScheduleRow
from solvers.budget import Budget
from solvers.schedule.known_trees import KnownTree
from solvers.schedule.set.refinement import solve_from
from sweep.study.identity import content_hash
from sweep.tasks.chips.schedule import ScheduleTask
from sweep.tasks.chips.schedule_answer import annealing_plan, answer_columns, problem_of
from sweep.tasks.chips.scheduling_costs import SchedulingCosts
from sweep.tasks.mapping import check_versions


@dataclass(frozen=True, eq=False)
class TreeRefinementTask(ScheduleTask):
    """Go on from ``start`` with the last ``fraction`` of the rounds that the task's search has.

    The identity follows from the text of the tree: whoever found it, the answer is the same.
    """

    start: KnownTree = field(kw_only=True)
    fraction: float = field(kw_only=True)

    @cached_property
    def id(self) -> str:
        solve, network = self.solve.content, self.network.id
        start = [self.start.text, self.fraction]
        return content_hash(["tree_refinement", network, self.batch, self.on.id, solve, start])

    def payload(self, costs: SchedulingCosts, states: Sequence[Any] = ()) -> dict[str, Any]:
        """What a worker is sent; a refinement is one solve, so there are never ``states`` to go on from."""
        start = {"start": self.start.text, "fraction": self.fraction}
        return super().payload(costs, states) | {"kind": "tree_refinement"} | start

    @property
    def columns(self) -> ScheduleRow:
        return super().columns | {"refined_from": self.start.found_by}


def run_tree_refinement_task(content: ReadOnlyDict[str, Any]) -> ScheduleColumns:
    """Answer a task from its :meth:`TreeRefinementTask.payload`; runs on a worker, returns plain data.

    Errors are as in :func:`sweep.tasks.chips.schedule_answer.run_schedule_task`.
    """
    check_versions(content)
    problem, start = problem_of(content), parse_tree(content["start"])
    plan = annealing_plan(content, len(problem.graph.layers))
    found = solve_from(problem, Budget(**content["budget"]), plan, start, content["fraction"])
    return answer_columns(problem, found)
