"""Trees that were found for one chip, to be costed on its siblings: the other chips of the same study.

Two designs are siblings for a network when they run the same layers with the same batch. A layer that is too
large for one of two buffers is cut for it (``solvers/schedule/fitting.py``). Then the layers differ, and so
do the trees over them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import groupby

from solvers.schedule.known_trees import KnownTree
from sweep.study.design_space import Design
from sweep.tasks.kinds import Task
from sweep.tasks.schedule import ScheduleTask
from sweep.tasks.summaries import AnswerSummary, ScheduleSummary
from sweep.tasks.tree_costing import TreeCosting, TreeCostingTask

TREES_IN_TASK = 256
"""The most trees in one task: some milliseconds each, so a task takes seconds."""

Layers = tuple[str, int]
"""What siblings have in common: the id of the network's layers, and the batch."""


@dataclass(frozen=True)
class DesignCostings:
    """A design, the tasks that it asked for, and those that cost its siblings' trees on its chip."""

    design: Design
    tasks: Sequence[Task]
    costings: Sequence[Task]


@dataclass
class SiblingTrees:
    """Remembers the designs that ask for schedules and, once all are answered, has every tree costed on all.

    That waits for the last search, so what is costed does not depend on the order in which answers come: a
    run that was killed and resumed asks for the same tasks.
    """

    _opened: list[tuple[Design, tuple[Task, ...]]] = field(default_factory=list)

    def opened(self, design: Design, tasks: Iterable[Task]) -> None:
        """Remember a design and the ``tasks`` that it asks for."""
        self._opened.append((design, tuple(tasks)))

    def costings(self, answers: Mapping[str, AnswerSummary]) -> list[DesignCostings]:
        """For each design what is to be costed on its chip; designs without any are left out.

        ``answers``: to the tasks of all designs, by task id.
        """
        known = self._known(answers)
        found = []
        for design, tasks in self._opened:
            asked = [
                task for layers, own in _by_layers(tasks) for task in _asked(own, known[layers], answers)
            ]
            if asked:
                found.append(DesignCostings(design, tasks, asked))
        return found

    def _known(self, answers: Mapping[str, AnswerSummary]) -> dict[Layers, dict[str, str]]:
        """The distinct trees, each with the id of a task that found it; of several the first by its id.

        So the order of the designs does not matter.
        """
        known: dict[Layers, dict[str, str]] = {}
        for _, tasks in self._opened:
            for layers, own in _by_layers(tasks):
                trees = known.setdefault(layers, {})
                for task in own:
                    if tree := _tree(task, answers):
                        trees[tree] = min(task.id, trees.get(tree, task.id))
        return known


def _by_layers(tasks: Iterable[Task]) -> Iterator[tuple[Layers, list[ScheduleTask]]]:
    """The schedule tasks of a design, network by network."""
    schedules = [task for task in tasks if isinstance(task, ScheduleTask)]
    for layers, own in groupby(schedules, lambda task: (task.network.id, task.batch)):
        yield layers, list(own)


def _tree(task: ScheduleTask, answers: Mapping[str, AnswerSummary]) -> str:
    answer = answers.get(task.id)
    return answer.tree if isinstance(answer, ScheduleSummary) else ""


def _asked(
    own: Sequence[ScheduleTask], known: Mapping[str, str], answers: Mapping[str, AnswerSummary]
) -> list[TreeCostingTask]:
    """The tasks that cost all ``known`` trees but those that the design's ``own`` tasks found themselves."""
    mine = {_tree(task, answers) for task in own}
    others = sorted((found_by, text) for text, found_by in known.items() if text not in mine)
    trees = [KnownTree(found_by, text) for found_by, text in others]
    first = own[0]
    # a scheduler that does not ask had the whole table solved, whether its rivals ask or not
    solve = TreeCosting.minimising(first.solve.objective, all(task.solve.asks for task in own))
    return [
        TreeCostingTask(
            first.network, first.on, first.demand, solve, trees=tuple(trees[at : at + TREES_IN_TASK])
        )
        for at in range(0, len(trees), TREES_IN_TASK)
    ]
