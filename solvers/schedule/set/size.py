"""How many RA trees there are (section 3.2), exactly.

Counted are trees whose cuts have at least two children: with cuts of one child there would be no end of them.
For one order of n layers and one batch the paper's O((5 + 2 sqrt 6)^n) is the growth of :func:`tree_count`;
orders and sub-batches multiply it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

from costmodel.errors import InputError
from solvers.divisors import divisors
from solvers.schedule.set.space import SpaceName

GROWTH = 5 + 2 * 6**0.5
"""What a layer more multiplies the number of trees with, in the limit."""


def tree_count(layers: int, batch: int = 1, space: SpaceName = "paper") -> int:
    """Trees over ``layers`` leaves in one order, with every choice of cut kinds and sub-batches.

    ``batch`` 1 counts structures alone. Validity on a chip (tiles, buffers) is not considered.
    """
    if layers < 1 or batch < 1:
        raise InputError("RA trees", "at least one layer and one sample", (layers, batch))
    counts = {"paper": _all_trees, "released": _released_trees}.get(space, _segmented_trees)
    return counts(layers, batch)


def _all_trees(layers: int, batch: int) -> int:
    """Leaves, or cuts of two kinds over sequences of trees for a divisor of the batch."""

    @cache
    def trees(count: int, samples: int) -> int:
        if count == 1:
            return 1
        return 2 * sum(sequences(count, share, 2) for share in divisors(samples))

    sequences = _sequences(trees)
    return trees(layers, batch)


def _released_trees(layers: int, batch: int) -> int:
    """A root T cut over layers, S cuts and T cuts; below, kinds alternate; parts are powers of two."""

    @cache
    def below(count: int, samples: int) -> int:
        """A child whose kind its parent settles."""
        if count == 1:
            return 1
        return sum(settled(count, share, 2) for share in _halvings(samples))

    settled = _sequences(below)
    free = _sequences(lambda count, samples: below(count, samples) * (1 if count == 1 else 2))
    return sum(free(layers, share, min(2, layers)) for share in _halvings(batch))


def _segmented_trees(layers: int, batch: int) -> int:
    """A root T cut over segments: 2^(n - 1) of them, times the sub-batches of the root and of each cut."""
    total = 0
    for share in divisors(batch):
        choices = len(divisors(share))
        # a segment of one layer is a leaf; of two or more a cut, for each of its sub-batches
        ways = [1] + [0] * layers
        for end in range(1, layers + 1):
            ways[end] = ways[end - 1] + choices * sum(ways[: end - 1])
        # the root has two children or more, unless there is but one layer
        total += ways[layers] - (choices if layers > 1 else 0)
    return total


def _sequences(trees: Callable[[int, int], int]) -> Callable[[int, int, int], int]:
    """Sequences of at least ``least`` (0 to 2) trees with ``count`` leaves in all."""

    @cache
    def sequences(count: int, samples: int, least: int) -> int:
        if count == 0:
            return int(least <= 0)
        first = range(1, count + (least < 2))
        return sum(
            trees(size, samples) * sequences(count - size, samples, max(least - 1, 0)) for size in first
        )

    return sequences


@cache
def _halvings(number: int) -> tuple[int, ...]:
    """What is left of ``number`` samples in 1, 2, 4, ... equal parts."""
    found = [number]
    while found[-1] % 2 == 0:
        found.append(found[-1] // 2)
    return tuple(found)
