"""All RA trees of a few layers, by enumeration."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from costmodel.schedule.tree.tree import Cut, Leaf, TreeNode


def every_tree(names: tuple[str, ...], batch: int) -> Iterator[TreeNode]:
    """All trees over ``names`` in order whose cuts have two children or more."""
    if len(names) == 1:
        yield Leaf(names[0], batch)
        return
    for parts in (part for part in range(1, batch + 1) if batch % part == 0):
        for sizes in compositions(len(names)):
            starts = [sum(sizes[:i]) for i in range(len(sizes))]
            groups = [names[start : start + size] for start, size in zip(starts, sizes, strict=True)]
            for children in product(*(tuple(every_tree(group, batch // parts)) for group in groups)):
                yield Cut("S", batch, parts, children)
                yield Cut("T", batch, parts, children)


def compositions(number: int) -> Iterator[tuple[int, ...]]:
    """Ways to write a number as an ordered sum of two or more."""
    for cuts in product((False, True), repeat=number - 1):
        if any(cuts):
            ends = [i + 1 for i, cut in enumerate(cuts) if cut] + [number]
            yield tuple(end - start for start, end in zip([0, *ends], ends, strict=False))
