"""How many solves make a block: the driver's time for a block is to be little for each of its solves."""

from __future__ import annotations

from itertools import pairwise

import pytest

from sweep.blocks.sizes import (
    FULL_BLOCK,
    LONGEST_FILLING,
    SHORTEST_BLOCK,
    latest_end,
    seconds_of_block,
    solves_of_block,
)

MANY = 10_000_000


@pytest.mark.parametrize("seconds_each", [0.0004, 0.001, LONGEST_FILLING / FULL_BLOCK])
def test_a_block_of_short_solves_is_filled(seconds_each: float) -> None:
    assert solves_of_block(seconds_each, MANY, 2) == pytest.approx(FULL_BLOCK, abs=1)


@pytest.mark.parametrize("seconds_each", [0.0001, 0.01, 0.05, 1.0])
def test_other_blocks_take_their_usual_time(seconds_each: float) -> None:
    assert seconds_of_block(seconds_each, 2) == SHORTEST_BLOCK


def test_no_block_is_to_take_longer_than_the_filling_may() -> None:
    times = [seconds_of_block(1e-5 * 1.1**power, 2) for power in range(150)]
    assert max(times) <= LONGEST_FILLING
    steps = [abs(after - before) for before, after in pairwise(times)]
    assert max(steps) < 0.1 * LONGEST_FILLING, "a mean that wavers makes no jumps"


def test_the_end_of_a_run_is_shared_out_as_evenly_as_ever() -> None:
    seconds_each, left = 0.001, 900
    assert solves_of_block(seconds_each, left, 2) == int(SHORTEST_BLOCK / seconds_each / 8)
    assert solves_of_block(seconds_each, 10 * left, 2) == 10 * left / 6


def test_a_worker_has_time_for_the_block_that_it_got() -> None:
    for seconds_each in (0.0001, 0.001, 0.003, 0.05):
        assert latest_end(seconds_each, 2) > seconds_each * solves_of_block(seconds_each, MANY, 2)
