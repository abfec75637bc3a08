"""Repetitions of sequences: written out again they are the sequence, and regular ones are short."""

from __future__ import annotations

from random import Random

from costmodel.schedule.program.repetition import Repeated, Rolled, rolled, walked


def size(items: Rolled) -> int:
    return sum(1 + size(item.body) if isinstance(item, Repeated) else 1 for item in items)


def test_written_out_again_it_is_the_sequence() -> None:
    random = Random(5)
    for _ in range(300):
        sequence = random.choices(range(random.randint(1, 4)), k=random.randint(0, 40))
        assert list(walked(rolled(sequence), 100)) == sequence


def test_nested_repetitions() -> None:
    inner = [7, 8, 8, 8]
    items = rolled([1, *(3 * inner + [2]) * 5, 4])
    assert items == (1, Repeated(5, (Repeated(3, (7, Repeated(3, (8,)))), 2)), 4)
    assert size(items) == 8


def test_repetitions_are_walked_a_few_times_only() -> None:
    assert list(walked(rolled([1, 2] * 50))) == [1, 2, 1, 2]
