"""Addresses: no two messages at the same bytes at a time, and within the buffer, or none at all."""

from __future__ import annotations

from random import Random

import pytest

from costmodel.schedule.program import tile_code
from costmodel.schedule.program.addresses import Occupancy, addresses
from costmodel.schedule.program.program import Instruction
from costmodel.schedule.program.repetition import rolled
from costmodel.schedule.program.tile_code import StepMessages, TileSegment
from costmodel.schedule.tree.validity import NotPossibleError


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


def taking_turns(times: int) -> TileSegment:
    """Three messages of a byte, two at a time: 0 and 1, then 1 and 2, then 2 and 0, and all that again."""

    def step(number: int) -> StepMessages:
        here, coming = number % 3, (number + 1) % 3
        before = (0,) if number == 0 else ()
        return StepMessages(before, (), 0, (here,), (coming,), (), (), (here,))

    steps = [step(number) for number in range(3 * times)]
    numbers: dict[StepMessages, int] = {}
    sequence = [numbers.setdefault(one, len(numbers)) for one in steps]
    return TileSegment.of(list(numbers), rolled(sequence), {0: 1, 1: 1, 2: 1}, ())


def test_messages_that_come_again_may_lie_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """Each pair of three messages meets at some time: they need three bytes, unless they move."""
    at_rest = tile_code.tile_code([taking_turns(5)], 1, 0, 3)
    assert len(at_rest) < 15
    code = tile_code.tile_code([taking_turns(5)], 1, 0, 2)
    held: dict[int, int | float] = {}
    loads, places = 0, set()
    for item in code:
        assert isinstance(item, Instruction)
        if item.operation == "load":
            assert item.address in {0, 1} - set(held.values())
            held[item.message] = item.address
            places.add((item.message, item.address))
            loads += 1
        elif item.operation == "compute":
            assert item.reads[0] in held
        else:
            del held[item.message]
    assert loads == 16
    assert len(places) == 6
    monkeypatch.setattr(tile_code, "MOST_WRITTEN_OUT", 14)
    with pytest.raises(NotPossibleError, match="no addresses were found"):
        tile_code.tile_code([taking_turns(5)], 1, 0, 2)
