"""What the spatial fan-outs of an architecture can do for a layer at most: MACs at once, and multicast.

``bounds.py`` needs numbers that hold for every mapping at once, so both are upper bounds. They are needed
together: a fan-out that is spent on one dim, which shares the words of one tensor, is not there for another.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import lru_cache
from math import gcd, lcm, prod
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.hardware.architecture import Architecture
from costmodel.limits import cached, limit_reached
from costmodel.workload.network import Layer

Array = NDArray[np.float64]

MOST_ALLOCATIONS = 30_000
"""Ways to spend the fan-outs; if there are more, :func:`allocations` forgets at which level words are shared,
which leaves fewer of them."""


@lru_cache(maxsize=4096)
def largest_product(points: int, fanouts: tuple[int, ...]) -> int:
    """The largest product of one factor per fan-out, each within it, that divides ``points``."""
    reached = {1}
    for fanout in fanouts:
        reached = {total * factor for total in reached for factor in _divisors(points // total, fanout)}
    return max(reached)


@lru_cache(maxsize=65536)
def _divisors(number: int, most: int) -> tuple[int, ...]:
    return tuple(d for d in range(1, min(number, most) + 1) if number % d == 0)


def fanouts_to(architecture: Architecture, level: int) -> tuple[int, ...]:
    """The X and Y fan-outs larger than 1 of all levels up to and including ``level``, innermost first."""
    sides = [side for hw in architecture.levels[: level + 1] for side in (hw.fanout_x, hw.fanout_y)]
    return tuple(side for side in sides if side > 1)


class DimClass(NamedTuple):
    """Dims whose spatial factors have the same effect on every tensor; ``size`` is the product of their
    sizes.

    Spreading these dims lets children share words of some tensors, given by their indices:

    * ``shared``: tensors that do not have the dims, so that all children use the same words;
    * ``long`` and ``short``: tensors with a sliding axis, the sum of two dims, of which these are the longer
      (the steps of a window) or the shorter (its taps). Children share some words if both are spread.
    """

    shared: tuple[int, ...]
    long: tuple[int, ...]
    short: tuple[int, ...]
    size: int


def dim_classes(layer: Layer) -> tuple[DimClass, ...]:
    """The classes of those dims that let children share words of some tensor."""
    effects = {dim: _effects(layer, dim) for dim, _ in layer.dims}
    return tuple(
        DimClass(*effect, prod(size for dim, size in layer.dims if effects[dim] == effect))
        for effect in dict.fromkeys(effects.values())
        if any(effect) and any(size > 1 for dim, size in layer.dims if effects[dim] == effect)
    )


def _effects(layer: Layer, dim: str) -> tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]:
    """``shared``, ``long`` and ``short`` of the class that the dim belongs to.

    On an axis that sums three or more dims all but the longest count as ``shared``, which is an upper bound.
    """
    shared: list[int] = []
    long: list[int] = []
    short: list[int] = []
    for index, tensor in enumerate(layer.tensors):
        # With P of 56 steps and R of 3 taps on an axis, P is ``long`` and R ``short``. A dim that the tensor
        # does not have finds no axis and no longest dim, and is ``shared``.
        axis = next((axis for axis in tensor.terms if dim in dict(axis)), ())
        longest = max(axis, key=lambda term: layer.sizes[term[0]])[0] if axis else ""
        if len(axis) == 2:
            (long if dim == longest else short).append(index)
        elif dim != longest:
            shared.append(index)
    return tuple(shared), tuple(long), tuple(short)


def allocations(architecture: Architecture, layer: Layer, *, any_factor: bool = False) -> Array:
    """Upper bounds on multicast, float [n, levels, tensors], one row for each way to spend the fan-outs.

    Entry ``[k, i, t]`` bounds the product of the multicast factors of tensor ``t`` at all levels up to ``i``.
    For every mapping there is a row ``k`` that bounds it at all levels and for all tensors at once: the
    mapping's *allocation*. With ``any_factor`` factors need not divide the dims, so that this holds for all
    layers of the same form whose dims are no larger, whatever they were padded from.

    **Which rows there are.** At one fan-out a mapping gives each of the :func:`dim_classes` a factor that
    divides the class's size, and all of them together fit the fan-out. Rows are only needed for the factors
    that cannot be raised for any class, since each mapping's factors are covered by some of these. Over all
    levels no class gets more than its size.

    **What a row bounds.** A tensor's multicast factor is at most the product of two things. The first are the
    factors of its ``shared`` classes. The second is what sliding windows share. With ``p`` steps and ``r``
    taps spread on one axis, there are at least ``p + r - 1`` different positions among ``p * r`` children, so
    the factor is at most ``p * r / (p + r - 1)`` (:func:`_window_multicast`). For a second axis with ``q``
    and ``s``, the product of both is at most the same expression of ``p * q`` and ``r * s``, since
    ``(p + r - 1) * (q + s - 1) - (p * q + r * s - 1) = (p - 1) * (s - 1) + (r - 1) * (q - 1) >= 0``.
    """
    classes = dim_classes(layer)
    # One row to begin with, in which nothing is spread. Each level multiplies the rows by its ways, unless
    # there would be too many: then earlier levels keep fewer rows, which cover all that they had.
    factors = np.ones((1, len(architecture.levels), len(classes)))
    for index, level in enumerate(architecture.levels):
        sizes = tuple(c.size for c in classes)
        ways = (_any_ways if any_factor else _level_ways)(sizes, level.fanout_x, level.fanout_y)
        factors = _fewer(factors, MOST_ALLOCATIONS // len(ways)).repeat(len(ways), axis=0)
        factors[:, index, :] *= np.tile(ways, (len(factors) // len(ways), 1))
    totals = np.minimum(factors.cumprod(axis=1), [c.size for c in classes])
    return np.stack(
        [_multicast_bounds(classes, t, factors, totals) for t in range(len(layer.tensors))], axis=2
    )


def _multicast_bounds(classes: Sequence[DimClass], tensor: int, factors: Array, totals: Array) -> Array:
    """One tensor's bounds, float [n, levels].

    ``factors`` [n, levels, classes] are those of each level, ``totals`` their products over all levels up to
    that one, at most the class's size. Windows are bounded both level by level and by the totals; the smaller
    of the two holds."""
    shared = totals[:, :, [tensor in c.shared for c in classes]].prod(axis=2)
    long, short = [tensor in c.long for c in classes], [tensor in c.short for c in classes]
    by_level = _window_multicast(factors[:, :, long].prod(axis=2), factors[:, :, short].prod(axis=2))
    overall = _window_multicast(totals[:, :, long].prod(axis=2), totals[:, :, short].prod(axis=2))
    bound: Array = shared * np.minimum(by_level.cumprod(axis=1), overall)
    return bound


def _window_multicast(steps: Array, taps: Array) -> Array:
    """The largest multicast factor of ``steps`` times ``taps`` children on an axis that slides a window."""
    return steps * taps / (steps + taps - 1)


def _fewer(factors: Array, most: int) -> Array:
    """At most ``most`` rows that cover all rows of ``factors`` [n, levels, classes].

    If there are too many, all factors are moved to the innermost level, whose multicast counts at every level
    outside, and equal or covered rows are dropped. If that leaves too many as well, there is one row, which
    has the largest factor of every class."""
    if len(factors) > most:
        effect = "the cost model's lower bound forgets at which level words are shared, and is lower"
        limit_reached("ways to spend the fan-outs", MOST_ALLOCATIONS, effect)
        merged = _maximal(factors.prod(axis=1))
        factors = np.ones((len(merged), *factors.shape[1:]))
        factors[:, 0] = merged
    return factors if len(factors) <= most else factors.max(axis=0, keepdims=True)


@lru_cache(maxsize=1024)
def _level_ways(sizes: tuple[int, ...], fanout_x: int, fanout_y: int) -> Array:
    """The factors that a level's fan-out can give the classes, float [n, classes], without those that
    others cover."""
    # A class of several dims may be spread on both sides, one dim on each, so the factors of both multiply.
    # Of a size only the divisors that fit a side matter, which many sizes share.
    across, along = (
        _side_ways(tuple(gcd(size, _multiple_of_all(fanout)) for size in sizes), fanout)
        for fanout in (fanout_x, fanout_y)
    )
    together = (across[:, None, :] * along[None, :, :]).reshape(len(across) * len(along), len(sizes))
    return _maximal(np.minimum(together, sizes))


@lru_cache(maxsize=1024)
def _multiple_of_all(most: int) -> int:
    """A number that all numbers up to ``most`` divide."""
    return lcm(*range(1, most + 1))


@lru_cache(maxsize=1024)
def _side_ways(sizes: tuple[int, ...], fanout: int) -> Array:
    """The same for one side of a fan-out."""
    return _maximal(np.array(list(_spent(sizes, fanout))))


MOST_EXACT_FANOUT = 32
"""For larger fan-outs :func:`_any_ways` gives every class the whole fan-out, as all ways are too many."""


@cached(maxsize=1024)
def _any_ways(sizes: tuple[int, ...], fanout_x: int, fanout_y: int) -> Array:
    """As :func:`_level_ways`, for factors that need not divide the sizes but are no larger."""
    across, along = (_any_spent(sizes, fanout) for fanout in (fanout_x, fanout_y))
    together = (across[:, None, :] * along[None, :, :]).reshape(len(across) * len(along), len(sizes))
    return _maximal(np.minimum(together, sizes))


def _any_spent(sizes: tuple[int, ...], fanout: int) -> Array:
    """The largest ways to spend one side of a fan-out on the classes, any factors: [n, classes]."""
    if fanout > MOST_EXACT_FANOUT:
        if sum(size > 1 for size in sizes) > 1:
            effect = "the lower bound on padded sizes gives each kind of dim the whole fan-out, and is lower"
            limit_reached("instances of a fan-out that are divided exactly", MOST_EXACT_FANOUT, effect)
        return np.array([[min(size, fanout) for size in sizes]], float)

    def spent(rest: tuple[int, ...], left: int) -> Iterator[tuple[int, ...]]:
        if len(rest) == 1:
            yield (min(rest[0], left),)
            return
        for factor in range(1, min(rest[0], left) + 1):
            for others in spent(rest[1:], left // factor):
                yield factor, *others

    return _maximal(np.array(list(spent(sizes, fanout)) if sizes else [()], float))


def _maximal(rows: Array) -> Array:
    """The rows [n, columns] that no other row equals or exceeds in every column; each once."""
    # in alphabetical order, those of larger products first
    rows = rows[np.lexsort((*rows.T[::-1], -rows.prod(axis=1)))].astype(float)
    kept = []
    while len(rows):  # a row of the largest product is below no other
        kept.append(rows[0])
        rows = rows[(rows > rows[0]).any(axis=1)]
    return np.array(kept)


def _spent(sizes: tuple[int, ...], left: int) -> Iterator[tuple[int, ...]]:
    """All choices of one divisor of each size whose product is at most ``left``."""
    if not sizes:
        yield ()
        return
    for factor in _divisors(sizes[0], left):
        for rest in _spent(sizes[1:], left // factor):
            yield factor, *rest
