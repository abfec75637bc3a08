"""Boxes that move, and the stores that a load waits for, against going through all times."""

from __future__ import annotations

from itertools import product
from random import Random

from costmodel.schedule.program.program import Message, box_at, times_before


def test_a_box_moves_as_nested_loops_do() -> None:
    box, moves = ((0, 2), (5, 6)), ((3, (10, 0)), (2, (0, 1)))
    expected = [((10 * i, 10 * i + 2), (5 + j, 6 + j)) for i, j in product(range(3), range(2))]
    assert [box_at(box, moves, time) for time in range(6)] == expected
    assert box_at(box, (), 4) == box


def test_how_often_a_store_comes_before_a_load() -> None:
    """Random boxes and moves: one more than the last time at which both have an element in common."""
    random, waits = Random(3), 0
    for _ in range(300):
        box = tuple((first, first + random.randint(1, 3)) for first in random.choices(range(4), k=2))
        moves = tuple(
            (random.randint(1, 4), (random.randint(0, 3), random.randint(0, 2)))
            for _ in range(random.randint(0, 3))
        )
        times = 1
        for count, _ in moves:
            times *= count
        wanted = tuple((first, first + random.randint(1, 4)) for first in random.choices(range(9), k=2))
        load = Message("a", wanted, 1, (), (0,), ((2, (1, 1)),))
        for time in range(2):
            at = box_at(wanted, load.moves, time)
            met = [
                number + 1
                for number in range(times)
                if all(a < d and c < b for (a, b), (c, d) in zip(at, box_at(box, moves, number), strict=True))
            ]
            waits += bool(met)
            assert times_before(load, time, Message("a", box, 1, (0,), (), moves)) == max(met, default=0)
    assert 100 < waits < 550
