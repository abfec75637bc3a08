"""The mappings of one layer on one architecture: factors, spatial sides, loop orders, what is kept."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, lru_cache
from itertools import combinations
from math import prod
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.architecture import Architecture, StorageLevel
from costmodel.batch import MappingBatch
from costmodel.workload import Layer, Tensor

Array = NDArray[Any]
KeepRule = Literal["fitting", "free", "all"]
"""What levels keep. "all": everything they can hold; "fitting": the same, but where tiles of one word each
do not fit together, each largest set that does; "free": any set that does."""


class Slot(NamedTuple):
    """A place for factors of a dim: a level's spatial or temporal block; ``room``: the largest factor."""

    level: int
    spatial: bool
    room: int


class SpaceTables(NamedTuple):
    """A space as compiled code takes it; slots inside out, levels innermost first, keep sets as bit masks."""

    slot_level: Array
    slot_spatial: Array
    slot_room: Array
    divisors: Array
    """[dims, most] ascending, padded with 0."""
    divisor_count: Array
    quotient: Array
    """[dims, most, most] larger divisor over smaller one, 0 where that is not whole."""
    masks: Array
    """[levels, most] the keep sets of each level, padded with 0."""
    mask_count: Array
    largest: Array
    """[levels, 2**tensors, dims] the most that a dim can cover there with a keep set, all else 1."""
    fanout_x: Array
    fanout_y: Array


@dataclass(frozen=True)
class MappingSpace:
    """All perfectly factored mappings of ``layer`` on ``architecture`` with keep sets after ``keep``.

    Every dim is split over the slots (each level's temporal block, and its spatial block where there is a
    fan-out). The sides X and Y of spatial factors do not change what a mapping costs, only whether it fits.
    """

    architecture: Architecture
    layer: Layer
    keep: KeepRule = "fitting"

    @cached_property
    def slots(self) -> tuple[Slot, ...]:
        slots = []
        for index, level in enumerate(self.architecture.levels):
            if level.fanout > 1:
                slots.append(Slot(index, True, max(level.fanout_x, level.fanout_y)))
            slots.append(Slot(index, False, max(size for _, size in self.layer.dims)))
        return tuple(slots)

    @cached_property
    def keep_sets(self) -> tuple[tuple[int, ...], ...]:
        """Per level the keep sets to choose from, as bit masks over the layer's tensors; none: no mapping."""
        inner = [_level_keep_sets(level, self.layer, self.keep) for level in self.architecture.levels[:-1]]
        return (*inner, (_mask(range(len(self.layer.tensors))),))

    @property
    def obstacle(self) -> str:
        """Why the space is empty, or nothing: outside "all" tiles of one word always fit somewhere."""
        for level, masks in zip(self.architecture.levels, self.keep_sets, strict=True):
            if not masks:
                held = [tensor.name for tensor in self.layer.tensors if level.can_keep(tensor)]
                return (
                    f"{level.name}: tiles of one word each of {', '.join(held)} need {len(held)} words, "
                    f"{level.usable_words:.0f} are usable"
                )
        return ""

    @cached_property
    def tables(self) -> SpaceTables:
        divisors = [_divisors(size) for _, size in self.layer.dims]
        masks = _padded(self.keep_sets)
        return SpaceTables(
            slot_level=np.array([slot.level for slot in self.slots], np.int64),
            slot_spatial=np.array([slot.spatial for slot in self.slots]),
            slot_room=np.array([slot.room for slot in self.slots], np.int64),
            divisors=_padded(divisors),
            divisor_count=np.array([len(found) for found in divisors], np.int64),
            quotient=_quotients(divisors),
            masks=masks,
            mask_count=np.array([len(found) for found in self.keep_sets], np.int64),
            largest=self._largest(divisors),
            fanout_x=np.array([level.fanout_x for level in self.architecture.levels], np.int64),
            fanout_y=np.array([level.fanout_y for level in self.architecture.levels], np.int64),
        )

    def _largest(self, divisors: list[list[int]]) -> Array:
        tensors = self.layer.tensors
        table = np.zeros((len(self.architecture.levels), 2 ** len(tensors), len(divisors)), np.int64)
        for place, level in enumerate(self.architecture.levels):
            for mask in self.keep_sets[place]:
                kept = [tensor for number, tensor in enumerate(tensors) if mask >> number & 1]
                for index, (dim, _) in enumerate(self.layer.dims):
                    fitting = (
                        covered
                        for covered in reversed(divisors[index])
                        if sum(tensor.words({dim: covered}) for tensor in kept) <= level.usable_words
                    )
                    table[place, mask, index] = next(fitting, 0)
        return table

    def sample(self, blocks: range, seed: int, rows_per_block: int = 256) -> MappingBatch:
        """Random mappings: a keep set per level for every block, then rows drawn independently.

        Within a block every way to factor every dim is equally likely among those where the dim alone neither
        exceeds a fan-out nor overfills a level; so is every choice of sides that fits and every order of
        loops. What is left out has no valid row. Block ``b`` of a seed is always the same.
        """
        from solvers.mapping.space_kernel import sample_rows, space_workspace

        batch = MappingBatch.empty(len(blocks) * rows_per_block, self.architecture, self.layer)
        tables = self.tables
        sample_rows(tables, batch.rows, space_workspace(tables), (seed, blocks.start, rows_per_block))
        return batch

    def count_factorisations(self, masks: Sequence[int]) -> int:
        """Ways to factor all dims with these keep sets, each dim by itself within fan-outs and capacities."""
        from solvers.mapping.space_kernel import count_ways, space_workspace

        work = space_workspace(self.tables)
        work.masks[:] = masks
        count_ways(self.tables, work)
        return prod(work.ways[:, 0, 0].tolist())

    def ways(self, dim: int, masks: Sequence[int]) -> Array:
        """All those ways to factor one dim (given by its index): int64 [ways, slots]."""
        largest = self.tables.largest[range(len(masks)), masks, dim].tolist()
        return _factorings(self.layer.dims[dim][1], self.slots, tuple(largest))

    def orders(self, level: int, looped: frozenset[int], masks: Sequence[int]) -> list[tuple[int, ...]]:
        """Orders, innermost first, of temporal loops over dims ``looped`` at ``level``.

        Only what is delivered to tensors kept somewhere inside the level depends on them: see
        :class:`LoopOrders`.
        """
        kept_inside = tuple(
            tensor
            for number, tensor in enumerate(self.layer.tensors)
            if any(mask >> number & 1 for mask in masks[:level])
        )
        return list(LoopOrders(self.layer, kept_inside).of(looped))


@dataclass(frozen=True)
class LoopOrders:
    """Orders of the temporal loops of one block that differ in cost, one of each class.

    A tensor's deliveries depend on which loops stand inside the first one that moves its tile and, where
    its tiles overlap, on the order of the loops around that. So once every tensor is moved and no
    overlapping one can slide any more the rest may stand in any order, and so may neighbours that move the
    same tensors without sliding. The class's own order has the dims ascending there.
    """

    layer: Layer
    tensors: tuple[Tensor, ...]

    @cached_property
    def moved(self) -> tuple[frozenset[int], ...]:
        """Per dim of the layer, the tensors that its loop moves."""
        return tuple(
            frozenset(number for number, tensor in enumerate(self.tensors) if dim in tensor.dims)
            for dim, _ in self.layer.dims
        )

    @cached_property
    def sliding(self) -> frozenset[int]:
        """Dims that share an axis with another one, so that tiles can overlap."""
        shared = set()
        for tensor in self.tensors:
            for axis in tensor.axes:
                dims = {dim for dim, _ in axis if self.layer.sizes[dim] > 1}
                shared |= dims if len(dims) > 1 else set()
        return frozenset(index for index, (dim, _) in enumerate(self.layer.dims) if dim in shared)

    def of(self, looped: frozenset[int]) -> Iterator[tuple[int, ...]]:
        """The orders of loops over the dims ``looped`` (indices), innermost first."""
        yield from self._continued((), looped, frozenset(range(len(self.tensors))))

    def _continued(
        self, order: tuple[int, ...], rest: frozenset[int], unmoved: frozenset[int]
    ) -> Iterator[tuple[int, ...]]:
        if self._settled(rest, unmoved):
            yield (*order, *sorted(rest))
            return
        for dim in sorted(rest):
            others, still = rest - {dim}, unmoved - self.moved[dim]
            before = order[-1:] if order and order[-1] > dim else ()
            after = [other for other in others if other < dim] if self._settled(others, still) else ()
            if not any(self._exchangeable(dim, neighbour) for neighbour in (*before, *after)):
                yield from self._continued((*order, dim), others, still)

    def _settled(self, rest: frozenset[int], unmoved: frozenset[int]) -> bool:
        """Whether the loops still to be placed may stand in any order."""
        return not rest or (not unmoved and not rest & self.sliding)

    def _exchangeable(self, one: int, other: int) -> bool:
        return self.moved[one] == self.moved[other] and not {one, other} & self.sliding


@lru_cache(maxsize=1024)
def _factorings(size: int, slots: tuple[Slot, ...], largest: tuple[int, ...]) -> Array:
    """The factors of ``size`` in each slot; ``largest`` is the most that each level can cover."""
    found: list[tuple[int, ...]] = []

    def extend(factors: tuple[int, ...], covered: int) -> None:
        if len(factors) == len(slots):
            if covered == size:
                found.append(factors)
            return
        slot = slots[len(factors)]
        for factor in _divisors(size // covered):
            if factor <= slot.room and covered * factor <= largest[slot.level]:
                extend((*factors, factor), covered * factor)

    extend((), 1)
    return np.array(found, np.int64).reshape(-1, len(slots))


def _mask(numbers: Iterable[int]) -> int:
    return sum(1 << number for number in numbers)


def _level_keep_sets(level: StorageLevel, layer: Layer, keep: KeepRule) -> tuple[int, ...]:
    able = [number for number, tensor in enumerate(layer.tensors) if level.can_keep(tensor)]
    room = int(min(len(able), level.usable_words))
    if keep == "all":
        return (_mask(able),) if room == len(able) else ()
    sizes = range(room + 1) if keep == "free" else (room,)
    return tuple(_mask(chosen) for size in sizes for chosen in combinations(able, size))


def _divisors(size: int) -> list[int]:
    small = [number for number in range(1, int(size**0.5) + 1) if size % number == 0]
    return sorted({*small, *(size // number for number in small)})


def _padded(rows: Sequence[Sequence[int]]) -> Array:
    width = max(1, *(len(row) for row in rows))
    return np.array([[*row, *([0] * (width - len(row)))] for row in rows], np.int64)


def _quotients(divisors: list[list[int]]) -> Array:
    most = max(len(found) for found in divisors)
    table = np.zeros((len(divisors), most, most), np.int64)
    for index, found in enumerate(divisors):
        values = np.array(found)
        whole = values[None, :] % values[:, None] == 0
        table[index, : len(found), : len(found)] = np.where(whole, values[None, :] // values[:, None], 0)
    return table
