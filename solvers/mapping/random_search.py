"""Timeloop's random-pruned search: draw mappings until a given number in a row are no better."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.mapping import Mapping
from solvers.budget import Budget, Stopwatch
from solvers.checks import check_counts
from solvers.mapping.outcomes import answer, infeasible, unknown
from solvers.mapping.problem import MappingProblem, objective_values
from solvers.mapping.space.layouts import over_layouts
from solvers.mapping.space.obstacles import obstacle
from solvers.mapping.space.padding import over_padded_sizes
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.space_bounds import space_bound
from solvers.mapping.untimed import improved_by_timed_cycles
from solvers.outcome import Outcome, noting_limits

VERSION = "3"

BLOCK_ROWS = 256
"""Rows of one block, each drawn from a random stream of its own: the same on any machine."""
CHUNK_BLOCKS = 16
"""Rows are drawn and evaluated this many blocks at a time; the clock is looked at in between."""


@dataclass(frozen=True)
class Params:
    """When the search ends, beside its budget.

    * ``victory``: after this many valid mappings in a row that are no better.
    * ``valid``: after this many valid mappings in all; 0: no such limit. 5 is the random scheduler that CoSA
      compares with (section IV).
    """

    victory: int = 200_000
    valid: int = 0

    def __post_init__(self) -> None:
        check_counts("random_search", self, {"victory": 1, "valid": 0})


@noting_limits
@improved_by_timed_cycles
@over_layouts
@over_padded_sizes
def solve(problem: MappingProblem, budget: Budget, params: Params = Params()) -> Outcome[Mapping]:
    """The best of the mappings drawn (:meth:`MappingSpace.sample`) until victory, time or iterations end it.

    ``budget.iterations`` is the most mappings to draw, valid or not; ``evaluations`` how many were drawn. The
    status is OPTIMAL only if the objective meets the cost model's lower bound. Loading the compiled code,
    which a process does once, is not on the clock.
    """
    clock = Stopwatch()
    space = MappingSpace(problem.architecture, problem.layer, problem.rules)
    if reason := obstacle(space):
        return infeasible(reason)
    search = RandomDraws(problem, params.victory, params.valid)
    # A batch of no rows loads the compiled code, which is taken off the clock.
    loading = Stopwatch()
    search.look_at(space.sample(range(0), budget.seed))
    clock = clock.without(loading)
    for batch in _batches(space, budget):
        search.look_at(batch)
        if search.won or clock.wall_seconds > budget.wall_seconds:
            break
    return _outcome(problem, search, clock)


def _batches(space: MappingSpace, budget: Budget) -> Iterator[MappingBatch]:
    """Batches of drawn mappings without end, or until the budget's iterations are drawn."""
    block, left = 0, budget.iterations
    while left is None or left > 0:
        batch = space.sample(range(block, block + CHUNK_BLOCKS), budget.seed, BLOCK_ROWS)
        yield batch if left is None else batch[:left]
        block += CHUNK_BLOCKS
        left = None if left is None else left - len(batch)


class RandomDraws:
    """The best mapping so far, and for how many valid ones it has been the best."""

    def __init__(self, problem: MappingProblem, victory: int, valid: int = 0) -> None:
        self._problem = problem
        self._evaluator = BatchEvaluator(problem.architecture, problem.layer)
        self._victory = victory
        self._valid_left = valid or np.inf
        self._unbeaten = 0
        self.best: Mapping | None = None
        self.objective = np.inf
        self.evaluations = 0

    @property
    def won(self) -> bool:
        """Whether nothing better turned up for long enough, or as many were valid as were asked for."""
        return self._unbeaten >= self._victory or self._valid_left <= 0

    def look_at(self, batch: MappingBatch) -> None:
        """Take the best of ``batch``, row after row, as far as ``victory`` lets the search go."""
        evaluation = self._evaluator.evaluate(batch)
        rows = np.flatnonzero(evaluation.valid)
        looked_at = len(batch)
        if len(rows) >= self._valid_left:
            rows = rows[: int(self._valid_left)]
            looked_at = int(rows[-1]) + 1 if len(rows) else 0
        self._valid_left -= len(rows)
        self.evaluations += looked_at
        # The answer must be that of drawing one by one, whatever the size of a batch. ``before`` is the best
        # that was known when each row came; improvements after victory do not count.
        values = objective_values(evaluation, self._problem.objective)[rows]
        before = np.minimum.accumulate(np.concatenate(([self.objective], values)))[:-1]
        better = np.flatnonzero(values < before)
        last = self._last_before_victory(better, len(values))
        if last is not None:
            self.best = batch.mapping(int(rows[last]), self._problem.layer)
            self.objective = float(values[last])

    def _last_before_victory(self, better: NDArray[np.int64], count: int) -> int | None:
        """The last improvement that comes in time, and ``_unbeaten`` counted from there."""
        # Row numbers before this batch are negative: the best so far came ``_unbeaten`` valid rows ago.
        last, unbeaten_since = None, -self._unbeaten - 1
        for row in better.tolist():
            if row - unbeaten_since > self._victory:
                break
            last, unbeaten_since = row, row
        self._unbeaten = count - 1 - unbeaten_since
        return last


def _outcome(problem: MappingProblem, search: RandomDraws, clock: Stopwatch) -> Outcome[Mapping]:
    bound = space_bound(problem)
    if search.best is None:
        note = f"none of {search.evaluations} mappings drawn was valid; nothing shows that there is none"
        return unknown(note, bound, clock, search.evaluations)
    return answer(problem, search.best, bound, clock, evaluations=search.evaluations)
