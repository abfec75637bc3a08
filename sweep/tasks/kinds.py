"""The kinds of tasks together: how a worker answers any of them, and which answers the store has."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from collections.abc import Mapping as ReadOnlyDict
from typing import Any

from results.store.known_answers import StoredAnswers
from results.store.schema.rows import AnswerRow
from results.store.schema.tables import ANSWER_TABLES
from sweep.tasks.chips.program import run_program_task
from sweep.tasks.chips.schedule import ScheduleTask
from sweep.tasks.chips.schedule_answer import run_schedule_task
from sweep.tasks.chips.tile_costs import run_tile_cost_task
from sweep.tasks.chips.tree_costing import run_tree_costing_task
from sweep.tasks.chips.tree_refinement import run_tree_refinement_task
from sweep.tasks.codesign import CodesignTask, run_codesign_task
from sweep.tasks.columns import AnswerColumns
from sweep.tasks.fusion import FusionTask, run_fusion_task
from sweep.tasks.mapping import MappingTask, run_mapping_task
from sweep.tasks.scratchpad import ScratchpadTask, run_scratchpad_task

Task = MappingTask | FusionTask | ScratchpadTask | ScheduleTask
"""What designs ask for."""
PaperTask = MappingTask | ScratchpadTask | CodesignTask
"""What evaluations of papers ask for beside studies."""
Columns = ReadOnlyDict[str, Sequence[str]]
"""Names of columns by table."""

RUN: dict[str, Callable[[ReadOnlyDict[str, Any]], AnswerColumns]] = {
    "mapping": run_mapping_task,
    "fusion": run_fusion_task,
    "scratchpad": run_scratchpad_task,
    "codesign": run_codesign_task,
    "schedule": run_schedule_task,
    "tile_costs": run_tile_cost_task,
    "tree_costing": run_tree_costing_task,
    "tree_refinement": run_tree_refinement_task,
    "program": run_program_task,
}
"""The function that answers the content of a task, by the content's ``kind``."""


def answer_task(content: ReadOnlyDict[str, Any]) -> AnswerColumns:
    """The columns of the task's row that its solve decides; this is what workers run."""
    return RUN[content["kind"]](content)


def stored_answers(
    store: StoredAnswers, ids: ReadOnlyDict[str, Iterable[str]], columns: Columns | None = None
) -> dict[str, AnswerRow]:
    """By id, the rows of tasks that runs in ``store`` answered; ``ids`` and ``columns`` are by table.

    ``columns`` None: all columns of an answer, see :meth:`StoredAnswers.find`.
    """
    found: dict[str, AnswerRow] = {}
    for table in ANSWER_TABLES:
        if wanted := ids.get(table.name):
            found |= store.find(table, wanted, None if columns is None else columns[table.name])
    return found


def known_answers(store: StoredAnswers, ids: ReadOnlyDict[str, Iterable[str]]) -> set[str]:
    """Which of the tasks runs in ``store`` answered; ``ids`` are by table."""
    return {
        task_id
        for table in ANSWER_TABLES
        if table.name in ids
        for task_id in store.known(table, ids[table.name])
    }


def ids_by_table(tasks: Iterable[Task | PaperTask]) -> dict[str, set[str]]:
    """The identities of tasks by the table of their rows."""
    ids: dict[str, set[str]] = {table.name: set() for table in ANSWER_TABLES}
    for task in tasks:
        ids[task.table].add(task.id)
    return ids


def with_epochs(tasks: Iterable[Task]) -> list[Task]:
    """The tasks and, of schedules whose seeds exchange trees, those of all epochs before; each once."""
    found: dict[str, Task] = {}
    waiting = list(tasks)
    while waiting:
        task = waiting.pop()
        if task.id not in found:
            found[task.id] = task
            waiting += task.before if isinstance(task, ScheduleTask) else ()
    return list(found.values())
