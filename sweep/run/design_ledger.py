"""The ledger: which answers the open designs still wait for, and the row of a design once all are there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from sweep.run.design_row import Row, design_row
from sweep.run.workload import Workload
from sweep.study.design_space import Design
from sweep.study.study import Study
from sweep.tasks.answers import Answer
from sweep.tasks.kinds import Task, with_epochs


@dataclass
class _Open:
    design: Design
    tasks: tuple[str, ...]
    """Task ids in the order of the workload's tasks."""
    missing: set[str]
    before: tuple[str, ...] = ()
    """Of tasks that are the last of several epochs, the ids of the others."""


@dataclass
class DesignLedger:
    """Opens designs, hands out each distinct task once, and closes a design with its last answer."""

    study: Study
    workload: Workload
    answers: dict[str, Answer] = field(default_factory=dict)
    _waiting: dict[str, list[_Open]] = field(default_factory=dict)
    _first_need: set[str] = field(default_factory=set)

    def tasks(self, design: Design) -> list[Task]:
        """All that the design needs; none for a design that is infeasible before any solve."""
        if not design.feasible or self.workload.obstacle(design):
            return []
        return self.workload.tasks(design)

    def knows(self, task_id: str) -> bool:
        """Whether the task is answered."""
        return task_id in self.answers

    def open(self, design: Design, tasks: Sequence[Task]) -> tuple[list[Task], Row | None]:
        """Wait for the answers to the design's ``tasks``; returns those that nobody has asked for yet.

        The row is there at once where every answer already is.
        """
        ids = tuple(task.id for task in tasks)
        listed = set(ids)
        missing = {task_id for task_id in listed if not self.knows(task_id)}
        before = tuple(task.id for task in with_epochs(tasks) if task.id not in listed)
        entry = _Open(design, ids, missing, before)
        if not missing:
            return [], self._row(entry)
        new = {task.id: task for task in tasks if task.id in missing and task.id not in self._waiting}
        for task_id in missing:
            self._waiting.setdefault(task_id, []).append(entry)
        return list(new.values()), None

    def record(self, task_id: str, answer: Answer) -> list[Row]:
        """Enter an answer; returns the rows of the designs that it completes."""
        self.answers[task_id] = answer
        complete = []
        for entry in self._waiting.pop(task_id, []):
            entry.missing.discard(task_id)
            if not entry.missing:
                complete.append(self._row(entry))
        return complete

    def _row(self, entry: _Open) -> Row:
        """The ``designs`` row of a design all of whose tasks are answered."""
        answers = [self.answers[task_id] for task_id in entry.tasks]
        found = self.workload.results(entry.design, entry.tasks, answers)
        return design_row(self.study, entry.design) | self._effort({*entry.before, *entry.tasks}) | found

    def _effort(self, solves: set[str]) -> Row:
        """The columns that count the design's solves, and the CPU time of those it was first to need.

        Epochs before answers that were in the store were in it, too, and nobody has read them.
        """
        known = {task_id: self.answers[task_id] for task_id in solves if task_id in self.answers}
        cached = sum(answer.cached for answer in known.values())
        first = [task_id for task_id in known if task_id not in self._first_need]
        self._first_need.update(first)
        return {
            "solves": len(solves),
            "cached_solves": len(solves) - len(known) + cached,
            "failures": sum(answer.status == "failed" for answer in known.values()),
            "cpu_seconds": sum(known[t].cpu_seconds for t in first if not known[t].cached),
        }
