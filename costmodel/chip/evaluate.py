"""A whole schedule on a chip: energy, cycles and traffic of a batch, segment by segment."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from costmodel.chip.hardware import Chip
from costmodel.chip.layers import LayerGraph
from costmodel.chip.leaf import LeafSearch
from costmodel.chip.schedule import Path, Schedule, granularity_violations
from costmodel.chip.segment import ENERGY_PARTS, NodeCost, SegmentEvaluation
from costmodel.chip.tile_costs import TileCosts
from costmodel.errors import InputError
from costmodel.ratree import (
    Cut,
    DataFlow,
    Leaf,
    Node,
    NotPossibleError,
    Producers,
    Rectangle,
    SegmentFlow,
    Wiring,
    spatial_temporal_graph,
    violations,
)

MOST_REMEMBERED = 50_000
"""Segments that an evaluator remembers before it begins anew."""


@dataclass(frozen=True)
class ChipEvaluation:
    """What a schedule costs for the whole batch.

    ``rounds`` times the ``segments`` follow one another. ``parts_pj``: energy by ENERGY_PARTS.
    ``noc_hop_bytes``: bytes times links. ``bubble_tile_cycles``: tiles times cycles in which they wait.
    """

    schedule: Schedule
    chip: Chip
    rounds: int
    segments: tuple[NodeCost, ...]

    @cached_property
    def parts_pj(self) -> dict[str, float]:
        sums = (sum(part) for part in zip(*(one.parts_pj for one in self.segments), strict=True))
        return {name: self.rounds * part for name, part in zip(ENERGY_PARTS, sums, strict=True)}

    @cached_property
    def energy_pj(self) -> float:
        return sum(self.parts_pj.values())

    @cached_property
    def cycles(self) -> int:
        return self.rounds * sum(segment.cycles for segment in self.segments)

    @property
    def dram_read_bytes(self) -> int:
        return self.rounds * sum(segment.dram_read_bytes for segment in self.segments)

    @property
    def dram_write_bytes(self) -> int:
        return self.rounds * sum(segment.dram_write_bytes for segment in self.segments)

    @property
    def dram_bytes(self) -> int:
        return self.dram_read_bytes + self.dram_write_bytes

    @property
    def noc_hop_bytes(self) -> float:
        spread = sum(int(segment.links.sum()) for segment in self.segments)
        return self.rounds * spread / len(self.chip.ports)

    @property
    def bubble_tile_cycles(self) -> int:
        return self.chip.tiles * self.cycles - self.rounds * sum(segment.busy for segment in self.segments)

    def nodes(self) -> Iterator[NodeCost]:
        """Of all nodes from the top down and left to right; those of a root T cut without the root."""
        waiting = list(reversed(self.segments))
        while waiting:
            cost = waiting.pop()
            yield cost
            waiting += reversed(cost.children)

    def spatial_temporal(self, producers: Producers) -> list[Rectangle]:
        """The S-T graph (section 3.1.1), with sub-batches handed on whole."""
        tree, costs = self.schedule.tree, list(self.nodes())
        cycles = [cost.cycles for cost in costs]
        tiles = [(cost.first_tile, cost.first_tile + cost.tiles) for cost in costs]
        if isinstance(tree, Cut) and tree.kind == "T":  # the root itself is no segment
            cycles, tiles = [self.cycles, *cycles], [(0, self.chip.tiles), *tiles]
        flow = DataFlow(tree, producers)
        return spatial_temporal_graph(flow, dict(enumerate(cycles)), dict(enumerate(tiles)))


class ChipEvaluator:
    """Evaluates schedules of one network for one batch and chip; remembers leaves and segments.

    ``exponents``: n and m of the objective E^n D^m, by which a leaf's partition and placement are picked.
    ``tile_costs`` says what a layer costs on tiles.
    """

    def __init__(
        self,
        graph: LayerGraph,
        chip: Chip,
        batch: int,
        tile_costs: TileCosts,
        exponents: tuple[float, float] = (1.0, 1.0),
    ) -> None:
        self.graph, self.chip, self.batch = graph, chip, batch
        self._search = LeafSearch(graph, chip, tile_costs, exponents)
        self._wiring = Wiring.of(graph.producers)
        self._normalized = [tile_costs.normalized_cycles(layer) for layer in range(len(graph.layers))]
        self._segments: dict[tuple[Node, tuple[tuple[Path, int], ...]], NodeCost | NotPossibleError] = {}

    def evaluate(self, schedule: Schedule | Node) -> ChipEvaluation:
        """What a schedule, or a tree that hands on whole sub-batches, costs.

        InputError for one that is not of this network and batch, NotPossibleError when buffers or tiles do
        not suffice.
        """
        given = Schedule(schedule) if isinstance(schedule, Cut | Leaf) else schedule
        tree = given.tree
        reasons = violations(tree, self.graph.producers, self.batch) or granularity_violations(given)
        if reasons:
            raise InputError("schedule", f"a valid tree of {self.graph.name}", "; ".join(reasons[:3]))
        if isinstance(tree, Leaf) or tree.kind == "S":
            return ChipEvaluation(given, self.chip, 1, (self._segment(tree, given.groups),))
        segments = []
        for place, child in enumerate(tree.children):
            below = {path[1:]: groups for path, groups in given.groups.items() if path[:1] == (place,)}
            segments.append(self._segment(child, below))
        return ChipEvaluation(given, self.chip, tree.subbatches, tuple(segments))

    def segment(self, segment: Node) -> NodeCost:
        """What a child of a root T cut costs, whatever is around it; NotPossibleError as for schedules.

        It is taken to be one of this network: that its layers and batches fit together is not looked at.
        """
        return self._segment(segment, {})

    def _segment(self, segment: Node, groups: dict[Path, int]) -> NodeCost:
        key = segment, tuple(sorted(groups.items()))
        if len(self._segments) >= MOST_REMEMBERED:
            self._segments.clear()
        if key not in self._segments:
            self._segments[key] = self._counted(segment, groups)
        found = self._segments[key]
        if isinstance(found, NotPossibleError):
            raise found
        return found

    def _counted(self, segment: Node, groups: dict[Path, int]) -> NodeCost | NotPossibleError:
        flow = SegmentFlow(segment, self._wiring)
        try:
            return SegmentEvaluation(self._search, flow, groups, self._normalized).cost(segment)
        except NotPossibleError as reason:
            return NotPossibleError(*reason.args)
