"""The best chain of segments that several searches have counted.

A search ends with one tree, and forgets which segments of other trees were good. Two trees with a root T cut
can exchange segments wherever both have a boundary behind the same layers: a long segment of one search then
stands among those of another. :class:`CountedPool` gathers the segments that an evaluator remembers after
each search, and the best chain of all of them follows exactly (:mod:`.chains`).

Segments whose layers are no run of neighbours in the network's order are left out. So is a segment if another
one of the same layers takes no more energy and no more cycles by itself: by what it saves next to its
neighbours it could still be the better one, but to know that takes longer than to count it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import NamedTuple

from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.segment.node_cost import running_pj
from costmodel.schedule.tree.tree import Cut, TreeNode
from solvers.budget import Budget, Deadline, OutOfTimeError
from solvers.outcome import Outcome
from solvers.schedule.in_turn import CountedSegment
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, answer, no_tree, tree_value
from solvers.schedule.segment_chain.chains import Chains, Cost, SegmentOption


class _Candidate(NamedTuple):
    """A segment, its energy with that of the idle chip (pJ), and its cycles."""

    node: TreeNode
    energy_pj: float
    cycles: int


class CountedPool:
    """Segments that the chip can run, gathered from the searches of one problem.

    By batch, first layer and the layer after the last one: the segments of which none is beaten by another.
    """

    def __init__(self, problem: ScheduleProblem) -> None:
        self._problem = problem
        self._found: dict[int, dict[tuple[int, int], list[_Candidate]]] = {}

    def gather(self, evaluator: ChipEvaluator) -> None:
        """Add what the evaluator remembers now."""
        index = self._problem.graph.index
        for layers, cost in evaluator.remembered():
            numbers = [index[name] for name in layers]
            first, end = min(numbers), max(numbers) + 1
            if end - first == len(numbers):
                candidate = _Candidate(cost.node, running_pj(cost, evaluator.chip), cost.cycles)
                _keep(candidate, self._found.setdefault(cost.node.batch, {}).setdefault((first, end), []))

    def best(self, evaluator: ChipEvaluator, check_time: Callable[[], None]) -> TreeNode | None:
        """The tree of the best chain; None where no segments of one batch make up the network.

        ``check_time`` is called before the segments of some layers are looked at; what it raises ends this.
        """
        problem, trees = self._problem, []
        for batch, found in self._found.items():
            rounds, left = divmod(problem.batch, batch)
            if not left and (tree := self._best_of(found, rounds, evaluator, check_time)) is not None:
                trees.append(tree)
        return min(trees, key=lambda tree: tree_value(tree, evaluator, problem.objective), default=None)

    def _best_of(
        self,
        found: Mapping[tuple[int, int], list[_Candidate]],
        rounds: int,
        evaluator: ChipEvaluator,
        check_time: Callable[[], None],
    ) -> TreeNode | None:
        """The best chain in so many ``rounds``; None where there is none."""
        layers = len(self._problem.graph.layers)
        ending: list[list[SegmentOption]] = [[] for _ in range(layers + 1)]
        reached = {0}
        for first, end in sorted(found):
            check_time()
            if first in reached:
                reached.add(end)
                ending[end] += (
                    SegmentOption(first, CountedSegment.of(one.node, evaluator)) for one in found[first, end]
                )
        if layers not in reached:
            return None

        def saved(before: CountedSegment, after: CountedSegment) -> Cost:
            between = evaluator.between(before.cost, after.cost)
            return Cost(between.saved_pj(evaluator.chip), between.saved_cycles)

        chain = Chains(ending, saved, rounds).best(self._problem.objective)
        return Cut("T", self._problem.batch, rounds, chain.segments)


def _keep(new: _Candidate, kept: list[_Candidate]) -> None:
    """Add a segment to those ``kept`` of the same layers, unless one of these beats it; of equals the first
    stays.
    """
    if not any(_beats(one, new) for one in kept):
        kept[:] = [*(one for one in kept if not _beats(new, one)), new]


def _beats(one: _Candidate, other: _Candidate) -> bool:
    return one.energy_pj <= other.energy_pj and one.cycles <= other.cycles


def recombined(problem: ScheduleProblem, budget: Budget, pool: CountedPool) -> Outcome[ScheduleSolution]:
    """The answer of the best chain of gathered segments; UNKNOWN where they make up no tree."""
    deadline, evaluator = Deadline(budget.wall_seconds), problem.evaluator()
    assert isinstance(evaluator, ChipEvaluator)
    try:
        tree = pool.best(evaluator, deadline.check)
    except OutOfTimeError as reason:
        return no_tree(problem, f"the segments that were counted: {reason}", deadline)
    if tree is None:
        return no_tree(problem, "no chain of segments that were counted", deadline)
    return answer(problem, tree, (), deadline)
