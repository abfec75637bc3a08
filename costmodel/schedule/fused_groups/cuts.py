"""How tiles divide a group of layers among them: shared loops over tiles, around all other loops.

A loop over tiles cuts all layers of the group at once, so a tile computes its part of every layer and what
passes between them never leaves it. Only such loops are taken as cut every intermediate alike where it is
made and where it is read. A loop over summed dims of a layer whose outputs nobody in the group reads may be
one, too: then each tile makes partial sums, which are added on their way to DRAM.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import permutations, product
from math import prod

from costmodel.mapping.counts.traffic import StridedLoop
from costmodel.mapping.fused.layers.group import LayerGroup
from costmodel.schedule.mesh.tile_groups import Sides
from costmodel.workload.network import Layer

GroupCut = tuple[tuple[str, int], ...]
"""Names of shared loops, as the whole group has them, each with the number of parts; all parts are equal."""


@dataclass(frozen=True)
class CutGroup:
    """A ``whole`` group that tiles divide by ``cut``. ``part``: what is left of it for each tile."""

    whole: LayerGroup
    cut: GroupCut

    @property
    def tiles(self) -> int:
        """How many tiles have a part."""
        return prod(parts for _, parts in self.cut)

    @property
    def part(self) -> LayerGroup:
        layers = tuple(self._part_of(position) for position in range(len(self.whole.layers)))
        return replace(self.whole, layers=layers)

    def _part_of(self, position: int) -> Layer:
        layer, parts = self.whole.layers[position], dict(self.cut)
        names = self.whole.loops[position]
        dims = tuple((dim, size // parts.get(names[dim], 1)) for dim, size in layer.dims)
        return replace(layer, dims=dims)

    def placements(self, mesh: tuple[int, int]) -> Iterator[tuple[Sides, ...]]:
        """Ways to lay the parts on a ``mesh`` of (columns, rows): for each layer the loops of both sides.

        All move the same words over different links.
        """
        ways = [[(x, parts // x) for x in range(1, parts + 1) if parts % x == 0] for _, parts in self.cut]
        for chosen in product(*ways):
            if prod(x for x, _ in chosen) > mesh[0] or prod(y for _, y in chosen) > mesh[1]:
                continue
            for order in permutations(zip(self.cut, chosen, strict=True)):
                yield tuple(self._sides(position, order) for position in range(len(self.whole.layers)))

    def _sides(self, position: int, order: Sequence[tuple[tuple[str, int], tuple[int, int]]]) -> Sides:
        """The loops of one layer along columns and rows, in this order from the innermost on."""
        dims, sizes = self.whole.dim_of[position], self.whole.layers[position].sizes
        columns, rows = [], []
        for (name, parts), (x, y) in order:
            dim = dims[name]
            inner = sizes[dim] // parts
            columns.append(StridedLoop(dim, x, inner))
            rows.append(StridedLoop(dim, y, inner * x))
        return tuple(columns), tuple(rows)


def names_to_cut(group: LayerGroup) -> list[str]:
    """The names of loops that may go over tiles: they cut all layers, and all that passes between these."""
    common = set.intersection(*(set(dims) for dims in group.dim_of))
    alike = (group.cutting[one.producer, read.layer] for one in group.intermediates for read in one.reads)
    common = common.intersection(*alike)
    return [name for name in group.dim_of[0] if name in common and group.loop_sizes[name] > 1]


def cuts_of(group: LayerGroup, mesh: tuple[int, int], most: int) -> list[CutGroup]:
    """The ``most`` likeliest ways to divide a group among the tiles of a mesh, the likeliest first.

    That is with the most tiles at work, and of these the fewest words that come to tiles from outside, copies
    included.
    """
    names = names_to_cut(group)
    tiles = mesh[0] * mesh[1]
    counts = [
        [
            parts
            for parts in range(1, min(tiles, group.loop_sizes[name]) + 1)
            if not group.loop_sizes[name] % parts
        ]
        for name in names
    ]
    found = []
    for chosen in product(*counts):
        if prod(chosen) > tiles:
            continue
        cut = CutGroup(
            group, tuple((name, parts) for name, parts in zip(names, chosen, strict=True) if parts > 1)
        )
        if next(cut.placements(mesh), None) is not None:
            found.append(cut)
    return sorted(found, key=lambda one: (-one.tiles, coming_words(one) * one.tiles))[:most]


def coming_words(cut: CutGroup) -> int:
    """Words that each tile needs from outside, or makes for it: of every tensor that is no intermediate."""
    part = cut.part
    return sum(
        tensor.words(layer.sizes)
        for position, layer in enumerate(part.layers)
        for tensor in layer.tensors
        if not part.sources(position, tensor.name)
    )
