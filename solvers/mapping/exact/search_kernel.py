"""Compiled: depth-first search over the temporal loops of one assignment, levels from the outside in."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined
from solvers.mapping.exact.bound_kernel import (
    boundary_pj,
    copy,
    copy_rows,
    floors_pj,
    moved_pj,
    place,
    value,
)

if TYPE_CHECKING:
    from solvers.mapping.exact.tables import Assignment, Lattice, Nodes, Space

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""


@entry
def begin(space: Space, room: Assignment, lattice: Lattice, nodes: Nodes, limit: float) -> None:
    """Open the search below an assignment whose ``bound_of_assignment`` was asked last."""
    top = len(room.keep) - 1
    nodes.level[0] = top
    copy(room.rest, nodes.inside[top])
    nodes.energy[top] = room.numbers[1]
    copy_rows(room.demand, nodes.demand[top])
    nodes.runs[top] = 0
    for tensor in range(nodes.repeats.shape[1]):
        nodes.repeats[top, tensor] = 1.0
    nodes.visited[0] = 0
    nodes.leaf_count[0] = 0
    if top:
        _open_node(space, room, lattice, nodes, limit)
    else:
        _keep_leaf(nodes)
        nodes.level[0] = 1


@entry
def explore(space: Space, room: Assignment, lattice: Lattice, nodes: Nodes, limit: float, most: int) -> None:
    """Go on until the search is over, the leaves are full, or ``most`` nodes have been visited.

    Leaves are all mappings (but for dominated loop orders) whose bound is below ``limit``; what it leaves out
    costs at least that. It is over when ``nodes.level`` is the number of levels.
    """
    levels = len(room.keep)
    nodes.leaf_count[0] = nodes.leaf_count[0] if levels == 1 else 0
    while nodes.level[0] < levels and nodes.leaf_count[0] < len(nodes.leaf_order) and nodes.visited[0] < most:
        level = nodes.level[0]
        if not _next_order(space, lattice, nodes, limit):
            nodes.level[0] = level + 1
            continue
        _decide(space, room, nodes, level)
        inner = level - 1
        if inner == 0:
            if value(space, room, nodes.energy[0], nodes.demand[0]) < limit:
                _keep_leaf(nodes)
        elif _bound(space, room, lattice, nodes, inner) < limit:
            nodes.level[0] = inner
            _open_node(space, room, lattice, nodes, limit)


@inlined
def _keep_leaf(nodes: Nodes) -> None:
    leaf = nodes.leaf_count[0]
    copy_rows(nodes.inside, nodes.leaf_inside[leaf])
    copy(nodes.order, nodes.leaf_order[leaf])
    nodes.leaf_count[0] = leaf + 1


@inlined
def _next_order(space: Space, lattice: Lattice, nodes: Nodes, limit: float) -> bool:
    """Step to the next order of the child under way, or to the next child that can be below ``limit``."""
    level = nodes.level[0]
    nodes.order[level] += 1
    if nodes.order[level] < nodes.order_end[level]:
        return True
    nodes.child[level] += 1
    child = nodes.child[level]
    if child >= nodes.child_count[level] or nodes.bounds[level, child] >= limit:
        return False
    looped, number = 0, nodes.children[level, child]
    for dim in range(len(lattice.counts)):
        digit = number // lattice.stride[dim] % lattice.counts[dim]
        nodes.inside[level - 1, dim] = lattice.value[dim, digit]
        if nodes.inside[level - 1, dim] < nodes.inside[level, dim]:
            looped |= 1 << dim
    nodes.order[level] = space.order_start[level, looped, 0]
    nodes.order_end[level] = space.order_start[level, looped, 1]
    return True


@inlined
def _decide(space: Space, room: Assignment, nodes: Nodes, level: int) -> None:
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


@inlined
def _bound(space: Space, room: Assignment, lattice: Lattice, nodes: Nodes, level: int) -> float:
    """A lower bound on all mappings below the node of ``level``."""
    vector = 0
    for dim in range(len(lattice.counts)):
        digit = 0
        while lattice.value[dim, digit] != nodes.inside[level, dim]:
            digit += 1
        vector += digit * lattice.stride[dim]
    least = np.inf
    for run in range(len(space.runs)):
        if space.runs[run] & ~nodes.runs[level] == 0:
            energy = lattice.opened[place(space, lattice, level, run) + vector]
            least = min(least, energy + _floors_outside(space, room, nodes, level, space.runs[run]))
    return value(space, room, nodes.energy[level] + least, nodes.demand[level])


@inlined
def _floors_outside(space: Space, room: Assignment, nodes: Nodes, level: int, tensors: int) -> float:
    """What filling the next inner levels of tensors costs if the loops inside the node leave them be."""
    energy = 0.0
    for tensor in range(room.ratio.shape[1]):
        inner = room.child[level, tensor]
        if tensors >> tensor & 1 and inner >= 0:
            words = room.floor_words[inner, tensor] * nodes.repeats[level, tensor]
            energy += boundary_pj(space, room, inner, tensor, words)
    return energy


@inlined
def _open_node(space: Space, room: Assignment, lattice: Lattice, nodes: Nodes, limit: float) -> None:
    """List the children of the current node whose bound is below ``limit``, the best first."""
    level = nodes.level[0]
    nodes.child[level] = -1
    nodes.order[level] = 0
    nodes.order_end[level] = 0
    nodes.child_count[level] = 0
    _fill_floors(space, room, nodes, level)
    if not _pick_first(space, lattice, nodes, level):
        return
    while True:
        number = 0
        for dim in range(len(lattice.counts)):
            number += nodes.allowed[dim, nodes.pick[1, dim]] * lattice.stride[dim]
        energy = nodes.energy[level] + _least_child(space, lattice, nodes, level, number)
        bound = value(space, room, energy, nodes.demand[level])
        if bound < limit:
            nodes.children[level, nodes.child_count[level]] = number
            nodes.bounds[level, nodes.child_count[level]] = bound
            nodes.child_count[level] += 1
        if not _pick_next(nodes):
            break
    _sort(nodes, level)


@inlined
def _fill_floors(space: Space, room: Assignment, nodes: Nodes, level: int) -> None:
    """Per set of tensors in place outside the node and larger set in place inside it, what they cost."""
    for run in range(len(space.runs)):
        outside = space.runs[run]
        for more in range(len(space.runs)):
            nodes.floors[run, more] = np.inf
            if outside & ~nodes.runs[level] == 0 and outside & ~space.runs[more] == 0:
                added = space.runs[more] & ~outside
                nodes.floors[run, more] = _floors_outside(space, room, nodes, level, outside) + floors_pj(
                    space, room, level, added, nodes.inside[level]
                )


@inlined
def _pick_first(space: Space, lattice: Lattice, nodes: Nodes, level: int) -> bool:
    """The divisors that children can have by the rules on factors; False if a dim has none."""
    for dim in range(len(lattice.counts)):
        nodes.pick[0, dim] = 0
        nodes.pick[1, dim] = 0
        whole = nodes.inside[level, dim]
        for digit in range(lattice.counts[dim]):
            inside = lattice.value[dim, digit]
            if whole % inside:
                continue
            factor = whole // inside
            allowed = space.least[level, dim] <= factor <= space.most[level, dim]
            if level == 1:
                allowed = allowed and space.least[0, dim] <= inside <= space.most[0, dim]
            if allowed:
                nodes.allowed[dim, nodes.pick[0, dim]] = digit
                nodes.pick[0, dim] += 1
        if nodes.pick[0, dim] == 0:
            return False
    return True


@inlined
def _pick_next(nodes: Nodes) -> bool:
    for dim in range(nodes.pick.shape[1]):
        nodes.pick[1, dim] += 1
        if nodes.pick[1, dim] < nodes.pick[0, dim]:
            return True
        nodes.pick[1, dim] = 0
    return False


@inlined
def _least_child(space: Space, lattice: Lattice, nodes: Nodes, level: int, number: int) -> float:
    """A lower bound on the energy inside the node for one child, in whatever order its loops stand."""
    moving = 0
    for dim in range(len(lattice.counts)):
        digit = number // lattice.stride[dim] % lattice.counts[dim]
        if lattice.value[dim, digit] < nodes.inside[level, dim]:
            moving |= 1 << dim
    least = np.inf
    for run in range(len(space.runs)):
        if moving & ~space.still[run]:
            continue
        for more in range(len(space.runs)):
            if nodes.floors[run, more] < np.inf:
                closed = lattice.closed[place(space, lattice, level, more) + number]
                least = min(least, nodes.floors[run, more] + closed)
    return least


@inlined
def _sort(nodes: Nodes, level: int) -> None:
    """Sort the children by their bounds (Shell 1959)."""
    count = nodes.child_count[level]
    gap = count // 2
    while gap > 0:
        for position in range(gap, count):
            bound, child, hole = nodes.bounds[level, position], nodes.children[level, position], position
            while hole >= gap and nodes.bounds[level, hole - gap] > bound:
                nodes.bounds[level, hole] = nodes.bounds[level, hole - gap]
                nodes.children[level, hole] = nodes.children[level, hole - gap]
                hole -= gap
            nodes.bounds[level, hole], nodes.children[level, hole] = bound, child
        gap //= 2
