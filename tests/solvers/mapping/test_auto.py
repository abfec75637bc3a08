"""The portfolio with members of paper: who is asked, who wins, what is proven, what fails."""

from __future__ import annotations

from dataclasses import dataclass, replace
from types import SimpleNamespace
from typing import Any

import pytest

from costmodel.architectures import load_architecture
from costmodel.errors import InputError
from costmodel.mapping import Mapping
from costmodel.networks import load_layer
from solvers.budget import Budget
from solvers.catalogue import Entry
from solvers.mapping import auto, cosa
from solvers.mapping.auto import MEMBERS, TURNS, Params, Portfolio
from solvers.mapping.problem import MappingProblem, violations
from solvers.mapping.space_bounds import space_bound
from solvers.outcome import Outcome, Status

NOTHING = Mapping(())
SHARE = 0.5


@dataclass(frozen=True)
class Paper(Entry):
    """A member that answers what it is told to; ``asked`` keeps what it was asked with."""

    answer: Any = None
    asked: Any = None

    def load(self) -> Any:
        return SimpleNamespace(Params=cosa.Params, solve=self._solve)

    def _solve(self, problem: MappingProblem, budget: Budget, params: Any, **more: Any) -> Outcome[Mapping]:
        self.asked.append((budget.wall_seconds, more))
        if isinstance(self.answer, Exception):
            raise self.answer
        return self.answer  # type: ignore[no-any-return]


def paper(name: str, answer: Any, takes_start: bool = False) -> Paper:
    return Paper(name, "mapping", "", (), False, "", takes_start, answer=answer, asked=[])


def found(objective: float, bound: float | None, seconds: float = 1.0) -> Outcome[Mapping]:
    status = Status.OPTIMAL if objective == bound else Status.FEASIBLE
    return Outcome(status, NOTHING, objective, bound, seconds, seconds, evaluations=3)


def unknown(note: str = "nothing found") -> Outcome[Mapping]:
    return Outcome(Status.UNKNOWN, None, None, None, 1.0, 1.0, note)


@pytest.fixture
def roof(small_problem: MappingProblem) -> float:
    return space_bound(small_problem)


def run(problem: MappingProblem, members: list[Paper], tolerance: float = 0.0) -> Outcome[Mapping]:
    portfolio = Portfolio(problem, Budget(10), tolerance)
    portfolio.run([(member, SHARE) for member in members])
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
    assert (outcome.cpu_seconds, outcome.wall_seconds, outcome.evaluations) == (3.0, 3.0, 6)
    assert outcome.note == "exact: not proven in 7 s; thistle: nothing found"


@pytest.mark.parametrize(("tolerance", "asked"), [(0.0, 3), (0.1, 2), (0.5, 1)])
def test_it_stops_at_the_tolerance(
    small_problem: MappingProblem, roof: float, tolerance: float, asked: int
) -> None:
    members = [
        paper("cosa", found(4 * roof, 2 * roof)),
        paper("exact", found(3 * roof, 2.8 * roof)),
        paper("thistle", found(3 * roof, 3 * roof)),
        paper("random_search", found(1 * roof, roof)),
    ]
    outcome = run(small_problem, members, tolerance)
    assert [len(member.asked) for member in members] == [1] * asked + [0] * (4 - asked)
    assert outcome.gap is not None
    assert outcome.gap <= tolerance
    assert (outcome.status is Status.OPTIMAL) == (tolerance == 0)


def test_members_get_their_share_and_the_incumbent(small_problem: MappingProblem, roof: float) -> None:
    members = [
        paper("cosa", found(4 * roof, roof, seconds=2.0)),
        paper("exact", found(3 * roof, roof, seconds=5.0), takes_start=True),
        paper("random_search", found(5 * roof, roof, seconds=3.0)),
        paper("thistle", found(2 * roof, roof)),
    ]
    outcome = run(small_problem, members)
    shares = [member.asked[0][0] for member in members if member.asked]
    assert shares == pytest.approx([10 * SHARE, 8 * SHARE, 3 * SHARE])
    assert members[1].asked[0][1] == {"start": NOTHING}
    assert members[2].asked[0][1] == {}
    assert outcome.solved_by == "exact"


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
    last = paper("exact", unknown())
    outcome = run(small_problem, [paper("cosa", infeasible), last])
    assert (outcome.status, outcome.bound, last.asked) == (Status.INFEASIBLE, None, [])
    assert "Buffer: too small" in outcome.note


def test_a_bound_that_a_mapping_contradicts_proves_nothing(
    small_problem: MappingProblem, roof: float
) -> None:
    seen = paper("cosa", found(4 * roof, roof))
    caught = run(small_problem, [seen, paper("exact", found(5 * roof, 5 * roof))])
    assert (caught.objective, caught.bound, caught.status) == (4 * roof, roof, Status.FEASIBLE)
    assert caught.note == "exact: a mapping contradicts its bound"
    rounded = 4 * roof * (1 + 1e-13)
    assert run(small_problem, [seen, paper("exact", found(rounded, rounded))]).gap == 0


def test_a_second_turn_begins_with_the_best_of_the_first(small_problem: MappingProblem, roof: float) -> None:
    exact = paper("exact", replace(found(4 * roof, 2 * roof), note="not proven in time"), takes_start=True)
    outcome = run(small_problem, [exact, paper("cosa", found(3 * roof, roof)), exact])
    assert [more for _, more in exact.asked] == [{}, {"start": NOTHING}]
    assert (outcome.objective, outcome.bound, outcome.solved_by) == (3 * roof, 2 * roof, "cosa")
    assert (outcome.wall_seconds, outcome.note) == (3.0, "exact: not proven in time")


def test_who_failed_is_not_asked_again(small_problem: MappingProblem, roof: float) -> None:
    exact = paper("exact", MemoryError("full"))
    outcome = run(small_problem, [exact, paper("cosa", found(3 * roof, roof)), exact])
    assert len(exact.asked) == 1
    assert outcome.note == "exact failed: MemoryError: full"


def test_every_member_has_a_turn_and_the_shares_are_fractions() -> None:
    assert set(MEMBERS) == {name for name, _ in TURNS}
    assert all(0 < share <= 1 for _, share in TURNS)
    assert TURNS[-1][1] == 1


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
