"""Classes of loop orders of one level: one order of each class that can differ in cost."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from costmodel.workload.network import Layer, Tensor


@dataclass(frozen=True)
class LoopOrders:
    """Orders of the temporal loops of one block that differ in cost, one of each class.

    A tensor's deliveries depend on which loops stand inside the first one that moves its tile and, where
    its tiles overlap, on the order of the loops around that. So two things leave the cost as it is: any order
    of the loops outside those that have moved every tensor, if no tile can slide any more; and exchanging
    neighbours that move the same tensors without sliding. Of orders that differ only so, the one with
    ascending dims is taken.
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
            for axis in tensor.terms:
                dims = {dim for dim, _ in axis if self.layer.sizes[dim] > 1}
                shared |= dims if len(dims) > 1 else set()
        return frozenset(index for index, (dim, _) in enumerate(self.layer.dims) if dim in shared)

    def of(
        self, looped: frozenset[int], first: tuple[int, ...] = (), last: tuple[int, ...] = ()
    ) -> Iterator[tuple[int, ...]]:
        """The orders of loops over the dims ``looped`` (indices), innermost first.

        All begin with ``first`` and end with ``last``; one of each class of those that do.
        """
        unmoved = frozenset(range(len(self.tensors))).difference(*(self.moved[dim] for dim in first))
        for middle in self._continued((), looped - {*first, *last}, unmoved, frozenset(last)):
            yield (*first, *middle, *last)

    def _continued(
        self, order: tuple[int, ...], rest: frozenset[int], unmoved: frozenset[int], outer: frozenset[int]
    ) -> Iterator[tuple[int, ...]]:
        """Orders of the loops between the fixed ones: ``order`` and then those of ``rest``."""
        if self._settled(rest, unmoved, outer):
            yield (*order, *sorted(rest))
            return
        for dim in sorted(rest):
            others, still = rest - {dim}, unmoved - self.moved[dim]
            before = order[-1:] if order and order[-1] > dim else ()
            after = [other for other in others if other < dim] if self._settled(others, still, outer) else ()
            if not any(self._exchangeable(dim, neighbour) for neighbour in (*before, *after)):
                yield from self._continued((*order, dim), others, still, outer)

    def _settled(self, rest: frozenset[int], unmoved: frozenset[int], outer: frozenset[int]) -> bool:
        """Whether the loops ``rest`` still to be placed inside ``outer`` may stand in any order."""
        return not rest or (not unmoved and not (rest | outer) & self.sliding)

    def _exchangeable(self, one: int, other: int) -> bool:
        return self.moved[one] == self.moved[other] and not {one, other} & self.sliding
