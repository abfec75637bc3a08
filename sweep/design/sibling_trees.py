"""Trees that were found for one chip, to be costed on its siblings: the other chips of the same study.

Two designs are siblings for a network when they run the same layers with the same batch. A layer that is too
large for one of two buffers is cut for it (``solvers/schedule/fitting.py``). Then the layers differ, and so
do the trees over them.

Three stages follow the searches of all designs: every tree is costed on every sibling; where one is better
than all that a design's own annealings found, these go on from it; and what that finds is costed on the
siblings. The same is done where the best tree is that of a rival that cannot go on itself. Each stage waits
for the last answer of the one before. So what is asked for does not depend on the order in which answers
come: a run that was killed and resumed asks for the same tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from costmodel.schedule.tree.text import parse_tree
from solvers.catalogue import solver
from solvers.schedule.known_trees import KnownTree, rank
from solvers.schedule.set.space import TreeSpace
from sweep.study.designs.design_space import Design
from sweep.study.identity import checked_params
from sweep.tasks.chips.schedule import ScheduleTask
from sweep.tasks.chips.tree_costing import TreeCosting, TreeCostingTask
from sweep.tasks.chips.tree_refinement import TreeRefinementTask
from sweep.tasks.kinds import Task
from sweep.tasks.summaries import AnswerSummary, ScheduleSummary

TREES_IN_TASK = 256
"""The most trees in one task: some milliseconds each, so a task takes seconds."""

Layers = tuple[str, int]
"""What siblings have in common: the id of the network's layers, and the batch."""
Answers = Mapping[str, AnswerSummary]
"""The answers to tasks, by task id."""


@dataclass(frozen=True)
class DesignTasks:
    """A design, all ``tasks`` that it has asked for, and the ``new`` ones, which are the last of these."""

    design: Design
    tasks: tuple[Task, ...]
    new: tuple[Task, ...]


@dataclass
class _OneNetwork:
    """A design's tasks for one network: searches, costings of siblings' trees, searches from one of these."""

    searches: list[ScheduleTask] = field(default_factory=list)
    refinements: list[TreeRefinementTask] = field(default_factory=list)
    costings: list[TreeCostingTask] = field(default_factory=list)

    def trees(self, answers: Answers) -> Iterator[tuple[str, str]]:
        """(tree, id of the task that found it) of what was found for this chip."""
        for task in (*self.searches, *self.refinements):
            if tree := _answer(task, answers).tree:
                yield tree, task.id

    def to_cost(self, known: Mapping[str, str], answers: Answers) -> list[TreeCostingTask]:
        """The tasks that cost the ``known`` trees that were neither found nor costed for this chip."""
        # Sorted by the task that found them: the content of the new tasks must not depend on the order of
        # answers.
        counted = {tree for tree, _ in self.trees(answers)}
        counted |= {tree.text for task in self.costings for tree in task.trees}
        others = sorted((found_by, text) for text, found_by in known.items() if text not in counted)
        trees = [KnownTree(found_by, text) for found_by, text in others]
        first = self.searches[0]
        # a scheduler that does not ask had the whole table solved, whether its rivals ask or not
        asks = all(task.solve.asks for task in self.searches)
        solve = TreeCosting.minimising(first.solve.objective, asks)
        return [
            TreeCostingTask(
                first.network, first.on, first.demand, solve, trees=tuple(trees[at : at + TREES_IN_TASK])
            )
            for at in range(0, len(trees), TREES_IN_TASK)
        ]

    def to_refine(self, fraction: float, answers: Answers) -> list[TreeRefinementTask]:
        """One task for each annealing that can go on from the best tree; none where one of them found it."""
        found = ((_answer(task, answers), task) for task in (*self.searches, *self.costings))
        ranked = (
            (rank(one.objective, one.energy_pj, one.cycles), one, task)
            for one, task in found
            if one.scheduled
        )
        best = min(ranked, key=lambda one: one[0], default=None)
        if best is None:
            return []
        # The best tree is from another chip, or of a search that cannot go on by itself. If the search that
        # found it can, it has gone as far as it would.
        _, answer, task = best
        if not answer.tree_from and solver(task.solve.solver).goes_on_from_trees:
            return []
        start = KnownTree(answer.tree_from or task.id, answer.tree)
        return [
            TreeRefinementTask(task.network, task.on, task.demand, task.solve, start=start, fraction=fraction)
            for task in self.searches
            if _may_start_from(task, start.text)
        ]


@dataclass
class _Opened:
    """A design that asked for schedules; ``networks`` by their layers."""

    design: Design
    tasks: tuple[Task, ...]
    networks: dict[Layers, _OneNetwork]


@dataclass
class SiblingTrees:
    """Remembers the designs that ask for schedules, and says what each of the three stages asks for.

    ``refinement``: the fraction of a search's rounds with which it goes on from a sibling's tree; 0: none.
    """

    refinement: float = 0.0
    _opened: list[_Opened] = field(default_factory=list)

    def opened(self, design: Design, tasks: Iterable[Task]) -> None:
        """Remember a design and the ``tasks`` that it asks for."""
        entry = _Opened(design, tuple(tasks), {})
        for task in entry.tasks:
            if isinstance(task, ScheduleTask):
                entry.networks.setdefault(_layers(task), _OneNetwork()).searches.append(task)
        self._opened.append(entry)

    def costings(self, answers: Answers) -> Iterator[DesignTasks]:
        """For each design, the tasks that cost on its chip what is known and not yet costed there.

        ``answers``: to the tasks of all designs until now. Designs without any new task are left out.
        """
        known = self._known(answers)
        for entry in self._opened:
            new: list[Task] = []
            for layers, own in entry.networks.items():
                asked = own.to_cost(known[layers], answers)
                own.costings += asked
                new += asked
            yield from _with(entry, new)

    def refinements(self, answers: Answers) -> Iterator[DesignTasks]:
        """For each design on which a sibling's or rival's tree is the best, tasks that search on from it."""
        for entry in self._opened:
            new: list[Task] = []
            for own in entry.networks.values():
                asked = own.to_refine(self.refinement, answers) if self.refinement else []
                own.refinements += asked
                new += asked
            yield from _with(entry, new)

    def _known(self, answers: Answers) -> dict[Layers, dict[str, str]]:
        """The distinct trees, each with the id of a task that found it; of several the first by its id.

        So the order of the designs does not matter.
        """
        known: dict[Layers, dict[str, str]] = {}
        for entry in self._opened:
            for layers, own in entry.networks.items():
                trees = known.setdefault(layers, {})
                for tree, found_by in own.trees(answers):
                    trees[tree] = min(found_by, trees.get(tree, found_by))
        return known


def _with(entry: _Opened, new: list[Task]) -> Iterator[DesignTasks]:
    """The design with the ``new`` tasks among its own; nothing where there is no new one."""
    if new:
        entry.tasks += tuple(new)
        yield DesignTasks(entry.design, entry.tasks, tuple(new))


def _layers(task: ScheduleTask) -> Layers:
    return task.network.id, task.batch


def _answer(task: ScheduleTask, answers: Answers) -> ScheduleSummary:
    answer = answers[task.id]
    assert isinstance(answer, ScheduleSummary)
    return answer


def _may_start_from(task: ScheduleTask, text: str) -> bool:
    """Whether the task's solver anneals a space that has this tree."""
    entry = solver(task.solve.solver)
    if not entry.goes_on_from_trees:
        return False
    params = checked_params(entry.name, task.solve.content["params"])
    name = entry.load().spaces_of(params)[-1]
    producers, tiles = task.network.graph.producers, task.on.chip.tiles
    space = TreeSpace(producers, task.batch, tiles, name, params.deepest, params.most_bands)
    return not space.violations(parse_tree(text))
