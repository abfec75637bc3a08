"""Compiled: what is delivered into the tiles of a level once all loops outside it are decided, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from costmodel.compiled import inlined
from solvers.mapping.exact.kernels.assignment_kernel import (
    copy_rows,
    demand_operands,
    groups_around,
    moved_pj,
    operands_pj,
)
from solvers.mapping.exact.kernels.words_kernel import kept_words

if TYPE_CHECKING:
    from solvers.mapping.exact.tables import Assignment, Nodes, Space

Int = Any
"""A 64-bit integer of compiled code."""


@inlined
def decide(space: Space, room: Assignment, nodes: Nodes, level: int) -> None:
    """Fill the node inside the level's loops: what is delivered into its tile is exact (item 3)."""
    inner = level - 1
    nodes.visited[0] += 1
    _place_loops(space, room, nodes, level)
    nodes.energy[inner] = nodes.energy[level]
    for part in range(2):
        copy_rows(nodes.demand[level, part], nodes.demand[inner, part])
    nodes.runs[inner] = 0
    for tensor in range(len(space.model.slides)):
        run = _repeats(space, nodes, (level, tensor))
        if run > 1:
            nodes.runs[inner] |= 1 << tensor
        _merge(space, room, nodes, level, tensor)
        if room.keep[inner] >> tensor & 1:
            _charge(space, room, nodes, inner, tensor)
    if space.last[inner] > space.first[inner]:
        _hold(space, room, nodes, inner)


@inlined
def _hold(space: Space, room: Assignment, nodes: Nodes, level: int) -> None:
    """Add what a part holds to what those outside it hold, at the room's price as in the tables; once all
    parts of a level are decided that ends, as they fit or not."""
    for dim in range(nodes.tile.shape[0]):
        nodes.tile[dim] = nodes.inside[level, dim] * room.covered[level, dim]
    words = kept_words(space, room, level, nodes.tile)
    nodes.held[level] = words
    if level < space.last[level]:
        nodes.held[level] += nodes.held[level + 1]
    nodes.energy[level] += space.prices[level] * words
    if level == space.first[level]:
        free = space.model.usable_words[level] - nodes.held[level]
        nodes.energy[level] += space.prices[level] * free


@inlined
def _merge(space: Space, room: Assignment, nodes: Nodes, level: int, tensor: int) -> None:
    """Fill the multicast groups of the level's fan-out, and what they add to the MAC units' demands."""
    inner = level - 1
    nodes.groups[level, tensor] = room.groups[level, tensor]
    nodes.operands[inner, tensor] = nodes.operands[level, tensor]
    if not room.merging[level, tensor]:
        return
    for dim in range(nodes.tile.shape[0]):
        nodes.tile[dim] = nodes.inside[inner, dim] * room.covered[inner, dim]
    nodes.groups[level, tensor] = groups_around(space, room, (level, tensor), nodes.tile)
    if level > room.innermost[tensor]:
        return
    before = nodes.operands[level, tensor]
    words = before * nodes.groups[level, tensor] / room.groups[level, tensor]
    nodes.operands[inner, tensor] = words
    nodes.energy[inner] += operands_pj(space, room, tensor, words) - operands_pj(space, room, tensor, before)
    demand_operands(space, room, tensor, (before, words), nodes.demand[inner])


@inlined
def _place_loops(space: Space, room: Assignment, nodes: Nodes, level: int) -> None:
    """Fill ``nodes.loops`` of the level for the order under way."""
    count = 0
    for position in range(space.orders.shape[1]):
        dim = space.orders[nodes.order[level], position]
        inside = nodes.inside[level - 1, dim]
        if nodes.inside[level, dim] > inside:
            nodes.loops[level, 0, count] = dim
            nodes.loops[level, 1, count] = nodes.inside[level, dim] // inside
            nodes.loops[level, 2, count] = inside * room.covered[level, dim]
            count += 1
    nodes.loop_count[level] = count


@inlined
def _repeats(space: Space, nodes: Nodes, which: tuple[int, int]) -> Int:
    """Fill ``nodes.repeats`` inside the level; the product of the loops in the tensor's run."""
    level, tensor = which
    run, repeats, moved = 1, 1.0, False
    for outer in range(level, nodes.inside.shape[0]):
        for loop in range(nodes.loop_count[outer]):
            if space.model.axis_of[tensor, nodes.loops[outer, 0, loop]] >= 0:
                moved = True
            elif moved:
                repeats *= nodes.loops[outer, 1, loop]
            else:
                run *= nodes.loops[outer, 1, loop]
    nodes.repeats[level - 1, tensor] = repeats
    return run


@inlined
def _charge(space: Space, room: Assignment, nodes: Nodes, level: int, tensor: int) -> None:
    """Add what is delivered into the tiles of ``level`` to the node's energy and demands."""
    outer = room.parent[level, tensor]
    words = _delivered(space, room, nodes, level, tensor)
    sent = words
    for between in range(level + 1, outer + 1):
        sent *= nodes.groups[between, tensor]
    nodes.energy[level] += moved_pj(
        space, room, (level, tensor), words * room.instances[level], sent * room.instances[outer]
    )
    if tensor == space.model.output:
        nodes.demand[level, 1, level, tensor] += max(0.0, words - room.shares[level])
        nodes.demand[level, 0, outer, tensor] += max(0.0, sent - room.shares[outer])
        nodes.demand[level, 1, outer, tensor] += sent
    else:
        nodes.demand[level, 1, level, tensor] += words
        nodes.demand[level, 0, outer, tensor] += sent


@inlined
def _delivered(space: Space, room: Assignment, nodes: Nodes, level: int, tensor: int) -> float:
    """Item 3, in the closed form of ``costmodel.mapping.batch_kernel``: words into one tile of the level."""
    axis, first, back, new_words, one_axis = -1, 0, 0, 0.0, True
    tile, extra = 1.0, 0.0
    for number in range(space.model.axes[tensor]):
        tile *= _extent(space, room, nodes, (level, tensor, number))
    for outer in range(level + 1, nodes.inside.shape[0]):
        for loop in range(nodes.loop_count[outer]):
            dim, bound = nodes.loops[outer, 0, loop], nodes.loops[outer, 1, loop]
            moves, stride = space.model.axis_of[tensor, dim], 0
            if axis < 0 and moves < 0:
                continue
            if moves >= 0:
                stride = space.model.step_of[tensor, dim] * nodes.loops[outer, 2, loop]
            cost = tile
            if axis < 0:
                axis, first = moves, stride
                length = _extent(space, room, nodes, (level, tensor, axis))
                new_words = tile / length * min(first, length)
                cost = new_words
            elif moves == axis:
                if one_axis and stride == back:
                    cost = 0.0
                elif one_axis and stride - back == first:
                    cost = new_words
            elif moves >= 0:
                one_axis = False
            if moves == axis:
                back += stride
            extra = extra * bound + (bound - 1) * cost
    return tile + extra


@inlined
def _extent(space: Space, room: Assignment, nodes: Nodes, which: tuple[int, int, int]) -> Int:
    """Length of one axis of the tile of a level."""
    level, tensor, axis = which
    length = 1
    for term in range(space.model.term_dims.shape[2]):
        dim = space.model.term_dims[tensor, axis, term]
        if dim >= 0:
            points = nodes.inside[level, dim] * room.covered[level, dim]
            length += space.model.term_steps[tensor, axis, term] * (points - 1)
    return length
