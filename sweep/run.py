"""The run loop: propose designs, submit their open tasks, record what comes back, close designs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from itertools import islice
from pathlib import Path
from typing import Any

from clusters.runtime import Completion, Runtime, WorkersUnavailableError, complete_all
from results.answers import find_answers
from results.schema import ANSWERED
from results.store import RunFolder, RunWriter
from sweep.design_ledger import Answer, DesignLedger, demands, design_row
from sweep.lock import study_id
from sweep.plan import Plan
from sweep.space import Design
from sweep.study import Study
from sweep.task import MappingTask, VersionMismatchError, architecture_content, architecture_id, layer_content

DESIGNS_PER_LOOKUP = 64
"""Designs whose tasks are looked up in the store at once."""


class Observer:
    """Watches a run and does nothing: the base of the progress bar, of logs, of tests."""

    def planned(self, plan: Plan) -> None:
        """The run is about to start."""

    def answered(self, row: dict[str, Any]) -> None:
        """One task has its answer: the ``layers`` row, of a cached one the part that designs need."""

    def designed(self, row: dict[str, Any]) -> None:
        """One design has its row."""


class Run:
    """One study on its way into one run folder; equal tasks are solved once, whoever solved them before.

    ``store`` is the folder of run folders whose answers are reused; None solves everything.
    """

    def __init__(self, study: Study, writer: RunWriter, observer: Observer, store: Path | None) -> None:
        self.study, self.writer, self.observer, self.store = study, writer, observer, store
        self.ledger = DesignLedger(study, demands(study))
        self._study_id = study_id(study)
        self._solving: dict[str, MappingTask] = {}
        rows = RunFolder(writer.path).read("layers", ["task_id", "status"]).to_pylist()
        self._held = {row["task_id"] for row in rows if row["status"] in ANSWERED}

    def explore(self, proposed: Iterable[Design], runtime: Runtime) -> None:
        """Run until every proposed design has its row; a failed solve is a row, not the end."""
        for completion in complete_all(runtime, self._submissions(iter(proposed))):
            _check_environment(completion)
            task = self._solving.pop(completion.key)
            row = self._identity(task) | _answer(completion)
            self.writer.append("layers", row)
            self._record(task.id, row)

    def _submissions(self, proposed: Iterator[Design]) -> Iterator[tuple[str, Any]]:
        while batch := list(islice(proposed, DESIGNS_PER_LOOKUP)):
            for task in self._open(batch):
                self._solving[task.id] = task
                yield task.id, task.content

    def _open(self, batch: list[Design]) -> list[MappingTask]:
        """Open the designs of a batch; returns the tasks that nobody has solved yet."""
        asked: list[MappingTask] = []
        for design in batch:
            tasks, row = self.ledger.open(design) if design.feasible else ([], design_row(self.study, design))
            asked += tasks
            if row is not None:
                self._close(row)
        found = find_answers(self.store, [task.id for task in asked]) if self.store else {}
        for task in asked:
            if row := found.get(task.id):
                self._reuse(task, row)
        return [task for task in asked if task.id not in found]

    def _reuse(self, task: MappingTask, row: dict[str, Any]) -> None:
        cached = {"cached": True, "from_study": row["from_study"] or row["study"]}
        if task.id not in self._held:
            self.writer.append("layers", {**row, **self._identity(task), **cached})
        self._record(task.id, row | cached)

    def _record(self, task_id: str, row: dict[str, Any]) -> None:
        self.observer.answered(row)
        for complete in self.ledger.record(task_id, Answer.of(row)):
            self._close(complete)

    def _close(self, row: dict[str, Any]) -> None:
        self.writer.append("designs", row | {"study_id": self._study_id})
        self.observer.designed(row)

    def _identity(self, task: MappingTask) -> dict[str, Any]:
        """The columns of a ``layers`` row that the task decides."""
        settings = task.settings.content
        return {
            "task_id": task.id,
            "study": self.study.name,
            "layer_name": task.layer.name,
            "layer_shape": layer_content(task.layer),
            "architecture_id": architecture_id(task.architecture),
            "architecture": architecture_content(task.architecture),
            "solver": task.settings.solver,
            "solver_version": settings["solver_version"],
            "params": {"params": settings["params"], "budget": settings["budget"]},
            "seed": task.settings.budget.seed,
            "objective_name": task.settings.objective,
            "macs": task.layer.macs,
        }


def _check_environment(completion: Completion) -> None:
    """Raises WorkersUnavailableError for an error that every task of this worker would have."""
    error = completion.error
    if error is not None and error.type in (VersionMismatchError.__name__, ModuleNotFoundError.__name__):
        raise WorkersUnavailableError(
            f"driver and workers differ: {error.message} (worker {completion.worker}). Install the same "
            "archsweep on every node, or send the code along with `archsweep submit`"
        )


def _answer(completion: Completion) -> dict[str, Any]:
    """The columns of a ``layers`` row that the solve decides; an error makes a failed row."""
    row: dict[str, Any] = {
        "worker": completion.worker,
        "attempts": completion.attempts,
        "cached": False,
        "finished_at": datetime.now(UTC),
    }
    if completion.error is None:
        return row | dict(completion.value)
    error = completion.error
    return row | {
        "status": "failed",
        "error": f"{error.type}: {error.message}",
        "wall_seconds": completion.wall_seconds,
        "cpu_seconds": completion.cpu_seconds,
    }
