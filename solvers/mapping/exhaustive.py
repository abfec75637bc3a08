"""Every mapping of a small space, for checking other solvers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import product
from math import inf, prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from solvers.budget import Budget, Stopwatch
from solvers.checks import check_counts
from solvers.mapping.outcomes import infeasible
from solvers.mapping.problem import MappingProblem, objective_of, objective_values
from solvers.mapping.space.layouts import over_layouts
from solvers.mapping.space.obstacles import obstacle
from solvers.mapping.space.padding import over_padded_sizes
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.space_bounds import space_bound
from solvers.mapping.untimed import improved_by_timed_cycles
from solvers.outcome import Outcome, Status, noting_limits

VERSION = "3"

Array = NDArray[Any]
CHUNK = 4096
"""Mappings evaluated at a time: enough that the compiled code outweighs the call."""


@dataclass(frozen=True)
class Params:
    """``limit``: a space with more factorisations, or that needs more evaluations, is refused."""

    limit: int = 2_000_000

    def __post_init__(self) -> None:
        check_counts("exhaustive", self, {"limit": 1})


@noting_limits
@improved_by_timed_cycles
@over_layouts
@over_padded_sizes
def solve(problem: MappingProblem, budget: Budget, params: Params = Params()) -> Outcome[Mapping]:
    """The best of all mappings that the problem's rules allow; OPTIMAL when all were looked at.

    Of mappings that cost the same whatever the layer's sizes (sides of spatial factors, equal loop orders)
    only one is. ``budget.iterations`` is the most mappings to evaluate, as ``params.limit``. UNKNOWN or
    FEASIBLE with a note if limit or time end the search. Loading the compiled code, which a process does
    once, is not on the clock.
    """
    clock = Stopwatch()
    search = Enumeration(problem)
    if reason := obstacle(search.space):
        return infeasible(reason)
    loading = Stopwatch()
    search.load()
    clock = clock.without(loading)
    note = search.run(min(params.limit, budget.iterations or params.limit), clock, budget.wall_seconds)
    bound = space_bound(problem)
    objective = None
    if search.best is not None:
        objective = objective_of(
            evaluate(problem.architecture, problem.layer, search.best), problem.objective
        )
    elif not note:
        note = f"none of the mappings of this space fits: {problem.rules.describe()}"
        return Outcome(Status.INFEASIBLE, None, None, None, clock.cpu_seconds, clock.wall_seconds, note)
    status = Status.UNKNOWN if objective is None else Status.FEASIBLE if note else Status.OPTIMAL
    return Outcome(
        status,
        search.best,
        objective,
        objective if status is Status.OPTIMAL else bound,
        clock.cpu_seconds,
        clock.wall_seconds,
        note,
        evaluations=search.evaluations,
    )


class Enumeration:
    """The best of the mappings looked at."""

    def __init__(self, problem: MappingProblem) -> None:
        self._problem = problem
        self.space = MappingSpace(problem.architecture, problem.layer, problem.rules)
        self._evaluator = BatchEvaluator(problem.architecture, problem.layer)
        self._lowest = inf
        self.best: Mapping | None = None
        self.evaluations = 0

    def load(self) -> None:
        """Load the compiled code."""
        nothing = MappingBatch.empty(0, self._problem.architecture, self._problem.layer)
        self._evaluator.evaluate(nothing)
        self.space.with_sides(nothing)

    def run(self, limit: int, clock: Stopwatch, wall_seconds: float) -> str:
        """Look at all mappings; what kept it from doing so, if anything did."""
        # counting takes no time beside listing: a space that is too large is refused before anything is
        # looked at
        factorisations = 0
        for masks in product(*self.space.keep_sets):
            factorisations += self.space.count_factorisations(masks)
            if factorisations > limit:
                return f"at least {factorisations} factorisations, {limit} mappings may be evaluated"
        for batch in self.mappings():
            if self.evaluations + len(batch) > limit:
                return f"more than {limit} mappings, the limit"
            if clock.wall_seconds > wall_seconds:
                return f"not all mappings in {wall_seconds:g} s"
            self._look_at(batch)
        return ""

    def mappings(self) -> Iterator[MappingBatch]:
        """All valid mappings, one of each class of equal cost."""
        dims = range(len(self._problem.layer.dims))
        for masks in product(*self.space.keep_sets):
            for rows in self._factored(masks, [self.space.ways(dim, masks) for dim in dims]):
                yield from self._ordered(rows, masks)

    def _factored(self, masks: Sequence[int], table: Sequence[Array]) -> Iterator[MappingBatch]:
        """The valid rows among all products of the dims' ways, a chunk at a time."""
        shape = [len(ways) for ways in table]
        bits = np.arange(len(self._problem.layer.tensors))
        for start in range(0, prod(shape), CHUNK):
            numbers = np.arange(start, min(start + CHUNK, prod(shape)))
            batch = MappingBatch.empty(len(numbers), self._problem.architecture, self._problem.layer)
            for dim, chosen in enumerate(np.unravel_index(numbers, shape)):
                for number, slot in enumerate(self.space.slots):
                    block = batch.spatial_x if slot.spatial else batch.temporal
                    block[:, slot.level, dim] = table[dim][chosen, number]
            batch.keep[:] = (np.array(masks)[:, None] >> bits & 1) == 1
            fitting = self.space.with_sides(batch)
            yield batch[fitting & self._evaluator.evaluate(batch).valid]

    def _ordered(self, rows: MappingBatch, masks: Sequence[int]) -> Iterator[MappingBatch]:
        """Each row with every loop order that can make a difference."""
        # which orders differ depends only on where loops are, so rows with loops over the same dims have the
        # same
        looped = rows.temporal > 1
        kinds, members = np.unique(looped, axis=0, return_inverse=True)
        for number, kind in enumerate(kinds):
            some = np.flatnonzero(members.reshape(-1) == number)
            orders = self._orders(kind, masks)
            for start in range(0, len(orders), max(1, CHUNK // max(1, len(some)))):
                part = orders[start : start + max(1, CHUNK // max(1, len(some)))]
                batch = rows[np.repeat(some, len(part))]
                batch.permutation[:] = np.tile(part, (len(some), 1, 1))
                yield batch

    def _orders(self, looped: Array, masks: Sequence[int]) -> Array:
        """Orders of all levels, int8 [n, levels, dims], for loops where ``looped`` [levels, dims] says."""
        levels = []
        for level, dims in enumerate(looped):
            there = frozenset(np.flatnonzero(dims).tolist())
            rest = tuple(np.flatnonzero(~dims).tolist())
            levels.append([(*order, *rest) for order in self.space.orders(level, there, masks)])
        return np.array(list(product(*levels)), np.int8)

    def _look_at(self, batch: MappingBatch) -> None:
        self.evaluations += len(batch)
        values = objective_values(self._evaluator.evaluate(batch), self._problem.objective)
        row = int(np.argmin(values))
        if values[row] < self._lowest:
            self._lowest = float(values[row])
            self.best = batch.mapping(row, self._problem.layer)
