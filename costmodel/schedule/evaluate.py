"""Evaluates schedules on a chip segment by segment, and remembers segments.

A search changes a tree at one spot. All other segments are the same objects as before, and cost a look-up.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, reduce
from operator import is_, or_
from typing import NamedTuple, TypeVar

from costmodel.errors import InputError
from costmodel.hardware.chip import Chip
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.fused_groups.cost import GroupCosts
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.leaf import LeafSearch
from costmodel.schedule.reductions import segment_reduction_violations
from costmodel.schedule.row_bands import leaf_bands, segment_band_violations
from costmodel.schedule.segment.known_nodes import KnownNodes
from costmodel.schedule.segment.node_cost import NodeCost
from costmodel.schedule.segment.planned_nodes import PlannedNode, PlannedNodes, members
from costmodel.schedule.segment.segment import CostAsIfFitting, SegmentEvaluation
from costmodel.schedule.tile_cost import TileCosts
from costmodel.schedule.transitions import (
    NOTHING_SAVED,
    KnownTransitions,
    MostSaved,
    Transition,
    saved_at_most,
)
from costmodel.schedule.tree.tree import Cut, TreeNode, rounds_of_segments
from costmodel.schedule.tree.validity import NotPossibleError, violations
from costmodel.schedule.tree.wiring import Wiring

PartT = TypeVar("PartT")
MOST_REMEMBERED = 50_000
"""How many segments an evaluator remembers before it forgets them all, which bounds its memory."""


@dataclass(frozen=True)
class _Segment:
    """A valid segment, and what it costs; the cost is the reason instead where it cannot run.

    ``layers``, ``needs``: the sets of its layers, and of those outside of it whose outputs it reads
    (:mod:`.segment.planned_nodes`).
    """

    node: TreeNode
    layers: int
    needs: int
    cost: NodeCost | NotPossibleError


@dataclass(frozen=True)
class _EvaluatedTree:
    """A tree that was evaluated, from which the next one takes what both have in common.

    ``nodes``: of its ``segments``. ``between``: the transition from each segment to the next one, and with
    several rounds that from the last to the first.
    """

    tree: TreeNode
    nodes: tuple[TreeNode, ...]
    segments: tuple[_Segment, ...]
    costs: tuple[NodeCost, ...]
    between: tuple[Transition, ...]


class _Common(NamedTuple):
    """How many segments a tree shares with one that was evaluated ``before``, whose root is like its own.

    ``first``: how many from the first one on; ``last``: how many up to the last one.
    """

    before: _EvaluatedTree
    first: int
    last: int

    def spliced(self, ones: tuple[PartT, ...], new: tuple[PartT, ...]) -> tuple[PartT, ...]:
        """What the segments of the tree before have one each of, with ``new`` ones for the tree's own."""
        return ones[: self.first] + new + ones[len(ones) - self.last :]


class _Shared(NamedTuple):
    """What an evaluator and its quick one remember together: it depends on no prices that either asks for."""

    search: LeafSearch
    planned: PlannedNodes
    nodes: KnownNodes
    transitions: KnownTransitions


class ChipEvaluator:
    """Evaluates schedules of one network for one batch and chip; remembers nodes and segments.

    ``tile_costs``: what layers cost within tiles. ``exponents``: n and m of the objective E^n D^m, by which
    each leaf's partition and placement are picked. ``groups``: costs of layers that are mapped together; None
    where that is not offered. ``quick_with``: what a :attr:`quick` evaluator shares; None: this is none.

    Segments are remembered by value and, in front of that, by identity: hashing a large tree takes longer
    than looking up its id. A remembered segment keeps its node alive, so an id cannot come to mean another.
    """

    def __init__(
        self,
        graph: LayerGraph,
        chip: Chip,
        batch: int,
        tile_costs: TileCosts,
        exponents: tuple[float, float] = (1.0, 1.0),
        groups: GroupCosts | None = None,
        quick_with: _Shared | None = None,
    ) -> None:
        self.graph, self.chip, self.batch = graph, chip, batch
        self._groups, self._priced = groups, quick_with is None
        self._shared = quick_with or _Shared(
            LeafSearch(graph, chip, tile_costs, exponents),
            PlannedNodes(Wiring.of(graph.producers), tile_costs.normalized_cycles),
            KnownNodes(),
            KnownTransitions(chip, graph.producers),
        )
        self._search, self._planned, self._nodes, self._transitions = self._shared
        self._by_value: dict[TreeNode, _Segment] = {}
        self._by_identity: dict[int, _Segment] = {}
        self._recent: tuple[_EvaluatedTree, ...] = ()

    @cached_property
    def quick(self) -> ChipEvaluator:
        """An evaluator that never prices bits, and shares what this one remembers of leaves and cuts.

        By its count, segments that overflow buffers may cost more, or not be possible. It takes a fraction of
        the time, which is what searches need that draw many trees.
        """
        if not self._priced:
            return self
        search = self._search
        costs, exponents = search.tile_costs, search.exponents
        return ChipEvaluator(
            self.graph, self.chip, self.batch, costs, exponents, self._groups, quick_with=self._shared
        )

    def evaluate(self, tree: TreeNode) -> ChipEvaluation:
        """What a schedule costs; ``tree`` is its RA tree.

        InputError for a tree that is not of this network and batch, NotPossibleError when buffers or tiles do
        not suffice.
        """
        found = self._evaluated(tree)
        assert found is not None
        return found

    def evaluate_unless(
        self, tree: TreeNode, is_too_dear: Callable[[float, float], bool]
    ) -> ChipEvaluation | None:
        """What a schedule costs; None as soon as it ``is_too_dear``, which is asked once.

        It is asked of lower bounds on energy (pJ) and cycles that hold at once: those of all segments, as if
        no new one had to wait for its first data. So transitions, which are a seventh of a search's
        time, are not counted for trees that it would refuse anyway. Errors are those of :meth:`evaluate`.
        """
        return self._evaluated(tree, is_too_dear)

    def _evaluated(
        self, tree: TreeNode, is_too_dear: Callable[[float, float], bool] | None = None
    ) -> ChipEvaluation | None:
        """The same, of any tree where nothing is asked."""
        rounds, nodes = rounds_of_segments(tree)
        common = self._common(tree, nodes)
        if common is None:
            segments = tuple([self._known(tree, node) for node in nodes])
            fits = self._fit_together(tree, segments)
        else:
            new = tuple([self._known(tree, node) for node in nodes[common.first : len(nodes) - common.last]])
            segments = common.spliced(common.before.segments, new)
            fits = _take_the_place(new, common) or self._fit_together(tree, segments)
        if not fits:
            self._refuse(violations(tree, self.graph.producers, self.batch))
        costs = _costs(segments, common)
        if is_too_dear is not None:
            most_saved = _between(rounds, costs, common, self._saved_at_most)
            least = ChipEvaluation(tree, self.chip, rounds, costs, most_saved)
            if is_too_dear(least.energy_pj, least.cycles):
                return None
        between = _between(rounds, costs, common, self._transitions.between)
        evaluated = _EvaluatedTree(tree, nodes, segments, costs, between)
        self._recent = (evaluated, *(self._recent[:1] if common is None else (common.before,)))
        return ChipEvaluation(tree, self.chip, rounds, costs, between)

    def _common(self, tree: TreeNode, nodes: tuple[TreeNode, ...]) -> _Common | None:
        """What a tree, with ``nodes`` as its segments, shares with one of the last two trees.

        A search comes to its next tree by a change at one spot, of the tree that it evaluated last, or of the
        one before if it did not accept that.
        """
        found = []
        for before in self._recent:
            if _same_root(tree, before.tree):
                first = _equal_ones(nodes, before.nodes)
                last = _equal_ones(nodes[::-1], before.nodes[::-1])
                shorter = min(len(nodes), len(before.nodes))
                found.append(_Common(before, first, min(last, shorter - first)))
        return max(found, key=lambda one: one.first + one.last, default=None)

    def _saved_at_most(self, before: NodeCost, after: NodeCost) -> Transition:
        """What a transition saves at most."""
        if before.whole_chip is not None:
            return NOTHING_SAVED
        return saved_at_most(after, self._search.leaks)

    def between(self, before: NodeCost, after: NodeCost) -> Transition:
        """What one segment saves by following another; both are costs that :meth:`segment` has given."""
        return self._transitions.between(before, after)

    def most_saved(self, cost: NodeCost) -> MostSaved:
        """What a segment saves at most by what is around it, for searches that leave segments out."""
        return self._transitions.most_saved(cost)

    def segment(self, segment: TreeNode) -> NodeCost:
        """What a child of a root T cut costs by itself; see :meth:`between` for two in a row.

        InputError for one that is not of this network, NotPossibleError as for whole trees.
        """
        return _possible(self._known(segment, segment))

    def segment_as_if_fitting(self, segment: TreeNode) -> CostAsIfFitting:
        """What a child of a root T cut costs if buffers hold whatever its cheapest leaves take.

        That takes a fraction of the time of :meth:`segment`. Errors are the same.
        """
        known = self._by_value.get(segment)
        if known is not None:
            return CostAsIfFitting(_possible(known), True)
        planned = self._valid(segment, segment)
        try:
            found = self._evaluation(planned).as_if_fitting()
        except NotPossibleError as reason:
            self._remember(_segment(planned, NotPossibleError(*reason.args)))
            raise
        if found.fits:
            self._remember(_segment(planned, found.cost))
        return found

    def remembered(self) -> Iterator[tuple[frozenset[str], NodeCost]]:
        """The segments that are remembered now and that the chip can run: their layers and their cost.

        Those that were only counted :attr:`quick` are among them.
        """
        for segment in self._by_value.values():
            if isinstance(segment.cost, NodeCost):
                names = [self.graph.layers[number].name for number in members(segment.layers)]
                yield frozenset(names), segment.cost
        if self.quick is not self:
            yield from self.quick.remembered()

    def _known(self, tree: TreeNode, node: TreeNode) -> _Segment:
        """A segment of a tree, counted unless it is remembered."""
        # A remembered segment holds its node, so its id cannot have come to mean another one. The test keeps
        # that true however segments are forgotten.
        found = self._by_identity.get(id(node))
        if found is not None and found.node is node:
            return found
        self._make_room()
        if node not in self._by_value:
            self._remember(self._counted(tree, node))
        same = self._by_value[node]
        found = self._by_identity[id(node)] = _Segment(node, same.layers, same.needs, same.cost)
        return found

    def _remember(self, segment: _Segment) -> None:
        """Remember a segment by its value."""
        self._make_room()
        self._by_value[segment.node] = segment

    def _make_room(self) -> None:
        """Forget all segments if they are too many."""
        if len(self._by_value) + len(self._by_identity) >= MOST_REMEMBERED:
            # All at once: a search that went on to other trees would not come back to most of them, and an
            # order of use to forget by would cost a step at every look-up.
            self._by_value.clear()
            self._by_identity.clear()

    def _counted(self, tree: TreeNode, node: TreeNode) -> _Segment:
        """A new segment; where it is not valid, the reasons given are those of the whole ``tree``."""
        planned = self._valid(tree, node)
        try:
            return _segment(planned, self._evaluation(planned).cost())
        except NotPossibleError as reason:
            # That a segment cannot run is remembered like a cost: searches come back to such segments often.
            return _segment(planned, NotPossibleError(*reason.args))

    def _valid(self, tree: TreeNode, node: TreeNode) -> PlannedNode:
        """What is known of a segment without tiles.

        InputError with the reasons of the whole ``tree`` where the segment is not valid.
        """
        planned = self._planned.of(node)
        if not planned.is_segment:
            self._refuse(violations(tree, self.graph.producers, tree.batch))
        if planned.banded:
            self._refuse(segment_band_violations(node, self.graph))
        if planned.reduced:
            self._refuse(segment_reduction_violations(node, self.graph))
        return planned

    def _evaluation(self, planned: PlannedNode) -> SegmentEvaluation:
        """What evaluates a valid segment."""
        bands = leaf_bands(self.graph, planned.node, planned.sources()) if planned.banded else None
        return SegmentEvaluation(self._search, planned, self._nodes, self._groups, self._priced, bands)

    def _fit_together(self, tree: TreeNode, segments: Sequence[_Segment]) -> bool:
        """Whether valid segments make a valid tree: batches, and every layer once and after its producers."""
        rounds, _ = rounds_of_segments(tree)
        batch = tree.batch // rounds
        if tree.batch % rounds or (isinstance(tree, Cut) and tree.kind == "T" and tree.bands > 1):
            return False
        seen = 0
        for segment in segments:
            if segment.node.batch != batch or segment.needs & ~seen or segment.layers & seen:
                return False
            seen |= segment.layers
        return tree.batch == self.batch and seen.bit_count() == len(self.graph.layers)

    def _refuse(self, reasons: Sequence[str]) -> None:
        """InputError with the first reasons, if there are any."""
        if reasons:
            raise InputError("schedule", f"a valid tree of {self.graph.name}", "; ".join(reasons[:3]))


def _costs(segments: tuple[_Segment, ...], common: _Common | None) -> tuple[NodeCost, ...]:
    """The costs of a tree's segments; NotPossibleError where one cannot run."""
    if common is None:
        return tuple(map(_possible, segments))
    new = segments[common.first : len(segments) - common.last]
    return common.spliced(common.before.costs, tuple(map(_possible, new)))


def _between(
    rounds: int,
    costs: tuple[NodeCost, ...],
    common: _Common | None,
    transition: Callable[[NodeCost, NodeCost], Transition],
) -> tuple[Transition, ...]:
    """The transitions of a tree, of which each is as it was before where both its segments are."""
    if common is None:
        between = tuple(map(transition, costs, costs[1:]))
    else:
        before, first, last = common
        rest, old = len(costs) - last, len(before.costs)
        # A transition is new where one of its two segments is.
        kept = max(first - 1, 0)
        new = map(transition, costs[kept:rest], costs[kept + 1 : rest + 1])
        between = (*before.between[:kept], *new, *before.between[old - last : old - 1])
    return (*between, transition(costs[-1], costs[0])) if rounds > 1 else between


def _segment(planned: PlannedNode, cost: NodeCost | NotPossibleError) -> _Segment:
    return _Segment(planned.node, planned.layers, planned.producers, cost)


def _possible(segment: _Segment) -> NodeCost:
    """The cost of a segment; raises a new NotPossibleError, as a remembered one would collect tracebacks."""
    if isinstance(segment.cost, NotPossibleError):
        raise NotPossibleError(*segment.cost.args)
    return segment.cost


def _same_root(tree: TreeNode, other: TreeNode) -> bool:
    """Whether both roots are T cuts that run their segments equally often, for as many samples."""
    return isinstance(tree, Cut) and isinstance(other, Cut) and tree.kind == "T" and tree.name == other.name


def _equal_ones(nodes: Sequence[TreeNode], others: Sequence[TreeNode]) -> int:
    """How many nodes, from the first one on, are the same objects."""
    same = list(map(is_, nodes, others))
    return same.index(False) if False in same else len(same)


def _take_the_place(new: Sequence[_Segment], common: _Common) -> bool:
    """Whether ``new`` segments make a valid tree in place of those that only the valid tree before has.

    They do if they have the same layers, and need nothing but what they and the segments before them make.
    """
    before, first, last = common
    replaced = before.segments[first : len(before.segments) - last]
    missing = reduce(or_, [one.layers for one in replaced], 0)
    seen = reduce(or_, [one.layers for one in before.segments[:first]], 0)
    samples = before.segments[0].node.batch
    for segment in new:
        if segment.node.batch != samples or segment.needs & ~seen or segment.layers & ~missing:
            return False
        seen |= segment.layers
        missing ^= segment.layers
    return not missing
