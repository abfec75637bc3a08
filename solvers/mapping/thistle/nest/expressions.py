"""Thistle's Algorithm 1: footprints and data volumes of tiled loop nests as expressions of trip counts.

The paper writes R, Q, P and S for the trip counts of four tiling levels of one machine (Eq. 1 and 2). Here
the tiling levels are those of any architecture: for each storage level the loops across its fan-out, and
around these its temporal loops::

    for k in K.temporal.2:          # DRAM
      for m in M.spatial.1:         # across the fan-out below level 1
        for n in N.temporal.1:      # the loops of level 1
          ...                       # further levels, then the MAC units
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property

from costmodel.workload.network import Layer, Tensor
from costmodel.workload.projection import Axis
from solvers.mapping.thistle.convex.signomial import Signomial, monomial, product_of, variable

Order = tuple[str, ...]
"""The loops of a temporal block, INNERMOST FIRST; dims that are left out do not loop there."""


@dataclass(frozen=True)
class TilingBlock:
    """One of the paper's tiling levels: the temporal loops of a storage level, or the fan-out below it."""

    level: int
    spatial: bool

    def trips(self, dim: str) -> str:
        """The name of the variable that counts the block's iterations over ``dim``."""
        return f"{dim}.{'spatial' if self.spatial else 'temporal'}.{self.level}"


@dataclass(frozen=True)
class Expressions:
    """Algorithm 1's expressions for one layer on storage levels, innermost first.

    ``fanned`` says of each level whether there is a fan-out below it. The variables are trip counts, one per
    block and dim, named by :meth:`TilingBlock.trips`; ``fixed`` are (name, value) pairs of those that are
    constants instead. ``unseen`` are (tensor, dim) pairs: temporal loops over the dim are not counted for the
    tensor, which only a lower bound may claim.

    Where no two dims share an axis, everything is as the cost model counts it
    (``costmodel.mapping.counts.traffic``), provided that the innermost relevant loop of each order has more
    than one iteration. Halos are, too, along one direction, but for coincidences (item 3 of the cost model's
    list).
    """

    layer: Layer
    fanned: tuple[bool, ...]
    fixed: tuple[tuple[str, float], ...] = ()
    unseen: frozenset[tuple[str, str]] = frozenset()

    @cached_property
    def blocks(self) -> tuple[TilingBlock, ...]:
        """From the MAC units outwards: below each level's temporal loops its spatial ones."""
        return tuple(
            TilingBlock(level, spatial)
            for level, fanned in enumerate(self.fanned)
            for spatial in (True, False)
            if fanned or not spatial
        )

    def footprint(self, tensor: Tensor, level: int) -> Signomial:
        """DF: the words of the tensor's tile in one instance of ``level`` (Algorithm 1, lines 11 and 17).

        An axis that sums several dims has a negative constant, which a posynomial must not have: see
        :attr:`Signomial.positive_part`.
        """
        return self._tile(tensor, level).with_constants(self._values)

    def delivered(self, tensor: Tensor, level: int, orders: Sequence[Order | None]) -> Signomial:
        """DV: the words brought into one instance of ``level`` over the run; of outputs, those taken out.

        Algorithm 1 walks outwards through the loops around the tile; ``orders[i]`` is the order of the
        temporal loops of level ``i``. As long as loops are over dims that the tensor does not have, the copy
        is hoisted out of them: the tile stays. Over the first dim that it has, the tile grows by what the
        next iteration needs in addition. From there on every loop repeats the copy and multiplies.

        Where a level has no loop over a dim of the tensor, the hoist goes on in the next level, which the
        paper leaves out. Where an order is None, still to be chosen, every loop does the least that it does
        in any order: the tile grows along all dims of the tensor, and the hoist goes on.
        """
        words, repeats, can_hoist = self._tile(tensor, level), monomial(), True
        for outer in range(level + 1, len(self.fanned)):
            block, order = TilingBlock(outer, False), orders[outer]
            for dim in self.layer.sizes if order is None else order:
                if (tensor.name, dim) in self.unseen:
                    continue
                if not can_hoist:
                    repeats = repeats * self._trips(block, dim)
                elif dim in tensor.dims:
                    # With an order, the first loop over a dim of the tensor ends the hoist. Without one, any
                    # loop might be that first one, so the tile grows along all of them and none repeats the
                    # copy: no order delivers less.
                    words, can_hoist = self._grown(words, dim, block), order is None
        return words.with_constants(self._values) * repeats

    def compute_cycles(self) -> Signomial:
        """The temporal iterations of all loops; each brings one word of every tensor to each MAC unit."""
        return self._iterations(block for block in self.blocks if not block.spatial)

    def groups(self, tensor: Tensor, level: int) -> Signomial:
        """How many different tiles go below one instance of ``level``.

        A multicast, or of outputs a reduction, counts once.
        """
        below = (block for block in self.blocks if block.spatial and block.level == level)
        return self._iterations(below, tensor.dims)

    def instances(self, level: int) -> Signomial:
        """How many instances of ``level`` are in use: the product of the spatial loops outside it."""
        return self._iterations(block for block in self.blocks if block.spatial and block.level > level)

    @cached_property
    def _values(self) -> dict[str, float]:
        return dict(self.fixed)

    def _trips(self, block: TilingBlock, dim: str) -> Signomial:
        name = block.trips(dim)
        return monomial(self._values[name]) if name in self._values else variable(name)

    def _iterations(self, blocks: Iterable[TilingBlock], dims: Container[str] | None = None) -> Signomial:
        names = [
            block.trips(dim) for block in blocks for dim, _ in self.layer.dims if dims is None or dim in dims
        ]
        return monomial(1.0, dict.fromkeys(names, 1.0)).with_constants(self._values)

    def _tile(self, tensor: Tensor, level: int) -> Signomial:
        """The footprint in which the innermost trip counts are symbols, even those that are fixed.

        They must be, for :meth:`_grown` replaces them.
        """
        if (tensor, level) not in self._tiles:
            first, *further = (block for block in self.blocks if block.level <= level)
            words = product_of(_extent(axis, first) for axis in tensor.terms)
            for block in further:
                for dim in tensor.dims:
                    words = self._grown(words, dim, block)
            self._tiles[tensor, level] = words
        return self._tiles[tensor, level]

    @cached_property
    def _tiles(self) -> dict[tuple[Tensor, int], Signomial]:
        return {}

    def _grown(self, words: Signomial, dim: str, block: TilingBlock) -> Signomial:
        """``words`` with the tile grown along ``dim`` by the trip count of ``block``.

        The innermost block's trip count stands wherever the tile's size does. So it is replaced by itself
        times the block's (the paper replaces c^(l-1) by c^l).
        """
        innermost = self.blocks[0].trips(dim)
        return words.replaced(innermost, variable(innermost) * self._trips(block, dim))


def _extent(axis: Axis, block: TilingBlock) -> Signomial:
    """Section III-A: indices from 0 to ``sum(step * (trips - 1))``; for 2w + s that is 2w + s - 2."""
    # The coefficients of the extent: 1 + sum(step * (trips - 1)), written with the constants taken together.
    terms = [variable(block.trips(dim)) * step for dim, step in axis]
    return sum(terms, monomial(1.0 - sum(step for _, step in axis)))
