"""Timed cycles that solvers do not minimise: what they say then, and how their answers are improved."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import update_wrapper, wraps
from typing import Concatenate, ParamSpec, TypeVar, cast

from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.timing.walk import has_inner_steps
from costmodel.mapping.uneven import AnyMapping
from solvers.budget import Budget, Deadline, Stopwatch
from solvers.mapping.polish import Polish
from solvers.mapping.problem import MappingProblem, executed_layer, objective_of
from solvers.mapping.space.space_bounds import space_bound
from solvers.outcome import Outcome, Status, proven

Arguments = ParamSpec("Arguments")
MappingT = TypeVar("MappingT", bound=AnyMapping)
Solve = Callable[Concatenate[MappingProblem, Arguments], Outcome[Mapping]]
SolveInTime = Callable[Concatenate[MappingProblem, Budget, Arguments], Outcome[MappingT]]

NOTE = (
    "looked for mappings by cycles without the architecture's timing; the timed cycles judged what it found"
)


def guided_by_untimed_cycles(solve: Solve[Arguments]) -> Solve[Arguments]:
    """Decorates a solver whose own objective knows no timing; its outcomes say so where timing matters.

    The objective and the bound of the outcome are about timed cycles all the same, as is the polish. An
    answer that is proven to be the best needs no note, nor does one of params that say of themselves that
    they count this architecture's timing (``counts_timing``).
    """

    @wraps(solve)
    def noted(problem: MappingProblem, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Outcome[Mapping]:
        outcome = solve(problem, *args, **kwargs)
        architecture = problem.architecture
        matters = architecture.timing is not None and problem.objective != "energy"
        for given in (*args, *kwargs.values()):
            if matters and (counts := getattr(given, "counts_timing", None)):
                matters = not counts(architecture)
        if not matters or outcome.status is not Status.FEASIBLE:
            return outcome
        return replace(outcome, note="; ".join(filter(None, [outcome.note, NOTE])))

    return cast(Solve[Arguments], noted)


KICKS = 10
"""Descents from a few random steps off the best mapping, of steps of a level inside, if time and the budget's
iterations allow so many."""
INNER_STEPS_NOTE = (
    "looked for a mapping by cycles without the tiles' timing, then improved it by the timed cycles, which "
    "have no other proof than the cost model's bound"
)


def improved_by_timed_cycles(solve: SolveInTime[Arguments, MappingT]) -> SolveInTime[Arguments, MappingT]:
    """Turns a solver for steps of the outermost level into one for steps of a level inside, too.

    Those are the steps of a chip's tiles, which :func:`costmodel.hardware.whole_chip.whole_architecture` has
    inside DRAM. No solver's own search counts them. So the solver gets half of the time for the problem
    without timing, and descents on the timed objective begin at its answer and take the other half, if they
    last so long. The outcome is about timed cycles, its bound is the cost model's, and its note says this.
    """

    def improved(
        problem: MappingProblem, budget: Budget, /, *args: Arguments.args, **kwargs: Arguments.kwargs
    ) -> Outcome[MappingT]:
        if not has_inner_steps(problem.architecture):
            return solve(problem, budget, *args, **kwargs)
        clock, deadline = Stopwatch(), Deadline(budget.wall_seconds)
        untimed = replace(problem, architecture=replace(problem.architecture, timing=None))
        outcome = solve(untimed, replace(budget, wall_seconds=budget.wall_seconds / 2), *args, **kwargs)
        bound = space_bound(problem)
        if outcome.solution is None:
            return outcome if outcome.status is Status.INFEASIBLE else replace(outcome, bound=bound)
        assert isinstance(outcome.solution, Mapping), "uneven levels are refused by the problem"
        # padding stays as it is: the descent is among the mappings of the layer that the answer executes
        rules = replace(problem.rules, padding=0.0, padded_dims=None)
        executed = replace(problem, layer=executed_layer(problem, outcome.solution), rules=rules)
        polish = Polish(executed, bound, lambda: deadline.left > 0)
        kicks = KICKS if budget.iterations is None else min(KICKS, budget.iterations)
        solution = polish.best([outcome.solution], kicks, budget.seed)
        counted = evaluate(problem.architecture, executed.layer, solution)
        objective = objective_of(counted, problem.objective)
        status, bound = proven(objective, min(bound, objective))
        return replace(
            outcome,
            status=status,
            solution=cast(MappingT, solution),
            objective=objective,
            bound=bound,
            cpu_seconds=clock.cpu_seconds,
            wall_seconds=clock.wall_seconds,
            evaluations=outcome.evaluations + polish.evaluations,
            note="; ".join(filter(None, [outcome.note, INNER_STEPS_NOTE])),
        )

    update_wrapper(improved, solve)
    return improved
