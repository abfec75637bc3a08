"""Compiled: how many words a tile holds, and how many have to be moved into it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from numpy.typing import NDArray

from costmodel.compiled import inlined
from costmodel.mapping.batch.counting_kernel import tile_words

if TYPE_CHECKING:
    from solvers.mapping.exact.tables import Assignment, Space

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Real = Any
"""A 64-bit floating-point number of compiled code."""


@inlined
def fits_tile(space: Space, assignment: Assignment, level: int, tile: Array) -> bool:
    """Whether a level, or where levels are uneven a part of one, can have this tile [dims].

    The tiles of all parts of a level must fit together, but those of the other parts are not decided here. So
    the least is taken for each: this tile for the parts outside, whose tiles contain it, and the tile of one
    temporal point for the parts inside.
    """
    words = least_words_inside(space, assignment, level)
    for part in range(level, space.last[level] + 1):
        words += kept_words(space, assignment, part, tile)
    return bool(words <= space.model.usable_words[level])


@inlined
def kept_words(space: Space, assignment: Assignment, level: int, tile: Array) -> Int:
    """Words of the tensors that a level keeps if its tile is this one; units where elements have widths.

    Outputs count as partial sums where that is certain from the assignment, else as finished ones: a bound
    from below, which :func:`sums_fit` makes exact once the loops are known."""
    words = 0
    for tensor in range(assignment.ratio.shape[1]):
        if assignment.keep[level] >> tensor & 1:
            one = space.model.units[level, tensor]
            if tensor == space.model.output and _surely_open(space, assignment, level):
                one = space.model.sum_units[level]
            words += tile_words(space.model, tensor, tile) * one
    return words


@inlined
def _surely_open(space: Space, assignment: Assignment, level: int) -> bool:
    """Whether outputs that arrive at a level lack products, whatever the temporal loops are.

    MAC units hold no sums. So at the innermost level that keeps outputs every temporal loop over a summed dim
    adds to what is there."""
    model = space.model
    if not model.wide_sums:
        return False
    summed = assignment.innermost[model.output] == level and assignment.summed[0] > 1
    return bool(summed or assignment.split[level])


@inlined
def sums_fit(space: Space, assignment: Assignment, level: int, tile: Array) -> bool:
    """Whether a level's tile [dims] fits if its outputs are partial sums; it fits with finished ones."""
    model = space.model
    words = 0
    for tensor in range(assignment.ratio.shape[1]):
        if assignment.keep[level] >> tensor & 1:
            one = model.sum_units[level] if tensor == model.output else model.units[level, tensor]
            words += tile_words(model, tensor, tile) * one
    return bool(words <= model.usable_words[level])


@inlined
def least_words_inside(space: Space, assignment: Assignment, level: int) -> Int:
    """Words that the parts of the same level inside this one hold at least: those of the tile that the
    spatial factors make with one temporal point."""
    words = 0
    for part in range(space.first[level], level):
        words += kept_words(space, assignment, part, assignment.covered[part])
    return words


@inlined
def moved_words(space: Space, assignment: Assignment, level: int, tensor: int, tile: Array) -> Real:
    """Words of a tensor delivered into all instances of a level, at least, if the loop directly outside its
    tile moves it.

    Every loop outside then multiplies the words of a tile (item 3), with one exception: of a step that slides
    the tile along an axis only the words beyond the overlap are new. On such an axis at least the different
    positions have to be delivered, ``axis_words`` instead of length times steps. The exception holds for one
    axis only, that of the first moving loop. The loops are not decided yet, so the axis with the least ratio
    of the two is taken.
    """
    model = space.model
    # ``rest * covered // tile`` is how many tiles there are along a dim: the iterations of all loops outside.
    # The first loop multiplies by those of dims that the tensor does not have. The second one goes along the
    # tensor's axes: length of the tile times steps, and ``slide``, the best ratio that an overlap can reach.
    words, slide = assignment.instances[level], 1.0
    for dim in range(len(tile)):
        if model.axis_of[tensor, dim] < 0:
            words *= assignment.rest[dim] * assignment.covered[level, dim] // tile[dim]
    for axis in range(model.axes[tensor]):
        length, steps, terms = 1, 1, 0
        for term in range(model.term_dims.shape[2]):
            dim = model.term_dims[tensor, axis, term]
            if dim >= 0:
                length += model.term_steps[tensor, axis, term] * (tile[dim] - 1)
                steps *= assignment.rest[dim] * assignment.covered[level, dim] // tile[dim]
                terms += model.sizes[dim] > 1
        words *= length * steps
        if terms > 1:
            slide = min(slide, assignment.axis_words[level, tensor, axis] / (length * steps))
    return words * slide
