"""A fused mapping as people read it: the tree of loops, indented, with what each memory keeps where."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence

from costmodel.mapping.fused.mapping import FusedMapping, KeptTile
from costmodel.mapping.fused.problem import FusedProblem
from costmodel.mapping.fused.tree import branches, kept_tiles

INDENT = "  "


class TreeText(ABC):
    """The tree of shared loops as lines of text: loops, kept tiles, and what stands below all loops."""

    def __init__(self, shared: FusedMapping, kept: Sequence[KeptTile]) -> None:
        self._shared, self._kept = shared, kept

    def __str__(self) -> str:
        return "\n".join(self._split(range(len(self._shared.paths)), 0))

    @abstractmethod
    def name(self, position: int) -> str:
        """How the einsum at this position is called."""

    @abstractmethod
    def keeps(self, tile: KeptTile) -> str:
        """The level, the tensor and its words."""

    def divided(self, branch: range) -> Iterator[str]:
        """How the einsums below a last shared loop divide the array; nothing where they take turns on it."""
        yield from ()

    @abstractmethod
    def nest(self, position: int) -> Iterator[str]:
        """The lines of an einsum's own loops, indented among themselves."""

    def _split(self, group: range, depth: int) -> Iterator[str]:
        """What stands below the ``depth`` loops that a group shares: kept tiles, then branch after branch."""
        for tile in self._kept:
            if not tile.hoisted and tile.above == depth and tile.position in group:
                first, last = tile.during[0], tile.during[-1]
                yield f"{INDENT * depth}{self.keeps(tile)}, {self.name(first)} to {self.name(last)}"
        position = group.start
        while position < group.stop:
            branch = self._shared.sharing(position, depth + 1)
            yield from self._branch(branch, depth)
            position = branch.stop

    def _branch(self, branch: range, depth: int) -> Iterator[str]:
        path = self._shared.paths[branch.start]
        if len(path) == depth:
            yield from (f"{INDENT * depth}{line}" for line in self.nest(branch.start))
            return
        for tile in self._kept:
            if tile.hoisted and tile.above == depth and tile.during == branch:
                yield f"{INDENT * depth}{self.keeps(tile)}"
        yield f"{INDENT * depth}for {path[depth][0]} by {path[depth][1]}"
        if len(path) == depth + 1:
            yield from (f"{INDENT * (depth + 1)}{line}" for line in self.divided(branch))
        yield from self._split(branch, depth + 1)


def fused_text(problem: FusedProblem, mapping: FusedMapping) -> str:
    """The tree, one line a loop, tile or einsum, outermost first; for a mapping without violations.

    ``for m by 4`` is a loop whose iterations leave 4 of m. ``L0 keeps T1: 8 words, e0 to e1`` is a tile that
    stands at this position in the tree while these einsums run. Tiles of an einsum's own nest are named
    with the level that has them.
    """
    return str(_ChainText(problem, mapping))


class _ChainText(TreeText):
    def __init__(self, problem: FusedProblem, mapping: FusedMapping) -> None:
        super().__init__(mapping, kept_tiles(problem, mapping))
        self.problem, self.mapping = problem, mapping
        self.branches = branches(problem, mapping)

    def name(self, position: int) -> str:
        return self.problem.einsums[position].name

    def keeps(self, tile: KeptTile) -> str:
        return f"{self._level(tile.level)} keeps {tile.tensor}: {tile.words} words"

    def nest(self, position: int) -> Iterator[str]:
        branch = self.branches[position]
        einsum, depth = branch.einsum, 1
        yield f"{einsum.name}: {einsum.output} from {', '.join(einsum.operands)}"
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
