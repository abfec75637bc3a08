"""A descent on the cost model's own objective from what a solver found, a neighbourhood at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.mapping import Mapping
from solvers.mapping.problem import MappingProblem, objective_values
from solvers.mapping.space.neighbours import Neighbourhood
from solvers.mapping.space.space import MappingSpace
from solvers.tolerance import sufficient_bound, within_tolerance

Array = NDArray[Any]
HANDFUL = 16
"""Random neighbours that a kick draws; it takes the first of them that is a valid mapping."""


@dataclass
class Polish:
    """Local search on the objective of ``problem``, down to ``bound`` and as long as ``in_time()``.

    From a local optimum a *kick*, a few random steps, begins another descent. There are kicks only while the
    best objective is more than ``close`` times the bound: nearer to it they rarely gain anything.
    """

    problem: MappingProblem
    bound: float
    in_time: Callable[[], bool]
    evaluations: int = 0
    close: float = 1.3
    _space: MappingSpace = field(init=False)
    _evaluator: BatchEvaluator = field(init=False)
    _neighbourhood: Neighbourhood = field(init=False)

    def __post_init__(self) -> None:
        self._evaluator = BatchEvaluator(self.problem.architecture, self.problem.layer)
        self._space = MappingSpace(self.problem.architecture, self.problem.layer, self.problem.rules)
        self._neighbourhood = Neighbourhood(self._space)

    def best(self, starts: list[Mapping], kicks: int, seed: int) -> Mapping:
        """The best local optimum below ``starts``, and below up to ``kicks`` random steps off the best."""
        rows = MappingBatch.of(starts, self.problem.architecture, self.problem.layer)
        ends, costs = self._descended(rows, self._costs(rows))
        first = int(costs.argmin())
        best, cost = ends[slice(first, first + 1)], float(costs[first])
        random = np.random.default_rng(seed)
        for _ in range(kicks):
            if cost <= self.close * self.bound or not self.in_time():
                break
            kicked, kicked_cost = self._kicked(best, random)
            other, (other_cost,) = self._descended(kicked, np.array([kicked_cost]))
            if other_cost < sufficient_bound(cost, 0.0):
                best, cost = other, float(other_cost)
        return best.mapping(0, self.problem.layer)

    def _costs(self, rows: MappingBatch) -> Array:
        """The objective of every row; infinite for what is no valid mapping of the problem's space."""
        self.evaluations += len(rows)
        values = objective_values(self._evaluator.evaluate(rows), self.problem.objective)
        return np.where(self._space.allowed(rows), values, np.inf)

    def _descended(self, rows: MappingBatch, costs: Array) -> tuple[MappingBatch, Array]:
        """The local optimum below each of ``rows``, by the best neighbour of each step, and its cost.

        All rows take a step at a time, so that a step is one call of the compiled code for all of them.
        """
        rows, costs = rows[np.arange(len(rows))], costs.copy()
        active = np.flatnonzero([not within_tolerance(cost, self.bound, 0.0) for cost in costs])
        while len(active) and self.in_time():
            neighbours, counts = self._neighbourhood.around_each(rows[active])
            found, best = self._costs(neighbours), np.full(len(active), -1)
            begins = counts.cumsum() - counts
            for number in np.flatnonzero(counts).tolist():
                begin = int(begins[number])
                first = begin + int(found[begin : begin + int(counts[number])].argmin())
                if found[first] < sufficient_bound(float(costs[active[number]]), 0.0):
                    best[number] = first
            better = best >= 0
            active, best = active[better], best[better]
            for array, changed in zip(rows.rows, neighbours[best].rows, strict=True):
                array[active] = changed
            costs[active] = found[best]
            near = [within_tolerance(cost, self.bound, 0.0) for cost in costs[active].tolist()]
            active = active[np.flatnonzero(np.logical_not(near))]
        return rows, costs

    def _kicked(self, row: MappingBatch, random: np.random.Generator) -> tuple[MappingBatch, float]:
        """A few random valid steps from ``row``, each among a handful of neighbours."""
        cost = np.inf
        for _ in range(random.integers(1, 4)):
            neighbours = self._neighbourhood.around(row)
            if not len(neighbours):
                break
            some = neighbours[random.integers(0, len(neighbours), HANDFUL)]
            costs = self._costs(some)
            valid = np.flatnonzero(np.isfinite(costs))
            if len(valid):
                first = int(valid[0])
                row, cost = some[slice(first, first + 1)], float(costs[first])
        return row, cost
