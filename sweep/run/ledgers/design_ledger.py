"""The ledger: which answers the open designs still wait for, and the row of a design once all are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from results.store.schema.rows import DesignRow
from sweep.design.design_row import DesignIdentity, design_row
from sweep.design.workload import DesignWorkload
from sweep.run.ledgers.waiting_ledger import WaitingLedger
from sweep.study.designs.design_space import Design
from sweep.study.study import Study
from sweep.tasks.kinds import Task, with_epochs
from sweep.tasks.summaries import AnswerSummary


@dataclass(frozen=True, eq=False)
class _OpenDesign:
    design: Design
    tasks: tuple[str, ...]
    """Task ids in the order of the workload's tasks."""
    before: tuple[str, ...] = ()
    """Ids of the earlier epochs that the tasks go on from, where seeds exchange their trees."""


@dataclass
class DesignLedger:
    """Opens designs, hands out each distinct task once, and closes a design with its last answer.

    ``answers`` keeps what designs need of every answer until the run ends: a later design may ask for any.
    """

    study: Study
    workload: DesignWorkload
    answers: dict[str, AnswerSummary] = field(default_factory=dict)
    _waiting: WaitingLedger[_OpenDesign] = field(default_factory=WaitingLedger)
    _identity: DesignIdentity = field(init=False)
    _charged: dict[str, Design] = field(default_factory=dict)
    """By id of a task, the design whose row has its CPU time: the first one that needed it."""

    def __post_init__(self) -> None:
        self._identity = DesignIdentity.of(self.study)

    def knows(self, task_id: str) -> bool:
        """Whether the task is answered."""
        return task_id in self.answers

    def open(self, design: Design, tasks: Sequence[Task]) -> tuple[list[Task], DesignRow | None]:
        """Let the design wait for the answers to its ``tasks``.

        A design that is opened again, with further tasks after those that it had, gets a new row.

        Returns the tasks that nobody has asked for yet and, where every answer is there, the design's row.
        """
        by_id = {task.id: task for task in tasks}
        before = tuple(task.id for task in with_epochs(tasks) if task.id not in by_id)
        entry = _OpenDesign(design, tuple(task.id for task in tasks), before)
        new = self._waiting.wait(entry, (task_id for task_id in by_id if not self.knows(task_id)))
        row = None if self._waiting.waits(entry) else self._row(entry)
        return [by_id[task_id] for task_id in new], row

    def record(self, task_id: str, answer: AnswerSummary) -> list[DesignRow]:
        """Enter an answer; returns the rows of the designs that it completes."""
        self.answers[task_id] = answer
        return [self._row(entry) for entry in self._waiting.answered(task_id)]

    def _row(self, entry: _OpenDesign) -> DesignRow:
        """The ``designs`` row of a design all of whose tasks are answered."""
        answers = [self.answers[task_id] for task_id in entry.tasks]
        found = self.workload.results(entry.design, entry.tasks, answers)
        effort = self._effort(entry.design, {*entry.before, *entry.tasks})
        return design_row(self.study, entry.design, self._identity) | effort | found

    def _effort(self, design: Design, solves: set[str]) -> DesignRow:
        """The columns that count the design's solves, and the CPU time of those that it was first to need.

        A solve without an answer here is an earlier epoch of an answer that the store had. It is in the
        store, too, but was not read; it counts as cached.
        """
        known = {task_id: self.answers[task_id] for task_id in solves if task_id in self.answers}
        cached = sum(answer.cached for answer in known.values())
        first = [task_id for task_id in known if self._charged.setdefault(task_id, design) is design]
        return {
            "solves": len(solves),
            "cached_solves": len(solves) - len(known) + cached,
            "failures": sum(answer.status == "failed" for answer in known.values()),
            "cpu_seconds": sum(known[t].cpu_seconds for t in first if not known[t].cached),
        }
