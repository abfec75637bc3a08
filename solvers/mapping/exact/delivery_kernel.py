"""Compiled: what is delivered into the tiles of a level once all loops outside it are decided, exactly."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from costmodel.compiled import inlined
from solvers.mapping.exact.assignment_kernel import copy_rows, moved_pj

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
    copy_rows(nodes.demand[level], nodes.demand[inner])
    nodes.runs[inner] = 0
    for tensor in range(len(space.model.slides)):
        run = _repeats(space, nodes, (level, tensor))
        if run > 1:
            nodes.runs[inner] |= 1 << tensor
        if room.keep[inner] >> tensor & 1:
            _charge(space, room, nodes, inner, tensor)


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
    sent = words * _groups_between(space, room, nodes, (level, outer, tensor))
    nodes.energy[level] += moved_pj(
        space, room, (level, tensor), words * room.instances[level], sent * room.instances[outer]
    )
    if tensor == space.model.output:
        nodes.demand[level, 1, level] += max(0.0, words - room.shares[level])
        nodes.demand[level, 0, outer] += max(0.0, sent - room.shares[outer])
        nodes.demand[level, 1, outer] += sent
    else:
        nodes.demand[level, 1, level] += words
        nodes.demand[level, 0, outer] += sent


@inlined
def _delivered(space: Space, room: Assignment, nodes: Nodes, level: int, tensor: int) -> float:
    """Item 3, in the closed form of ``costmodel.batch_kernel``: words into one tile of the level."""
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


@inlined
def _groups_between(space: Space, room: Assignment, nodes: Nodes, span: tuple[int, int, int]) -> float:
    """Multicast groups of all fan-outs between a level and the outer one (items 5 and 7)."""
    inner, outer, tensor = span
    groups = 1.0
    for level in range(inner + 1, outer + 1):
        if not space.model.slides[tensor]:
            groups *= room.groups[level, tensor]
            continue
        for axis in range(space.model.axes[tensor]):
            groups *= _positions(space, room, nodes, (level, tensor, axis))
    return groups


@inlined
def _positions(space: Space, room: Assignment, nodes: Nodes, which: tuple[int, int, int]) -> float:
    """Different positions that an axis takes among the children below one instance of a level: exact for one
    or two spread dims, else at least so many."""
    level, tensor, axis = which
    spread, children, least = 0, 1, 1
    bound, step = 1, 1
    repeated = 0
    for term in range(space.model.term_dims.shape[2]):
        dim = space.model.term_dims[tensor, axis, term]
        if dim < 0 or room.spatial[level, dim] == 1:
            continue
        factor = room.spatial[level, dim]
        stride = space.model.term_steps[tensor, axis, term]
        stride *= nodes.inside[level - 1, dim] * room.covered[level - 1, dim]
        if spread == 1:
            common = _gcd(step, stride)
            repeated = max(0, bound - stride // common) * max(0, factor - step // common)
        spread += 1
        children *= factor
        least += factor - 1
        bound, step = factor, stride
    return float(children - repeated if spread < 3 else least)


@inlined
def _gcd(a: int, b: int) -> Int:
    while b:
        a, b = b, a % b
    return a
