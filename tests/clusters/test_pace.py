"""The rule for batches and windows."""

from __future__ import annotations

import pytest

from clusters.ledger import Ledger
from clusters.pace import CALL_FRACTION, CALL_SECONDS, MOST_HELD, Pace, pace_for


@pytest.mark.parametrize("workers", [0, 1, 2, 50, 1000, 10_000])
def test_calls_take_a_tenth_of_the_driver_at_most(workers: int) -> None:
    pace = pace_for(workers)
    assert workers / pace.target_seconds * CALL_SECONDS <= CALL_FRACTION * 1.0001
    assert pace.target_seconds >= 0.7


@pytest.mark.parametrize("workers", [1, 128, 1000, 4096])
def test_all_workers_together_hold_a_bounded_number(workers: int) -> None:
    assert workers * pace_for(workers).window <= MOST_HELD


def test_what_is_given_is_kept() -> None:
    assert pace_for(1000, 5, 0.25) == Pace(5, 0.25)


def test_a_thousand_workers_of_half_a_second_get_batches() -> None:
    ledger = Ledger(pace_for(1000))
    ledger.accept("timed", b"")
    (item,) = ledger.take_batch(1)
    ledger.finish(item, 0.5)
    assert ledger.batch_size == 8
    assert 1000 / (ledger.batch_size * 0.5) * CALL_SECONDS < 0.2
