"""One seed's search for an RA tree: several annealings one after the other. Each is called a *phase*.

A search is a chain of states. Each state is plain data, so a search can be stored, sent and resumed anywhere.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from random import Random
from typing import Any

from costmodel.schedule.tree.text import format_tree, parse_tree
from costmodel.schedule.tree.tree import TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.divisors import divisors
from solvers.schedule.problem import Evaluator, OperatorCount, Phase, ScheduleProblem
from solvers.schedule.set.annealing import Annealing, AnnealingProgress
from solvers.schedule.set.canonical import sequential_tree
from solvers.schedule.set.operators.operators import WEIGHTS, Operators
from solvers.schedule.set.operators.printed_operators import MixedOperators, PrintedOperators
from solvers.schedule.set.operators.row_bands import BandRules
from solvers.schedule.set.params import OperatorsOf, PatternParams
from solvers.schedule.set.space import SpaceName, TreeSpace

OPERATORS_OF: Mapping[OperatorsOf, type[Operators]] = {
    "leaf": Operators,
    "printed": PrintedOperators,
    "mixed": MixedOperators,
}


@dataclass(frozen=True)
class AnnealingPlan:
    """Which ``spaces`` are annealed one after the other, each for ``rounds`` rounds.

    All but the last start from the search's first tree; the last one, unless it is the only one, from the
    best tree that the others found. ``deepest`` limits the cuts above a leaf in the last space; 0 is no
    limit. ``from_tree``: the first tree is one that was found otherwise.
    """

    spaces: tuple[SpaceName, ...]
    params: PatternParams
    rounds: int
    deepest: int = 0
    from_tree: bool = False


@dataclass(frozen=True)
class SearchState:
    """A search between two rounds.

    ``first``: the tree from which all phases but the last start, and a single phase, too. ``done``: the
    phases that have ended. ``found``: the best tree of each of them. ``progress``: the phase under way.
    """

    first: TreeNode
    done: tuple[Phase, ...]
    found: tuple[TreeNode, ...]
    progress: AnnealingProgress

    @property
    def best(self) -> tuple[float, TreeNode]:
        """The least objective of all phases, and its tree."""
        values = [(phase.best, tree) for phase, tree in zip(self.done, self.found, strict=True)]
        # The first of equal values wins. A phase under way that has done no round has only the tree from
        # which it starts, which is no better than the trees of the phases before.
        return min([*values, (self.progress.best_value, self.progress.best)], key=lambda one: one[0])

    def to_json(self) -> dict[str, Any]:
        """Plain data from which :meth:`from_json` makes an equal state."""
        progress = self.progress
        return {
            "first": format_tree(self.first),
            "done": [asdict(phase) for phase in self.done],
            "found": [format_tree(tree) for tree in self.found],
            "progress": {
                **{key: getattr(progress, key) for key in ("value", "best_value", "round", "cpu_seconds")},
                "tree": format_tree(progress.tree),
                "best": format_tree(progress.best),
                "random_state": [*progress.random_state[:1], list(progress.random_state[1]), None],
                "counts": [asdict(count) for count in progress.counts],
                "trajectory": [list(point) for point in progress.trajectory],
            },
        }

    @staticmethod
    def from_json(content: dict[str, Any]) -> SearchState:
        """The state that :meth:`to_json` has written. JSON has no tuples, so lists become tuples again."""
        progress = content["progress"]
        version, numbers, _ = progress["random_state"]
        return SearchState(
            parse_tree(content["first"]),
            tuple(_phase(phase) for phase in content["done"]),
            tuple(parse_tree(text) for text in content["found"]),
            AnnealingProgress(
                **{
                    **progress,
                    "tree": parse_tree(progress["tree"]),
                    "best": parse_tree(progress["best"]),
                    "random_state": (version, tuple(numbers), None),
                    "counts": tuple(OperatorCount(**count) for count in progress["counts"]),
                    "trajectory": _points(progress["trajectory"]),
                }
            ),
        )


def _phase(content: dict[str, Any]) -> Phase:
    counts = tuple(OperatorCount(**count) for count in content["operators"])
    return Phase(**{**content, "trajectory": _points(content["trajectory"]), "operators": counts})


def _points(content: list[Any]) -> tuple[tuple[int, float], ...]:
    return tuple((at, value) for at, value in content)


class TreeSearch:
    """Runs searches of one problem by one plan. It takes a state and returns a later one; it keeps none."""

    def __init__(
        self, problem: ScheduleProblem, plan: AnnealingPlan, evaluator: Evaluator | None = None
    ) -> None:
        self._problem, self._plan = problem, plan
        evaluator = evaluator or problem.evaluator()
        # A tree that was found otherwise may have segments that only prices of bits make possible, and then
        # all trees near it do.
        found = plan.from_tree or plan.params.from_chain
        self._evaluator = evaluator if found else evaluator.quick

    @cached_property
    def _annealings(self) -> list[Annealing]:
        return [self._annealing(number) for number in range(len(self._plan.spaces))]

    def _annealing(self, number: int) -> Annealing:
        """The annealing of space ``number``.

        Only the last one has the plan's depth, its bands and its cooling: the others, of the patterns, only
        find the tree from which it starts.
        """
        problem, plan, last = self._problem, self._plan, len(self._plan.spaces) - 1
        deepest = plan.deepest if number == last else 0
        name = plan.spaces[number]
        bands = plan.params.most_bands if number == last else 1
        space = TreeSpace(problem.graph.producers, problem.batch, problem.model.tiles, name, deepest, bands)
        rules = BandRules(problem.graph, bands) if bands > 1 else None
        operators = OPERATORS_OF[plan.params.operators](space, WEIGHTS[plan.params.weights], rules)
        cooling = plan.params.cooling if number == last else plan.params.pattern_cooling
        return Annealing(operators, self._evaluator, problem.objective, plan.rounds, cooling)

    def begin(
        self, seed: int, check_time: Callable[[], None] = lambda: None, first: TreeNode | None = None
    ) -> SearchState:
        """The state before the first round, with the first tree counted.

        ``first``: the tree to start from; None: all layers one after the other.
        ``check_time`` is called before each layer of that tree; what it raises ends the search.
        Raises NotPossibleError where the chip cannot even run one layer after the other.
        """
        first = first or self._first_tree(check_time)
        return SearchState(first, (), (), self._annealings[0].begin(first, Random(seed)))

    def begin_late(self, tree: TreeNode, random: Random, rounds: int) -> SearchState:
        """The state of a search of one phase as if ``rounds`` of it had led to ``tree``, which is counted.

        Raises NotPossibleError where the chip cannot run the tree.
        """
        begun = self._annealings[0].begin(tree, random)
        return SearchState(tree, (), (), replace(begun, round=rounds, trajectory=((rounds, begun.value),)))

    def _first_tree(self, check_time: Callable[[], None]) -> TreeNode:
        """All layers one after the other, in the fewest sub-batches with which the chip can run them.

        More sub-batches have fewer samples each, which need less of the buffers.
        """
        batch, layers = self._problem.batch, [layer.name for layer in self._problem.graph.layers]
        reason = ""
        for subbatches in divisors(batch):
            tree = sequential_tree(layers, batch, subbatches)
            try:
                # One by one: the first layer that is not possible saves counting the others.
                for layer in tree.children:
                    check_time()
                    self._evaluator.segment(layer)
                self._evaluator.evaluate(tree)
            except NotPossibleError as error:
                reason = str(error)
            else:
                return tree
        raise NotPossibleError(f"no layer after the other, even sample by sample: {reason}")

    def count_again(self, state: SearchState) -> None:
        """Count the current tree of a state that comes from another process.

        The evaluator then remembers its parts, so for a neighbouring tree it counts the changed parts only.
        """
        self._evaluator.evaluate(state.progress.tree)

    def finished(self, state: SearchState) -> bool:
        """Whether all rounds of the last phase are done."""
        last = len(state.done) == len(self._plan.spaces) - 1
        return last and state.progress.round >= self._plan.rounds

    def advance(
        self, state: SearchState, rounds: int, stop: Callable[[], bool] = lambda: False
    ) -> SearchState:
        """The state ``rounds`` rounds later, or earlier where the search ends or ``stop`` says so."""
        while rounds > 0 and not stop() and not self.finished(state):
            if state.progress.round >= self._plan.rounds:
                state = self._next_phase(state)
            begun = state.progress.round
            annealing = self._annealings[len(state.done)]
            progress = annealing.advance(state.progress, begun + rounds, stop)
            rounds -= progress.round - begun
            state = replace(state, progress=progress)
        return state

    def _next_phase(self, state: SearchState) -> SearchState:
        """The state at the start of the next phase, which goes on with the same random numbers."""
        done, found = (*state.done, self._phase(state)), (*state.found, state.progress.best)
        last = len(done) == len(self._plan.spaces) - 1
        start = state.best[1] if last else state.first
        random = Random()
        random.setstate(state.progress.random_state)
        return SearchState(state.first, done, found, self._annealings[len(done)].begin(start, random))

    def _phase(self, state: SearchState) -> Phase:
        """The record of the phase under way."""
        progress = state.progress
        return Phase(
            self._plan.spaces[len(state.done)],
            progress.round,
            progress.best_value,
            progress.trajectory,
            progress.counts,
            progress.cpu_seconds,
        )

    def phases(self, state: SearchState) -> tuple[Phase, ...]:
        """All phases, the one under way included."""
        return (*state.done, self._phase(state))
