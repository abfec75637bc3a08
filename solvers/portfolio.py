"""What portfolios of mapping and of schedule solvers have in common: answers of members, and the best one."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import inf
from typing import Generic

from solvers.outcome import Outcome, SolutionT


@dataclass(frozen=True)
class MemberAnswer(Generic[SolutionT]):
    """What ``member`` answered in one turn."""

    member: str
    outcome: Outcome[SolutionT]

    @property
    def objective(self) -> float:
        """Infinite without a solution."""
        return inf if self.outcome.objective is None else self.outcome.objective

    @property
    def bound(self) -> float:
        """0 if nothing is proven."""
        return self.outcome.bound or 0.0

    @property
    def solution(self) -> SolutionT:
        """That of an answer that has one."""
        assert self.outcome.solution is not None
        return self.outcome.solution


def best_of(answers: Iterable[MemberAnswer[SolutionT]]) -> MemberAnswer[SolutionT] | None:
    """The first of the best answers; None if no member has found a solution."""
    best = min(answers, key=lambda answer: answer.objective, default=None)
    return None if best is None or best.objective == inf else best
