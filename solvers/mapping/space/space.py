"""The mappings that a problem allows: factors, spatial sides, loop orders, what is kept.

:class:`MappingSpace` lists them, counts them, draws random ones and tells whether one belongs to them.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property, lru_cache, partial
from itertools import combinations, permutations, product
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.errors import InputError
from costmodel.hardware.architecture import Architecture
from costmodel.hardware.precision import Precision
from costmodel.limits import limit_reached
from costmodel.mapping.batch.batch import MappingBatch
from costmodel.mapping.element_bits import tile_bits
from costmodel.workload.network import Layer, Tensor
from solvers.divisors import divisors
from solvers.mapping.space.loop_orders import LoopOrders
from solvers.mapping.space.rules import LevelRules, SpaceRules, allowed_keeps
from solvers.mapping.space.tables import RuleTables, SideTables, SpaceTables

Array = NDArray[Any]
ATTEMPTS = 100
"""How often a random row is drawn anew because its spatial factors do not fit; then it is left invalid."""

SIDES: tuple[Literal["x", "y"], ...] = "x", "y"

LARGEST_SIZE = 2**31 - 1
"""The largest size of a dim. Batches of mappings hold factors as 32-bit integers. Besides, some tables are
quadratic in the number of a size's divisors, and sizes up to this have at most 1,536."""


class Slot(NamedTuple):
    """A block of loops that can hold a factor of each dim: a level's spatial or temporal block.

    ``least`` and ``most`` are, per dim of the layer, the smallest and the largest factor allowed there.
    """

    level: int
    spatial: bool
    least: tuple[int, ...]
    most: tuple[int, ...]


@dataclass(frozen=True)
class MappingSpace:
    """All perfectly factored mappings of ``layer`` on ``architecture`` that ``rules`` allow.

    Every dim is split over the slots: each level's temporal block, and its spatial block if it has a fan-out.
    The sides X and Y of spatial factors do not change what a mapping costs, only whether it fits. Padded
    mappings are those of other spaces, one for each size (``padding.py``). Raises InputError for rules that
    ask for uneven mappings.
    """

    architecture: Architecture
    layer: Layer
    rules: SpaceRules = field(default_factory=SpaceRules)

    def __post_init__(self) -> None:
        for dim, size in self.layer.dims:
            if size > LARGEST_SIZE:
                where, expected = (
                    f"layer {self.layer.name}",
                    f"at most {LARGEST_SIZE:,} points of a dim to map",
                )
                raise InputError(where, expected, size, "Split the dim in two", key=f"dims.{dim}")
        if self.rules.uneven:
            expected = "even mappings, all that this solver knows"
            remedy = "Ask exact, or auto, which asks it"
            raise InputError("mapping space", expected, "uneven ones", remedy, key="uneven")

    @cached_property
    def level_rules(self) -> tuple[LevelRules, ...]:
        """The user's constraints per level, innermost first."""
        return tuple(self.rules.at(level.name) for level in self.architecture.levels)

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        """All slots, inside out: of a level first the spatial one, if it has a fan-out, then the temporal
        one."""
        slots = []
        for index, level in enumerate(self.architecture.levels):
            # A level without a fan-out has no spatial slot: a slot for factors of 1 would slow down every
            # walk.
            if level.fanout > 1:
                slots.append(self._spatial_slot(index))
            slots.append(self._temporal_slot(index))
        return tuple(slots)

    def _temporal_slot(self, index: int) -> Slot:
        rules = [self.level_rules[index].temporal_rule(dim) for dim, _ in self.layer.dims]
        largest = max(size for _, size in self.layer.dims)
        most = tuple(largest if rule.most is None else rule.most for rule in rules)
        return Slot(index, False, tuple(rule.least for rule in rules), most)

    def _spatial_slot(self, index: int) -> Slot:
        asked, level = self.level_rules[index], self.architecture.levels[index]
        most = []
        # A dim stands on one side of a fan-out only, so its factor is at most the longer side.
        for dim, _ in self.layer.dims:
            x = level.fanout_x if asked.allows_side(dim, "x") else 1
            y = level.fanout_y if asked.allows_side(dim, "y") else 1
            most.append(min(max(x, y), asked.spatial_rule(dim).most or level.fanout))
        least = tuple(asked.spatial_rule(dim).least for dim, _ in self.layer.dims)
        return Slot(index, True, least, tuple(most))

    @cached_property
    def keep_sets(self) -> tuple[tuple[int, ...], ...]:
        """For each level the sets of tensors that it may keep, as bit masks; if it has none, there is no
        mapping.

        The outermost level keeps all tensors.
        """
        bits = {tensor.name: 1 << number for number, tensor in enumerate(self.layer.tensors)}
        precision = self.architecture.precision
        allowed = (
            allowed_keeps(self.rules, level, self.layer, precision) for level in self.architecture.levels[:-1]
        )
        inner = [tuple(sum(bits[name] for name in kept) for kept in sets) for sets in allowed]
        return (*inner, (sum(bits.values()),))

    @cached_property
    def tables(self) -> SpaceTables:
        """The space as compiled code takes it."""
        per_dim = [divisors(size) for _, size in self.layer.dims]
        masks = padded(self.keep_sets)
        return SpaceTables(
            slot_level=np.array([slot.level for slot in self.slots], np.int64),
            slot_spatial=np.array([slot.spatial for slot in self.slots]),
            slot_least=np.array([slot.least for slot in self.slots], np.int64),
            slot_most=np.array([slot.most for slot in self.slots], np.int64),
            divisors=padded(per_dim),
            divisor_count=np.array([len(found) for found in per_dim], np.int64),
            quotient=_quotients(per_dim),
            masks=masks,
            mask_count=np.array([len(found) for found in self.keep_sets], np.int64),
            largest=self._largest(per_dim),
            sides=self.side_tables,
            order=np.array([[*first, *middle, *last] for first, middle, last in self._orders_asked], np.int8),
            free_from=np.array([len(first) for first, _, _ in self._orders_asked], np.int64),
            free_to=np.array([len(first) + len(middle) for first, middle, _ in self._orders_asked], np.int64),
        )

    @cached_property
    def rule_tables(self) -> RuleTables:
        """The rules as compiled code takes them."""
        shape = (2, len(self.architecture.levels), len(self.layer.dims))
        least, most = np.ones(shape, np.int64), np.full(shape, LARGEST_SIZE)
        keeps = np.zeros((shape[1], 2 ** len(self.layer.tensors)), np.bool_)
        for slot in self.slots:
            least[int(slot.spatial), slot.level], most[int(slot.spatial), slot.level] = slot.least, slot.most
        for level, sets in enumerate(self.keep_sets):
            keeps[level, list(sets)] = True
        return RuleTables(keeps, bool(self.rules.levels), least, most, self.side_tables)

    @cached_property
    def side_tables(self) -> SideTables:
        """The fan-outs, and on which of their sides dims may be spread, as compiled code takes them."""
        levels, dims = self.architecture.levels, [dim for dim, _ in self.layer.dims]
        may_x, may_y = (
            np.array([[rules.allows_side(dim, side) for dim in dims] for rules in self.level_rules])
            for side in SIDES
        )
        fanout_x, fanout_y = np.array([(one.fanout_x, one.fanout_y) for one in levels], np.int64).T.copy()
        return SideTables(fanout_x, fanout_y, may_x, may_y)

    @cached_property
    def _orders_asked(self) -> list[tuple[tuple[int, ...], tuple[int, ...], tuple[int, ...]]]:
        """Per level the dims (indices) that must stand innermost, those free to move, and the outermost."""
        index = {dim: number for number, (dim, _) in enumerate(self.layer.dims)}
        asked = []
        for rules in self.level_rules:
            first = tuple(index[dim] for dim in rules.innermost)
            last = tuple(index[dim] for dim in reversed(rules.outermost))
            asked.append((first, tuple(d for d in index.values() if d not in {*first, *last}), last))
        return asked

    def _largest(self, per_dim: list[tuple[int, ...]]) -> Array:
        """The largest divisor of each dim whose tiles fit, if all other dims are 1: int64 [levels, masks,
        dims].

        0 if not even one point fits, and for sets of tensors (``masks``) that the level may not keep.
        """
        tensors = self.layer.tensors
        table = np.zeros((len(self.architecture.levels), 2 ** len(tensors), len(per_dim)), np.int64)
        for number, level in enumerate(self.architecture.levels):
            for mask in self.keep_sets[number]:
                kept = [tensor for bit, tensor in enumerate(tensors) if mask >> bit & 1]
                for index, (dim, _) in enumerate(self.layer.dims):
                    # Words grow with what is covered: the largest divisor that fits is found by halving.
                    taken: Callable[[int], Any] = partial(_words, kept, dim)
                    usable = level.usable_words
                    if self.architecture.precision is not None:
                        taken = partial(_bits, self.architecture.precision, self.layer, kept, dim)
                        usable *= level.word_bits
                    fitting = bisect_right(per_dim[index], usable, key=taken)
                    table[number, mask, index] = per_dim[index][fitting - 1] if fitting else 0
        return table

    def sample(self, blocks: range, seed: int, rows_per_block: int = 256) -> MappingBatch:
        """Random mappings, ``rows_per_block`` for each block: a block has one keep set per level, and its
        rows are drawn independently.

        Within a block, three things are drawn uniformly: for each dim a way to factor it, among those where
        this dim by itself neither exceeds a fan-out nor overfills a level (all others make invalid rows); a
        choice of sides that fits; and an order of loops that the rules allow. If the keep sets leave some dim
        no way, all rows of the block are invalid. Block ``b`` of a seed is always the same.
        """
        from solvers.mapping.space.space_kernel import Drawing, sample_rows, space_workspace

        batch = MappingBatch.empty(len(blocks) * rows_per_block, self.architecture, self.layer)
        tables = self.tables
        work = space_workspace(tables)
        sample_rows(tables, batch.rows, work, Drawing(seed, blocks.start, rows_per_block, ATTEMPTS))
        if work.given_up[0]:
            effect = "such rows are left invalid, and fewer mappings are looked at than are drawn"
            limit_reached("draws of a row's spatial factors until they fit", ATTEMPTS, effect)
        return batch

    def with_sides(self, batch: MappingBatch) -> Array:
        """Give the spatial factors of ``batch``, all on X, sides; in which rows they fit, bool [n]."""
        from solvers.mapping.space.space_kernel import choose_sides

        fitting = np.zeros(len(batch), np.bool_)
        state, spread = np.zeros(1, np.uint64), np.zeros(len(self.layer.dims), np.int64)
        choose_sides(self.side_tables, batch.rows, fitting, state, spread)
        return fitting

    def allowed(self, batch: MappingBatch) -> Array:
        """Which rows of ``batch``, valid mappings all, obey the rules, bool [n]."""
        tables = self.rule_tables
        masks = batch.keep @ (1 << np.arange(len(self.layer.tensors)))
        right: Array = tables.keeps[np.arange(len(tables.keeps)), masks].all(axis=1)
        if not tables.bounded:
            return right
        factors = np.stack([batch.temporal, batch.spatial_x * batch.spatial_y], axis=1)
        right &= ((factors >= tables.least) & (factors <= tables.most)).all(axis=(1, 2, 3))
        right &= (tables.sides.may_x | (batch.spatial_x == 1)).all(axis=(1, 2))
        right &= (tables.sides.may_y | (batch.spatial_y == 1)).all(axis=(1, 2))
        return right & self._ordered(batch)

    @cached_property
    def loop_ranks(self) -> Array:
        """A rank for each dim at each level, int64 [levels, dims]: below 0 for loops that the rules put
        inside the others, above 0 for those that they put outside, 0 for those that are free.

        Loops of lower ranks stand inside those of higher ones.
        """
        rank = np.zeros((len(self.architecture.levels), len(self.layer.dims)), np.int64)
        for level, (first, _, last) in enumerate(self._orders_asked):
            rank[level, list(first)] = np.arange(-len(first), 0)
            rank[level, list(last)] = np.arange(1, len(last) + 1)
        return rank

    def reordered(self, permutation: Array) -> Array:
        """``permutation`` [n, levels, dims] with the dims whose order the rules fix moved to where they
        demand, the others in their order."""
        # A stable sort by rank leaves free dims in their order.
        if not self.loop_ranks.any():
            return permutation
        ranks = np.take_along_axis(np.broadcast_to(self.loop_ranks, permutation.shape), permutation, axis=2)
        return np.take_along_axis(permutation, np.argsort(ranks, axis=2, kind="stable"), axis=2)

    def _ordered(self, batch: MappingBatch) -> Array:
        """Which rows have the loops of every level in an order that the rules allow, bool [n]."""
        # Only loops above 1 have an order: a rule speaks of two dims where both have one at the level.
        right = np.ones(len(batch), np.bool_)
        for level, (first, middle, last) in enumerate(self._orders_asked):
            positions = np.argsort(batch.permutation[:, level], axis=1)
            looped = batch.temporal[:, level] > 1
            fixed = combinations((*first, *last), 2)
            for inner, outer in {*fixed, *product(first, middle), *product(middle, last)}:
                both = looped[:, inner] & looped[:, outer]
                right &= ~both | (positions[:, inner] < positions[:, outer])
        return right

    def count_factorisations(self, masks: Sequence[int]) -> int:
        """The number of ways to factor all dims, if levels keep ``masks``.

        Each dim is counted by itself, within fan-outs and capacities as if all other dims were 1; so not all
        of these ways fit."""
        from solvers.mapping.space.space_kernel import count_ways, space_workspace

        work = space_workspace(self.tables)
        work.masks[:] = masks
        count_ways(self.tables, work)
        return prod(work.ways[:, 0, 0].tolist())

    def ways(self, dim: int, masks: Sequence[int]) -> Array:
        """The ways that :meth:`count_factorisations` counts for one dim (its index): int64 [ways, slots]."""
        largest = self.tables.largest[range(len(masks)), masks, dim].tolist()
        slots = tuple(_SlotOfDim(slot.level, slot.least[dim], slot.most[dim]) for slot in self.slots)
        return _factorings(self.layer.dims[dim][1], slots, tuple(largest))

    def orders(self, level: int, looped: frozenset[int], masks: Sequence[int]) -> list[tuple[int, ...]]:
        """Orders, innermost first, of temporal loops over the dims ``looped`` at ``level``, if levels keep
        ``masks``: one of each class of equal cost, among those that the rules allow.

        Only deliveries to tensors that some level further inside keeps depend on the order: see
        :class:`LoopOrders`. On a machine with timing, what the caches hold depends on every order of the
        outermost level.
        """
        first, middle, last = (tuple(d for d in dims if d in looped) for dims in self._orders_asked[level])
        if self.architecture.timing is not None and level == len(masks) - 1:
            return [(*first, *between, *last) for between in permutations(middle)]
        kept_inside = tuple(
            tensor
            for number, tensor in enumerate(self.layer.tensors)
            if any(mask >> number & 1 for mask in masks[:level])
        )
        return list(LoopOrders(self.layer, kept_inside).of(looped, first, last))


def _words(tensors: Sequence[Tensor], dim: str, covered: int) -> int:
    """The words of the tensors' tiles that cover ``covered`` points of one dim and one of all others."""
    return sum(tensor.words({dim: covered}) for tensor in tensors)


def _bits(precision: Precision, layer: Layer, tensors: Sequence[Tensor], dim: str, covered: int) -> Fraction:
    """The bits of these tiles, at least, where elements are no words."""
    return sum((tile_bits(precision, layer, {dim: covered}, tensor) for tensor in tensors), Fraction())


class _SlotOfDim(NamedTuple):
    """The level of a slot, and the least and largest factor of one dim that it allows."""

    level: int
    least: int
    most: int


@lru_cache(maxsize=1024)
def _factorings(size: int, slots: tuple[_SlotOfDim, ...], largest: tuple[int, ...]) -> Array:
    """All ways to write ``size`` as a product of one factor for each slot, int64 [ways, slots].

    ``largest`` is what each level can cover at most, its own factors and those inside multiplied."""
    found: list[tuple[int, ...]] = []

    def extend(factors: tuple[int, ...], covered: int) -> None:
        if len(factors) == len(slots):
            if covered == size:
                found.append(factors)
            return
        slot = slots[len(factors)]
        for factor in divisors(size // covered):
            if slot.least <= factor <= slot.most and covered * factor <= largest[slot.level]:
                extend((*factors, factor), covered * factor)

    extend((), 1)
    return np.array(found, np.int64).reshape(-1, len(slots))


def padded(rows: Sequence[Sequence[int] | Array]) -> Array:
    """The rows as one int64 array, filled up with 0."""
    width = max(1, *(len(row) for row in rows))
    return np.array([[*row, *([0] * (width - len(row)))] for row in rows], np.int64)


def _quotients(per_dim: list[tuple[int, ...]]) -> Array:
    """For each dim the quotients of its divisors, int64 [dims, most, most]: entry ``[d, i, j]`` is divisor
    ``j`` over divisor ``i``, 0 if that is not whole."""
    most = max(len(found) for found in per_dim)
    table = np.zeros((len(per_dim), most, most), np.int64)
    for index, found in enumerate(per_dim):
        values = np.array(found)
        whole = values[None, :] % values[:, None] == 0
        table[index, : len(found), : len(found)] = np.where(whole, values[None, :] // values[:, None], 0)
    return table
