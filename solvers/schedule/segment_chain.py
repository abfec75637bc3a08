"""Chains of segments: layers next to one another in the network's order, joined where that pays.

A root T cut runs segments one after the other. Their energies and cycles add up, less what each saves by
fetching its first data while the one before it ends. A segment here is a run of neighbouring layers in one of
five forms::

    one layer     T cut          S cut            comb             pipeline of combs
    a 8           T 8/1          S 8/4            T 8/1            S 8/4
                    a 8            a 2              a 8              T 2/1
                    b 8            b 2              T 8/1              a 2
                    c 8            c 2                b 8              b 2
                                                      c 8            c 2

The T cut hands data on to the next layer only; the S cut is a pipeline, the same but for layers of one stage.
In a comb any two layers are children of one T cut or of two next to each other, so every edge stays on the
chip, such as that of a residual connection. With ``blocks``, as by default, T cuts of blocks (:mod:`.blocks`)
take the place of combs: they keep every edge, too, and hold it for less long, so longer runs of layers fit.
Runs of more layers than ``longest`` begin and end at necks, where few data cross from layer to layer.
In a pipeline of few combs, or T cuts of blocks, a layer has more tiles than in one of single layers, and
fewer than with all tiles: less data is repeated in buffers, so more layers fit. They have as equal work as
neighbouring layers can have. Cuts are tried with every number of sub-batches.
With ``bands`` each form is also tried sample by sample in bands of rows
(:mod:`costmodel.schedule.row_bands`), in as many as divide the rows of the last layer.

Each segment is counted once, with the chip model, and so is each pair of segments that a best chain may have
in a row. Then the best chain follows exactly. E^n D^m of a chain is quasi-concave in its (E, D), so of all
chains the best is a corner of the lower left hull, and a corner is the chain of least ``a E + b D`` for some
weights: a shortest path over segments, as what a segment costs depends on the one before it and on no other.
The corners are found from the outside in, each between two that are known. With several rounds the first
segment follows the last one of the round before. Then there is a path for each segment that may be the first.

With ``joined`` the best chain then goes on (:mod:`.joining`): two neighbouring segments become one T cut,
which keeps on the chip what the one hands to the other, as long as that makes E^n D^m less; of all such pairs
the best one first. So layers that run in many sub-batches and layers that run in few, or as a pipeline, share
a segment. This is a search by steps, and what it finds need not be the best of its kind.

The space is small beside that of all RA trees, and no annealing has to find its way to long segments: single
steps towards them mostly cost more. So this answers in seconds, and is a start for ``set``.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cache
from itertools import accumulate, pairwise
from math import inf
from typing import NamedTuple

from costmodel.errors import InputError
from costmodel.limits import limit_reached
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.row_bands import heights_of, made_in_bands, segment_band_violations
from costmodel.schedule.segment.allocation import allocate
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, leaves
from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget, Deadline, InTime, OutOfTimeError
from solvers.checks import check_counts, check_switches
from solvers.divisors import divisors
from solvers.outcome import Outcome, noting_limits
from solvers.schedule.answer_time import kept_for_recount, prepare_bound
from solvers.schedule.blocks import Edge, blocks
from solvers.schedule.channel_cuts import with_channels_cut
from solvers.schedule.chip_model import ChipModel
from solvers.schedule.in_turn import CountedSegment, worth_keeping
from solvers.schedule.joining import joined
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, answer, no_tree
from solvers.schedule.tiles.cost_table import TileCostsNeeded, need
from solvers.schedule.tiles.layer_parts import Request

VERSION = "7"

TIME_FOR_CUTS = 0.25
"""The fraction of the time for segments that is kept for cutting input channels, where that is asked for."""

MOST_CORNERS = 200
"""The most corners of the hull that are looked for; beyond, the best of those found is the answer."""


@dataclass(frozen=True)
class Params:
    """``longest``: the most layers of a segment; with ``blocks`` longer runs go from neck to neck
    (:func:`necks`).

    ``misses``: from a layer on, segments are not made longer after so many lengths in a row that did not fit;
    a longer one may fit again, for a layer without weights can end a segment with fewer bytes to hold.
    ``combs``: the most combs, or T cuts of blocks, of a pipeline; 1: there are no such pipelines. ``bands``:
    the most bands of rows of a segment; 1: there are no bands. ``reductions``: whether the input channels of
    the best chain's leaves are cut where that pays (:mod:`.channel_cuts`). ``blocks``: T cuts of blocks
    instead of combs; with bands there are combs all the same. ``joined``: neighbouring segments of the best
    chain are joined where that pays.
    """

    longest: int = 8
    misses: int = 5
    combs: int = 4
    bands: int = 1
    reductions: bool = False
    blocks: bool = True
    joined: bool = True

    def __post_init__(self) -> None:
        check_counts("chains of segments", self, {"longest": 1, "misses": 1, "combs": 1, "bands": 1})
        check_switches("chains of segments", self, "blocks", "joined", "reductions")


DEFAULT = Params()


class Cost(NamedTuple):
    """Energy in pJ, with what the chip takes when idle, and cycles; for one round."""

    energy_pj: float
    cycles: float


@dataclass(frozen=True, eq=False)
class SegmentOption:
    """A segment that can run the layers from number ``first`` on."""

    first: int
    segment: CountedSegment


class SegmentChain(NamedTuple):
    """Segments of all layers, and the sum of their costs, less what is saved."""

    cost: Cost
    segments: tuple[TreeNode, ...]


@noting_limits
def solve(problem: ScheduleProblem, budget: Budget, params: Params = DEFAULT) -> Outcome[ScheduleSolution]:
    """The best chain of segments of ``problem``, in the fewest rounds in which the chip has one.

    More rounds have fewer samples each, which take less of the buffers, but load all weights again. Where the
    time is up, the best chain of the segments counted until then is the answer: single layers come first.
    InputError for a model other than the chip's. With bands, costs may be lacking that this process cannot
    solve: TileCostsNeeded is raised then, with those of all segments that can be told; the caller has them
    solved and calls again.
    """
    model = problem.model
    if not isinstance(model, ChipModel):
        remedy = "Take the chip model, or one of set, layer_sequential, layer_pipeline"
        raise InputError("segment_chain", "the chip model", model.name, remedy, key="model")
    deadline = Deadline(budget.wall_seconds)
    if params.bands > 1:
        model = replace(model, bands=True)
    if params.reductions:
        model = replace(model, reductions=True)
    problem = replace(problem, model=model)
    for rounds in divisors(problem.batch):
        segments = _Segments(problem, model, rounds, params)
        try:
            if not segments.single_layers(deadline):
                continue
        except OutOfTimeError as reason:
            return no_tree(problem, f"the first chain: {reason}", deadline)
        prepare_bound(problem, deadline.left)
        kept = kept_for_recount(deadline)
        left = deadline.left - kept
        end = Deadline(left * (1 - TIME_FOR_CUTS) if params.reductions else left)
        complete = segments.longer(budget.iterations, end.in_time)
        chain = _best(problem, Chains(segments.kept(), segments.saved, rounds))
        tree, counted = Cut("T", problem.batch, rounds, chain.segments), segments.counted
        if params.joined and complete:
            tree, tried = joined(tree, segments.evaluator, problem.objective, end.in_time)
            counted += tried
        whole: TreeNode = tree
        if params.reductions:
            end = Deadline(deadline.left - kept)
            whole = with_channels_cut(
                segments.evaluator, model.tile_costs, problem.objective, tree, end.in_time
            )
        note = f"segments={segments.counted} rounds={rounds}"
        note += "" if complete else "; not all segments were counted"
        return replace(answer(problem, whole, (), deadline, note), evaluations=counted)
    return no_tree(problem, f"no layer after the other, even sample by sample: {segments.reason}", deadline)


class _Segments:
    """The segments that the chip can run in one of ``rounds``; ``ending``: by the layer after the last."""

    def __init__(self, problem: ScheduleProblem, model: ChipModel, rounds: int, params: Params) -> None:
        evaluator = problem.evaluator()
        assert isinstance(evaluator, ChipEvaluator)
        self.evaluator, self._chip, self._params = evaluator, model.chip, params
        self._graph, self._costs = problem.graph, model.tile_costs
        self._lacking: dict[Request, None] = {}
        self._names = [layer.name for layer in problem.graph.layers]
        self._edges: list[Edge] = [
            (producer, consumer)
            for consumer, layer in enumerate(problem.graph.layers)
            for producer in (*layer.producers, *layer.weight_producers)
        ]
        self._cycles = cache(model.tile_costs.normalized_cycles)
        self._batch = problem.batch // rounds
        self._found: dict[tuple[int, int], list[CountedSegment]] = defaultdict(list)
        self.counted, self.reason = 0, ""

    def kept(self) -> list[list[SegmentOption]]:
        """The segments that may be in a best chain, by the layer after their last one."""
        every = (one.most.pj_per_cycle for segments in self._found.values() for one in segments)
        most_pj = max(every, default=0.0)
        ending: list[list[SegmentOption]] = [[] for _ in range(len(self._names) + 1)]
        for (first, end), segments in self._found.items():
            ending[end] += (SegmentOption(first, one) for one in worth_keeping(segments, most_pj))
        return ending

    def saved(self, before: CountedSegment, after: CountedSegment) -> Cost:
        """What a segment saves by the one before it."""
        found = self.evaluator.between(before.cost, after.cost)
        return Cost(found.saved_pj(self._chip), found.saved_cycles)

    def single_layers(self, deadline: Deadline) -> bool:
        """Count all segments of one layer; whether the chip can run each layer in some way.

        In a T cut of one child a layer runs in sub-batches, which need less of the buffers.
        OutOfTimeError after the deadline, for without all layers there is no chain.
        """
        for number, name in enumerate(self._names):
            deadline.check()
            if not self._count(number, number + 1, self._single(number, name)):
                self._ask()
                return False
        return True

    def _single(self, number: int, name: str) -> Iterator[TreeNode]:
        yield Leaf(name, self._batch)
        for parts in divisors(self._batch)[1:]:
            yield Cut("T", self._batch, parts, (Leaf(name, self._batch // parts),))
        for bands in self._bands_after(number):
            segment = Cut("T", self._batch, self._batch, (Leaf(name, 1),), bands)
            if self._can_have_bands(segment):
                yield segment

    def longer(self, most: int | None, in_time: InTime) -> bool:
        """Count segments of several layers, short ones first; False where the time or ``most`` ended it."""
        complete = self._all_longer(most, in_time)
        self._ask()
        return complete

    def _ask(self) -> None:
        """TileCostsNeeded for all costs that were found to be lacking."""
        if self._lacking:
            raise TileCostsNeeded(tuple(self._lacking))

    def _all_longer(self, most: int | None, in_time: InTime) -> bool:
        missed, params = [0] * len(self._names), self._params
        for length in range(2, min(params.longest, len(self._names)) + 1):
            for first in range(len(self._names) - length + 1):
                if missed[first] == params.misses:
                    continue
                if not in_time() or (most is not None and self.counted >= most):
                    return False
                fits = self._count(first, first + length, self._several(first, first + length))
                missed[first] = 0 if fits else missed[first] + 1
        return not params.blocks or self._all_between_necks(most, in_time)

    def _all_between_necks(self, most: int | None, in_time: InTime) -> bool:
        """Count turns and pipelines of blocks, of more layers, from neck to neck; see :func:`necks`."""
        boundaries = necks(self._graph)
        for number, first in enumerate(boundaries):
            missed = 0
            for end in boundaries[number + 1 :]:
                if end - first <= self._params.longest:
                    continue
                if not in_time() or (most is not None and self.counted >= most):
                    return False
                missed = 0 if self._count(first, end, self._long(first, end)) else missed + 1
                if missed == self._params.misses:
                    break
        return True

    def _long(self, first: int, end: int) -> Iterator[TreeNode]:
        for parts in divisors(self._batch):
            leaves = [Leaf(name, self._batch // parts) for name in self._names[first:end]]
            yield self._in_blocks(first, end, leaves, parts)
            if parts > 1:
                yield from self._pipelines(first, leaves, parts, 1)

    def _several(self, first: int, end: int) -> Iterator[TreeNode]:
        """The segments of neighbouring layers, as the module's docstring draws them."""
        for parts in divisors(self._batch):
            yield from self._in_parts(first, end, parts, 1)
        for bands in self._bands_after(end - 1):
            segments = self._in_parts(first, end, self._batch, bands)
            yield from filter(self._can_have_bands, segments)

    def _bands_after(self, last: int) -> list[int]:
        """In how many bands segments are tried that end with a layer."""
        rows = self._graph.layers[last].h
        return [bands for bands in divisors(rows)[1:] if bands <= self._params.bands]

    def _can_have_bands(self, segment: TreeNode) -> bool:
        return not segment_band_violations(segment, self._graph) and self._is_costed(segment)

    def _in_parts(self, first: int, end: int, parts: int, bands: int) -> Iterator[TreeNode]:
        """Those of some sub-batches, and bands."""
        names, batch, tiles, params = self._names[first:end], self._batch, self._chip.tiles, self._params
        samples, runs = batch // parts, parts * bands
        leaves = tuple(Leaf(name, samples) for name in names)
        yield Cut("T", batch, parts, leaves, bands)
        with_blocks = params.blocks and bands == 1
        if with_blocks:
            if (of_blocks := self._in_blocks(first, end, leaves, parts)).children != leaves:
                yield of_blocks
        elif len(names) > 2:  # of two layers the comb is the T cut
            yield comb(leaves) if runs == 1 else Cut("T", batch, parts, (comb(leaves),), bands)
        if len(names) <= tiles:
            yield Cut("S", batch, parts, leaves, bands)
        if runs == 1:  # a pipeline of a single sub-batch would have one comb wait for the other
            return
        yield from self._pipelines(first, leaves, parts, bands)

    def _pipelines(self, first: int, leaves: Sequence[Leaf], parts: int, bands: int) -> Iterator[TreeNode]:
        """Pipelines of combs, or of T cuts of blocks: layers from ``first`` on with these ``leaves``."""
        with_blocks, count = self._params.blocks and bands == 1, len(leaves)
        cycles = [self._cycles(number) for number in range(first, first + count)]
        for pieces in range(2, min(self._params.combs, self._chip.tiles, count - 1) + 1):
            ends = even_ends(cycles, pieces)
            if ends is not None:
                runs = (self._in_turn(first, leaves, *piece, with_blocks) for piece in pairwise((0, *ends)))
                yield Cut("S", parts * leaves[0].batch, parts, tuple(runs), bands)

    def _in_turn(
        self, first: int, leaves: Sequence[Leaf], begin: int, until: int, with_blocks: bool
    ) -> TreeNode:
        """A part of a pipeline: some of the ``leaves``, which are those of the layers from ``first`` on."""
        if until - begin == 1:
            return leaves[begin]
        piece = leaves[begin:until]
        return self._in_blocks(first + begin, first + until, piece) if with_blocks else comb(piece)

    def _in_blocks(self, first: int, end: int, leaves: Sequence[Leaf], parts: int = 1) -> Cut:
        """T cuts of blocks of the layers ``first`` to ``end - 1``, with these ``leaves``, in ``parts``."""
        edges = [(one - first, two - first) for one, two in self._edges if first <= one < two < end]
        return replace(blocks(leaves, edges), batch=parts * leaves[0].batch, subbatches=parts)

    def _is_costed(self, segment: TreeNode) -> bool:
        """Whether the costs of a segment with bands are known or can be solved here; else they are noted."""
        assert isinstance(segment, Cut)
        made = made_in_bands(segment, self._graph)
        children = segment.children
        tiles: Sequence[int] = [self._chip.tiles] * len(children)
        if segment.kind == "S":
            work = [sum(self._cycles(self._number(leaf)) for leaf in leaves(child)) for child in children]
            tiles = allocate(self._chip.tiles, work, [1] * len(children)) or []
        requests = [
            Request(number, leaf.batch, count, tuple(sorted(set(heights_of(made[number])), reverse=True)))
            for child, count in zip(children, tiles, strict=False)
            for leaf in leaves(child)
            for number in [self._number(leaf)]
        ]
        try:
            need(self._costs, requests)
        except TileCostsNeeded as more:
            self._lacking |= dict.fromkeys(more.requests)
            return False
        return True

    def _number(self, leaf: Leaf) -> int:
        return self._graph.index[leaf.layer]

    def _count(self, first: int, end: int, segments: Iterator[TreeNode]) -> bool:
        """Count segments of the layers ``first`` to ``end - 1``; whether the chip can run one of them."""
        found: list[CountedSegment] = []
        for segment in segments:
            self.counted += 1
            try:
                found.append(CountedSegment.of(segment, self.evaluator))
            except NotPossibleError as reason:
                self.reason = str(reason)
        self._found[first, end] += found
        return bool(found)


def even_ends(cycles: Sequence[float], count: int) -> list[int] | None:
    """Where ``count`` runs of layers with these ``cycles`` end, each as the position after its last layer.

    Run ``number``, counted from 1, ends as soon as it and those before it have ``number / count`` of all
    cycles. None where a run would have no layer.
    """
    reached = list(accumulate(cycles))
    ends = [bisect_left(reached, reached[-1] * number / count) + 1 for number in range(1, count)]
    ends.append(len(cycles))
    return ends if all(one < other for one, other in pairwise(ends)) else None


def necks(graph: LayerGraph) -> list[int]:
    """The boundaries between layers that no more data crosses than the two next to them; and both ends.

    Boundary ``number`` lies in front of the layer of that number. What crosses it are the outputs of layers
    in front of it that a layer behind it reads.
    """
    count = len(graph.layers)
    last_read = list(range(count))
    for consumer, layer in enumerate(graph.layers):
        for producer in (*layer.producers, *layer.weight_producers):
            last_read[producer] = consumer
    crossing = [
        sum(
            layer.compulsory_elements(1).outputs
            for producer, layer in enumerate(graph.layers[:boundary])
            if last_read[producer] >= boundary
        )
        for boundary in range(count + 1)
    ]
    around = [inf, *crossing[1:count], inf]  # nothing crosses an end, but there is nothing to compare with
    inner = (at for at in range(1, count) if around[at] <= min(around[at - 1], around[at + 1]))
    return [0, *inner, count]


def comb(leaves: Sequence[Leaf]) -> TreeNode:
    """T cuts of two children, a leaf and the comb of all that follow it."""
    node: TreeNode = leaves[-1]
    for leaf in reversed(leaves[:-1]):
        node = Cut("T", leaf.batch, 1, (leaf, node))
    return node


@dataclass(frozen=True)
class Chains:
    """All chains of the segments ``ending`` at each layer, for ``rounds`` rounds.

    ``saved``: energy and cycles that a segment saves by the one before it.
    """

    ending: Sequence[Sequence[SegmentOption]]
    saved: Callable[[CountedSegment, CountedSegment], Cost]
    rounds: int

    def corners(self) -> Iterator[SegmentChain]:
        """The corners of the lower left hull of all chains, and perhaps points on its sides.

        With several rounds, those for each segment that may be the first.
        """
        if self.rounds == 1:
            yield from self._corners(None)
            return
        for options in self.ending:
            for option in options:
                if option.first == 0:
                    yield from self._corners(option.segment)

    def _corners(self, first: CountedSegment | None) -> list[SegmentChain]:
        """The corners of chains that begin with ``first``; None: with any segment, in a single round."""
        found = [
            chain for chain in (self._shortest(first, *one) for one in ((1.0, 0.0), (0.0, 1.0))) if chain
        ]
        sides = [(found[0].cost, found[1].cost)] if found else []
        while sides and len(found) < MOST_CORNERS:
            left, right = sides.pop()
            # weights with which both ends of the side cost the same: what costs less lies beyond it
            by_energy, by_cycles = left.cycles - right.cycles, right.energy_pj - left.energy_pj
            if by_energy <= 0 or by_cycles <= 0:
                continue
            chain = self._shortest(first, by_energy, by_cycles)
            assert chain is not None
            side = by_energy * left.energy_pj + by_cycles * left.cycles
            # sums of floats: a point on the side itself must not look like one beyond it
            if by_energy * chain.cost.energy_pj + by_cycles * chain.cost.cycles < side * (1 - 1e-12):
                found.append(chain)
                sides += [(left, chain.cost), (chain.cost, right)]
        if sides:
            limit_reached("corners of the hull of chains", MOST_CORNERS, "a better chain may be between them")
        return found

    def _shortest(
        self, first: CountedSegment | None, by_energy: float, by_cycles: float
    ) -> SegmentChain | None:
        """The chain of least ``by_energy`` E + ``by_cycles`` D; of equal ones least energy, then cycles.

        A dynamic program over segments, by the layer after their last one. Paths up to a layer are looked
        through from the shortest on, and only as long as one could still win if the segment saved all that
        it can; so few pairs of segments are counted.
        """
        weights = (by_energy, by_cycles)
        paths: list[list[_Path]] = [[]]
        for options in self.ending[1:]:
            ways = []
            for option in options:
                if option.first == 0:
                    if first is None or option.segment is first:
                        own = option.segment
                        ways.append(_Path.of(Cost(own.energy_pj, own.cycles), weights, own, None))
                elif way := self._extended(paths[option.first], option.segment, weights):
                    ways.append(way)
            paths.append(sorted(ways, key=lambda one: one.key))
        if first is not None:
            paths[-1] = [self._in_rounds(path, first, weights) for path in paths[-1]]
        return min(paths[-1], key=lambda one: one.key).chain if paths[-1] else None

    def _extended(
        self, paths: Sequence[_Path], segment: CountedSegment, weights: tuple[float, float]
    ) -> _Path | None:
        """The shortest path that goes on with a segment; ``paths`` are those that end before it."""
        best: _Path | None = None
        own, of_cycle = Cost(segment.energy_pj, segment.cycles), _weighed(segment, weights)
        for path in paths:
            reached = path.with_cost(own, weights, segment)
            if best is not None and reached.key[0] - segment.most.itself * of_cycle > best.key[0]:
                break
            most = min(segment.most.itself, path.segment.most.next_one)
            if best is not None and reached.key[0] - most * of_cycle > best.key[0]:
                continue
            if most:
                saved = self.saved(path.segment, segment)
                less = Cost(own.energy_pj - saved.energy_pj, own.cycles - saved.cycles)
                reached = path.with_cost(less, weights, segment)
            if best is None or reached.key < best.key:
                best = reached
        return best

    def _in_rounds(self, path: _Path, first: CountedSegment, weights: tuple[float, float]) -> _Path:
        """The path with what its first segment saves by its last, in the mean of all rounds."""
        part, saved = (self.rounds - 1) / self.rounds, self.saved(path.segment, first)
        _, energy, cycles = path.key
        less = Cost(energy - part * saved.energy_pj, cycles - part * saved.cycles)
        return _Path.of(less, weights, path.segment, path.before)


def _weighed(segment: CountedSegment, weights: tuple[float, float]) -> float:
    """What a saved cycle of a segment takes off a weighted sum of energy and cycles."""
    return weights[0] * segment.most.pj_per_cycle + weights[1]


class _Path(NamedTuple):
    """Segments from the first layer on, as the last one and the path ``before`` it.

    ``key``: the weighted sum that is to be least, energy and cycles.
    """

    key: tuple[float, float, float]
    segment: CountedSegment
    before: _Path | None

    @staticmethod
    def of(cost: Cost, weights: tuple[float, float], segment: CountedSegment, before: _Path | None) -> _Path:
        return _Path((weights[0] * cost.energy_pj + weights[1] * cost.cycles, *cost), segment, before)

    def with_cost(self, more: Cost, weights: tuple[float, float], segment: CountedSegment) -> _Path:
        """The path with one more segment, which costs ``more``."""
        _, energy, cycles = self.key
        return _Path.of(Cost(energy + more.energy_pj, cycles + more.cycles), weights, segment, self)

    @property
    def chain(self) -> SegmentChain:
        segments: list[TreeNode] = []
        at: _Path | None = self
        while at is not None:
            segments.append(at.segment.node)
            at = at.before
        return SegmentChain(Cost(*self.key[1:]), tuple(segments[::-1]))


def _best(problem: ScheduleProblem, chains: Chains) -> SegmentChain:
    """The chain of least E^n D^m of all rounds; all rounds take the mean of their costs."""
    rounds = chains.rounds

    def value(chain: SegmentChain) -> float:
        return problem.objective.value(rounds * chain.cost.energy_pj, round(rounds * chain.cost.cycles))

    return min(chains.corners(), key=value)
