"""The run loop: propose designs, submit their open tasks, record what comes back, close designs."""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator
from pathlib import Path
from typing import Any

from clusters.pace import FEWEST_A_WORKER
from clusters.runtime import Runtime, complete_all
from results.store.folder import RunFolder, RunWriter
from results.store.known_answers import StoredAnswers, stored_in
from results.store.schema.tables import ANSWER_TABLES
from sweep.design.cost_tables import CostTables, CostTask
from sweep.design.design_row import DesignRow, design_row, infeasible_row
from sweep.design.workload import DesignWorkload, tasks_of, workload_of
from sweep.forecast.plan import StudyPlan
from sweep.run.cost_ledger import CostLedger
from sweep.run.design_ledger import DesignLedger
from sweep.run.epoch_ledger import EpochLedger
from sweep.run.pruning import BoundsPruning, without_mapping
from sweep.search.search import DesignSearch
from sweep.study.design_space import Design
from sweep.study.lock import study_id
from sweep.study.study import Study
from sweep.tasks.completions import answer_row, check_environment, failed_row
from sweep.tasks.kinds import Task, ids_by_table, stored_answers, with_epochs
from sweep.tasks.mapping import MappingTask
from sweep.tasks.schedule import ScheduleTask
from sweep.tasks.summaries import NEEDED, summary_of


class RunObserver:
    """Watches a run and does nothing: the base of the progress bar, of logs, of tests."""

    def counted(self, done: int, total: int) -> None:
        """So many of the designs are counted, before the run starts."""

    def planned(self, plan: StudyPlan) -> None:
        """The run is about to start."""

    def answered(self, row: dict[str, Any]) -> None:
        """One task has its answer: the row of its table, of a cached one the part that designs need."""

    def asked(self, solves: int) -> None:
        """Schedules wait for so many more solves."""

    def designed(self, row: DesignRow) -> None:
        """One design has its row."""


class StudyRun:
    """One study on its way into one run folder; equal tasks are solved once, whoever solved them before.

    ``store`` is the folder of run folders whose answers are reused, or these; None solves everything.
    ``workload`` is what the study asks of every design, where its plan has made that already.
    """

    def __init__(
        self,
        study: Study,
        search: DesignSearch,
        writer: RunWriter,
        observer: RunObserver | None = None,
        store: Path | StoredAnswers | None = None,
        *,
        workload: DesignWorkload | None = None,
    ) -> None:
        self.study, self.search, self.writer = study, search, writer
        self.observer, self.store = observer or RunObserver(), stored_in(store)
        self.ledger = DesignLedger(study, workload or workload_of(study))
        self.pruning = BoundsPruning(study, self.ledger.workload) if study.search.prune_by_bounds else None
        self._study_id = study_id(study)
        self._solving: dict[str, Task | CostTask] = {}
        """By id, what the runtime has and has not completed."""
        self._costs = CostLedger(CostTables(self.store))
        self._needed = deque[CostTask]()
        """Costs that schedules wait for and that the runtime has not been given yet."""
        self._epochs = EpochLedger()
        self._ready = deque[ScheduleTask]()
        """Schedules that wait for nothing any more and that the runtime has not been given yet."""
        folder = RunFolder(writer.path)
        self._held = {task_id for table in ANSWER_TABLES for task_id in folder.answered(table.name)}
        """The tasks whose answers this folder has from an earlier run."""

    def explore(self, runtime: Runtime) -> None:
        """Run until every proposed design has its row; a failed solve is a row, not the end."""
        for completion in complete_all(runtime, self._submissions(runtime)):
            check_environment(completion)
            task = self._solving.pop(completion.key)
            if isinstance(task, ScheduleTask) and completion.value and "needs" in completion.value:
                needed = self._costs.asked(task, completion.value)
                self.observer.asked(len(needed))
                self._hold(task, needed)
            else:
                self._file(task, answer_row(completion))

    def _submissions(self, runtime: Runtime) -> Iterator[tuple[str, Any] | None]:
        """The solves nobody has done yet; None where it is better to know more before the next design."""
        while not self.search.finished:
            yield from self._while_busy(runtime)
            yield from self._prepared()
            batch = [(design, tasks_of(self.ledger.workload, design)) for design in self.search.ask()]
            stored = self._stored(task for _, tasks in batch for task in with_epochs(tasks))
            for design, tasks in batch:
                yield from self._while_busy(runtime)
                yield from self._prepared()
                yield from self._open(design, tasks, stored)
        while self._ready or self._costs or self._epochs:
            yield from self._prepared()
            yield None

    def _while_busy(self, runtime: Runtime) -> Iterator[None]:
        """Let workers that have enough to do finish some, where proposals or discards follow from that."""
        while (self.search.learns or self.pruning) and runtime.pending >= FEWEST_A_WORKER * runtime.workers:
            yield None

    def _stored(self, tasks: Iterable[Task]) -> dict[str, dict[str, Any]]:
        """What the store knows of these tasks and this run does not yet."""
        if self.store is None:
            return {}
        unknown = [task for task in tasks if not self.ledger.knows(task.id)]
        held = ids_by_table(task for task in unknown if task.id in self._held)
        others = ids_by_table(task for task in unknown if task.id not in self._held)
        # a row that this folder holds is not written again: what designs need of it will do
        return stored_answers(self.store, held, NEEDED) | stored_answers(self.store, others)

    def _open(
        self, design: Design, tasks: list[Task], stored: dict[str, dict[str, Any]]
    ) -> Iterator[tuple[str, Any]]:
        """Open a design, and yield what is to be solved for it."""
        row = self._without_solves(design, tasks, stored)
        new, row = ([], row) if row else self.ledger.open(design, tasks)
        if row is not None:
            self._close(row)
        for task in new:
            if found := stored.get(task.id):
                self._reuse(task, found)
            elif isinstance(task, ScheduleTask):
                yield from self._begin(task, stored)
            else:
                self._solving[task.id] = task
                yield task.id, task.content

    def _begin(self, task: ScheduleTask, stored: dict[str, dict[str, Any]]) -> Iterator[tuple[str, Any]]:
        """What a schedule needs comes first: the epoch before of all seeds, or costs of layers."""
        if not task.before:
            self._hold(task, self._costs.begin(task))
        else:
            before = self._epochs.begin(task)
            if self._epochs.ready(task):
                self._ready.append(task)
            for need in before:
                if found := stored.get(need.id):
                    self._reuse(need, found)
                else:
                    yield from self._begin(need, stored)
        yield from self._prepared()

    def _prepared(self) -> Iterator[tuple[str, Any]]:
        """Costs that schedules wait for, then the schedules that wait for nothing.

        Those that lack what they waited for have a failed row.
        """
        while self._needed:
            need = self._needed.popleft()
            self._solving[need.id] = need
            yield need.id, need.content
        while self._ready:
            task = self._ready.popleft()
            states = self._epochs.states(task)
            lacking = "the epoch before failed" if None in states else self._costs.lacking(task)
            if lacking:
                self._file(task, failed_row(lacking))
            else:
                self._solving[task.id] = task
                yield task.id, self._costs.payload(task, states)

    def _hold(self, task: ScheduleTask, needed: list[CostTask]) -> None:
        """Have solved what a schedule cannot go on without."""
        self._needed.extend(needed)
        if self._costs.ready(task):
            self._ready.append(task)

    def _file(self, task: Task | CostTask, answer: dict[str, Any]) -> None:
        """Write the row of a task, and go on with what waits for it."""
        row = self._identity(task) | answer
        if isinstance(task, ScheduleTask):
            row = self._costs.finished(task, row)
        self.writer.append(task.table, row)
        if isinstance(task, CostTask) and self._costs.awaited(task.id):
            self.observer.answered(row)
            self._ready.extend(self._costs.answered(task, row))
        else:
            assert isinstance(task, Task)
            self._record(task, row)

    def _without_solves(self, design: Design, tasks: list[Task], stored: Collection[str]) -> DesignRow | None:
        """The row of a design that breaks a constraint, can have no answer, or is discarded by its bounds."""
        if not design.feasible:
            return design_row(self.study, design)
        if reason := self.ledger.workload.obstacle(design):
            return infeasible_row(self.study, design, reason)
        unknown = [task for task in tasks if task.id not in stored and not self.ledger.knows(task.id)]
        row = without_mapping(self.study, design, _layers(unknown))
        if row is None and self.pruning and unknown:
            row = self.pruning.discard(design, tasks)
        return row

    def _reuse(self, task: Task, row: dict[str, Any]) -> None:
        cached = {"cached": True, "from_study": row["from_study"] or row["study"]}
        if task.id not in self._held:
            self.writer.append(task.table, {**row, **self._identity(task), **cached})
        self._record(task, row | cached)

    def _record(self, task: Task, row: dict[str, Any]) -> None:
        self.observer.answered(row)
        if isinstance(task, ScheduleTask):
            self._ready.extend(self._epochs.answered(task, row))
        for complete in self.ledger.record(task.id, summary_of(task, row)):
            self._close(complete)

    def _close(self, row: DesignRow) -> None:
        self.writer.append("designs", row | {"study_id": self._study_id})
        if self.pruning:
            self.pruning.evaluated(row)
        self.search.tell(row)
        self.observer.designed(row)

    def _identity(self, task: Task | CostTask) -> dict[str, Any]:
        """The columns of the task's row that are known before its solve."""
        return {"task_id": task.id, "study": self.study.name, **task.columns}


def _layers(tasks: Iterable[Task]) -> list[MappingTask]:
    return [task for task in tasks if isinstance(task, MappingTask)]
