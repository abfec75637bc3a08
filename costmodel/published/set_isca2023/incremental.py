"""The released evaluator's counts for searches: a changed tree costs what its changed segments cost.

:class:`TreeEvaluator` counts a tree from the root down in readable steps. This evaluator must give the same
numbers for every tree, but spends time only on what has changed. The cost of a segment does not depend on the
segments beside it, so segments are remembered whole. Leaves are remembered by all that their cost depends on.
A new segment is put together from its leaves in compiled code.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from costmodel.published.set_isca2023.allocation import allocate
from costmodel.published.set_isca2023.hardware import Platform
from costmodel.published.set_isca2023.leaf.memory import NOWHERE, LeafMemory, LeafQuestion
from costmodel.published.set_isca2023.leaf.search import ReleasedLeafSearch
from costmodel.published.set_isca2023.segment_flow import SegmentFlow
from costmodel.published.set_isca2023.tile_tables import TileTables
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tree.tree import Leaf, TreeNode
from costmodel.schedule.tree.validity import NotPossibleError
from costmodel.schedule.tree.wiring import Wiring

MOST_SEGMENTS = 30_000
"""When more segments than this are remembered, all of them are forgotten."""


@dataclass(frozen=True)
class SegmentCost:
    """What a node that has the whole chip costs for one of its batches."""

    energy_pj: float
    cycles: int
    hop_bytes: int
    dram_bytes: int


class IncrementalEvaluator:
    """Evaluates trees as :class:`TreeEvaluator` does, quickly where a tree differs little from earlier ones.

    Trees must be valid: that is not checked here. What is remembered of a segment that is not possible is the
    reason, a str.
    """

    def __init__(self, tables: TileTables) -> None:
        self.tables = tables
        self._segments = _SegmentCosts(tables.graph, tables.platform, ReleasedLeafSearch(tables))
        self._known: dict[TreeNode, SegmentCost | str] = {}
        self._same_objects: dict[int, tuple[TreeNode, SegmentCost | str]] = {}

    @property
    def quick(self) -> IncrementalEvaluator:
        """This one: there is no quicker count under this convention."""
        return self

    def evaluate(self, tree: TreeNode) -> SegmentCost:
        """The cost of the root; NotPossibleError where the platform cannot run the tree."""
        if isinstance(tree, Leaf) or tree.kind == "S":
            return self.segment(tree)
        energy, cycles, hops, dram = 0.0, 0, 0, 0
        for child in tree.children:
            cost = self.segment(child)
            energy += cost.energy_pj
            cycles += cost.cycles
            hops += cost.hop_bytes
            dram += cost.dram_bytes
        times = tree.subbatches
        return SegmentCost(times * energy, times * cycles, times * hops, times * dram)

    def evaluate_unless(
        self, tree: TreeNode, is_too_dear: Callable[[float, float], bool]
    ) -> SegmentCost | None:
        """The cost of the root, None where it ``is_too_dear``: nothing bounds it under this convention."""
        cost = self.evaluate(tree)
        return None if is_too_dear(cost.energy_pj, cost.cycles) else cost

    def segment(self, node: TreeNode) -> SegmentCost:
        """The cost of a segment: a child of a root T cut, or a root of another kind.

        It is looked up by the identity of the node first: that needs no hash of the whole sub-tree.
        """
        known = self._same_objects.get(id(node))
        if known is None:
            found = self._by_value(node)
            # the node is kept here: were it deleted, a new node could get the same identity
            self._same_objects[id(node)] = known = node, found
        if isinstance(known[1], str):
            raise NotPossibleError(known[1])
        return known[1]

    def _by_value(self, node: TreeNode) -> SegmentCost | str:
        found = self._known.get(node)
        if found is None:
            if len(self._same_objects) > MOST_SEGMENTS:
                self._known.clear()
                self._same_objects.clear()
            try:
                found = self._segments.cost(node)
            except NotPossibleError as reason:
                found = str(reason)
            self._known[node] = found
        return found


class _SegmentCosts:
    """Counts segments; remembers leaves, and how S cuts have divided their tiles."""

    def __init__(self, graph: LayerGraph, platform: Platform, search: ReleasedLeafSearch) -> None:
        from costmodel.published.set_isca2023.compose_kernel import Limits, NodeStack

        tile = platform.tile
        self._wiring, self._platform = Wiring.of(graph.producers), platform
        self._npt = [
            layer.normalized_cycles(tile.vector, tile.lanes, tile.macs, tile.vector_units)
            for layer in graph.layers
        ]
        self._memory = LeafMemory(search, graph, platform)
        self._allocations: dict[tuple[float, ...], tuple[int, ...] | None] = {}
        nodes = len(graph.layers)
        self._stack = NodeStack(np.zeros((nodes, 3 + 7 * platform.tiles), np.int64), np.zeros(nodes))
        self._limits = Limits(
            platform.tiles,
            tile.shared.size_bytes,
            tile.output_stream_bytes,
            platform.dram_bytes_per_cycle,
            platform.link_bytes_per_cycle,
        )

    def cost(self, node: TreeNode) -> SegmentCost:
        flow = SegmentFlow(node, self._wiring)
        rows = self._leaf_rows(flow, self._tiles_of_nodes(flow))
        return self._composed(flow, rows)

    def _tiles_of_nodes(self, flow: SegmentFlow) -> dict[int, tuple[int, int]]:
        """First tile and number of tiles of every node (section 3.3.2).

        As everywhere here, cuts are numbered from 0, and the leaf of layer n has the number ~n.
        """
        times = self._normalized(flow)
        tiles_of = {flow.top: (0, self._platform.tiles)}
        for number, cut in enumerate(flow.cuts):
            children, (first, tiles) = flow.children[number], tiles_of[number]
            if cut.kind == "T":
                tiles_of.update(dict.fromkeys(children, (first, tiles)))
                continue
            counts = self._allocation(tiles, [times[child] for child in children])
            for child, count in zip(children, counts, strict=True):
                tiles_of[child] = first, count
                first += count
        return tiles_of

    def _normalized(self, flow: SegmentFlow) -> dict[int, float]:
        """Normalized processing times of leaves and cuts.

        Cuts are numbered parents first, so going backwards meets children first. Each sum is taken in the
        order of the children, as floats, to equal TreeEvaluator's to the last bit.
        """
        times = {~layer: self._npt[layer] for layer in flow.layers}
        for number in range(len(flow.cuts) - 1, -1, -1):
            total, cut = 0.0, flow.cuts[number]
            for child in flow.children[number]:
                total += times[child]
            if cut.kind == "S":
                total = total * (cut.subbatches + max(flow.stages[number])) / cut.subbatches
            times[number] = total
        return times

    def _allocation(self, tiles: int, times: list[float]) -> tuple[int, ...]:
        key = (tiles, *times)
        if key not in self._allocations:
            self._allocations[key] = allocate(tiles, times, self._platform.least_allocation_utilization)
        counts = self._allocations[key]
        if counts is None:
            raise NotPossibleError(f"{tiles} tiles cannot be shared by {len(times)} children of an S cut")
        return counts

    def _leaf_rows(self, flow: SegmentFlow, tiles_of: dict[int, tuple[int, int]]) -> dict[int, int]:
        """The row of every layer's leaf in the memory, searched in the order in which leaves are computed."""
        self._memory.clear_if_full(len(flow.layers))
        rows: dict[int, int] = {}
        for layer, batch in zip(flow.layers, flow.batches, strict=True):
            sources = {one: rows[one] for one in flow.sources.get(layer, ())}
            question = LeafQuestion(layer, batch, tiles_of[~layer], layer in flow.written, sources)
            rows[layer] = self._memory.row(question)
            if rows[layer] == NOWHERE:
                raise NotPossibleError(f"no partition of a leaf among {tiles_of[~layer][1]} tiles fits")
        return rows

    def _composed(self, flow: SegmentFlow, rows: dict[int, int]) -> SegmentCost:
        from costmodel.published.set_isca2023.compose_kernel import Store, compose

        program: list[tuple[int, int, int, int]] = []
        _add_steps(flow, flow.top, rows, program)
        store, stack = Store(self._memory.numbers, self._memory.energy_pj), self._stack
        if compose(np.array(program, np.int64), store, stack, self._limits) >= 0:
            raise NotPossibleError("a tile has to hold more than its buffer does")
        cycles, hops, dram = stack.numbers[0, :3].tolist()
        return SegmentCost(float(stack.energy_pj[0]), cycles, hops, dram)


def _add_steps(
    flow: SegmentFlow, node: int, rows: dict[int, int], program: list[tuple[int, int, int, int]]
) -> None:
    """Append a node's steps for :func:`.compose_kernel.compose`: its children's, then its own.

    The columns of a step are named in :mod:`.compose_kernel`.
    """
    if node < 0:
        program.append((0, 0, rows[~node], 0))
        return
    for child in flow.children[node]:
        _add_steps(flow, child, rows, program)
    cut, count = flow.cuts[node], len(flow.children[node])
    rounds = cut.subbatches + max(flow.stages[node], default=0)
    program.append((count, int(cut.kind == "T"), cut.subbatches, rounds))
