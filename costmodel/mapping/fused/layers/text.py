"""A fused group as people read it: the shared loops, what levels hold where, each layer's nest in a line."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.mapping.fused.layers.turns import HeldTile, held_tiles
from costmodel.mapping.nest_text import nest_text

INDENT = "  "


def group_text(group: LayerGroup, mapping: GroupMapping) -> str:
    """The tree, one line a loop, held tile or layer; for a mapping without violations.

    ``for M by 64`` is a loop whose iterations leave 64 of M. ``SRAM holds Z of expand: 8192 words, expand to
    contract`` stands where the tile stands. A layer's nest is written as :func:`nest_text` writes it: it maps
    what one iteration of the loops above leaves.
    """
    text = _Text(group, mapping, tuple(held_tiles(group, mapping.shared)))
    return "\n".join(text.split(range(len(group.layers)), 0))


@dataclass(frozen=True)
class _Text:
    group: LayerGroup
    mapping: GroupMapping
    held: tuple[HeldTile, ...]

    def split(self, layers: range, depth: int) -> Iterator[str]:
        """What stands below the ``depth`` loops that some layers share."""
        for tile in self.held:
            if not tile.hoisted and tile.above == depth and tile.layer in layers:
                first, last = (self.group.layers[at].name for at in (tile.during[0], tile.during[-1]))
                yield f"{INDENT * depth}{self._holds(tile)}, {first} to {last}"
        position = layers.start
        while position < layers.stop:
            branch = self.mapping.shared.sharing(position, depth + 1)
            yield from self._branch(branch, depth)
            position = branch.stop

    def _branch(self, branch: range, depth: int) -> Iterator[str]:
        pad, path = INDENT * depth, self.mapping.shared.paths[branch.start]
        if len(path) == depth:
            layer = self.group.layers[branch.start]
            yield f"{pad}{layer.name}: {nest_text(self.mapping.nests[branch.start])}"
            return
        for tile in self.held:
            if tile.hoisted and tile.above == depth and tile.during == branch:
                yield f"{pad}{self._holds(tile)}"
        yield f"{pad}for {path[depth][0]} by {path[depth][1]}"
        yield from self.split(branch, depth + 1)

    def _holds(self, tile: HeldTile) -> str:
        level, layer = self.group.architecture.levels[tile.level], self.group.layers[tile.layer]
        return f"{level.name} holds {tile.tensor} of {layer.name}: {tile.words} words"
