"""What groups of layers cost that segments may map together: which mappings have to be solved, and these."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from costmodel.schedule.fused_groups.cuts import GroupCut
from results.store.known_answers import StoredAnswers
from results.store.schema.rows import FusionRow
from results.store.schema.tables import FUSIONS
from solvers.schedule.fused_groups import GroupKey, groups_of, names_of, questions_of
from solvers.schedule.tiles.layer_parts import batches_of
from sweep.tasks.chips.schedule import ScheduledNetwork, ScheduleTask, TiledChip
from sweep.tasks.chips.scheduling_costs import GroupAnswers
from sweep.tasks.fusion import FusedLayers, FusionTask


@dataclass(frozen=True, eq=False)
class GroupSolve:
    """A way to divide a group among tiles, and the task that maps a tile's part."""

    cut: GroupCut
    task: FusionTask


WantedGroups = ReadOnlyDict[GroupKey, tuple[GroupSolve, ...]]
"""The solves of each group, by the names of its layers and batch."""


def wanted_groups(task: ScheduleTask) -> WantedGroups:
    """The groups that the task's schedules may map together; empty where its study offers none."""
    return _groups_on(task.network, task.on, task.batch)


@lru_cache(maxsize=64)
def _groups_on(network: ScheduledNetwork, on: TiledChip, batch: int) -> WantedGroups:
    """The same; kept because each seed of a schedule asks."""
    if on.groups is None:
        return {}
    found: dict[GroupKey, tuple[GroupSolve, ...]] = {}
    graph = network.graph
    for samples in batches_of(batch):
        for group in groups_of(graph, on.chip, samples, on.groups.longest):
            names = [graph.layers[number].name for number in group.numbers]
            solves = (
                GroupSolve(
                    question.cut.cut,
                    FusionTask(
                        question.asked.architecture,
                        FusedLayers(question.asked, on.groups),
                        f"{network.name}/{', '.join(names)}",
                    ),
                )
                for question in questions_of(on.chip, group)
            )
            found[names_of(graph, group), samples] = tuple(solves)
    return found


@dataclass
class GroupTable:
    """Fused mappings by task, from the store and from this run; each is solved once.

    Equal groups on tiles with equal levels have their mappings in common. What a mapping costs is counted by
    the worker that schedules, for its chip. ``store`` has the run folders whose mappings are reused; None
    solves everything.
    """

    store: StoredAnswers | None = None
    _found: dict[str, dict[str, Any] | None] = field(default_factory=dict)
    """By id of the task, the mapping as JSON; None where the solver found none."""

    def open_tasks(self, wanted: WantedGroups) -> list[FusionTask]:
        """The tasks whose answers are not known yet, each once."""
        distinct = {one.task.id: one.task for solves in wanted.values() for one in solves}
        self._look_up(key for key in distinct if key not in self._found)
        return [task for task in distinct.values() if task.id not in self._found]

    def record(self, task: FusionTask, row: FusionRow) -> None:
        """Enter the row of a task. One that failed stays open, and is solved again when it is asked for."""
        if row["status"] != "failed":
            self._found[task.id] = row.get("mapping")

    def answers(self, wanted: WantedGroups) -> GroupAnswers:
        """The mappings of all groups; KeyError where a task is still open."""
        return {
            key: [(one.cut, self._found[one.task.id]) for one in solves] for key, solves in wanted.items()
        }

    def _look_up(self, ids: Iterable[str]) -> None:
        """Enter the stored mappings of these tasks."""
        wanted = list(ids)
        if self.store is None or not wanted:
            return
        for task_id, row in self.store.find(FUSIONS, wanted, ("task_id", "mapping")).items():
            self._found.setdefault(task_id, row.get("mapping"))
