"""What neighbours share: all structures of a run of einsums whose intermediates all stay on the chip.

A *segment* is a run of einsums of which every two neighbours keep their intermediate on the chip. Between
segments an intermediate goes to the outermost memory, and nothing else connects them: what one segment does
leaves the costs and the capacity of another as they are. A *structure* of a segment says for each of its
pairs where the intermediate stays and which loops are shared.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from itertools import pairwise
from math import prod
from typing import NamedTuple

from costmodel.mapping.fused.mapping import FusedMapping, Loops
from costmodel.mapping.fused.problem import Einsum, FusedProblem
from solvers.fusion.shared_loops import lists_beside


class SharedPair(NamedTuple):
    """Two neighbours: the level that keeps their intermediate, and their shared loops."""

    backing: int
    loops: Loops


@dataclass(frozen=True)
class Structure:
    """The structure of the einsums ``first`` to ``last`` of a chain: one pair fewer than einsums."""

    chain: FusedProblem
    first: int
    last: int
    pairs: tuple[SharedPair, ...]

    @cached_property
    def mapping(self) -> FusedMapping:
        """The segment's shared loops and backing levels, without own loops; its einsums begin with 0."""
        prefix = tuple(len(pair.loops) for pair in self.pairs)
        around = (SharedPair(0, ()), *self.pairs, SharedPair(0, ()))
        paths = tuple(max(left.loops, right.loops, key=len) for left, right in pairwise(around))
        names = self.chain.intermediates[self.first : self.last]
        backing = {name: pair.backing for name, pair in zip(names, self.pairs, strict=True)}
        return FusedMapping(prefix, paths, (), backing)

    @cached_property
    def kept(self) -> tuple[tuple[int, ...], ...]:
        """Words of backing tiles that are alive in each einsum's time, by einsum and level of the chip."""
        rows = [[0] * self.chain.outermost for _ in range(self.first, self.last + 1)]
        for number, pair in enumerate(self.pairs):
            depth = len(pair.loops)
            consumer = self.chain.einsums[self.first + number + 1]
            tensor = self.chain.intermediates[self.first + number]
            words = tile_of(consumer, tensor, pair.loops)
            alive = (*self.mapping.sharing(number, depth + 1), *self.mapping.sharing(number + 1, depth + 1))
            for einsum in alive:
                rows[einsum][pair.backing] += words
        return tuple(map(tuple, rows))


def tile_of(einsum: Einsum, tensor: str, loops: Loops) -> int:
    """The words of a tensor below these loops."""
    left = dict(einsum.dims) | {dim: step for dim, step in loops if dim in einsum.dims}
    return prod(left[dim] for dim in einsum.dims_of(tensor))


def structures(chain: FusedProblem, first: int, last: int) -> Iterator[Structure]:
    """All structures of a segment."""

    def pairs(position: int, before: Loops) -> Iterator[tuple[SharedPair, ...]]:
        if position == last:
            yield ()
            return
        for loops in shared_lists(chain, position, before):
            for rest in pairs(position + 1, loops):
                for backing in range(chain.outermost):
                    yield (SharedPair(backing, loops), *rest)

    for chosen in pairs(first, ()):
        yield Structure(chain, first, last, chosen)


def shared_lists(chain: FusedProblem, pair: int, before: Loops) -> Iterator[Loops]:
    """The lists of loops that a pair can share where its producer shares ``before`` with its own producer.

    One of the two lists begins with the other. All loops are over dims of the intermediate, each dim at most
    once, and have more than one iteration.
    """
    tensor = chain.intermediates[pair]
    producer, consumer = chain.einsums[pair], chain.einsums[pair + 1]
    allowed = producer.dims_of(tensor) & consumer.dims_of(tensor)
    sizes = {dim: size for dim, size in producer.dims.items() if dim in allowed}
    yield from lists_beside(before, sizes, len(sizes))
