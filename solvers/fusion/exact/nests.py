"""The own nests of one einsum: for all extents that shared loops leave, the undominated ways to run it.

Shared and own loops, backing levels and hoisted tiles are those of
:class:`costmodel.mapping.fused.mapping.FusedMapping`. Own tiles are those that stand below all shared loops.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import permutations
from math import inf, prod
from typing import NamedTuple

import numpy as np

from costmodel.mapping.fused.mapping import Loops
from costmodel.mapping.fused.problem import Einsum, FusedLevel, FusedProblem
from solvers.budget import MOST_SECONDS, Deadline
from solvers.divisors import divisors
from solvers.fusion.exact.nest_kernel import (
    FULL,
    Array,
    NestCost,
    NestSpace,
    Scratch,
    Ways,
    WaysInside,
    combine,
)
from solvers.fusion.problem import FusionObjective

Extents = tuple[int, ...]
"""Of every dim of an einsum what shared loops leave, in the order of its dims."""

TensorSet = int
"""A bit for each tensor of an einsum, in its order."""


class NestChoice(NamedTuple):
    """Which nests are meant: ``own`` has the tensors with own tiles, for each level on the chip, innermost
    first.

    ``capacities``: the most words of own tiles in each of these levels but the last, which is the outermost
    one of the chip: its capacity is the chain's. ``turns``: how often the einsum runs; ``hoisted``: words of
    operands and of the output that enter its hoisted tiles in all turns. Where they would only scale and
    shift the result, ``turns`` is 1 and ``hoisted`` (0, 0), and the caller counts them.
    """

    extents: Extents
    own: tuple[TensorSet, ...]
    capacities: tuple[float, ...]
    turns: int = 1
    hoisted: tuple[int, int] = (0, 0)


@dataclass(frozen=True)
class NestFront:
    """The undominated nests of a choice, n of them.

    ``rows`` [n, 3], sorted by words: words of own tiles in the outermost level of the chip, pJ, cycles. What
    the objective does not need is 0: pJ where it is cycles, cycles where it is energy. Where it is energy, pJ
    are without what no nest changes (:meth:`EinsumNests.fixed_at`), which the caller adds. ``origins`` [n, 3]
    says for each how it is made; :meth:`EinsumNests.loops` reads its loops from that.
    """

    rows: Array
    origins: Array

    @cached_property
    def words(self) -> list[float]:
        found: list[float] = self.rows[:, 0].tolist()
        return found

    @cached_property
    def least(self) -> tuple[list[float], list[float]]:
        """The least pJ and the least cycles of each row and all that need fewer words."""
        energy = np.minimum.accumulate(self.rows[:, 1]).tolist()
        cycles = np.minimum.accumulate(self.rows[:, 2]).tolist()
        return energy, cycles


@dataclass(frozen=True)
class _Table:
    """The ways inside the tiles of a level, and how each is made."""

    ways: WaysInside
    origins: Array


class EinsumNests:
    """The nests of one einsum of a chain, for one objective; asked for again, they are remembered.

    ``deadline`` is looked at before each computation: raises OutOfTimeError after it.
    """

    def __init__(
        self, chain: FusedProblem, position: int, objective: FusionObjective, deadline: Deadline
    ) -> None:
        self.chain, self.position, self.objective = chain, position, objective
        self.einsum: Einsum = chain.einsums[position]
        self.deadline = deadline
        self.dims = tuple(self.einsum.dims)
        self.tensors = tuple(self.einsum.tensors)
        self.output = self.tensors.index(self.einsum.output)
        self.made = prod(self.einsum.dims[dim] for dim in self.einsum.dims_of(self.einsum.output))
        self._divisors = [divisors(self.einsum.dims[dim]) for dim in self.dims]
        self._relevant = np.array(
            [[dim in self.einsum.dims_of(tensor) for dim in self.dims] for tensor in self.tensors]
        )
        self.orders, free = useful_orders(self._relevant)
        counts = np.array([len(one) for one in self._divisors])
        grid = np.ones((len(self.dims), max(counts)), np.int64)
        for dim, found in enumerate(self._divisors):
            grid[dim, : len(found)] = found
        strides = np.array([prod(counts[:dim].tolist()) for dim in range(len(counts))], np.int64)
        self._strides = strides
        self._tiles = prod(counts.tolist())
        self._space = NestSpace(grid, counts, strides, self._relevant, free, self.output)
        self._fronts: dict[NestChoice, NestFront] = {}
        self._tables: dict[tuple[tuple[TensorSet, ...], tuple[float, ...]], _Table] = {}
        self._size = 256
        self.evaluations = 0

    # -- what is asked for ---------------------------------------------------------------------------

    def front(self, choice: NestChoice) -> NestFront:
        """The undominated nests of a choice; no rows where nothing fits."""
        if choice not in self._fronts:
            self._fronts[choice] = self._computed(choice)
        return self._fronts[choice]

    def loops(self, choice: NestChoice, origin: Iterable[int]) -> tuple[Loops, ...]:
        """The own loops of a row of the front of ``choice``, as ``FusedMapping.own`` has them.

        ``origin``: the row of :attr:`NestFront.origins`. One entry for each level on the chip, outermost
        first, with the loops (dim, step) above its tiles, and a last one with those inside the innermost
        tile.
        """
        extents, found = list(choice.extents), []
        levels = len(choice.own)
        for level in range(levels - 1, -1, -1):
            tile, order, way = (int(number) for number in origin)
            inner = [
                self._divisors[dim][tile // int(self._strides[dim]) % len(self._divisors[dim])]
                for dim in range(len(self.dims))
            ]
            found.append(
                tuple((self.dims[dim], inner[dim]) for dim in self.orders[order] if inner[dim] < extents[dim])
            )
            extents = inner
            if level:
                origin = self._table(choice.own[:level], choice.capacities[:level]).origins[way]
        found.append(tuple((dim, 1) for dim, extent in zip(self.dims, extents, strict=True) if extent > 1))
        return tuple(found)

    @cached_property
    def fixed(self) -> tuple[tuple[float, ...], tuple[float, ...]]:
        """Words read and words written at every level, innermost first, that all mappings have in common.

        What depends on where the output has tiles, its first contributions there, is left to
        :meth:`fixed_at`.
        """
        operations = self.einsum.operations
        reads, writes = [0.0] * len(self.chain.levels), [0.0] * len(self.chain.levels)
        reads[0] = float(len(self.tensors) * operations - self.made)
        writes[0] = float(operations)
        return tuple(reads), tuple(writes)

    def fixed_at(self, output_levels: int) -> tuple[list[float], list[float], float]:
        """Words read and words written by level, and pJ, that do not depend on the nest or on hoisted tiles.

        Levels are innermost first, the outermost memory included. ``output_levels``: how many levels have
        tiles of the output, which are the innermost ones. Each element comes into each of them once without
        being read from further out.
        """
        reads, writes = map(list, self.fixed)
        for level in range(output_levels):
            writes[level] -= self.made
            reads[level + 1] -= self.made
        energy = self.einsum.operations * self.chain.mac_pj
        for number, memory in enumerate(self.chain.levels):
            energy += reads[number] * memory.read_pj + writes[number] * memory.write_pj
        return reads, writes, energy

    @cached_property
    def word_pj(self) -> Array:
        """pJ [2 * levels on the chip] for a word that enters a tile: at 2 n of an operand into level n, at
        2 n + 1 of the output; level 0 is the innermost. A word of the output also goes back out."""
        found = []
        for inner, outer in zip(self.chain.levels[:-1], self.chain.levels[1:], strict=True):
            moved = inner.write_pj + outer.read_pj
            found += [moved, moved + outer.write_pj]
        return np.array(found)

    # -- how it is found -----------------------------------------------------------------------------

    def _computed(self, choice: NestChoice) -> NestFront:
        self.deadline.check()
        inside = self._table(choice.own[:-1], choice.capacities).ways
        capacity = self.chain.levels[len(choice.own) - 1].capacity
        ways, count = self._ways(
            np.array(choice.extents),
            choice.own[-1],
            inf if capacity is None else float(capacity),
            inside,
            self._final_cost(choice),
        )
        rows, origins = ways.values[:count], ways.origins[:count]
        by_words = np.lexsort((rows[:, 2], rows[:, 1], rows[:, 0]))
        return NestFront(rows[by_words], origins[by_words].copy())

    def _final_cost(self, choice: NestChoice) -> NestCost:
        """How the words of whole nests become pJ and cycles, what is fixed for the choice included."""
        bit = 1 << self.output
        on_chip = len(choice.own)
        # a hoisted output has a tile in the outermost level of the chip as well
        has_tiles = sum(1 for level in range(on_chip) if choice.own[level] & bit)
        if choice.hoisted[1]:
            has_tiles = on_chip
        reads, writes, energy = self.fixed_at(has_tiles)
        if self.objective == "energy":
            energy = 0.0  # nests of any number of turns are one then, and whoever asks adds what is fixed
        hoisted = np.zeros(2 * on_chip)
        hoisted[-2:] = choice.hoisted
        rates = [
            [inf if rate is None else rate for rate in (level.read_bw, level.write_bw)]
            for level in self.chain.levels
        ]
        return NestCost(
            True,
            False,
            self.word_pj,
            float(choice.turns),
            hoisted,
            energy,
            np.array(reads),
            np.array(writes),
            np.array([rate[0] for rate in rates], float),
            np.array([rate[1] for rate in rates], float),
            float(self.einsum.operations),
            self.objective != "cycles",
            self.objective != "energy",
        )

    def _table(self, own: tuple[TensorSet, ...], capacities: tuple[float, ...]) -> _Table:
        """The ways inside every tile of the level around those that ``own`` and ``capacities`` tell of."""
        if (own, capacities) in self._tables:
            return self._tables[own, capacities]
        if not own:
            count = self._tiles
            ways = WaysInside(np.arange(count + 1), np.zeros((count, 0), np.int64), np.zeros((count, 0)))
            table = _Table(ways, np.zeros((count, 3), np.int64))
        else:
            table = self._filled(own, capacities)
        self._tables[own, capacities] = table
        return table

    def _filled(self, own: tuple[TensorSet, ...], capacities: tuple[float, ...]) -> _Table:
        inside = self._table(own[:-1], capacities[:-1]).ways
        cost = self._table_cost(len(own))
        starts, masks, words, origins = [0], [], [], []
        for tile in range(self._tiles):
            if tile % 64 == 0:
                self.deadline.check()
            extents = [
                one[tile // int(stride) % len(one)]
                for one, stride in zip(self._divisors, self._strides, strict=True)
            ]
            ways, count = self._ways(np.array(extents), own[-1], capacities[-1], inside, cost)
            masks.append(ways.masks[:count].copy())
            words.append(ways.words[:count].copy())
            origins.append(ways.origins[:count].copy())
            starts.append(starts[-1] + count)
        found = WaysInside(np.array(starts), np.concatenate(masks), np.concatenate(words))
        return _Table(found, np.concatenate(origins))

    def _table_cost(self, levels: int) -> NestCost:
        nothing = np.zeros(len(self.chain.levels))
        return NestCost(
            False,
            self.objective == "energy",
            self.word_pj[: 2 * levels].copy(),
            1.0,
            np.zeros(2 * levels),
            0.0,
            nothing,
            nothing,
            nothing + 1,
            nothing + 1,
            0.0,
            True,
            True,
        )

    def _ways(
        self, extents: Array, own: TensorSet, capacity: float, inside: WaysInside, cost: NestCost
    ) -> tuple[Ways, int]:
        """Undominated ways, and how many: the first rows of arrays that are mostly larger.

        The kernel cannot allocate. Where the ways do not fit, it is called again with four times the rows.
        """
        levels = inside.masks.shape[1] + 1
        values = 3 if cost.final else 1 if cost.by_energy else 2 * levels
        mine = np.array([own >> tensor & 1 == 1 for tensor in range(len(self.tensors))])
        dims, tensors = len(self.dims), len(self.tensors)
        while True:
            ways = Ways(
                np.zeros((self._size, levels), np.int64),
                np.zeros((self._size, 2 * levels)),
                np.zeros((self._size, values)),
                np.zeros((self._size, 3), np.int64),
            )
            scratch = Scratch(
                np.zeros(dims, np.int64),
                np.zeros(dims, np.int64),
                np.zeros(tensors, np.bool_),
                np.zeros(tensors),
                np.zeros(tensors),
                np.zeros(levels, np.int64),
                np.zeros(2 * levels),
                np.zeros(values),
            )
            self.evaluations += 1
            count = combine(self._space, extents, mine, capacity, inside, cost, ways, scratch)
            if count != FULL:
                return ways, count
            self._size *= 4


@lru_cache(maxsize=1)
def load_kernel() -> None:
    """Have the machine code that every front needs: a process loads it once, and at times compiles it."""
    einsum = Einsum("one", {"a": 1}, {"A": ((("a", 1),),), "B": ((("a", 1),),)}, "B")
    levels = tuple(FusedLevel(name, None, 0.0, 0.0) for name in ("inner", "middle", "outer"))
    nests = EinsumNests(FusedProblem((einsum,), levels, 0.0), 0, "edp", Deadline(MOST_SECONDS))
    nests.front(NestChoice((1,), (3, 3), (inf,)))


def useful_orders(relevant: Array) -> tuple[list[tuple[int, ...]], Array]:
    """Orders of the dims, outermost first, and for each the dims that bring no tensor's words again.

    ``relevant``: [tensor, dim]; the second result: [order, tensor, dim]. An order whose free dims another
    order has as well for every tensor is left out.
    """
    tensors, dims = relevant.shape
    found: dict[bytes, tuple[tuple[int, ...], Array]] = {}
    for order in permutations(range(dims)):
        free = np.zeros((tensors, dims), np.bool_)
        for tensor in range(tensors):
            for dim in reversed(order):
                if relevant[tensor, dim]:
                    break
                free[tensor, dim] = True
        found.setdefault(free.tobytes(), (order, free))
    best = [
        (order, free)
        for order, free in found.values()
        if not any(np.all(other >= free) and np.any(other > free) for _, other in found.values())
    ]
    return [order for order, _ in best], np.array([free for _, free in best])
