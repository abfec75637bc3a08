"""How many words of each tensor the steps of a mapping move between DRAM, the global buffer and the PEs.

The cost model adds up what the steps of every loop deliver (:func:`.delivered_words`). Here the same numbers
stay apart, by the loop that advances. What the loops inside a PE move in one step is moved in one piece.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from costmodel.mapping.counts.traffic import StridedLoop, multicast_groups, nest_of, step_words
from costmodel.mapping.mapping import Mapping
from costmodel.schedule.mesh.tile_groups import tile_groups
from costmodel.workload.network import Tensor


@dataclass(frozen=True)
class StepMoves:
    """Words that come before the first step, and with a step in which a loop advances, the innermost first.

    ``anew``: how many of them are outputs that nothing was added to before, if the step comes to new ones;
    these are not brought, as they begin at zero.
    """

    first: int
    advance: tuple[int, ...]
    anew: int = 0

    def words(self, loop: int) -> int:
        """The words that come when ``loop`` advances; -1: before the first step."""
        return self.first if loop < 0 else self.advance[loop]

    def brought_back(self, loop: int, fresh: bool) -> int:
        """Of outputs the words that come, partial sums all; the others begin at zero."""
        words = self.words(loop)
        return max(0, words - self.anew) if fresh else words


@dataclass(frozen=True)
class TensorMoves:
    """What moves of one tensor.

    ``to_pe``: words of one PE. ``groups``: the PEs (column, row) that need the same words, which come in one
    message, or whose partial sums are added up on their way. ``to_buffer``: words of the global buffer; None
    where the tensor bypasses it. ``pe_bits``, ``dram_bits``: of a word on the mesh and at DRAM.
    ``begins_anew``: for each loop, whether its later iterations come to new outputs if the first does.
    """

    tensor: Tensor
    to_pe: StepMoves
    groups: tuple[tuple[tuple[int, int], ...], ...]
    to_buffer: StepMoves | None
    pe_bits: int
    dram_bits: int
    begins_anew: tuple[bool, ...]

    @property
    def from_dram(self) -> StepMoves:
        """What DRAM moves: tiles of the global buffer, or what all groups of PEs get where it is bypassed."""
        if self.to_buffer is not None:
            return self.to_buffer
        count, one = len(self.groups), self.to_pe
        return StepMoves(count * one.first, tuple(count * words for words in one.advance), count * one.anew)


def moves_of(tensor: Tensor, mapping: Mapping, pe_bits: Sequence[int]) -> TensorMoves:
    """The moves of a tensor; the global buffer is the level below the outermost one, its fan-out the mesh.

    ``pe_bits``: bits of a word of each level.
    """
    nest, buffer = nest_of(mapping), len(mapping.levels) - 2
    # the level that takes in what comes to a PE; -1: the MAC units do
    inside = next((at for at in range(buffer - 1, -1, -1) if tensor.name in mapping.levels[at].keep), -1)
    outer = [loop for block in nest.temporal[buffer:] for loop in block]
    between = [loop for block in nest.temporal[inside + 1 : buffer] for loop in block]
    copies = prod(multicast_groups(tensor, nest.spatial[at]) for at in range(inside + 1, buffer))
    if inside < 0:
        # a MAC unit takes a word each cycle and keeps none
        cycles = prod(loop.bound for loop in between)
        own = StepMoves(cycles, (cycles,) * len(outer), cycles)
        if tensor.is_output:
            own = StepMoves(cycles, own.advance, _distinct(tensor, 1, between))
    else:
        own = _steps(tensor, mapping.tiles[inside], between, outer)
    to_pe = StepMoves(copies * own.first, tuple(copies * one for one in own.advance), copies * own.anew)
    kept = tensor.name in mapping.levels[buffer].keep
    buffered = len(nest.temporal[buffer])
    to_buffer = None
    if kept:
        tiles = _steps(tensor, mapping.tiles[buffer], [], outer[buffered:])
        to_buffer = StepMoves(tiles.first, (0,) * buffered + tiles.advance, tiles.anew)
    return TensorMoves(
        tensor,
        to_pe,
        _groups(tensor, mapping, nest.spatial[buffer]),
        to_buffer,
        pe_bits[max(inside, 0)],
        pe_bits[-1],
        tuple(loop.dim in tensor.dims or not words for loop, words in zip(outer, to_pe.advance, strict=True)),
    )


def _steps(
    tensor: Tensor, tile: dict[str, int], between: Sequence[StridedLoop], outer: Sequence[StridedLoop]
) -> StepMoves:
    """Words of one instance with a ``tile``: loops ``between`` run in every step, ``outer`` over steps."""
    extents = tensor.extents(tile)
    words = step_words(tensor, extents, [*between, *outer])
    inner, in_step = prod(loop.bound for loop in between), 0
    for loop, each in zip(between, words, strict=False):
        inner //= loop.bound
        in_step += (loop.bound - 1) * inner * each
    return StepMoves(
        prod(extents) + in_step,
        tuple(each + in_step for each in words[len(between) :]),
        _distinct(tensor, prod(extents), between),
    )


def _distinct(tensor: Tensor, tile_words: int, between: Sequence[StridedLoop]) -> int:
    """The different words of a step whose tile moves with the loops ``between``, of a tensor whose tiles do
    not overlap."""
    return tile_words * prod(loop.bound for loop in between if loop.dim in tensor.dims)


def _groups(
    tensor: Tensor, mapping: Mapping, spatial: Sequence[StridedLoop]
) -> tuple[tuple[tuple[int, int], ...], ...]:
    """The PEs (column, row) in use, by the part of the tensor that they need."""
    along_x = len(mapping.levels[-2].spatial_x)
    of_pe = tile_groups(tensor, (tuple(spatial[:along_x]), tuple(spatial[along_x:]))).of_tile
    found: list[list[tuple[int, int]]] = [[] for _ in range(int(of_pe.max()) + 1)]
    for column in range(of_pe.shape[0]):
        for row in range(of_pe.shape[1]):
            found[of_pe[column, row]].append((column, row))
    return tuple(map(tuple, found))
