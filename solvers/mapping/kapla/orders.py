"""The loop orders that Algorithm 1 iterates over: which tensor stays in place the longest."""

from __future__ import annotations

from itertools import permutations
from typing import NamedTuple

from costmodel.workload.network import Layer


class StationaryOrder(NamedTuple):
    """``order``: the dims (indices) innermost first; ``innermost``: those the first tensor does not have."""

    order: tuple[int, ...]
    innermost: frozenset[int]


def stationary_orders(layer: Layer) -> tuple[StationaryOrder, ...]:
    """The orders of a level's loops to try (``genLoopOrder`` of Algorithm 1), a class of equal reuse once.

    A tensor is not fetched again by loops over dims it does not have, as long as no loop over one of its own
    stands inside them. So a sequence of tensors gives an order: innermost the dims that none of the
    first k tensors has, for the largest k first. The paper has six orders of three loops, which make three
    such classes.
    """
    found: dict[tuple[int, ...], StationaryOrder] = {}
    for sequence in permutations(layer.tensors):
        spared = tuple(
            next((number for number, tensor in enumerate(sequence) if dim in tensor.dims), len(sequence))
            for dim, _ in layer.dims
        )
        order = tuple(sorted(range(len(spared)), key=lambda dim: -spared[dim]))
        innermost = frozenset(dim for dim, tensors in enumerate(spared) if tensors)
        found.setdefault(spared, StationaryOrder(order, innermost))
    return tuple(found.values())
