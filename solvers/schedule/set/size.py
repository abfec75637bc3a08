"""Counts RA trees exactly (section 3.2 of SET), and gives the tree of each number.

Only trees whose cuts have at least two children are counted: cuts of one child could be stacked without end.
For n layers in one order and a batch of one sample, :func:`tree_count` grows as (5 + 2 sqrt 6)^n, as in the
paper. Other orders of the layers and larger batches multiply that.

The counts follow one recursion: a tree of n leaves is a leaf (n = 1) or a cut, which is a sequence of two or
more trees with n leaves together. A cut of b samples in sb sub-batches has children of b / sb samples, so a
sum over the divisors of b is a sum over its numbers of sub-batches, too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import NamedTuple

from costmodel.errors import InputError
from costmodel.schedule.tree.tree import Cut, CutKind, Leaf, TreeNode
from solvers.divisors import divisors
from solvers.schedule.set.space import SpaceName


def tree_count(layers: int, batch: int = 1, space: SpaceName = "paper") -> int:
    """Trees over ``layers`` leaves in one order, with every choice of cut kinds and sub-batches.

    With a ``batch`` of 1 that is the number of structures. Trees count whether or not they fit a chip.
    """
    if layers < 1 or batch < 1:
        raise InputError("RA trees", "at least one layer and one sample", (layers, batch))
    counts = {"paper": _paper_counts().trees, "released": _released_trees}.get(space, _segmented_trees)
    return counts(layers, batch)


def tree_at(number: int, layers: Sequence[str], batch: int = 1) -> TreeNode:
    """The tree of a ``number`` from 0 to before ``tree_count(len(layers), batch)``, in the paper's space.

    Every tree over ``layers`` in their order has one number, so a random number is a tree drawn uniformly.
    Raises InputError for a number that no tree has.
    """
    count = tree_count(len(layers), batch)
    if not 0 <= number < count:
        raise InputError("RA trees", f"a number from 0 to before {count}", number, key="number")
    return _tree_at(number, layers, batch, _paper_counts())


class _PaperCounts(NamedTuple):
    """Numbers of trees, and of sequences of trees as :func:`_sequences` has them, in the paper's space."""

    trees: Callable[[int, int], int]
    sequences: Callable[[int, int, int], int]


@cache
def _paper_counts() -> _PaperCounts:
    """The paper's space: every cut is of either kind and has any number of sub-batches."""

    @cache
    def trees(count: int, samples: int) -> int:
        if count == 1:
            return 1
        return 2 * sum(sequences(count, part, 2) for part in divisors(samples))

    sequences = _sequences(trees)
    return _PaperCounts(trees, sequences)


def _tree_at(number: int, layers: Sequence[str], batch: int, counts: _PaperCounts) -> TreeNode:
    """Trees are numbered by the kind of their top cut, then by its sub-batches, then by its children."""
    if len(layers) == 1:
        return Leaf(layers[0], batch)
    kinds: tuple[CutKind, CutKind] = ("S", "T")
    kind, number = divmod(number, counts.trees(len(layers), batch) // 2)
    for samples in divisors(batch):
        choices = counts.sequences(len(layers), samples, 2)
        if number < choices:
            break
        number -= choices
    children = _sequence_at(number, layers, samples, 2, counts)
    return Cut(kinds[kind], batch, batch // samples, children)


def _sequence_at(
    number: int, layers: Sequence[str], samples: int, least: int, counts: _PaperCounts
) -> tuple[TreeNode, ...]:
    """Sequences are numbered by the layers of their first tree, then by that tree, then by the others."""
    found: list[TreeNode] = []
    while layers:
        least = max(least - 1, 0)
        for size in range(1, len(layers) + 1):
            others = counts.sequences(len(layers) - size, samples, least)
            choices = counts.trees(size, samples) * others if others else 0
            if number < choices:
                break
            number -= choices
        first, number = divmod(number, others)
        found.append(_tree_at(first, layers[:size], samples, counts))
        layers = layers[size:]
    return tuple(found)


def _released_trees(layers: int, batch: int) -> int:
    """The released code's space: a root T cut, whose children are layers and cuts of either kind.

    Below those, kinds alternate. Numbers of sub-batches are powers of two.
    """

    @cache
    def below(count: int, samples: int) -> int:
        """Trees below a cut other than the root: the parent's kind decides the kind of their top cut."""
        if count == 1:
            return 1
        return sum(settled(count, part, 2) for part in _halvings(samples))

    settled = _sequences(below)
    # the root's children: the top cut of each is of either kind
    free = _sequences(lambda count, samples: below(count, samples) * (1 if count == 1 else 2))
    return sum(free(layers, part, min(2, layers)) for part in _halvings(batch))


def _segmented_trees(layers: int, batch: int) -> int:
    """A pattern's space: a root T cut over segments, which are layers or cuts of layers (section 3.4).

    There are 2^(n - 1) ways to slice n layers into segments. Each counts once for every choice of sub-batches
    of the root and of the cuts.
    """
    total = 0
    for part in divisors(batch):
        choices = len(divisors(part))
        # ways[i] counts chains of segments over the first i layers, by their last segment: a leaf over the
        # last layer, or a cut over two or more layers, with each of its numbers of sub-batches
        ways = [1] + [0] * layers
        for end in range(1, layers + 1):
            ways[end] = ways[end - 1] + choices * sum(ways[: end - 1])
        # the one segment of all layers does not count, as the root would have one child; unless it is a leaf
        total += ways[layers] - (choices if layers > 1 else 0)
    return total


def _sequences(trees: Callable[[int, int], int]) -> Callable[[int, int, int], int]:
    """A function that counts sequences of at least ``least`` (0 to 2) trees with ``count`` leaves in all.

    ``trees(count, samples)`` counts single trees. A sequence is its first tree, of any size, and the sequence
    of the others.
    """

    @cache
    def sequences(count: int, samples: int, least: int) -> int:
        if count == 0:
            return int(least <= 0)
        fewer = max(least - 1, 0)
        # From the fewest leaves up, each count finds those that it needs: from the most down, a network of
        # hundreds of layers would call itself more deeply than Python allows.
        for size in range(1, count):
            trees(size, samples)
            sequences(size, samples, fewer)
        # the first tree may have all leaves only where no second tree has to follow
        first = range(1, count + (least < 2))
        return sum(trees(size, samples) * sequences(count - size, samples, fewer) for size in first)

    return sequences


@cache
def _halvings(number: int) -> tuple[int, ...]:
    """Samples in each of 1, 2, 4, ... equal parts of ``number`` samples: as often as it can be halved."""
    found = [number]
    while found[-1] % 2 == 0:
        found.append(found[-1] // 2)
    return tuple(found)
