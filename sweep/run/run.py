"""The run loop: propose designs, submit their open tasks, record what comes back, close designs.

It goes in stages. First every proposed design is opened: its tasks are answered from the store or submitted,
and schedules that need costs of layers wait for these. Where trees go from chip to chip
(:mod:`sweep.design.sibling_trees`), three more stages follow: trees found for one chip are costed on its
siblings, searches go on from the best of them, and what these find is costed on siblings again. Last come the
programs of the best schedules.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, cast

from clusters.pace import FEWEST_A_WORKER
from clusters.runtime import Runtime, complete_all
from results.front.left_out import outcome
from results.store.folder import RunFolder, RunWriter
from results.store.known_answers import StoredAnswers, stored_in
from results.store.schema.rows import AnswerRow, DesignRow, ScheduleRow
from results.store.schema.tables import ANSWER_TABLES
from sweep.design.best_programs import BestPrograms
from sweep.design.cost_tables import CostTables, CostTask
from sweep.design.design_row import design_row, infeasible_row
from sweep.design.sibling_trees import DesignTasks, SiblingTrees
from sweep.design.workload import DesignWorkload, tasks_of, workload_of
from sweep.run.ledgers.cost_ledger import CostLedger
from sweep.run.ledgers.design_ledger import DesignLedger
from sweep.run.ledgers.epoch_ledger import EpochLedger
from sweep.run.progress.observer import RunObserver
from sweep.run.pruning import BoundsPruning, without_mapping
from sweep.search.search import DesignSearch
from sweep.study.designs.design_space import Design
from sweep.study.lock import study_id
from sweep.study.study import Study
from sweep.tasks.chips.schedule import ScheduleTask
from sweep.tasks.completions import answer_row, check_environment, failed_row
from sweep.tasks.kinds import Task, answer_task, ids_by_table, stored_answers, with_epochs
from sweep.tasks.mapping import MappingTask
from sweep.tasks.summaries import NEEDED, summary_of


class StudyRun:
    """Runs one study into one run folder; of equal tasks, one is solved, in this run or an earlier one.

    ``store`` has the answers of earlier runs: the folder in which their run folders lie, or the opened store.
    None solves everything. ``workload`` is what the study asks of every design; None makes it anew.
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
        self.work = answer_task
        """What a runtime for the run does with a task."""
        self.observer, self.store = observer or RunObserver(), stored_in(store)
        self.ledger = DesignLedger(study, workload or workload_of(study))
        self.pruning = BoundsPruning(study, self.ledger.workload) if study.search.prune_by_bounds else None
        self._study_id = study_id(study)
        self._solving: dict[str, Task | CostTask] = {}
        """By id, the tasks that the runtime was given and has not completed."""
        self._costs = CostLedger(CostTables(self.store))
        self._needed = deque[CostTask]()
        """Cost tasks that schedules wait for, to be given to the runtime next."""
        self._epochs = EpochLedger()
        self._ready = deque[ScheduleTask]()
        """Schedules that wait for nothing any more, to be given to the runtime next."""
        chosen = study.schedule
        self._siblings = SiblingTrees(chosen.refinement) if chosen and chosen.sibling_trees else None
        self._programs = BestPrograms()
        self._writes_programs = chosen is not None and chosen.programs
        self._statuses: dict[str, str] = {}
        """By design id, the status in its last row, where siblings' trees will be costed on it."""
        self._exchanging = False
        """Whether every design has its first row, and siblings' trees are being costed or refined."""
        folder = RunFolder(writer.path)
        self._held = {task_id for table in ANSWER_TABLES for task_id in folder.answered(table.name)}
        """Ids of the tasks whose rows this folder has from an earlier run."""

    def explore(self, runtime: Runtime) -> None:
        """Run until every proposed design has its row; a failed solve makes a failed row and ends nothing.

        Raises WorkersUnavailableError where workers have another version of the code, or lack a module.
        """
        for completion in complete_all(runtime, self._submissions(runtime)):
            check_environment(completion)
            task = self._solving.pop(completion.key)
            # a solver that asks as it goes has stopped for want of costs: it is begun again with them
            if isinstance(task, ScheduleTask) and completion.value and "needs" in completion.value:
                needed = self._costs.asked(task, completion.value)
                self.observer.asked(len(needed))
                self._hold(task, needed)
            else:
                self._file(task, answer_row(completion))

    def _submissions(self, runtime: Runtime) -> Iterator[tuple[str, Any] | None]:
        """What is solved next, as (id, payload), one task after the other; None to wait for an answer.

        :func:`clusters.runtime.complete_all` draws a task only when the runtime has capacity for it. Between
        two draws :meth:`explore` files answers, so the ledgers change while this generator is suspended:
        what answers have released is submitted before another design is opened. After None nothing is drawn
        until a task is complete.
        """
        while not self.search.finished:
            yield from self._before_a_design(runtime)
            proposed = [(design, tasks_of(self.ledger.workload, design)) for design in self.search.ask()]
            # one look into the store for all that was proposed, because each look reads files
            stored = self._stored(task for _, tasks in proposed for task in with_epochs(tasks))
            for design, tasks in proposed:
                yield from self._before_a_design(runtime)
                yield from self._open(design, tasks, stored)
        yield from self._until_scheduled()
        if self._siblings is not None:
            self._exchanging = True
            for stage in (self._siblings.costings, self._siblings.refinements, self._siblings.costings):
                yield from self._open_again(list(stage(self.ledger.answers)))
                yield from self._until_scheduled()
        if self._writes_programs:
            yield from self._write_programs()
        yield from self._until_scheduled()

    def _until_scheduled(self) -> Iterator[tuple[str, Any] | None]:
        """Submit what is left when every design is open, until every schedule has its row.

        Some schedules are released, others wait for costs or for the epoch before, which are being solved; so
        after each answer it is looked what that released.
        """
        while self._ready or self._costs or self._epochs:
            yield from self._released()
            yield None

    def _open_again(self, designs: Sequence[DesignTasks]) -> Iterator[tuple[str, Any]]:
        """Open designs again, now that all are answered, with further tasks on their siblings' trees."""
        tasks = {task.id: task for one in designs for task in one.new}
        self.observer.asked(len(tasks))
        stored = self._stored(tasks.values())
        for one in designs:
            self._programs.opened(one.new)
            new, row = self.ledger.open(one.design, one.tasks)
            if row is not None:
                self._close(row)
            yield from self._ask(new, stored)

    def _write_programs(self) -> Iterator[tuple[str, Any]]:
        """Have the program of every design's best schedule written, now that none is to be had better."""
        tasks = self._programs.tasks(self.ledger.answers)
        self.observer.asked(len(tasks))
        yield from self._ask(tasks, self._stored(tasks))

    def _before_a_design(self, runtime: Runtime) -> Iterator[tuple[str, Any] | None]:
        """Wait for the answers that decide what is proposed next, and submit what they released."""
        yield from self._while_busy(runtime)
        yield from self._released()

    def _while_busy(self, runtime: Runtime) -> Iterator[None]:
        """None as long as the workers have enough to do, where answers decide what is solved next.

        A search that learns proposes better, and bounds discard more, the more answers there are.
        """
        while (self.search.learns or self.pruning) and runtime.pending >= FEWEST_A_WORKER * runtime.workers:
            yield None

    def _stored(self, tasks: Iterable[Task]) -> dict[str, AnswerRow]:
        """By id, the stored rows of the ``tasks`` that this run has no answer to yet."""
        if self.store is None:
            return {}
        unknown = [task for task in tasks if not self.ledger.knows(task.id)]
        held = ids_by_table(task for task in unknown if task.id in self._held)
        others = ids_by_table(task for task in unknown if task.id not in self._held)
        # a row that this folder holds is not written again: what designs need of it will do
        return stored_answers(self.store, held, NEEDED) | stored_answers(self.store, others)

    def _open(
        self, design: Design, tasks: list[Task], stored: dict[str, AnswerRow]
    ) -> Iterator[tuple[str, Any]]:
        """Open a design, and yield (id, payload) of the solves that it is the first to need."""
        row = self._without_solves(design, tasks, stored)
        if row is None and self._siblings is not None:
            self._siblings.opened(design, tasks)
        if row is None:
            self._programs.opened(tasks)
        new, row = ([], row) if row else self.ledger.open(design, tasks)
        if row is not None:
            self._close(row)
        yield from self._ask(new, stored)

    def _ask(self, new: Iterable[Task], stored: dict[str, AnswerRow]) -> Iterator[tuple[str, Any]]:
        """Take the stored answers to ``new`` tasks, and yield (id, payload) of what the others wait for."""
        for task in new:
            if found := stored.get(task.id):
                self._reuse(task, found)
            elif isinstance(task, ScheduleTask):
                yield from self._begin(task, stored)
            else:
                self._solving[task.id] = task
                yield task.id, task.content

    def _begin(self, task: ScheduleTask, stored: dict[str, AnswerRow]) -> Iterator[tuple[str, Any]]:
        """Yield what a schedule waits for: costs of layers or, of a later epoch, all seeds' epoch before.

        And the schedules that this releases.
        """
        if not task.before:
            self._hold(task, self._costs.begin(task))
        else:
            # a later epoch needs the costs that the first one waited for: by then they are known
            before = self._epochs.begin(task)
            if self._epochs.ready(task):
                self._ready.append(task)
            for need in before:
                if found := stored.get(need.id):
                    self._reuse(need, found)
                else:
                    yield from self._begin(need, stored)
        yield from self._released()

    def _released(self) -> Iterator[tuple[str, Any]]:
        """Yield the costs that schedules wait for, then the schedules that wait for nothing.

        A schedule whose costs or epoch before could not be solved gets a failed row instead.
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
        """Queue the costs that a schedule waits for, or the schedule itself where it waits for none."""
        self._needed.extend(needed)
        if self._costs.ready(task):
            self._ready.append(task)

    def _file(self, task: Task | CostTask, answer: AnswerRow) -> None:
        """Write the row of a solved task, and release what waits for it."""
        row = self._identity(task) | answer
        if isinstance(task, ScheduleTask):
            row = self._costs.finished(task, row)
        self.writer.append(task.table, row)
        # a MappingTask is a cost if schedules wait for it, and else one that designs ask for
        if isinstance(task, CostTask) and self._costs.awaited(task.id):
            self.observer.answered(row)
            self._ready.extend(self._costs.answered(task, row))
        else:
            assert isinstance(task, Task)
            self._record(task, row)

    def _without_solves(self, design: Design, tasks: list[Task], stored: Collection[str]) -> DesignRow | None:
        """The row of a design for which nothing has to be solved; None for any other.

        Such a design breaks a constraint, provably has no answer, or its bounds are dominated or break a
        constraint on results. Where all its answers are known, it gets its proper row instead.
        """
        if not design.feasible:
            return design_row(self.study, design)
        if reason := self.ledger.workload.obstacle(design):
            return infeasible_row(self.study, design, reason)
        unknown = [task for task in tasks if task.id not in stored and not self.ledger.knows(task.id)]
        row = without_mapping(self.study, design, _layers(unknown))
        if row is None and self.pruning and unknown:
            row = self.pruning.discard(design, tasks)
        return row

    def _reuse(self, task: Task, row: AnswerRow) -> None:
        """Take a stored row as the task's answer; copy it into this folder unless it is from here."""
        cached: AnswerRow = {"cached": True, "from_study": row["from_study"] or row["study"]}
        if task.id not in self._held:
            self.writer.append(task.table, row | self._identity(task) | cached)
        self._record(task, row | cached)

    def _record(self, task: Task, row: AnswerRow) -> None:
        """Enter the answer that designs asked for; close the designs that it completes."""
        self.observer.answered(row)
        if isinstance(task, ScheduleTask):
            self._ready.extend(self._epochs.answered(task, cast(ScheduleRow, row)))
        for complete in self.ledger.record(task.id, summary_of(task, row)):
            self._close(complete)

    def _close(self, row: DesignRow) -> None:
        """Write a design's row, and tell whatever learns from it.

        A later row of a design, with the best of its siblings' trees, counts in results instead of the
        first. Searches are told the first one only: when the second is made, they have proposed all designs.
        """
        self.writer.append("designs", row | {"study_id": self._study_id})
        self._programs.judged(row)
        before = self._statuses.get(row["design_id"], "")
        if self._siblings is not None:
            self._statuses[row["design_id"]] = outcome(row)
        if self._exchanging:
            self.observer.judged_again(row, before)
            return
        if self.pruning:
            self.pruning.evaluated(row)
        self.search.tell(row)
        self.observer.designed(row)

    def _identity(self, task: Task | CostTask) -> AnswerRow:
        """The columns of the task's row that are known before its solve."""
        return cast(AnswerRow, task.columns) | {"task_id": task.id, "study": self.study.name}


def _layers(tasks: Iterable[Task]) -> list[MappingTask]:
    return [task for task in tasks if isinstance(task, MappingTask)]
