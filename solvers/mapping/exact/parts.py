"""The space as the search sees it: at uneven levels the tile of every tensor is a part of the level."""

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
    """Mappings on the architecture whose uneven levels are cut into a part a tensor, all other levels one.

    ``part_levels`` has the hardware level (its index) of every part, innermost first, and ``space`` the
    factors, sides and orders of their loops.
    ``orders`` has for every choice of what hardware levels keep an int64 [n, parts] of what parts keep, as
    bit masks: of uneven levels one tensor a part, in every order of their tiles.
    """

    space: MappingSpace
    part_levels: tuple[int, ...]
    orders: tuple[Array, ...]

    @property
    def keeps(self) -> Array:
        """The first order of every choice, int64 [choices, parts]."""
        return np.array([orders[0] for orders in self.orders], np.int64)

    @property
    def most_subsets(self) -> int:
        """The most sets of equal size among the tensors of an uneven level."""
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
    """What the parts keep where levels keep ``masks`` and have ``counts`` of parts, int64 [n, parts]."""
    levels = [[*_parts(mask, count)] for mask, count in zip(masks, counts, strict=True)]
    return np.array([[*chain(*order)] for order in product(*levels)], np.int64)


def _parts(mask: int, count: int) -> Iterator[tuple[int, ...]]:
    """What each part of a level keeps: one tensor, and parts left over nothing; all where there is one."""
    if count == 1:
        yield (mask,)
        return
    tensors = [1 << number for number in range(mask.bit_length()) if mask >> number & 1]
    for order in permutations(tensors):
        yield (*order, *([0] * (count - len(order))))
