"""Every schedule of a small network on a small chip: the best RA tree, proven, for measuring other solvers.

**What the proof ranges over.** Valid RA trees (SET, Formulas 1-10) without needless cuts of one child (see
below): every topological order of the layers, every way to cut them, S and T cuts, every number of
sub-batches. Of each tree the chip model picks the leaves' partitions and placements itself: for one leaf
after the other those of the least E^n D^m (SET, section 4.2.2), out of the partitions and tile mappings
that the tile costs offer. So OPTIMAL says that no other tree is better *as the chip model counts trees*. It
does not say that no other partition, placement or tile mapping is: a leaf that costs more by itself may
make the layer after it cheaper, and no solver here may pick such a leaf.

**How.** A root T cut runs its segments in turn, in as many rounds as it has sub-batches; a root of any
other kind is the one segment of one round. A segment's cost depends on its own layers alone, and energy and
cycles of segments add up. So every tree of every set of layers is costed once as a segment, and of each set
only the Pareto front of energy and cycles is kept: E^n D^m grows with both, so the best tree has a segment
of the front wherever it has one of this set. A dynamic program over sets of finished layers then combines
segments, again keeping Pareto fronts. Rounds multiply all sums alike, and each number of rounds is searched
by itself.

**What is left out** are needless cuts of one child: those with one sub-batch, S cuts of one child, and a T
cut whose one child is a T cut. The proof does not range over them. Without them a tree takes the same
energy and no more of the buffers, which a test holds for random trees, but its cycles may differ: the chip
model counts the first fetch of a segment once more closely where a T cut of one child is around an S cut.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from itertools import product
from typing import NamedTuple

from costmodel.errors import InputError
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.segment import running_pj
from costmodel.schedule.tree.tree import Cut, CutKind, Leaf, Node
from costmodel.schedule.tree.validity import NotPossibleError, least_tiles
from solvers.budget import Budget, Deadline
from solvers.divisors import divisors
from solvers.outcome import Outcome, Status, noting_limits
from solvers.schedule.answer_time import prepare_bound
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, answer, no_tree

VERSION = "4"

MOST_LAYERS = 6
"""The largest network: with each further layer there are about ten times as many trees."""
MOST_TILES = 4
"""The largest chip: on more tiles more S cuts fit, and each leaf has more partitions and placements."""


@dataclass(frozen=True)
class Params:
    """There is nothing to set: every tree is costed."""


DEFAULT = Params()


class SetOfLayers(NamedTuple):
    """Layers by number, as the bits of ``layers``, that run ``batch`` samples at a time."""

    layers: int
    batch: int


@dataclass(frozen=True)
class SmallTrees:
    """The trees of sets of layers, below a segment's root; each set's trees are made once.

    ``before`` [layers]: the layers that each one reads, as bits. ``tiles``: S cuts need one for each child.
    """

    names: tuple[str, ...]
    before: tuple[int, ...]
    tiles: int
    _known: dict[SetOfLayers, tuple[Node, ...]] = field(default_factory=dict)

    @staticmethod
    def of(graph: LayerGraph, tiles: int) -> SmallTrees:
        reads = (sum(1 << number for number in _read(graph, layer)) for layer in range(len(graph.layers)))
        return SmallTrees(tuple(layer.name for layer in graph.layers), tuple(reads), tiles)

    def of_set(self, wanted: SetOfLayers) -> Iterator[Node]:
        """All trees of a set of layers, without those that the module's docstring leaves out."""
        yield from self._known[wanted] if wanted in self._known else self._made(wanted)

    def _made(self, wanted: SetOfLayers) -> Iterator[Node]:
        yield from self._without_repeats(wanted)
        # A T cut of one child only repeats it; with one sub-batch it would be the child itself.
        for parts in divisors(wanted.batch)[1:]:
            inner = SetOfLayers(wanted.layers, wanted.batch // parts)
            yield from (
                Cut("T", wanted.batch, parts, (one,))
                for one in self._without_repeats(inner)
                if isinstance(one, Leaf) or one.kind == "S"
            )

    def _without_repeats(self, wanted: SetOfLayers) -> Iterator[Node]:
        """A leaf, or cuts of two children or more."""
        if wanted.layers.bit_count() == 1:
            yield Leaf(self.names[wanted.layers.bit_length() - 1], wanted.batch)
            return
        kinds: tuple[CutKind, ...] = ("S", "T")
        for parts in divisors(wanted.batch):
            for sets in self._in_turn(wanted.layers):
                below = [self._remembered(SetOfLayers(one, wanted.batch // parts)) for one in sets]
                for children in product(*below):
                    for kind in kinds:
                        cut = Cut(kind, wanted.batch, parts, children)
                        if least_tiles(cut) <= self.tiles:
                            yield cut

    def _remembered(self, wanted: SetOfLayers) -> tuple[Node, ...]:
        if wanted not in self._known:
            self._known[wanted] = tuple(self._made(wanted))
        return self._known[wanted]

    def _in_turn(self, layers: int) -> Iterator[tuple[int, ...]]:
        """All ways to divide ``layers`` into two sets or more, each of which reads only those before it."""
        for first in self.next_sets(layers):
            rest = layers & ~first
            if rest:
                yield first, rest
                yield from ((first, *others) for others in self._in_turn(rest))

    def next_sets(self, layers: int) -> Iterator[int]:
        """The sets out of ``layers`` that can come first: they read none of the other ones."""
        chosen = layers
        while chosen:
            # A set can come first if none of its layers reads one that comes later.
            waiting = layers & ~chosen
            if not any(chosen >> one & 1 and reads & waiting for one, reads in enumerate(self.before)):
                yield chosen
            # The standard step from one subset of ``layers`` to the next smaller one, as numbers.
            chosen = (chosen - 1) & layers


class _Point(NamedTuple):
    """Energy (pJ) and cycles of one round, and the segments that take them."""

    energy_pj: float
    cycles: int
    segments: tuple[Node, ...]

    def then(self, other: _Point) -> _Point:
        """This and ``other`` one after the other."""
        return _Point(
            self.energy_pj + other.energy_pj, self.cycles + other.cycles, self.segments + other.segments
        )


class _Front:
    """A Pareto front of points: none has both no more energy and no more cycles than another."""

    def __init__(self) -> None:
        self.points: list[_Point] = []

    def add(self, new: _Point) -> None:
        """Keep ``new`` unless a point is at least as good; forget the points that it is at least as good as.

        Of equal points the first stays.
        """
        if not any(one.energy_pj <= new.energy_pj and one.cycles <= new.cycles for one in self.points):
            kept = (one for one in self.points if one.energy_pj < new.energy_pj or one.cycles < new.cycles)
            self.points = [*kept, new]


@noting_limits
def solve(problem: ScheduleProblem, budget: Budget, params: Params = DEFAULT) -> Outcome[ScheduleSolution]:
    """The best RA tree of a network of up to MOST_LAYERS layers on up to MOST_TILES tiles, proven.

    OPTIMAL: every tree was costed; the module's docstring says what the proof ranges over. INFEASIBLE:
    every tree was costed and none can run. Where the time is up, or ``budget.iterations`` segments have been
    costed, the best tree so far is the answer, without a proof. ``evaluations`` counts segments.

    Raises InputError for a larger network or chip, and for a model other than the chip model.
    """
    model = _checked(problem)
    deadline = Deadline(budget.wall_seconds)
    search = _Search(problem, model.evaluator(problem.graph, problem.batch, problem.objective), deadline)
    best = search.best(budget.iterations)
    if best is None and not search.complete:
        return no_tree(problem, f"no tree among the first {search.count} segments", deadline)
    if best is None:
        note = f"none of the trees can run; the last reason: {search.reason}"
        watch = deadline.watch
        return Outcome(
            Status.INFEASIBLE,
            None,
            None,
            None,
            watch.cpu_seconds,
            watch.wall_seconds,
            note,
            evaluations=search.count,
        )
    found = replace(answer(problem, best, (), deadline), evaluations=search.count)
    if search.complete:
        return replace(found, status=Status.OPTIMAL, bound=found.objective)
    return replace(found, note=f"stopped after {search.count} segments, before all were costed")


def _checked(problem: ScheduleProblem) -> ChipModel:
    """The chip model of a problem; InputError where there are too many trees, or the model is another one."""
    model, layers = problem.model, len(problem.graph.layers)
    remedy = "Take set or kapla_schedule, whose answers have a bound as well"
    if not isinstance(model, ChipModel):
        raise InputError("exhaustive_schedule", "the chip model", model.name, "Take set", key="model")
    if layers > MOST_LAYERS:
        raise InputError(
            "exhaustive_schedule", f"a network of at most {MOST_LAYERS} layers", layers, remedy, key="network"
        )
    if model.tiles > MOST_TILES:
        raise InputError(
            "exhaustive_schedule", f"a chip of at most {MOST_TILES} tiles", model.tiles, remedy, key="mesh"
        )
    return model


@dataclass
class _Search:
    """The search of one problem. It changes: ``count`` segments are costed so far.

    ``complete``: whether no segment was left out. ``reason``: why the last one that cannot run cannot.
    """

    problem: ScheduleProblem
    evaluator: ChipEvaluator
    deadline: Deadline
    count: int = 0
    complete: bool = True
    reason: str = ""

    def best(self, most: int | None) -> Node | None:
        """The best tree out of segments of which at most ``most`` are costed; None where none can run."""
        prepare_bound(self.problem, self.deadline.left)
        batch, objective = self.problem.batch, self.problem.objective
        trees = SmallTrees.of(self.problem.graph, self.evaluator.chip.tiles)
        found: tuple[float, Node] | None = None
        for rounds in divisors(batch):
            for point in self._chains(trees, batch // rounds, most):
                value = objective.value(rounds * point.energy_pj, rounds * point.cycles)
                if found is None or value < found[0]:
                    found = value, Cut("T", batch, rounds, point.segments)
        return None if found is None else found[1]

    def _chains(self, trees: SmallTrees, batch: int, most: int | None) -> list[_Point]:
        """The Pareto front of all sequences of segments that run every layer once for ``batch`` samples.

        ``reached``: for sets of layers that can be finished, the front of the sequences that run just these.
        Sets are met in the order of their numbers, so each comes after all its subsets.
        """
        every = (1 << len(trees.names)) - 1
        finished = sorted({0, *trees.next_sets(every)})
        following = {done: list(trees.next_sets(every & ~done)) for done in finished}
        fronts = self._fronts(trees, batch, {one for sets in following.values() for one in sets}, most)
        reached = {done: _Front() for done in finished}
        reached[0].add(_Point(0.0, 0, ()))
        # By rising numbers: a set of finished layers has a larger number than any of its subsets, so its
        # front is complete when its turn comes.
        for done in finished:
            for segment in following[done]:
                for before, one in product(reached[done].points, fronts[segment].points):
                    reached[done | segment].add(before.then(one))
        return reached[every].points

    def _fronts(self, trees: SmallTrees, batch: int, sets: set[int], most: int | None) -> dict[int, _Front]:
        """The Pareto front of each set's trees as segments; small sets first, so a tree is there soon."""
        fronts = {one: _Front() for one in sets}
        for layers in sorted(sets, key=lambda one: (one.bit_count(), one)):
            for tree in trees.of_set(SetOfLayers(layers, batch)):
                if self.count == most or self.deadline.left <= 0:
                    self.complete = False
                    return fronts
                self.count += 1
                try:
                    cost = self.evaluator.segment(tree)
                except NotPossibleError as reason:
                    self.reason = str(reason)
                else:
                    fronts[layers].add(_Point(running_pj(cost, self.evaluator.chip), cost.cycles, (tree,)))
        return fronts


def _read(graph: LayerGraph, layer: int) -> set[int]:
    """The layers, by number, whose outputs a layer reads as inputs or as weights."""
    return {*graph.layers[layer].producers, *graph.layers[layer].weight_producers}
