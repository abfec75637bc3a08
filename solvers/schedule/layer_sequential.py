"""Layer-sequential schedules (LS, section 3.4 of SET): every layer has the whole chip while it runs.

The layers of a segment hand on their outputs on the chip; segments follow one another through DRAM. The
search is that of ``set/``, kept within this pattern.
"""

from __future__ import annotations

from solvers.budget import Budget
from solvers.outcome import Outcome, noting_limits
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution
from solvers.schedule.set.params import PatternParams as Params
from solvers.schedule.set.solving import solve_by_annealing

__all__ = ["VERSION", "Params", "solve"]

VERSION = "19"
DEFAULT = Params()


@noting_limits
def solve(problem: ScheduleProblem, budget: Budget, params: Params = DEFAULT) -> Outcome[ScheduleSolution]:
    """The best tree that one annealing of ``problem`` finds among layer-sequential trees."""
    return solve_by_annealing(problem, budget, params, ("layer_sequential",))
