"""When a gap is small enough, to the last digit."""

from __future__ import annotations

from math import inf
from random import Random

import pytest

from solvers.outcome import Outcome, Status, proven
from solvers.tolerance import SAME_COST, contradicts, sufficient_bound, within_tolerance

TOLERANCES = (0.01, 0.05, 0.1, 0.3, 1 / 3, 0.999)


def objectives() -> list[float]:
    random = Random(11)
    return [random.uniform(1, 10) * 10 ** random.randint(-3, 18) for _ in range(500)]


@pytest.mark.parametrize("tolerance", TOLERANCES)
def test_whoever_stops_at_a_sufficient_bound_is_within_the_tolerance(tolerance: float) -> None:
    """By the comparison, and by the gap of the outcome, which is another formula."""
    for objective in objectives():
        bound = sufficient_bound(objective, tolerance)
        outcome = Outcome(Status.FEASIBLE, "x", objective, bound, 0.0, 0.0)
        assert outcome.gap is not None
        assert outcome.gap <= tolerance
        assert outcome.gap == pytest.approx(tolerance, rel=1e-12)
        assert within_tolerance(objective, bound, tolerance)


@pytest.mark.parametrize("tolerance", TOLERANCES)
def test_a_last_digit_does_not_matter_and_more_does(tolerance: float) -> None:
    for objective in objectives():
        assert within_tolerance(objective, objective * (1 - tolerance), tolerance)
        assert not within_tolerance(objective, objective * (1 - tolerance - 1e-9), tolerance)


def test_without_a_tolerance_one_cost_is_one_cost() -> None:
    for objective in objectives():
        assert sufficient_bound(objective, 0) == pytest.approx(objective * (1 - SAME_COST), rel=1e-15)
        assert within_tolerance(objective, sufficient_bound(objective, 0), 0)
        assert proven(objective, sufficient_bound(objective, 0)) == (Status.OPTIMAL, objective)
        assert proven(objective, objective * (1 - 1e-10)) == (Status.FEASIBLE, objective * (1 - 1e-10))


def test_nothing_found_is_never_enough() -> None:
    assert sufficient_bound(inf, 0.5) == inf
    assert not within_tolerance(inf, inf, 0.5)
    assert within_tolerance(0.0, 0.0, 0.0)


def test_what_contradicts_an_answer() -> None:
    assert contradicts(10.0, 10.00001)
    assert not contradicts(10.0, 10.000000001)
    assert contradicts(10.0, float("nan"))
