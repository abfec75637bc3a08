"""What every solver returns: a status, a solution, and how certain it is."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import wraps
from math import inf
from typing import Generic, ParamSpec, TypeVar

from costmodel.limits import Limit, recording, report
from solvers.tolerance import contradicts, within_tolerance

Arguments = ParamSpec("Arguments")
SolutionT = TypeVar("SolutionT")


class ContradictionError(ArithmeticError):
    """A bound is above the cost of an answer, or is NaN: the solver's proof or its answer is wrong."""


class Status(StrEnum):
    """What is known of an answer. OPTIMAL and INFEASIBLE are proven, FEASIBLE is an answer without a proof.

    The proof is about the cost model's objective, never about a solver's own surrogate of it.
    """

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Outcome(Generic[SolutionT]):
    """The answer of one solve.

    ``objective`` is the cost model's, evaluated anew. ``bound`` is a proven lower bound on the same
    objective, or None; one above it raises ContradictionError. ``cpu_seconds`` are those of the solving
    process. ``note`` explains; that of an INFEASIBLE outcome names the constraint and its numbers.
    ``program_proven``: whether the solver's own program, such as an integer program, was solved to proven
    optimality; None: it has no such program. ``evaluations`` counts what the solver evaluated. ``solved_by``
    names the member of a portfolio that found the solution.
    """

    status: Status
    solution: SolutionT | None
    objective: float | None
    bound: float | None
    cpu_seconds: float
    wall_seconds: float
    note: str = ""
    program_proven: bool | None = None
    evaluations: int = 0
    solved_by: str = ""

    def __post_init__(self) -> None:
        # Checked here and not in each solver: an outcome that contradicts itself must not reach the store,
        # from which later studies would take it.
        answered = self.status in (Status.OPTIMAL, Status.FEASIBLE)
        if answered != (self.solution is not None) or answered != (self.objective is not None):
            raise ValueError(f"status {self.status} does not go with solution {self.solution!r}")
        if self.status is Status.INFEASIBLE and not self.note:
            raise ValueError("an infeasible outcome must say which constraint cannot be met")
        if self.bound is not None and not self.admits(self.bound):
            raise ContradictionError(f"a proven bound of {self.bound} for an answer of {self.objective}")

    def admits(self, bound: float) -> bool:
        """Whether ``bound`` can be a lower bound: there is no answer, or its cost is not below it."""
        return not contradicts(inf if self.objective is None else self.objective, bound)

    @property
    def gap(self) -> float | None:
        """(objective - bound) / |objective|, or None without an objective or a bound."""
        if self.objective is None or self.bound is None:
            return None
        if self.objective == self.bound:  # both may be 0, as bytes spilled are where nothing has to be
            return 0.0
        return (self.objective - self.bound) / abs(self.objective)


def proven(objective: float, bound: float) -> tuple[Status, float]:
    """The status and bound of an answer with a proven ``bound``.

    Where the two differ only by rounding, the answer is OPTIMAL, and its bound is the objective itself.
    """
    if within_tolerance(objective, bound, 0.0):
        return Status.OPTIMAL, objective
    return Status.FEASIBLE, bound


def noting_limits(
    solve: Callable[Arguments, Outcome[SolutionT]],
) -> Callable[Arguments, Outcome[SolutionT]]:
    """Decorates a solver: the note of its outcome names the limits reached, in its code or what it calls.

    A proven outcome (OPTIMAL, INFEASIBLE) names only limits that narrow the question: the others took nothing
    from it.
    """

    @wraps(solve)
    def noted(*args: Arguments.args, **kwargs: Arguments.kwargs) -> Outcome[SolutionT]:
        with recording() as reached:
            outcome = solve(*args, **kwargs)
        return with_limits(outcome, reached)

    return noted


def with_limits(outcome: Outcome[SolutionT], reached: Iterable[Limit]) -> Outcome[SolutionT]:
    """The outcome with the limits that were reached for it in its note, each once; see :func:`noting_limits`.

    They are also reported to the block outside: a solver that asked for this outcome has to name them, too.
    """
    ended = outcome.status in (Status.OPTIMAL, Status.INFEASIBLE)
    told = [limit for limit in reached if limit.narrows or not ended]
    for limit in told:
        report(limit)
    new = [str(limit) for limit in told if str(limit) not in outcome.note]
    return replace(outcome, note="; ".join([*filter(None, [outcome.note]), *new])) if new else outcome
