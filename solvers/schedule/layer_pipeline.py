"""Layer-pipeline schedules (LP, section 3.4 of SET): segments whose layers run side by side as a pipeline."""

from __future__ import annotations

from solvers.budget import Budget
from solvers.outcome import Outcome, noting_limits
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution
from solvers.schedule.set.params import PatternParams as Params
from solvers.schedule.set.solving import solve_by_annealing

__all__ = ["VERSION", "Params", "solve"]

VERSION = "2"
DEFAULT = Params()


@noting_limits
def solve(problem: ScheduleProblem, budget: Budget, params: Params = DEFAULT) -> Outcome[ScheduleSolution]:
    """The best tree of one annealing of ``problem`` over layer-pipeline trees."""
    return solve_by_annealing(problem, budget, params, ("layer_pipeline",))
