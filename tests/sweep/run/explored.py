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
from sweep.study.network_choice import NetworkChoice
from sweep.study.study import AxisChoices, Study

MakeRuntime = Callable[[Callable[[Any], Any]], InProcessRuntime]
Row = dict[str, Any]
MEASURED = frozenset({"cpu_seconds", "wall_seconds", "worker", "finished_at", "attempts"})
"""Columns in which no two runs of the same study agree."""


def family_of(tiny: Study, iterations: int) -> Study:
    """Two networks, 13 different layers, on 12 designs of 6 architectures that mappings can tell apart."""
    axes = {
        "SRAM.size": AxisChoices(choices=("2 KiB", "4 KiB", "8 KiB")),
        "SRAM.fanout": AxisChoices(choices=([2, 2], [4, 2])),
        "frequency": AxisChoices(choices=("100 MHz", "200 MHz")),
    }
    (first,) = tiny.networks
    mapping = tiny.mapping.model_copy(update={"iterations": iterations})
    return tiny.model_copy(
        update={"axes": axes, "networks": (first, NetworkChoice(network="resnet18")), "mapping": mapping}
    )


def contents(folder: RunFolder, table: str, without: frozenset[str] = MEASURED) -> dict[str, Row]:
    """The rows of a table by key, without these columns, in which no two runs agree; each once."""
    rows = folder.read_rows(table)
    key = "task_id" if table == "layers" else "design_id"
    found = {row[key]: {name: row[name] for name in row.keys() - without} for row in rows}
    assert len(found) == len(rows)
    return found


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
