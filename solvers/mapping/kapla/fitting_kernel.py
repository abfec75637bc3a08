"""Compiled: whether the tiles of partial schemes fit their levels, row after row. Imports numba."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from numpy.typing import NDArray

from costmodel.compiled import entry, inlined
from costmodel.mapping.batch.counting_kernel import tile_words

if TYPE_CHECKING:
    from costmodel.mapping.batch.batch_tables import Tables

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


class FittingLimits(NamedTuple):
    """What tiles have to fit.

    ``capacities`` int64 [levels]: words. ``sets`` int64 [levels, sets] and ``set_count`` int64 [levels]: the
    sets of tensors that a level may keep, as bit masks. ``forced`` int64 [levels, dims]: the least that slots
    decided later put inside each level's tiles.
    """

    capacities: Array
    sets: Array
    set_count: Array
    forced: Array


class Partial(NamedTuple):
    """The arrays of :class:`.schemes.Schemes` that say how large tiles are, and what levels keep."""

    temporal: Array
    spatial: Array
    keep: Array


class FittingWork(NamedTuple):
    """Scratch arrays of a row: ``inside`` and ``tile`` int64 [dims], ``words`` int64 [tensors]."""

    inside: Array
    tile: Array
    words: Array


class Growth(NamedTuple):
    """Rows that get a factor more: ``factors`` int64 [n] of ``dim``, of the rows ``sources`` int64 [n].

    The factor stands at ``level``, among the ``spatial`` ones or the temporal ones, in place of a 1. Spatial
    factors there multiply to at most ``fanout``.
    """

    sources: Array
    factors: Array
    level: int
    spatial: bool
    dim: int
    fanout: int


@inlined
def _fits(
    tables: Tables,
    limits: FittingLimits,
    rows: Partial,
    row: Int,
    grown: Growth,
    factor: Int,
    outer: Int,
    work: FittingWork,
) -> Any:
    """Whether levels from the one inside ``outer`` on can hold the tiles of a row that gets a ``factor``."""
    levels, dims = rows.temporal.shape[1:]
    tensors = work.words.shape[0]
    for dim in range(dims):
        work.inside[dim] = 1
    for level in range(levels - 1):
        for dim in range(dims):
            work.inside[dim] *= rows.temporal[row, level, dim] * rows.spatial[row, level, dim]
            if level == grown.level and dim == grown.dim:
                work.inside[dim] *= factor
            work.tile[dim] = work.inside[dim] * limits.forced[level, dim]
        if level < outer - 1:
            continue
        for tensor in range(tensors):
            work.words[tensor] = tile_words(tables, tensor, work.tile)
        fits = False
        for number in range(1 if level < outer else limits.set_count[level]):
            kept = rows.keep[row, level] if level < outer else limits.sets[level, number]
            needed = 0
            for tensor in range(tensors):
                needed += work.words[tensor] * (kept >> tensor & 1)
            if needed <= limits.capacities[level]:
                fits = True
                break
        if not fits:
            return False
    return True


@entry
def fit_rows(
    tables: Tables,
    limits: FittingLimits,
    rows: Partial,
    grown: Growth,
    outer: int,
    work: FittingWork,
    fitting: Array,
) -> None:
    """Fill ``fitting`` bool [n]: whether levels from the one inside ``outer`` on can hold their tiles.

    The levels inside that one were looked at when they were decided, and the outermost one holds everything.
    What a level from ``outer`` on keeps is not decided: the set that takes least has to fit.
    """
    dims = rows.temporal.shape[2]
    for index in range(fitting.shape[0]):
        row, factor = grown.sources[index], grown.factors[index]
        if grown.spatial:
            instances = factor
            for dim in range(dims):
                instances *= rows.spatial[row, grown.level, dim]
            if instances > grown.fanout:
                fitting[index] = False
                continue
        fitting[index] = _fits(tables, limits, rows, row, grown, factor, outer, work)
