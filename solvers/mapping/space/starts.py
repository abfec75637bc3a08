"""Mappings to start from when nothing better is known."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain

import numpy as np

from costmodel.limits import limit_reached
from costmodel.mapping.batch.batch import BatchEvaluator
from costmodel.mapping.mapping import LevelMapping, Mapping, loops
from solvers.mapping.problem import MappingProblem, violations
from solvers.mapping.space.space import MappingSpace

DRAWN_BLOCKS = 64
"""Blocks of random mappings that are looked through for one that fits."""

BLOCKS_AT_ONCE = 8
"""Of these between two looks at the clock; the first that has a mapping ends it."""


def fewest_kept(space: MappingSpace) -> list[frozenset[str]]:
    """Per level the smallest set of tensors that the rules let it keep, which leaves the most capacity."""
    names = [tensor.name for tensor in space.layer.tensors]
    masks = [min(sets, key=int.bit_count) for sets in space.keep_sets]
    return [frozenset(name for bit, name in enumerate(names) if mask >> bit & 1) for mask in masks]


def serial(space: MappingSpace, keep: Sequence[frozenset[str]]) -> Iterator[Mapping]:
    """The mapping with every loop at the outermost level, in an order that the rules allow.

    Its tiles are single words, so it fits where anything fits. Nothing is yielded where the rules ask for a
    loop elsewhere.
    """
    rules, outermost = space.level_rules[-1], len(keep) - 1
    every = rules.ordered(loops(space.layer.dims))
    mapping = Mapping(
        tuple(
            LevelMapping(every if level == outermost else (), (), (), frozenset(kept))
            for level, kept in enumerate(keep)
        )
    )
    problem = MappingProblem(space.architecture, space.layer, rules=space.rules)
    if not violations(problem, mapping):
        yield mapping


def any_mapping(space: MappingSpace, seed: int = 0) -> Mapping | None:
    """An allowed mapping that takes milliseconds: the first of some that are drawn with ``seed``, or else the
    one with all loops at the outermost level; None if neither is allowed.

    For a solver whose time was up before it found one of its own.
    """
    found = chain(drawn(space, seed, lambda: False), serial(space, fewest_kept(space)))
    return next(found, None)


def drawn(space: MappingSpace, seed: int, in_time: Callable[[], bool] = lambda: True) -> Iterator[Mapping]:
    """One drawn mapping that fits, if one of many does; of few if there is no time for many."""
    evaluator = BatchEvaluator(space.architecture, space.layer)
    for first in range(0, DRAWN_BLOCKS, BLOCKS_AT_ONCE):
        batch = space.sample(range(first, min(first + BLOCKS_AT_ONCE, DRAWN_BLOCKS)), seed)
        fitting = np.flatnonzero(evaluator.evaluate(batch).valid)
        if len(fitting):
            yield batch.mapping(int(fitting[0]), space.layer)
            return
        if not in_time():
            return
    limit_reached("blocks of drawn mappings", DRAWN_BLOCKS, "none fitted, though there may be some that do")
