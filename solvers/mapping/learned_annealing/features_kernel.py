"""Compiled: what the learned model sees of a mapping, and by how much its tiles overfill the buffers.

As AutoTVM's features of loops these are sizes, touched words and reuse, all as logarithms (base 2): trees
split them where a product crosses a value.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined
from costmodel.mapping.batch.counting_kernel import tile_words

if TYPE_CHECKING:
    from costmodel.mapping.batch.batch_tables import BatchRows, Tables
    from solvers.mapping.space.tables import SpaceTables

Array = NDArray[Any]


class WalkSpace(NamedTuple):
    """What chains walk in: the layer and hardware, and the mappings allowed."""

    problem: Tables
    space: SpaceTables
    avoid_overfull: bool
    """Whether mappings whose tiles do not fit are left out."""


class Features(NamedTuple):
    """Scratch arrays for the features of one mapping; logarithms are of base 2."""

    features: Array
    """[features] float32."""
    words: Array
    """[levels, tensors] logarithms of tile sizes."""
    tile: Array
    """[dims] what each dim covers up to the level at hand."""
    loops: Array
    """[levels * dims] the dims of temporal loops, innermost first."""
    outside: Array
    """[levels * dims + 1] logarithms of the product of the loops from each one outwards."""
    starts: Array
    """[levels + 1] where each level's loops begin."""


def feature_count(walk_space: WalkSpace) -> int:
    """Factors of every slot and dim, words and deliveries of every tensor and level, parallelism."""
    levels, tensors = walk_space.problem.can_keep.shape
    return int(walk_space.space.slot_level.size * walk_space.problem.sizes.size + 2 * levels * tensors + 1)


def feature_arrays(walk_space: WalkSpace) -> Features:
    (levels, tensors), dims = walk_space.problem.can_keep.shape, len(walk_space.problem.sizes)
    return Features(
        np.zeros(feature_count(walk_space), np.float32),
        np.zeros((levels, tensors)),
        np.zeros(dims, np.int64),
        np.zeros(levels * dims, np.int64),
        np.zeros(levels * dims + 1),
        np.zeros(levels + 1, np.int64),
    )


@entry
def describe_rows(walk_space: WalkSpace, rows: BatchRows, seen: Features, features: Array) -> None:
    """Fill ``features`` [n, features] of all ``rows``."""
    for row in range(features.shape[0]):
        describe(walk_space, rows, row, seen)
        for column in range(features.shape[1]):
            features[row, column] = seen.features[column]


@inlined
def describe(walk_space: WalkSpace, rows: BatchRows, row: int, seen: Features) -> float:
    """Fill ``seen.features``; the logarithm of the worst overfilling of a buffer, 0 if all tiles fit."""
    # For each tensor and level two features: the words of its tile there, and the words brought to the next
    # level inside (that tile's words, times how often it is brought). The first is -1 where this level does
    # not keep the tensor, the second where the next level inside does not; MAC units always take it.
    column = _factors(walk_space.space, rows, row, seen.features)
    overfill = _fill_words(walk_space.problem, rows, row, seen)
    _fill_loops(rows, row, seen)
    levels, tensors = seen.words.shape
    for tensor in range(tensors):
        for level in range(levels):
            kept = rows.keep[row, level, tensor]
            brought = level == 0 or rows.keep[row, level - 1, tensor]
            inner = 0.0 if level == 0 else seen.words[level - 1, tensor]
            deliveries = inner + _rounds(walk_space.problem, seen, level, tensor)
            seen.features[column] = seen.words[level, tensor] if kept else -1.0
            seen.features[column + 1] = deliveries if brought else -1.0
            column += 2
    return overfill


@inlined
def _factors(space: SpaceTables, rows: BatchRows, row: int, features: Array) -> int:
    """The factors of every slot, and last of all features the parallelism; how many were written."""
    column, parallelism = 0, 0.0
    for slot in range(space.slot_level.shape[0]):
        level = space.slot_level[slot]
        for dim in range(rows.temporal.shape[2]):
            factor = rows.temporal[row, level, dim]
            if space.slot_spatial[slot]:
                factor = rows.spatial_x[row, level, dim] * rows.spatial_y[row, level, dim]
            size = np.log2(float(factor)) if factor > 1 else 0.0
            features[column] = size
            column += 1
            if space.slot_spatial[slot]:
                parallelism += size
    features[features.shape[0] - 1] = parallelism
    return column


@inlined
def _fill_words(problem: Tables, rows: BatchRows, row: int, seen: Features) -> float:
    """Fill ``seen.words``; by how much (logarithm) the kept tiles overfill the worst level."""
    levels, tensors = seen.words.shape
    overfill = 0.0
    for level in range(levels):
        for dim in range(seen.tile.shape[0]):
            inner = seen.tile[dim] if level else 1
            spread = rows.spatial_x[row, level, dim] * rows.spatial_y[row, level, dim]
            seen.tile[dim] = inner * spread * rows.temporal[row, level, dim]
        kept = 0
        for tensor in range(tensors):
            # where a row's factors are padded, its tile may reach beyond the layer: still the tile it fills
            words = tile_words(problem, tensor, seen.tile)
            seen.words[level, tensor] = np.log2(float(words))
            if rows.keep[row, level, tensor]:
                kept += words
        if kept > problem.usable_words[level]:
            overfill = max(overfill, np.log2(float(kept) / float(problem.usable_words[level])))
    return overfill


@inlined
def _fill_loops(rows: BatchRows, row: int, seen: Features) -> None:
    """Fill ``seen.loops``, ``seen.outside`` and ``seen.starts``."""
    count = 0
    for level in range(rows.temporal.shape[1]):
        seen.starts[level] = count
        for position in range(rows.temporal.shape[2]):
            dim = rows.permutation[row, level, position]
            bound = rows.temporal[row, level, dim]
            if bound > 1:
                seen.loops[count] = dim
                seen.outside[count] = np.log2(float(bound))
                count += 1
    seen.starts[rows.temporal.shape[1]] = count
    # From each loop's own logarithm to the sum of its own and all outside it.
    seen.outside[count] = 0.0
    for loop in range(count - 1, -1, -1):
        seen.outside[loop] += seen.outside[loop + 1]


@inlined
def _rounds(problem: Tables, seen: Features, level: int, tensor: int) -> float:
    """How often (logarithm) a tile below a level is brought: the loops from there outwards, without the
    innermost ones that leave the tensor in place."""
    loop, last = seen.starts[level], seen.starts[seen.starts.shape[0] - 1]
    while loop < last and not problem.relevant[tensor, seen.loops[loop]]:
        loop += 1
    return float(seen.outside[loop])
