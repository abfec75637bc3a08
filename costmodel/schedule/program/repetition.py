"""Finds repetitions in a sequence, so that programs stay small."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache

LONGEST = 128
"""The longest body of a repetition that is looked for; time grows with it."""


@dataclass(frozen=True)
class Repeated:
    """Numbers that come ``times`` times in turn."""

    times: int
    body: tuple[int | Repeated, ...]


Rolled = tuple[int | Repeated, ...]


def rolled(sequence: Sequence[int]) -> Rolled:
    """The sequence with what comes several times in turn written once.

    From left to right, the repetition that saves most is taken, of equal ones the one with the shortest body;
    bodies are searched alike. Sequences that differ only in their numbers are searched once.
    """
    first: dict[int, int] = {}
    shape = tuple(first.setdefault(number, len(first)) for number in sequence)
    return _renamed(_rolled(shape), list(first))


@cache
def _rolled(sequence: tuple[int, ...]) -> Rolled:
    found: list[int | Repeated] = []
    start = 0
    while start < len(sequence):
        length, times = _best(sequence, start)
        if times > 1:
            found.append(Repeated(times, _rolled(sequence[start : start + length])))
        else:
            found.append(sequence[start])
        start += length * times
    return tuple(found)


def _best(sequence: tuple[int, ...], start: int) -> tuple[int, int]:
    """Length and times of the repetition at ``start`` that saves most; (1, 1) if nothing repeats."""
    best, saved = (1, 1), 0
    for length in range(1, min(LONGEST, (len(sequence) - start) // 2) + 1):
        if sequence[start] != sequence[start + length]:
            continue
        body, times = sequence[start : start + length], 1
        while sequence[start + times * length : start + (times + 1) * length] == body:
            times += 1
        if (times - 1) * length > saved:
            best, saved = (length, times), (times - 1) * length
    return best


def _renamed(items: Rolled, numbers: list[int]) -> Rolled:
    return tuple(
        Repeated(item.times, _renamed(item.body, numbers)) if isinstance(item, Repeated) else numbers[item]
        for item in items
    )


def length(items: Rolled) -> int:
    """How long the sequence is."""
    return sum(item.times * length(item.body) if isinstance(item, Repeated) else 1 for item in items)


def walked(items: Rolled, most: int = 2) -> Iterator[int]:
    """The numbers in the order in which they come, each repetition at most ``most`` times."""
    for item in items:
        if isinstance(item, Repeated):
            for _ in range(min(item.times, most)):
                yield from walked(item.body, most)
        else:
            yield item
