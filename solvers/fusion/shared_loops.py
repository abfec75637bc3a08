"""Lists of loops that neighbours can share."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping

from costmodel.mapping.fused.mapping import Loops
from solvers.divisors import divisors


def lists_beside(
    before: Loops, sizes: Mapping[str, int], most: int, apart: Collection[frozenset[str]] = ()
) -> Iterator[Loops]:
    """The lists of at most ``most`` loops that a pair can share, whose first shares ``before`` already.

    Of each list and ``before`` one begins with the other. ``sizes``: the sizes of the dims that loops may
    cut, each at most once, into more than one iteration. ``apart``: pairs of dims of which a list has one at
    most.
    """
    length = 0
    while length < len(before) and before[length][0] in sizes:
        yield before[:length]
        length += 1
    if length < len(before):
        yield before[:length]
        return
    free = dict(sizes)
    for name, _ in before:
        free = _beside(free, name, apart)
    for more in _lists(free, most - len(before), apart):
        yield before + more


def _lists(sizes: Mapping[str, int], most: int, apart: Collection[frozenset[str]]) -> Iterator[Loops]:
    """Every list of at most so many loops over some of these dims, in every order, with every step."""
    yield ()
    if not most:
        return
    for name, size in sizes.items():
        others = _beside(sizes, name, apart)
        for step in divisors(size)[:-1]:
            for rest in _lists(others, most - 1, apart):
                yield ((name, step), *rest)


def _beside(sizes: Mapping[str, int], name: str, apart: Collection[frozenset[str]]) -> dict[str, int]:
    """The dims that a list with a loop over ``name`` may have besides."""
    return {
        other: size
        for other, size in sizes.items()
        if other != name and frozenset({name, other}) not in apart
    }
