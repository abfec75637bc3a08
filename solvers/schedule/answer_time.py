"""How schedule solvers divide their time between the bound, the search and counting the answer again."""

from __future__ import annotations

from solvers.budget import Deadline
from solvers.schedule.problem import ScheduleProblem

MOST_FOR_RECOUNT = 0.25
"""At most this fraction of a solve's time is kept for counting its answer again."""
FRACTION_FOR_BOUND = 0.25
"""The bound may take this fraction of the time that is left after the first tree, before the search."""


def kept_for_recount(deadline: Deadline) -> float:
    """Wall seconds to keep for the judge, asked when the search has just counted its first tree.

    That took about as long as the judge will take for the answer, as neither has anything to remember.
    """
    return min(deadline.watch.wall_seconds, deadline.wall_seconds * MOST_FOR_RECOUNT)


def prepare_bound(problem: ScheduleProblem, seconds_left: float) -> None:
    """Prepare the bound before the search, not after it: the search needs the same costs of leaves."""
    problem.bound(Deadline(seconds_left * FRACTION_FOR_BOUND).in_time)
