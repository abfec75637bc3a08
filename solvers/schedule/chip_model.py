"""Schedules counted by the chip model: what every scheduler is judged by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from costmodel.hardware.chip import Chip
from costmodel.limits import report
from costmodel.schedule.bounds import ScheduleBounds, lower_bounds
from costmodel.schedule.evaluate import ChipEvaluator
from costmodel.schedule.layer_graph.graph import LayerGraph
from costmodel.schedule.tile_cost import TileCosts, TileFloor
from solvers.budget import InTime, always_in_time
from solvers.schedule.objective import Objective
from solvers.schedule.tiles.cost_table import TabledTileCosts, limits_of


@dataclass(frozen=True, eq=False)
class ChipModel:
    """A chip, and what a layer of the problem's network costs on its tiles."""

    chip: Chip
    tile_costs: TileCosts

    @property
    def name(self) -> str:
        return self.chip.name

    @property
    def tiles(self) -> int:
        return self.chip.tiles

    def evaluator(self, graph: LayerGraph, batch: int, objective: Objective) -> ChipEvaluator:
        """For searches: remembers leaves and segments."""
        return ChipEvaluator(graph, self.chip, batch, self.tile_costs, objective.exponents)

    def judge(self, graph: LayerGraph, batch: int, objective: Objective) -> ChipEvaluator:
        """For results: a new evaluator, which remembers nothing of any search."""
        return self.evaluator(graph, batch, objective)

    def bound(
        self, graph: LayerGraph, batch: int, objective: Objective, in_time: InTime = always_in_time
    ) -> float | None:
        """A proven lower bound on the objective of every tree; None where some layer cannot run at all."""
        bounds = self.bounds(graph, batch, in_time)
        # the table remembers its rows, so a later problem would not hear which limits they met
        for limit in limits_of(self.tile_costs):
            report(limit)
        return None if bounds is None else bounds.product(objective.exponents)

    def bounds(
        self, graph: LayerGraph, batch: int, in_time: InTime = always_in_time
    ) -> ScheduleBounds | None:
        """Proven lower bounds on energy and cycles of every tree; None where some layer cannot run at all.

        They rest on the costs of all leaves that there can be, on every number of tiles. Layers whose costs
        are not all known when the time is up count with their operations, and the bounds are lower.
        """
        costs = self.tile_costs
        floors = _FloorsInTime(costs, in_time) if isinstance(costs, TabledTileCosts) else costs
        found = lower_bounds(graph, self.chip, batch, floors)
        return found if isfinite(found.energy_pj) and isfinite(found.cycles) else None


@dataclass(frozen=True)
class _FloorsInTime:
    """The floors of a table, which makes what it lacks as long as there is time."""

    costs: TabledTileCosts
    in_time: InTime

    def floor(self, layer: int, batches: Sequence[int], tiles: int) -> TileFloor:
        return self.costs.floor(layer, batches, tiles, self.in_time)
