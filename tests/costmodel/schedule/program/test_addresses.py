"""Addresses: no two messages at the same bytes at a time, and within the buffer, or none at all."""

from __future__ import annotations

from random import Random

import pytest

from costmodel.schedule.program.addresses import Occupancy, addresses


def test_random_buffers() -> None:
    random, tight = Random(2), 0
    for _ in range(200):
        sizes = {message: random.randint(1, 20) for message in range(random.randint(1, 20))}
        occupancy = Occupancy(sizes)
        pairs: set[tuple[int, int]] = set()
        for message in sizes:
            leaving = [other for other in occupancy.live if random.random() < 0.4]
            occupancy.leave(leaving)
            pairs |= {(other, message) for other in occupancy.live}
            occupancy.arrive(message)
            assert occupancy.peak >= sum(sizes[one] for one in occupancy.live)
        end = 5 + occupancy.peak + random.randint(0, 10)
        found = addresses(occupancy, 5, end)
        if found is None:
            tight += 1
            continue
        assert found.keys() == sizes.keys()
        assert all(at >= 5 and at + sizes[message] <= end for message, at in found.items())
        for one, other in pairs:
            assert found[one] + sizes[one] <= found[other] or found[other] + sizes[other] <= found[one]
    assert tight < 20


def test_a_buffer_that_is_too_small_has_no_addresses() -> None:
    occupancy = Occupancy({0: 4, 1: 4})
    occupancy.arrive(0)
    occupancy.arrive(1)
    assert occupancy.peak == 8
    assert addresses(occupancy, 0, 7) is None
    assert addresses(occupancy, 0, 8) == {0: 0, 1: 4}


def test_a_message_arrives_once_at_a_time() -> None:
    occupancy = Occupancy({0: 4})
    occupancy.arrive(0)
    with pytest.raises(RuntimeError, match="twice"):
        occupancy.arrive(0)


def test_thousands_of_messages_at_a_time() -> None:
    """All are there at once, one behind the other; a later one finds the place of one that left."""
    occupancy = Occupancy(dict.fromkeys(range(5000), 3) | {5000: 2})
    for message in range(5000):
        occupancy.arrive(message)
    occupancy.leave([7])
    occupancy.arrive(5000)
    found = addresses(occupancy, 1, 1 + 3 * 5000)
    assert found == {message: 1 + 3 * message for message in range(5000)} | {5000: 1 + 3 * 7}
