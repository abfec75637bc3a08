"""Evaluates a segment: a sub-tree that has the whole chip to itself while it runs.

Each child of a root T cut is a segment; a root that is a leaf or an S cut is the only segment. Segments hand
data to one another through DRAM only (SET, section 3.3.1), so the cost of a segment by itself does not depend
on the rest of the tree. A segment may begin to fetch while the one before it ends. What that saves is counted
for pairs of segments (``transitions.py``).

The evaluation has two passes:

1. From the leaves up, each node gets its normalized processing time (its cycles on a single tile) and the
   least number of tiles that it needs (:mod:`.planned_nodes`).
2. From the top down, S cuts divide their tiles among their children by these two numbers, and every leaf is
   searched on its tiles. On the way back the costs are added up (``_node``).

For each of its batches a segment loads weights once and keeps them in the tiles' buffers: they are *pinned*.
A leaf streams its weights instead if that costs it less (:mod:`costmodel.schedule.leaf.leaf`). Where the data
below a cut does not fit the buffers, but would fit without its pinned weights, those of its children stream
whose tiles lack bits. That is quick, and all that searches of many trees look at. What a segment that
overflows costs is the best of that and of what prices of bits lead to: each leaf takes what is cheapest with
them, another partition or streamed weights (:mod:`.scarce_buffers`).

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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.fused_groups.cost import GroupCosts, GroupLayerCost
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.leaf import LeafSearch
from costmodel.schedule.leaf.streams import FREE, BufferPrices
from costmodel.schedule.row_bands import LeafBands
from costmodel.schedule.segment.allocation import allocate
from costmodel.schedule.segment.buffers import (
    Held,
    cut_in_space,
    cut_in_time,
    held_on_the_way,
    overflow_reason,
)
from costmodel.schedule.segment.known_nodes import BufferOverflow, KnownNodes, KnownSubTree
from costmodel.schedule.segment.leaf_nodes import LeafNodes
from costmodel.schedule.segment.node_cost import NodeCost, running_pj, runs_on_tiles
from costmodel.schedule.segment.planned_nodes import Coming, PlannedNode, set_of
from costmodel.schedule.segment.scarce_buffers import (
    MOST_RISES,
    Prices,
    ScarceBuffers,
    TightCut,
    at_no_price,
    fewest_bits,
    streaming,
)
from costmodel.schedule.segment.times import timed
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, leaves
from costmodel.schedule.tree.validity import NotPossibleError

Array = NDArray[Any]


ROOM = 1 / 32
"""The part of a buffer that stays free where prices choose what it holds. In buffers that are full to the
last bits no addresses are found for data of many sizes that comes and goes."""
TIGHT = 2.0
"""How many times E^n D^m counts of a segment that leaves less room than that. Room is worth more than
addresses: the next segment's first data comes into it while the last of this one computes, which its own cost
does not tell."""


class LeavesAsked(NamedTuple):
    """What is asked of all leaves below a node.

    ``prices``: of the bits of buffers that a leaf takes. ``may_share``: whether tiles may share weights.
    ``may_stream``: where the data of a cut does not fit, but would without weights that stay, the children
    that lack bits are evaluated again with streamed weights. ``tight``: the cuts that hold more than leaves
    room for addresses are added to it, from the leaves up, and count as if they fitted. None:
    NotPossibleError for the first cut that does not fit.
    """

    prices: Prices
    may_share: bool
    may_stream: bool = False
    tight: list[TightCut] | None = None


class _Place(NamedTuple):
    """Where a node of a segment is: on the tiles numbered ``first`` to ``first + tiles - 1``.

    ``once``: no cut above it has several sub-batches, so it runs a single time for each batch of the segment.
    Then no later run needs its weights, and they may leave the buffers (:func:`.buffers.cut_in_time`).
    ``coming``: what comes to it over the NoC from outside of it. ``going``: the set of the layers outside of
    it that read its outputs over the NoC (:mod:`.planned_nodes`).
    """

    first: int
    tiles: int
    once: bool
    coming: Coming = ()
    going: int = 0


class _Priced(NamedTuple):
    """A segment at some prices, as if it fitted: its cost, and the cuts that leave no room for addresses."""

    cost: NodeCost
    tight: list[TightCut]


class CostAsIfFitting(NamedTuple):
    """What a segment costs if buffers hold whatever its cheapest leaves take, and whether they do."""

    cost: NodeCost
    fits: bool


class SegmentEvaluation:
    """Evaluates one segment.

    ``planned``: what is known of it without tiles. ``known``: the nodes of all segments that were evaluated
    before, which this evaluation looks up and adds to. ``groups``: costs of layers that are mapped together;
    None where that is not offered. ``priced``: whether prices of bits choose the leaves where it overflows;
    without, it may cost more, or not be possible. ``bands``: the bands of rows of each layer, by number;
    None for a segment without bands.
    """

    def __init__(
        self,
        search: LeafSearch,
        planned: PlannedNode,
        known: KnownNodes,
        groups: GroupCosts | None = None,
        priced: bool = True,
        bands: Mapping[int, LeafBands] | None = None,
    ) -> None:
        self._priced, self._overflowed = priced, False
        self._search, self._planned, self._known, self._groups = search, planned, known, groups
        self._segment = planned.node
        self._chip: Chip = search.chip
        self._roomy = int((1 - ROOM) * self._chip.tile.buffer.size_bits)
        self._graph: LayerGraph = search.graph
        self._leaves = LeafNodes(search, known, planned.node.batch, bands or {})

    def cost(self) -> NodeCost:
        """The segment's cost; NotPossibleError where it does not fit the buffers, tiles or PEs."""
        if isinstance(self._segment, Leaf):
            return self._cheapest(self._segment)
        together = self._together
        try:
            apart = self._layer_by_layer()
        except NotPossibleError:
            if together is None:
                raise
            return together
        return apart if together is None else min(apart, together, key=self._objective)

    def as_if_fitting(self) -> CostAsIfFitting:
        """The segment's cost with its cheapest leaves, whatever they hold; NotPossibleError as above.

        With prices no leaf costs less, so this is hardly more than what the segment costs, and counted in a
        fraction of the time. Where it fits it is what the segment costs.
        """
        if isinstance(self._segment, Leaf) or self._together is not None:
            return CostAsIfFitting(self.cost(), True)
        self._refuse_whole_chip_only()
        found, fits = [], True
        for may_share in self._ways:
            if (priced := self._tried({}, may_share)) is not None:
                found.append(priced.cost)
                fits = fits and self._fits(priced)
        if not found:
            raise NotPossibleError(f"{_name(self._segment)}: some layer does not fit its tiles by itself")
        return CostAsIfFitting(min(found, key=self._objective), fits)

    @property
    def _ways(self) -> tuple[bool, ...]:
        """Whether tiles may share weights, in the ways that are counted."""
        return (False, True) if self._search.tile_costs.shares_weights else (False,)

    def _refuse_whole_chip_only(self) -> None:
        """NotPossibleError where a layer cannot run on tiles."""
        needing = self._search.whole_chip_only
        if needing and (found := [number for number in self._planned.numbers if number in needing]):
            name = self._graph.layers[found[0]].name
            raise NotPossibleError(f"{name}: runs only mapped on the whole chip, as a segment of its own")

    def _layer_by_layer(self) -> NodeCost:
        """The cost of a cut whose layers hand on their outputs whole; NotPossibleError as above."""
        self._refuse_whole_chip_only()
        found = [self._on_tiles(may_share) for may_share in self._ways]
        possible = [one for one in found if isinstance(one, NodeCost)]
        if not possible:
            raise NotPossibleError(found[0])
        return min(possible, key=self._objective)

    def _on_tiles(self, may_share: bool) -> NodeCost | str:
        """The cost of the whole segment where tiles may or may not share weights, or why it does not fit."""
        self._overflowed, reason, found = False, "", None
        try:
            found = self._in_all(self._root(LeavesAsked(at_no_price, may_share, may_stream=True)))
        except NotPossibleError as error:
            # Not the exception itself: its traceback leads back to this evaluation, and only Python's search
            # for garbage could free it. The first reason counts, as it speaks of the cheapest leaves.
            self._overflowed, reason = True, str(error)
        if self._overflowed and self._priced:
            found = self._at_prices(may_share, found)
        return reason if found is None else found

    def _at_prices(self, may_share: bool, found: NodeCost | None) -> NodeCost | None:
        """The cost of a segment that overflows, with as little price on bits of buffers as lets it fit.

        ``found``: its cost where children of cuts that overflow stream, which counts as well. None: it does
        not fit with that. It is asked then whether it fits where all leaves take the fewest bits that they
        can, and is not possible where it does not (:mod:`.scarce_buffers`).
        """
        ways = [] if found is None else [found]
        if found is None:
            try:
                least = self._root(LeavesAsked(fewest_bits, may_share))
            except NotPossibleError:
                return None
            ways.append(self._in_all(least))
        scarce = ScarceBuffers(self._roomy)
        lower: Mapping[str, BufferPrices] = {}
        for _ in range(MOST_RISES):
            priced = self._tried(scarce.prices, may_share)
            if priced is None:
                break
            if self._fits(priced):
                ways.append(priced.cost)
            if not priced.tight:
                ways += self._between(scarce, lower, may_share)
                break
            lower = scarce.prices
            scarce.rise(priced.tight, self._objective(priced.cost) ** (1 / sum(self._search.exponents)))
        return min(ways, key=self._with_room)

    def _between(
        self, scarce: ScarceBuffers, lower: Mapping[str, BufferPrices], may_share: bool
    ) -> Iterator[NodeCost]:
        """The costs of a segment at prices between those at which it fits and ``lower`` ones at which it does
        not; only where it fits at these, too.

        The last rise is halved. Where tiles may share weights it is halved again, and then made for as few
        leaves as it takes, in the order in which they are first held. Without that, tiles would rather
        stream weights than share them, which takes more bits. Otherwise it is not worth it: what a segment
        gains leaves no room for the first data of the next one, and chains of segments take more.
        """
        higher, part = scarce.prices, 1 / 2
        for _ in range(2 if may_share else 1):
            scarce.fall(part)
            priced = self._tried(scarce.prices, may_share)
            fits = priced is not None and not priced.tight
            if priced is not None and self._fits(priced):
                yield priced.cost
            lower, higher = (lower, scarce.prices) if fits else (scarce.prices, higher)
            part = (1 if fits else -1) * abs(part) / 2
        rising = [leaf for leaf, price in higher.items() if price != lower.get(leaf, FREE)]
        # with so many of them it does not fit, and with so many it does
        too_few, enough = 0, len(rising) if may_share else 0
        while enough - too_few > 1:
            count = (too_few + enough) // 2
            some = {**lower, **{leaf: higher[leaf] for leaf in rising[:count]}}
            priced = self._tried(some, may_share)
            if priced is not None and self._fits(priced):
                yield priced.cost
            fits = priced is not None and not priced.tight
            too_few, enough = (too_few, count) if fits else (count, enough)

    def _tried(self, prices: Mapping[str, BufferPrices], may_share: bool) -> _Priced | None:
        """The cost of the segment at these prices of its leaves, as if it fitted; None where some leaf does
        not fit by itself.
        """
        tight: list[TightCut] = []
        asked = LeavesAsked(lambda leaf, _: prices.get(leaf, FREE), may_share, tight=tight)
        try:
            return _Priced(self._in_all(self._root(asked)), tight)
        except NotPossibleError:
            return None

    def _fits(self, priced: _Priced) -> bool:
        """Whether the segment fits, though it may leave no room for addresses."""
        size = self._chip.tile.buffer.size_bits
        return all(one.cost.held.most <= size for one in priced.tight)

    def _with_room(self, cost: NodeCost) -> float:
        """E^n D^m, more where a segment leaves no room for addresses, so that it has to be much cheaper."""
        return self._objective(cost) * (1.0 if cost.held.most <= self._roomy else TIGHT)

    def _root(self, asked: LeavesAsked) -> NodeCost:
        return self._node(self._planned, _Place(0, self._chip.tiles, True), asked)

    def _in_all(self, cost: NodeCost) -> NodeCost:
        """The cost of a segment with its first fetch, and with what leaks."""
        found = self._fetched_first(timed(cost, self._planned, (), self._chip, self._known))
        # Leakage comes last: tiles leak for the time of the whole segment, which is known only now.
        return _leaking(found, found.cycles) if self._search.leaks else found

    def _fetched_first(self, cost: NodeCost) -> NodeCost:
        """The cost of a segment by itself, whose tiles wait for the data of its first batch."""
        first = runs_on_tiles(cost).first
        return cost.but(cycles=first.waited(self._chip) + first.running)

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
            alone = self._leaves.cost(self._planned, 0, self._chip.tiles, FREE, may_share)
            on_tiles = timed(alone, self._planned, (), self._chip, self._known)
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

    @cached_property
    def _together(self) -> NodeCost | None:
        """The segment as a group of layers that are mapped together; None where it is none."""
        if self._groups is None or not _in_turn_once(self._segment):
            return None
        names = frozenset(self._graph.layers[number].name for number in self._planned.numbers)
        cost = self._groups.cost(names, self._segment.batch)
        if cost is None:
            return None
        found = self._of_group(self._segment, {one.layer: one for one in cost.layers})
        held = replace(found.held, busy=np.full(self._chip.tiles, cost.whole.held_bits))
        return found.but(held=held, whole_chip=cost.whole, group=cost)

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

    def _node(self, planned: PlannedNode, place: _Place, asked: LeavesAsked) -> NodeCost:
        """The cost of a node in its place."""
        node = planned.node
        if isinstance(node, Leaf):
            first, tiles, once, coming, going = place
            prices = asked.prices(node.layer, once)
            return self._leaves.cost(planned, first, tiles, prices, asked.may_share, coming, going)
        # Cuts without room are asked for one by one, and what bands need of a leaf depends on all others.
        if asked.tight is not None or self._planned.banded:
            return self._of_cut(planned, node, place, asked)
        first, tiles, once, coming, going = place
        key = (planned, first, tiles, once, going, self._segment.batch, asked, *self._leaves.key(coming))
        return self._looked_up(key, planned, going, partial(self._of_cut, planned, node, place, asked))

    def _looked_up(
        self, key: tuple[Any, ...], planned: PlannedNode, readers: int, count: Callable[[], NodeCost]
    ) -> NodeCost:
        """The cost of a node, counted apart from the rest of the segment where it is not known.

        ``key``: everything that it depends on. ``readers``: the layers that read from it over the NoC.
        """
        known = self._known.sub_tree(key)
        if known is None:
            known = self._known.add_sub_tree(key, self._apart(planned, readers, count))
        self._overflowed = self._overflowed or known.overflowed
        if isinstance(known.found, str):
            raise NotPossibleError(known.found)
        self._leaves.placements.update(known.placements)
        return known.found

    def _apart(self, planned: PlannedNode, readers: int, count: Callable[[], NodeCost]) -> KnownSubTree:
        """What is to be known of a node, whatever the rest of the segment is like."""
        before, self._overflowed = self._overflowed, False
        try:
            found: NodeCost | str = count()
        except NotPossibleError as reason:
            found = str(reason)
        overflowed, self._overflowed = self._overflowed, before
        # Leaves of a node that is not possible have no readers.
        read = () if isinstance(found, str) else planned.read_by(readers)
        return KnownSubTree(found, overflowed, {number: self._leaves.placements[number] for number in read})

    def _of_cut(self, planned: PlannedNode, cut: Cut, place: _Place, asked: LeavesAsked) -> NodeCost:
        """The cost of a cut, with all nodes below it looked at."""
        once = place.once
        key = (cut.kind, cut.batch, cut.subbatches, cut.bands, self._segment.batch, once, planned.stages)
        # A T cut that runs once holds its weights among ``busy`` (:func:`.buffers.cut_in_time`), which does
        # not tell them apart, and so it is tried.
        fetched = once and cut.kind == "T" and cut.child_runs == 1
        each, reason = [asked] * len(planned.children), ""
        while True:
            refusing = asked.tight is None and not (fetched or reason)
            children = self._children(planned, place, each, refusing)
            # ``partial`` binds the children of this try.
            count = partial(self._joined, cut, children, planned, once)
            found = self._known.cut(key, children, count)
            if asked.tight is not None:
                cost = found if isinstance(found, NodeCost) else found.cost
                if cost.held.most > self._roomy:
                    asked.tight.append(TightCut(cost, once))
                return cost
            if isinstance(found, NodeCost):
                return found
            # Streaming helps only if weights are what does not fit. In most trees it is the inputs, and they
            # are refused at once. The first reason counts, as it speaks of the cheapest children.
            of_inputs = refusing and found.cost.held.most_busy > self._chip.tile.buffer.size_bits
            if reason or of_inputs or not asked.may_stream:
                raise NotPossibleError(reason or found.reason)
            streams = asked._replace(prices=streaming, may_stream=False)
            each = [streams if lacks else asked for lacks in self._lacking(found.cost)]
            reason, self._overflowed = found.reason, True

    def _lacking(self, cut: NodeCost) -> list[bool]:
        """For each child of a cut that overflows whether some tile of it lacks bits."""
        over = cut.held.busy + cut.held.weights > self._chip.tile.buffer.size_bits
        # The children of a T cut all have the same tiles, and there may be hundreds.
        tiles = {(one.first_tile, one.tiles) for one in cut.children}
        lacks = {(first, count): bool(over[first : first + count].any()) for first, count in tiles}
        return [lacks[one.first_tile, one.tiles] for one in cut.children]

    def _children(
        self, planned: PlannedNode, place: _Place, each: Sequence[LeavesAsked], refusing: bool
    ) -> list[NodeCost]:
        """The costs of a cut's children, of which ``each`` is asked something.

        ``refusing``: a T cut is refused as soon as two children in a row do not fit, and the rest is not
        evaluated (nor mapped).
        """
        cut = planned.node
        assert isinstance(cut, Cut)
        below = place._replace(once=place.once and cut.child_runs == 1)
        in_turn, costs = cut.kind == "T", list[NodeCost]()
        refused, size = refusing and in_turn, self._chip.tile.buffer.size_bits
        for cost in (self._in_turn if in_turn else self._side_by_side)(planned, below, each):
            # mostly the fullest tiles of both tell that it fits
            if refused and costs and costs[-1].held.most_busy + cost.held.most_coming > size:
                most = held_on_the_way(costs[-1].held, cost.held)
                if reason := overflow_reason(_name(cut), most, self._chip.tile.buffer):
                    raise NotPossibleError(reason)
            costs.append(cost)
        return costs

    def _in_turn(
        self, planned: PlannedNode, place: _Place, each: Sequence[LeavesAsked]
    ) -> Iterator[NodeCost]:
        """The costs of a T cut's children; ``place``: of each, but for what comes to it and goes from it.

        There may be hundreds of them, and a search changes few. A child that exchanges nothing over the NoC
        with nodes outside of the cut costs what it did in this place, if the child before it did, too.
        """
        first, tiles, once, coming, going = place
        further = set_of([number for number, _ in coming])
        batch, before = self._segment.batch, None
        for index, (child, asked) in enumerate(zip(planned.children, each, strict=True)):
            count = partial(self._child, planned, index, place, asked)
            further_away = child.producers & further or child.consumers & going
            if further_away or asked.tight is not None or self._planned.banded:
                before = count()
            else:
                sender = before if child.producers & planned.senders[index] else None
                readers = child.consumers & planned.receivers[index]
                key = (child, sender, readers, first, tiles, once, batch, asked)
                before = self._looked_up(key, child, readers, count)
            yield before

    def _child(self, planned: PlannedNode, index: int, place: _Place, asked: LeavesAsked) -> NodeCost:
        """The cost of a child of a cut; ``place``: its own, with what comes to the cut and goes from it."""
        coming, going = planned.coming(index, place.coming), planned.going(index, place.going)
        return self._node(planned.children[index], place._replace(coming=coming, going=going), asked)

    def _joined(
        self, node: Cut, children: Sequence[NodeCost], planned: PlannedNode, once: bool
    ) -> NodeCost | BufferOverflow:
        """The cost of a cut with these children, or why they do not fit; ``once`` as in :class:`_Place`."""
        holding = [child.held for child in children]
        if node.kind == "T":
            held = cut_in_time(holding, node.child_runs, once)
        else:
            held = cut_in_space(holding, node.child_runs)
        buffer = self._chip.tile.buffer
        if reason := overflow_reason(_name(node), held.most, buffer):
            return BufferOverflow(reason, self._cut(node, children, planned, held))
        return self._cut(node, children, planned, held)

    def _side_by_side(
        self, planned: PlannedNode, place: _Place, each: Sequence[LeavesAsked]
    ) -> Iterator[NodeCost]:
        """The costs of an S cut's children: each gets the next tiles by number, from left to right."""
        weights = [child.cycles for child in planned.children]
        given = allocate(place.tiles, weights, [child.least_tiles for child in planned.children])
        if given is None:
            raise NotPossibleError(
                f"{_name(planned.node)}: its children need {planned.least_tiles} tiles side by side "
                f"and have {place.tiles}"
            )
        first = place.first
        for index, tiles in enumerate(given):
            yield self._child(planned, index, place._replace(first=first, tiles=tiles), each[index])
            first += tiles

    def _cut(self, cut: Cut, children: Sequence[NodeCost], planned: PlannedNode, held: Held) -> NodeCost:
        """The sum of the children's costs; the bits held of a cut are no sum, and given. Times come later."""
        own = planned.layers
        tiles, transfers, noc, dram = map(sum, zip(*[child.parts_pj for child in children], strict=True))
        return NodeCost(
            node=cut,
            first_tile=children[0].first_tile,
            tiles=children[0].tiles if cut.kind == "T" else sum([child.tiles for child in children]),
            cycles=0,
            parts_pj=(tiles, transfers, noc, dram),
            dram_read_bits=sum([child.dram_read_bits for child in children]),
            dram_write_bits=sum([child.dram_write_bits for child in children]),
            busy=sum([child.busy for child in children]),
            links=np.add.reduce([child.links for child in children]),
            held=held,
            received=tuple([one for child in children for one in child.received if not own >> one[0] & 1]),
            children=tuple(children),
            stages=planned.stages,
        )


def _in_turn_once(node: TreeNode) -> bool:
    """Whether a node's layers run in turn on all tiles, each once for all samples."""
    if isinstance(node, Leaf):
        return node.reduced == 1
    return node.kind == "T" and node.child_runs == 1 and all(map(_in_turn_once, node.children))


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
        return cost.but(parts_pj=leaked) if rate else cost
    total = sum(child.cycles for child in cost.children)
    in_turn = isinstance(cost.node, Cut) and cost.node.kind == "T"
    children = tuple(
        _leaking(child, cycles * child.cycles / total if in_turn else cycles) for child in cost.children
    )
    # Where nothing leaks, nothing is copied.
    if all(child is before for child, before in zip(children, cost.children, strict=True)):
        return cost
    tiles_pj = sum((child.parts_pj[0] for child in children), 0.0)
    return cost.but(parts_pj=(tiles_pj, transfers_pj, noc_pj, dram_pj), children=children)


def _name(node: TreeNode) -> str:
    return f"{node.kind} cut {node.name[2:]}" if isinstance(node, Cut) else node.layer
