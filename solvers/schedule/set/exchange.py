"""How seeds exchange their best trees between the epochs of their searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from solvers.schedule.set.search import AnnealingPlan, SearchState


def rounds_of_epoch(total: int, number: int, epochs: int) -> int:
    """How many of ``total`` rounds epoch ``number``, from 0, has: as equal as whole numbers can be.

    Epoch i ends with round floor(total (i + 1) / epochs), so the epochs have ``total`` rounds together.
    """
    return total * (number + 1) // epochs - total * number // epochs


def exchanged(states: Sequence[SearchState], plan: AnnealingPlan) -> list[SearchState]:
    """The states after an exchange: the worse half of the seeds goes on from the best tree of all.

    Of an odd number that is the smaller half: of 5 seeds 2. Their own best trees are forgotten.
    A restarted seed keeps its round, and so its temperature. It also keeps its random numbers, so it goes
    another way than the seed whose tree it has. Nothing is exchanged before all seeds are in the last phase:
    a tree of one phase's space may not belong to another's.
    """
    if any(len(state.done) < len(plan.spaces) - 1 for state in states):
        return list(states)
    order = sorted(range(len(states)), key=lambda number: states[number].progress.best_value)
    worse = set(order[(len(order) + 1) // 2 :])
    best = states[order[0]].progress
    return [
        replace(
            state,
            progress=replace(
                state.progress,
                tree=best.best,
                value=best.best_value,
                best=best.best,
                best_value=best.best_value,
            ),
        )
        if number in worse
        else state
        for number, state in enumerate(states)
    ]
