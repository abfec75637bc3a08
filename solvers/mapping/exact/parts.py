"""The space as the search sees it: at uneven levels the tile of every tensor is a part of the level."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain, permutations, product
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping import Mapping
from costmodel.uneven import AnyMapping, UnevenMapping, simplest, split
from solvers.mapping.problem import MappingProblem
from solvers.mapping.rules import most_parts
from solvers.mapping.space import MappingSpace

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class PartSpace:
    """Mappings on the architecture whose uneven levels are cut into a part a tensor, all other levels one.

    ``places`` are the parts' hardware levels, and ``space`` has the factors, sides and orders of their loops.
    ``keeps`` int64 [n, parts] are the choices of kept tensors, as bit masks: of an uneven level every set
    that it may keep in every order of its tiles, inside out.
    """

    space: MappingSpace
    places: tuple[int, ...]
    keeps: Array

    @property
    def is_even(self) -> bool:
        return len(set(self.places)) == len(self.places)

    def solution(self, nest: Mapping) -> AnyMapping:
        """The mapping that a nest of parts stands for."""
        return simplest(UnevenMapping(nest, self.places))


def part_space(problem: MappingProblem) -> PartSpace:
    """The parts of the problem's levels; for even mappings every level is one part."""
    rules, architecture, layer = problem.rules, problem.architecture, problem.layer
    whole = MappingSpace(architecture, layer, rules.even)
    counts = [most_parts(rules, architecture, layer, level) for level in architecture.levels]
    choices = ([*_choices(masks, count)] for masks, count in zip(whole.keep_sets, counts, strict=True))
    keeps = np.array([[*chain(*choice)] for choice in product(*choices)], np.int64)
    places = tuple(place for place, count in enumerate(counts) for _ in range(count))
    if len(places) == len(counts):
        return PartSpace(whole, places, keeps)
    loops = tuple(replace(level, keep=(), bypass=()) for level in rules.levels)
    parts = MappingSpace(split(architecture, places), layer, replace(whole.rules, keep="all", levels=loops))
    return PartSpace(parts, places, keeps)


def _choices(masks: tuple[int, ...], parts: int) -> Iterator[tuple[int, ...]]:
    """What each part of a level keeps: one tensor, and those left over nothing."""
    for mask in masks:
        tensors = [1 << number for number in range(mask.bit_length()) if mask >> number & 1]
        if parts == 1:
            yield (mask,)
            continue
        for order in permutations(tensors):
            yield (*order, *([0] * (parts - len(order))))
