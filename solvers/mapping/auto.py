"""A portfolio: the exact solver, others beside it where that takes long, until the gap is small enough."""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Mapping as Dictionary
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import inf
from typing import Any

import numpy as np

from costmodel.errors import InputError
from costmodel.mapping.uneven import AnyMapping
from solvers.budget import Budget
from solvers.catalogue import Entry, solver
from solvers.checks import check, is_number
from solvers.mapping.problem import MappingProblem, refuse_precision
from solvers.mapping.space.layouts import over_layouts
from solvers.mapping.space.padding import over_padded_sizes
from solvers.mapping.space.space_bounds import space_bound
from solvers.mapping.untimed import improved_by_timed_cycles
from solvers.outcome import Outcome, Status, noting_limits, proven
from solvers.portfolio import MemberAnswer, best_of
from solvers.tolerance import within_tolerance

LEADER = "exact"
"""The member whose search is continued from turn to turn; the others begin anew in each turn."""

TURN_PARTS: Dictionary[str, float] = {"cosa": 0.5, "thistle": 0.6, "random_search": 1.0}
"""The other members, in the order of their turns. When the leader has had a turn, they get some seconds
together: each takes at most this fraction of what those before it have left."""

MEMBERS = (LEADER, *TURN_PARTS)

FIRST_TURN = 2.0
"""Wall seconds of the leader's first turn, within which most problems are proven: nothing else is tried."""

BESIDE = 0.5
"""What the other members may take together, as a part of what the leader has taken."""

VERSION = " ".join(["3", *(f"{name}-{solver(name).load().VERSION}" for name in MEMBERS)])
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


@noting_limits
@improved_by_timed_cycles
@over_layouts
@over_padded_sizes
def solve(problem: MappingProblem, budget: Budget, params: Params = Params()) -> Outcome[AnyMapping]:
    """The best answer and the best bound of all members asked; ``solved_by`` names whose answer it is.

    ``exact`` has the first turn. If it does not settle the problem (a gap of at most ``params.tolerance``) in
    ``FIRST_TURN`` seconds, the others have turns. Then ``exact`` goes on where it stopped, for as long as it
    has taken already, looking only below the best mapping by then; and so on until the problem is settled or
    the time is up.

    Why this costs little more than knowing the best member beforehand. The turns of the others are cut so
    that they never took more than ``BESIDE`` of the leader's seconds together. So where ``exact`` by itself
    settles a problem in T seconds, the portfolio takes at most (1 + BESIDE) T, and by how much a member
    overruns its last turn. Another member that needs t seconds by itself gets its turn of t as soon as the
    leader has taken t / (BESIDE * part), which the doubling exceeds at most twofold; the sum is below
    max(FIRST_TURN, 2 t / (BESIDE * part)) * (1 + BESIDE). ``benchmarks/portfolio.py`` measures both.

    Members that can start from a mapping get the best so far. What a member fails with is noted. Limits of
    ``budget.iterations`` are each member's own. The seconds are the sum of the members'. Problems that
    ``exact`` settles in its first turn have the same answer on every machine; those that need more turns
    depend on the clock, as turns are measured in seconds. Raises InputError for an architecture with a
    precision, of which some members know nothing.
    """
    refuse_precision(problem, "auto")
    others = tuple(solver(name) for name in TURN_PARTS if name in params.members)
    leader = solver(LEADER) if LEADER in params.members else None
    portfolio = Portfolio(problem, budget, params.tolerance)
    portfolio.run(leader, others)
    return portfolio.outcome()


@dataclass
class Portfolio:
    """What the members have answered so far, turn by turn, and what others failed with."""

    problem: MappingProblem
    budget: Budget
    tolerance: float
    answers: list[MemberAnswer[AnyMapping]] = field(default_factory=list)
    failures: dict[str, str] = field(default_factory=dict)
    _turns: dict[str, float] = field(default_factory=dict)
    """The wall seconds of the last turn of each member that begins anew."""
    _ended: set[str] = field(default_factory=set)
    """Members that another turn would not get further."""

    def run(self, leader: Entry | None, others: tuple[Entry, ...]) -> None:
        """Let the members have turns, the leader first, for as long as that can help."""
        search = (
            None
            if leader is None
            else leader.load().Solving(self.problem, self._params(leader), self.budget.iterations)
        )
        while leader is not None and not self._over(leader.name):
            self._continue(leader.name, search, self._leaders_turn(leader.name, bool(others)))
            if not self._over(leader.name):
                beside = BESIDE * self._spent(leader.name) - sum(self._spent(other.name) for other in others)
                self._ask_all(others, beside)
        self._ask_all(others, self._left)

    def _leaders_turn(self, leader: str, others: bool) -> float:
        """As long as it had by now; the first leaves half of the time to others."""
        if not self.answers:
            return min(FIRST_TURN, self._left / 2) if others else self._left
        # As long as it has had by now: so the others get their turns when the leader has taken 2, 4, 8, ...
        # s, and never wait for long after they have a right to one.
        return max(FIRST_TURN, self._spent(leader)) if others else self._left

    def _over(self, leader: str) -> bool:
        return self._settled or self._left <= 0 or leader in self._ended

    def _ask_all(self, members: tuple[Entry, ...], seconds: float) -> None:
        """Give each member that can use it its part of ``seconds``."""
        for member in members:
            # Without any answer somebody is asked even when the time is up: an answer that is late is better
            # than none.
            if self._settled or (self.answers and self._left <= 0):
                break
            turn = min(seconds, self._left) * TURN_PARTS.get(member.name, 1.0)
            # These members begin anew in each turn. When each turn is at least twice the one before, all
            # earlier ones together took no longer than the last, so beginning anew costs a factor of two at
            # most.
            if member.name in self._ended or turn < 2 * self._turns.get(member.name, 0.0):
                continue
            before = self._left
            self._ask(member, max(1e-6, turn))
            seconds -= before - self._left

    def _continue(self, name: str, search: Any, seconds: float) -> None:
        start = {} if self.best is None else {"start": self.best.outcome.solution}
        with self._noted(name):
            self.answers.append(MemberAnswer(name, search.go_on(min(seconds, self._left), **start)))
            if search.ended:
                self._ended.add(name)

    def _ask(self, member: Entry, seconds: float) -> None:
        start = {"start": self.best.outcome.solution} if member.takes_start and self.best else {}
        limit = replace(self.budget, wall_seconds=seconds)
        with self._noted(member.name):
            outcome = member.load().solve(self.problem, limit, self._params(member), **start)
            self.answers.append(MemberAnswer(member.name, outcome))
            self._turns[member.name] = seconds
            # It ended before its time did, so it has done all it can: more time would give the same answer.
            if outcome.wall_seconds < seconds:
                self._ended.add(member.name)

    @contextmanager
    def _noted(self, name: str) -> Iterator[None]:
        """What the member fails with is noted, and it is not asked again."""
        try:
            yield
        except FAILURES as failure:
            self._ended.add(name)
            self.failures[name] = f"{name} failed: {type(failure).__name__}: {failure}"

    def _params(self, member: Entry) -> Any:
        module = member.load()
        tolerated = "tolerance" in module.Params.__dataclass_fields__
        return module.Params(tolerance=self.tolerance) if tolerated else module.Params()

    def _spent(self, member: str) -> float:
        """Wall seconds of its turns."""
        return sum(answer.outcome.wall_seconds for answer in self.answers if answer.member == member)

    @property
    def _left(self) -> float:
        return self.budget.wall_seconds - sum(answer.outcome.wall_seconds for answer in self.answers)

    @property
    def best(self) -> MemberAnswer[AnyMapping] | None:
        """The first of the best answers; None if nobody has found a mapping."""
        return best_of(self.answers)

    @property
    def _infeasible(self) -> MemberAnswer[AnyMapping] | None:
        return next((a for a in self.answers if a.outcome.status is Status.INFEASIBLE), None)

    @property
    def _settled(self) -> bool:
        """Whether no other member needs to be asked."""
        if self.best is None:
            return self._infeasible is not None
        return within_tolerance(self.best.objective, self.bound, self.tolerance)

    @cached_property
    def _everywhere(self) -> float:
        return space_bound(self.problem)

    @property
    def bound(self) -> float:
        """The best of the proven bounds; those that a mapping contradicts are no proof."""
        objective = inf if self.best is None else self.best.objective
        # A bound above a mapping that the cost model has counted is wrong, whoever proved it. It is left out
        # and noted, as a portfolio must not fail for a member's mistake.
        bounds = [answer.bound for answer in self.answers if not self._contradicted(answer)]
        return min(objective, max([self._everywhere, *bounds]))

    def _contradicted(self, answer: MemberAnswer[AnyMapping]) -> bool:
        return self.best is not None and not self.best.outcome.admits(answer.bound)

    def outcome(self) -> Outcome[AnyMapping]:
        """The best answer with the best bound, and the seconds and evaluations of all members."""
        outcomes = [answer.outcome for answer in self.answers]
        last_notes = {answer.member: answer.outcome.note for answer in self.answers}
        notes = [f"{member}: {note}" for member, note in last_notes.items() if note]
        contradicted = dict.fromkeys(a.member for a in self.answers if self._contradicted(a))
        notes += [f"{member}: a mapping contradicts its bound" for member in contradicted]
        totals: dict[str, Any] = {
            "cpu_seconds": sum(outcome.cpu_seconds for outcome in outcomes),
            "wall_seconds": sum(outcome.wall_seconds for outcome in outcomes),
            "evaluations": sum(outcome.evaluations for outcome in outcomes),
            "note": "; ".join([*notes, *self.failures.values()]),
        }
        if best := self.best:
            status, bound = proven(best.objective, self.bound)
            return replace(best.outcome, status=status, bound=bound, solved_by=best.member, **totals)
        if infeasible := self._infeasible:
            return replace(infeasible.outcome, **totals)
        return Outcome(Status.UNKNOWN, None, None, self.bound, **totals)
