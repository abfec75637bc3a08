"""Schedules counted by the chip model: what every scheduler is judged by."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache
from math import isfinite

from costmodel.chip import Chip, ChipEvaluator, LayerGraph, TileCosts, lower_bounds
from costmodel.chip.bounds import ScheduleBounds
from costmodel.limits import report
from solvers.schedule.objective import Objective
from solvers.schedule.tile_costs import limits_of


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

    def bound(self, graph: LayerGraph, batch: int, objective: Objective) -> float | None:
        """A proven lower bound on the objective of every tree; None where some layer cannot run at all."""
        bounds = self.bounds(graph, batch)
        # the table remembers its rows, so a later problem would not hear which limits they met
        for limit in limits_of(self.tile_costs):
            report(limit)
        return None if bounds is None else bounds.product(objective.exponents)

    def bounds(self, graph: LayerGraph, batch: int) -> ScheduleBounds | None:
        """Proven lower bounds on energy and cycles of every tree; None where some layer cannot run at all."""
        return _bounds(self, graph, batch)


@lru_cache(maxsize=8)
def _bounds(model: ChipModel, graph: LayerGraph, batch: int) -> ScheduleBounds | None:
    found = lower_bounds(graph, model.chip, batch, model.tile_costs)
    return found if isfinite(found.energy_pj) and isfinite(found.cycles) else None
