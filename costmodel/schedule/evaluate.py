"""Evaluates schedules on a chip segment by segment, and remembers segments.

A search changes a tree at one spot. All other segments are the same objects as before, and cost a look-up.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

from costmodel.errors import InputError
from costmodel.hardware.chip import Chip
from costmodel.schedule.evaluation import ChipEvaluation
from costmodel.schedule.fused_groups.cost import GroupCosts
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.leaf import LeafSearch
from costmodel.schedule.reductions import segment_reduction_violations
from costmodel.schedule.row_bands import segment_band_violations
from costmodel.schedule.segment.known_nodes import KnownNodes
from costmodel.schedule.segment.node_cost import NodeCost
from costmodel.schedule.segment.segment import SegmentEvaluation
from costmodel.schedule.tile_cost import TileCosts
from costmodel.schedule.transitions import KnownTransitions, MostSaved, Transition
from costmodel.schedule.tree.segment_flow import SegmentFlow, Wiring
from costmodel.schedule.tree.tree import Cut, TreeNode, leaves, rounds_of_segments
from costmodel.schedule.tree.validity import NotPossibleError, violations

MOST_REMEMBERED = 50_000
"""How many segments an evaluator remembers before it forgets them all, which bounds its memory."""


@dataclass(frozen=True)
class _Segment:
    """A valid segment: its layers, the layers outside of it whose outputs it reads, and what it costs.

    The cost is the reason instead where it cannot run.
    """

    node: TreeNode
    layers: frozenset[str]
    needs: frozenset[str]
    cost: NodeCost | NotPossibleError


class ChipEvaluator:
    """Evaluates schedules of one network for one batch and chip; remembers nodes and segments.

    ``tile_costs``: what layers cost within tiles. ``exponents``: n and m of the objective E^n D^m, by which
    each leaf's partition and placement are picked. ``groups``: costs of layers that are mapped together; None
    where that is not offered.

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
    ) -> None:
        self.graph, self.chip, self.batch = graph, chip, batch
        self._groups = groups
        self._search = LeafSearch(graph, chip, tile_costs, exponents)
        self._wiring = Wiring.of(graph.producers)
        self._normalized = cache(tile_costs.normalized_cycles)
        self._nodes = KnownNodes()
        self._transitions = KnownTransitions(chip, graph.producers)
        self._by_value: dict[TreeNode, _Segment] = {}
        self._by_identity: dict[int, _Segment] = {}

    def evaluate(self, tree: TreeNode) -> ChipEvaluation:
        """What a schedule costs; ``tree`` is its RA tree.

        InputError for a tree that is not of this network and batch, NotPossibleError when buffers or tiles do
        not suffice.
        """
        rounds, nodes = rounds_of_segments(tree)
        segments = [self._known(tree, node) for node in nodes]
        if not self._fit_together(tree, segments):
            self._refuse(violations(tree, self.graph.producers, self.batch))
        costs = tuple(_possible(segment) for segment in segments)
        following = (*costs[1:], *(costs[:1] if rounds > 1 else ()))
        between = tuple(map(self._transitions.between, costs, following))
        return ChipEvaluation(tree, self.chip, rounds, costs, between)

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

    def remembered(self) -> Iterator[tuple[frozenset[str], NodeCost]]:
        """The segments that are remembered now and that the chip can run: their layers and their cost."""
        for segment in self._by_value.values():
            if isinstance(segment.cost, NodeCost):
                yield segment.layers, segment.cost

    def _known(self, tree: TreeNode, node: TreeNode) -> _Segment:
        """A segment of a tree, counted unless it is remembered."""
        # A remembered segment holds its node, so its id cannot have come to mean another one. The test keeps
        # that true however segments are forgotten.
        found = self._by_identity.get(id(node))
        if found is not None and found.node is node:
            return found
        if len(self._by_value) + len(self._by_identity) >= MOST_REMEMBERED:
            # All at once: a search that went on to other trees would not come back to most of them, and an
            # order of use to forget by would cost a step at every look-up.
            self._by_value.clear()
            self._by_identity.clear()
        if node not in self._by_value:
            self._by_value[node] = self._counted(tree, node)
        same = self._by_value[node]
        found = self._by_identity[id(node)] = _Segment(node, same.layers, same.needs, same.cost)
        return found

    def _counted(self, tree: TreeNode, node: TreeNode) -> _Segment:
        """A new segment; where it is not valid, the reasons given are those of the whole ``tree``."""
        names = frozenset(leaf.layer for leaf in leaves(node))
        producers = self.graph.producers
        # Producers outside of the segment do not matter to its form: their outputs are in DRAM.
        inside = {name: [one for one in producers[name] if one in names] for name in names & producers.keys()}
        if violations(node, inside, node.batch, segment=True):
            self._refuse(violations(tree, producers, tree.batch))
        self._refuse(segment_band_violations(node, self.graph))
        self._refuse(segment_reduction_violations(node, self.graph))
        needs = frozenset(one for name in names for one in producers[name]) - names
        flow = SegmentFlow(node, self._wiring)
        try:
            # That a segment cannot run is remembered like a cost: searches come back to such segments often.
            cost = SegmentEvaluation(
                self._search, node, flow, self._normalized, self._nodes, self._groups
            ).cost()
        except NotPossibleError as reason:
            return _Segment(node, names, needs, NotPossibleError(*reason.args))
        return _Segment(node, names, needs, cost)

    def _fit_together(self, tree: TreeNode, segments: Sequence[_Segment]) -> bool:
        """Whether valid segments make a valid tree: batches, and every layer once and after its producers."""
        rounds, _ = rounds_of_segments(tree)
        batch = tree.batch // rounds
        if tree.batch % rounds or (isinstance(tree, Cut) and tree.kind == "T" and tree.bands > 1):
            return False
        seen: set[str] = set()
        for segment in segments:
            if (
                segment.node.batch != batch
                or not segment.needs <= seen
                or not seen.isdisjoint(segment.layers)
            ):
                return False
            seen |= segment.layers
        return tree.batch == self.batch and len(seen) == len(self.graph.layers)

    def _refuse(self, reasons: Sequence[str]) -> None:
        """InputError with the first reasons, if there are any."""
        if reasons:
            raise InputError("schedule", f"a valid tree of {self.graph.name}", "; ".join(reasons[:3]))


def _possible(segment: _Segment) -> NodeCost:
    """The cost of a segment; raises a new NotPossibleError, as a remembered one would collect tracebacks."""
    if isinstance(segment.cost, NotPossibleError):
        raise NotPossibleError(*segment.cost.args)
    return segment.cost
