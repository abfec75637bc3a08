"""A whole RA tree as the released evaluator counts it: buffers, energy and latency from the leaves up."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.published.set_isca2023.allocation import allocate
from costmodel.published.set_isca2023.buffers import ReleasedHeld, cut_in_space, cut_in_time, leaf_held
from costmodel.published.set_isca2023.leaf.search import ReleasedLeafCost, ReleasedLeafSearch
from costmodel.published.set_isca2023.tile_tables import TileTables
from costmodel.schedule.leaf.streams import Placement
from costmodel.schedule.tree.data_flow import DataFlow, Producers
from costmodel.schedule.tree.spatial_temporal import ChartBox, spatial_temporal_graph
from costmodel.schedule.tree.text import format_tree
from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode, has_bands
from costmodel.schedule.tree.validity import NotPossibleError, violations

Array = NDArray[Any]
ENERGY_PARTS = ("shared_buffers", "buffers", "bus", "macs", "noc", "dram")


@dataclass(frozen=True)
class ReleasedNodeCost:
    """What a node costs for one batch of its own.

    ``tiles`` tiles from number ``first_tile`` on run it. ``parts_pj`` [6]: energy by ENERGY_PARTS.
    ``links`` [X * Y * 4]: bytes on each link. ``hop_bytes``: bytes times hops. ``held``: bytes in the tiles'
    global buffers. A leaf has its partition and placement in ``leaf``, a cut has ``children``.
    """

    node: TreeNode
    first_tile: int
    tiles: int
    energy_pj: float
    cycles: int
    hop_bytes: int
    dram_bytes: int
    parts_pj: Array
    links: Array
    held: ReleasedHeld
    leaf: ReleasedLeafCost | None = None
    children: tuple[ReleasedNodeCost, ...] = ()


def spatial_temporal(cost: ReleasedNodeCost, producers: Producers) -> list[ChartBox]:
    """SET's spatial-temporal graph of an evaluated tree: a box of cycles by tiles for each node.

    Nodes are numbered as DataFlow numbers them: a node before its children, children from left to right.
    """
    costs: list[ReleasedNodeCost] = []
    waiting = [cost]
    while waiting:
        costs.append(waiting.pop())
        waiting += reversed(costs[-1].children)
    tiles = {number: (item.first_tile, item.first_tile + item.tiles) for number, item in enumerate(costs)}
    cycles = {number: item.cycles for number, item in enumerate(costs)}
    return spatial_temporal_graph(DataFlow(cost.node, producers), cycles, tiles)


class TreeEvaluator:
    """Evaluates RA trees of the network, batch, platform and objective of ``tables``.

    The objective, by which the partition of every leaf is chosen, is an exponent k: E^k D for k > 0, D for 0,
    E for -1, E D^-k for k < -1. Leaves are remembered, so a changed tree costs the time of what has changed.
    """

    def __init__(self, tables: TileTables) -> None:
        graph, tile = tables.graph, tables.platform.tile
        self.graph, self.platform, self.batch = graph, tables.platform, tables.batch
        self._search = ReleasedLeafSearch(tables)
        self._known: dict[tuple[Any, ...], ReleasedLeafCost | None] = {}
        self._npt = {
            layer.name: layer.normalized_cycles(tile.vector, tile.lanes, tile.macs, tile.vector_units)
            for layer in graph.layers
        }
        used = {name for names in graph.producers.values() for name in names}
        self._unused = frozenset(graph.producers) - used

    def evaluate(self, tree: TreeNode) -> ReleasedNodeCost:
        """The cost of the root.

        Raises InputError for a tree that is not one of this network and batch. Raises NotPossibleError for
        one that does not fit the buffers, tiles or PEs, and for an S cut that uses its tiles too unevenly.
        """
        if reasons := violations(tree, self.graph.producers, self.batch):
            raise InputError("RA tree", f"a valid tree of {self.graph.name}", "; ".join(reasons[:3]))
        if has_bands(tree):
            raise InputError("RA tree", "cuts without bands, which SET does not have", format_tree(tree))
        return _Evaluation(self, tree).root()

    def normalized_cycles(self, layer: str) -> float:
        return self._npt[layer]

    def written(self, flow: DataFlow) -> frozenset[str]:
        """Layers whose outputs go to DRAM: the network's outputs, and those that a consumer reads there."""
        return self._unused | {edge.producer for edge in flow.edges if not edge.on_chip}

    def leaf(
        self, leaf: Leaf, tiles: tuple[int, int], producers: dict[int, Placement], to_dram: bool
    ) -> ReleasedLeafCost | None:
        """A leaf's cost on ``tiles`` = (first, count); an equal question is searched only once."""
        layer = self.graph.index[leaf.layer]
        key = (layer, leaf.batch, tiles, to_dram, tuple(producers.items()))
        if key not in self._known:
            self._known[key] = self._search.search(layer, (leaf.batch, *tiles), producers, to_dram)
        return self._known[key]


class _Evaluation:
    """One tree's evaluation, in the order in which leaves are computed.

    So when a leaf is searched, the placements of all its producers are known (``_placements``).
    """

    def __init__(self, evaluator: TreeEvaluator, tree: TreeNode) -> None:
        self._evaluator, self._platform = evaluator, evaluator.platform
        self._flow = DataFlow(tree, evaluator.graph.producers)
        self._written = evaluator.written(self._flow)
        self._on_chip: dict[str, list[str]] = {}
        for edge in self._flow.edges:
            if edge.on_chip:
                self._on_chip.setdefault(edge.consumer, []).append(edge.producer)
        self._placements: dict[str, Placement] = {}

    def root(self) -> ReleasedNodeCost:
        return self._node(0, 0, self._platform.tiles)

    def _node(self, number: int, first: int, tiles: int) -> ReleasedNodeCost:
        node = self._flow.positions[number].node
        if isinstance(node, Leaf):
            return self._leaf(number, node, first, tiles)
        if node.kind == "T":
            children = [self._node(child, first, tiles) for child in self._flow.children[number]]
            cycles = node.subbatches * sum(child.cycles for child in children)
        else:
            children = self._side_by_side(number, node, first, tiles)
            rounds = node.subbatches + max(self._flow.stages[number])
            cycles = rounds * max(child.cycles for child in children)
        return self._cut(number, node, children, cycles)

    def _leaf(self, number: int, leaf: Leaf, first: int, tiles: int) -> ReleasedNodeCost:
        """The cost of a leaf on the ``tiles`` from ``first`` on; NotPossibleError where no partition fits."""
        index = self._evaluator.graph.index
        producers = {index[name]: self._placements[name] for name in self._on_chip.get(leaf.layer, ())}
        found = self._evaluator.leaf(leaf, (first, tiles), producers, leaf.layer in self._written)
        if found is None:
            raise NotPossibleError(
                f"{leaf.layer}: no partition among {tiles} tiles fits the buffers of tiles and PEs"
            )
        self._placements[leaf.layer] = found.placement
        held = leaf_held(found, self._platform.tile.output_stream_bytes)
        tile, platform = found.tile, self._platform
        on_tiles = (tile.buffers_pj * tiles, tile.bus_pj * tiles, tile.mac_pj * tiles)
        noc, dram = found.hop_bytes * platform.hop_pj_per_byte, found.dram_bytes * platform.dram_pj_per_byte
        cost = ReleasedNodeCost(
            node=leaf,
            first_tile=first,
            tiles=tiles,
            energy_pj=found.energy_pj,
            cycles=self._bounded(number, found.cycles, found.dram_bytes, found.links),
            hop_bytes=found.hop_bytes,
            dram_bytes=found.dram_bytes,
            parts_pj=np.array([found.shared_pj, *on_tiles, noc, dram]),
            links=found.links,
            held=held,
            leaf=found,
        )
        self._check_buffers(leaf.layer, held)
        return cost

    def _side_by_side(self, number: int, cut: Cut, first: int, tiles: int) -> list[ReleasedNodeCost]:
        children = self._flow.children[number]
        least = self._platform.least_allocation_utilization
        given = allocate(tiles, [self._normalized(child) for child in children], least)
        if given is None:
            raise NotPossibleError(
                f"{_name(cut)}: {tiles} tiles cannot be shared by its {len(children)} children "
                f"with a utilization of {least:g}"
            )
        costs = []
        for child, count in zip(children, given, strict=True):
            costs.append(self._node(child, first, count))
            first += count
        return costs

    def _normalized(self, number: int) -> float:
        """Normalized processing time (section 3.3.2): cycles of a sample on one tile, with fill and drain.

        Times are added in the order of the children, as floats, so that the last bit is the released one's.
        """
        node = self._flow.positions[number].node
        if isinstance(node, Leaf):
            return self._evaluator.normalized_cycles(node.layer)
        total = 0.0
        for child in self._flow.children[number]:
            total += self._normalized(child)
        if node.kind == "S":
            total = total * (node.subbatches + max(self._flow.stages[number])) / node.subbatches
        return total

    def _cut(
        self, number: int, cut: Cut, children: Sequence[ReleasedNodeCost], cycles: int
    ) -> ReleasedNodeCost:
        """The cost of a cut, whose ``children`` and their time in all, ``cycles``, are known."""
        # everything but time repeats for each sub-batch. A root T cut holds nothing itself: its children are
        # segments, which are checked one by one
        times = cut.subbatches
        dram = times * sum(child.dram_bytes for child in children)
        links = times * np.sum([child.links for child in children], axis=0)
        held = [child.held for child in children]
        segment = self._is_segment(number)
        combined = (
            ReleasedHeld.nothing(self._platform.tiles)
            if number == 0 and cut.kind == "T"
            else (cut_in_time if cut.kind == "T" else cut_in_space)(held, times, segment)
        )
        self._check_buffers(_name(cut), combined)
        energy = 0.0
        for child in children:
            energy += child.energy_pj
        return ReleasedNodeCost(
            node=cut,
            first_tile=children[0].first_tile,
            tiles=children[0].tiles if cut.kind == "T" else sum(child.tiles for child in children),
            energy_pj=times * energy,
            cycles=self._bounded(number, cycles, dram, links),
            hop_bytes=times * sum(child.hop_bytes for child in children),
            dram_bytes=dram,
            parts_pj=times * np.sum([child.parts_pj for child in children], axis=0),
            links=links,
            held=combined,
            children=tuple(children),
        )

    def _is_segment(self, number: int) -> bool:
        """Whether a node has the whole chip while it runs: a child of a root T cut, or another root."""
        root = self._flow.positions[0].node
        in_time = isinstance(root, Cut) and root.kind == "T"
        return self._flow.positions[number].parent == 0 if in_time else number == 0

    def _bounded(self, number: int, cycles: int, dram_bytes: int, links: Array) -> int:
        """``cycles``, or for a segment what DRAM or the busiest link needs, where that is more.

        The released evaluator checks them for whole segments only, not for the nodes within.
        """
        if not self._is_segment(number):
            return cycles
        busiest = -(-int(links.max()) // self._platform.link_bytes_per_cycle)
        return max(cycles, -(-dram_bytes // self._platform.dram_bytes_per_cycle), busiest)

    def _check_buffers(self, where: str, held: ReleasedHeld) -> None:
        most, size = held.most, self._platform.tile.shared.size_bytes
        if most > size:
            raise NotPossibleError(f"{where}: a tile has to hold {most:,} bytes and has {size:,}")


def _name(cut: Cut) -> str:
    return f"{cut.kind} cut {cut.batch}/{cut.subbatches}"
