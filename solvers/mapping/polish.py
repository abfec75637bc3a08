"""A descent on the cost model's own objective from what a solver found, a neighbourhood at a time."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.batch.batch_tables import workspace
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.timing.walk import has_inner_steps
from solvers.mapping.problem import OBJECTIVES, MappingProblem, objective_values
from solvers.mapping.space.neighbours import Neighbourhood
from solvers.mapping.space.space import MappingSpace
from solvers.tolerance import sufficient_bound, within_tolerance

Array = NDArray[Any]
AT_ONCE = 50_000
"""Neighbours that compiled code counts between two looks at the clock: some ten milliseconds."""

HANDFUL = 16
"""Random neighbours that a kick draws; it takes the first of them that is a valid mapping."""


@dataclass
class Polish:
    """Local search on the objective of ``problem``, down to ``bound`` and as long as ``in_time()``.

    From a local optimum a *kick*, a few random steps, begins another descent. There are kicks only while the
    best objective is more than ``close`` times the bound: nearer to it they rarely gain anything. ``space``
    and ``evaluator`` are the problem's, for a caller that has made them already.
    """

    problem: MappingProblem
    bound: float
    in_time: Callable[[], bool]
    evaluations: int = 0
    close: float = 1.3
    space: MappingSpace | None = None
    evaluator: BatchEvaluator | None = None
    _space: MappingSpace = field(init=False)
    _evaluator: BatchEvaluator = field(init=False)
    _neighbourhood: Neighbourhood = field(init=False)

    def __post_init__(self) -> None:
        problem = self.problem
        self._evaluator = self.evaluator or BatchEvaluator(problem.architecture, problem.layer)
        self._space = self.space or MappingSpace(problem.architecture, problem.layer, problem.rules)
        self._neighbourhood = Neighbourhood(self._space)

    def load(self) -> None:
        """Call the compiled code without a mapping: the first call of a process loads it, or compiles it."""
        nothing = MappingBatch.empty(0, self.problem.architecture, self.problem.layer)
        self._neighbourhood.around_each(nothing)
        self._descended(nothing, np.zeros(0))

    def best(self, starts: list[Mapping], kicks: int, seed: int) -> Mapping:
        """The best local optimum below ``starts``, and below up to ``kicks`` random steps off the best."""
        rows = MappingBatch.of(starts, self.problem.architecture, self.problem.layer)
        return self.best_of_rows(rows, kicks, seed)

    def best_of_rows(self, rows: MappingBatch, kicks: int, seed: int) -> Mapping:
        """The same for the starts in ``rows``."""
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
        """The local optimum below each of ``rows``, by the best neighbour of each step, and its cost."""
        rows, costs = rows[np.arange(len(rows))], costs.copy()
        active = np.array([not within_tolerance(cost, self.bound, 0.0) for cost in costs.tolist()], np.bool_)
        if has_inner_steps(self.problem.architecture):
            self._descend_step_by_step(rows, costs, active)
        else:
            self._descend(rows, costs, active)
        return rows, costs

    def _descend(self, rows: MappingBatch, costs: Array, active: Array) -> None:
        """Put the local optima below the ``active`` rows in their places, and their costs.

        Compiled code makes, counts and compares the neighbours.
        """
        from solvers.mapping.space.descent_kernel import Descents, Goal, descend

        problem, hood, tables = self.problem, self._neighbourhood, self._evaluator.tables
        goal = Goal(OBJECTIVES.index(problem.objective), float(self.bound))
        around = MappingBatch.empty(hood.most, problem.architecture, problem.layer).rows
        descents = Descents(rows.rows, costs, active, around, np.zeros(1, np.int64))
        counts = workspace(tables)
        going = True
        while going:
            going = self.in_time()
            most = AT_ONCE if going else 0
            descend(tables, counts, hood.changes, hood.work, self._space.rule_tables, goal, most, descents)
            going = going and bool(active.any())
        self.evaluations += int(descents.evaluated[0])

    def _descend_step_by_step(self, rows: MappingBatch, costs: Array, active: Array) -> None:
        """The same where the cost model has no compiled count: all rows take a step at a time."""
        while active.any() and self.in_time():
            going = np.flatnonzero(active)
            neighbours, counts = self._neighbourhood.around_each(rows[going])
            found = self._costs(neighbours)
            for row, end, count in zip(
                going.tolist(), counts.cumsum().tolist(), counts.tolist(), strict=True
            ):
                best = end - count + int(found[end - count : end].argmin()) if count else -1
                active[row] = count > 0 and found[best] < sufficient_bound(float(costs[row]), 0.0)
                if active[row]:
                    for array, changed in zip(rows.rows, neighbours.rows, strict=True):
                        array[row] = changed[best]
                    costs[row] = found[best]
                    active[row] = not within_tolerance(float(costs[row]), self.bound, 0.0)

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
