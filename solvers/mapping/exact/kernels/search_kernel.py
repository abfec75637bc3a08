"""Compiled: depth-first search over the temporal loops of one assignment, levels from the outside in.

A node is a level with its vector (the temporal points that it and the levels inside cover, see
``bound_kernel.py``) and all loops outside that. Its children are the vectors that the next inner level can
have, which decides the level's factors; each child is then tried with every order of the level's loops, which
makes it a node of the next inner level. At level 0 a node is a whole mapping, a leaf.

Children are listed with their bounds, the best first, so that the first one at or above the limit ends the
list. ``Nodes`` holds one open node a level, the path from the outermost level to where the search is.
``explore`` is therefore a loop and not a recursion: it can stop anywhere, to hand over leaves or let the
caller look at the clock, and go on from there. With three levels::

    level 2   node: the vector of all points
                |  child: a vector of level 1, with each order of the loops of level 2
    level 1   node
                |  child: a vector of level 0, with each order of the loops of level 1
    level 0   leaf: a whole mapping
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined
from costmodel.mapping.batch.timing_kernel import count_walk
from solvers.mapping.exact.kernels.assignment_kernel import PARTS, boundary_pj, copy, copy_rows, value
from solvers.mapping.exact.kernels.bound_kernel import floors_pj, table_start
from solvers.mapping.exact.kernels.delivery_kernel import decide
from solvers.mapping.exact.kernels.words_kernel import kept_words, least_words_inside

if TYPE_CHECKING:
    from solvers.mapping.exact.tables import Assignment, Lattice, Nodes, Space

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""

MOST_LISTED = 1_000_000
"""Children that are looked at between two looks at the clock; few layers have as many below one node."""


@entry
def begin(space: Space, assignment: Assignment, lattice: Lattice, nodes: Nodes, limit: float) -> None:
    """Open the search of an assignment's loops, at the outermost level and the vector of all its points.

    The lattice must be that of this assignment: ``bound_of_assignment`` was called for it last."""
    top = len(assignment.keep) - 1
    nodes.level[0] = top
    nodes.loops.starts[top + 1] = len(nodes.loops.dim)  # filled from the end: see TemporalLoops
    copy(assignment.rest, nodes.vector[top])
    nodes.energy[top] = assignment.energy_pj[0]
    for part in range(PARTS):
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
    """Go on with the search until it has to hand over; False if that is only to let the clock be looked at.

    It ends when the search is over (``nodes.level`` is then the number of levels), the list of leaves is
    full, or ``most`` nodes have been visited since ``begin``; the result is True. Or it ends because the
    nodes opened in this call have had ``MOST_LISTED`` children to look at; the result is False.

    Leaves are the mappings whose bound is below ``limit``. What is left out costs at least ``limit``, or has
    a loop order that another one with the same factors dominates.
    """
    levels = len(assignment.keep)
    nodes.listed[0] = 0
    # One round tries one order of one child of the deepest open node. Three things can follow: the node has
    # nothing left, and its parent goes on; the decided loops cost too much already, and the next order is
    # tried; or the child becomes a node of its own, or a leaf at level 0.
    while nodes.level[0] < levels and nodes.leaf_count[0] < len(nodes.leaf_order) and nodes.visited[0] < most:
        if nodes.listed[0] >= MOST_LISTED:
            return False
        level = nodes.level[0]
        if not _next_order(space, lattice, nodes, limit):
            nodes.level[0] = level + 1  # nothing is left below this node: back to its parent
            continue
        if space.model.timing.timed is not None and level == levels - 1:
            # On a machine with timing the outermost loops decide all steps. Their cycles are known here, so
            # that many orders end before anything else of them is counted.
            _walk(space, nodes, False)
            known = value(space, assignment, nodes.energy[level], nodes.demand[level], nodes.walk.cycles)
            if known >= limit:
                nodes.visited[0] += 1
                continue
        decide(space, assignment, nodes, level)
        inner = level - 1
        if inner == 0:
            bound = value(space, assignment, nodes.energy[0], nodes.demand[0], nodes.walk.cycles)
            if bound < limit:
                nodes.leaf_bound[nodes.leaf_count[0]] = bound
                _keep_leaf(nodes)
        elif _bound(space, assignment, lattice, nodes, inner) < limit:
            nodes.level[0] = inner
            _open_node(space, assignment, lattice, nodes, limit)
    return True


@inlined
def _walk(space: Space, nodes: Nodes, any_order: bool) -> None:
    """Count the steps of the outermost level's loops, in the order being tried or, for children that are
    listed, in whatever order: ``nodes.walk`` then holds until the next ones are tried."""
    outermost = nodes.vector.shape[0] - 1
    count = 0
    for position in range(nodes.vector.shape[1]):
        dim = position if any_order else space.orders[nodes.order[outermost], position]
        bound = nodes.vector[outermost, dim] // nodes.vector[outermost - 1, dim]
        if bound > 1:
            nodes.walk.dim[count] = dim
            nodes.walk.bound[count] = bound
            count += 1
    nodes.walk.loops[0] = count
    count_walk(space.model.timing, space.model.sizes, nodes.walk, any_order)


@inlined
def _keep_leaf(nodes: Nodes) -> None:
    """Add the open branch to the leaves: its vectors and orders are the whole mapping."""
    leaf = nodes.leaf_count[0]
    copy_rows(nodes.vector, nodes.leaf_vector[leaf])
    copy(nodes.order, nodes.leaf_order[leaf])
    nodes.leaf_count[0] = leaf + 1


@inlined
def _next_order(space: Space, lattice: Lattice, nodes: Nodes, limit: float) -> bool:
    """Step to the next loop order of the current child, or else to the first order of the next child.

    False if no child is left whose bound is below ``limit``; ``limit`` may have fallen since they were
    listed."""
    level = nodes.level[0]
    nodes.order[level] += 1
    if nodes.order[level] < nodes.order_end[level]:
        return True
    nodes.child[level] += 1
    child = nodes.child[level]
    if child >= nodes.child_count[level] or nodes.bounds[level, child] >= limit:
        return False
    # The child's vector, from its number; ``looped`` are the dims over which the level then has a loop, and
    # the orders to try are those of just these loops.
    looped, number = 0, nodes.children[level, child]
    for dim in range(len(lattice.counts)):
        digit = number // lattice.stride[dim] % lattice.counts[dim]
        nodes.vector[level - 1, dim] = lattice.value[dim, digit]
        if nodes.vector[level - 1, dim] < nodes.vector[level, dim]:
            looped |= 1 << dim
    nodes.order[level] = space.order_start[level, looped, 0]
    nodes.order_end[level] = space.order_start[level, looped, 1]
    return True


@inlined
def _bound(space: Space, assignment: Assignment, lattice: Lattice, nodes: Nodes, level: int) -> float:
    """A lower bound on the objective of all mappings below the node of ``level``.

    The node's own cost is exact, but for words of the MAC units whose multicast groups depend on tiles that
    are not decided yet: these are charged with the least number of groups. The cost inside comes from the
    table, for each set of stationary tensors that the loops outside allow (a subset of ``nodes.runs``): the
    table leaves the fills of these tensors to whoever knows the loops of their run, so they are added here.
    The least of all sets is a bound.
    """
    # The number of the node's vector. Dims have few divisors, so they are looked through one by one.
    vector = 0
    for dim in range(len(lattice.counts)):
        digit = 0
        while lattice.value[dim, digit] != nodes.vector[level, dim]:
            digit += 1
        vector += digit * lattice.stride[dim]
    least = np.inf
    for run in range(len(space.runs)):
        if space.runs[run] & ~nodes.runs[level] == 0:
            energy = lattice.opened[table_start(space, lattice, level, run) + vector]
            least = min(least, energy + _floors_outside(space, assignment, nodes, level, space.runs[run]))
    return value(space, assignment, nodes.energy[level] + least, nodes.demand[level], nodes.walk.cycles)


@inlined
def _floors_outside(space: Space, assignment: Assignment, nodes: Nodes, level: int, tensors: int) -> float:
    """Energy of filling ``tensors`` whose run goes on outside the node, at least: each tensor's different
    words into the next level inside that keeps it, times the decided loops that repeat them."""
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

    All vectors are tried whose divisors the rules on factors allow, one after the other like the digits of a
    counter. The order of a child's loops is not decided yet, so its bound is the least over the sets of
    tensors that some order can leave stationary (``_least_child``).
    """
    level = nodes.level[0]
    # No child yet, whose orders are at an end: the first _next_order steps to child 0.
    nodes.child[level] = -1
    nodes.order[level] = 0
    nodes.order_end[level] = 0
    nodes.child_count[level] = 0
    _fill_floors(space, assignment, nodes, level)
    if not _pick_first(space, assignment, lattice, nodes, level):
        return
    # One round a child: its number, its bound, and an entry in the list if the bound is below the limit. The
    # bound of a part of an uneven level is computed again with the tiles of the parts outside it.
    while True:
        nodes.listed[0] += 1
        number = 0
        for dim in range(len(lattice.counts)):
            number += nodes.allowed[dim, nodes.pick[dim]] * lattice.stride[dim]
        energy = nodes.energy[level] + _least_child(space, lattice, nodes, level, number)
        if space.model.timing.timed is not None and level == len(assignment.keep) - 1:
            for dim in range(len(lattice.counts)):
                nodes.vector[level - 1, dim] = lattice.value[dim, nodes.allowed[dim, nodes.pick[dim]]]
            _walk(space, nodes, True)
        bound = value(space, assignment, energy, nodes.demand[level], nodes.walk.cycles)
        if bound < limit and space.last[level - 1] > space.first[level - 1]:
            energy += _price_of_free_capacity(space, assignment, lattice, nodes, number)
            bound = value(space, assignment, energy, nodes.demand[level], nodes.walk.cycles)
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
    """Energy to add to the bound of a child that is a part of an uneven level, its vector having ``number``.

    The tiles of the parts outside it are decided, which the tables could not know. If its tile does not fit
    beside them the result is infinite. For the innermost part of the level it is the price of the capacity
    that stays free, since ``bound_of_assignment`` subtracted the price of all of it. Otherwise it is 0.
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
    """Fill ``nodes.floors`` [runs, runs]: what filling stationary tensors costs at least, in pJ.

    The first index is the set whose run goes on outside the node, the second the set, containing it, whose
    run has begun inside the node's loops. Infinite for pairs that cannot be."""
    for run in range(len(space.runs)):
        outside = space.runs[run]
        for more in range(len(space.runs)):
            nodes.floors[run, more] = np.inf
            if outside & ~nodes.runs[level] == 0 and outside & ~space.runs[more] == 0:
                added = space.runs[more] & ~outside
                nodes.floors[run, more] = _floors_outside(
                    space, assignment, nodes, level, outside
                ) + floors_pj(space, assignment, level, added, nodes.vector[level])


@inlined
def _pick_first(space: Space, assignment: Assignment, lattice: Lattice, nodes: Nodes, level: int) -> bool:
    """Fill ``nodes.allowed``, per dim the divisors that children can have by the rules on factors, and begin
    with the first of each.

    False if a dim has none."""
    for dim in range(len(lattice.counts)):
        nodes.pick_count[dim] = 0
        nodes.pick[dim] = 0
        whole = nodes.vector[level, dim]
        for digit in range(lattice.counts[dim]):
            inside = lattice.value[dim, digit]
            if whole % inside:
                continue
            factor = whole // inside
            allowed = space.least[level, dim] <= factor <= space.most[level, dim]
            if space.first[level] < level and assignment.keep[level] == 0:  # a part that ends no tile is none
                allowed = allowed and factor == 1
            if level == 1:  # what is inside is level 0's own factor: check its rules, too
                allowed = allowed and space.least[0, dim] <= inside <= space.most[0, dim]
            if allowed:
                nodes.allowed[dim, nodes.pick_count[dim]] = digit
                nodes.pick_count[dim] += 1
        if nodes.pick_count[dim] == 0:
            return False
    return True


@inlined
def _pick_next(nodes: Nodes) -> bool:
    """Step ``nodes.pick`` to the next vector, like a counter with a digit per dim; False after the last."""
    for dim in range(len(nodes.pick)):
        nodes.pick[dim] += 1
        if nodes.pick[dim] < nodes.pick_count[dim]:
            return True
        nodes.pick[dim] = 0
    return False


@inlined
def _least_child(space: Space, lattice: Lattice, nodes: Nodes, level: int, number: int) -> float:
    """A lower bound on the energy inside the node for the child of vector ``number``, for any order of the
    loops between them.

    ``run`` is the set whose run goes on outside the node: none of the loops may move its tensors. ``more`` is
    the set whose run has begun inside the loops. Their fills are in ``nodes.floors``, all else is in the
    table."""
    # ``moving`` are the dims over which the level has a loop. A set whose tensors one of these loops moves
    # cannot be stationary outside of them (``Space.still``).
    moving = 0
    for dim in range(len(lattice.counts)):
        digit = number // lattice.stride[dim] % lattice.counts[dim]
        if lattice.value[dim, digit] < nodes.vector[level, dim]:
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
    """Sort the children by their bounds, with Shell's method (1959), as compiled code here must not allocate.

    For a gap, every child is moved forward in steps of the gap past children with larger bounds. Gaps are
    halved; the last one is 1, which sorts what is nearly sorted already.
    """
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
