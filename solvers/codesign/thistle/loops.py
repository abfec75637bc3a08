"""Which loops a layer's program has (section III): dims that are tiled, dims that are not, and loop orders.

A tiled dim has a trip count in every block of loops, which are variables of the program. A dim that is not
tiled loops whole at one level. Of the loop orders one of each class that makes equal expressions is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from costmodel.workload.network import Layer
from solvers.codesign.thistle.hardware import HardwareVariables
from solvers.mapping.thistle.nest.expressions import Order, TilingBlock
from solvers.mapping.thistle.nest.orders import OrderClasses, mirrored_dims
from solvers.mapping.thistle.nest.tiling import window_dims


@dataclass(frozen=True)
class ClassLoops:
    """The loops of one program.

    ``orders``: for each level, innermost first, the dims of its temporal loops, INNERMOST FIRST. The order of
    the innermost level does not matter, since MAC units hold no operands. ``fixed``: the names and values of
    the trip counts that are not variables.
    """

    orders: tuple[Order, ...]
    fixed: tuple[tuple[str, float], ...]


Placement = tuple[tuple[str, int], ...]
"""Window dims, each with the level at which it loops whole, inside the level's other temporal loops."""


@dataclass(frozen=True)
class LoopChoices:
    """The loops that a layer can have on ``hardware``, by the rules of section III.

    Two kinds of dims are not tiled: those of size 1, and *window dims*, which are all but the longest of the
    dims that one axis sums (a filter's R and S). A window dim loops whole at one level: the innermost one
    that can hold the window's tiles or, with ``split_windows``, the next one outside.
    """

    hardware: HardwareVariables
    layer: Layer
    split_windows: bool

    @cached_property
    def tiled(self) -> tuple[str, ...]:
        """The dims whose trip counts are variables."""
        return tuple(dim for dim, size in self.layer.dims if size > 1 and dim not in self.windows)

    @cached_property
    def windows(self) -> tuple[str, ...]:
        """The window dims larger than 1."""
        short = window_dims(self.layer)
        return tuple(dim for dim, size in self.layer.dims if dim in short and size > 1)

    @cached_property
    def classes(self) -> list[Order]:
        """One order of the tiled dims from each class of orders that a level can have."""
        return OrderClasses(self.layer, self.layer.tensors).of(self.tiled)

    @property
    def ordered_levels(self) -> int:
        """Levels whose order matters: all but the innermost."""
        return len(self.hardware.base.levels) - 1

    @property
    def count(self) -> int:
        """How many combinations there are of an order class for each level and a placement."""
        return int(len(self.classes) ** self.ordered_levels * len(self.placements))

    @cached_property
    def placements(self) -> list[Placement]:
        """All ways to place the loops over window dims, a level for each. The first is the paper's: all of
        them at the innermost level that can hold the window."""
        inner = self._window_level
        levels = [inner, inner + 1] if self.split_windows and inner < self.ordered_levels else [inner]
        choices = product(levels, repeat=len(self.windows))
        return [tuple(zip(self.windows, chosen, strict=True)) for chosen in choices]

    def all(self) -> Iterator[ClassLoops]:
        """Every combination of orders and placement; of two that are mirror images only the first.

        If exchanging height and width leaves the layer as it is, it turns one combination into another of
        equal cost. Two combinations are compared by their placements and by what Algorithm 1 sees of their
        orders (``walks``): ``here`` of an order itself, ``there`` of its mirror image.
        """
        mirrored = mirrored_dims(self.layer)
        walks = OrderClasses(self.layer, self.layer.tensors).walks
        here = {order: walks(order) for order in self.classes}
        there = {order: walks(tuple(mirrored.get(dim, dim) for dim in order)) for order in self.classes}
        seen = set()
        for placement in self.placements:
            image = frozenset((mirrored.get(dim, dim), level) for dim, level in placement)
            for orders in product(self.classes, repeat=self.ordered_levels):
                # Seen are those yielded, as they are; asked is the mirror image. So the first of a pair is
                # yielded and the second is not, and one that is its own image is yielded once.
                if (image, tuple(there[order] for order in orders)) not in seen:
                    seen.add((frozenset(placement), tuple(here[order] for order in orders)))
                    yield self.loops(orders, placement)

    def loops(self, orders: Sequence[Order], placement: Placement) -> ClassLoops:
        """The loops of one program: these orders of the tiled dims, one for every level but the innermost,
        and the window dims inside the loops of their level."""
        placed = tuple(
            (*(dim for dim, at in placement if at == level), *order)
            for level, order in enumerate((self.tiled, *orders))
        )
        return ClassLoops(placed, tuple(self._fixed(placed)))

    def _fixed(self, orders: Sequence[Order]) -> Iterator[tuple[str, float]]:
        """The trip counts that are no variables: a window dim's whole size at its level; 1 for dims that are
        not tiled in space, and in time at all other levels."""
        for level, fanned in enumerate(self.hardware.fanned):
            for dim, size in self.layer.dims:
                if fanned and dim not in self.tiled:
                    yield TilingBlock(level, True).trips(dim), 1.0
                if dim not in orders[level]:
                    yield TilingBlock(level, False).trips(dim), 1.0
                elif dim in self.windows:
                    yield TilingBlock(level, False).trips(dim), float(size)

    @cached_property
    def _window_level(self) -> int:
        """The innermost level that can hold the tiles of a whole window; one of free size can."""
        window = {dim: self.layer.sizes[dim] for dim in self.windows}
        for index, level in enumerate(self.hardware.base.levels):
            words = sum(tensor.words(window) for tensor in self.layer.tensors if level.can_keep(tensor))
            # The program can make a level of free size as large as the window needs, whatever the base has.
            if level.name in self.hardware.free_sizes or words <= level.usable_words:
                return index
        raise AssertionError("the outermost level is unlimited")
