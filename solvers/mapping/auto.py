"""A portfolio: one mapping solver after the other, until the gap is small enough or the budget ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from math import inf, isfinite
from typing import Any

import numpy as np

from costmodel.errors import InputError
from costmodel.mapping import Mapping
from solvers.budget import Budget
from solvers.catalogue import Entry, solver
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space_bounds import space_bound
from solvers.outcome import Outcome, Status

MEMBERS: dict[str, float] = {"cosa": 0.25, "exact": 0.7, "thistle": 0.5, "random_search": 1.0}
"""The members in their order, and the share of the time left that each may take."""

VERSION = " ".join(["1", *(f"{name}-{solver(name).load().VERSION}" for name in MEMBERS)])
"""With those of the members: when an answer of theirs can change, so can this one's."""

FAILURES = (InputError, ImportError, ArithmeticError, MemoryError, np.linalg.LinAlgError)
"""What one member may fail with while others go on: rules it cannot honour, a library, numbers, memory."""

CONTRADICTION = 1e-9
"""A bound above a cost by more than this fraction is wrong, and not a matter of rounding."""


@dataclass(frozen=True)
class Params:
    """``tolerance``: the gap that is small enough. ``members``: the solvers asked, in this order."""

    tolerance: float = 0.0
    members: tuple[str, ...] = tuple(MEMBERS)

    def __post_init__(self) -> None:
        number = isinstance(self.tolerance, (int, float)) and not isinstance(self.tolerance, bool)
        if not number or not isfinite(self.tolerance) or not 0 <= self.tolerance < 1:
            raise InputError("auto", "a gap from 0 to below 1", self.tolerance, key="tolerance")
        listed = isinstance(self.members, (list, tuple)) and len(self.members) > 0
        if not listed or not set(self.members) <= set(MEMBERS):
            expected = f"some of {', '.join(MEMBERS)}"
            raise InputError("auto", expected, self.members, key="members")
        object.__setattr__(self, "members", tuple(self.members))


def solve(problem: MappingProblem, budget: Budget, params: Params = Params()) -> Outcome[Mapping]:
    """The best answer and the best bound of all members asked; ``solved_by`` names whose answer it is.

    Members that can start from a mapping get the best so far. What a member fails with is noted. Limits of
    ``budget.iterations`` are each member's own. The seconds are the sum of the members'.
    """
    portfolio = Portfolio(problem, budget, params.tolerance)
    portfolio.run([solver(name) for name in params.members])
    return portfolio.outcome()


@dataclass
class Portfolio:
    """What the members have answered so far, by name, and what the others failed with."""

    problem: MappingProblem
    budget: Budget
    tolerance: float
    answers: dict[str, Outcome[Mapping]] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)

    def run(self, members: Iterable[Entry]) -> None:
        """Ask one member after the other for as long as that can help."""
        for member in members:
            left = self.budget.wall_seconds - sum(a.wall_seconds for a in self.answers.values())
            if self._settled or (self.answers and left <= 0):
                break
            share = replace(self.budget, wall_seconds=max(1e-6, left * MEMBERS[member.name]))
            try:
                self.answers[member.name] = self._ask(member, share)
            except FAILURES as failure:
                self.failures.append(f"{member.name} failed: {type(failure).__name__}: {failure}")

    def _ask(self, member: Entry, budget: Budget) -> Outcome[Mapping]:
        module = member.load()
        tolerated = "tolerance" in module.Params.__dataclass_fields__
        params = module.Params(tolerance=self.tolerance) if tolerated else module.Params()
        start = {"start": self.best.solution} if member.takes_start and self.best else {}
        outcome: Outcome[Mapping] = module.solve(self.problem, budget, params, **start)
        return outcome

    @property
    def winner(self) -> str:
        """The first member with the best answer; empty if there is none."""
        objectives = {name: a.objective for name, a in self.answers.items() if a.objective is not None}
        return min(objectives, key=lambda name: objectives[name], default="")

    @property
    def best(self) -> Outcome[Mapping] | None:
        return self.answers.get(self.winner)

    @property
    def _infeasible(self) -> Outcome[Mapping] | None:
        return next((a for a in self.answers.values() if a.status is Status.INFEASIBLE), None)

    @property
    def _settled(self) -> bool:
        """Whether no other member needs to be asked."""
        if self.best is None or self.best.objective is None:
            return self._infeasible is not None
        return self.best.objective - self.bound <= self.tolerance * self.best.objective

    @property
    def bound(self) -> float:
        """The best of the proven bounds; those that a mapping contradicts are no proof."""
        objective = inf if self.best is None or self.best.objective is None else self.best.objective
        proven = [a.bound for a in self.answers.values() if a.bound is not None]
        believable = [bound for bound in proven if bound <= objective * (1 + CONTRADICTION)]
        return min(objective, max([space_bound(self.problem), *believable]))

    def outcome(self) -> Outcome[Mapping]:
        """The best answer with the best bound, and the seconds and evaluations of all members."""
        answer = self.best or self._infeasible
        notes = [f"{name}: {a.note}" for name, a in self.answers.items() if a.note]
        totals: dict[str, Any] = {
            "cpu_seconds": sum(a.cpu_seconds for a in self.answers.values()),
            "wall_seconds": sum(a.wall_seconds for a in self.answers.values()),
            "evaluations": sum(a.evaluations for a in self.answers.values()),
            "note": "; ".join([*notes, *self.failures]),
        }
        if answer is None:
            return Outcome(Status.UNKNOWN, None, None, self.bound, **totals)
        if answer.objective is None:
            return replace(answer, **totals)
        status = Status.OPTIMAL if answer.objective <= self.bound else Status.FEASIBLE
        return replace(answer, status=status, bound=self.bound, solved_by=self.winner, **totals)
