"""A fused mapping as people read it: the tree of loops, indented, with what each memory keeps where."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from costmodel.mapping.fused.mapping import FusedMapping
from costmodel.mapping.fused.problem import FusedProblem
from costmodel.mapping.fused.tree import KeptTile, branches, kept_tiles

INDENT = "  "


def fused_text(problem: FusedProblem, mapping: FusedMapping) -> str:
    """The tree, one line a loop, tile or einsum, outermost first; for a mapping without violations.

    ``for m by 4`` is a loop whose iterations leave 4 of m. ``L0 keeps T1: 8 words, e0 to e1`` is a tile that
    stands at this place of the tree while these einsums run. Tiles of an einsum's own nest are named
    with the level that has them.
    """
    text = _Text(problem, mapping, tuple(kept_tiles(problem, mapping)))
    return "\n".join(text.split(range(len(problem.einsums)), 0))


@dataclass(frozen=True)
class _Text:
    problem: FusedProblem
    mapping: FusedMapping
    kept: tuple[KeptTile, ...]

    def split(self, group: range, depth: int) -> Iterator[str]:
        """What stands below the ``depth`` loops that a group shares: kept tiles, then branch after branch."""
        pad = INDENT * depth
        for tile in self.kept:
            if not tile.hoisted and tile.above == depth and tile.during.start in group:
                first, last = (self.problem.einsums[at].name for at in (tile.during[0], tile.during[-1]))
                keeps = f"{self._level(tile.level)} keeps {tile.tensor}: {tile.words} words"
                yield f"{pad}{keeps}, {first} to {last}"
        position = group.start
        while position < group.stop:
            branch = self.mapping.sharing(position, depth + 1)
            yield from self._branch(branch, depth)
            position = branch.stop

    def _branch(self, branch: range, depth: int) -> Iterator[str]:
        pad = INDENT * depth
        path = self.mapping.paths[branch.start]
        if len(path) == depth:
            yield from self._nest(branch.start, depth)
            return
        for tile in self.kept:
            if tile.hoisted and tile.above == depth and tile.during == branch:
                yield f"{pad}{self._level(tile.level)} keeps {tile.tensor}: {tile.words} words"
        yield f"{pad}for {path[depth][0]} by {path[depth][1]}"
        yield from self.split(branch, depth + 1)

    def _nest(self, position: int, depth: int) -> Iterator[str]:
        branch = branches(self.problem, self.mapping)[position]
        einsum = branch.einsum
        yield f"{INDENT * depth}{einsum.name}: {einsum.output} from {', '.join(einsum.operands)}"
        depth += 1
        for number, loops in enumerate(self.mapping.own[position]):
            for dim, step in loops:
                yield f"{INDENT * depth}for {dim} by {step}"
                depth += 1
            level = self.problem.outermost - 1 - number
            tiles = [
                f"{tensor} {branch.tile(tensor, level)}"
                for tensor in einsum.tensors
                if level in branch.levels_of(tensor) and branch.hoisted_above(tensor, level) is None
            ]
            if tiles:
                yield f"{INDENT * depth}{self._level(level)}: {', '.join(tiles)}"
        yield f"{INDENT * depth}one operation"

    def _level(self, level: int) -> str:
        return self.problem.levels[level].name
