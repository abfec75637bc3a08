"""Evaluates a segment: a sub-tree that has the whole chip to itself while it runs.

Each child of a root T cut is a segment; a root that is a leaf or an S cut is the only segment. Segments hand
data to one another through DRAM only (SET, section 3.3.1), so the cost of a segment by itself does not depend
on the rest of the tree. A segment may begin to fetch while the one before it ends. What that saves is counted
for pairs of segments (``transitions.py``).

The evaluation has two passes:

1. From the leaves up, each node gets its normalized processing time (its cycles on a single tile) and the
   least number of tiles that it needs (``_planned``).
2. From the top down, S cuts divide their tiles among their children by these two numbers, and every leaf is
   searched on its tiles. On the way back the costs are added up (``_node``).

For each of its batches a segment loads weights once and keeps them in the tiles' buffers: they are *pinned*.
There are two exceptions. A leaf streams its weights if that costs it less
(:mod:`costmodel.schedule.leaf.leaf`). And where the data below a cut does not fit the buffers, but would fit
without its pinned weights, the cut makes those of its children stream whose tiles lack bits. If that is not
enough, these children also choose among the partitions that leave as many bits free as are missing.

Where tile costs offer it, tiles may share weights instead of streaming them, where that costs a leaf less
(:mod:`costmodel.schedule.leaf.sharing`). Shares stay in the buffers and ask for small slices, so a cut may
overflow, or cost more, than with streamed weights. So a segment is evaluated with and without sharing, and
the better of both by E^n D^m counts.

A segment of a single leaf has a second way to run: its loop nest is mapped on the whole chip as one stack of
levels, with nothing pinned (:mod:`costmodel.schedule.whole_chip.cost`). The segment costs what the better way
costs.

So has a segment of T cuts of one sub-batch, where its layers are a group whose cost is known: every tile
runs its part of the group by one fused mapping (:mod:`costmodel.schedule.fused_groups.cost`), and the better
way counts. In such a tree the layers run in turn for all samples, as in a fused mapping, so its text
says what runs either way.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.fused_groups.cost import GroupCosts, GroupLayerCost
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.leaf import LeafSearch
from costmodel.schedule.row_bands import leaf_bands
from costmodel.schedule.segment.allocation import allocate
from costmodel.schedule.segment.buffers import (
    Held,
    cut_in_space,
    cut_in_time,
    held_on_the_way,
    overflow_reason,
)
from costmodel.schedule.segment.known_nodes import BufferOverflow, KnownNodes, PlannedNode
from costmodel.schedule.segment.leaf_nodes import LeafNodes
from costmodel.schedule.segment.node_cost import NodeCost, running_pj, runs_on_tiles
from costmodel.schedule.starts import NodeRuns, pipelined, turns
from costmodel.schedule.tree.segment_flow import SegmentFlow
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, leaves
from costmodel.schedule.tree.validity import NotPossibleError

Array = NDArray[Any]
MOST_TRIES = 3
"""How often the children of a cut are evaluated before the cut counts as not possible: as they are, with
streamed weights, and once more with streamed weights and the missing bits left free. Where tiles may share
weights there is one more try."""


class WeightWays(NamedTuple):
    """In which ways the leaves below a node may get their weights, where these are parameters.

    ``free``: they stream them, and leave so many bits free on each tile, which may be 0. None: each leaf pins
    or streams, whichever costs it less. ``may_share``: in both cases tiles may share them instead.
    """

    free: int | None
    may_share: bool


class SegmentEvaluation:
    """Evaluates one segment.

    ``flow``: the segment's data flow. ``normalized``: the cycles that one sample of a layer, given by its
    number, takes on one tile. ``known``: the nodes of all segments that were evaluated before, which this
    evaluation looks up and adds to. ``groups``: costs of layers that are mapped together; None where that is
    not offered.
    """

    def __init__(
        self,
        search: LeafSearch,
        segment: TreeNode,
        flow: SegmentFlow,
        normalized: Callable[[int], float],
        known: KnownNodes,
        groups: GroupCosts | None = None,
    ) -> None:
        self._search, self._flow, self._normalized, self._known = search, flow, normalized, known
        self._groups = groups
        self._segment = segment
        self._chip: Chip = search.chip
        self._graph: LayerGraph = search.graph
        bands = leaf_bands(self._graph, flow, segment)
        self._band_count = next((one.count for one in bands.values()), 1)
        self._leaves = LeafNodes(search, flow, known, segment.batch, bands)

    def cost(self) -> NodeCost:
        """The segment's cost; NotPossibleError where it does not fit the buffers, tiles or PEs."""
        if isinstance(self._segment, Leaf):
            return self._cheapest(self._segment)
        together = self._together()
        try:
            apart = self._layer_by_layer()
        except NotPossibleError:
            if together is None:
                raise
            return together
        return apart if together is None else min(apart, together, key=self._objective)

    def _layer_by_layer(self) -> NodeCost:
        """The cost of a cut whose layers hand on their outputs whole; NotPossibleError as above."""
        needing = self._search.whole_chip_only
        if whole_chip_only := [number for number in self._flow.layers if number in needing]:
            name = self._graph.layers[whole_chip_only[0]].name
            raise NotPossibleError(f"{name}: runs only mapped on the whole chip, as a segment of its own")
        planned = self._planned(self._segment, 0)
        ways = (False, True) if self._search.tile_costs.shares_weights else (False,)
        found = [self._on_tiles(planned, may_share) for may_share in ways]
        possible = [one for one in found if isinstance(one, NodeCost)]
        if not possible:
            raise NotPossibleError(found[0])
        return min(possible, key=self._objective)

    def _on_tiles(self, planned: PlannedNode, may_share: bool) -> NodeCost | str:
        """The cost of the whole segment where tiles may or may not share weights, or why it does not fit."""
        try:
            found = self._node(planned, 0, self._chip.tiles, True, WeightWays(None, may_share))
        except NotPossibleError as reason:
            # Not the exception itself: its traceback leads back to this evaluation, and only Python's search
            # for garbage could free it.
            return str(reason)
        found = self._fetched_first(found)
        # Leakage comes last: tiles leak for the time of the whole segment, which is known only now.
        return _leaking(found, found.cycles) if self._search.leaks else found

    def _fetched_first(self, cost: NodeCost) -> NodeCost:
        """The cost of a segment by itself, whose tiles wait for the data of its first batch."""
        first = runs_on_tiles(cost).first
        return replace(cost, cycles=first.waited(self._chip) + first.running)

    def _cheapest(self, leaf: Leaf) -> NodeCost:
        """A segment of one layer: cut among tiles or mapped on the whole chip, the better by E^n D^m.

        A layer that needs the whole chip is only mapped there, and so is one that does not fit the tiles.
        Where neither way is possible, NotPossibleError says why the layer does not fit the tiles.
        """
        # A leaf with cut input channels says how tiles divide it, so it is not mapped on the whole chip.
        on_chip = self._on_whole_chip(leaf) if leaf.reduced == 1 else None
        if self._graph.layers[self._graph.index[leaf.layer]].needs_whole_chip:
            if on_chip is None:
                raise NotPossibleError(
                    f"{leaf.layer}: runs only mapped on the whole chip, and has no mapping of "
                    f"{leaf.batch} samples"
                )
            return on_chip
        try:
            may_share = self._search.tile_costs.shares_weights
            on_tiles = self._leaves.cost(leaf, 0, self._chip.tiles, None, may_share)
            # A chip of one tile is a stack of levels and costs what a mapping on that stack costs, to which
            # the first words arrive without a wait.
            if self._chip.tiles > 1:
                on_tiles = self._fetched_first(on_tiles)
            on_tiles = _leaking(on_tiles, on_tiles.cycles)
        except NotPossibleError:
            if on_chip is None:
                raise
            return on_chip
        return on_tiles if on_chip is None else min(on_tiles, on_chip, key=self._objective)

    def _on_whole_chip(self, leaf: Leaf) -> NodeCost | None:
        """The leaf mapped on the whole chip; None where tile costs do not offer that or have no mapping."""
        cost = self._search.tile_costs.on_whole_chip(self._graph.index[leaf.layer], leaf.batch)
        if cost is None:
            return None
        nothing = np.zeros(self._chip.tiles, np.int64)
        return NodeCost(
            node=leaf,
            first_tile=0,
            tiles=self._chip.tiles,
            cycles=cost.cycles,
            parts_pj=cost.parts_pj,
            dram_read_bits=cost.dram_read_bits,
            dram_write_bits=cost.dram_write_bits,
            busy=cost.tile_cycles,
            links=np.zeros(0, np.int64),
            held=Held((), nothing, nothing, np.full(self._chip.tiles, cost.held_bits)),
            whole_chip=cost,
        )

    def _together(self) -> NodeCost | None:
        """The segment as a group of layers that are mapped together; None where it is none."""
        if self._groups is None or not _in_turn_once(self._segment):
            return None
        names = frozenset(self._graph.layers[number].name for number in self._flow.layers)
        cost = self._groups.cost(names, self._segment.batch)
        if cost is None:
            return None
        found = self._of_group(self._segment, {one.layer: one for one in cost.layers})
        held = replace(found.held, busy=np.full(self._chip.tiles, cost.whole.held_bits))
        return replace(found, held=held, whole_chip=cost.whole, group=cost)

    def _of_group(self, node: TreeNode, costs: dict[str, GroupLayerCost]) -> NodeCost:
        """The cost of a node of a group: of a layer, or the sum of those below a cut."""
        nothing = np.zeros(self._chip.tiles, np.int64)
        children = (
            () if isinstance(node, Leaf) else tuple(self._of_group(child, costs) for child in node.children)
        )
        below = [costs[leaf.layer] for leaf in leaves(node)]
        tiles, transfers, noc, dram = (
            sum(part) for part in zip(*(one.parts_pj for one in below), strict=True)
        )
        return NodeCost(
            node=node,
            first_tile=0,
            tiles=self._chip.tiles,
            cycles=sum(one.cycles for one in below),
            parts_pj=(tiles, transfers, noc, dram),
            dram_read_bits=sum(one.dram_read_bits for one in below),
            dram_write_bits=sum(one.dram_write_bits for one in below),
            busy=sum(one.tile_cycles for one in below),
            links=np.zeros(0, np.int64),
            held=Held((), nothing, nothing, nothing),
            children=children,
        )

    def _objective(self, cost: NodeCost) -> float:
        """E^n D^m."""
        energy, cycles = self._search.exponents
        return float(running_pj(cost, self._chip) ** energy * cost.cycles**cycles)

    def _planned(self, node: TreeNode, number: int) -> PlannedNode:
        """The node's normalized processing time and least tiles, from its leaves up (SET, section 3.3.2).

        A T cut takes the sum of its children's times. An S cut does too, as if one tile ran them in turn, but
        fill and drain make tiles wait: with sb sub-batches and s stages before the last one, sb + s periods
        pass for sb periods of work, so the sum is multiplied by (sb + s) / sb. A T cut needs as many tiles as
        its most demanding child, an S cut as all its children together.

        ``number``: the number of a cut in the segment's flow; a leaf ignores it. The result depends on the
        node's sub-tree only, so a node that an earlier segment had is looked up.
        """
        found = self._known.planned(node)
        if found is None:
            found = self._newly_planned(node, number)
            self._known.plan(found)
        return found

    def _newly_planned(self, node: TreeNode, number: int) -> PlannedNode:
        """The plan of a node that is not known yet; parameters as for :meth:`_planned`."""
        if isinstance(node, Leaf):
            layer = self._graph.index[node.layer]
            # A leaf whose input channels are cut always pins its weights
            # (:mod:`costmodel.schedule.reductions`).
            streams = node.reduced == 1 and self._search.layers[layer].has_parameters
            return PlannedNode(node, self._normalized(layer), node.reduced, streams)
        stages = tuple(self._flow.stages[number])
        # The flow numbers cuts from the top down and left to right, so a child's number is its parent's, plus
        # one, plus all cuts of the children to the left.
        children, cuts = [], 1
        for child in node.children:
            children.append(self._planned(child, number + cuts))
            cuts += children[-1].cuts
        cycles = sum(child.cycles for child in children)
        has_parameters = any(child.has_parameters for child in children)
        if node.kind == "T":
            least = max(child.least_tiles for child in children)
        else:
            cycles = cycles * (node.child_runs + max(stages)) / node.child_runs
            least = sum(child.least_tiles for child in children)
        return PlannedNode(node, cycles, least, has_parameters, tuple(children), stages, cuts)

    def _node(self, planned: PlannedNode, first: int, tiles: int, once: bool, ways: WeightWays) -> NodeCost:
        """The cost of a node on the tiles numbered ``first`` to ``first + tiles - 1``.

        ``once``: no cut above the node has several sub-batches, so the node runs a single time for each batch
        of the segment. Then no later run needs its weights, and they may leave the buffers
        (:func:`.buffers.cut_in_time`).

        A cut whose data does not fit is evaluated again with more of its children streaming, up to
        ``MOST_TRIES`` times. The error then gives the first reason: it speaks of the cheapest children,
        not of those that were made to stream.
        """
        node = planned.node
        if isinstance(node, Leaf):
            return self._leaves.cost(node, first, tiles, *ways)
        once_below = once and node.child_runs == 1
        key = (node.kind, node.batch, node.subbatches, node.bands, self._segment.batch, once, planned.stages)
        leaving, reason = [ways] * len(planned.children), ""
        # Streaming helps only if weights are what does not fit. In most trees it is the inputs, and they are
        # refused at once. A T cut that runs once holds its weights among ``busy``
        # (:func:`.buffers.cut_in_time`), which does not tell them apart, and so it is tried.
        fetched = once and node.kind == "T" and node.child_runs == 1
        for _ in range(MOST_TRIES + ways.may_share):
            try:
                refusing = not (reason or fetched)
                children = self._children(planned, first, tiles, once_below, leaving, refusing)
            except NotPossibleError:
                if not reason:
                    raise
                break
            # ``partial`` binds the children of this try.
            count = partial(self._joined, node, children, planned.stages, once)
            found = self._known.cut(key, children, count)
            if isinstance(found, NodeCost):
                return found
            if refusing and not found.of_weights:
                raise NotPossibleError(found.reason)
            reason = reason or found.reason
            held = (
                self._less_held(children, found.missing, node.kind == "T")
                if ways.may_share
                else found.missing
            )
            more = [
                _more_free(now, missing, less) if child.has_parameters and missing else now
                for now, missing, less, child in zip(
                    leaving, found.missing, held, planned.children, strict=True
                )
            ]
            if more == leaving:
                break
            leaving = more
        raise NotPossibleError(reason)

    def _children(
        self,
        planned: PlannedNode,
        first: int,
        tiles: int,
        once: bool,
        leaving: Sequence[WeightWays],
        refusing: bool,
    ) -> list[NodeCost]:
        """The costs of a cut's children; ``leaving`` has the ways of :meth:`_node` for each child.

        ``refusing``: the cut is refused where more than its weights does not fit. Of a T cut that is known
        as soon as two children in a row do not fit, and the rest is not evaluated (nor mapped).
        """
        if isinstance(planned.node, Cut) and planned.node.kind == "S":
            return self._side_by_side(planned, first, tiles, once, leaving)
        costs: list[NodeCost] = []
        for child, ways in zip(planned.children, leaving, strict=True):
            cost = self._node(child, first, tiles, once, ways)
            if refusing and costs:
                most = held_on_the_way(costs[-1].held, cost.held)
                if reason := overflow_reason(_name(planned.node), most, self._chip.tile.buffer):
                    raise NotPossibleError(reason)
            costs.append(cost)
        return costs

    def _joined(
        self, node: Cut, children: Sequence[NodeCost], stages: Sequence[int], once: bool
    ) -> NodeCost | BufferOverflow:
        """The cost of a cut with these children, or why they do not fit; ``once`` as in :meth:`_node`."""
        links = np.add.reduce([child.links for child in children])
        holding, each = [child.held for child in children], [runs_on_tiles(child) for child in children]
        # ``links`` counts a whole batch of the segment, and ``on_links`` is of one batch of the cut. Only the
        # root has bands; every cut below it runs once for each band.
        times = self._segment.batch // node.batch * (self._band_count if node.bands == 1 else 1)
        on_links = self._chip.least_cycles(0, int(np.maximum.reduce(links)), times)
        if node.kind == "T":
            held = cut_in_time(holding, node.child_runs, once)
            runs = turns(each, node.child_runs, self._chip, on_links)
        else:
            held = cut_in_space(holding, node.child_runs)
            runs = pipelined(each, stages, node.child_runs, self._chip, on_links)
        buffer = self._chip.tile.buffer
        if reason := overflow_reason(_name(node), held.most, buffer):
            of_weights = int(held.busy.max()) <= buffer.size_bits
            return BufferOverflow(reason, self._missing(held, children), of_weights)
        return self._cut(node, children, stages, runs, links, held)

    def _side_by_side(
        self, planned: PlannedNode, first: int, tiles: int, once: bool, leaving: Sequence[WeightWays]
    ) -> list[NodeCost]:
        """The costs of an S cut's children: each gets the next tiles by number, from left to right."""
        weights = [child.cycles for child in planned.children]
        given = allocate(tiles, weights, [child.least_tiles for child in planned.children])
        if given is None:
            raise NotPossibleError(
                f"{_name(planned.node)}: its children need {planned.least_tiles} tiles side by side "
                f"and have {tiles}"
            )
        costs = []
        for child, count, ways in zip(planned.children, given, leaving, strict=True):
            costs.append(self._node(child, first, count, once, ways))
            first += count
        return costs

    def _cut(
        self,
        cut: Cut,
        children: Sequence[NodeCost],
        stages: Sequence[int],
        runs: NodeRuns,
        links: Array,
        held: Held,
    ) -> NodeCost:
        """The sum of the children's costs; the times, links and bits held of a cut are no sums, and given."""
        tiles, transfers, noc, dram = map(sum, zip(*[child.parts_pj for child in children], strict=True))
        return NodeCost(
            node=cut,
            first_tile=children[0].first_tile,
            tiles=children[0].tiles if cut.kind == "T" else sum([child.tiles for child in children]),
            cycles=runs.later.running,
            parts_pj=(tiles, transfers, noc, dram),
            dram_read_bits=sum([child.dram_read_bits for child in children]),
            dram_write_bits=sum([child.dram_write_bits for child in children]),
            busy=sum([child.busy for child in children]),
            links=links,
            held=held,
            runs=runs,
            children=tuple(children),
            stages=tuple(stages),
        )

    def _less_held(self, children: Sequence[NodeCost], missing: Sequence[int], in_turn: bool) -> list[int]:
        """For each child how many bits it has to leave free, where its tiles may share weights.

        It holds as much less than now as is missing. Children that run ``in_turn`` on the same tiles keep
        their weights there together, so each holds less in proportion to its weights.
        """
        weights = [int(child.held.weights.max()) for child in children]
        total, found = sum(weights) if in_turn else 0, []
        for child, own, lacking in zip(children, weights, missing, strict=True):
            less = -(-lacking * own // total) if total else lacking
            found.append(self._chip.tile.buffer.size_bits - child.held.most + less)
        return found

    def _missing(self, held: Held, children: Sequence[NodeCost]) -> tuple[int, ...]:
        """For each child, the bits that are missing on its fullest tile; 0 where none are."""
        missing = np.maximum(held.busy + held.weights - self._chip.tile.buffer.size_bits, 0)
        # The children of a T cut all have the same tiles, and there may be hundreds.
        on_tiles = {(one.first_tile, one.tiles): 0 for one in children}
        for first, tiles in on_tiles:
            on_tiles[first, tiles] = int(missing[first : first + tiles].max())
        return tuple([on_tiles[one.first_tile, one.tiles] for one in children])


def _in_turn_once(node: TreeNode) -> bool:
    """Whether a node's layers run in turn on all tiles, each once for all samples."""
    if isinstance(node, Leaf):
        return node.reduced == 1
    return node.kind == "T" and node.child_runs == 1 and all(map(_in_turn_once, node.children))


def _more_free(now: WeightWays, missing: int, less_held: int) -> WeightWays:
    """How a child gets its weights in the next try, where ``missing`` bits lacked; see :meth:`_less_held`."""
    # A child that pinned its weights first streams or shares them: how much is missing then is not known yet.
    if now.free is None:
        return now._replace(free=0)
    return now._replace(free=less_held if now.may_share else now.free + missing)


def _leaking(cost: NodeCost, cycles: float) -> NodeCost:
    """The cost with the leakage of the node's tiles added, which belong to it for ``cycles``.

    Tiles of an S cut belong to its children for all of the cut's time, also while a pipeline fills and drains
    or waits for DRAM. Tiles of a T cut belong to one child after the other; the time that the cut waits is
    divided among the children in proportion to their own times.
    """
    tiles_pj, transfers_pj, noc_pj, dram_pj = cost.parts_pj
    if cost.leaf is not None:
        rate = cost.leaf.leakage_pj_per_cycle
        leaked = (tiles_pj + rate * cycles, transfers_pj, noc_pj, dram_pj)
        return replace(cost, parts_pj=leaked) if rate else cost
    total = sum(child.cycles for child in cost.children)
    in_turn = isinstance(cost.node, Cut) and cost.node.kind == "T"
    children = tuple(
        _leaking(child, cycles * child.cycles / total if in_turn else cycles) for child in cost.children
    )
    # Where nothing leaks, nothing is copied.
    if all(child is before for child, before in zip(children, cost.children, strict=True)):
        return cost
    tiles_pj = sum((child.parts_pj[0] for child in children), 0.0)
    return replace(cost, parts_pj=(tiles_pj, transfers_pj, noc_pj, dram_pj), children=children)


def _name(node: TreeNode) -> str:
    return f"{node.kind} cut {node.name[2:]}" if isinstance(node, Cut) else node.layer
