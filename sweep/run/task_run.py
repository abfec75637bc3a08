"""Tasks that belong to no design, solved into a run folder: stored, taken up again, on any runtime."""

from __future__ import annotations

import platform
from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, cast

from clusters.runtime import complete_all
from costmodel import MODEL_VERSION
from results.store.folder import RunFolder, RunWriter
from results.store.known_answers import StoredAnswers
from results.store.schema.rows import AnswerRow
from results.store.schema.tables import ANSWER_TABLES
from solvers.catalogue import solver
from sweep import VERSION
from sweep.run.folder_owner import check_lock_file
from sweep.run.session import RuntimeChoice, store_of
from sweep.tasks.codesign import CodesignTask
from sweep.tasks.completions import answer_row, check_environment
from sweep.tasks.kinds import PaperTask, answer_task, ids_by_table, stored_answers
from sweep.tasks.mapping import MappingTask


def run_tasks(
    name: str, tasks: Sequence[PaperTask], folder: Path, runtime: RuntimeChoice
) -> dict[str, AnswerRow]:
    """The rows of all tasks by their ids, solved where no run beside ``folder`` has the answer.

    ``name`` is what the folder's lock file calls the tasks; InputError for a folder that is another's. A
    failed solve has a row with its error. Equal tasks are solved once.
    """
    check_lock_file(folder, name)
    distinct = {task.id: task for task in tasks}
    found = stored_answers(StoredAnswers(store_of(folder)), ids_by_table(distinct.values()))
    run = RunFolder(folder)
    held = {task_id for table in ANSWER_TABLES for task_id in run.answered(table.name)}
    rows: dict[str, AnswerRow] = {}
    with RunWriter(folder) as writer:
        writer.write_lock_file(_lock_content(name, list(distinct.values())))
        for task_id, row in found.items():
            task = distinct[task_id]
            cached: AnswerRow = {"cached": True, "from_study": row["from_study"] or row["study"]}
            rows[task_id] = row | cached
            if task_id not in held:
                writer.append(task.table, row | _identity(name, task) | cached)
        open_tasks = [task for task in distinct.values() if task.id not in rows]
        chosen = runtime if open_tasks else RuntimeChoice(in_process=True)
        seconds = max((_wall_seconds(task) for task in open_tasks), default=1.0)
        with chosen.started(answer_task, seconds, sorted({_solver(task) for task in open_tasks})) as started:
            for completion in complete_all(started, _items(open_tasks)):
                check_environment(completion)
                task = distinct[completion.key]
                rows[task.id] = _identity(name, task) | answer_row(completion)
                writer.append(task.table, rows[task.id])
    return rows


def _items(tasks: Sequence[PaperTask]) -> Iterator[tuple[str, Any]]:
    for task in tasks:
        yield task.id, task.content


def _identity(name: str, task: PaperTask) -> AnswerRow:
    return cast(AnswerRow, task.columns) | {"task_id": task.id, "study": name}


def _solver(task: PaperTask) -> str:
    if isinstance(task, CodesignTask):
        return task.solver
    return task.settings.solver if isinstance(task, MappingTask) else task.solve.solver


def _wall_seconds(task: PaperTask) -> float:
    if isinstance(task, CodesignTask):
        return task.budget.wall_seconds
    settings = task.settings if isinstance(task, MappingTask) else task.solve
    return settings.budget.wall_seconds


def _lock_content(name: str, tasks: Sequence[PaperTask]) -> dict[str, Any]:
    """What ran, for anyone who wants to run it again."""
    return {
        "study": {"name": name, "tasks": len(tasks)},
        "written_at": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": {
            "python": platform.python_version(),
            "archsweep": VERSION,
            "cost model": MODEL_VERSION,
            **{f"solver {one}": solver(one).version for one in sorted({_solver(task) for task in tasks})},
        },
    }
