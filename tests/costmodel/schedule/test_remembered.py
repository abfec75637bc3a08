"""What is remembered: what was asked for lately stays, and the number of values has a bound."""

from __future__ import annotations

from random import Random

import pytest

from costmodel.schedule.remembered import Remembered


@pytest.mark.parametrize("most", [2, 8, 20])
def test_values_that_are_asked_for_stay_and_others_go(most: int) -> None:
    """Against a list of all that was added or asked for, in that order."""
    known, random = Remembered[int, str](most), Random(1)
    lately: list[int] = []
    found = 0
    for _ in range(2000):
        key = random.randrange(2 * most)
        value = known.get(key)
        found += value is not None
        assert value in (None, str(key))
        # Half as many different keys as there is room for may have come since.
        if key in lately and len(set(lately[lately.index(key) :])) < most // 2:
            assert value is not None
        if value is None:
            assert known.add(key, str(key)) == str(key)
        lately = [one for one in lately if one != key] + [key]
    assert 0 < found < 2000
    assert sum(known.get(key) is not None for key in range(2 * most)) <= most
