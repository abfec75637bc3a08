"""The best fused mapping of a very small problem, by trying all of them with walked elements.

Nothing here is the solver's or the cost model's: lists of loops are put together blindly, and the walk tells
by breaking which of them can run. What an einsum costs and holds depends on the others' own loops in nothing,
which ``all_together`` checks; so the own loops are tried one einsum at a time.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise, permutations, product
from math import inf
from typing import Any

from tests.costmodel.mapping.fused.walked_elements import BrokenError, Walk

Json = dict[str, Any]
Costs = tuple[float, int]


def divisors(size: int) -> list[int]:
    return [step for step in range(1, size + 1) if size % step == 0]


def lists(dims: Json) -> Iterator[list[list[Any]]]:
    """Every list of loops over different dims, each with more than one iteration."""
    for count in range(len(dims) + 1):
        for order in permutations(dims, count):
            for steps in product(*(divisors(dims[dim])[:-1] for dim in order)):
                yield [list(loop) for loop in zip(order, steps, strict=True)]


def own_loops(left: Json, blocks: int) -> Iterator[list[list[list[Any]]]]:
    """Every way to put loops over all that is left into so many lists."""
    dims = [dim for dim in left if left[dim] > 1]
    if blocks == 1:
        yield [[[dim, 1] for dim in dims]]
        return
    for steps in product(*(divisors(left[dim]) for dim in dims)):
        inner = {**left, **dict(zip(dims, steps, strict=True))}
        looped = [[dim, step] for dim, step in zip(dims, steps, strict=True) if step < left[dim]]
        for order in permutations(looped):
            for rest in own_loops(inner, blocks - 1):
                yield [list(order), *rest]


def trees(problem: Json) -> Iterator[Json]:
    """All structures with all hoists; own loops are those of the smallest tiles."""
    einsums, on_chip = problem["einsums"], len(problem["levels"]) - 1
    pairs = []
    for producer, consumer in pairwise(einsums):
        shared = {d: n for d, n in producer["dims"].items() if d in consumer["dims"]}
        kept = [(loops, level) for loops in lists(shared) for level in range(on_chip)]
        pairs.append([([], None), *kept])
    for chosen in product(*pairs):
        around = [[], *(loops for loops, _ in chosen), []]
        if any(one[: len(other)] != other[: len(one)] for one, other in pairwise(around)):
            continue
        paths = [max(one, other, key=len) for one, other in pairwise(around)]
        backing = {einsums[i]["output"]: level for i, (_, level) in enumerate(chosen) if level is not None}
        places = [
            [{}]
            if not path
            else [
                {t: d for t, d in zip(free, depths, strict=True) if d is not None}
                for free in [[t for t in one["tensors"] if t not in backing]]
                for depths in product((None, *range(len(path))), repeat=len(free))
            ]
            for one, path in zip(einsums, paths, strict=True)
        ]
        for hoists in product(*places):
            mapping = {
                "prefix": [len(loops) for loops, _ in chosen],
                "paths": paths,
                "backing": backing,
                "hoist": {one["name"]: h for one, h in zip(einsums, hoists, strict=True) if h},
            }
            smallest = [
                [[[dim, 1] for dim, size in left.items() if size > 1], *([[]] * on_chip)]
                for left in (left_of(problem, mapping, i) for i in range(len(einsums)))
            ]
            yield {**mapping, "own": smallest}


def left_of(problem: Json, mapping: Json, position: int) -> Json:
    return {**problem["einsums"][position]["dims"], **dict(mapping["paths"][position])}


def fits(problem: Json, words: list[int]) -> bool:
    return all(
        level["capacity"] is None or count <= level["capacity"]
        for level, count in zip(problem["levels"], words, strict=True)
    )


def costs_of(problem: Json, mapping: Json, position: int) -> Iterator[Costs]:
    """pJ and cycles of one einsum, of all its own loops that fit."""
    for own in own_loops(left_of(problem, mapping, position), len(problem["levels"])):
        lists = [own if i == position else one for i, one in enumerate(mapping["own"])]
        walk = Walk(problem, {**mapping, "own": lists})
        walk.run()
        if fits(problem, walk.most[position]):
            yield walk.cost(position, problem["mac_pj"])


def best(problem: Json) -> tuple[dict[str, float], int]:
    """The least energy, cycles and product of both, infinite if nothing fits; and how many trees can run."""
    least, ran = {"energy": inf, "cycles": inf, "edp": inf}, 0
    for mapping in trees(problem):
        try:
            Walk(problem, mapping).run()
        except BrokenError:
            continue
        ran += 1
        total: set[Costs] = {(0.0, 0)}
        for position in range(len(problem["einsums"])):
            mine = _undominated(set(costs_of(problem, mapping, position)))
            total = _undominated({(a + c, b + d) for a, b in total for c, d in mine})
        for energy, cycles in total:
            least["energy"] = min(least["energy"], energy)
            least["cycles"] = min(least["cycles"], cycles)
            least["edp"] = min(least["edp"], energy * cycles)
    return least, ran


def all_together(problem: Json) -> dict[str, float]:
    """The same by trying the own loops of all einsums at once."""
    least = {"energy": inf, "cycles": inf, "edp": inf}
    count = len(problem["einsums"])
    for mapping in trees(problem):
        ways = [list(own_loops(left_of(problem, mapping, i), len(problem["levels"]))) for i in range(count)]
        for own in product(*ways):
            walk = Walk(problem, {**mapping, "own": list(own)})
            try:
                walk.run()
            except BrokenError:
                break
            if all(fits(problem, words) for words in walk.most):
                energies, cycles = zip(*(walk.cost(i, problem["mac_pj"]) for i in range(count)), strict=True)
                least["energy"] = min(least["energy"], sum(energies))
                least["cycles"] = min(least["cycles"], sum(cycles))
                least["edp"] = min(least["edp"], sum(energies) * sum(cycles))
    return least


def _undominated(points: set[Costs]) -> set[Costs]:
    found: list[Costs] = []
    for energy, cycles in sorted(points):
        if not found or cycles < found[-1][1]:
            found.append((energy, cycles))
    return set(found)
