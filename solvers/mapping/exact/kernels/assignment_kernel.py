"""Compiled: what follows from an assignment without its loops, and what words delivered between its levels
cost.

An assignment fixes the spatial factors of all levels and the tensors that each keeps; only the temporal loops
are open. The assignment decides the instances of every level, the multicast groups of every fan-out, what the
MAC units ask for, and the least number of words for every fill. Where a count depends on the loops as well,
the number here is a bound in the direction that keeps costs from being overestimated.

Items are those of the cost model's list of counts, ``costmodel/mapping/counts/traffic.py``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import inlined
from costmodel.mapping.batch.counting_kernel import distinct_pairs, filled, level_cycles, sent
from costmodel.mapping.batch.timing_kernel import walk_cycles
from costmodel.mapping.bounds.rounding import ROUNDING

if TYPE_CHECKING:
    from solvers.mapping.exact.tables import Assignment, Space

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""
Real = Any
"""A 64-bit floating-point number of compiled code."""
Words = Any
"""A count of words, or of units of bits: a floating-point number."""
READ, WRITTEN, UPDATED = 0, 1, 2
"""The parts of every ``demand``: words read, words filled or updated, and of these the updates."""
PARTS = 3
ENERGY, CYCLES = 0, 1
"""Values of ``Space.objective``, which numbers OBJECTIVES; any other is energy times cycles."""


@inlined
def value(space: Space, assignment: Assignment, energy_pj: float, demand: Array, walk: Array) -> float:
    """The objective, given the energy without leakage and the words that move.

    ``demand`` [3, levels, tensors]: words per instance that are READ, WRITTEN and of these UPDATED. Where the
    objective is cycles, ``energy_pj`` are cycles of the outermost level's bandwidth (``aggregate.py``).
    ``walk`` are the cycles of the steps of a machine with timing, as in ``WalkCounts``: those of the loops
    that are decided, or ``Assignment.walk`` where none is.

    It never falls when the energy, the demand or cycles of the walk rise and the walk's numbers of steps stay
    (``walk_cycles``). So from bounds on these it is a bound on the mapping's objective, and from the
    mapping's own numbers it is that objective."""
    if energy_pj == np.inf:  # nothing fits
        return float(np.inf)
    # Cycles come first, because leakage and the energy-delay product need them. They are lowered by ROUNDING
    # before they are rounded up: a bound that the last digit of a float lifts over a whole number would
    # otherwise be a cycle above the mapping that it bounds.
    cycles = float(assignment.cycles[0])
    if space.model.timing.timed is not None:
        cycles = max(cycles, walk_cycles(space.model.timing, walk, _inner_cycles(space, assignment, demand)))
        cycles = float(np.ceil(cycles * ROUNDING))
    else:
        if space.objective == CYCLES:  # the weights are cycles: see aggregate.py
            cycles = max(cycles, energy_pj)
        cycles = float(np.ceil(cycles * ROUNDING))
        for level in range(len(assignment.keep)):
            if space.first[level] == level:
                cycles = max(cycles, _bandwidth_cycles(space, level, demand, assignment.iterations[0]))
    if space.objective == CYCLES:
        return cycles
    for level in range(len(assignment.keep)):
        energy_pj += space.model.leakage_pj[level] * assignment.instances[level] * cycles
    return energy_pj if space.objective == ENERGY else energy_pj * cycles


@inlined
def _inner_cycles(space: Space, assignment: Assignment, demand: Array) -> float:
    """Cycles of what the machine's timing does not describe: the bandwidths of levels inside its transfers,
    the MACs where it describes no array, and PEs with links."""
    model = space.model
    inner = float(assignment.iterations[0]) if model.timing.counts_macs else 0.0
    for level in range(model.timing.inner_levels):
        if space.first[level] < level:  # the words of all parts of a level go over the same ports
            continue
        read, written = 0.0, 0.0
        for tensor in range(demand.shape[2]):
            for part in range(level, space.last[level] + 1):
                read += demand[READ, part, tensor]
                written += demand[WRITTEN, part, tensor]
        inner = max(inner, read / model.read_bandwidth[level])
        inner = max(inner, written / model.write_bandwidth[level])
        inner = max(inner, (read + written) / model.shared_bandwidth[level])
    if model.timing.processes:
        inner = max(inner, _processing_cycles(space, assignment, demand))
    return inner


@inlined
def _processing_cycles(space: Space, assignment: Assignment, demand: Array) -> Real:
    """Cycles of an array of PEs with links (``costmodel/mapping/counts/processing.py``): exact if ``demand``
    is, and a lower bound from lower bounds, since every term grows with the words. Levels are even here."""
    timing, output, last = space.model.timing, space.model.output, demand.shape[1] - 1
    link, fills = 0.0, 0.0
    for tensor in range(demand.shape[2]):
        for level in range(last + 1):
            updates = demand[UPDATED, level, tensor]
            inwards = updates if tensor == output else demand[READ, level, tensor]
            link = max(link, inwards / timing.link_read[level, tensor])
            link = max(link, updates / timing.link_write[level, tensor])
        fills += demand[READ, last, tensor] / timing.fill[tensor]
    sums = 0.0
    if assignment.sums_level[0] >= 0:
        sums = assignment.cycles_per_sum[0] * demand[UPDATED, assignment.sums_level[0], output]
    return max(assignment.iterations[0] + sums, link) + fills


@inlined
def _bandwidth_cycles(space: Space, level: int, demand: Array, compute_cycles: float) -> float:
    """Cycles that one level's bandwidths ask for, rounded as the cost model rounds them (item 11).

    ``level`` is the first part of the level; the words of all its parts go over the same ports.

    This is a lower bound where ``demand`` is one: floating-point sums, quotients and ``ceil`` never fall when
    their operands rise, so words that are at most a mapping's never make more cycles than it has, although
    each rounding may add one.
    """
    model = space.model
    limit = min(model.read_bandwidth[level], model.write_bandwidth[level], model.shared_bandwidth[level])
    if limit == np.inf:  # most levels: spares the sums
        return 0.0
    read, written = 0.0, 0.0
    # Tensor by tensor, as ``latency.py`` adds them: added part by part the sum can differ in its last digit,
    # and a demand that divides exactly then takes a cycle more or less.
    for tensor in range(demand.shape[2]):
        for part in range(level, space.last[level] + 1):
            read += demand[READ, part, tensor] / compute_cycles
            written += demand[WRITTEN, part, tensor] / compute_cycles
    return level_cycles(model, level, read, written, compute_cycles)


@inlined
def assign(space: Space, assignment: Assignment) -> None:
    """Fill all of ``assignment`` from its ``spatial`` and ``keep``."""
    assign_factors(space, assignment)
    assignment.energy_pj[0] = space.model.mac_energy_pj
    for part in range(PARTS):
        for level in range(len(assignment.keep)):
            assignment.demand[part, level, :] = 0.0
    for tensor in range(assignment.ratio.shape[1]):
        assign_tensor(space, assignment, tensor)
    if space.model.timing.processes:
        _sums_that_leave(space, assignment)


@inlined
def _sums_that_leave(space: Space, assignment: Assignment) -> None:
    """Fill ``sums_level`` and ``cycles_per_sum``, once it is known which levels keep the output.

    An instance of ``sums_level`` takes each partial sum once, already added up over the PEs below it. It
    serves as many PEs as hold different outputs, so one PE pays for that fraction of its updates."""
    output = space.model.output
    inner = assignment.innermost[output]
    outer = assignment.parent[inner, output]
    assignment.sums_level[0] = outer
    served = 1.0
    for level in range(inner + 1, outer + 1):
        for dim in range(assignment.spatial.shape[1]):
            if space.model.relevant[output, dim]:
                served *= assignment.spatial[level, dim]
    assignment.cycles_per_sum[0] = space.model.timing.accumulate / served


@inlined
def assign_factors(space: Space, assignment: Assignment) -> None:
    """Fill what follows from the spatial factors, whatever levels keep."""
    levels, dims = assignment.spatial.shape
    assignment.sums_level[0] = -1  # not known before it is known what levels keep
    assignment.iterations[0] = 1.0
    assignment.summed[0] = 1.0
    for dim in range(dims):
        covered = 1
        for level in range(levels):
            covered *= assignment.spatial[level, dim]
            assignment.covered[level, dim] = covered
        assignment.rest[dim] = space.model.sizes[dim] // covered
        assignment.iterations[0] *= assignment.rest[dim]
        if not space.model.relevant[space.model.output, dim]:
            assignment.summed[0] *= assignment.rest[dim]
    assignment.instances[levels - 1] = 1.0
    assignment.split[levels - 1] = False
    for level in range(levels - 2, -1, -1):
        assignment.instances[level] = assignment.instances[level + 1]
        assignment.split[level] = assignment.split[level + 1]
        for dim in range(dims):  # a level has as many instances as the fan-outs outside it use
            assignment.instances[level] *= assignment.spatial[level + 1, dim]
            summed = not space.model.relevant[space.model.output, dim]
            if summed and assignment.spatial[level + 1, dim] > 1:
                assignment.split[level] = True
    assignment.cycles[0] = space.least_cycles
    # A machine whose timing describes its array can need fewer cycles than the nest has iterations.
    if space.model.timing.timed is None or space.model.timing.counts_macs:
        assignment.cycles[0] = max(assignment.iterations[0], space.least_cycles)
    _groups(space, assignment)
    _partitions(space, assignment)


@inlined
def assign_tensor(space: Space, assignment: Assignment, tensor: int) -> None:
    """Fill what the levels that keep a tensor decide of it; add to the assignment's energy and demand what
    the tensor costs whatever the temporal loops are."""
    connect(space, assignment, tensor)
    _operands(space, assignment, tensor)


@inlined
def _groups(space: Space, assignment: Assignment) -> None:
    """Item 5: fill the multicast groups of every level's fan-out, as far as the factors alone decide them.

    Where several dims of one axis are spread, how many children hold different tiles depends on the strides,
    and so on the tile inside. Filled in is then the sum of the factors less one for every dim after the
    first: two finite sets of numbers have at least ``|A| + |B| - 1`` different sums. Such a fan-out is marked
    as ``merging``, and :func:`groups_around` counts it once the tile is known.
    """
    model = space.model
    for level in range(assignment.groups.shape[0]):
        for tensor in range(assignment.groups.shape[1]):
            assignment.groups[level, tensor] = 1.0
            assignment.merging[level, tensor] = False
            for axis in range(model.axes[tensor]):
                if level == 0:  # a MAC unit's tile is one point
                    positions = _positions(space, assignment.spatial[level], tensor, axis, assignment.point)
                else:
                    positions = float(_sum_set(space, assignment.spatial[level], tensor, axis))
                    if _spread_dims(space, assignment.spatial[level], tensor, axis) > 1:
                        assignment.merging[level, tensor] = True
                assignment.groups[level, tensor] *= positions


@inlined
def _spread_dims(space: Space, factors: Array, tensor: int, axis: int) -> Int:
    """How many dims of an axis the ``factors`` [dims] of a fan-out spread."""
    count = 0
    for term in range(space.model.term_dims.shape[2]):
        dim = space.model.term_dims[tensor, axis, term]
        count += dim >= 0 and factors[dim] > 1
    return count


@inlined
def groups_around(space: Space, assignment: Assignment, level: int, tensor: int, tile: Array) -> float:
    """Item 5: how many different tiles of a tensor the children below one instance of a level hold.

    Each child covers ``tile`` [dims]. Exact, except that three or more spread dims of one axis are
    only bounded from below.
    """
    if not assignment.merging[level, tensor]:
        return float(assignment.groups[level, tensor])
    groups = 1.0
    for axis in range(space.model.axes[tensor]):
        groups *= _positions(space, assignment.spatial[level], tensor, axis, tile)
    return groups


@inlined
def _positions(space: Space, factors: Array, tensor: int, axis: int, tile: Array) -> float:
    """Different positions on one axis of the children of a fan-out that spreads ``factors`` [dims].

    Each child covers ``tile`` [dims]. Exact for up to two spread dims; for three or more it is the bound of
    ``_groups``, as listing all positions would take too long here."""
    model = space.model
    # ``bound`` and ``step`` are those of the spread dim met before: with one spread dim all its children are
    # at different positions, with two their pairs are counted. ``least`` grows beside that, in case a third
    # one follows.
    spread, different, least = 0, 1, 1
    bound, step = 1, 1
    for term in range(model.term_dims.shape[2]):
        dim = model.term_dims[tensor, axis, term]
        if dim < 0 or factors[dim] == 1:
            continue
        factor, stride = factors[dim], model.term_steps[tensor, axis, term] * tile[dim]
        spread += 1
        different = distinct_pairs(bound, step, factor, stride) if spread == 2 else factor
        least += factor - 1
        bound, step = factor, stride
    return float(different if spread < 3 else least)


@inlined
def _sum_set(space: Space, points: Array, tensor: int, axis: int) -> Int:
    """The least number of different positions on an axis whose dims take ``points`` [dims] values each,
    whatever their strides: the bound of ``_groups``."""
    different = 1
    for term in range(space.model.term_dims.shape[2]):
        dim = space.model.term_dims[tensor, axis, term]
        if dim >= 0:
            different += points[dim] - 1
    return different


@inlined
def _partitions(space: Space, assignment: Assignment) -> None:
    """Item 9: fill the words of the output that one instance of each level begins at zero, at most.

    It is responsible for them; where partial sums are there before the layer starts it begins none.
    If every axis of the output is one dim with coefficient 1, each spread relevant dim divides these words
    exactly. Of any other output an instance is responsible for at most as many as one of the level outside.
    An upper bound is what is needed: reads and fills are fewer the more words an instance is responsible for,
    since the first visit of each costs neither (item 8).
    """
    model, output = space.model, space.model.output
    levels = len(assignment.spatial)
    # ``plain``: every axis of the output is one dim with coefficient 1.
    words, plain = space.fresh_words, True
    for axis in range(model.axes[output]):
        for term in range(model.term_dims.shape[2]):
            if model.term_dims[output, axis, term] >= 0:
                plain = plain and term == 0 and model.term_steps[output, axis, term] == 1
    for level in range(levels - 1, -1, -1):
        assignment.partitions[level] = words
        if plain:
            words /= assignment.groups[level, output]


@inlined
def connect(space: Space, assignment: Assignment, tensor: int) -> None:
    """Fill what concerns a tensor at each level that keeps it: its parent and child, the next levels outside
    and inside that keep it too; the ratio of words sent by the parents to words filled; the least fill."""
    levels = len(assignment.spatial)
    # From the outermost level inwards, ``outer`` is the last level met that keeps the tensor. Words that all
    # its instances send, over words that all instances of ``level`` are filled with: the instances of
    # ``outer`` each send once to every multicast group of the fan-outs between the two.
    outer = -1
    for level in range(levels - 1, -1, -1):
        assignment.parent[level, tensor] = outer
        if assignment.keep[level] >> tensor & 1:
            if outer >= 0:
                assignment.ratio[level, tensor] = assignment.instances[outer] / assignment.instances[level]
                for between in range(level + 1, outer + 1):
                    assignment.ratio[level, tensor] *= assignment.groups[between, tensor]
            outer = level
    # And from the innermost level outwards for the next level inside.
    inner = -1
    for level in range(levels):
        assignment.child[level, tensor] = inner
        if assignment.keep[level] >> tensor & 1:
            inner = level
            _floor(space, assignment, level, tensor)


@inlined
def _floor(space: Space, assignment: Assignment, level: int, tensor: int) -> None:
    """Fill ``axis_words`` and ``floor_words``: the least different positions on each axis that one instance
    of a level needs during the whole layer, and the words these are in all its instances.

    Where an instance covers all of an axis (no dim of it is spread outside), that is ``Space.touched``;
    otherwise the bound on sums of ``_groups``, with what spreading leaves of each dim."""
    model = space.model
    levels = len(assignment.spatial)
    words = assignment.instances[level]
    for axis in range(model.axes[tensor]):
        # ``outside`` is into how many parts the fan-outs outside the level cut a dim; an instance has one.
        different, whole = 1, True
        for term in range(model.term_dims.shape[2]):
            dim = model.term_dims[tensor, axis, term]
            if dim >= 0:
                outside = assignment.covered[levels - 1, dim] // assignment.covered[level, dim]
                whole = whole and outside == 1
                different += model.sizes[dim] // outside - 1
        if whole:
            different = space.touched[tensor, axis]
        assignment.axis_words[level, tensor, axis] = different
        words *= different
    assignment.floor_words[level, tensor] = words


@inlined
def _operands(space: Space, assignment: Assignment, tensor: int) -> None:
    """What the MAC units ask of the tensor's innermost level (items 4, 5, 7), whatever the loops."""
    # A MAC unit asks for a word in every temporal iteration. A level that bypasses the tensor hands requests
    # on; each fan-out on the way multiplies them by the children that hold different tiles.
    level, words = 0, assignment.iterations[0] * assignment.groups[0, tensor]
    while not assignment.keep[level] >> tensor & 1:
        level += 1
        words *= assignment.groups[level, tensor]
    assignment.innermost[tensor] = level
    assignment.operands[tensor] = words
    assignment.outermost_merging[tensor] = -1
    for inner in range(level + 1):
        if assignment.merging[inner, tensor]:
            assignment.outermost_merging[tensor] = inner
    assignment.energy_pj[0] += operands_pj(space, assignment, tensor, words)
    demand_operands(space, assignment, tensor, 0.0, words, assignment.demand)


@inlined
def sent_units(
    space: Space, assignment: Assignment, level: int, tensor: int, words: Words
) -> tuple[Words, Words]:
    """Reads and updates of one instance that sends ``words`` inwards, or takes so many in (item 8), in units.

    A unit is a word, unless elements have widths (``costmodel/mapping/element_bits.py``). Then the updates of
    an output are those of partial sums, but for the last one of each sum, which finishes it."""
    model = space.model
    reads, updates = sent(tensor == model.output, words, assignment.partitions[level])
    narrow = model.units[level, tensor]
    if tensor != model.output:
        return reads * narrow, updates * narrow
    wide = model.sum_units[level]
    finished = min(updates, assignment.partitions[level]) if wide > narrow else 0.0
    if assignment.split[level]:
        finished = 0.0
    return reads * wide, updates * wide - finished * (wide - narrow)


@inlined
def filled_units(space: Space, assignment: Assignment, level: int, tensor: int, words: Words) -> Words:
    """Fills of one instance into which ``words`` are delivered (item 8), in units: partial sums come back."""
    is_output = tensor == space.model.output
    one = space.model.sum_units[level] if is_output else space.model.units[level, tensor]
    return filled(is_output, words, assignment.partitions[level]) * one


@inlined
def operands_pj(space: Space, assignment: Assignment, tensor: int, words: float) -> Real:
    """Energy of ``words`` that the MAC units ask of one instance of the tensor's innermost level."""
    model, level = space.model, assignment.innermost[tensor]
    reads, updates = sent_units(space, assignment, level, tensor, words)
    reading = blocks(reads, model.block_size[level])
    if tensor != model.output:
        return assignment.instances[level] * reading * model.read_pj[level]
    updating = blocks(updates, model.block_size[level]) * model.update_pj[level]
    return assignment.instances[level] * (reading * model.read_pj[level] + updating)


@inlined
def demand_operands(
    space: Space, assignment: Assignment, tensor: int, before: float, words: float, demand: Array
) -> None:
    """Raise ``demand`` [3, levels, tensors] from ``before`` words that the MAC units ask for to ``words``.

    The difference is added, and not the new count written: the innermost level's fills may be in ``demand``
    already."""
    level = assignment.innermost[tensor]
    fewer_reads, fewer_updates = sent_units(space, assignment, level, tensor, before)
    reads, updates = sent_units(space, assignment, level, tensor, words)
    demand[READ, level, tensor] += reads - fewer_reads
    demand[WRITTEN, level, tensor] += updates - fewer_updates
    demand[UPDATED, level, tensor] += updates - fewer_updates


@inlined
def boundary_pj(space: Space, assignment: Assignment, level: int, tensor: int, words: float) -> Real:
    """Energy of ``words`` delivered into all instances of ``level``, there and at the parent, at least."""
    return moved_pj(space, assignment, level, tensor, words, words * assignment.ratio[level, tensor])


@inlined
def moved_pj(
    space: Space, assignment: Assignment, level: int, tensor: int, words: float, sent_words: float
) -> Real:
    """Energy of ``words`` that fill all instances of ``level``, and of the ``sent_words`` that all instances
    of its parent send for them, fewer where the parent multicasts (items 8 and 10).

    Blocks are rounded up for each instance, so both counts are first divided by the instances."""
    model, outer = space.model, assignment.parent[level, tensor]
    fills = filled_units(space, assignment, level, tensor, words / assignment.instances[level])
    asked = sent_words / assignment.instances[outer]
    reads, updates = sent_units(space, assignment, outer, tensor, asked)
    filling = blocks(fills, model.block_size[level]) * model.write_pj[level]
    sending = blocks(reads, model.block_size[outer]) * model.read_pj[outer]
    sending += blocks(updates, model.block_size[outer]) * model.update_pj[outer]
    return filling * assignment.instances[level] + sending * assignment.instances[outer]


@inlined
def blocks(words: float, size: int) -> Real:
    """Accesses for at least ``words``, one for each block begun (item 10).

    ``words`` comes from floating-point products and quotients. Where it is a whole number of blocks, rounding
    may have raised its last digits, and ``ceil`` would count a block too many: so it is lowered first."""
    return words if size == 1 else np.ceil(words / size * ROUNDING)


@inlined
def copy(source: Array, to: Array) -> None:
    """Copy ``source`` to the beginning of ``to``.

    An assignment of slices would allocate memory, which the compiled code here must not."""
    for index in range(len(source)):
        to[index] = source[index]


@inlined
def copy_rows(source: Array, to: Array) -> None:
    """Copy each row of ``source`` to the beginning of the same row of ``to``."""
    for index in range(len(source)):
        copy(source[index], to[index])
