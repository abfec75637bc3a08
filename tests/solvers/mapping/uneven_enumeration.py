"""All uneven mappings of a small problem, without the exact mapper, and random ones of a large problem."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from itertools import permutations, product
from math import inf

import numpy as np

from costmodel.formats.architectures import architecture_names, load_architecture
from costmodel.hardware.architecture import StorageLevel
from costmodel.mapping.batch.batch import BatchEvaluator, MappingBatch
from costmodel.mapping.evaluate import evaluate
from costmodel.mapping.uneven import AnyMapping, UnevenMapping, simplest, split
from costmodel.workload.network import Layer, convolution, gemm
from solvers.mapping import exhaustive
from solvers.mapping.problem import OBJECTIVES, MappingProblem, objective_of, objective_values
from solvers.mapping.space.rules import SpaceRules, allowed_keeps, most_parts
from solvers.mapping.space.space import MappingSpace
from tests.solvers.mapping import random_problems

LAYERS = (
    gemm("square", M=4, N=4, K=2),
    gemm("deep", M=4, N=2, K=4),
    gemm("odd", M=2, N=3, K=6),
    gemm("tall", M=6, N=2, K=4),
    convolution("sliding", K=2, C=2, P=4, Q=1, R=2, S=1),
    convolution("wide", K=2, C=3, P=3, Q=1, R=2, S=1),
)


def problems(seed: int) -> Iterator[MappingProblem]:
    """Endless small problems: a library architecture's outermost buffer, where the tiles get in each other's
    way, then two other levels of a bent or invented machine."""
    rng = random.Random(seed)
    bent, invented = random_problems.problems(seed), random_problems.invented_problems(seed)
    while True:
        yield _tight(rng)
        yield _at_some_levels(next(bent), rng)
        yield _at_some_levels(next(invented), rng)


def _tight(rng: random.Random) -> MappingProblem:
    machines = [machine for machine in map(load_architecture, architecture_names()) if not machine.timing]
    architecture = rng.choice(machines)
    fanout_y = rng.choice([1, 1, 2])
    buffer = replace(
        architecture.levels[-2],
        size_words=rng.randint(6, 20),
        multiple_buffering=1.0,
        fanout_x=1,
        fanout_y=fanout_y,
    )
    rules = SpaceRules(rng.choice(random_problems.KEEPS), uneven=True)
    architecture = replace(architecture, levels=(buffer, architecture.levels[-1]))
    return MappingProblem(architecture, rng.choice(LAYERS), rng.choice(OBJECTIVES), rules)


def _at_some_levels(problem: MappingProblem, rng: random.Random) -> MappingProblem:
    """The problem with two uneven levels that hold more than a few words and less than everything."""
    words = sum(tensor.words(problem.layer.sizes) for tensor in problem.layer.tensors)
    *inner, dram = problem.architecture.levels
    sized = [replace(level, size_words=rng.randint(3, max(3, words))) for level in inner]
    names = tuple(level.name for level in rng.sample(inner, min(2, len(inner))))
    return replace(
        problem,
        architecture=replace(problem.architecture, levels=(*sized, dram)),
        rules=replace(problem.rules, uneven=True, uneven_levels=names),
    )


Kept = tuple[frozenset[str], ...]
"""What the parts of one level keep, innermost first."""


def stacks(problem: MappingProblem) -> Iterator[tuple[Kept, ...]]:
    """Every choice of what levels keep, and of the order in which an uneven level's tiles end."""
    levels = problem.architecture.levels
    return product(*([*_parts(problem, level)] for level in levels[:-1]), [(frozenset(_names(problem)),)])


def _names(problem: MappingProblem) -> list[str]:
    return [tensor.name for tensor in problem.layer.tensors]


def _parts(problem: MappingProblem, level: StorageLevel) -> Iterator[Kept]:
    rules, layer = problem.rules, problem.layer
    uneven = most_parts(rules, problem.architecture, layer, level) > 1
    for kept in allowed_keeps(rules, level, layer):
        if uneven and kept:
            yield from (tuple(frozenset([name]) for name in order) for order in permutations(sorted(kept)))
        else:
            yield (kept,)


def on_parts(problem: MappingProblem, stack: tuple[Kept, ...]) -> tuple[MappingProblem, tuple[int, ...]]:
    """The even problem whose mappings are those of one stack, each part a level; the parts' places."""
    places = tuple(place for place, kept in enumerate(stack) for _ in kept)
    parts = split(problem.architecture, places)
    names = frozenset(_names(problem))
    rules = [
        replace(problem.rules.at(level.name), keep=tuple(sorted(kept)), bypass=tuple(sorted(names - kept)))
        for level, kept in zip(parts.levels[:-1], [kept for level in stack for kept in level], strict=False)
    ]
    asked = (*rules, *(level for level in problem.rules.levels if level.level == parts.levels[-1].name))
    return MappingProblem(parts, problem.layer, problem.objective, SpaceRules("free", asked)), places


def least(problem: MappingProblem, limit: int) -> tuple[float, AnyMapping | None] | None:
    """The best of all uneven mappings and its objective (infinite without one); None if there may be more
    than ``limit``."""
    even = [on_parts(problem, stack) for stack in stacks(problem)]
    spaces = [MappingSpace(one.architecture, one.layer, one.rules) for one, _ in even]
    if sum(s.count_factorisations(m) for s in spaces for m in product(*s.keep_sets)) > limit:
        return None
    best: tuple[float, AnyMapping | None] = (inf, None)
    looked_at = 0
    for one, places in even:
        for batch in exhaustive.Enumeration(one).mappings():
            looked_at += len(batch)
            if looked_at > 20 * limit:
                return None
            best = _better(problem, one, places, batch, best)
    return best


def _better(
    problem: MappingProblem,
    parts: MappingProblem,
    places: tuple[int, ...],
    batch: MappingBatch,
    best: tuple[float, AnyMapping | None],
) -> tuple[float, AnyMapping | None]:
    """``best``, or the best row of a batch: as even mappings, with no port shared, rows cost no more."""
    evaluation = BatchEvaluator(parts.architecture, parts.layer).evaluate(batch)
    values = objective_values(evaluation, problem.objective)
    values = np.where(fits(problem, parts.layer, places, batch), values, inf)
    for row in np.argsort(values, kind="stable").tolist():
        if not values[row] < best[0]:
            break
        mapping = simplest(UnevenMapping(batch.mapping(row, parts.layer), places))
        cost = objective_of(evaluate(problem.architecture, problem.layer, mapping), problem.objective)
        best = min(best, (cost, mapping), key=lambda pair: pair[0])
    return best


def fits(problem: MappingProblem, layer: Layer, places: tuple[int, ...], batch: MappingBatch) -> np.ndarray:
    """Which rows' tiles fit together into the levels, bool [n]."""
    spread = (batch.spatial_x * batch.spatial_y * batch.temporal).astype(np.int64)
    covered = np.cumprod(spread, axis=1)
    index = {dim: number for number, (dim, _) in enumerate(layer.dims)}
    held = np.zeros((len(batch), len(problem.architecture.levels)))
    for number, tensor in enumerate(layer.tensors):
        for part, place in enumerate(places):
            words = np.ones(len(batch), np.int64)
            for axis in tensor.terms:
                words *= 1 + sum(step * (covered[:, part, index[dim]] - 1) for dim, step in axis)
            held[:, place] += words * batch.keep[:, part, number]
    usable = [level.usable_words for level in problem.architecture.levels]
    return np.asarray((held <= usable).all(axis=1))


def random_costs(problem: MappingProblem, count: int, seed: int) -> Iterator[float]:
    """The costs of ``count`` random uneven mappings, of stacks drawn at random."""
    even = [on_parts(problem, stack) for stack in stacks(problem)]
    rng = np.random.default_rng(seed)
    found = 0
    for block in range(0, 10**6, 4):
        one, places = even[rng.integers(len(even))]
        batch = MappingSpace(one.architecture, one.layer, one.rules).sample(range(block, block + 4), seed)
        valid = BatchEvaluator(one.architecture, one.layer).evaluate(batch).valid
        rows = np.flatnonzero(valid & fits(problem, one.layer, places, batch))
        for row in rows[: min(20, count - found)].tolist():
            mapping = simplest(UnevenMapping(batch.mapping(row, one.layer), places))
            yield objective_of(evaluate(problem.architecture, problem.layer, mapping), problem.objective)
            found += 1
        if found == count:
            return
