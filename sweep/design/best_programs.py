"""Programs of the best schedules: written when every design is judged, for before that none is the best."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from results.store.schema.rows import DesignRow
from sweep.tasks.chips.program import ProgramTask
from sweep.tasks.chips.schedule import ScheduleTask
from sweep.tasks.kinds import Task
from sweep.tasks.summaries import AnswerSummary, ScheduleSummary


@dataclass
class BestPrograms:
    """Remembers the best schedules of every design, and says which programs they ask for.

    What is asked for follows from the designs' rows alone: a run that was killed and resumed asks for the
    same programs, and has those written that the store lacks.
    """

    _asked: dict[str, ScheduleTask] = field(default_factory=dict)
    """The schedule tasks by their ids."""
    _best: dict[str, list[str]] = field(default_factory=dict)
    """By design id, the id of the best schedule of each network that has one."""

    def opened(self, tasks: Iterable[Task]) -> None:
        """Remember the tasks of a design, of which one may turn out to have its best schedule."""
        self._asked |= {task.id: task for task in tasks if isinstance(task, ScheduleTask)}

    def judged(self, row: DesignRow) -> None:
        """Remember the best schedules of a design; a later row of it replaces what an earlier one said."""
        networks = (row.get("networks") or {}).values()
        if best := [one["schedule"] for one in networks if "schedule" in one]:
            self._best[row["design_id"]] = best

    def tasks(self, answers: Mapping[str, AnswerSummary]) -> list[ProgramTask]:
        """The programs of all best schedules, each once; ``answers`` has those of all schedules by id."""
        # a scheduler that does not ask had the whole table solved, whether its rivals ask or not
        asks = all(task.solve.asks for task in self._asked.values())
        found: dict[str, ProgramTask] = {}
        for schedule_id in dict.fromkeys(one for best in self._best.values() for one in best):
            answer = answers[schedule_id]
            assert isinstance(answer, ScheduleSummary)
            task = ProgramTask.of(self._asked[schedule_id], answer.tree, asks)
            found[task.id] = task
        return list(found.values())
