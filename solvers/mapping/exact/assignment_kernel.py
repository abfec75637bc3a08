"""Compiled: the numbers of an assignment, and what words delivered between its levels cost."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined

if TYPE_CHECKING:
    from solvers.mapping.exact.tables import Assignment, Space

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Real = Any
"""A 64-bit floating-point number of compiled code."""


@entry
def first_bounds(space: Space, spatial: Array, keep: Array, room: Assignment, bounds: Array) -> None:
    """Fill ``bounds`` [n] for the assignments ``spatial`` [n, levels, dims] with the keep sets ``keep``."""
    for row in range(len(spatial)):
        copy_rows(spatial[row], room.spatial)
        copy(keep, room.keep)
        assign(space, room)
        energy = room.numbers[1]
        for level in range(len(keep) - 1):
            for tensor in range(room.ratio.shape[1]):
                if keep[level] >> tensor & 1:
                    energy += boundary_pj(space, room, level, tensor, room.floor_words[level, tensor])
        bounds[row] = value(space, room, energy, room.demand)


@inlined
def value(space: Space, room: Assignment, energy_pj: float, demand: Array) -> float:
    """The objective, given the energy without leakage and the words per instance read and written."""
    if energy_pj == np.inf:  # nothing fits
        return float(np.inf)
    cycles = float(room.numbers[2])
    for level in range(len(room.keep)):
        read, write = demand[0, level], demand[1, level]
        cycles = max(cycles, read / space.model.read_bandwidth[level])
        cycles = max(cycles, write / space.model.write_bandwidth[level])
        cycles = max(cycles, (read + write) / space.model.shared_bandwidth[level])
    if space.objective == 1:  # the weights are cycles: see aggregate.py
        cycles = max(cycles, energy_pj)
    cycles = float(np.ceil(cycles * (1 - 1e-12)))
    if space.objective == 1:
        return cycles
    for level in range(len(room.keep)):
        energy_pj += space.model.leakage_pj[level] * room.instances[level] * cycles
    return energy_pj if space.objective == 0 else energy_pj * cycles


@inlined
def assign(space: Space, room: Assignment) -> None:
    """Fill all of ``room`` from its ``spatial`` and ``keep``."""
    levels, dims = room.spatial.shape
    model = space.model
    room.numbers[0] = 1.0
    for dim in range(dims):
        covered = 1
        for level in range(levels):
            covered *= room.spatial[level, dim]
            room.covered[level, dim] = covered
        room.rest[dim] = model.sizes[dim] // covered
        room.numbers[0] *= room.rest[dim]
    room.instances[levels - 1] = 1.0
    for level in range(levels - 2, -1, -1):
        room.instances[level] = room.instances[level + 1]
        for dim in range(dims):
            room.instances[level] *= room.spatial[level + 1, dim]
    room.numbers[1] = model.mac_energy_pj
    room.numbers[2] = max(room.numbers[0], space.least_cycles)
    room.demand[:] = 0.0
    _groups(space, room)
    _shares(space, room)
    for tensor in range(room.ratio.shape[1]):
        _chain(space, room, tensor)
        _operands(space, room, tensor)


@inlined
def _groups(space: Space, room: Assignment) -> None:
    """Item 5. On an axis with several spread dims at least as many children differ as the sum of the factors
    less one a dim, for so many values has a sum of that many numbers (``|A + B| >= |A| + |B| - 1``)."""
    model = space.model
    for level in range(room.groups.shape[0]):
        for tensor in range(room.groups.shape[1]):
            room.groups[level, tensor] = 1.0
            for axis in range(model.axes[tensor]):
                room.groups[level, tensor] *= _sum_set(space, room.spatial[level], tensor, axis)


@inlined
def _sum_set(space: Space, points: Array, tensor: int, axis: int) -> Int:
    """At least so many positions does an axis take when its dims run over ``points``."""
    different = 1
    for term in range(space.model.term_dims.shape[2]):
        dim = space.model.term_dims[tensor, axis, term]
        if dim >= 0:
            different += points[dim] - 1
    return different


@inlined
def _shares(space: Space, room: Assignment) -> None:
    """Item 9: of an output whose axes are single dims without coefficient every spread relevant dim divides
    the share exactly; of others the share is at most that of the level outside."""
    model, output = space.model, space.model.output
    levels = len(room.spatial)
    share, plain = 1.0, True
    for axis in range(model.axes[output]):
        extent = 1
        for term in range(model.term_dims.shape[2]):
            dim = model.term_dims[output, axis, term]
            if dim >= 0:
                step = model.term_steps[output, axis, term]
                plain = plain and term == 0 and step == 1
                extent += step * (model.sizes[dim] - 1)
        share *= extent
    for level in range(levels - 1, -1, -1):
        room.shares[level] = share
        if plain:
            share /= room.groups[level, output]


@inlined
def _chain(space: Space, room: Assignment, tensor: int) -> None:
    """Fill what the boundaries between the tensor's levels have in common: parents, ratios, floors."""
    levels = len(room.spatial)
    outer = -1
    for level in range(levels - 1, -1, -1):
        room.parent[level, tensor] = outer
        if room.keep[level] >> tensor & 1:
            if outer >= 0:
                room.ratio[level, tensor] = room.instances[outer] / room.instances[level]
                for between in range(level + 1, outer + 1):
                    room.ratio[level, tensor] *= room.groups[between, tensor]
            outer = level
    inner = -1
    for level in range(levels):
        room.child[level, tensor] = inner
        if room.keep[level] >> tensor & 1:
            inner = level
            _floor(space, room, level, tensor)


@inlined
def _floor(space: Space, room: Assignment, level: int, tensor: int) -> None:
    """The different positions that each axis takes in one instance, at least, and the words they make."""
    model = space.model
    levels = len(room.spatial)
    words = room.instances[level]
    for axis in range(model.axes[tensor]):
        different, whole = 1, True
        for term in range(model.term_dims.shape[2]):
            dim = model.term_dims[tensor, axis, term]
            if dim >= 0:
                outside = room.covered[levels - 1, dim] // room.covered[level, dim]
                whole = whole and outside == 1
                different += model.sizes[dim] // outside - 1
        if whole:
            different = space.touched[tensor, axis]
        room.axis_words[level, tensor, axis] = different
        words *= different
    room.floor_words[level, tensor] = words


@inlined
def _operands(space: Space, room: Assignment, tensor: int) -> None:
    """What the MAC units ask of the tensor's innermost level (items 4, 5, 7), whatever the loops."""
    model = space.model
    level, words = 0, room.numbers[0] * room.groups[0, tensor]
    while not room.keep[level] >> tensor & 1:
        level += 1
        words *= room.groups[level, tensor]
    share = room.shares[level] if tensor == model.output else 0.0
    reads = max(0.0, words - share)
    updates = words if tensor == model.output else 0.0
    room.demand[0, level] += reads
    room.demand[1, level] += updates
    block = model.block_size[level]
    energy = blocks(reads, block) * model.read_pj[level] + blocks(updates, block) * model.update_pj[level]
    room.numbers[1] += room.instances[level] * energy


@inlined
def boundary_pj(space: Space, room: Assignment, level: int, tensor: int, words: float) -> Real:
    """Energy of ``words`` delivered into all instances of ``level``, there and at the parent, at least."""
    return moved_pj(space, room, (level, tensor), words, words * room.ratio[level, tensor])


@inlined
def moved_pj(space: Space, room: Assignment, where: tuple[int, int], words: float, sent: float) -> Real:
    """The same for ``sent`` words from the parent's instances (items 8 and 10)."""
    level, tensor = where
    model, outer = space.model, room.parent[level, tensor]
    fills, reads, updates = words / room.instances[level], sent / room.instances[outer], 0.0
    if tensor == model.output:
        fills = max(0.0, fills - room.shares[level])
        updates, reads = reads, max(0.0, reads - room.shares[outer])
    filling = blocks(fills, model.block_size[level]) * model.write_pj[level]
    sending = blocks(reads, model.block_size[outer]) * model.read_pj[outer]
    sending += blocks(updates, model.block_size[outer]) * model.update_pj[outer]
    return filling * room.instances[level] + sending * room.instances[outer]


@inlined
def blocks(words: float, size: int) -> Real:
    """Accesses for at least ``words``, which roundings may have raised by the last digits."""
    return words if size == 1 else np.ceil(words / size * (1 - 1e-12))


@inlined
def copy(source: Array, to: Array) -> None:
    """``to[: len(source)] = source``, which compiled code without allocations cannot say."""
    for index in range(len(source)):
        to[index] = source[index]


@inlined
def copy_rows(source: Array, to: Array) -> None:
    for index in range(len(source)):
        copy(source[index], to[index])
