"""Batches, windows and strikes, without any process."""

from __future__ import annotations

import pytest

from clusters.ledger import Item, Ledger
from clusters.pace import Pace


def filled(count: int, window: int = 400, seconds: float | None = None) -> Ledger:
    """A ledger with items 0.. queued, which takes items to last this many seconds."""
    ledger = Ledger(Pace(window, target_seconds=1.0))
    if seconds is not None:
        ledger.accept("timed", b"")
        (item,) = ledger.take_batch(1)
        ledger.finish(item, seconds)
    for number in range(count):
        ledger.accept(str(number), b"")
    return ledger


def keys(items: list[Item]) -> list[str]:
    return [item.key for item in items]


def test_the_first_call_is_one_item() -> None:
    assert keys(filled(10).take_batch(1)) == ["0"]


@pytest.mark.parametrize(
    ("seconds", "size"), [(10.0, 1), (0.5, 2), (0.1, 10), (0.02, 50), (1e-6, 100), (0.0, 100)]
)
def test_a_batch_takes_about_the_target_and_a_quarter_of_the_window_at_most(
    seconds: float, size: int
) -> None:
    ledger = filled(1000, seconds=seconds)
    assert ledger.batch_size == size
    assert len(ledger.take_batch(1)) == size


def test_batches_follow_the_items_as_they_become_slower() -> None:
    ledger = filled(200, seconds=0.001)
    for _ in range(60):
        (item, *rest) = ledger.take_batch(1)
        ledger.put_back(rest)
        ledger.finish(item, 0.5)
    assert ledger.batch_size == 2


@pytest.mark.parametrize(("workers", "first"), [(1, 10), (5, 2), (10, 1), (100, 1)])
def test_a_short_queue_is_shared_out(workers: int, first: int) -> None:
    assert len(filled(20, seconds=0.001).take_batch(workers)) == first


def test_batches_partition_the_queue_in_order() -> None:
    ledger = filled(100, seconds=0.1)
    taken = []
    while batch := ledger.take_batch(2):
        taken += keys(batch)
    assert taken == [str(n) for n in range(100)]
    assert ledger.queued == 0
    assert len(ledger) == 100


@pytest.mark.parametrize(("seconds", "room"), [(None, 3 * 4), (0.5, 3 * 8), (0.001, 3 * 400)])
def test_room_follows_the_batch_and_stops_at_the_window(seconds: float | None, room: int) -> None:
    assert filled(0, seconds=seconds).capacity(3) == room
    assert filled(room, seconds=seconds).capacity(3) == 0
    assert filled(2000, seconds=seconds).capacity(3) == 0


def test_suspects_go_alone_and_first() -> None:
    ledger = filled(10, seconds=0.3)
    batch = ledger.take_batch(1)
    assert keys(batch) == ["0", "1", "2"]
    batch[1].strikes = 1
    ledger.put_back(batch)
    assert [ledger.next_is_suspect, keys(ledger.take_batch(1))] == [False, ["0"]]
    assert ledger.next_is_suspect
    assert [keys(ledger.take_batch(1)) for _ in range(3)] == [["1"], ["2", "3", "4"], ["5", "6", "7"]]


def test_an_item_finishes_once_and_is_not_handed_out_afterwards() -> None:
    ledger = filled(2)
    (item,) = ledger.take_batch(1)
    ledger.put_back([item])
    assert ledger.finish(item)
    assert not ledger.finish(item)
    assert keys(ledger.take_batch(1)) == ["1"]
    ledger.accept("0", b"again")
    assert not ledger.finish(item), "a late answer belongs to the earlier item of that key"
    assert len(ledger) == 2
