"""Seeds that exchange trees, all in one process: what a study's epochs as tasks are compared with."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

from solvers.schedule.problem import Evaluator, ScheduleProblem
from solvers.schedule.set.exchange import exchanged, rounds_of_epoch
from solvers.schedule.set.search import AnnealingPlan, SearchState, TreeSearch


@dataclass(frozen=True)
class Epoch:
    """So many more rounds of one seed's search; ``state`` None: it begins."""

    problem: ScheduleProblem
    plan: AnnealingPlan
    seed: int
    rounds: int
    state: SearchState | None = None


RunAll = Callable[[Sequence[Epoch]], Iterable[SearchState]]
"""Runs epochs, in any order or place, and gives their states in the order in which they came."""


def run_epoch(epoch: Epoch, evaluator: Evaluator | None = None) -> SearchState:
    """The state after the epoch; NotPossibleError where the problem has no first tree."""
    search = TreeSearch(epoch.problem, epoch.plan, evaluator)
    return search.advance(epoch.state or search.begin(epoch.seed), epoch.rounds)


def run_here(epochs: Sequence[Epoch]) -> list[SearchState]:
    """All epochs in this process; the seeds share what the evaluator remembers, which changes no result."""
    evaluator = epochs[0].problem.evaluator()
    return [run_epoch(epoch, evaluator) for epoch in epochs]


def anneal_together(
    problem: ScheduleProblem,
    plan: AnnealingPlan,
    seeds: Sequence[int],
    epochs: int,
    run_all: RunAll = run_here,
) -> list[SearchState]:
    """Finished searches of all seeds, which exchange their best tree between ``epochs``.

    With 1 epoch the seeds know nothing of each other. The result depends on seeds and epochs alone, not on
    where or in which order they run.
    """
    total = plan.rounds * len(plan.spaces)
    waiting = [Epoch(problem, plan, seed, rounds=0) for seed in seeds]
    for number in range(epochs):
        rounds = rounds_of_epoch(total, number, epochs)
        states = list(run_all([replace(epoch, rounds=rounds) for epoch in waiting]))
        if number < epochs - 1:
            states = exchanged(states, plan)
        waiting = [replace(epoch, state=state) for epoch, state in zip(waiting, states, strict=True)]
    return [epoch.state for epoch in waiting if epoch.state is not None]
