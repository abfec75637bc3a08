"""What counts as a number where users state one."""

from __future__ import annotations

from math import inf, nan

from costmodel.number_checks import is_number, is_whole

HUGE = 10**400
"""A whole number that no float can hold."""


def test_numbers_are_finite_within_their_range_and_no_truth_values() -> None:
    assert all(is_number(value, 0) for value in (0, 1.0, 1e300, HUGE))
    assert not any(is_number(value, 0) for value in (True, nan, inf, -inf, -0.1, -HUGE, "1", None))
    assert is_number(2.0, 1, 2)
    assert not any(is_number(value, 1, 2) for value in (0.9, 2.1, HUGE))


def test_whole_numbers_are_integers_within_their_range_and_no_truth_values() -> None:
    assert all(is_whole(value, 3) for value in (3, HUGE))
    assert not any(is_whole(value, 0) for value in (True, 1.0, "1", None, nan, inf, -1))
    assert not is_whole(5, 0, 4)
