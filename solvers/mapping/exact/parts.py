"""The space as the search sees it: an uneven level is split into parts, each with the tile of one tensor.

The search then treats parts as levels, and knows apart from that only which parts have their capacity and
ports in common. See :mod:`costmodel.mapping.uneven` for why counts are right on such parts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, permutations, product
from math import comb
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.mapping import Mapping
from costmodel.mapping.uneven import AnyMapping, UnevenMapping, simplest, split
from solvers.mapping.problem import MappingProblem
from solvers.mapping.space.rules import most_parts
from solvers.mapping.space.space import MappingSpace

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class PartSpace:
    """The mapping space of the architecture whose uneven levels are split into one part per tensor.

    An even level is one part. ``part_levels`` has for every part, innermost first, the index of its hardware
    level. ``space`` has the parts as levels: the factors, sides and orders of their loops.

    ``orders`` has an entry for every choice of what hardware levels keep: an int64 [n, parts] of bit masks
    of tensors that parts keep. Each of its ``n`` rows is one order in which the tensors of uneven levels end
    their tiles, with one tensor a part; where every level is even, ``n`` is 1.
    """

    space: MappingSpace
    part_levels: tuple[int, ...]
    orders: tuple[Array, ...]

    @property
    def keeps(self) -> Array:
        """The first order of every choice of what hardware levels keep, int64 [choices, parts]."""
        return np.array([orders[0] for orders in self.orders], np.int64)

    @property
    def most_subsets(self) -> int:
        """Into how many sets of equal size the tensors of a level can be chosen, at most.

        The bound of all orders needs a table for each such set (``kernels/bound_kernel.py``)."""
        counts = Counter(self.part_levels).values()
        return max(comb(count, count // 2) for count in counts)

    @property
    def is_even(self) -> bool:
        """Whether every level is one part."""
        return len(set(self.part_levels)) == len(self.part_levels)

    def solution(self, nest: Mapping) -> AnyMapping:
        """The mapping that a nest of parts stands for."""
        return simplest(UnevenMapping(nest, self.part_levels))


def part_space(problem: MappingProblem) -> PartSpace:
    """The parts of the problem's levels; for even mappings every level is one part."""
    rules, architecture, layer = problem.rules, problem.architecture, problem.layer
    whole = MappingSpace(architecture, layer, rules.even)
    counts = [most_parts(rules, architecture, layer, level) for level in architecture.levels]
    orders = tuple(_orders(masks, counts) for masks in product(*whole.keep_sets))
    part_levels = tuple(level for level, count in enumerate(counts) for _ in range(count))
    if len(part_levels) == len(counts):
        return PartSpace(whole, part_levels, orders)
    loops = tuple(replace(level, keep=(), bypass=()) for level in rules.levels)
    parts = MappingSpace(
        split(architecture, part_levels), layer, replace(whole.rules, keep="all", levels=loops)
    )
    return PartSpace(parts, part_levels, orders)


def _orders(masks: tuple[int, ...], counts: list[int]) -> Array:
    """What the parts keep, int64 [n, parts], if levels keep the tensors ``masks`` in ``counts`` parts each:
    a row for every combination of the levels' orders."""
    levels = [[*_parts(mask, count)] for mask, count in zip(masks, counts, strict=True)]
    return np.array([[*chain(*order)] for order in product(*levels)], np.int64)


def _parts(mask: int, count: int) -> Iterator[tuple[int, ...]]:
    """Every way to give the tensors of a level to its parts, innermost part first.

    A single part keeps all of them. Otherwise a part keeps one, and parts left over keep nothing. These come
    last: it makes no difference which parts are empty.
    """
    if count == 1:
        yield (mask,)
        return
    tensors = [1 << number for number in range(mask.bit_length()) if mask >> number & 1]
    for order in permutations(tensors):
        yield (*order, *([0] * (count - len(order))))
