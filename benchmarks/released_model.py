"""Schedules counted as the released SET evaluator does, to compare searches with its published numbers."""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

from costmodel.errors import InputError
from costmodel.published.set_isca2023.evaluator import TreeEvaluator
from costmodel.published.set_isca2023.hardware import Platform, load_platform
from costmodel.published.set_isca2023.incremental import IncrementalEvaluator
from costmodel.published.set_isca2023.tile_tables import TileTables
from costmodel.schedule.layer_graph.graph import LayerGraph
from solvers.budget import InTime, always_in_time
from solvers.schedule.objective import Objective
from solvers.schedule.problem import Evaluator, TreeJudge


@dataclass(frozen=True)
class ReleasedModel:
    """A platform of the set_isca2023 convention; it has no bounds."""

    platform: Platform
    name: str = "set_isca2023"

    @staticmethod
    def named(platform: str) -> ReleasedModel:
        return ReleasedModel(load_platform(platform), f"set_isca2023/{platform}")

    @property
    def tiles(self) -> int:
        return self.platform.tiles

    def evaluator(self, graph: LayerGraph, batch: int, objective: Objective) -> Evaluator:
        return IncrementalEvaluator(self.tables(graph, batch, objective))

    def judge(self, graph: LayerGraph, batch: int, objective: Objective) -> TreeJudge:
        return TreeEvaluator(self.tables(graph, batch, objective))

    def tables(self, graph: LayerGraph, batch: int, objective: Objective) -> TileTables:
        """The tile cost table, which all evaluators of one problem in this process share."""
        return _tables(graph, self.platform, batch, released_exponent(objective))

    def bound(
        self, graph: LayerGraph, batch: int, objective: Objective, in_time: InTime = always_in_time
    ) -> float | None:
        return None


@lru_cache(maxsize=8)
def _tables(graph: LayerGraph, platform: Platform, batch: int, exponent: int) -> TileTables:
    return TileTables(graph, platform, batch, exponent)


def released_exponent(objective: Objective) -> int:
    """The objective as the released program's argument; InputError for one that it does not have."""
    n, m = objective.exponents
    if n == int(n) and m == int(m):
        if m == 1:
            return int(n)
        if n == 1:
            return -int(m) if m else -1
    raise InputError("objective", "E^n D or E D^m with whole exponents, or E, or D", str(objective))
