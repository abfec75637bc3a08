"""A fused group as people read it: the shared loops, what levels hold where, each layer's nest in a line."""

from __future__ import annotations

from collections.abc import Iterator

from costmodel.mapping.fused.layers.array_parts import array_size
from costmodel.mapping.fused.layers.group import GroupMapping, LayerGroup
from costmodel.mapping.fused.layers.turns import held_tiles, turns_of
from costmodel.mapping.fused.mapping import KeptTile
from costmodel.mapping.fused.pipeline import stage_of
from costmodel.mapping.fused.text import TreeText
from costmodel.mapping.nest_text import nest_text


def group_text(group: LayerGroup, mapping: GroupMapping) -> str:
    """The tree, one line a loop, held tile or layer; for a mapping without violations.

    ``for M by 64`` is a loop whose iterations leave 64 of M. ``SRAM holds Z of expand: 8192 words, expand to
    contract`` stands where the tile stands. A layer's nest is written as :func:`nest_text` writes it: it maps
    what one iteration of the loops above leaves. Where a loop slides along a layer's rows, the layer has a
    line for each number of rows that an iteration can leave: ``expand, P=9 in 1 turn: ...``; its tile says
    ``rows made anew``, or columns, if those are that earlier iterations made, too. Turns that go on with
    partial sums have a line of their own: ``contract, in 3 turns that go on with sums: ...``. Layers that run
    at the same time are named before their tiles: ``pipelined on 4 columns: expand on 2, contract on 2``.
    Their tiles say how many of them are held: ``2 x 8192 words``.
    """
    return str(_GroupText(group, mapping))


class _GroupText(TreeText):
    def __init__(self, group: LayerGroup, mapping: GroupMapping) -> None:
        super().__init__(mapping.shared, held_tiles(group, mapping.shared))
        self.group, self.nests = group, mapping.turn_nests(group.layers)
        self.turns = turns_of(group, mapping.shared)

    def name(self, position: int) -> str:
        return self.group.layers[position].name

    def keeps(self, tile: KeptTile) -> str:
        level = self.group.architecture.levels[tile.level]
        name, along = self.name(tile.position), self.group.slides[tile.position]
        recompute = () if tile.hoisted else self.turns[tile.position].shared.recompute
        dims = sorted(along[loop] for layer, loop in recompute if layer == name)
        called = " and ".join("columns" if dim == "Q" else "rows" for dim in dims)
        anew = f", {called} made anew" if called else ""
        words = f"{tile.words}" if tile.copies == 1 else f"{tile.copies} x {tile.words // tile.copies}"
        return f"{level.name} holds {tile.tensor} of {name}: {words} words{anew}"

    def divided(self, branch: range) -> Iterator[str]:
        pipeline = stage_of(self._shared.pipelines, branch.start)
        if pipeline is not None:
            size = array_size(self.group.architecture, pipeline.axis)
            parts = [
                f"{self.name(stage)} on {part}"
                for stage, part in zip(pipeline.stages, pipeline.parts, strict=True)
            ]
            yield f"pipelined on {size} {pipeline.side}: {', '.join(parts)}"

    def nest(self, position: int) -> Iterator[str]:
        turns, nests = self.turns[position], self.nests[position]
        if len(nests) == 1:
            yield f"{self.name(position)}: {nest_text(nests[0])}"
            return
        for kind, nest in zip(turns.kinds, nests, strict=True):
            yield f"{self.name(position)}, {turns.kind_text(kind)}: {nest_text(nest)}"
