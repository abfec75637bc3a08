"""Chains of segments: layers next to one another in the network's order, joined where that pays.

A root T cut runs segments one after the other, so their energies and cycles add up. A segment here is a run
of neighbouring layers in one of four forms::

    one layer     T cut          S cut            comb
    a 8           T 8/1          S 8/4            T 8/1
                    a 8            a 2              a 8
                    b 8            b 2              T 8/1
                    c 8            c 2                b 8
                                                      c 8

The T cut hands data on to the next layer only; the S cut is a pipeline, the same but for layers of one stage.
In a comb any two layers are children of one T cut or of two next to each other, so every edge stays on the
chip, such as that of a residual connection. Cuts are tried with every number of sub-batches.

Each segment is counted once, with the chip model. Then the best chain follows exactly, without any further
count. E^n D^m of a chain is quasi-concave in its (E, D), so of all chains the best is a corner of the lower
left hull, and a corner is the chain of least ``a E + b D`` for some weights: a shortest path over the layers.
The corners are found from the outside in, each between two that are known.

The space is small beside that of all RA trees, and no annealing has to find its way to long segments: single
steps towards them mostly cost more. So this answers in seconds, and is a start for ``set``.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple

from costmodel.errors import InputError
from costmodel.limits import limit_reached
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.segment import running_pj
from costmodel.schedule.tree.tree import Cut, Leaf, Node
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget, Deadline, InTime, OutOfTimeError
from solvers.checks import check_counts
from solvers.divisors import divisors
from solvers.outcome import Outcome, noting_limits
from solvers.schedule.answer_time import kept_for_recount, prepare_bound
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.objective import nondominated
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, answer, no_tree

VERSION = "1"

MOST_CORNERS = 200
"""The most corners of the hull that are looked for; beyond, the best of those found is the answer."""


@dataclass(frozen=True)
class Params:
    """``longest``: the most layers of a segment.

    ``misses``: from a layer on, segments are not made longer after so many lengths in a row that did not fit;
    a longer one may fit again, for a layer without weights can end a segment with fewer bytes to hold.
    """

    longest: int = 26
    misses: int = 5

    def __post_init__(self) -> None:
        check_counts("chains of segments", self, {"longest": 1, "misses": 1})


DEFAULT = Params()


class Cost(NamedTuple):
    """Energy in pJ, with what the chip takes when idle, and cycles; for one round."""

    energy_pj: float
    cycles: float


class Option(NamedTuple):
    """A segment that can run the layers numbered ``first`` to ``end - 1``, and its cost."""

    first: int
    cost: Cost
    segment: Node


class SegmentChain(NamedTuple):
    """Segments of all layers, and the sum of their costs."""

    cost: Cost
    segments: tuple[Node, ...]


@noting_limits
def solve(problem: ScheduleProblem, budget: Budget, params: Params = DEFAULT) -> Outcome[ScheduleSolution]:
    """The best chain of segments of ``problem``, in the fewest rounds in which the chip has one.

    More rounds have fewer samples each, which take less of the buffers, but load all weights again. Where the
    time is up, the best chain of the segments counted until then is the answer: single layers come first.
    InputError for a model other than the chip's.
    """
    model = problem.model
    if not isinstance(model, ChipModel):
        remedy = "Take the chip model, or one of set, layer_sequential, layer_pipeline"
        raise InputError("segment_chain", "the chip model", model.name, remedy, key="model")
    deadline = Deadline(budget.wall_seconds)
    for rounds in divisors(problem.batch):
        segments = _Segments(problem, model, rounds)
        try:
            if not segments.single_layers(deadline):
                continue
        except OutOfTimeError as reason:
            return no_tree(problem, f"the first chain: {reason}", deadline)
        prepare_bound(problem, deadline.left)
        kept = kept_for_recount(deadline)
        end = Deadline(deadline.left - kept)
        complete = segments.longer(params, budget.iterations, end.in_time)
        chain = _best(problem, segments.ending, rounds)
        tree = Cut("T", problem.batch, rounds, chain.segments)
        note = f"segments={segments.counted} rounds={rounds}"
        note += "" if complete else "; not all segments were counted"
        return replace(answer(problem, tree, (), deadline, note), evaluations=segments.counted)
    return no_tree(problem, f"no layer after the other, even sample by sample: {segments.reason}", deadline)


class _Segments:
    """The segments that the chip can run in one of ``rounds``; ``ending``: by the layer after the last."""

    def __init__(self, problem: ScheduleProblem, model: ChipModel, rounds: int) -> None:
        evaluator = problem.evaluator()
        assert isinstance(evaluator, ChipEvaluator)
        self._evaluator, self._chip = evaluator, model.chip
        self._names = [layer.name for layer in problem.graph.layers]
        self._batch = problem.batch // rounds
        self.ending: list[list[Option]] = [[] for _ in range(len(self._names) + 1)]
        self.counted, self.reason = 0, ""

    def single_layers(self, deadline: Deadline) -> bool:
        """Count all segments of one layer; whether the chip can run each layer in some way.

        In a T cut of one child a layer runs in sub-batches, which need less of the buffers.
        OutOfTimeError after the deadline, for without all layers there is no chain.
        """
        for number, name in enumerate(self._names):
            deadline.check()
            if not self._count(number, number + 1, _single(name, self._batch)):
                return False
        return True

    def longer(self, params: Params, most: int | None, in_time: InTime) -> bool:
        """Count segments of several layers, short ones first; False where the time or ``most`` ended it."""
        missed = [0] * len(self._names)
        for length in range(2, min(params.longest, len(self._names)) + 1):
            for first in range(len(self._names) - length + 1):
                if missed[first] == params.misses:
                    continue
                if not in_time() or (most is not None and self.counted >= most):
                    return False
                names = self._names[first : first + length]
                fits = self._count(first, first + length, _several(names, self._batch, self._chip.tiles))
                missed[first] = 0 if fits else missed[first] + 1
        return True

    def _count(self, first: int, end: int, segments: Iterator[Node]) -> bool:
        """Count segments of the layers ``first`` to ``end - 1``; whether the chip can run one of them.

        Of several only those that no other beats in energy and in cycles are kept.
        """
        found: list[Option] = []
        for segment in segments:
            self.counted += 1
            try:
                cost = self._evaluator.segment(segment)
            except NotPossibleError as reason:
                self.reason = str(reason)
            else:
                found.append(Option(first, Cost(running_pj(cost, self._chip), cost.cycles), segment))
        self.ending[end] += nondominated(found, lambda option: option.cost)
        return bool(found)


def _single(name: str, batch: int) -> Iterator[Node]:
    yield Leaf(name, batch)
    for parts in divisors(batch)[1:]:
        yield Cut("T", batch, parts, (Leaf(name, batch // parts),))


def _several(names: Sequence[str], batch: int, tiles: int) -> Iterator[Node]:
    """The segments of neighbouring layers, as the module's docstring draws them."""
    for parts in divisors(batch):
        samples = batch // parts
        leaves = tuple(Leaf(name, samples) for name in names)
        yield Cut("T", batch, parts, leaves)
        if len(names) > 2:  # of two layers the comb is the T cut
            yield comb(leaves) if parts == 1 else Cut("T", batch, parts, (comb(leaves),))
        if len(names) <= tiles:
            yield Cut("S", batch, parts, leaves)


def comb(leaves: Sequence[Leaf]) -> Node:
    """T cuts of two children, a leaf and the comb of all that follow it."""
    node: Node = leaves[-1]
    for leaf in reversed(leaves[:-1]):
        node = Cut("T", leaf.batch, 1, (leaf, node))
    return node


def _best(problem: ScheduleProblem, ending: Sequence[Sequence[Option]], rounds: int) -> SegmentChain:
    """The chain of least E^n D^m; all ``rounds`` take the same, so they multiply both sums alike."""

    def value(chain: SegmentChain) -> float:
        return problem.objective.value(rounds * chain.cost.energy_pj, round(rounds * chain.cost.cycles))

    return min(_corners(ending), key=value)


def _corners(ending: Sequence[Sequence[Option]]) -> list[SegmentChain]:
    """The corners of the lower left hull of all chains, and perhaps points on its sides."""
    least_energy, least_cycles = _shortest(ending, 1.0, 0.0), _shortest(ending, 0.0, 1.0)
    found, sides = [least_energy, least_cycles], [(least_energy.cost, least_cycles.cost)]
    while sides and len(found) < MOST_CORNERS:
        left, right = sides.pop()
        # weights with which both ends of the side cost the same: what costs less lies beyond it
        by_energy, by_cycles = left.cycles - right.cycles, right.energy_pj - left.energy_pj
        if by_energy <= 0 or by_cycles <= 0:
            continue
        chain = _shortest(ending, by_energy, by_cycles)
        side = by_energy * left.energy_pj + by_cycles * left.cycles
        # sums of floats: a point on the side itself must not look like one beyond it
        if by_energy * chain.cost.energy_pj + by_cycles * chain.cost.cycles < side * (1 - 1e-12):
            found.append(chain)
            sides += [(left, chain.cost), (chain.cost, right)]
    if sides:
        limit_reached("corners of the hull of chains", MOST_CORNERS, "a better chain may be between them")
    return found


def _shortest(ending: Sequence[Sequence[Option]], by_energy: float, by_cycles: float) -> SegmentChain:
    """The chain of least ``by_energy`` E + ``by_cycles`` D; of equal ones that of least energy, then cycles.

    A dynamic program over the layer after the last: every layer has a segment of its own, so there is a chain
    up to each.
    """
    best: list[tuple[tuple[float, float, float], Option | None]] = [((0.0, 0.0, 0.0), None)]
    for options in ending[1:]:
        costs = []
        for option in options:
            (value, energy, cycles), more = best[option.first][0], option.cost
            weighed = value + by_energy * more.energy_pj + by_cycles * more.cycles
            costs.append(((weighed, energy + more.energy_pj, cycles + more.cycles), option))
        best.append(min(costs, key=lambda one: one[0]))
    segments: list[Node] = []
    at = len(best) - 1
    while (last := best[at][1]) is not None:
        segments.append(last.segment)
        at = last.first
    (_, energy, cycles), _ = best[-1]
    return SegmentChain(Cost(energy, cycles), tuple(segments[::-1]))
