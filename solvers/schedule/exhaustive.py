"""Every schedule of a small network on a small chip: the best RA tree, proven, for measuring other solvers.

**What the proof ranges over.** Valid RA trees (SET, Formulas 1-10) without needless cuts of one child (see
below): every topological order of the layers, every way to cut them, S and T cuts, every number of
sub-batches. Of each tree the chip model picks the leaves' partitions and placements itself: for one leaf
after the other those of the least E^n D^m (SET, section 4.2.2), out of the partitions and tile mappings
that the tile costs offer. So OPTIMAL says that no other tree is better *as the chip model counts trees*. It
does not say that no other partition, placement or tile mapping is: a leaf that costs more by itself may
make the layer after it cheaper, and no solver here may pick such a leaf.

**How.** A root T cut runs its segments in turn, in as many rounds as it has sub-batches; a root of any
other kind is the one segment of one round. A segment's cost by itself depends on its own layers only, and
energies and cycles of segments add up, less what each saves by the segment before it (``in_turn.py``).

So every tree of every set of layers is costed once as a segment. Of each set the segments are kept that no
other one beats whatever is saved. E^n D^m grows with energy and with cycles, so some best tree consists of
kept segments. A dynamic program over sets of finished layers then combines segments. Its state has the last
segment, and for several rounds also the first one: the savings of later segments depend on no others. Each
number of rounds is searched by itself.

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
from costmodel.schedule.tree.tree import Cut, CutKind, Leaf, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError, least_tiles
from solvers.budget import Budget, Deadline
from solvers.divisors import divisors
from solvers.outcome import Outcome, Status, noting_limits
from solvers.schedule.answer_time import prepare_bound
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.in_turn import CountedSegment, keep
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, answer, no_tree

VERSION = "11"

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
    _known: dict[SetOfLayers, tuple[TreeNode, ...]] = field(default_factory=dict)

    @staticmethod
    def of(graph: LayerGraph, tiles: int) -> SmallTrees:
        reads = (sum(1 << number for number in _read(graph, layer)) for layer in range(len(graph.layers)))
        return SmallTrees(tuple(layer.name for layer in graph.layers), tuple(reads), tiles)

    def of_set(self, wanted: SetOfLayers) -> Iterator[TreeNode]:
        """All trees of a set of layers, without those that the module's docstring leaves out."""
        yield from self._known[wanted] if wanted in self._known else self._made(wanted)

    def _made(self, wanted: SetOfLayers) -> Iterator[TreeNode]:
        yield from self._without_repeats(wanted)
        # A T cut of one child only repeats it; with one sub-batch it would be the child itself.
        for parts in divisors(wanted.batch)[1:]:
            inner = SetOfLayers(wanted.layers, wanted.batch // parts)
            yield from (
                Cut("T", wanted.batch, parts, (one,))
                for one in self._without_repeats(inner)
                if isinstance(one, Leaf) or one.kind == "S"
            )

    def _without_repeats(self, wanted: SetOfLayers) -> Iterator[TreeNode]:
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

    def _remembered(self, wanted: SetOfLayers) -> tuple[TreeNode, ...]:
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


@dataclass(frozen=True, eq=False)
class _Sequence:
    """Segments one after the other, and the energy (pJ) and cycles of one round of them.

    What the first one saves by the last one of the round before is not in these.
    """

    energy_pj: float
    cycles: int
    segments: tuple[CountedSegment, ...]


@dataclass
class _Front:
    """Sequences of the same layers of which none is worse than another, whatever follows.

    ``again``: there are several rounds, so what the first segment saves depends on what follows.
    ``pj_per_cycle``: as in :func:`.in_turn.worth_keeping`.
    """

    again: bool
    pj_per_cycle: float
    sequences: list[_Sequence] = field(default_factory=list)

    def add(self, new: _Sequence) -> None:
        """Keep ``new`` unless one beats it; forget those that it beats. Of equal ones the first stays."""
        if not any(self._beats(one, new) for one in self.sequences):
            self.sequences = [*(one for one in self.sequences if not self._beats(new, one)), new]

    def _beats(self, one: _Sequence, other: _Sequence) -> bool:
        """Whether ``one`` is no worse than ``other``, whatever the same segments after both save."""
        most = 0
        if one.segments[-1] is not other.segments[-1]:
            most += other.segments[-1].most.next_one
        if self.again and one.segments[0] is not other.segments[0]:
            most += other.segments[0].most.itself
        less_pj = other.energy_pj - most * self.pj_per_cycle
        return one.cycles <= other.cycles - most and one.energy_pj <= less_pj


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
    search = _TreeSearch(problem, model.evaluator(problem.graph, problem.batch, problem.objective), deadline)
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
class _TreeSearch:
    """The search of one problem. It changes: ``count`` segments are costed so far.

    ``complete``: whether no segment was left out. ``reason``: why the last one that cannot run cannot.
    ``pj_per_cycle``: the most energy that goes with a cycle of any segment so far.
    """

    problem: ScheduleProblem
    evaluator: ChipEvaluator
    deadline: Deadline
    count: int = 0
    complete: bool = True
    reason: str = ""
    pj_per_cycle: float = 0.0

    def best(self, most: int | None) -> TreeNode | None:
        """The best tree out of segments of which at most ``most`` are costed; None where none can run."""
        prepare_bound(self.problem, self.deadline.left)
        batch, objective = self.problem.batch, self.problem.objective
        trees = SmallTrees.of(self.problem.graph, self.evaluator.chip.tiles)
        found: tuple[float, TreeNode] | None = None
        for rounds in divisors(batch):
            for one in self._sequences(trees, batch // rounds, rounds, most):
                value = objective.value(*self._of_all(one, rounds))
                if found is None or value < found[0]:
                    nodes = tuple(segment.node for segment in one.segments)
                    found = value, Cut("T", batch, rounds, nodes)
        return None if found is None else found[1]

    def _of_all(self, sequence: _Sequence, rounds: int) -> tuple[float, int]:
        """Energy and cycles of all rounds: each but the first begins while the one before it ends."""
        saved_pj, saved = self._saved(sequence.segments[-1], sequence.segments[0])
        energy_pj = rounds * sequence.energy_pj - (rounds - 1) * saved_pj
        return energy_pj, rounds * sequence.cycles - (rounds - 1) * saved

    def _saved(self, before: CountedSegment, after: CountedSegment) -> tuple[float, int]:
        """Energy and cycles that a segment saves by the one before it."""
        found = self.evaluator.between(before.cost, after.cost)
        return found.saved_pj(self.evaluator.chip), found.saved_cycles

    def _sequences(self, trees: SmallTrees, batch: int, rounds: int, most: int | None) -> list[_Sequence]:
        """All sequences of segments that run every layer once for ``batch`` samples and may be the best.

        ``reached``: for sets of layers that can be finished, the sequences that run just these. Sets are met
        in the order of their numbers, so each comes after all its subsets.
        """
        every = (1 << len(trees.names)) - 1
        finished = sorted({0, *trees.next_sets(every)})
        following = {done: list(trees.next_sets(every & ~done)) for done in finished}
        kept = self._kept(trees, batch, {one for sets in following.values() for one in sets}, most)
        reached = {done: _Front(rounds > 1, self.pj_per_cycle) for done in finished}
        for layers in following[0]:
            for segment in kept[layers]:
                reached[layers].add(_Sequence(segment.energy_pj, segment.cycles, (segment,)))
        # By rising numbers: a set of finished layers has a larger number than any of its subsets, so its
        # front is complete when its turn comes.
        for done in finished[1:]:
            for layers in following[done]:
                for before, segment in product(reached[done].sequences, kept[layers]):
                    reached[done | layers].add(self._then(before, segment))
        return reached[every].sequences

    def _then(self, before: _Sequence, segment: CountedSegment) -> _Sequence:
        """A sequence with one more segment."""
        saved_pj, saved = self._saved(before.segments[-1], segment)
        energy_pj = before.energy_pj + segment.energy_pj - saved_pj
        return _Sequence(energy_pj, before.cycles + segment.cycles - saved, (*before.segments, segment))

    def _kept(
        self, trees: SmallTrees, batch: int, sets: set[int], most: int | None
    ) -> dict[int, list[CountedSegment]]:
        """The segments of each set of layers that are worth keeping.

        What a cycle saves at most is known when all are costed. Where it is more than was taken for that,
        some may be missing, and they are costed again.
        """
        count = self.count
        while True:
            used, self.count = self.pj_per_cycle, count
            kept = self._costed(trees, batch, sets, most)
            if self.pj_per_cycle == used:
                return kept

    def _costed(
        self, trees: SmallTrees, batch: int, sets: set[int], most: int | None
    ) -> dict[int, list[CountedSegment]]:
        """Cost all segments of the sets; small sets first, so a tree is there soon."""
        kept: dict[int, list[CountedSegment]] = {one: [] for one in sets}
        used = self.pj_per_cycle
        for layers in sorted(sets, key=lambda one: (one.bit_count(), one)):
            for tree in trees.of_set(SetOfLayers(layers, batch)):
                if self.count == most or self.deadline.left <= 0:
                    self.complete = False
                    return kept
                self.count += 1
                try:
                    new = CountedSegment.of(tree, self.evaluator)
                except NotPossibleError as reason:
                    self.reason = str(reason)
                else:
                    self.pj_per_cycle = max(self.pj_per_cycle, new.most.pj_per_cycle)
                    keep(new, kept[layers], used)
        return kept


def _read(graph: LayerGraph, layer: int) -> set[int]:
    """The layers, by number, whose outputs a layer reads as inputs or as weights."""
    return {*graph.layers[layer].producers, *graph.layers[layer].weight_producers}
