"""From real trip counts to mappings: the nearest divisors, level by level (section IV)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.batch.batch import MappingBatch
from solvers.divisors import divisors
from solvers.mapping.thistle.nest.expressions import Order
from solvers.mapping.thistle.nest.tiling import Choice, Tiling

Array = NDArray[Any]
Factors = tuple[int, ...]
"""The whole trip counts of one dim, one for each of its variables, from the inside out."""


@dataclass(frozen=True, eq=False)
class Rounding:
    """Candidates with whole trip counts near the relaxed optima of one tiling.

    For every dim, from its outermost block inwards, the ``nearest`` divisors of what is left are tried. The
    candidates are all combinations of the dims' choices. If these are more than ``most_candidates``, dims
    with many choices lose those furthest from the relaxed ones, in logarithms. Candidates that use less than
    ``least_utilization`` of the units are left out if any other fits (the paper's threshold).
    """

    tiling: Tiling
    nearest: int
    most_candidates: int
    least_utilization: float

    def candidates(self, x: Array, orders: Sequence[Order]) -> MappingBatch:
        """Mappings, not all of them valid, near the logarithms ``x`` of the variables, in these orders."""
        chains = [self._chains(dim, x) for dim in self.tiling.tiled_dims]
        if not all(chains):  # some dim has no factors that the rules allow
            return self._batch(0, orders)
        trips = _cross_product(chains, self.most_candidates) if chains else np.ones((1, 0), int)
        batch = self._batch(len(trips), orders)
        for column, choice in enumerate(self.tiling.choices):
            if not choice.block.spatial:
                batch.temporal[:, choice.block.level, self._index[choice.dim]] = trips[:, column]
        fits = np.ones(len(trips), bool)
        for level, columns in self._spread.items():
            fits &= self._spread_out(batch, trips, level, columns)
        return batch[fits & self._enough_used(trips, fits)]

    def _batch(self, count: int, orders: Sequence[Order]) -> MappingBatch:
        """``count`` rows with the fixed trip counts, the orders and the kept tensors filled in."""
        space = self.tiling.space
        batch = MappingBatch.empty(count, space.architecture, space.layer)
        for slot in space.slots:
            for dim, index in self._index.items():
                trips = self._fixed_trips(dim, slot.level, slot.spatial)
                target = batch.spatial_x if slot.spatial else batch.temporal
                target[:, slot.level, index] = trips
        for level, order in enumerate(orders):
            listed = [self._index[dim] for dim in order]
            batch.permutation[:, level] = listed + [d for d in self._index.values() if d not in listed]
        for level, kept in enumerate(self.tiling.keep):
            batch.keep[:, level] = [tensor.name in kept for tensor in space.layer.tensors]
        return batch

    def _fixed_trips(self, dim: str, level: int, spatial: bool) -> int:
        name = f"{dim}.{'spatial' if spatial else 'temporal'}.{level}"
        return int(self.tiling.fixed.get(name, 1))

    @cached_property
    def _index(self) -> dict[str, int]:
        return {dim: number for number, (dim, _) in enumerate(self.tiling.layer.dims)}

    @cached_property
    def _spread(self) -> dict[int, list[int]]:
        """Per level the columns of its spatial trip counts."""
        columns: dict[int, list[int]] = {}
        for column, choice in enumerate(self.tiling.choices):
            if choice.block.spatial:
                columns.setdefault(choice.block.level, []).append(column)
        return columns

    def _chains(self, dim: str, x: Array) -> list[Factors]:
        """Trip counts of one dim near the relaxed ones, nearest first."""
        columns = [number for number, choice in enumerate(self.tiling.choices) if choice.dim == dim]
        choices = [self.tiling.choices[column] for column in columns]
        # Divisors are compared with what all blocks inside cover together, not with one block's trip count:
        # rounding one block changes what the others have to make up for.
        covers = np.cumsum(x[columns])[:-1].tolist()
        found = nearest_chains(self.tiling.layer.sizes[dim], choices, covers, self.nearest)
        return [factors for _, factors in sorted(found)]

    def _spread_out(self, batch: MappingBatch, trips: Array, level: int, columns: list[int]) -> Array:
        """Put the spatial factors of ``level`` on sides where they fit; which rows have such sides."""
        hardware, rules = self.tiling.space.architecture.levels[level], self.tiling.space.level_rules[level]
        factors = trips[:, columns]
        dims = [self.tiling.choices[column].dim for column in columns]
        fits = np.zeros(len(trips), bool)
        for sides in product((True, False), repeat=len(dims)):
            on_x = np.array(sides)
            allowed = [rules.allows_side(d, "x" if x else "y") for d, x in zip(dims, sides, strict=True)]
            x, y = np.where(on_x, factors, 1), np.where(on_x, 1, factors)
            right = (np.array(allowed) | (factors == 1)).all(axis=1) & ~fits
            right &= (x.prod(axis=1) <= hardware.fanout_x) & (y.prod(axis=1) <= hardware.fanout_y)
            for number, dim in enumerate(dims):
                batch.spatial_x[right, level, self._index[dim]] = x[right, number]
                batch.spatial_y[right, level, self._index[dim]] = y[right, number]
            fits |= right
        return fits

    def _enough_used(self, trips: Array, fits: Array) -> Array:
        """Which rows are above the threshold of section IV; all, if none of those that fit is."""
        used = np.ones(len(trips))
        for level, columns in self._spread.items():
            used *= trips[:, columns].prod(axis=1) / self.tiling.space.architecture.levels[level].fanout
        enough = used >= self.least_utilization
        return enough if (enough & fits).any() else np.ones(len(trips), bool)


def nearest_chains(
    size: int, choices: Sequence[Choice], covers: Sequence[float], nearest: int
) -> list[tuple[float, Factors]]:
    """Trip counts that multiply to ``size``, each with its distance from the relaxed ones.

    ``covers[i]`` is the logarithm of the relaxed product of the trip counts up to that of ``choices[i]``.
    """
    if len(choices) == 1:
        return [(0.0, (size,))] if choices[0].least <= size <= choices[0].most else []
    outermost = choices[-1]
    inside = [d for d in divisors(size) if outermost.least <= size // d <= outermost.most]
    inside.sort(key=lambda divisor: abs(log(divisor) - covers[-1]))
    return [
        (distance + abs(log(divisor) - covers[-1]), (*factors, size // divisor))
        for divisor in inside[:nearest]
        for distance, factors in nearest_chains(divisor, choices[:-1], covers[:-1], nearest)
    ]


def _cross_product(chains: list[list[Factors]], most: int) -> Array:
    """All combinations, int [n, variables], of at most ``most``: the longest lists lose their furthest."""
    counts = [len(found) for found in chains]
    while np.prod(counts, dtype=float) > most:
        # Each list has the nearest first, so its end is what is lost least; taking from the longest keeps the
        # product balanced among dims.
        counts[int(np.argmax(counts))] -= 1
    rows = np.indices(counts).reshape(len(counts), -1)
    columns = [np.array(found)[row] for found, row in zip(chains, rows, strict=True)]
    return np.concatenate(columns, axis=1)
