"""The sizes that a dim may be padded to, and those of them that are worth a solve."""

from __future__ import annotations

from dataclasses import replace
from itertools import product
from math import prod

from solvers.mapping.problem import MappingProblem
from solvers.mapping.space import divisors

Sizes = tuple[int, ...]
"""A size per dim, in the layer's order."""


def count_sizes(problem: MappingProblem) -> int:
    """How many layers the padding makes of one, itself among them."""
    return prod(problem.largest_size(dim) - size + 1 for dim, size in problem.layer.dims)


def every_size(problem: MappingProblem) -> product[Sizes]:
    """All sizes within the padding."""
    return product(*(range(size, problem.largest_size(dim) + 1) for dim, size in problem.layer.dims))


def at_sizes(problem: MappingProblem, sizes: Sizes) -> MappingProblem:
    """The problem of the layer padded to ``sizes``, with perfect factors."""
    dims = tuple((dim, size) for (dim, _), size in zip(problem.layer.dims, sizes, strict=True))
    rules = replace(problem.rules, padding=0.0, padded_dims=None)
    return replace(problem, layer=replace(problem.layer, dims=dims), rules=rules)


def promising_sizes(problem: MappingProblem, dim: str) -> list[int]:
    """Sizes of ``dim`` that offer something no smaller one does, ascending; its own size comes first.

    What counts is that the size is small, has no large prime factor, and has large divisors within the
    fan-outs. Of the others no cost is known to be higher: they are not tried, and a proof has to cover them.
    Where the prime p is above size / excess, every mapping has a factor that could be one less.
    """
    sides = {side for level in problem.architecture.levels for side in (level.fanout_x, level.fanout_y)}
    least = problem.layer.sizes[dim]
    kept: dict[int, tuple[int, ...]] = {}
    for size in range(least, problem.largest_size(dim) + 1):
        prime, found = _largest_prime(size), divisors(size)
        offers = (-prime, *(max(d for d in found if d <= side) for side in sorted(sides)))
        wasteful = size > least and prime * (size - least) >= size
        if not wasteful and not any(_covers(other, offers) for other in kept.values()):
            kept[size] = offers
    return list(kept)


def _covers(other: tuple[int, ...], offers: tuple[int, ...]) -> bool:
    return all(theirs >= ours for theirs, ours in zip(other, offers, strict=True))


def _largest_prime(size: int) -> int:
    largest, prime = 1, 2
    while prime * prime <= size:
        while size % prime == 0:
            largest, size = prime, size // prime
        prime += 1
    return max(largest, size)
