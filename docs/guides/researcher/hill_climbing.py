"""Random mappings, each improved by the best of its neighbours until none is better."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from costmodel.errors import InputError
from costmodel.mapping.batch.batch import BatchEvaluator
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from solvers.budget import Budget, Stopwatch
from solvers.mapping.polish import Polish
from solvers.mapping.problem import MappingProblem, objective_of, objective_values
from solvers.mapping.space.obstacles import obstacle
from solvers.mapping.space.padding import over_padded_sizes
from solvers.mapping.space.space import MappingSpace
from solvers.mapping.space.space_bounds import space_bound
from solvers.outcome import Outcome, Status, noting_limits

VERSION = "1"
TITLE = "random mappings, each improved by the best of its neighbours until none is better"
BLOCKS, ROWS = 16, 256
"""So many blocks of so many random mappings are drawn to choose starts from."""


@dataclass(frozen=True)
class Params:
    """``climbs``: how many climbs, from the best ones of the mappings drawn."""

    climbs: int = 8

    def __post_init__(self) -> None:
        if not isinstance(self.climbs, int) or isinstance(self.climbs, bool) or self.climbs < 1:
            raise InputError("hill_climbing", "a whole number of at least 1", self.climbs, key="climbs")


@noting_limits
@over_padded_sizes
def solve(problem: MappingProblem, budget: Budget, params: Params = Params()) -> Outcome[Mapping]:
    """The best end of ``climbs`` climbs; ``budget.iterations`` is the most climbs."""
    space = MappingSpace(problem.architecture, problem.layer, problem.rules)
    if reason := obstacle(space):
        return Outcome(Status.INFEASIBLE, None, None, None, 0.0, 0.0, reason)
    bound, clock = space_bound(problem), Stopwatch()
    starts = best_drawn(problem, space, min(params.climbs, budget.iterations or params.climbs), budget.seed)
    if not starts:
        note = "none of the mappings drawn was valid; nothing shows that there is none"
        return Outcome(Status.UNKNOWN, None, None, bound, clock.cpu_seconds, clock.wall_seconds, note)
    climb = Polish(problem, bound, in_time=lambda: clock.wall_seconds < budget.wall_seconds)
    found = climb.best(starts, kicks=0, seed=budget.seed)
    objective = objective_of(evaluate(problem.architecture, problem.layer, found), problem.objective)
    return Outcome(
        Status.OPTIMAL if objective <= bound else Status.FEASIBLE,
        found,
        objective,
        bound,
        clock.cpu_seconds,
        clock.wall_seconds,
        evaluations=BLOCKS * ROWS + climb.evaluations,
    )


def best_drawn(problem: MappingProblem, space: MappingSpace, count: int, seed: int) -> list[Mapping]:
    """The best valid ones of the mappings drawn, at most ``count``."""
    batch = space.sample(range(BLOCKS), seed, ROWS)
    evaluation = BatchEvaluator(problem.architecture, problem.layer).evaluate(batch)
    costs = np.where(evaluation.valid, objective_values(evaluation, problem.objective), np.inf)
    order = np.argsort(costs, kind="stable")[:count]
    return [batch.mapping(int(row), problem.layer) for row in order if np.isfinite(costs[row])]
