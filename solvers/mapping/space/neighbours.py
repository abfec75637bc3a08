"""The neighbours of a mapping: a prime factor moved, two exchanged, a loop reordered, a keep set changed."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.batch.batch import MappingBatch
from solvers.divisors import prime_powers
from solvers.mapping.space.space import MappingSpace

Array = NDArray[Any]
KINDS = {"temporal": 0, "x": 1, "y": 2}


@dataclass(frozen=True, eq=False)
class Factors:
    """Prime factors of a mapping as parallel arrays: their dims, the primes, and their positions."""

    dim: Array
    prime: Array
    position: Array

    def __len__(self) -> int:
        return len(self.dim)

    def __getitem__(self, rows: Array) -> Factors:
        return Factors(self.dim[rows], self.prime[rows], self.position[rows])


@dataclass(frozen=True, eq=False)
class _Moves:
    """One prime factor each that goes to another position, as parallel arrays.

    ``outermost``: the factor's loop then stands outermost among the loops of a temporal block, and not
    innermost. Among loops over a fan-out it means nothing.
    """

    factors: Factors
    to: Array
    outermost: Array


@dataclass(frozen=True, eq=False)
class _Exchanges:
    """Pairs of prime factors that change places, as parallel arrays: ``one`` with ``other``."""

    one: Factors
    other: Factors


class Neighbourhood:
    """The small changes of mappings of one space; factors may leave the bounds that the user gave.

    A position is a block of loops, numbered kind * levels + level; the kinds are temporal 0, x 1 and y 2.
    """

    def __init__(self, space: MappingSpace) -> None:
        architecture, layer = space.architecture, space.layer
        self._space = space
        self._levels = len(architecture.levels)
        self._limit = np.ones(3 * self._levels)
        self._limit[: self._levels] = np.inf
        for level, hardware in enumerate(architecture.levels):
            self._limit[KINDS["x"] * self._levels + level] = hardware.fanout_x
            self._limit[KINDS["y"] * self._levels + level] = hardware.fanout_y
        self._positions = np.array(
            [kind * self._levels + level for level in range(self._levels) for kind in range(3)]
        )
        self._positions = self._positions[self._limit[self._positions] > 1]
        primes = [(d, prime) for d, (_, size) in enumerate(layer.dims) for prime, _ in prime_powers(size)]
        every = np.array(
            [(d, prime, position) for d, prime in primes for position in self._positions], dtype=np.int64
        )
        self._factors = Factors(*every.reshape(-1, 3).T)
        bits = np.arange(len(layer.tensors))
        keeps = [(level, mask) for level, masks in enumerate(space.keep_sets) for mask in masks]
        self._keep_level = np.array([level for level, _ in keeps])
        self._keep_sets = np.array([mask for _, mask in keeps])[:, None] >> bits & 1 == 1

    def around(self, mapping: MappingBatch) -> MappingBatch:
        """All neighbours of the one row of ``mapping`` within the fan-outs; their tiles may not fit.

        Loops stand in an order that the rules allow.
        """
        blocks = np.concatenate([mapping.temporal[0], mapping.spatial_x[0], mapping.spatial_y[0]])
        order = mapping.permutation[0]
        here = blocks[self._factors.position, self._factors.dim] % self._factors.prime == 0
        held = self._factors[here]
        moves = self._moves(blocks, held)
        exchanges = self._exchanges(blocks, held)
        turned = self._turned(blocks, order)
        rows = [self._moved(blocks, moves), _exchanged(blocks, exchanges), _repeated(blocks, len(turned))]
        orders = [self._orders(order, moves), _repeated(order, len(exchanges.one)), turned]
        return self._with_bypasses(mapping, blocks, np.concatenate(rows), np.concatenate(orders))

    def _moves(self, blocks: Array, held: Factors) -> _Moves:
        """Each of the factors held, to each position that can take it."""
        one = held[np.repeat(np.arange(len(held)), len(self._positions))]
        to = np.tile(self._positions, len(held))
        fits = (to != one.position) & (blocks.prod(axis=1)[to] * one.prime <= self._limit[to])
        one, to = one[fits], to[fits]
        # Temporal loops have an order, so each move to a temporal block is tried twice: innermost in it, and
        # outermost. Loops over a fan-out have none.
        again = np.flatnonzero(to < self._levels)
        both = np.concatenate([np.arange(len(to)), again])
        return _Moves(one[both], to[both], np.arange(len(both)) >= len(to))

    def _moved(self, blocks: Array, moves: _Moves) -> Array:
        one, to = moves.factors, moves.to
        rows = np.arange(len(to))
        changed = _repeated(blocks, len(to))
        changed[rows, one.position, one.dim] //= one.prime
        changed[rows, to, one.dim] *= one.prime
        return changed

    def _orders(self, order: Array, moves: _Moves) -> Array:
        """The loop orders after ``moves``: a factor moved to a temporal block stands first or last in it."""
        to = moves.to
        orders = _repeated(order, len(to))
        rows = np.flatnonzero(to < self._levels)
        orders[rows, to[rows]] = _shifted(order[to[rows]], moves.factors.dim[rows], moves.outermost[rows])
        return orders

    def _exchanges(self, blocks: Array, held: Factors) -> _Exchanges:
        """Pairs of held factors, of different positions and different dims or primes, that fit exchanged."""
        # Exchanges reach mappings that single moves do not: where a buffer or fan-out is full, no factor can
        # move in before another has moved out, and the mapping in between may be much worse.
        first, second = np.triu_indices(len(held), 1)
        one, two = held[first], held[second]
        used = blocks.prod(axis=1)
        useful = (one.position != two.position) & ((one.dim != two.dim) | (one.prime != two.prime))
        useful &= used[one.position] // one.prime * two.prime <= self._limit[one.position]
        useful &= used[two.position] // two.prime * one.prime <= self._limit[two.position]
        return _Exchanges(one[useful], two[useful])

    def _turned(self, blocks: Array, order: Array) -> Array:
        """The loop orders with one temporal loop put innermost or outermost."""
        levels, dims = np.nonzero(blocks[: self._levels] > 1)
        levels, dims = np.tile(levels, 2), np.tile(dims, 2)
        orders = _repeated(order, len(levels))
        outermost = np.arange(len(levels)) >= len(levels) // 2
        orders[np.arange(len(levels)), levels] = _shifted(order[levels], dims, outermost)
        return orders

    def _with_bypasses(
        self, mapping: MappingBatch, blocks: Array, rows: Array, orders: Array
    ) -> MappingBatch:
        """The changed loops with the kept tensors of ``mapping``, and its loops with others kept."""
        levels, kept = self._other_keeps(mapping.keep[0])
        rows = np.concatenate([rows, _repeated(blocks, len(kept))])
        orders = np.concatenate([orders, _repeated(mapping.permutation[0], len(kept))])
        keep = _repeated(mapping.keep[0], len(rows))
        keep[np.arange(len(rows) - len(kept), len(rows)), levels] = kept
        temporal, x, y = np.split(rows, 3, axis=1)
        return MappingBatch(temporal, self._space.reordered(orders), x, y, keep)

    def _other_keeps(self, keep: Array) -> tuple[Array, Array]:
        """Levels, and allowed keep sets there that have one tensor more, one less, or another."""
        here = keep[self._keep_level]
        more = (self._keep_sets & ~here).sum(axis=1)
        fewer = (here & ~self._keep_sets).sum(axis=1)
        # At most one tensor comes and one goes: also an exchange of two, since where both do not fit, neither
        # step of it by itself is any good.
        near = (more <= 1) & (fewer <= 1) & (more + fewer > 0)
        return self._keep_level[near], self._keep_sets[near]


def _exchanged(blocks: Array, exchanges: _Exchanges) -> Array:
    one, two = exchanges.one, exchanges.other
    rows = np.arange(len(one))
    changed = _repeated(blocks, len(rows))
    for here, there in ((one, two), (two, one)):
        changed[rows, here.position, here.dim] //= here.prime
        changed[rows, there.position, here.dim] *= here.prime
    return changed


def _repeated(array: Array, times: int) -> Array:
    return np.repeat(array[None], times, axis=0)


def _shifted(orders: Array, dims: Array, outermost: Array) -> Array:
    """Each row of ``orders`` with its dim first (innermost) or last."""
    # A row lists dims by position. Sorted, it lists positions by dim: there one dim gets a position before
    # all others or behind them, and sorting once more gives dims by position again.
    ranks = np.argsort(orders, axis=1)
    ranks[np.arange(len(orders)), dims] = np.where(outermost, orders.shape[1], -1)
    return np.argsort(ranks, axis=1).astype(orders.dtype)
