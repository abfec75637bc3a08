"""Compiled: a bound on an assignment from the fills of each level by themselves, without tables of tiles.

The tables of ``bound_kernel.py`` bound an assignment by chains of tiles, one inside the other, and have to be
filled anew for each: milliseconds, for every one of some ten thousand assignments of a large layer. Most of
these cost far too much already because of one boundary between two levels. Here every level has the tile that
is best for its own fills, whatever the tiles of the others::

    tables:          tile of level 0  divides  tile of level 1  divides  tile of level 2
    fills alone:     least fills of level 0  +  least fills of level 1  +  least fills of level 2

The sum of the least is at most the least sum, so this is a bound, too, and mostly within a tenth of that of
the tables. And it is shared: what fills the instances of a level depends on its tile and on the spatial
factors *outside* the level. How the tile is spread over the fan-outs inside it says only of which factors it
is a multiple. That is left out, which allows more tiles and lowers the least; then all assignments with
the same factors outside a level, and the same kept tensors from there on, have the same least fills of it.
Thousands of ways to spread a layer over nodes, each with dozens of ways over the PEs of a node, take one
search of tiles each and not dozens.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined
from solvers.mapping.exact.kernels.assignment_kernel import (
    assign,
    assign_factors,
    boundary_pj,
    connect,
    copy,
    moved_pj,
    value,
)
from solvers.mapping.exact.kernels.bound_kernel import more_groups, number_vectors
from solvers.mapping.exact.kernels.words_kernel import fits_tile, moved_words

if TYPE_CHECKING:
    from solvers.mapping.exact.tables import Assignment, Fills, Lattice, Space

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


@entry
def bound_of_fills(space: Space, assignment: Assignment, lattice: Lattice, fills: Fills) -> float:
    """A lower bound on the objective of all mappings with the factors and keep sets of ``assignment``.

    Levels are even, and elements have one width. ``fills.least_pj`` [levels] has what is known of the least
    fills of each level, NaN where nothing is, which is filled in here. The lattice is only a workspace.
    """
    assign(space, assignment)
    energy = assignment.energy_pj[0]
    for level in range(len(assignment.keep) - 1):
        if np.isnan(fills.least_pj[level]):
            fills.least_pj[level] = _least_fills_pj(space, assignment, lattice, fills, level)
        energy += fills.least_pj[level]
    return value(space, assignment, energy, assignment.demand, assignment.walk)


@inlined
def _least_fills_pj(
    space: Space, assignment: Assignment, lattice: Lattice, fills: Fills, level: int
) -> float:
    """The least energy of filling all instances of ``level`` with its tensors, for any tile that fits.

    A tensor whose run (``bound_kernel.py``) begins at the tile is filled with its different words once at
    least; every other tensor is moved by the loop just outside. Of the sets of tensors that can have a run at
    once (``Space.runs``), the one that costs least is taken. Infinite where no tile fits."""
    if assignment.keep[level] == 0:
        return 0.0
    outside = fills.outside
    for other in range(len(assignment.keep)):
        outside.keep[other] = assignment.keep[other]
        if other > level:
            copy(assignment.spatial[other], outside.spatial[other])
        else:
            outside.spatial[other, :] = 1
    assign_factors(space, outside)
    for tensor in range(outside.ratio.shape[1]):
        connect(space, outside, tensor)
        fills.once_pj[tensor] = 0.0
        fills.moved_pj[tensor] = 0.0
        if outside.keep[level] >> tensor & 1:
            words = outside.floor_words[level, tensor]
            fills.once_pj[tensor] = boundary_pj(space, outside, level, tensor, words)
    number_vectors(space, outside, lattice)
    growing = _growing_dims(space, outside, level)
    longest = _longest(lattice, growing)
    least = np.inf
    # One round for each choice of divisors in all dims but the longest growing one, whose largest divisor
    # that fits is the only one worth a look.
    while True:
        for dim in range(len(lattice.digits)):
            lattice.tile[dim] = lattice.value[dim, lattice.digits[dim]]
        fits = fits_tile(space, outside, level, lattice.tile)
        if fits:
            if longest >= 0:
                _grow(space, outside, lattice, level, longest)
            if not _has_larger(space, outside, lattice, level, growing):
                least = min(least, _fills_of_tile_pj(space, lattice, fills, level))
            if longest >= 0:
                lattice.digits[longest] = 0
        if not _next_that_may_fit(lattice, fits, longest):
            return least


@inlined
def _growing_dims(space: Space, outside: Assignment, level: int) -> Int:
    """The dims, as a bit mask, in which a larger tile of ``level`` never moves more words of any tensor.

    Loops outside then turn less often. Where the tile gets ``m`` times as many points of a dim, an axis of
    the tensor gets at most ``m`` times as long if the dim's coefficient on it is 1: it has all positions that
    the smaller tile had between its first and last. With a larger coefficient it can get longer by more, as
    the positions that are passed over are counted with it. How many children hold different tiles must not
    depend on the tile either."""
    model, growing = space.model, (1 << len(outside.rest)) - 1
    for tensor in range(outside.ratio.shape[1]):
        if outside.merging[level + 1, tensor]:
            return 0
        for axis in range(model.axes[tensor]):
            for term in range(model.term_dims.shape[2]):
                dim = model.term_dims[tensor, axis, term]
                if dim >= 0 and model.term_steps[tensor, axis, term] != 1:
                    growing &= ~(1 << dim)
    return growing


@inlined
def _longest(lattice: Lattice, growing: int) -> Int:
    """The dim with the most divisors among those in ``growing``; -1 if there is none."""
    longest = -1
    for dim in range(len(lattice.counts)):
        if growing >> dim & 1 and (longest < 0 or lattice.counts[dim] > lattice.counts[longest]):
            longest = dim
    return longest


@inlined
def _grow(space: Space, outside: Assignment, lattice: Lattice, level: int, dim: int) -> None:
    """Give ``lattice.tile`` and its digits the largest divisor of ``dim`` with which it fits ``level``, as it
    does with the first. The divisor is found by halving the range between one that fits and one that does
    not."""
    fitting, too_large = 0, lattice.counts[dim]
    while too_large - fitting > 1:
        middle = (fitting + too_large) // 2
        lattice.tile[dim] = lattice.value[dim, middle]
        if fits_tile(space, outside, level, lattice.tile):
            fitting = middle
        else:
            too_large = middle
    lattice.digits[dim] = fitting
    lattice.tile[dim] = lattice.value[dim, fitting]


@inlined
def _has_larger(space: Space, outside: Assignment, lattice: Lattice, level: int, growing: int) -> bool:
    """Whether ``lattice.tile`` can grow in one of the dims ``growing`` and still fits ``level``: then the
    larger tile costs no more, and this one need not be looked at."""
    for dim in range(len(lattice.digits)):
        if growing >> dim & 1 and lattice.digits[dim] + 1 < lattice.counts[dim]:
            lattice.tile[dim] = lattice.value[dim, lattice.digits[dim] + 1]
            fits = fits_tile(space, outside, level, lattice.tile)
            lattice.tile[dim] = lattice.value[dim, lattice.digits[dim]]
            if fits:
                return True
    return False


@inlined
def _fills_of_tile_pj(space: Space, lattice: Lattice, fills: Fills, level: int) -> float:
    """The least energy of the fills of ``level`` with the tile ``lattice.tile``, over all sets of runs."""
    outside = fills.outside
    for tensor in range(outside.ratio.shape[1]):
        if outside.keep[level] >> tensor & 1:
            words = moved_words(space, outside, level, tensor, lattice.tile)
            sent = words * outside.ratio[level, tensor]
            sent *= more_groups(space, outside, level + 1, tensor, lattice.tile)
            fills.moved_pj[tensor] = moved_pj(space, outside, level, tensor, words, sent)
    least = np.inf
    for run in range(len(space.runs)):
        energy = 0.0
        for tensor in range(outside.ratio.shape[1]):
            stays = space.runs[run] >> tensor & 1
            energy += fills.once_pj[tensor] if stays else fills.moved_pj[tensor]
        least = min(least, energy)
    return least


@inlined
def _next_that_may_fit(lattice: Lattice, fits: bool, fixed: int) -> bool:
    """Step ``lattice.digits`` to the next vector that may fit, with the digit 0 of the dim ``fixed``; False
    after the last one.

    If the current one does not fit (``fits`` is False), then none does that is as large in every dim. Its
    digits are 0 up to some dim, where the first one above 0 stands: all vectors up to the next value of the
    dim after that are as large, and are passed over."""
    dim, dims = 0, len(lattice.digits)
    if not fits:
        while dim < dims and lattice.digits[dim] == 0:
            dim += 1
        if dim == dims:
            return False
        lattice.digits[dim] = 0
        dim += 1
    while dim < dims:
        if dim != fixed:
            lattice.digits[dim] += 1
            if lattice.digits[dim] < lattice.counts[dim]:
                return True
            lattice.digits[dim] = 0
        dim += 1
    return False
