"""The S-T graph of an RA tree (SET, section 3.1.1, Fig. 2): which tiles compute which samples when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from costmodel.schedule.starts import slowest_by_stage
from costmodel.schedule.tree.data_flow import DataFlow
from costmodel.schedule.tree.tree import Cut, Leaf


@dataclass(frozen=True)
class ChartBox:
    """A rectangle of the chart: samples ``first_sample`` to before ``end_sample`` of a layer.

    They run on tiles ``first_tile`` to before ``end_tile``, from cycle ``start`` to before ``end``.
    """

    layer: str
    first_sample: int
    end_sample: int
    first_tile: int
    end_tile: int
    start: int
    end: int


def spatial_temporal_graph(
    flow: DataFlow,
    cycles: Mapping[int, int],
    tiles: Mapping[int, tuple[int, int]],
    round_cycles: int | None = None,
) -> list[ChartBox]:
    """All rectangles of a tree, leaf by leaf within each sub-batch.

    ``cycles``: the time of one batch of every node. ``tiles``: first and end tile of every leaf. Both are
    keyed by the node's number in ``flow.positions``. In an S cut a child begins when the slowest child of
    each earlier stage (``flow.stages``) is through, and again after a period, the time of the slowest child.
    Children of a T cut follow one another; the time in which they wait for data is not drawn.
    ``round_cycles``: the time from one round of a root T cut to the next. It may be less than its children
    take together, as the first one fetches its data while the last one ends.
    """
    return _Drawing(flow, cycles, tiles, round_cycles).rectangles()


@dataclass(frozen=True)
class _Drawing:
    flow: DataFlow
    cycles: Mapping[int, int]
    tiles: Mapping[int, tuple[int, int]]
    round_cycles: int | None

    def rectangles(self) -> list[ChartBox]:
        return self._node(0, 0, 0)

    def _node(self, number: int, sample: int, start: int) -> list[ChartBox]:
        node = self.flow.positions[number].node
        if isinstance(node, Leaf):
            first, end = self.tiles[number]
            until = start + self.cycles[number]
            return [ChartBox(node.layer, sample, sample + node.batch, first, end, start, until)]
        drawn = []
        for part in range(node.child_runs):
            at = sample + part // node.bands * (node.batch // node.subbatches)
            for child, offset in zip(self.flow.children[number], self._offsets(number, node), strict=True):
                drawn += self._node(child, at, start + offset + part * self._period(number, node))
        return drawn

    def _offsets(self, number: int, cut: Cut) -> list[int]:
        """When each child begins within a sub-batch."""
        children = self.flow.children[number]
        if cut.kind == "S":
            stages = self.flow.stages[number]
            slowest = slowest_by_stage([self.cycles[child] for child in children], stages)
            return [sum(slowest[:stage]) for stage in stages]
        return [sum(self.cycles[child] for child in children[:rank]) for rank in range(len(children))]

    def _period(self, number: int, cut: Cut) -> int:
        """From one sub-batch's start to the next one's."""
        if number == 0 and cut.kind == "T" and self.round_cycles is not None:
            return self.round_cycles
        taken = [self.cycles[child] for child in self.flow.children[number]]
        return max(taken) if cut.kind == "S" else sum(taken)
