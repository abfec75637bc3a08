"""What a worker does, and what the store knows: the answers to tasks of every kind."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from collections.abc import Mapping as ReadOnlyDict
from typing import Any

from results.answers import StoredAnswers
from results.schema import ANSWER_TABLES
from sweep.schedule_task import ScheduleTask
from sweep.schedule_worker import run_schedule_task
from sweep.scratchpad_task import ScratchpadTask, run_scratchpad_task
from sweep.task import MappingTask, run_task
from sweep.tile_task import run_tile_task

Task = MappingTask | ScratchpadTask | ScheduleTask
"""What designs ask for."""
Columns = ReadOnlyDict[str, Sequence[str]]
"""Names of columns by table."""

RUN = {
    "mapping": run_task,
    "scratchpad": run_scratchpad_task,
    "schedule": run_schedule_task,
    "tile_costs": run_tile_task,
}
"""What answers the content of a task, by its kind."""


def answer_task(content: ReadOnlyDict[str, Any]) -> dict[str, Any]:
    """The columns that the solve of a task decides, of the row in the table that the task is of."""
    return RUN[content["kind"]](content)


def stored_answers(
    store: StoredAnswers, ids: ReadOnlyDict[str, Iterable[str]], columns: Columns | None = None
) -> dict[str, dict[str, Any]]:
    """Rows of tasks that runs in ``store`` answered; ``ids`` and ``columns`` by table.

    None: all columns of an answer, see :meth:`StoredAnswers.find`.
    """
    found: dict[str, dict[str, Any]] = {}
    for table in ANSWER_TABLES:
        if wanted := ids.get(table.name):
            found |= store.find(table, wanted, None if columns is None else columns[table.name])
    return found


def known_answers(store: StoredAnswers, ids: ReadOnlyDict[str, Iterable[str]]) -> set[str]:
    """Those of the tasks that runs in ``store`` answered; ``ids`` by table."""
    return {
        task_id
        for table in ANSWER_TABLES
        if table.name in ids
        for task_id in store.known(table, ids[table.name])
    }


def ids_by_table(tasks: Iterable[Task]) -> dict[str, set[str]]:
    """The identities of tasks by the table of their rows."""
    ids: dict[str, set[str]] = {table.name: set() for table in ANSWER_TABLES}
    for task in tasks:
        ids[task.table].add(task.id)
    return ids
