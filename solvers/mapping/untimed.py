"""What solvers say that do not minimise the timed cycles of a machine with timing."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import wraps
from typing import Concatenate, ParamSpec, cast

from costmodel.mapping.mapping import Mapping
from solvers.mapping.problem import MappingProblem
from solvers.outcome import Outcome, Status

Arguments = ParamSpec("Arguments")
Solve = Callable[Concatenate[MappingProblem, Arguments], Outcome[Mapping]]

NOTE = (
    "looked for mappings by cycles without the architecture's timing; the timed cycles judged what it found"
)


def guided_by_untimed_cycles(solve: Solve[Arguments]) -> Solve[Arguments]:
    """Decorates a solver whose own objective knows no timing; its outcomes say so where timing matters.

    The objective and the bound of the outcome are about timed cycles all the same, as is the polish. An
    answer that is proven to be the best needs no note.
    """

    @wraps(solve)
    def noted(problem: MappingProblem, *args: Arguments.args, **kwargs: Arguments.kwargs) -> Outcome[Mapping]:
        outcome = solve(problem, *args, **kwargs)
        matters = problem.architecture.timing is not None and problem.objective != "energy"
        if not matters or outcome.status is not Status.FEASIBLE:
            return outcome
        return replace(outcome, note="; ".join(filter(None, [outcome.note, NOTE])))

    return cast(Solve[Arguments], noted)
