"""One epoch of one seed's search: what it finds, and the state from which the next epoch goes on.

Several seeds search at the same time, each in epochs of equally many rounds. Between two epochs they exchange
their best trees (``exchange.py``). Each epoch of each seed is a solve of its own, so that a cluster can run
them side by side.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from costmodel.schedule.tree.validity import NotPossibleError
from solvers.budget import Budget, Deadline, OutOfTimeError
from solvers.outcome import Outcome, noting_limits
from solvers.schedule.problem import ScheduleProblem, ScheduleSolution, answer, no_tree
from solvers.schedule.set.exchange import exchanged, rounds_of_epoch
from solvers.schedule.set.first_tree import first_tree
from solvers.schedule.set.search import AnnealingPlan, SearchState, TreeSearch
from solvers.schedule.set.solving import stop_for_answer


@dataclass(frozen=True)
class EpochOf:
    """Epoch ``number``, from 0, of ``count`` epochs of one seed's search.

    ``seed_number``: which of the seeds that exchange their best trees this is, counted from 0. It is no seed
    of a random generator.
    """

    number: int
    count: int
    seed_number: int

    def rounds(self, total: int) -> int:
        """How many of the ``total`` rounds of the search are in this epoch."""
        return rounds_of_epoch(total, self.number, self.count)


def solve_epoch(
    problem: ScheduleProblem,
    budget: Budget,
    plan: AnnealingPlan,
    epoch: EpochOf,
    before: Sequence[SearchState],
) -> tuple[Outcome[ScheduleSolution], SearchState | None]:
    """The best tree so far, and the state after the epoch; None where no first tree was found.

    ``before``: the states of all seeds after the epoch before; empty for the first epoch. Every seed makes
    the exchange itself, from the same states, so all come to the same result without a further task.
    The epoch has 1 / ``epoch.count`` of the budget's wall seconds.
    """
    deadline, search = Deadline(budget.wall_seconds / epoch.count), TreeSearch(problem, plan)
    state: SearchState | None = None

    # Within a function, so that limits reached while searching come into the outcome's note.
    @noting_limits
    def searched() -> Outcome[ScheduleSolution]:
        nonlocal state
        try:
            if before:
                begun = exchanged(before, plan)[epoch.seed_number]
                search.count_again(begun)
            else:
                begun = search.begin(budget.seed, deadline.check, first_tree(problem, plan.params, deadline))
        except NotPossibleError as reason:
            return no_tree(problem, str(reason), deadline)
        except OutOfTimeError as reason:
            return no_tree(problem, f"the first tree: {reason}", deadline)
        rounds = epoch.rounds(plan.rounds * len(plan.spaces))
        state = search.advance(begun, rounds, stop_for_answer(problem, deadline))
        return answer(problem, state.best[1], search.phases(state), deadline)

    return searched(), state
