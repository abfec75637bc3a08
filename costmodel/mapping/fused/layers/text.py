"""A fused group as people read it: the shared loops, what levels hold where, each layer's nest in a line."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.mapping.fused.layers.turns import held_tiles
from costmodel.mapping.fused.mapping import KeptTile
from costmodel.mapping.fused.text import TreeText
from costmodel.mapping.nest_text import nest_text


def group_text(group: LayerGroup, mapping: GroupMapping) -> str:
    """The tree, one line a loop, held tile or layer; for a mapping without violations.

    ``for M by 64`` is a loop whose iterations leave 64 of M. ``SRAM holds Z of expand: 8192 words, expand to
    contract`` stands where the tile stands. A layer's nest is written as :func:`nest_text` writes it: it maps
    what one iteration of the loops above leaves.
    """
    return str(_GroupText(group, mapping))


class _GroupText(TreeText):
    def __init__(self, group: LayerGroup, mapping: GroupMapping) -> None:
        super().__init__(mapping.shared, held_tiles(group, mapping.shared))
        self.group, self.nests = group, mapping.nests

    def name(self, position: int) -> str:
        return self.group.layers[position].name

    def keeps(self, tile: KeptTile) -> str:
        level = self.group.architecture.levels[tile.level]
        return f"{level.name} holds {tile.tensor} of {self.name(tile.position)}: {tile.words} words"

    def nest(self, position: int) -> Iterator[str]:
        yield f"{self.name(position)}: {nest_text(self.nests[position])}"
