"""Compiled: what one step of the search adds, once the loops of another level are decided.

All loops outside a tile decide what is delivered into it (item 3). So as the search goes from the outside in,
each level's deliveries are exact as soon as its loops are decided, and what is still open is bounded.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from costmodel.compiled import inlined
from costmodel.mapping.batch.counting_kernel import delivered_words, sums_come_back, tile_words
from solvers.mapping.exact.kernels.assignment_kernel import (
    PARTS,
    READ,
    UPDATED,
    WRITTEN,
    copy_rows,
    demand_operands,
    filled_units,
    groups_around,
    moved_pj,
    operands_pj,
    sent_units,
)
from solvers.mapping.exact.kernels.words_kernel import kept_words, sums_fit

if TYPE_CHECKING:
    from solvers.mapping.exact.tables import Assignment, Nodes, Space

Int = Any
"""A 64-bit integer of compiled code."""


@inlined
def decide(space: Space, assignment: Assignment, nodes: Nodes, level: int) -> None:
    """Fill the node inside the level's loops.

    All loops outside the tile of the next inner level are known now, so what is delivered into that tile is
    exact (item 3), and so are the multicast groups of the level's fan-out, whose children hold that tile.
    """
    inner = level - 1
    nodes.visited[0] += 1
    for dim in range(nodes.tile.shape[0]):
        nodes.tile[dim] = nodes.vector[inner, dim] * assignment.covered[inner, dim]
    _add_loops(space, assignment, nodes, level)
    nodes.energy[inner] = nodes.energy[level]
    for part in range(PARTS):
        copy_rows(nodes.demand[level, part], nodes.demand[inner, part])
    nodes.runs[inner] = 0
    for tensor in range(len(space.model.slides)):
        if _repeats(space, nodes, level, tensor) > 1:
            nodes.runs[inner] |= 1 << tensor
        _merge(space, assignment, nodes, level, tensor)
        if assignment.keep[inner] >> tensor & 1:
            _charge(space, assignment, nodes, inner, tensor)
    if space.last[inner] > space.first[inner]:
        _hold(space, assignment, nodes, inner)
    if space.model.wide_sums and not _sums_fit(space, assignment, nodes, inner):
        nodes.energy[inner] = np.inf


@inlined
def _sums_fit(space: Space, assignment: Assignment, nodes: Nodes, inner: int) -> bool:
    """Whether the level that takes outputs from ``inner`` can hold them as partial sums, if they are some.

    All loops outside the tile of ``inner`` are decided. ``nodes.tile`` is overwritten."""
    output = space.model.output
    outer = assignment.parent[inner, output]
    if not assignment.keep[inner] >> output & 1 or outer < 0:
        return True
    if not sums_come_back(space.model, nodes.loops, nodes.loops.starts[inner + 1], True):
        return True
    for dim in range(nodes.tile.shape[0]):
        nodes.tile[dim] = nodes.vector[outer, dim] * assignment.covered[outer, dim]
    return sums_fit(space, assignment, outer, nodes.tile)


@inlined
def _hold(space: Space, assignment: Assignment, nodes: Nodes, level: int) -> None:
    """Add what a part of an uneven level holds to what the parts outside it hold, and charge its price.

    The price of a word is that of the tables. Once all parts of a level are decided, the capacity left free
    is charged as well. The level has then paid for its whole capacity, exactly what ``bound_of_assignment``
    subtracted, and prices have no effect on the sum any more.
    """
    words = kept_words(space, assignment, level, nodes.tile)
    nodes.held[level] = words
    if level < space.last[level]:
        nodes.held[level] += nodes.held[level + 1]
    nodes.energy[level] += space.prices[level] * words
    if level == space.first[level]:
        free = space.model.usable_words[level] - nodes.held[level]
        nodes.energy[level] += space.prices[level] * free


@inlined
def _merge(space: Space, assignment: Assignment, nodes: Nodes, level: int, tensor: int) -> None:
    """Fill the multicast groups of the level's fan-out, now that its children's tile is decided.

    If the fan-out lies between the MAC units and the tensor's innermost level, more groups than the least
    also mean more words asked for by the MAC units, whose energy and demand are added to the node.
    """
    inner = level - 1
    nodes.groups[level, tensor] = assignment.groups[level, tensor]
    nodes.operands[inner, tensor] = nodes.operands[level, tensor]
    if not assignment.merging[level, tensor]:
        return
    nodes.groups[level, tensor] = groups_around(space, assignment, level, tensor, nodes.tile)
    if level > assignment.innermost[tensor]:
        return  # further out these groups multiply what is delivered: see _charge
    before = nodes.operands[level, tensor]
    words = before * nodes.groups[level, tensor] / assignment.groups[level, tensor]
    nodes.operands[inner, tensor] = words
    nodes.energy[inner] += operands_pj(space, assignment, tensor, words) - operands_pj(
        space, assignment, tensor, before
    )
    demand_operands(space, assignment, tensor, before, words, nodes.demand[inner])


@inlined
def _add_loops(space: Space, assignment: Assignment, nodes: Nodes, level: int) -> None:
    """Write the level's loops, in the order that is being tried, before those of the levels outside it.

    The row of loops stands innermost first and is filled from its end, so the level's outermost loop is
    written first, directly before the loops of the level outside::

        | free | new: innermost ... outermost | loops of level + 1 | ... | loops of the outermost level |
               ^ starts[level]                ^ starts[level + 1]
    """
    loops = nodes.loops
    at = loops.starts[level + 1]
    for position in range(space.orders.shape[1] - 1, -1, -1):
        dim = space.orders[nodes.order[level], position]
        inside = nodes.vector[level - 1, dim]
        if nodes.vector[level, dim] > inside:
            at -= 1
            loops.dim[at] = dim
            loops.bound[at] = nodes.vector[level, dim] // inside
            loops.stride[at] = inside * assignment.covered[level, dim]
    loops.starts[level] = at


@inlined
def _repeats(space: Space, nodes: Nodes, level: int, tensor: int) -> Int:
    """Fill ``nodes.repeats`` of the next inner level; the result is the product of the tensor's run.

    The run are the irrelevant loops inside the first loop that moves the tensor; they deliver nothing again.
    ``repeats`` is the product of the irrelevant loops outside that one: each of their iterations delivers
    everything again. For weights, which K and C move and P and Q do not, from the tile outwards::

        tile |  P2  Q4  |  K8   C2  |  P7  |       run = 2 * 4, repeats = 7
    """
    run, repeats, moved = 1, 1.0, False
    loops = nodes.loops
    for loop in range(loops.starts[level], loops.starts[len(loops.starts) - 1]):
        if space.model.axis_of[tensor, loops.dim[loop]] >= 0:
            moved = True
        elif moved:
            repeats *= loops.bound[loop]
        else:
            run *= loops.bound[loop]
    nodes.repeats[level - 1, tensor] = repeats
    return run


@inlined
def _charge(space: Space, assignment: Assignment, nodes: Nodes, level: int, tensor: int) -> None:
    """Add the words that are delivered into the tiles of ``level`` to the node's energy (pJ, all instances)
    and demands (words, one instance): the fill there, and what its parent sends."""
    model, outer = space.model, assignment.parent[level, tensor]
    tile = tile_words(model, tensor, nodes.tile)
    # In floating point: large layers have more deliveries than 64-bit integers count.
    words = delivered_words(model, tensor, nodes.tile, tile, 1.0, nodes.loops, level)
    # What one instance of the parent sends: every multicast group of a fan-out on the way asks for the words
    # once, so the groups of all fan-outs between the two levels multiply.
    asked = words
    for between in range(level + 1, outer + 1):
        asked *= nodes.groups[between, tensor]
    nodes.energy[level] += moved_pj(
        space,
        assignment,
        level,
        tensor,
        words * assignment.instances[level],
        asked * assignment.instances[outer],
    )
    demand = nodes.demand[level]
    reads, updates = sent_units(space, assignment, outer, tensor, asked)
    demand[WRITTEN, level, tensor] += filled_units(space, assignment, level, tensor, words)
    demand[READ, outer, tensor] += reads
    demand[WRITTEN, outer, tensor] += updates
    demand[UPDATED, outer, tensor] += updates
