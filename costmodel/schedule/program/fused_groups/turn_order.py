"""The turns of a fused mapping in the order in which a tile runs them, each with the points that it computes.

Positions count from the first point of the tile's part. A turn of a layer below shared loops is given by the
iteration of each of them, the outermost first.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from costmodel.mapping.fused.layers.group import LayerGroup
from costmodel.mapping.fused.layers.sliding import rows_made
from costmodel.mapping.fused.layers.turns import LayerTurns, turns_of
from costmodel.mapping.fused.mapping import FusedMapping

Ranges = dict[str, tuple[int, int]]
"""By dim of a layer, the points from the first to before the second."""


@dataclass(frozen=True)
class Turn:
    """One turn of the layer at ``position`` of its group.

    ``iteration``: of each of its shared loops, counted from 0, the outermost first. ``points``: what it
    computes. ``kind``: which of the kinds of the layer's turns it is.
    """

    position: int
    iteration: tuple[int, ...]
    points: Ranges
    kind: int


@dataclass(frozen=True)
class TurnOrder:
    """The turns of ``group`` below the shared loops of ``shared``."""

    group: LayerGroup
    shared: FusedMapping

    def turns(self) -> Iterator[Turn]:
        """All turns in their order; those that compute nothing are left out."""
        yield from self._below(range(len(self.group.layers)), ())

    def _below(self, layers: range, iteration: tuple[int, ...]) -> Iterator[Turn]:
        """The turns of neighbouring ``layers`` in one iteration of the loops that all of them share."""
        depth, first = len(iteration), layers.start
        while first < layers.stop:
            if len(self.shared.paths[first]) == depth:
                turn = self._turn(first, iteration)
                if turn is not None:
                    yield turn
                first += 1
                continue
            stop = min(self.shared.sharing(first, depth + 1).stop, layers.stop)
            for number in range(len(self._pieces(first, depth))):
                yield from self._below(range(first, stop), (*iteration, number))
            first = stop

    def _turn(self, position: int, iteration: tuple[int, ...]) -> Turn | None:
        points = self.points(position, iteration)
        sizes = {dim: end - first for dim, (first, end) in points.items()}
        if not all(sizes.values()):
            return None
        one, output = self._layers[position], self.group.layers[position].output
        # it goes on with partial sums if a loop over a summed dim is not in its first iteration
        begun = any(
            number and cut.dim not in output.dims for number, cut in zip(iteration, one.cuts, strict=True)
        )
        kind = next(
            number
            for number, kind in enumerate(one.kinds)
            if kind.part.sizes == sizes and kind.part.output.begun == begun
        )
        return Turn(position, iteration, points, kind)

    def points(self, position: int, iteration: tuple[int, ...]) -> Ranges:
        """The points of a layer in one iteration of its outermost loops."""
        found = {dim: (0, size) for dim, size in self.group.layers[position].dims}
        for depth, number in enumerate(iteration):
            dim = self._layers[position].cuts[depth].dim
            first, _ = found[dim]
            begin, end = self._pieces(position, depth)[number]
            found[dim] = (first + begin, first + end)
        return found

    def _pieces(self, position: int, depth: int) -> tuple[tuple[int, int], ...]:
        """The pieces of a layer's dim into which its loop ``depth`` cuts it: the first point of each, and the
        first one behind it.

        They count from the beginning of what the loops outside leave. Rows that are made anew are in several.
        """
        name, step = self.shared.paths[position][depth]
        if (dim := self.group.dim_of[position].get(name)) is not None:
            left = self._layers[position].sizes(depth)[dim]
            return tuple((begin, begin + step) for begin in range(0, left, step))
        last = self.shared.last_below(position, depth)
        made = rows_made(self.group, position, name, step, last, self.shared.recompute)
        assert made is not None, "the checker refuses loops that slide along nothing"
        return made

    @cached_property
    def _layers(self) -> tuple[LayerTurns, ...]:
        return turns_of(self.group, self.shared)
