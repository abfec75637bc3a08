"""The tiles of a fused mapping: which loops stand above each, and where each tensor is kept."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from costmodel.mapping.fused.mapping import FusedMapping, KeptTile, Loops
from costmodel.mapping.fused.movement import PlacedLoop, Span, begun, tile_words
from costmodel.mapping.fused.problem import Einsum, FusedProblem


@dataclass(frozen=True)
class Branch:
    """One einsum of a fused mapping without violations: its loops, and the tiles of its tensors.

    A *kept* tile stands above a split and outlives the einsum's turn: the backing tile of an intermediate, or
    a hoisted one. An *own* tile stands below all shared loops and is gone with the turn.
    """

    problem: FusedProblem
    mapping: FusedMapping
    position: int

    @property
    def einsum(self) -> Einsum:
        return self.problem.einsums[self.position]

    @cached_property
    def spans(self) -> dict[str, Span]:
        """All of every dim. A dim that windows slide along has a lead: see :meth:`FusedProblem.lead`."""
        leads = {loop.dim: self.problem.lead(dim) for dim, loop in self._sliding.items()}
        return {dim: Span(0, size, leads.get(dim, 0)) for dim, size in self.einsum.dims.items()}

    @cached_property
    def _sliding(self) -> dict[str, PlacedLoop]:
        """By the consumer's dim, the shared loops that slide along a dim of this einsum."""
        named = [(dim, step) for dim, step in self.mapping.paths[self.position]]
        return {dim: self._placed(dim, step) for dim, step in named if dim not in self.einsum.dims}

    def _placed(self, dim: str, step: int) -> PlacedLoop:
        """A loop over ``dim``: an own dim, or one of a later einsum whose windows slide along an own one."""
        if dim in self.einsum.dims:
            return PlacedLoop(dim, step)
        halo = self.problem.halo[dim]
        return PlacedLoop(halo.dim, step * dict(halo.axis)[dim], slides=True)

    def placed(self, loops: Loops) -> tuple[PlacedLoop, ...]:
        """Loops as loops over this einsum's own dims."""
        return tuple(self._placed(dim, step) for dim, step in loops)

    def backing(self, tensor: str) -> int:
        """The outermost level that has the tensor."""
        return self.mapping.backing.get(tensor, self.problem.outermost)

    def levels_of(self, tensor: str) -> range:
        """The levels inside the one that the einsum takes the tensor from: they are filled for this einsum.

        It is taken from its backing level or from the outermost memory, where it is already.
        """
        return range(self.backing(tensor))

    def hoisted_above(self, tensor: str, level: int) -> int | None:
        """The shared loop that a tile is hoisted above, or None for an own tile."""
        if level != self.problem.outermost - 1:
            return None
        return self.mapping.hoisted(self.einsum.name).get(tensor)

    def loops_above(self, tensor: str, level: int) -> tuple[tuple[PlacedLoop, ...], int]:
        """The loops above a tile, and how many of the outermost of them empty it with every iteration."""
        path = self.mapping.paths[self.position]
        if (depth := self.hoisted_above(tensor, level)) is not None:
            return self.placed(path[:depth]), self.mapping.emptied_below(self.position, depth)
        lists = self.mapping.own[self.position][: self.problem.outermost - level]
        own = tuple(loop for loops in lists for loop in loops)
        return self.placed(path + own), len(path)

    def tile(self, tensor: str, level: int) -> int:
        """The words of the largest tile of a tensor at a level that :meth:`levels_of` names."""
        loops, _ = self.loops_above(tensor, level)
        return self.words(tensor, loops)

    def words(self, tensor: str, loops: tuple[PlacedLoop, ...]) -> int:
        """The words of a tensor that the first iteration of ``loops`` touches: no other touches more."""
        return tile_words(self.einsum.tensors[tensor], begun(loops, self.spans))


def branches(problem: FusedProblem, mapping: FusedMapping) -> tuple[Branch, ...]:
    """The einsums of the mapping, in order."""
    return tuple(Branch(problem, mapping, position) for position in range(len(problem.einsums)))


def kept_tiles(problem: FusedProblem, mapping: FusedMapping) -> list[KeptTile]:
    """All backing tiles and hoisted tiles, in the chain's order."""
    kept = []
    for position, branch in enumerate(branches(problem, mapping)):
        for tensor, depth in mapping.hoisted(branch.einsum.name).items():
            level = problem.outermost - 1
            during = mapping.sharing(position, depth + 1)
            kept.append(KeptTile(position, tensor, level, branch.tile(tensor, level), depth, during, True))
        if branch.einsum.output in mapping.backing:
            kept.append(_backing_tile(branch))
    return kept


def _backing_tile(producer: Branch) -> KeptTile:
    """The tile of a producer's output directly above the split of its pair: what the consumer reads there.

    It lives from the branch of the split that has the producer to the one that has the consumer.
    """
    problem, mapping, position = producer.problem, producer.mapping, producer.position
    consumer = Branch(problem, mapping, position + 1)
    tensor, depth = producer.einsum.output, mapping.prefix[position]
    words = consumer.words(tensor, consumer.placed(mapping.paths[position + 1][:depth]))
    during = range(mapping.sharing(position, depth + 1).start, mapping.sharing(position + 1, depth + 1).stop)
    return KeptTile(position, tensor, mapping.backing[tensor], words, depth, during, False)
