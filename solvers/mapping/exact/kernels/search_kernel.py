"""Compiled: depth-first search over the temporal loops of one assignment, levels from the outside in.

A node is a level at whose tile all loops outside are decided. Its children are the vectors (temporal points
of all dims) that the next inner level can have; each child is then decided in every order of the loops in
between. Children are listed with their bounds, the best first, so that the first one at or above the limit
ends the list. ``Nodes`` holds one open node a level: ``explore`` is a loop and no recursion, and can stop
anywhere to hand over leaves or let the clock be looked at, and go on from there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined
from solvers.mapping.exact.kernels.assignment_kernel import boundary_pj, copy, copy_rows, value
from solvers.mapping.exact.kernels.bound_kernel import floors_pj, table_start
from solvers.mapping.exact.kernels.delivery_kernel import decide
from solvers.mapping.exact.kernels.words_kernel import kept_words, least_words_inside

if TYPE_CHECKING:
    from solvers.mapping.exact.tables import Assignment, Lattice, Nodes, Space

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""

MOST_LISTED = 1_000_000
"""Children that are looked at between two looks at the clock: few layers have so many tiles below a node."""


@entry
def begin(space: Space, assignment: Assignment, lattice: Lattice, nodes: Nodes, limit: float) -> None:
    """Open the search below an assignment whose ``bound_of_assignment`` was asked last."""
    top = len(assignment.keep) - 1
    nodes.level[0] = top
    nodes.loops.starts[top + 1] = len(nodes.loops.dim)  # filled from the end: see TemporalLoops
    copy(assignment.rest, nodes.inside[top])
    nodes.energy[top] = assignment.energy_pj[0]
    for part in range(2):
        copy_rows(assignment.demand[part], nodes.demand[top, part])
    nodes.runs[top] = 0
    for tensor in range(nodes.repeats.shape[1]):
        nodes.repeats[top, tensor] = 1.0
        nodes.operands[top, tensor] = assignment.operands[tensor]
    nodes.visited[0] = 0
    nodes.leaf_count[0] = 0
    if top:
        _open_node(space, assignment, lattice, nodes, limit)
    else:
        _keep_leaf(nodes)
        nodes.level[0] = 1


@entry
def explore(
    space: Space, assignment: Assignment, lattice: Lattice, nodes: Nodes, limit: float, most: int
) -> bool:
    """Go on until the search is over, the leaves are full, or ``most`` nodes have been visited; or, and then
    the result is False, until the nodes opened have had ``MOST_LISTED`` children to look at.

    Leaves are all mappings (but for dominated loop orders) whose bound is below ``limit``; what it leaves out
    costs at least that. It is over when ``nodes.level`` is the number of levels.
    """
    levels = len(assignment.keep)
    nodes.listed[0] = 0
    while nodes.level[0] < levels and nodes.leaf_count[0] < len(nodes.leaf_order) and nodes.visited[0] < most:
        if nodes.listed[0] >= MOST_LISTED:
            return False
        level = nodes.level[0]
        if not _next_order(space, lattice, nodes, limit):
            nodes.level[0] = level + 1
            continue
        decide(space, assignment, nodes, level)
        inner = level - 1
        if inner == 0:
            bound = value(space, assignment, nodes.energy[0], nodes.demand[0])
            if bound < limit:
                nodes.leaf_bound[nodes.leaf_count[0]] = bound
                _keep_leaf(nodes)
        elif _bound(space, assignment, lattice, nodes, inner) < limit:
            nodes.level[0] = inner
            _open_node(space, assignment, lattice, nodes, limit)
    return True


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
def _bound(space: Space, assignment: Assignment, lattice: Lattice, nodes: Nodes, level: int) -> float:
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
            energy = lattice.opened[table_start(space, lattice, level, run) + vector]
            least = min(least, energy + _floors_outside(space, assignment, nodes, level, space.runs[run]))
    return value(space, assignment, nodes.energy[level] + least, nodes.demand[level])


@inlined
def _floors_outside(space: Space, assignment: Assignment, nodes: Nodes, level: int, tensors: int) -> float:
    """What filling the next inner levels of tensors costs if the loops inside the node leave them be."""
    energy = 0.0
    for tensor in range(assignment.ratio.shape[1]):
        inner = assignment.child[level, tensor]
        if tensors >> tensor & 1 and inner >= 0:
            words = assignment.floor_words[inner, tensor] * nodes.repeats[level, tensor]
            energy += boundary_pj(space, assignment, inner, tensor, words)
    return energy


@inlined
def _open_node(space: Space, assignment: Assignment, lattice: Lattice, nodes: Nodes, limit: float) -> None:
    """List the children of the current node whose bound is below ``limit``, the best first.

    All vectors are tried whose divisors the rules on factors allow, counted like the digits of a number. A
    child's bound does not yet know the order of its loops: it is the least over the sets of tensors that
    they can leave in place (``_least_child``).
    """
    level = nodes.level[0]
    nodes.child[level] = -1
    nodes.order[level] = 0
    nodes.order_end[level] = 0
    nodes.child_count[level] = 0
    _fill_floors(space, assignment, nodes, level)
    if not _pick_first(space, assignment, lattice, nodes, level):
        return
    while True:
        nodes.listed[0] += 1
        number = 0
        for dim in range(len(lattice.counts)):
            number += nodes.allowed[dim, nodes.pick[dim]] * lattice.stride[dim]
        energy = nodes.energy[level] + _least_child(space, lattice, nodes, level, number)
        bound = value(space, assignment, energy, nodes.demand[level])
        if bound < limit and space.last[level - 1] > space.first[level - 1]:
            energy += _price_of_free_capacity(space, assignment, lattice, nodes, number)
            bound = value(space, assignment, energy, nodes.demand[level])
        if bound < limit:
            nodes.children[level, nodes.child_count[level]] = number
            nodes.bounds[level, nodes.child_count[level]] = bound
            nodes.child_count[level] += 1
        if not _pick_next(nodes):
            break
    _sort(nodes, level)


@inlined
def _price_of_free_capacity(
    space: Space, assignment: Assignment, lattice: Lattice, nodes: Nodes, number: int
) -> float:
    """What a child adds to its bound because the tiles outside it, at the same level, are known.

    Infinite if its tile does not fit beside them. For the innermost part of the level, the price of the
    capacity that stays free: ``bound_of_assignment`` subtracted the price of all of it. Otherwise nothing.
    """
    level = nodes.level[0] - 1
    for dim in range(len(lattice.counts)):
        digit = number // lattice.stride[dim] % lattice.counts[dim]
        nodes.tile[dim] = lattice.value[dim, digit] * assignment.covered[level, dim]
    free = space.model.usable_words[level] - kept_words(space, assignment, level, nodes.tile)
    if level < space.last[level]:
        free -= nodes.held[level + 1]
    if free < least_words_inside(space, assignment, level):
        return float(np.inf)
    return float(space.prices[level] * free if level == space.first[level] else 0.0)


@inlined
def _fill_floors(space: Space, assignment: Assignment, nodes: Nodes, level: int) -> None:
    """Fill ``nodes.floors``: for each set of tensors in place outside the node, and each larger set in place
    inside its loops, what filling those tensors costs at least; infinite for sets that cannot be."""
    for run in range(len(space.runs)):
        outside = space.runs[run]
        for more in range(len(space.runs)):
            nodes.floors[run, more] = np.inf
            if outside & ~nodes.runs[level] == 0 and outside & ~space.runs[more] == 0:
                added = space.runs[more] & ~outside
                nodes.floors[run, more] = _floors_outside(
                    space, assignment, nodes, level, outside
                ) + floors_pj(space, assignment, level, added, nodes.inside[level])


@inlined
def _pick_first(space: Space, assignment: Assignment, lattice: Lattice, nodes: Nodes, level: int) -> bool:
    """Fill ``nodes.allowed``: the divisors that children can have by the rules on factors.

    False if a dim has none."""
    for dim in range(len(lattice.counts)):
        nodes.pick_count[dim] = 0
        nodes.pick[dim] = 0
        whole = nodes.inside[level, dim]
        for digit in range(lattice.counts[dim]):
            inside = lattice.value[dim, digit]
            if whole % inside:
                continue
            factor = whole // inside
            allowed = space.least[level, dim] <= factor <= space.most[level, dim]
            if space.first[level] < level and assignment.keep[level] == 0:  # a part that ends no tile is none
                allowed = allowed and factor == 1
            if level == 1:
                allowed = allowed and space.least[0, dim] <= inside <= space.most[0, dim]
            if allowed:
                nodes.allowed[dim, nodes.pick_count[dim]] = digit
                nodes.pick_count[dim] += 1
        if nodes.pick_count[dim] == 0:
            return False
    return True


@inlined
def _pick_next(nodes: Nodes) -> bool:
    for dim in range(len(nodes.pick)):
        nodes.pick[dim] += 1
        if nodes.pick[dim] < nodes.pick_count[dim]:
            return True
        nodes.pick[dim] = 0
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
                closed = lattice.closed[table_start(space, lattice, level, more) + number]
                least = min(least, nodes.floors[run, more] + closed)
    return least


@inlined
def _sort(nodes: Nodes, level: int) -> None:
    """Sort the children by their bounds (Shell 1959): compiled code without allocations has no sort."""
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
