"""Studies explored without a session: in this process, as a store has them, with the rows that came of it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from clusters.in_process import InProcessRuntime
from results.store.folder import RunFolder, RunWriter
from sweep.run.progress.observer import RunObserver
from sweep.run.run import StudyRun
from sweep.search.search import search_of
from sweep.study.study import Study

MakeRuntime = Callable[[Callable[[Any], Any]], InProcessRuntime]
Row = dict[str, Any]


def explored(
    study: Study, path: Path, runtime: InProcessRuntime, observer: RunObserver | None = None
) -> RunFolder:
    """The run folder ``path``, after the study ran into it; runs beside it are its store."""
    with RunWriter(path) as writer:
        StudyRun(study, search_of(study), writer, observer, path.parent).explore(runtime)
    return RunFolder(path)


def schedules(folder: RunFolder) -> dict[str, Row]:
    """The rows of ``schedules`` by their task."""
    return {row["task_id"]: row for row in folder.read_rows("schedules")}
