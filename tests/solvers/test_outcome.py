"""An outcome cannot say two things at once."""

from __future__ import annotations

import pickle
from math import inf, nan
from typing import Any

import pytest

from solvers.outcome import ContradictionError, Outcome, Status


def outcome(status: Status, solution: str | None, objective: float | None, **other: Any) -> Outcome[str]:
    given = {"bound": None, "cpu_seconds": 1.0, "wall_seconds": 2.0, **other}
    return Outcome(status, solution, objective, **given)


@pytest.mark.parametrize("status", [Status.OPTIMAL, Status.FEASIBLE])
@pytest.mark.parametrize(("solution", "objective"), [(None, 1.0), ("x", None), (None, None)])
def test_an_answer_has_a_solution_and_its_objective(
    status: Status, solution: str | None, objective: float | None
) -> None:
    with pytest.raises(ValueError, match=f"status {status} does not go with solution"):
        outcome(status, solution, objective)


@pytest.mark.parametrize("status", [Status.INFEASIBLE, Status.UNKNOWN])
@pytest.mark.parametrize(("solution", "objective"), [("x", 1.0), ("x", None), (None, 1.0)])
def test_no_answer_has_neither(status: Status, solution: str | None, objective: float | None) -> None:
    with pytest.raises(ValueError, match=f"status {status} does not go with solution"):
        outcome(status, solution, objective, note="none")


def test_infeasible_says_why() -> None:
    with pytest.raises(ValueError, match="must say which constraint"):
        outcome(Status.INFEASIBLE, None, None)
    assert outcome(Status.INFEASIBLE, None, None, note="RF: 3 words, 1 usable").gap is None


@pytest.mark.parametrize(
    ("objective", "bound", "gap"),
    [(10.0, 8.0, 0.2), (10.0, 10.0, 0.0), (10.0, None, None), (0.0, 0.0, 0.0), (-10.0, -12.0, 0.2)],
)
def test_gap(objective: float, bound: float | None, gap: float | None) -> None:
    found = outcome(Status.FEASIBLE, "x", objective, bound=bound).gap
    assert found == (None if gap is None else pytest.approx(gap))


@pytest.mark.parametrize(
    ("objective", "bound"),
    [(10.0, 10.00001), (-10.0, -9.0), (0.0, 1e-300), (10.0, inf), (10.0, nan), (None, nan)],
)
def test_a_bound_above_the_answer_is_none(objective: float | None, bound: float) -> None:
    answered = objective is not None
    status, solution = (Status.FEASIBLE, "x") if answered else (Status.UNKNOWN, None)
    with pytest.raises(ContradictionError, match="bound"):
        outcome(status, solution, objective, bound=bound)


@pytest.mark.parametrize(("objective", "bound"), [(10.0, 10.0 + 1e-12), (-10.0, -10.0 + 1e-12), (inf, inf)])
def test_sums_in_another_order_are_no_contradiction(objective: float, bound: float) -> None:
    assert outcome(Status.FEASIBLE, "x", objective, bound=bound).bound == bound


def test_no_answer_has_no_gap() -> None:
    assert outcome(Status.UNKNOWN, None, None, bound=3.0).gap is None


def test_statuses_print_as_words() -> None:
    assert [str(status) for status in Status] == ["optimal", "feasible", "infeasible", "unknown"]
    assert Status("optimal") is Status.OPTIMAL


def test_outcomes_travel() -> None:
    found = outcome(Status.FEASIBLE, "x", 4.0, bound=2.0, program_proven=True, evaluations=7)
    assert pickle.loads(pickle.dumps(found)) == found
