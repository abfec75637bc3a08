"""What a segment costs: a sub-tree that has the whole chip to itself while it runs.

Each child of a root T cut is a segment. A root that is a leaf or an S cut is the only segment. Only DRAM
connects it to other segments (SET, section 3.3.1). So what it costs by itself does not depend on the rest of
the tree; what it fetches while the segment before it ends is counted for pairs (``transitions.py``).

For each of its batches a segment loads weights once and keeps them in the tiles' buffers: they are pinned.
That is not so for leaves that cost less with streamed weights (:mod:`.leaf.leaf`), and for those that have to
make way: where the buffers do not hold what is below a cut, but would without its pinned weights, the weights
of those of its children are streamed whose tiles hold too much. Where that is not enough, these leaves choose
among the partitions that leave as many bits free as are missing.

The cost is found in two passes. The first goes from the leaves up and gives every node its normalized
processing time (its cycles on a single tile) and the least number of tiles that it needs (``_planned``). The
second goes from the top down: S cuts divide their tiles among their children by these two numbers, every leaf
is searched on the tiles that it got, and the costs are added up on the way back (``_node``).

A segment of a single leaf has a second way to run: its loop nest is mapped on the whole chip as one stack of
levels, with nothing pinned (:mod:`.whole_chip.cost`). The segment costs what the better way costs.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.hardware.widths import whole_bytes
from costmodel.schedule.allocation import allocate
from costmodel.schedule.buffers import Held, cut_in_space, cut_in_time, leaf_held, streamed
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.leaf import LeafCost, LeafSearch
from costmodel.schedule.leaf.streams import LeafRun, Placement
from costmodel.schedule.row_bands import LeafBands, leaf_bands
from costmodel.schedule.starts import NodeRuns, pipelined, turns
from costmodel.schedule.tree.segment_flow import SegmentFlow
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.schedule.whole_chip.cost import WholeChipCost

Array = NDArray[Any]
ENERGY_PARTS = ("tiles", "transfers", "noc", "dram")
"""The parts of energy that segments take: within tiles, between their buffers and the NoC, links, DRAM."""
MOST_TRIES = 3
"""How often the children of a cut are evaluated that the buffers do not hold: as they are, with streamed
weights, and with these and more and more bits left free."""
MOST_REMEMBERED = 30_000
"""How many nodes are remembered before all are forgotten, which bounds the memory that they take."""


@dataclass(frozen=True)
class NodeCost:
    """What a node of a segment costs for one batch of the segment, in which the node may run several times.

    Only ``cycles`` and ``runs`` are of one batch of the node itself. A leaf is either cut among tiles
    (``leaf``) or mapped on the whole chip (``whole_chip``).
    """

    node: TreeNode
    first_tile: int
    tiles: int
    cycles: int
    """Time of one batch of the node: of a segment with its first fetch, of a cut below it from the moment all
    its data is there, of a leaf with the traffic of the batch."""
    parts_pj: tuple[float, float, float, float]
    """Energy by ENERGY_PARTS."""
    dram_read_bits: int
    dram_write_bits: int
    busy: int
    """Cycles in which a tile computes, summed over tiles."""
    links: Array
    """[X * Y * 4]: bits on each link, times the number of DRAM ports, which keeps whole numbers where a
    transfer is divided among all ports. [0] of a leaf mapped on the whole chip: ``whole_chip`` has them."""
    held: Held
    """Bits in the tiles' buffers."""
    runs: NodeRuns | None = None
    """How the node runs its first batch, which brings the weights, and each later one; None on the whole
    chip."""
    leaf: LeafCost | None = None
    whole_chip: WholeChipCost | None = None
    children: tuple[NodeCost, ...] = ()
    stages: tuple[int, ...] = ()
    """[children] of an S cut: the pipeline stage, counted from 0, in which each child starts."""

    @property
    def dram_bits(self) -> int:
        return self.dram_read_bits + self.dram_write_bits


def running_pj(segment: NodeCost, chip: Chip) -> float:
    """The energy of a segment for one batch, with what the ``chip`` takes in every cycle meanwhile."""
    return sum(segment.parts_pj) + chip.idle_pj_per_cycle * segment.cycles


@dataclass(frozen=True)
class _Planned:
    """A node with what is known of it before it has tiles.

    ``cycles``: its normalized processing time, as if one tile did all of its work. ``least_tiles``: the
    fewest tiles on which it can run. ``has_parameters``: whether some layer has weights that may be streamed.
    ``stages`` [children] of an S cut: the pipeline stage, counted from 0, in which each child starts.
    ``cuts``: how many cuts the node and all below it are.
    """

    node: TreeNode
    cycles: float
    least_tiles: int
    has_parameters: bool
    children: tuple[_Planned, ...] = ()
    stages: tuple[int, ...] = ()
    cuts: int = 0


@dataclass(frozen=True)
class _Overflow:
    """A cut that the buffers do not hold, and why."""

    reason: str
    missing: tuple[int, ...]
    """[children]: how many bits are missing on the fullest tile of each child."""
    of_weights: bool
    """Whether the buffers would hold the cut without its pinned weights."""


class KnownNodes:
    """What nodes of segments cost on tiles, of all segments that were evaluated before.

    A search changes a segment at one spot, and many of its nodes cost what they did. A leaf is known by all
    that its cost depends on. A cut is known by the ids of its children's costs, for these say all of what is
    below it; as they are remembered with the cut, no id can come to mean another cost.
    A node that is not possible is remembered by the reason.
    """

    def __init__(self) -> None:
        self._leaves: dict[tuple[Any, ...], NodeCost | str] = {}
        self._cuts: dict[tuple[Any, ...], tuple[Sequence[NodeCost], NodeCost | _Overflow]] = {}
        self._planned: dict[int, _Planned] = {}

    def leaf(self, key: tuple[Any, ...], count: Callable[[], NodeCost]) -> NodeCost:
        """The leaf's cost by ``key``; if it is not known yet, ``count`` says it."""
        found = self._leaves.get(key)
        if found is None:
            self._forget_if_full()
            found = self._leaves[key] = _or_reason(count)
        return _cost_of(found)

    def cut(
        self, key: tuple[Any, ...], children: Sequence[NodeCost], count: Callable[[], NodeCost | _Overflow]
    ) -> NodeCost | _Overflow:
        """The cost of a cut with these ``children``; ``key`` is all else that it depends on."""
        of_children = (*key, *map(id, children))
        found = self._cuts.get(of_children)
        if found is None:
            self._forget_if_full()
            found = self._cuts[of_children] = children, count()
        return found[1]

    def planned(self, node: TreeNode) -> _Planned | None:
        """What was known of this very node before it had tiles; None where that was forgotten or is new."""
        return self._planned.get(id(node))

    def plan(self, planned: _Planned) -> None:
        """Remember this of its node, which stays alive with it: no id can come to mean another."""
        self._forget_if_full()
        self._planned[id(planned.node)] = planned

    def _forget_if_full(self) -> None:
        if len(self._leaves) + len(self._cuts) + len(self._planned) >= MOST_REMEMBERED:
            self._leaves.clear()
            self._cuts.clear()
            self._planned.clear()


def _or_reason(count: Callable[[], NodeCost]) -> NodeCost | str:
    try:
        return count()
    except NotPossibleError as reason:
        return str(reason)


def _cost_of(found: NodeCost | str) -> NodeCost:
    """The cost; a new NotPossibleError for a reason, as a remembered one would collect tracebacks."""
    if isinstance(found, str):
        raise NotPossibleError(found)
    return found


class SegmentEvaluation:
    """Evaluates one segment whose data flow is ``flow``.

    ``normalized`` gives the cycles that one sample of a layer, by its number, takes on one tile. ``known``:
    nodes that are not counted again.
    """

    def __init__(
        self,
        search: LeafSearch,
        flow: SegmentFlow,
        normalized: Callable[[int], float],
        known: KnownNodes,
    ) -> None:
        self._search, self._flow, self._normalized, self._known = search, flow, normalized, known
        self._chip: Chip = search.chip
        self._graph: LayerGraph = search.graph
        self._batch = 1
        self._bands: dict[int, LeafBands] = {}
        self._placements: dict[int, Placement] = {}

    def cost(self, segment: TreeNode) -> NodeCost:
        """What the segment costs; NotPossibleError where it does not fit the buffers, tiles or PEs."""
        self._batch = segment.batch
        if isinstance(segment, Leaf):
            return self._cheapest(segment)
        layers = (self._graph.layers[number] for number in self._flow.layers)
        if whole_chip_only := [layer.name for layer in layers if layer.needs_whole_chip]:
            raise NotPossibleError(
                f"{whole_chip_only[0]}: runs only mapped on the whole chip, as a segment of its own"
            )
        self._bands = leaf_bands(self._graph, self._flow, segment)
        planned = self._planned(segment, 0)
        found = self._node(planned, 0, self._chip.tiles, True, None)
        found = self._fetched_first(found)
        # last, because tiles leak for the time of the whole cut, which is known only up here
        return _leaking(found, found.cycles)

    def _fetched_first(self, cost: NodeCost) -> NodeCost:
        """The cost of a segment by itself: before its first batch nothing computes while data comes."""
        first = runs_on_tiles(cost).first
        return replace(cost, cycles=first.fetched(self._chip) + first.running)

    def _cheapest(self, leaf: Leaf) -> NodeCost:
        """A segment of one layer: cut among tiles or mapped on the whole chip, the better by E^n D^m.

        A layer that needs the whole chip is only mapped there. So is one that does not fit the tiles; then
        the reason is raised only if the whole chip has no mapping for it either.
        """
        on_chip = self._on_whole_chip(leaf) if leaf.reduced == 1 else None
        if self._graph.layers[self._graph.index[leaf.layer]].needs_whole_chip:
            if on_chip is None:
                raise NotPossibleError(
                    f"{leaf.layer}: runs only mapped on the whole chip, and has no mapping of "
                    f"{leaf.batch} samples"
                )
            return on_chip
        try:
            on_tiles = self._leaf(leaf, 0, self._chip.tiles, None)
            if self._chip.tiles > 1:  # one tile costs what its stack of levels does, whose fetch is free
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

    def _objective(self, cost: NodeCost) -> float:
        energy, cycles = self._search.exponents
        return float(running_pj(cost, self._chip) ** energy * cost.cycles**cycles)

    def _planned(self, node: TreeNode, number: int) -> _Planned:
        """The node's normalized processing time and least tiles, from its leaves up (SET, section 3.3.2).

        A T cut takes the sum of its children's times. An S cut does too, as if one tile ran them in turn, but
        fill and drain make tiles wait: with sb sub-batches and s stages before the last one, sb + s periods
        pass for sb periods of work, so the sum is multiplied by (sb + s) / sb. A T cut needs as many tiles as
        its most demanding child, an S cut as all its children together.

        ``number``: that of the node in the segment's flow, if it is a cut. All of this depends on what is
        below the node and on nothing else, so it is known of every node that was in a segment before.
        """
        found = self._known.planned(node)
        if found is None:
            found = self._newly_planned(node, number)
            self._known.plan(found)
        return found

    def _newly_planned(self, node: TreeNode, number: int) -> _Planned:
        """The same, of a node that is not known."""
        if isinstance(node, Leaf):
            layer = self._graph.index[node.layer]
            # weights of a leaf whose input channels are cut do not make way
            streams = node.reduced == 1 and self._search.has_parameters(layer)
            return _Planned(node, self._normalized(layer), node.reduced, streams)
        stages = tuple(self._flow.stages[number])
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
        return _Planned(node, cycles, least, has_parameters, tuple(children), stages, cuts)

    def _node(self, planned: _Planned, first: int, tiles: int, once: bool, free: int | None) -> NodeCost:
        """What a node costs on the tiles numbered ``first`` to ``first + tiles - 1``.

        ``once``: no cut above the node has several sub-batches, so the node runs a single time while the
        segment's weights are pinned. Then no later run needs its weights, and they may leave the buffers
        (see :func:`.buffers.cut_in_time`). ``free``: all weights have to be streamed, and to leave so many
        bits free on each tile; None: each leaf does what costs it less.
        """
        node = planned.node
        if isinstance(node, Leaf):
            return self._leaf(node, first, tiles, free)
        once_below = once and node.child_runs == 1
        key = (node.kind, node.batch, node.subbatches, node.bands, self._batch, once, planned.stages)
        leaving, reason = [free] * len(planned.children), ""
        for _ in range(MOST_TRIES):
            try:
                children = self._children(planned, first, tiles, once_below, leaving)
            except NotPossibleError:
                if not reason:
                    raise
                break
            # bound by name, as the loop changes them
            count = partial(self._joined, node, children, planned.stages, once)
            found = self._known.cut(key, children, count)
            if isinstance(found, NodeCost):
                return found
            # in most trees that do not fit it is the inputs that are too many, and streaming does not help
            once_fetched = once and node.kind == "T" and node.child_runs == 1
            if not reason and not (found.of_weights or once_fetched):
                raise NotPossibleError(found.reason)
            reason = reason or found.reason
            more = [
                _more_free(now, missing) if child.has_parameters else now
                for now, missing, child in zip(leaving, found.missing, planned.children, strict=True)
            ]
            if more == leaving:
                break
            leaving = more
        raise NotPossibleError(reason)

    def _children(
        self, planned: _Planned, first: int, tiles: int, once: bool, leaving: Sequence[int | None]
    ) -> list[NodeCost]:
        """The costs of a cut's children; ``leaving``: what each has to leave free, as in :meth:`_node`."""
        if isinstance(planned.node, Cut) and planned.node.kind == "S":
            return self._side_by_side(planned, first, tiles, once, leaving)
        return [
            self._node(child, first, tiles, once, free)
            for child, free in zip(planned.children, leaving, strict=True)
        ]

    def _joined(
        self, node: Cut, children: Sequence[NodeCost], stages: Sequence[int], once: bool
    ) -> NodeCost | _Overflow:
        """What a cut costs with these children; ``once`` as in :meth:`_node`."""
        links = np.add.reduce([child.links for child in children])
        holding = [child.held for child in children]
        if node.kind == "T":
            held = cut_in_time(holding, node.child_runs, once)
            runs = turns([runs_on_tiles(child) for child in children], node.child_runs, self._chip)
        else:
            held = cut_in_space(holding, node.child_runs)
            # below a cut with bands every cut runs once a band
            times = self._batch // node.batch * (self._band_count if node.bands == 1 else 1)
            on_links = self._chip.least_cycles(0, int(links.max()), times)
            each = [runs_on_tiles(child) for child in children]
            runs = pipelined(each, stages, node.child_runs, self._chip, on_links)
        if reason := self._too_much(_name(node), held):
            of_weights = int(held.busy.max()) <= self._chip.tile.buffer.size_bits
            return _Overflow(reason, self._missing(held, children), of_weights)
        return self._cut(node, children, stages, runs, links, held)

    def _side_by_side(
        self, planned: _Planned, first: int, tiles: int, once: bool, leaving: Sequence[int | None]
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
        for child, count, free in zip(planned.children, given, leaving, strict=True):
            costs.append(self._node(child, first, count, once, free))
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
        """The sum of the children, with what is no sum: how the cut runs, and what tiles hold."""
        parts = zip(*(child.parts_pj for child in children), strict=True)
        tiles, transfers, noc, dram = (sum(part) for part in parts)
        return NodeCost(
            node=cut,
            first_tile=children[0].first_tile,
            tiles=children[0].tiles if cut.kind == "T" else sum(child.tiles for child in children),
            cycles=runs.later.running,
            parts_pj=(tiles, transfers, noc, dram),
            dram_read_bits=sum(child.dram_read_bits for child in children),
            dram_write_bits=sum(child.dram_write_bits for child in children),
            busy=sum(child.busy for child in children),
            links=links,
            held=held,
            runs=runs,
            children=tuple(children),
            stages=tuple(stages),
        )

    def _leaf(self, leaf: Leaf, first: int, tiles: int, free: int | None) -> NodeCost:
        """The cheapest partition and placement of a leaf; ``free`` as in :meth:`_node`.

        The placement is kept for its consumers, which are evaluated later and fetch its outputs from there.
        """
        layer, flow, placements = self._graph.index[leaf.layer], self._flow, self._placements
        numbers = flow.sources.get(layer, ())
        # equal placements are one object, and are never forgotten: an id is faster to hash
        near = tuple(
            [(number, id(placements[number]), flow.cuts_between(number, layer)) for number in numbers]
        )
        to_dram, bands = layer in flow.written, self._bands.get(layer)
        whole = bands is not None or leaf.reduced > 1 or not self._search.has_parameters(layer)
        if free is not None and whole:
            free = None
        key = (layer, leaf.batch, first, tiles, self._batch, to_dram, free, near, bands, leaf.reduced)

        def count() -> NodeCost:
            runs = self._batch // leaf.batch
            streamed = free is not None
            run = LeafRun(leaf.batch, first, tiles, runs, to_dram, streamed, free or 0, bands, leaf.reduced)
            return self._searched(leaf, layer, run, {number: placements[number] for number in numbers})

        found = self._known.leaf(key, count)
        assert found.leaf is not None
        self._placements[layer] = found.leaf.placement
        return found

    def _searched(self, leaf: Leaf, layer: int, run: LeafRun, producers: Mapping[int, Placement]) -> NodeCost:
        """The same, of a leaf that is not known; ``producers``: where those are that send over the NoC."""
        tiles, runs = run.tiles, run.runs
        cost = self._search.cost(layer, run, producers)
        if cost is None and tiles % leaf.reduced:
            raise NotPossibleError(
                f"{leaf.layer}: its input channels are in {leaf.reduced} parts, which do not divide {tiles} "
                "tiles"
            )
        if cost is None:
            raise NotPossibleError(
                f"{leaf.layer}: no partition of {leaf.batch} samples among {tiles} tiles fits the buffers "
                "of tiles and PEs"
            )
        # Layers are evaluated in topological order, so a producer in the segment is always here before its
        # consumers; one outside of the segment is not, and its data comes from DRAM.
        held = self._leaf_held(layer, cost, producers)
        if reason := self._too_much(leaf.layer, held):
            raise NotPossibleError(reason)
        return NodeCost(
            node=leaf,
            first_tile=run.first_tile,
            tiles=tiles,
            cycles=cost.cycles,
            parts_pj=self._parts_pj(cost),
            dram_read_bits=cost.dram_read_bits,
            dram_write_bits=cost.dram_write_bits,
            busy=runs * (tiles * cost.tile_cycles - _not_adding(tiles, cost)),
            links=cost.links,
            held=held,
            runs=cost.runs,
            leaf=cost,
        )

    @property
    def _band_count(self) -> int:
        """How many bands the segment has."""
        return next((bands.count for bands in self._bands.values()), 1)

    def _parts_pj(self, cost: LeafCost) -> tuple[float, float, float, float]:
        """Energy by ENERGY_PARTS, in pJ; links count bits times ports, so ports divide their sum."""
        noc, dram = self._chip.noc, self._chip.dram
        hop_bits = int(cost.links.sum()) / len(self._chip.ports)
        dram_pj = cost.dram_read_bits * dram.read_pj_per_bit
        dram_pj += cost.dram_write_bits * dram.write_pj_per_bit
        return cost.tiles_pj, cost.transfers_pj, hop_bits * noc.hop_pj_per_bit, dram_pj

    def _leaf_held(self, layer: int, cost: LeafCost, producers: Mapping[int, Placement]) -> Held:
        """What a leaf holds, by where it comes from: pinned weights, inputs from DRAM, inputs of producers.

        ``arriving`` sorts the inputs of producers by how many cuts lie between producer and consumer, because
        a producer further up sends its data earlier: see :class:`.buffers.Held`.
        """
        weights = from_dram = np.zeros(self._chip.tiles, np.int64)
        arriving: list[Array] = []
        for stream, held in zip(self._search.streams[layer], cost.held, strict=True):
            if stream.pinned:
                weights = held
            elif stream.producer is not None and stream.producer in producers:
                # Index 0 is filled by siblings; missing indices in between are zeros, since the cuts add up
                # levels by position.
                above = self._flow.cuts_between(stream.producer, layer)
                arriving += [np.zeros_like(held)] * (above + 1 - len(arriving))
                arriving[above] = arriving[above] + held
            elif stream.kind != "outputs":
                from_dram = from_dram + held
        found = leaf_held(weights, from_dram, tuple(arriving), self._chip.tile.output_stream_bits)
        if cost.kept is not None:
            # rows for the next band stay beside the weights while other leaves run
            return replace(found, weights=weights + cost.kept)
        if cost.gathering is not None:
            # partial sums come while the leaf runs, and are gone when it ends
            return replace(found, busy=found.busy + cost.gathering.sums)
        if not cost.slices:
            return found
        of_slice = self._search.slice_bits(layer, weights, cost.slices)
        # while a slice is computed the next one arrives
        return streamed(found, of_slice, min(cost.slices, 2) * of_slice)

    def _too_much(self, where: str, held: Held) -> str:
        """Why the buffers do not hold this: the fullest tile; empty where they do."""
        most, buffer = held.most, self._chip.tile.buffer
        if most <= buffer.size_bits:
            return ""
        size = f"{whole_bytes(most):,} bytes and has {buffer.size_bytes:,}"
        return f"{where}: a tile has to hold {size}"

    def _missing(self, held: Held, children: Sequence[NodeCost]) -> tuple[int, ...]:
        """The bits that are missing on the fullest tile of each child; 0 where none are."""
        missing = np.maximum(held.busy + held.weights - self._chip.tile.buffer.size_bits, 0)
        return tuple(int(missing[one.first_tile : one.first_tile + one.tiles].max()) for one in children)


def _more_free(now: int | None, missing: int) -> int | None:
    """What a child has to leave free next, where it left ``now`` and so many bits were ``missing``."""
    if not missing:
        return now
    # pinned weights say nothing of what is missing once they are streamed
    return 0 if now is None else now + missing


def _not_adding(tiles: int, cost: LeafCost) -> int:
    """Tile-cycles of a run in which tiles that own no outputs wait for those that add partial sums."""
    return 0 if cost.gathering is None else (tiles - cost.gathering.owners) * cost.gathering.cycles


def runs_on_tiles(cost: NodeCost) -> NodeRuns:
    """How a node runs; only for one that is not mapped on the whole chip."""
    assert cost.runs is not None
    return cost.runs


def _leaking(cost: NodeCost, cycles: float) -> NodeCost:
    """The cost with what its tiles leak in ``cycles``, for which they belong to the node.

    The tiles of an S cut belong to its children for all of its time, also while a pipeline fills and drains
    or waits for DRAM. Those of a T cut belong to one child after the other; what the cut waits is divided
    among them in proportion to their own time.
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
