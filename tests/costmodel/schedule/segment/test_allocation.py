"""Tiles of an S cut, against all ways to share them."""

from __future__ import annotations

from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from costmodel.errors import InputError
from costmodel.schedule.segment.allocation import allocate

CHILDREN = st.lists(st.tuples(st.floats(0.1, 100), st.integers(1, 3)), min_size=1, max_size=4)


@given(CHILDREN, st.integers(1, 9))
def test_no_other_allocation_has_a_faster_slowest_child(
    children: list[tuple[float, int]], tiles: int
) -> None:
    cycles, least = zip(*children, strict=True)
    given_tiles = allocate(tiles, cycles, least)
    ways = [way for way in product(*(range(need, tiles + 1) for need in least)) if sum(way) == tiles]
    if given_tiles is None:
        assert not ways
        return
    assert given_tiles in ways
    slowest = [
        max(time / count for time, count in zip(cycles, way, strict=True)) for way in [given_tiles, *ways]
    ]
    assert slowest[0] == min(slowest)


def test_what_the_released_allocation_cannot_share_evenly() -> None:
    """The reproduced abort of the released program: 82 tiles, times that are no dyadic rationals."""
    shared = allocate(82, [43200, 14570.25, 5637.8333, 27115.3333], [1] * 4)
    assert shared is not None
    assert sum(shared) == 82


def test_times_must_be_above_zero() -> None:
    with pytest.raises(InputError, match="above 0"):
        allocate(2, [1.0, 0.0], [1, 1])
