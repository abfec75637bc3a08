"""Seeds that exchange their best tree: epochs of independent searches, which any worker can run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from costmodel.errors import InputError
from solvers.schedule.problem import Evaluator, ScheduleProblem
from solvers.schedule.set.search import Plan, Search, SearchState


@dataclass(frozen=True)
class Epoch:
    """So many more rounds of one seed's search; ``state`` None: it begins."""

    problem: ScheduleProblem
    plan: Plan
    seed: int
    rounds: int
    state: SearchState | None = None


RunAll = Callable[[Sequence[Epoch]], Iterable[SearchState]]
"""Runs epochs, in any order or place, and gives their states in the order in which they came."""


def run_epoch(epoch: Epoch, evaluator: Evaluator | None = None) -> SearchState:
    """The state after the epoch; NotPossibleError where the problem has no first tree."""
    search = Search(epoch.problem, epoch.plan, evaluator)
    return search.advance(epoch.state or search.begin(epoch.seed), epoch.rounds)


def run_here(epochs: Sequence[Epoch]) -> list[SearchState]:
    """All epochs in this process; the seeds share what the evaluator remembers, which changes no result."""
    evaluator = epochs[0].problem.evaluator()
    return [run_epoch(epoch, evaluator) for epoch in epochs]


def anneal_together(
    problem: ScheduleProblem, plan: Plan, seeds: Sequence[int], epochs: int, run_all: RunAll = run_here
) -> list[SearchState]:
    """Finished searches of all seeds, which exchange their best tree between ``epochs``.

    With 1 epoch the seeds know nothing of each other. The result depends on seeds and epochs alone, not on
    where or in which order they run.
    """
    if not seeds or epochs < 1:
        raise InputError("annealing", "at least one seed and one epoch", (len(seeds), epochs))
    total = plan.rounds * len(plan.spaces)
    waiting = [Epoch(problem, plan, seed, rounds=0) for seed in seeds]
    for number in range(epochs):
        rounds = rounds_of_epoch(total, number, epochs)
        states = list(run_all([replace(epoch, rounds=rounds) for epoch in waiting]))
        if number < epochs - 1:
            states = exchanged(states, plan)
        waiting = [replace(epoch, state=state) for epoch, state in zip(waiting, states, strict=True)]
    return [epoch.state for epoch in waiting if epoch.state is not None]


def rounds_of_epoch(total: int, number: int, epochs: int) -> int:
    """The share that epoch ``number``, from 0, has of all rounds: as equal as whole numbers can be."""
    return total * (number + 1) // epochs - total * number // epochs


def exchanged(states: Sequence[SearchState], plan: Plan) -> list[SearchState]:
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
