"""SET (ISCA 2023): resource-allocation trees by simulated annealing with six operators (section 4.2)."""

from __future__ import annotations

from solvers.budget import Budget
from solvers.outcome import Outcome, noting_limits
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution
from solvers.schedule.set.params import SetParams as Params
from solvers.schedule.set.solving import solve_by_annealing
from solvers.schedule.set.space import SpaceName

__all__ = ["VERSION", "Params", "solve", "spaces_of"]

VERSION = "15"
DEFAULT = Params()
PATTERNS: tuple[SpaceName, ...] = ("layer_pipeline", "layer_sequential")


@noting_limits
def solve(problem: ScheduleProblem, budget: Budget, params: Params = DEFAULT) -> Outcome[ScheduleSolution]:
    """The best tree that the annealings of one seed find for ``problem``."""
    return solve_by_annealing(problem, budget, params, spaces_of(params), params.deepest)


def spaces_of(params: Params) -> tuple[SpaceName, ...]:
    """The spaces that are annealed one after the other, the two patterns first if ``start`` asks for them."""
    return (*(PATTERNS if params.start == "patterns" else ()), params.space)
