"""Seeds that exchange their best trees between the epochs of their searches."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from solvers.schedule.set.search import AnnealingPlan, SearchState


def rounds_of_epoch(total: int, number: int, epochs: int) -> int:
    """The share that epoch ``number``, from 0, has of all rounds: as equal as whole numbers can be."""
    return total * (number + 1) // epochs - total * number // epochs


def exchanged(states: Sequence[SearchState], plan: AnnealingPlan) -> list[SearchState]:
    """Restarts: the worse half of the seeds, by their best trees, goes on from the best tree of all.

    Only once all are in the last phase: trees of one space may not belong to another.
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
