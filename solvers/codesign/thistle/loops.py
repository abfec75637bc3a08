"""Which loops a layer's program has: dims that are tiled, dims that are not, and the classes of orders."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import product

from costmodel.workload.network import Layer
from solvers.codesign.thistle.hardware import HardwareVariables
from solvers.mapping.thistle.expressions import Order, TilingBlock
from solvers.mapping.thistle.orders import OrderClasses, mirrored_dims
from solvers.mapping.thistle.tiling import window_dims


@dataclass(frozen=True)
class ClassLoops:
    """Orders of the temporal loops, a level each, INNERMOST FIRST; trip counts that are not variables.

    The innermost level's order does not matter: MAC units hold no operands.
    """

    orders: tuple[Order, ...]
    fixed: tuple[tuple[str, float], ...]


Placement = tuple[tuple[str, int], ...]
"""Window dims, each with the level whose temporal loops have all of its iterations, innermost of them."""


@dataclass(frozen=True)
class LoopChoices:
    """The loops that a layer can have on ``hardware``, by the rules of section III.

    Of the dims that share an axis all but the longest (a filter's R and S) are not tiled: each loops whole at
    one level, the innermost one where the window's tiles fit or, with ``split_windows``, the next. Dims of
    size 1 are not tiled either.
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
        """The dims of windows, which are not tiled."""
        short = window_dims(self.layer)
        return tuple(dim for dim, size in self.layer.dims if dim in short and size > 1)

    @cached_property
    def classes(self) -> list[Order]:
        """One order of the tiled dims from every class of a level."""
        return OrderClasses(self.layer, self.layer.tensors).of(self.tiled)

    @property
    def ordered_levels(self) -> int:
        """Levels whose order matters: all but the innermost."""
        return len(self.hardware.base.levels) - 1

    @property
    def count(self) -> int:
        """Combinations of classes and placements."""
        return int(len(self.classes) ** self.ordered_levels * len(self.placements))

    @cached_property
    def placements(self) -> list[Placement]:
        """Where the window dims may loop; the paper's place first."""
        inner = self._window_level
        levels = [inner, inner + 1] if self.split_windows and inner < self.ordered_levels else [inner]
        choices = product(levels, repeat=len(self.windows))
        return [tuple(zip(self.windows, chosen, strict=True)) for chosen in choices]

    def all(self) -> Iterator[ClassLoops]:
        """Every combination, of two that differ by an exchange of height and width one."""
        mirrored = mirrored_dims(self.layer)
        walks = OrderClasses(self.layer, self.layer.tensors).walks
        here = {order: walks(order) for order in self.classes}
        there = {order: walks(tuple(mirrored.get(dim, dim) for dim in order)) for order in self.classes}
        seen = set()
        for placement in self.placements:
            image = frozenset((mirrored.get(dim, dim), level) for dim, level in placement)
            for orders in product(self.classes, repeat=self.ordered_levels):
                if (image, tuple(there[order] for order in orders)) not in seen:
                    seen.add((frozenset(placement), tuple(here[order] for order in orders)))
                    yield self.loops(orders, placement)

    def loops(self, orders: Sequence[Order], placement: Placement) -> ClassLoops:
        """The loops with these orders of the tiled dims outside the innermost level, and the windows."""
        placed = tuple(
            (*(dim for dim, at in placement if at == level), *order)
            for level, order in enumerate((self.tiled, *orders))
        )
        return ClassLoops(placed, tuple(self._fixed(placed)))

    def _fixed(self, orders: Sequence[Order]) -> Iterator[tuple[str, float]]:
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
        """The innermost level that can hold a whole window of the tensors that it keeps."""
        window = {dim: self.layer.sizes[dim] for dim in self.windows}
        for index, level in enumerate(self.hardware.base.levels):
            words = sum(tensor.words(window) for tensor in self.layer.tensors if level.can_keep(tensor))
            if level.name in self.hardware.free_sizes or words <= level.usable_words:
                return index
        raise AssertionError("the outermost level is unlimited")
