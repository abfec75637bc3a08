"""Mappings to start from when nothing better is known."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np

from costmodel.batch import BatchEvaluator
from costmodel.limits import limit_reached
from costmodel.mapping import LevelMapping, Mapping, loops
from solvers.mapping.problem import MappingProblem, violations
from solvers.mapping.space import MappingSpace

DRAWN_BLOCKS = 64
"""Blocks of random mappings that are looked through for one that fits."""


def serial(space: MappingSpace, keep: Sequence[frozenset[str]]) -> Iterator[Mapping]:
    """Every loop at DRAM in an order that the rules allow, if the rules allow that at all."""
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


def drawn(space: MappingSpace, seed: int) -> Iterator[Mapping]:
    """One drawn mapping that fits, if one of many does."""
    batch = space.sample(range(DRAWN_BLOCKS), seed)
    fitting = np.flatnonzero(BatchEvaluator(space.architecture, space.layer).evaluate(batch).valid)
    if not len(fitting):
        limit_reached(
            "blocks of drawn mappings", DRAWN_BLOCKS, "none fitted, though there may be some that do"
        )
    for row in fitting[:1]:
        yield batch.mapping(int(row), space.layer)
