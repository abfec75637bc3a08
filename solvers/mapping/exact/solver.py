"""The exact mapper end to end: assignments best bound first, their loops by branch and bound, the outcome."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from itertools import count
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.architecture import Architecture, Compute, StorageLevel
from costmodel.batch import BatchEvaluator, MappingBatch
from costmodel.evaluate import evaluate
from costmodel.uneven import AnyMapping
from costmodel.workload import gemm
from solvers.budget import Budget, Stopwatch
from solvers.divisors import divisors
from solvers.mapping.exact.aggregate import with_cycles
from solvers.mapping.exact.assignments import Assignments
from solvers.mapping.exact.params import Params
from solvers.mapping.exact.parts import PartSpace, part_space
from solvers.mapping.exact.spatial import MOST_SPREADS, sides, spreads
from solvers.mapping.exact.tables import Nodes, Space, lattice_room, nodes_room, space_of
from solvers.mapping.obstacles import obstacle
from solvers.mapping.padding import over_padded_sizes
from solvers.mapping.problem import MappingProblem, objective_of, objective_values, violations
from solvers.mapping.rules import SpaceRules
from solvers.mapping.space import MappingSpace
from solvers.mapping.space_bounds import space_bound
from solvers.outcome import Outcome, Status

VERSION = "2"

Array = NDArray[Any]
ROUNDING = 1e-12
"""Costs that differ by less than this fraction are equal: the cost model adds floating-point numbers."""

MOST_VECTORS = 1_500_000
"""The tables hold some hundred bytes for every tile of the layer, six levels deep."""

MOST_TABLES = 10_000_000
"""The same for uneven levels, whose tables are several."""

SLICE = 100_000
"""Nodes between two looks at the clock."""

_LOADED: list[bool] = []
"""Not empty once this process has loaded the compiled code."""


@over_padded_sizes
def solve(
    problem: MappingProblem,
    budget: Budget,
    params: Params = Params(),  # noqa: B008
    start: AnyMapping | None = None,
) -> Outcome[AnyMapping]:
    """A mapping of the least objective that the problem's rules allow, proven: OPTIMAL and bound = objective.

    When time ends it the status is FEASIBLE (UNKNOWN if no mapping was met), and the bound is the least of
    all parts of the space that are still open. With ``params.tolerance`` the search ends within it of the
    optimum. ``budget.iterations`` is the most assignments of spatial factors whose loops are searched. Only
    what is better than ``start``, an allowed mapping, is looked for; of uneven mappings only what is better
    than the best even one. Loading the compiled code, which a process does once, is not on the clock.
    """
    if reason := obstacle(MappingSpace(problem.architecture, problem.layer, problem.rules.even)):
        return Outcome(Status.INFEASIBLE, None, None, None, 0.0, 0.0, reason)
    if (vectors := prod(len(divisors(size)) for _, size in problem.layer.dims)) > MOST_VECTORS:
        note = f"{vectors} tiles to tell apart, memory is for {MOST_VECTORS}"
        return Outcome(Status.UNKNOWN, None, None, space_bound(problem), 0.0, 0.0, note)
    _load()
    clock = Stopwatch()
    parts = part_space(problem)
    tables = vectors * parts.most_subsets * len(parts.places)
    if not parts.is_even and tables > MOST_TABLES:
        note = f"{tables} tiles to tell apart in the parts of levels, memory is for {MOST_TABLES}"
        return Outcome(Status.UNKNOWN, None, None, space_bound(problem), 0.0, 0.0, note)
    if (factors := spreads(parts.space)) is None:
        note = f"more than {MOST_SPREADS} ways to spread the layer, memory is for no more"
        return Outcome(Status.UNKNOWN, None, None, space_bound(problem), 0.0, 0.0, note)
    search = Search(problem, parts, params, factors)
    if start is None and problem.rules.uneven:
        start = solve(replace(problem, rules=problem.rules.even), budget, params).solution
    if start is not None and not violations(problem, start):
        search.begin_with(start)
    note = search.run(budget.iterations, lambda: clock.wall_seconds < budget.wall_seconds)
    return _outcome(problem, search, note, clock)


def _load() -> None:
    """Solve a tiny problem, once a process: that loads or compiles the code."""
    if _LOADED:
        return
    _LOADED.append(True)
    levels = (StorageLevel("Buffer", 8, 16, 1.0, 1.0, 1.0), StorageLevel("DRAM", None, 16, 9.0, 9.0, 9.0))
    architecture = Architecture("tiny", levels, Compute("MAC", 16, 1.0))
    problem = MappingProblem(architecture, gemm("g", M=2, N=2, K=2), rules=SpaceRules("free"))
    Search(problem, part_space(problem), Params(), np.ones((1, 2, 3), np.int32)).run(None, lambda: True)


class Search:
    """The best mapping met, and what is proven about those not met."""

    def __init__(self, problem: MappingProblem, parts: PartSpace, params: Params, factors: Array) -> None:
        self._problem, self._parts, self._tolerance = problem, parts, params.tolerance
        tables = space_of(problem, parts, params.dominance)
        size = int(np.prod(tables.divisor_count))
        lattice = lattice_room(tables, size)
        self._tables: Space = with_cycles(problem, tables, parts.keeps, lattice)
        self._assignments = Assignments(self._tables, parts, lattice, factors)
        self._nodes: Nodes = nodes_room(self._tables, size)
        self._evaluator = BatchEvaluator(problem.architecture, problem.layer)
        self.best: AnyMapping | None = None
        self.objective = inf
        self.bound = 0.0
        self.evaluations = 0

    @property
    def _limit(self) -> float:
        """What costs as much is not better than the best by more than the tolerance."""
        return self.objective * (1 - max(ROUNDING, self._tolerance))

    def begin_with(self, mapping: AnyMapping) -> None:
        """Take an allowed mapping for the best one met."""
        self.best = mapping
        evaluation = evaluate(self._problem.architecture, self._problem.layer, mapping)
        self.objective = objective_of(evaluation, self._problem.objective)

    def run(self, iterations: int | None, in_time: Callable[[], bool]) -> str:
        """Search until the best is proven; what kept it from that, if anything did."""
        searched = 0
        while self._assignments.bound < self._limit:
            self.bound = min(self.objective, self._assignments.bound)
            if searched == iterations:
                return f"not proven with {searched} assignments of spatial factors searched, the limit"
            if self._assignments.pop(self._limit, in_time):
                searched += 1
                if not self._search_loops(in_time):
                    return "not proven in time"
            elif self._assignments.bound < self._limit:
                return "not proven: too many assignments" if self._assignments.full else "not proven in time"
        self.bound = self._limit if self._tolerance else self.objective
        return ""

    def _search_loops(self, in_time: Callable[[], bool]) -> bool:
        """Look for better mappings of the assignment loaded; whether that came to its end."""
        from solvers.mapping.exact.search_kernel import begin, explore

        room, lattice, nodes = self._assignments.room, self._assignments.lattice, self._nodes
        begin(self._tables, room, lattice, nodes, self._limit)
        for visits in count(SLICE, SLICE):
            while True:
                explore(self._tables, room, lattice, nodes, self._limit, visits)
                if not self._look_at_leaves():
                    break
            if nodes.level[0] == len(room.keep) or not in_time():
                break
        return bool(nodes.level[0] == len(room.keep))

    def _look_at_leaves(self) -> bool:
        """Evaluate the leaves found; whether there were any."""
        count = int(self._nodes.leaf_count[0])
        if not count:
            return False
        self._nodes.leaf_count[0] = 0
        batch = self._batch(count)
        if self._parts.is_even:
            values = objective_values(self._evaluator.evaluate(batch), self._problem.objective)
            self.evaluations += count
            self._keep_better(float(values.min()), batch, int(values.argmin()))
            return True
        for row in np.argsort(self._nodes.leaf_bound[:count], kind="stable").tolist():
            if self._nodes.leaf_bound[row] >= self._limit:
                break
            self.evaluations += 1
            self._keep_better(self._evaluated(batch, row), batch, row)
        return True

    def _evaluated(self, batch: MappingBatch, row: int) -> float:
        """The objective of one leaf of an uneven space, whose batches nobody evaluates."""
        mapping = self._parts.solution(batch.mapping(row, self._problem.layer))
        evaluation = evaluate(self._problem.architecture, self._problem.layer, mapping)
        return objective_of(evaluation, self._problem.objective)

    def _keep_better(self, value: float, batch: MappingBatch, row: int) -> None:
        if value < self.objective:
            self.objective = value
            self.best = self._parts.solution(batch.mapping(row, self._problem.layer))

    def _batch(self, count: int) -> MappingBatch:
        """The first ``count`` leaves as mappings."""
        room, nodes = self._assignments.room, self._nodes
        space = self._parts.space
        batch = MappingBatch.empty(count, space.architecture, space.layer)
        inside = nodes.leaf_inside[:count]
        batch.temporal[:, 0] = inside[:, 0]
        batch.temporal[:, 1:] = inside[:, 1:] // inside[:, :-1]
        batch.permutation[:, 0] = space.tables.order[0]
        batch.permutation[:, 1:] = self._tables.orders[nodes.leaf_order[:count, 1:]]
        for level, factors in enumerate(room.spatial):
            on_y = sides(space, level, factors)
            batch.spatial_x[:, level] = np.where(on_y, 1, factors)
            batch.spatial_y[:, level] = np.where(on_y, factors, 1)
        batch.keep[:] = (room.keep[:, None] >> np.arange(batch.keep.shape[2]) & 1) == 1
        return batch


def _outcome(problem: MappingProblem, search: Search, note: str, clock: Stopwatch) -> Outcome[AnyMapping]:
    seconds = clock.cpu_seconds, clock.wall_seconds
    if search.best is None and not note:
        note = f"none of the mappings of this space fits: {problem.rules.describe()}"
        return Outcome(Status.INFEASIBLE, None, None, None, *seconds, note, evaluations=search.evaluations)
    bound = max(search.bound, space_bound(problem))
    if search.best is None:
        return Outcome(Status.UNKNOWN, None, None, bound, *seconds, note, evaluations=search.evaluations)
    objective = objective_of(evaluate(problem.architecture, problem.layer, search.best), problem.objective)
    proven = bound >= search.objective * (1 - ROUNDING)
    return Outcome(
        Status.OPTIMAL if proven else Status.FEASIBLE,
        search.best,
        objective,
        objective if proven else bound,
        *seconds,
        "" if proven else note,
        evaluations=search.evaluations,
    )
