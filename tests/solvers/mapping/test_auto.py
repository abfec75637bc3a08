"""The portfolio with members of paper: who is asked, who wins, what is proven, what fails."""

from __future__ import annotations

from dataclasses import dataclass, replace
from itertools import pairwise
from types import SimpleNamespace
from typing import Any

import pytest

from costmodel.errors import InputError
from costmodel.formats.architectures import load_architecture
from costmodel.formats.networks import load_layer
from costmodel.mapping.mapping import Mapping
from costmodel.mapping.uneven import AnyMapping
from solvers.budget import Budget
from solvers.catalogue import Entry
from solvers.mapping import auto, cosa
from solvers.mapping.auto import BESIDE, FIRST_TURN, LEADER, MEMBERS, TURN_PARTS, Params, Portfolio
from solvers.mapping.problem import MappingProblem, violations
from solvers.mapping.space.space_bounds import space_bound
from solvers.outcome import Outcome, Status

NOTHING = Mapping(())
WHOLE_TURN = -1.0
"""Seconds of an answer that uses up its turn."""
SECONDS = 100.0
"""Of a portfolio."""


@dataclass(frozen=True)
class Paper(Entry):
    """A member that answers what it is told to, in every turn; ``asked`` keeps what it was asked with.

    As the leader it has ended when its ``turns`` are used up.
    """

    answer: Any = None
    asked: Any = None
    turns: int = 1

    def load(self) -> Any:
        return SimpleNamespace(Params=cosa.Params, solve=self._solve, Solving=lambda *_: PaperSearch(self))

    def _solve(self, problem: MappingProblem, budget: Budget, params: Any, **more: Any) -> Outcome[Mapping]:
        return self.reply(budget.wall_seconds, more)

    def reply(self, seconds: float, more: dict[str, Any]) -> Outcome[Mapping]:
        self.asked.append((seconds, more))
        if isinstance(self.answer, Exception):
            raise self.answer
        if self.answer.wall_seconds == WHOLE_TURN:
            return replace(self.answer, cpu_seconds=seconds, wall_seconds=seconds)
        return self.answer  # type: ignore[no-any-return]


@dataclass
class PaperSearch:
    """A leader's search."""

    paper: Paper

    def go_on(self, seconds: float, **more: Any) -> Outcome[Mapping]:
        return self.paper.reply(seconds, more)

    @property
    def ended(self) -> bool:
        return len(self.paper.asked) >= self.paper.turns


def paper(name: str, answer: Any, takes_start: bool = False, turns: int = 1) -> Paper:
    return Paper(name, "mapping", "", (), "", takes_start=takes_start, answer=answer, asked=[], turns=turns)


def found(objective: float, bound: float | None, seconds: float = 0.125) -> Outcome[Mapping]:
    status = Status.OPTIMAL if objective == bound else Status.FEASIBLE
    return Outcome(status, NOTHING, objective, bound, seconds, seconds, evaluations=3)


def unknown(note: str = "nothing found") -> Outcome[Mapping]:
    return Outcome(Status.UNKNOWN, None, None, None, 0.125, 0.125, note)


@pytest.fixture
def roof(small_problem: MappingProblem) -> float:
    return space_bound(small_problem)


def run(problem: MappingProblem, members: list[Paper], tolerance: float = 0.0) -> Outcome[AnyMapping]:
    """Of the members ``exact`` leads."""
    leader = next((member for member in members if member.name == "exact"), None)
    portfolio = Portfolio(problem, Budget(SECONDS), tolerance)
    portfolio.run(leader, tuple(member for member in members if member is not leader))
    return portfolio.outcome()


def test_the_best_answer_and_the_best_bound_may_be_of_two_members(
    small_problem: MappingProblem, roof: float
) -> None:
    members = [
        paper("cosa", found(5 * roof, 2 * roof)),
        paper("exact", replace(found(6 * roof, 4 * roof), note="not proven in 7 s")),
        paper("thistle", unknown()),
    ]
    outcome = run(small_problem, members)
    assert (outcome.objective, outcome.bound, outcome.solved_by) == (5 * roof, 4 * roof, "cosa")
    assert outcome.status is Status.FEASIBLE
    assert outcome.gap == pytest.approx(0.2)
    assert (outcome.cpu_seconds, outcome.wall_seconds, outcome.evaluations) == (0.375, 0.375, 6)
    assert outcome.note == "exact: not proven in 7 s; thistle: nothing found"


@pytest.mark.parametrize(("tolerance", "asked"), [(0.0, 3), (0.1, 2), (0.5, 1)])
def test_it_stops_at_the_tolerance(
    small_problem: MappingProblem, roof: float, tolerance: float, asked: int
) -> None:
    members = [
        paper("exact", found(4 * roof, 2 * roof)),
        paper("cosa", found(3 * roof, 2.8 * roof)),
        paper("thistle", found(3 * roof, 3 * roof)),
        paper("random_search", found(1 * roof, roof)),
    ]
    outcome = run(small_problem, members, tolerance)
    assert [len(member.asked) for member in members] == [1] * asked + [0] * (4 - asked)
    assert outcome.gap is not None
    assert outcome.gap <= tolerance
    assert (outcome.status is Status.OPTIMAL) == (tolerance == 0)


@pytest.mark.parametrize("tolerance", [0.01, 0.05, 0.1, 0.2])
def test_a_gap_of_the_tolerance_and_a_last_digit_is_settled(
    small_problem: MappingProblem, roof: float, tolerance: float
) -> None:
    """1 - tolerance is not exact in binary: of many objectives times it a gap is above by its last digit."""
    for step in range(50):
        objective = roof * (2 + step / 7)
        stopped = paper("exact", found(objective, objective * (1 - tolerance)))
        other = paper("cosa", found(roof, roof))
        run(small_problem, [stopped, other], tolerance)
        assert other.asked == []


def test_others_have_turns_only_after_the_leader_and_shorter_ones(
    small_problem: MappingProblem, roof: float
) -> None:
    open_ = replace(found(3 * roof, roof), wall_seconds=WHOLE_TURN)
    members = [
        paper("exact", open_, turns=99),
        paper("cosa", open_),
        paper("thistle", open_),
        paper("random_search", open_),
    ]
    outcome = run(small_problem, members)
    turns = {member.name: [seconds for seconds, _ in member.asked] for member in members}
    first, *later = turns["exact"]
    assert first == FIRST_TURN
    # The leader's turns double what it has had; the last one is cut by the budget.
    assert later[:3] == pytest.approx([2.0, 4.0, 8.0])
    assert turns["cosa"][0] == pytest.approx(BESIDE * FIRST_TURN * TURN_PARTS["cosa"])
    for name in TURN_PARTS:
        assert all(b >= 2 * a for a, b in pairwise(turns[name]))
    assert outcome.wall_seconds == pytest.approx(SECONDS)


@pytest.mark.parametrize("needed", [0.5, 3.0, 9.0, 40.0])
def test_what_the_leader_alone_settles_takes_at_most_half_as_long_again(
    small_problem: MappingProblem, roof: float, needed: float
) -> None:
    """Whatever the others do with their turns."""
    open_ = replace(found(3 * roof, roof), wall_seconds=WHOLE_TURN)
    leader = Sprinter("exact", "mapping", "", (), "", asked=[], turns=10**6, needed=needed, cost=3 * roof)
    outcome = run(small_problem, [leader, paper("cosa", open_), paper("random_search", open_)])
    assert outcome.status is Status.OPTIMAL
    assert outcome.wall_seconds <= (1 + BESIDE) * needed * (1 + 1e-9)


@dataclass(frozen=True)
class Sprinter(Paper):
    """A leader that has proven its mapping when it has had ``needed`` seconds."""

    needed: float = 0.0
    cost: float = 0.0

    def reply(self, seconds: float, more: dict[str, Any]) -> Outcome[Mapping]:
        taken = min(seconds, self.needed - sum(before for before, _ in self.asked))
        self.asked.append((taken, more))
        done = sum(before for before, _ in self.asked) >= self.needed
        return found(self.cost, self.cost if done else self.cost / 2, taken)


def test_members_that_take_one_begin_with_the_incumbent(small_problem: MappingProblem, roof: float) -> None:
    members = [
        paper("exact", replace(found(5 * roof, roof), wall_seconds=WHOLE_TURN), turns=2),
        paper("cosa", found(4 * roof, roof)),
        paper("thistle", found(3 * roof, roof), takes_start=True),
    ]
    outcome = run(small_problem, members)
    assert [more for _, more in members[0].asked] == [{}, {"start": NOTHING}]
    assert [more for _, more in members[1].asked] == [{}]
    assert [more for _, more in members[2].asked] == [{"start": NOTHING}]
    assert outcome.solved_by == "thistle"


FAILURES = [
    InputError("rules", "perfect factors", "padding"),
    ImportError("no clarabel"),
    MemoryError("full"),
]


@pytest.mark.parametrize("failure", FAILURES, ids=lambda failure: type(failure).__name__)
def test_a_failure_is_noted_and_the_others_go_on(
    small_problem: MappingProblem, roof: float, failure: Exception
) -> None:
    outcome = run(small_problem, [paper("exact", failure), paper("cosa", found(2 * roof, roof))])
    assert outcome.solved_by == "cosa"
    assert outcome.note == f"exact failed: {type(failure).__name__}: {failure}"


def test_a_mistake_in_the_code_is_not_hidden(small_problem: MappingProblem) -> None:
    with pytest.raises(AttributeError):
        run(small_problem, [paper("exact", AttributeError("typo"))])


def test_nobody_answers(small_problem: MappingProblem, roof: float) -> None:
    outcome = run(small_problem, [paper("cosa", unknown()), paper("exact", MemoryError("full"))])
    assert (outcome.status, outcome.bound, outcome.solved_by) == (Status.UNKNOWN, roof, "")
    assert outcome.note == "cosa: nothing found; exact failed: MemoryError: full"


def test_a_proof_of_infeasibility_ends_it(small_problem: MappingProblem) -> None:
    infeasible = Outcome[Mapping](Status.INFEASIBLE, None, None, None, 0.0, 0.0, "Buffer: too small")
    last = paper("cosa", unknown())
    outcome = run(small_problem, [paper("exact", infeasible), last])
    assert (outcome.status, outcome.bound, last.asked) == (Status.INFEASIBLE, None, [])
    assert "Buffer: too small" in outcome.note


def test_a_bound_that_a_mapping_contradicts_proves_nothing(
    small_problem: MappingProblem, roof: float
) -> None:
    seen = paper("exact", found(4 * roof, roof))
    caught = run(small_problem, [seen, paper("cosa", found(5 * roof, 5 * roof))])
    assert (caught.objective, caught.bound, caught.status) == (4 * roof, roof, Status.FEASIBLE)
    assert caught.note == "cosa: a mapping contradicts its bound"
    rounded = 4 * roof * (1 + 1e-13)
    assert run(small_problem, [seen, paper("cosa", found(rounded, rounded))]).gap == 0


def test_who_failed_is_not_asked_again(small_problem: MappingProblem, roof: float) -> None:
    exact = paper("exact", MemoryError("full"))
    outcome = run(small_problem, [exact, paper("cosa", found(3 * roof, roof)), exact])
    assert len(exact.asked) == 1
    assert outcome.note == "exact failed: MemoryError: full"


def test_the_last_member_may_take_all_that_is_left() -> None:
    assert set(MEMBERS) == {LEADER, *TURN_PARTS}
    assert all(0 < part <= 1 for part in TURN_PARTS.values())
    assert list(TURN_PARTS.values())[-1] == 1


@pytest.mark.slow
def test_a_real_layer_is_proven_by_whoever_is_asked() -> None:
    problem = MappingProblem(load_architecture("eyeriss"), load_layer("resnet18/layer1.0.conv1"), "energy")
    alone = cosa.solve(problem, Budget())
    outcome = auto.solve(problem, Budget())
    assert outcome.status is Status.OPTIMAL
    assert outcome.solution is not None
    assert violations(problem, outcome.solution) == []
    assert alone.objective is not None
    assert outcome.objective is not None
    assert outcome.objective <= alone.objective
    assert outcome.solved_by in MEMBERS
    others = auto.solve(problem, Budget(), Params(tolerance=0.2, members=("thistle", "cosa")))
    assert others.solved_by == "cosa"


@pytest.mark.parametrize(
    "given", [{"tolerance": 1.0}, {"tolerance": True}, {"members": []}, {"members": ["gamma"]}]
)
def test_wrong_parameters(given: dict[str, Any]) -> None:
    (key,) = given
    with pytest.raises(InputError, match=f"auto: {key}: expected"):
        Params(**given)
