"""What a segment costs: a sub-tree that has the whole chip to itself while it runs.

Each child of a root T cut is a segment; a root that is no T cut is the only one. A segment's weights are
loaded and stay in the tiles' buffers (they are pinned) for each of its batches, and only DRAM connects it to
other segments (SET, section 3.3.1). So its cost does not depend on the rest of the tree.

The cost is found in two passes. From the leaves up, every node gets its normalized processing time and the
tiles that it needs at least (``_planned``). From the top down, S cuts divide their tiles by these, leaves are
searched on the tiles that they got, and costs are added up on the way back (``_node``).

A segment of a single leaf can run in another way: its loop nest mapped on the whole chip as one stack of
levels, with nothing pinned (``whole_chip_cost.py``). The better of the two counts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.chip import Chip
from costmodel.schedule.allocation import allocate
from costmodel.schedule.buffers import Held, cut_in_space, cut_in_time, leaf_held
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.leaf.leaf import LeafCost, LeafSearch
from costmodel.schedule.leaf.streams import LeafRun, Placement
from costmodel.schedule.tree.segment_flow import SegmentFlow
from costmodel.schedule.tree.tree import Cut, Leaf, Node
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.schedule.whole_chip_cost import WholeChipCost

Array = NDArray[Any]
ENERGY_PARTS = ("tiles", "transfers", "noc", "dram")
"""Energy within tiles, of transfers between their buffers and the NoC, on links, and in DRAM."""


@dataclass(frozen=True)
class NodeCost:
    """What a node of a segment costs.

    ``cycles`` is the time of one batch of the node itself; all other numbers are for one batch of its
    segment. ``parts_pj`` [4]: energy by ENERGY_PARTS. ``busy``: tiles times cycles in which they compute.
    ``links`` [X * Y * 4]: bytes times DRAM ports on each link. ``held``: bytes in the tiles' buffers. A leaf
    on tiles has its partition and placement in ``leaf``. A leaf mapped on the whole chip has its costs in
    ``whole_chip`` instead; its ``links`` are empty [0] and its ``held`` zero, for the mapping says both.
    """

    node: Node
    first_tile: int
    tiles: int
    cycles: int
    parts_pj: tuple[float, float, float, float]
    dram_read_bytes: int
    dram_write_bytes: int
    busy: int
    links: Array
    held: Held
    leaf: LeafCost | None = None
    whole_chip: WholeChipCost | None = None
    children: tuple[NodeCost, ...] = ()

    @property
    def dram_bytes(self) -> int:
        return self.dram_read_bytes + self.dram_write_bytes


@dataclass(frozen=True)
class _Planned:
    """A node with what is known before it has tiles.

    ``cycles``: its normalized processing time, that of one tile; ``least_tiles``: tiles that it needs;
    ``stages`` [children] of an S cut: the pipeline stage in which each child starts.
    """

    node: Node
    cycles: float
    least_tiles: int
    children: tuple[_Planned, ...] = ()
    stages: tuple[int, ...] = ()


class SegmentEvaluation:
    """Evaluates one segment with the data flow ``flow``; ``normalized``: cycles of a layer on one tile."""

    def __init__(
        self,
        search: LeafSearch,
        flow: SegmentFlow,
        normalized: Callable[[int], float],
    ) -> None:
        self._search, self._flow, self._normalized = search, flow, normalized
        self._chip: Chip = search.chip
        self._graph: LayerGraph = search.graph
        self._batch = 1
        self._placements: dict[int, Placement] = {}

    def cost(self, segment: Node) -> NodeCost:
        """What the segment costs; NotPossibleError when buffers, tiles or PEs do not suffice."""
        self._batch = segment.batch
        if isinstance(segment, Leaf):
            return self._cheapest(segment)
        layers = (self._graph.layers[number] for number in self._flow.layers)
        if alone := [layer.name for layer in layers if layer.needs_whole_chip]:
            raise NotPossibleError(f"{alone[0]}: runs alone on the chip only, as a segment of its own")
        planned = self._planned(segment, iter(self._flow.stages))
        return self._node(planned, 0, self._chip.tiles, True)

    def _cheapest(self, leaf: Leaf) -> NodeCost:
        """A segment of one layer: with pinned weights or mapped on the whole chip, the better by E^n D^m.

        What only runs on the whole chip, or does not fit with pinned weights, has no choice.
        """
        on_chip = self._on_whole_chip(leaf)
        if self._graph.layers[self._graph.index[leaf.layer]].needs_whole_chip:
            if on_chip is None:
                raise NotPossibleError(
                    f"{leaf.layer}: runs alone on the chip only, and has no mapping of {leaf.batch} samples"
                )
            return on_chip
        try:
            pinned = self._leaf(leaf, 0, self._chip.tiles)
        except NotPossibleError:
            if on_chip is None:
                raise
            return on_chip
        return pinned if on_chip is None else min(pinned, on_chip, key=self._objective)

    def _on_whole_chip(self, leaf: Leaf) -> NodeCost | None:
        """The leaf mapped on the whole chip; None where the tile costs do not offer that."""
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
            dram_read_bytes=cost.dram_read_bytes,
            dram_write_bytes=cost.dram_write_bytes,
            busy=cost.tile_cycles,
            links=np.zeros(0, np.int64),
            held=Held((), nothing, nothing, nothing),
            whole_chip=cost,
        )

    def _objective(self, cost: NodeCost) -> float:
        energy, cycles = self._search.exponents
        return float(sum(cost.parts_pj) ** energy * cost.cycles**cycles)

    def _planned(self, node: Node, cuts: Iterator[Sequence[int]]) -> _Planned:
        """The node's normalized processing time and least tiles, from its leaves up (SET, section 3.3.2).

        A T cut takes its children's time together. An S cut does too, as if one tile ran them in turn, but
        fill and drain keep tiles waiting: with sb sub-batches and s stages before the last, sb + s periods
        pass for sb periods of work. ``cuts``: the stages of the cuts that come next, from the top and left.
        """
        if isinstance(node, Leaf):
            return _Planned(node, self._normalized(self._graph.index[node.layer]), 1)
        stages = tuple(next(cuts))
        children = tuple(self._planned(child, cuts) for child in node.children)
        cycles = sum(child.cycles for child in children)
        if node.kind == "T":
            return _Planned(node, cycles, max(child.least_tiles for child in children), children)
        cycles = cycles * (node.subbatches + max(stages)) / node.subbatches
        least = sum(child.least_tiles for child in children)
        return _Planned(node, cycles, least, children, stages)

    def _node(self, planned: _Planned, first: int, tiles: int, once: bool) -> NodeCost:
        """What a node costs on ``tiles`` tiles from ``first`` on.

        ``once``: the node runs a single time while the segment's weights are pinned, because no cut above it
        has several sub-batches. Then its weights need not stay (see :func:`.buffers.cut_in_time`).
        """
        node = planned.node
        if isinstance(node, Leaf):
            return self._leaf(node, first, tiles)
        once_below = once and node.subbatches == 1
        if node.kind == "T":
            children = [self._node(child, first, tiles, once_below) for child in planned.children]
            cycles = node.subbatches * sum(child.cycles for child in children)
            held = cut_in_time([child.held for child in children], node.subbatches, once)
        else:
            children = self._side_by_side(planned, first, tiles, once_below)
            cycles = _pipelined(planned, node, max(child.cycles for child in children))
            held = cut_in_space([child.held for child in children], node.subbatches)
        self._check(_name(node), held)
        return self._cut(node, children, cycles, held)

    def _side_by_side(self, planned: _Planned, first: int, tiles: int, once: bool) -> list[NodeCost]:
        """The children of an S cut, each on tiles of its own, from the first to the last in a row."""
        weights = [child.cycles for child in planned.children]
        given = allocate(tiles, weights, [child.least_tiles for child in planned.children])
        if given is None:
            raise NotPossibleError(
                f"{_name(planned.node)}: its children need {planned.least_tiles} tiles side by side "
                f"and have {tiles}"
            )
        costs = []
        for child, count in zip(planned.children, given, strict=True):
            costs.append(self._node(child, first, count, once))
            first += count
        return costs

    def _cut(self, cut: Cut, children: Sequence[NodeCost], cycles: int, held: Held) -> NodeCost:
        """Adds up the children; an S cut takes no less time than DRAM and the busiest link need for it.

        Its children use links and DRAM at the same time, so each of them may be fast enough and all together
        not. The children of a T cut follow one another and have waited for their own data.
        """
        links = np.sum([child.links for child in children], axis=0)
        read = sum(child.dram_read_bytes for child in children)
        written = sum(child.dram_write_bytes for child in children)
        runs = self._batch // cut.batch
        if cut.kind == "S":
            cycles = max(cycles, self._chip.least_cycles(read + written, int(links.max()), runs))
        parts = zip(*(child.parts_pj for child in children), strict=True)
        tiles, transfers, noc, dram = (sum(part) for part in parts)
        return NodeCost(
            node=cut,
            first_tile=children[0].first_tile,
            tiles=children[0].tiles if cut.kind == "T" else sum(child.tiles for child in children),
            cycles=cycles,
            parts_pj=(tiles, transfers, noc, dram),
            dram_read_bytes=read,
            dram_write_bytes=written,
            busy=sum(child.busy for child in children),
            links=links,
            held=held,
            children=tuple(children),
        )

    def _leaf(self, leaf: Leaf, first: int, tiles: int) -> NodeCost:
        """The cheapest way for a leaf with pinned weights; later leaves learn where its outputs are."""
        layer, flow = self._graph.index[leaf.layer], self._flow
        runs = self._batch // leaf.batch
        producers = {number: self._placements[number] for number in flow.sources.get(layer, ())}
        run = LeafRun(leaf.batch, first, tiles, runs, layer in flow.written)
        cost = self._search.cost(layer, run, producers)
        if cost is None:
            raise NotPossibleError(
                f"{leaf.layer}: no partition of {leaf.batch} samples among {tiles} tiles fits the buffers "
                "of tiles and PEs"
            )
        self._placements[layer] = cost.place
        held = self._leaf_held(layer, cost, producers)
        self._check(leaf.layer, held)
        return NodeCost(
            node=leaf,
            first_tile=first,
            tiles=tiles,
            cycles=cost.cycles,
            parts_pj=self._parts_pj(cost),
            dram_read_bytes=cost.dram_read_bytes,
            dram_write_bytes=cost.dram_write_bytes,
            busy=runs * tiles * cost.tile_cycles,
            links=cost.links,
            held=held,
            leaf=cost,
        )

    def _parts_pj(self, cost: LeafCost) -> tuple[float, float, float, float]:
        """Energy by ENERGY_PARTS; links count bytes times ports, so their sum is divided by the ports."""
        noc, dram = self._chip.noc, self._chip.dram
        hop_bytes = int(cost.links.sum()) / len(self._chip.ports)
        dram_pj = cost.dram_read_bytes * dram.read_pj_per_byte
        dram_pj += cost.dram_write_bytes * dram.write_pj_per_byte
        return cost.tiles_pj, cost.transfers_pj, hop_bytes * noc.hop_pj_per_byte, dram_pj

    def _leaf_held(self, layer: int, cost: LeafCost, producers: Mapping[int, Placement]) -> Held:
        """What a leaf holds, by where it comes from: pinned weights, DRAM, or a producer some cuts further
        up.
        """
        weights = from_dram = np.zeros(self._chip.tiles, np.int64)
        arriving: list[Array] = []
        for stream, held in zip(self._search.streams[layer], cost.held, strict=True):
            if stream.pinned:
                weights = held
            elif stream.producer is not None and stream.producer in producers:
                above = self._flow.cuts_between(stream.producer, layer)
                arriving += [np.zeros_like(held)] * (above + 1 - len(arriving))
                arriving[above] = arriving[above] + held
            elif stream.kind != "outputs":
                from_dram = from_dram + held
        return leaf_held(weights, from_dram, tuple(arriving), self._chip.tile.output_stream_bytes)

    def _check(self, where: str, held: Held) -> None:
        """NotPossibleError where the fullest tile has to hold more than its buffer."""
        most, size = held.most, self._chip.tile.buffer.size_bytes
        if most > size:
            raise NotPossibleError(f"{where}: a tile has to hold {most:,} bytes and has {size:,}")


def _pipelined(planned: _Planned, cut: Cut, slowest: int) -> int:
    """The slowest child's time for every sub-batch, and for every stage before the last one begins."""
    return (cut.subbatches + max(planned.stages)) * slowest


def _name(node: Node) -> str:
    return f"{node.kind} cut {node.batch}/{node.subbatches}" if isinstance(node, Cut) else node.layer
