"""Lists of loops that neighbours can share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from costmodel.mapping.fused.mapping import Loops
from solvers.divisors import divisors


def lists_beside(before: Loops, sizes: Mapping[str, int], most: int) -> Iterator[Loops]:
    """The lists of at most ``most`` loops that a pair can share, whose first shares ``before`` already.

    Of each list and ``before`` one begins with the other. ``sizes``: the sizes of the dims that loops may
    cut, each at most once, into more than one iteration.
    """
    length = 0
    while length < len(before) and before[length][0] in sizes:
        yield before[:length]
        length += 1
    if length < len(before):
        yield before[:length]
        return
    used = {name for name, _ in before}
    free = {name: size for name, size in sizes.items() if name not in used}
    for more in _lists(free, most - len(before)):
        yield before + more


def _lists(sizes: Mapping[str, int], most: int) -> Iterator[Loops]:
    """Every list of at most so many loops over some of these dims, in every order, with every step."""
    yield ()
    if not most:
        return
    for name, size in sizes.items():
        others = {other: length for other, length in sizes.items() if other != name}
        for step in divisors(size)[:-1]:
            for rest in _lists(others, most - 1):
                yield ((name, step), *rest)
