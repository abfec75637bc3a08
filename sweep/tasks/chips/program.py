"""Tasks that write programs: what every tile does in a schedule that is known to be a design's best."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any

from costmodel.formats.json.programs import packed_program
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.program.writer import VERSION, write_program
from costmodel.schedule.tree.validity import NotPossibleError
from results.store.schema.rows import ProgramColumns, ProgramRow
from solvers.budget import Deadline, OutOfTimeError, Stopwatch
from solvers.schedule.known_trees import evaluated
from solvers.schedule.tiles.cost_table import TileCostsNeeded
from sweep.study.identity import content_hash
from sweep.tasks.chips.schedule import ScheduleTask
from sweep.tasks.chips.schedule_answer import cost_requests, problem_of
from sweep.tasks.chips.scheduling_costs import SchedulingCosts
from sweep.tasks.chips.tree_costing import TreeCosting
from sweep.tasks.columns import CostRequests
from sweep.tasks.mapping import check_versions

PROGRAM_WRITER = "program_writer"
"""What stands in the column ``solver`` of these rows: no solver of the catalogue, for nothing is searched."""


@dataclass(frozen=True)
class ProgramWriting(TreeCosting):
    """How a program is written, in the form in which schedule tasks say how they are solved."""

    @cached_property
    def content(self) -> dict[str, Any]:
        return super().content | {"solver": PROGRAM_WRITER, "solver_version": VERSION}


@dataclass(frozen=True, eq=False)
class ProgramTask(ScheduleTask):
    """Write the program of ``tree``, the answer of the schedule task with the id ``schedule_id``.

    The program needs the costs of the tree's layers again: they decide how each is cut and put on tiles.
    """

    schedule_id: str = ""
    tree: str = ""

    table = "programs"

    @staticmethod
    def of(task: ScheduleTask, tree: str, asks_for_costs: bool) -> ProgramTask:
        """The program of the ``tree`` that answers ``task``.

        ``asks_for_costs``: whether the schedulers of the study ask for costs as trees need them.
        """
        solve = ProgramWriting(PROGRAM_WRITER, task.solve.objective, "{}", task.solve.budget, asks_for_costs)
        return ProgramTask(task.network, task.on, task.demand, solve, schedule_id=task.id, tree=tree)

    @cached_property
    def id(self) -> str:
        content = {key: part for key, part in self.solve.content.items() if key != "budget"}
        network = self.network.id
        return content_hash(
            ["program", network, self.batch, self.on.id, content, self.schedule_id, self.tree]
        )

    def payload(self, costs: SchedulingCosts, states: Sequence[Any] = ()) -> dict[str, Any]:
        """What a worker is sent; nothing is searched, so there are never ``states`` to go on from."""
        return super().payload(costs, states) | {"kind": "program", "tree": self.tree}

    @property
    def columns(self) -> ProgramRow:  # type: ignore[override]
        """The columns of a ``programs`` row that the task decides."""
        return {
            "schedule_id": self.schedule_id,
            "tree": self.tree,
            "solver": PROGRAM_WRITER,
            "solver_version": VERSION,
            "params": {},
            "seed": None,
        }


def run_program_task(content: ReadOnlyDict[str, Any]) -> ProgramColumns | CostRequests:
    """Answer a task from its :meth:`ProgramTask.payload`; runs on a worker, returns plain data.

    Writing has the wall seconds of the schedule's solve. What was not written in them is no answer: whoever
    asks again may have more time. Requests for costs, and errors, are as in
    :func:`sweep.tasks.chips.schedule_answer.run_schedule_task`.
    """
    check_versions(content, VERSION)
    watch, problem = Stopwatch(), problem_of(content)
    deadline = Deadline(content["budget"]["wall_seconds"], watch)
    try:
        evaluation = evaluated(problem, content["tree"])
    except TileCostsNeeded as needed:
        return cost_requests(needed, watch)
    assert isinstance(evaluation, ChipEvaluation)
    columns: ProgramColumns
    try:
        program = packed_program(write_program(problem.graph, evaluation, deadline.check))
        columns = {"status": "feasible", "program": program}
    except NotPossibleError as reason:
        columns = {"status": "infeasible", "no_program": str(reason)}
    except OutOfTimeError as reason:
        columns = {"status": "unknown", "no_program": f"{reason}, the time limit of its schedule"}
    return columns | {"cpu_seconds": watch.cpu_seconds, "wall_seconds": watch.wall_seconds}
