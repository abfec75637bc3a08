"""The variables of a geometric program: trip counts of a layer's loops that are not fixed beforehand.

Each dim has a trip count in every block of the nest, and these multiply to the dim's size. A variable is
dropped, that is fixed, where only one value is possible; the fewer variables, the faster the program.
"""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product
from math import log, prod

import numpy as np
from numpy.typing import NDArray

from costmodel.workload.network import Layer
from solvers.mapping.space.space import MappingSpace, Slot
from solvers.mapping.thistle.nest.expressions import Expressions, TilingBlock

Keep = tuple[frozenset[str], ...]
"""Per level, innermost first, the names of the tensors that it keeps."""


WindowBlocks = tuple[tuple[str, TilingBlock], ...]
"""(dim, block) for each dim of a filter's window: the block that has all of its iterations.

A window dim that is not listed is tiled like any other dim.
"""


@dataclass(frozen=True)
class Choice:
    """A variable: the trip count of ``block`` over ``dim``, from ``least`` to ``most``."""

    dim: str
    block: TilingBlock
    least: int
    most: int

    @property
    def name(self) -> str:
        """As :meth:`TilingBlock.trips` names it."""
        return self.block.trips(self.dim)


@dataclass(frozen=True)
class Tiling:
    """The trip counts of ``space`` with the tensors of ``keep`` in its levels.

    A trip count is fixed where only one value is possible: 1 in blocks of levels that are too small for more
    of the dim, and 1 everywhere for dims of size 1. The dims of a filter's window are not tiled either where
    a block may have all of their iterations (section III): ``windows`` names that block for each, see
    :func:`window_blocks`.
    """

    space: MappingSpace
    keep: Keep
    windows: WindowBlocks
    unseen: frozenset[tuple[str, str]] = frozenset()
    """See :class:`Expressions`."""

    @property
    def layer(self) -> Layer:
        return self.space.layer

    @cached_property
    def expressions(self) -> Expressions:
        """Algorithm 1's expressions with the fixed trip counts in."""
        fanned = tuple(level.fanout > 1 for level in self.space.architecture.levels)
        return Expressions(self.layer, fanned, tuple(sorted(self.fixed.items())), self.unseen)

    @cached_property
    def choices(self) -> tuple[Choice, ...]:
        """The variables, dim by dim in the layer's order, blocks inside out."""
        return tuple(
            choice
            for dim, size in self.layer.dims
            # A dim with a single open block has no choice: all of it goes there.
            if size > 1 and dim not in dict(self.windows) and len(free := self._open_blocks(dim, size)) > 1
            for choice in free
        )

    @cached_property
    def fixed(self) -> dict[str, float]:
        """The trip counts that are no variables."""
        chosen = {choice.name for choice in self.choices}
        names = {block.trips(dim): 1.0 for block in self._blocks for dim, _ in self.layer.dims}
        values = {name: value for name, value in names.items() if name not in chosen}
        for dim, size in self.layer.dims:
            if dim in dict(self.windows):
                values[dict(self.windows)[dim].trips(dim)] = float(size)
            elif size > 1 and not any(choice.dim == dim for choice in self.choices):
                values[self._only_block(dim, size).trips(dim)] = float(size)
        return values

    @cached_property
    def tiled_dims(self) -> tuple[str, ...]:
        """The dims whose trip counts are variables."""
        return tuple(dict.fromkeys(choice.dim for choice in self.choices))

    def loops_at(self, level: int) -> tuple[str, ...]:
        """The dims that may have more than one iteration in the temporal block of ``level``."""
        block = TilingBlock(level, False)
        chosen = {choice.dim for choice in self.choices if choice.block == block}
        return tuple(
            dim for dim, _ in self.layer.dims if dim in chosen or self.fixed.get(block.trips(dim), 0) > 1
        )

    def kept_inside(self, level: int) -> frozenset[str]:
        """The tensors that some level inside ``level`` keeps: for others its loop order does not matter."""
        return frozenset().union(*self.keep[:level])

    @cached_property
    def logs(self) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
        """The logarithms of the least and most of every variable."""
        least = np.array([log(choice.least) for choice in self.choices])
        return least, np.array([log(choice.most) for choice in self.choices])

    def is_symmetric(self, exchanged: ReadOnlyDict[str, str]) -> bool:
        """Whether every trip count has the same range as that of the dim that ``exchanged`` swaps it with."""
        free = {choice.name: (choice.least, choice.most) for choice in self.choices}
        may_be = {name: (value, value) for name, value in self.fixed.items()} | free
        return all(
            may_be[block.trips(dim)] == may_be[block.trips(other)]
            for block in self._blocks
            for dim, other in exchanged.items()
        )

    @property
    def _blocks(self) -> tuple[TilingBlock, ...]:
        return tuple(TilingBlock(slot.level, slot.spatial) for slot in self.space.slots)

    def _open_blocks(self, dim: str, size: int) -> list[Choice]:
        index = [name for name, _ in self.layer.dims].index(dim)
        return [
            Choice(dim, TilingBlock(slot.level, slot.spatial), slot.least[index], most)
            for slot in self.space.slots
            if (most := min(self._most(slot, index), size, self._most_within_capacity(dim, slot.level))) > 1
        ]

    def _most(self, slot: Slot, index: int) -> int:
        """The largest factor of a dim (given by its index) that the slot takes."""
        return min(slot.most[index], self._side_left(slot.level)) if slot.spatial else slot.most[index]

    def _side_left(self, level: int) -> int:
        """The most that one side of the fan-out below ``level`` has left beside the windows across it."""
        hardware = self.space.architecture.levels[level]
        across = [self.layer.sizes[dim] for dim, block in self.windows if block == TilingBlock(level, True)]
        left = [1]
        # Windows across the fan-out may lie along either side; a variable gets the most that any way leaves.
        for on_x in product((True, False), repeat=len(across)):
            x = prod(size for size, here in zip(across, on_x, strict=True) if here)
            y = prod(across) // x
            if x <= hardware.fanout_x and y <= hardware.fanout_y:
                left += [hardware.fanout_x // x, hardware.fanout_y // y]
        return max(left)

    def _only_block(self, dim: str, size: int) -> TilingBlock:
        return next((c.block for c in self._open_blocks(dim, size)), self._blocks[-1])

    def _most_within_capacity(self, dim: str, level: int) -> int:
        """The most iterations over ``dim`` whose tile fits all levels from ``level`` outwards, all else 1."""
        return min(self._largest[dim][level:])

    @cached_property
    def _largest(self) -> dict[str, list[int]]:
        bits = {tensor.name: 1 << number for number, tensor in enumerate(self.layer.tensors)}
        masks = [sum(bits[name] for name in kept) for kept in self.keep]
        table = self.space.tables.largest
        return {
            dim: [int(table[level, mask, index]) for level, mask in enumerate(masks)]
            for index, (dim, _) in enumerate(self.layer.dims)
        }


def window_blocks(space: MappingSpace, keep: Keep, spread: bool) -> list[WindowBlocks]:
    """The blocks that may have all iterations of a filter's window (section III does not tile it).

    That is the innermost level in which the window's tiles fit. With ``spread`` each of its dims may also
    stand across a fan-out, as the rows of a filter do in Eyeriss.
    """
    per_dim = []
    sizes = {dim: space.layer.sizes[dim] for dim in sorted(window_dims(space.layer))}
    inside = _level_for(space, keep, sizes)
    for dim, size in sizes.items():
        spatial = [TilingBlock(slot.level, True) for slot in space.slots if slot.spatial and spread]
        blocks = [block for block in (inside, *spatial) if _may_have_all(space, dim, block)]
        if size > 1 and blocks:
            per_dim.append([(dim, block) for block in blocks])
    return [tuple(windows) for windows in product(*per_dim)]


def without_mirror_images(
    found: Sequence[WindowBlocks], exchanged: ReadOnlyDict[str, str]
) -> list[WindowBlocks]:
    """Those ``found`` without the ones that become an earlier one when height and width are ``exchanged``."""
    kept: dict[frozenset[tuple[str, TilingBlock]], WindowBlocks] = {}
    for windows in found:
        image = frozenset((exchanged.get(dim, dim), block) for dim, block in windows)
        if image not in kept:
            kept[frozenset(windows)] = windows
    return list(kept.values())


def _level_for(space: MappingSpace, keep: Keep, window: dict[str, int]) -> TilingBlock:
    """The temporal loops of the innermost level from which on outwards a whole window fits."""
    for level in range(len(keep)):
        if all(_fits(space, keep, outer, window) for outer in range(level, len(keep))):
            return TilingBlock(level, False)
    return TilingBlock(len(keep) - 1, False)


def _fits(space: MappingSpace, keep: Keep, level: int, tile: dict[str, int]) -> bool:
    kept = (tensor for tensor in space.layer.tensors if tensor.name in keep[level])
    return sum(tensor.words(tile) for tensor in kept) <= space.architecture.levels[level].usable_words


def _may_have_all(space: MappingSpace, dim: str, block: TilingBlock) -> bool:
    """Whether the rules let ``block`` have all iterations of ``dim``."""
    index = [name for name, _ in space.layer.dims].index(dim)
    size = space.layer.sizes[dim]
    return all(
        slot.least[index]
        <= (size if TilingBlock(slot.level, slot.spatial) == block else 1)
        <= slot.most[index]
        for slot in space.slots
    )


def window_dims(layer: Layer) -> frozenset[str]:
    """A filter's R and S: of the dims that one axis sums, all but the longest."""
    found: set[str] = set()
    for tensor in layer.tensors:
        for axis in tensor.terms:
            # By size, not by name: a 1 x 7 filter over 4 columns has the longer dim in the filter, and tiling
            # the longer one is what saves.
            dims = sorted((dim for dim, _ in axis), key=lambda dim: layer.sizes[dim])
            found.update(dims[:-1])
    return frozenset(found)
