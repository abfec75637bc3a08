"""Reads, fills and updates of every einsum, level and tensor of a fused mapping, and its footprints.

An operation reads each operand at its innermost level; it updates the output there and reads it there, too,
unless it is the element's first contribution. A word that enters a tile is one read of the next level out
that keeps the tensor and one fill here. A word of an output that leaves a tile is one update of that next
level; it comes back by a read and a fill, but for the first time. What leaves a backing tile is forgotten.
"""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass

from costmodel.mapping.fused.mapping import FusedMapping, kept_words
from costmodel.mapping.fused.movement import Span, tile_words, words_entering
from costmodel.mapping.fused.problem import FusedProblem
from costmodel.mapping.fused.tree import Branch, branches, kept_tiles


@dataclass(frozen=True)
class TileAccess:
    """Words read from, filled into and updated at one level, of one tensor, for one einsum."""

    reads: int = 0
    fills: int = 0
    updates: int = 0

    def __add__(self, other: TileAccess) -> TileAccess:
        return TileAccess(self.reads + other.reads, self.fills + other.fills, self.updates + other.updates)


@dataclass(frozen=True)
class EinsumCounts:
    """All that one einsum does: its operations, and for every level the accesses by tensor.

    An intermediate's updates are its producer's, its reads its consumer's.
    """

    operations: int
    levels: tuple[ReadOnlyDict[str, TileAccess], ...]

    def total(self, level: int) -> TileAccess:
        """The accesses of all tensors at a level."""
        return sum(self.levels[level].values(), TileAccess())


def fused_counts(problem: FusedProblem, mapping: FusedMapping) -> tuple[EinsumCounts, ...]:
    """The counts of every einsum; for a mapping that the checker has no reason against."""
    return tuple(_einsum_counts(branch) for branch in branches(problem, mapping))


def _einsum_counts(branch: Branch) -> EinsumCounts:
    """The accesses of one einsum over all its turns: of its operations, and of what enters its tiles."""
    einsum = branch.einsum
    levels: list[dict[str, TileAccess]] = [{} for _ in branch.problem.levels]

    def add(level: int, tensor: str, access: TileAccess) -> None:
        levels[level][tensor] = levels[level].get(tensor, TileAccess()) + access

    for tensor in einsum.tensors:
        made = _elements(branch, tensor) if tensor == einsum.output else 0
        operation = TileAccess(reads=einsum.operations - made)
        add(0, tensor, TileAccess(operation.reads, 0, einsum.operations if made else 0))
        for level in branch.levels_of(tensor):
            loops, emptied_below = branch.loops_above(tensor, level)
            words = words_entering(einsum.tensors[tensor], loops, branch.spans, emptied_below)
            # Every tile of an output is changed while it is there, so each leaves as it came: all words that
            # entered are updates further out, and all but an element's first are read back from there.
            add(level, tensor, TileAccess(fills=words - made))
            add(level + 1, tensor, TileAccess(reads=words - made, updates=words if made else 0))
    return EinsumCounts(einsum.operations, tuple(levels))


def _elements(branch: Branch, tensor: str) -> int:
    """The words of a tensor that the einsum touches at all."""
    spans = {dim: Span(0, size) for dim, size in branch.einsum.dims.items()}
    return tile_words(branch.einsum.tensors[tensor], spans)


def used_words(problem: FusedProblem, mapping: FusedMapping) -> list[list[int]]:
    """Words that each level of the chip holds in each einsum's time: its own tiles, and all kept ones alive.

    One row an einsum, innermost level first.
    """
    kept = kept_tiles(problem, mapping)
    rows = []
    for position, branch in enumerate(branches(problem, mapping)):
        row = kept_words(kept, problem.outermost, position)
        for tensor in branch.einsum.tensors:
            for level in branch.levels_of(tensor):
                if branch.hoisted_above(tensor, level) is None:
                    row[level] += branch.tile(tensor, level)
        rows.append(row)
    return rows


def peak_words(problem: FusedProblem, mapping: FusedMapping) -> tuple[int, ...]:
    """The most words that each level of the chip holds in any einsum's time, innermost first."""
    return tuple(max(column) for column in zip(*used_words(problem, mapping), strict=True))
