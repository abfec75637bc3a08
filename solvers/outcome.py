"""What every solver returns: a status, a solution, and how certain it is."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

SolutionT = TypeVar("SolutionT")


class Status(StrEnum):
    """OPTIMAL is a proof on the cost model's objective, never on a solver's own surrogate."""

    OPTIMAL = "optimal"
    FEASIBLE = "feasible"
    INFEASIBLE = "infeasible"
    UNKNOWN = "unknown"


@dataclass(frozen=True)
class Outcome(Generic[SolutionT]):
    """The answer of one solve.

    ``objective`` is the cost model's, re-evaluated; ``bound`` a proven lower bound on the same objective
    or None; ``program_proven`` whether the solver's own program was solved to proven optimality (None:
    it has none); ``note`` explains (an INFEASIBLE one names the constraint and its numbers); times in
    seconds, ``cpu_seconds`` of the solving process; ``solved_by`` names the member of a portfolio that found
    the solution.
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
        answered = self.status in (Status.OPTIMAL, Status.FEASIBLE)
        if answered != (self.solution is not None) or answered != (self.objective is not None):
            raise ValueError(f"status {self.status} does not go with solution {self.solution!r}")
        if self.status is Status.INFEASIBLE and not self.note:
            raise ValueError("an infeasible outcome must say which constraint cannot be met")

    @property
    def gap(self) -> float | None:
        """(objective - bound) / |objective|, or None without an objective or a bound."""
        if self.objective is None or self.bound is None:
            return None
        if self.objective == self.bound:
            return 0.0
        return (self.objective - self.bound) / abs(self.objective)
