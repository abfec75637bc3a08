"""Classes of a level's loop orders that make equal expressions: Thistle's pruning (section III).

Algorithm 1 looks at the loops of a level only up to the first one that moves the tensor. Orders that agree in
that for every tensor make the same program, so one of them is enough: on seven loops a handful instead of
5,040.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import chain, combinations
from typing import NamedTuple

from costmodel.workload.network import Layer, Tensor
from solvers.mapping.thistle.nest.expressions import Order


class HoistWalk(NamedTuple):
    """What Algorithm 1 sees of an order for one tensor: equal walks over equal loops give equal volumes."""

    hoisted: frozenset[str]
    """The dims that the tensor does not have whose loops stand inside the first one over a dim it has."""
    grown: str
    """The dim of that first loop if neighbouring tiles overlap along it; empty if it only multiplies."""
    ends_here: bool
    """Whether there is such a first loop; without one the hoist goes on in the next level outside."""


@dataclass(frozen=True)
class OrderClasses:
    """One order of each class, where only deliveries to ``tensors`` of ``layer`` depend on the order."""

    layer: Layer
    tensors: tuple[Tensor, ...]
    unseen: frozenset[tuple[str, str]] = frozenset()
    """See :class:`Expressions`."""

    def of(self, dims: Sequence[str]) -> list[Order]:
        """The classes of orders, innermost first, that list all of ``dims``.

        Once every tensor has met a loop that moves it, the loops around may stand in any order.
        """
        found: dict[tuple[HoistWalk, ...], Order] = {}
        for order in self._settled_orders((), tuple(dims), self.tensors):
            found.setdefault(self.walks(order), order)
        return list(found.values())

    def with_open(self, dims: Sequence[str], hoisting: Sequence[Tensor]) -> list[Order]:
        """The classes that leave out all dims of some tensors of ``hoisting``, so that these stay through the
        level.

        A tensor that the level does not move can stay through loops of the next level outside as well. The
        paper's orders list every dim, as if each had more than one iteration, and never do that.
        """
        found: dict[tuple[frozenset[str], tuple[HoistWalk, ...]], Order] = {}
        subsets = (combinations(hoisting, size) for size in range(1, len(hoisting) + 1))
        for still in chain.from_iterable(subsets):
            listed = [dim for dim in dims if not any(dim in tensor.dims for tensor in still)]
            for order in self.of(listed):
                found.setdefault((frozenset(order), self.walks(order)), order)
        return list(found.values())

    def walks(self, order: Order) -> tuple[HoistWalk, ...]:
        """Algorithm 1's walk of every tensor over ``order``."""
        return tuple(self._walk(tensor, order) for tensor in self.tensors)

    def _walk(self, tensor: Tensor, order: Order) -> HoistWalk:
        seen = [dim for dim in order if (tensor.name, dim) not in self.unseen]
        for position, dim in enumerate(seen):
            if dim in tensor.dims:
                grown = dim if dim in self._overlapping[tensor.name] else ""
                return HoistWalk(frozenset(seen[:position]), grown, True)
        return HoistWalk(frozenset(seen), "", False)

    def _settled_orders(
        self, order: Order, rest: tuple[str, ...], waiting: Sequence[Tensor]
    ) -> Iterator[Order]:
        """``order`` followed by ``rest`` in every way that matters to the tensors still ``waiting``.

        A tensor waits until the order has a loop over one of its dims.
        """
        # The exit that makes classes few: from here on one order stands for all permutations of the rest.
        if not waiting or not rest:
            yield (*order, *rest)
            return
        for dim in rest:
            others = tuple(other for other in rest if other != dim)
            still = [tensor for tensor in waiting if dim not in tensor.dims]
            yield from self._settled_orders((*order, dim), others, still)

    @cached_property
    def _overlapping(self) -> dict[str, frozenset[str]]:
        """Per tensor the dims along which its extent is not just proportional to the trip count (halos)."""
        return {
            tensor.name: frozenset(
                dim
                for axis in tensor.terms
                for dim, step in axis
                # With a step of 1 and no second dim the extent is the trip count itself: growing along it and
                # multiplying by it are one and the same.
                if step > 1 or any(other != dim and self.layer.sizes[other] > 1 for other, _ in axis)
            )
            for tensor in self.tensors
        }


def mirrored_dims(layer: Layer) -> dict[str, str]:
    """The exchange of height and width if it leaves the layer as it is (section III: symmetric in H and W).

    Empty if there is none: other strides, dilations or sizes, or no windows at all.
    """
    for tensor in layer.tensors:
        windows = [sorted(axis, key=lambda term: term[1]) for axis in tensor.terms if len(axis) > 1]
        for one, other in combinations(windows, 2):
            pairs = [(mine[0], yours[0]) for mine, yours in zip(one, other, strict=False)]
            swap = dict(pairs) | {yours: mine for mine, yours in pairs}
            if len(one) == len(other) and _leaves(layer, swap):
                return swap
    return {}


def _leaves(layer: Layer, swap: dict[str, str]) -> bool:
    """Whether the layer is the same with the dims exchanged."""
    if any(layer.sizes[dim] != layer.sizes[other] for dim, other in swap.items()):
        return False
    return all(
        {frozenset(axis) for axis in tensor.terms}
        == {frozenset((swap.get(dim, dim), step) for dim, step in axis) for axis in tensor.terms}
        for tensor in layer.tensors
    )
