"""A portfolio: one mapping solver after the other, until the gap is small enough or the budget ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf
from typing import Any

import numpy as np

from costmodel.errors import InputError
from costmodel.mapping import Mapping
from solvers.budget import Budget
from solvers.catalogue import Entry, solver
from solvers.checks import check, is_number
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space_bounds import space_bound
from solvers.outcome import Outcome, Status

TURNS = (("exact", 0.5), ("cosa", 0.3), ("exact", 0.7), ("thistle", 0.5), ("random_search", 1.0))
"""Who is asked in which order, and the share of the time left that may take.

Most problems are proven in the first turn; where they are not, the second one begins with CoSA's mapping.
"""

MEMBERS = tuple(dict.fromkeys(name for name, _ in TURNS))

VERSION = " ".join(["2", *(f"{name}-{solver(name).load().VERSION}" for name in MEMBERS)])
"""With those of the members: when an answer of theirs can change, so can this one's."""

FAILURES = (InputError, ImportError, ArithmeticError, MemoryError, np.linalg.LinAlgError)
"""What one member may fail with while others go on: rules it cannot honour, a library, numbers (a bound above
its own answer is one of these), memory."""


@dataclass(frozen=True)
class Params:
    """``tolerance``: the gap that is small enough. ``members``: the solvers that take part."""

    tolerance: float = 0.0
    members: tuple[str, ...] = MEMBERS

    def __post_init__(self) -> None:
        right = is_number(self.tolerance, 0, 1) and self.tolerance < 1
        check("auto", "tolerance", right, "a gap from 0 to below 1", self.tolerance)
        listed = isinstance(self.members, (list, tuple)) and len(self.members) > 0
        known = listed and all(member in MEMBERS for member in self.members)
        check("auto", "members", known, f"some of {', '.join(MEMBERS)}", self.members)
        object.__setattr__(self, "members", tuple(self.members))


def solve(problem: MappingProblem, budget: Budget, params: Params = Params()) -> Outcome[Mapping]:
    """The best answer and the best bound of all members asked; ``solved_by`` names whose answer it is.

    Members that can start from a mapping get the best so far. What a member fails with is noted. Limits of
    ``budget.iterations`` are each member's own. The seconds are the sum of the members'.
    """
    portfolio = Portfolio(problem, budget, params.tolerance)
    portfolio.run([(solver(name), share) for name, share in TURNS if name in params.members])
    return portfolio.outcome()


@dataclass(frozen=True)
class Answer:
    """What ``member`` answered in one turn."""

    member: str
    outcome: Outcome[Mapping]

    @property
    def objective(self) -> float:
        """Infinite without a mapping."""
        return inf if self.outcome.objective is None else self.outcome.objective

    @property
    def bound(self) -> float:
        """0 if nothing is proven."""
        return self.outcome.bound or 0.0


@dataclass
class Portfolio:
    """What the members have answered so far, turn by turn, and what others failed with."""

    problem: MappingProblem
    budget: Budget
    tolerance: float
    answers: list[Answer] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)

    def run(self, turns: Iterable[tuple[Entry, float]]) -> None:
        """Ask one member after the other for as long as that can help; none again that failed."""
        for member, share in turns:
            left = self.budget.wall_seconds - sum(answer.outcome.wall_seconds for answer in self.answers)
            if self._settled or (self.answers and left <= 0):
                break
            if member.name in self.failures:
                continue
            limit = replace(self.budget, wall_seconds=max(1e-6, left * share))
            try:
                self.answers.append(Answer(member.name, self._ask(member, limit)))
            except FAILURES as failure:
                self.failures[member.name] = f"{member.name} failed: {type(failure).__name__}: {failure}"

    def _ask(self, member: Entry, budget: Budget) -> Outcome[Mapping]:
        module = member.load()
        tolerated = "tolerance" in module.Params.__dataclass_fields__
        params = module.Params(tolerance=self.tolerance) if tolerated else module.Params()
        start = {"start": self.best.outcome.solution} if member.takes_start and self.best else {}
        outcome: Outcome[Mapping] = module.solve(self.problem, budget, params, **start)
        return outcome

    @property
    def best(self) -> Answer | None:
        """The first of the best answers; None if nobody has found a mapping."""
        best = min(self.answers, key=lambda answer: answer.objective, default=None)
        return None if best is None or best.objective == inf else best

    @property
    def _infeasible(self) -> Answer | None:
        return next((a for a in self.answers if a.outcome.status is Status.INFEASIBLE), None)

    @property
    def _settled(self) -> bool:
        """Whether no other member needs to be asked."""
        if self.best is None:
            return self._infeasible is not None
        return self.best.objective - self.bound <= self.tolerance * self.best.objective

    @property
    def bound(self) -> float:
        """The best of the proven bounds; those that a mapping contradicts are no proof."""
        objective = inf if self.best is None else self.best.objective
        proven = [answer.bound for answer in self.answers if not self._contradicted(answer)]
        return min(objective, max([space_bound(self.problem), *proven]))

    def _contradicted(self, answer: Answer) -> bool:
        return self.best is not None and not self.best.outcome.admits(answer.bound)

    def outcome(self) -> Outcome[Mapping]:
        """The best answer with the best bound, and the seconds and evaluations of all members."""
        outcomes = [answer.outcome for answer in self.answers]
        last_notes = {answer.member: answer.outcome.note for answer in self.answers}
        notes = [f"{member}: {note}" for member, note in last_notes.items() if note]
        notes += [
            f"{a.member}: a mapping contradicts its bound" for a in self.answers if self._contradicted(a)
        ]
        totals: dict[str, Any] = {
            "cpu_seconds": sum(outcome.cpu_seconds for outcome in outcomes),
            "wall_seconds": sum(outcome.wall_seconds for outcome in outcomes),
            "evaluations": sum(outcome.evaluations for outcome in outcomes),
            "note": "; ".join([*notes, *self.failures.values()]),
        }
        if best := self.best:
            status = Status.OPTIMAL if best.objective <= self.bound else Status.FEASIBLE
            return replace(best.outcome, status=status, bound=self.bound, solved_by=best.member, **totals)
        if infeasible := self._infeasible:
            return replace(infeasible.outcome, **totals)
        return Outcome(Status.UNKNOWN, None, None, self.bound, **totals)
