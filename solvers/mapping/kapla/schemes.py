"""Dataflow schemes that are decided from the inside up to some level, as arrays: a row a scheme."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from solvers.mapping.space.space import MappingSpace, Slot

if TYPE_CHECKING:
    from solvers.mapping.kapla.filling_kernel import SchemeRows

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Schemes:
    """``n`` partial schemes of one layer (``Df`` and ``LoopCnt`` of Algorithm 1), levels innermost first.

    * ``temporal`` and ``spatial`` int32 [n, levels, dims]: the factors decided, 1 where nothing is;
    * ``order`` int8 [n, levels, dims]: the dims of each level's loops, INNERMOST first;
    * ``keep`` int64 [n, levels]: the tensors kept, as bit masks;
    * ``rest`` int32 [n, dims]: what of each dim is not decided yet;
    * ``stationary_order`` int64 [n]: the number of the one chosen last, in ``stationary_orders(layer)``.
    """

    temporal: Array
    spatial: Array
    order: Array
    keep: Array
    rest: Array
    stationary_order: Array

    @classmethod
    def of_nothing(cls, space: MappingSpace) -> Schemes:
        """One scheme with all loops still open; undecided levels keep as much as they may."""
        shape = (1, len(space.architecture.levels), len(space.layer.dims))
        widest = [max(masks, key=int.bit_count) for masks in space.keep_sets]
        ones = np.ones(shape, np.int32)
        return cls(
            temporal=ones,
            spatial=ones.copy(),
            order=np.broadcast_to(np.arange(shape[2], dtype=np.int8), shape).copy(),
            keep=np.array([widest], np.int64),
            rest=np.array([[size for _, size in space.layer.dims]], np.int32),
            stationary_order=np.zeros(1, np.int64),
        )

    @property
    def arrays(self) -> tuple[Array, ...]:
        return self.temporal, self.spatial, self.order, self.keep, self.rest, self.stationary_order

    @property
    def rows(self) -> SchemeRows:
        """The same arrays as compiled code takes them, which may change them."""
        from solvers.mapping.kapla.filling_kernel import SchemeRows

        return SchemeRows(self.temporal, self.spatial, self.order, self.keep, self.rest)

    def __len__(self) -> int:
        return len(self.rest)

    def __getitem__(self, rows: slice | Array) -> Schemes:
        return Schemes(*(array[rows] for array in self.arrays))

    @classmethod
    def joined(cls, parts: Sequence[Schemes]) -> Schemes:
        if len(parts) == 1:
            return parts[0]
        return cls(*(np.concatenate(arrays) for arrays in zip(*(part.arrays for part in parts), strict=True)))

    def factors(self, slot: Slot) -> Array:
        """The factors in ``slot``, [n, dims]."""
        return (self.spatial if slot.spatial else self.temporal)[:, slot.level]

    def grown(self, slot: Slot, dims: Array, factors: Array) -> Schemes:
        """Every row with another factor (``factors`` [n]) of one dim (``dims`` [n]) in ``slot``."""
        return self.chosen_and_grown(np.arange(len(self)), slot, dims, factors)

    def chosen_and_grown(self, rows: Array, slot: Slot, dims: Array, factors: Array) -> Schemes:
        """As :meth:`grown`, of the chosen ``rows`` [m] only, so that each is copied once and not twice."""
        grown, indices = self[rows], np.arange(len(rows))
        block = grown.factors(slot)
        grown.rest[indices, dims] = grown.rest[indices, dims] * block[indices, dims] // factors
        block[indices, dims] = factors
        return grown

    def fill(self, slot: Slot, factors: Array) -> None:
        """Put ``factors`` [n, dims] into a slot that has none yet; the arrays are changed."""
        self.factors(slot)[:] = factors
        self.rest[:] //= factors

    def distinct(self) -> Array:
        """The first row of each scheme, int64 [m]."""
        parts = (self.temporal, self.spatial, self.order, self.keep)
        _, first = np.unique(
            np.concatenate([array.reshape(len(self), -1) for array in parts], axis=1),
            axis=0,
            return_index=True,
        )
        return first

    def spreads(self) -> Array:
        """A number per row, equal for those that spread the layer alike, int64 [n]."""
        _, numbers = np.unique(self.spatial.reshape(len(self), -1), axis=0, return_inverse=True)
        return numbers.reshape(-1)
