"""The arrays that the compiled half of the exact mapper works on: a problem, an assignment, bounds, a search.

``Space`` is the problem, and does not change (but for its ``prices``). The others are workspaces that the
kernels fill: ``Assignment`` with what follows from spatial factors and kept tensors, ``Lattice`` with bounds
for all tiles of an assignment, ``Nodes`` with the open branch of the search.

Shapes stand in brackets. Levels are innermost first, and where levels are uneven they are the parts of
levels. Three words recur, which ``kernels/bound_kernel.py`` explains at length:

* a *vector* has for every dim the temporal points that a level and those inside it cover;
* a tensor's *run* is the loops directly outside its tile that do not move it, up to the first that does;
* during its run the tensor is *stationary*.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from itertools import permutations
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.batch.batch_tables import Tables, TemporalLoops, loops_workspace, tables_of
from costmodel.mapping.batch.timing_tables import TimingTables, WalkCounts, walk_workspace
from costmodel.mapping.counts.traffic import distinct_sums
from costmodel.workload.network import Layer
from solvers.mapping.exact.orders import Motion, looped_sets, motions_of, orders_of, runs_together
from solvers.mapping.exact.parts import PartSpace
from solvers.mapping.problem import OBJECTIVES, MappingProblem
from solvers.mapping.space.space import MappingSpace

Array = NDArray[Any]
LEAVES = 256
"""Mappings that a search hands over at a time, to be evaluated as one batch."""


class Space(NamedTuple):
    """A problem as compiled code takes it; levels innermost first, sets of tensors and dims as bit masks."""

    model: Tables
    divisor_count: Array
    """[dims]"""
    objective: int
    """Its index in ``OBJECTIVES``."""
    least_cycles: float
    """A lower bound on the cycles of every mapping."""
    divisors: Array
    """[dims, most] ascending, padded with 0."""
    least: Array
    most: Array
    """[levels, dims] bounds on temporal factors."""
    runs: Array
    """[runs] sets of tensors that one level's loops can leave stationary, the empty set first."""
    still: Array
    """[runs] the dims whose loops leave all tensors of a set stationary, as bit masks."""
    orders: Array
    """[n, dims] the loop orders of all levels and sets of loops, innermost loop first."""
    order_start: Array
    """[levels, 2**dims, 2] where a level's orders begin and end in ``orders``, by its loops' bit mask."""
    touched: Array
    """[tensors, axes] different positions along an axis that the layer's MACs use."""
    fresh_words: float
    """Words of the output that begin at zero: of the whole output, or none where its partial sums are there
    before the layer starts. They stand here and are not derived from ``model``, because the model of the
    bound on cycles has other coefficients (``aggregate.py``), and fewer words than are really written for the
    first time would make its reads too many."""
    first: Array
    last: Array
    """[levels] the innermost and the outermost part of the same hardware level; itself if even."""
    prices: Array
    """[levels] pJ per word that a part holds, 0 if the level is even (``prices.py``); changed by searches."""
    most_subsets: int
    """The most sets of equal size among the tensors of an uneven level."""


class Assignment(NamedTuple):
    """The spatial factors of every level, what levels keep, and all numbers that follow from these."""

    spatial: Array
    """[levels, dims] spatial factors."""
    keep: Array
    """[levels] sets of tensors."""
    covered: Array
    """[levels, dims] product of the spatial factors at and inside a level."""
    rest: Array
    """[dims] what spatial factors leave of each dim for temporal factors."""
    point: Array
    """[dims] the tile of a MAC unit: 1 each."""
    instances: Array
    """[levels] instances in use."""
    groups: Array
    """[levels, tensors] multicast groups of a level's fan-out; only a lower bound where ``merging``."""
    merging: Array
    """[levels, tensors] whether the groups depend on the tile inside the fan-out: several dims of one axis
    are spread there, and some of their tiles may be equal."""
    outermost_merging: Array
    """[tensors] the outermost ``merging`` level between the MAC units and ``innermost``, that one included;
    -1 for none."""
    innermost: Array
    """[tensors] the innermost level that keeps the tensor."""
    operands: Array
    """[tensors] words that the MAC units ask of one instance of ``innermost``, at least."""
    ratio: Array
    """[levels, tensors] least quotient of the words that all instances of the parent send and the words that
    all instances of the level are filled with; below 1 where multicast serves several with one word."""
    partitions: Array
    """[levels] words of the output that one instance begins at zero, at most (exact for outputs without
    overlap)."""
    parent: Array
    """[levels, tensors] the next level outside that keeps the tensor, -1 for none."""
    child: Array
    """[levels, tensors] the next level inside that keeps the tensor, -1 for none."""
    floor_words: Array
    """[levels, tensors] the least words that fill all instances of a level, if no loop repeats them."""
    axis_words: Array
    """[levels, tensors, axes] the least different positions on an axis that one instance needs in all."""
    iterations: Array
    """[1] temporal iterations of the whole nest, which are the compute cycles of all its mappings."""
    energy_pj: Array
    """[1] pJ of the MACs, and the least of the words that the MAC units ask for; without leakage. For uneven
    levels the price of their whole capacity is subtracted (``kernels/bound_kernel.py``)."""
    cycles: Array
    """[1] cycles that every mapping of the assignment takes at least, whatever its loops."""
    demand: Array
    """[3, levels, tensors] words per instance that are read, written, and of these updated, whatever the
    loops."""
    sums_level: Array
    """[1] on an array of PEs, the second level from inside that keeps the output; -1 if there is none, or
    while it is not known what levels keep."""
    cycles_per_sum: Array
    """[1] cycles that one PE adds up sums for each update of an instance of that level."""
    walk: Array
    """[8] the cycles of a walk over tiles of which nothing is known: no cycles, one step."""
    split: Array
    """[levels] whether fan-outs outside the level spread summed dims: instances have parts of the sums."""
    summed: Array
    """[1] temporal iterations over summed dims, those that the output does not have."""


class Fills(NamedTuple):
    """What fills each level at least, taken by itself (``kernels/fills_kernel.py``)."""

    least_pj: Array
    """[levels] pJ of all fills of a level, NaN where they are not known; the outermost level has none."""
    outside: Assignment
    """The same assignment with only the spatial factors outside the level that is being looked at."""
    moved_pj: Array
    """[tensors] pJ of filling the level with a tensor that the loop just outside the tile moves."""
    once_pj: Array
    """[tensors] pJ of filling it with all different words of a tensor once."""


class Steps(NamedTuple):
    """How far the computation of an assignment's bound has come.

    It is cut into steps, so that a call can end after any of them and the clock can be looked at."""

    done: Array
    """[1] how many steps are done; 0: the next call begins a new bound."""
    left: Array
    """[1] how many more tiles are looked at before the next look at the clock."""
    reached: Array
    """[1] the number of the step that the current call has come to."""


class Lattice(NamedTuple):
    """Bounds for all tiles of all levels, given an assignment.

    Vectors are one divisor of ``Assignment.rest`` for each dim, numbered in mixed radix. How the tables
    ``opened`` and ``closed`` are filled, and why they are bounds, is told in ``kernels/bound_kernel.py``.
    Where cycles are the objective, all that is called energy here is cycles (``aggregate.py``).
    """

    counts: Array
    """[dims] how many divisors each dim has."""
    value: Array
    """[dims, most] these divisors, ascending."""
    stride: Array
    """[dims] by how much a vector's number grows with the next divisor of the dim."""
    size: Array
    """[1] how many vectors there are."""
    opened: Array
    """[levels * subsets * runs * size] by the vector AROUND a level's temporal loops: the least ``closed``
    over all loops that can lie there, and the fills of tensors whose run ends among them."""
    closed: Array
    """[levels * subsets * runs * size] by the vector INSIDE a level's temporal loops, the tile of the next
    level inside: the least pJ of filling that tile and all that is further inside."""
    subset: Array
    """[levels] which of the ``Space.most_subsets`` tables of a level are read and written now."""
    scratch: Array
    """[size] pJ: one row of a table in the making."""
    digits: Array
    """[dims] the current vector, each dim as the index of its divisor."""
    tile: Array
    """[dims] what the current vector and the spatial factors cover."""
    steps: Steps


class Nodes(NamedTuple):
    """The open branch of the search, one node a level, and the leaves found.

    The node of a level knows all loops outside the level's vector; below ``level`` the entries have no
    meaning.
    """

    level: Array
    """[1] the level whose temporal loops are being chosen; the number of levels if the search is over."""
    vector: Array
    """[levels, dims] the vector of each node; that of level 0 are the factors of its own loops."""
    energy: Array
    """[levels] pJ of all that the loops outside a node decide."""
    demand: Array
    """[levels, 3, levels, tensors] words per instance, read, written and updated, that these loops decide."""
    runs: Array
    """[levels] the tensors, as a bit mask, that the loop directly outside a node's vector does not move."""
    repeats: Array
    """[levels, tensors] product of the irrelevant loops outside a node that are not of the tensor's run."""
    groups: Array
    """[levels, tensors] exact multicast groups of each level's fan-out, filled when the tile inside it is
    decided, that is with the node of the next inner level."""
    operands: Array
    """[levels, tensors] as ``Assignment.operands``, with the groups that are exact at a node."""
    loops: TemporalLoops
    """The loops of the levels decided so far, at the end of the row."""
    order: Array
    """[levels] the loop order being tried, an index of ``Space.orders``."""
    order_end: Array
    """[levels] where the orders of the current child end."""
    children: Array
    """[levels, size] the numbers of the vectors that a node's loops can begin with, best bound first."""
    bounds: Array
    """[levels, size] the bounds of these children on the objective."""
    child: Array
    """[levels] the current child, an index of ``children``."""
    child_count: Array
    """[levels] how many children a node has."""
    leaf_vector: Array
    """[LEAVES, levels, dims] the vectors of all levels of the leaves found."""
    leaf_order: Array
    """[LEAVES, levels] the loop orders of their levels."""
    leaf_bound: Array
    """[LEAVES] lower bounds on their objectives, mostly the objectives themselves."""
    leaf_count: Array
    """[1] how many leaves wait to be handed over."""
    visited: Array
    """[1] nodes decided since the search began."""
    listed: Array
    """[1] children looked at since ``explore`` was called."""
    floors: Array
    """[runs, runs] pJ, for a node's children: the least that filling stationary tensors costs, by the set
    that is stationary outside the node's loops and the set inside them."""
    pick_count: Array
    """[dims] how many divisors the children of a node can have."""
    pick: Array
    """[dims] the child being listed, each dim as an index of ``allowed``."""
    allowed: Array
    """[dims, most] these divisors, as indices of ``Lattice.value``."""
    tile: Array
    """[dims] the tile of the node that is being decided, or of the child that is being listed."""
    held: Array
    """[levels] words that a part holds, together with the parts of the same level outside it."""
    walk: WalkCounts
    """The steps of a machine with timing, for the outermost loops being tried; see ``search_kernel.py``."""


def space_of(problem: MappingProblem, parts: PartSpace, dominance: bool) -> Space:
    """The problem's tables, with the loop orders of all levels and sets of loops; with ``dominance``, orders
    that another dominates are left out (:func:`solvers.mapping.exact.orders.orders_of`)."""
    space = parts.space
    layer = problem.layer
    motions = motions_of(layer)
    # Dims of size 1 loop nowhere; leaving them out halves the sets of loops for each of them.
    looping = [index for index, (_, size) in enumerate(layer.dims) if size > 1]
    runs = runs_together(motions, looping)
    temporal = [slot for slot in space.slots if not slot.spatial]
    model = tables_of(space.architecture, layer)
    # Orders are compared by what they deliver. Of outputs whose tiles overlap that does not say which sums
    # come back, on which the width of partial sums depends.
    dominance = dominance and not (model.wide_sums and layer.output.slides)
    walks = problem.objective != "energy" and _depends_on_order(model.timing)
    orders, order_start = _orders(motions, looping, space, dominance, walks)
    return Space(
        model=model,
        objective=OBJECTIVES.index(problem.objective),
        least_cycles=0.0,
        divisors=space.tables.divisors,
        divisor_count=space.tables.divisor_count,
        least=np.array([slot.least for slot in temporal], np.int64),
        most=np.array([slot.most for slot in temporal], np.int64),
        runs=np.array(runs, np.int64),
        still=np.array([_still(motions, mask) for mask in runs], np.int64),
        orders=orders,
        order_start=order_start,
        touched=_touched(layer),
        fresh_words=0.0 if model.begun else float(layer.output.words(layer.sizes)),
        first=np.array([parts.part_levels.index(level) for level in parts.part_levels], np.int64),
        last=np.array([bisect_right(parts.part_levels, level) - 1 for level in parts.part_levels], np.int64),
        prices=np.zeros(len(parts.part_levels)),
        most_subsets=parts.most_subsets,
    )


def _still(motions: Sequence[Motion], tensors: int) -> int:
    """The dims, as a bit mask, whose loops move none of a set of tensors (a bit mask, too)."""
    return sum(
        1 << dim
        for dim in range(len(motions[0].axes))
        if all(motion.axes[dim] < 0 for number, motion in enumerate(motions) if tensors >> number & 1)
    )


def _depends_on_order(timing: TimingTables) -> bool:
    """Whether the timed cycles of steps depend on their order."""
    reloaded = all(timing.reloads[tensor] or tensor == timing.output for tensor in range(len(timing.reloads)))
    return timing.timed is not None and not (
        reloaded and timing.keeps_partial_sums and len(timing.cache_lines) == 0 and not timing.whole_steps
    )


def _orders(
    motions: tuple[Motion, ...], looping: list[int], space: MappingSpace, dominance: bool, walks: bool
) -> tuple[Array, Array]:
    """``Space.orders`` and ``Space.order_start``; levels with the same rules on orders have the same rows.

    With ``walks`` the outermost level has every order: caches see more of it than deliveries do.
    """
    tables = space.tables
    dims = len(space.layer.dims)
    rows: list[tuple[int, ...]] = []
    start = np.zeros((len(space.architecture.levels), (1 << dims), 2), np.int64)
    known: dict[tuple[tuple[int, ...], tuple[int, ...], bool], int] = {}
    for level, order in enumerate(tables.order.tolist()):
        first, last = tuple(order[: tables.free_from[level]]), tuple(order[tables.free_to[level] :])
        every = walks and level == len(tables.order) - 1
        if (first, last, every) in known:
            start[level] = start[known[first, last, every]]
            continue
        known[first, last, every] = level
        for looped in looped_sets(looping):
            inside, outside = (tuple(dim for dim in fixed if dim in looped) for fixed in (first, last))
            if every:
                free = permutations(sorted(looped - {*inside, *outside}))
                found = tuple((*inside, *between, *outside) for between in free)
            else:
                found = orders_of(motions, looped, inside, outside, dominance)
            bits = sum(1 << dim for dim in looped)
            start[level, bits] = len(rows), len(rows) + len(found)
            # Dims that do not loop at this level stand last: with a bound of 1 they do nothing, but a
            # permutation of a mapping names every dim.
            rows += [(*order, *(dim for dim in range(dims) if dim not in looped)) for order in found]
    return np.array(rows, np.int64), start


def _touched(layer: Layer) -> Array:
    """``Space.touched``: 1 for axes that a tensor does not have."""
    most = max(1, *(len(tensor.terms) for tensor in layer.tensors))
    table = np.ones((len(layer.tensors), most), np.int64)
    for number, tensor in enumerate(layer.tensors):
        for index, axis in enumerate(tensor.terms):
            table[number, index] = distinct_sums([(layer.sizes[dim], step) for dim, step in axis])
    return table


def assignment_workspace(space: Space) -> Assignment:
    """Workspace for one assignment at a time."""
    levels, tensors = space.model.can_keep.shape
    dims = len(space.model.sizes)
    whole, real = partial(np.zeros, dtype=np.int64), partial(np.zeros, dtype=np.float64)
    return Assignment(
        spatial=whole((levels, dims)),
        keep=whole(levels),
        covered=whole((levels, dims)),
        rest=whole(dims),
        point=np.ones(dims, np.int64),
        instances=real(levels),
        groups=real((levels, tensors)),
        merging=np.zeros((levels, tensors), np.bool_),
        outermost_merging=whole(tensors),
        innermost=whole(tensors),
        operands=real(tensors),
        ratio=real((levels, tensors)),
        partitions=real(levels),
        parent=whole((levels, tensors)),
        child=whole((levels, tensors)),
        floor_words=real((levels, tensors)),
        axis_words=real((levels, *space.touched.shape)),
        iterations=real(1),
        energy_pj=real(1),
        cycles=real(1),
        demand=real((3, levels, tensors)),
        sums_level=whole(1),
        cycles_per_sum=real(1),
        walk=np.array([0.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0]),
        split=np.zeros(levels, np.bool_),
        summed=real(1),
    )


def fills_workspace(space: Space) -> Fills:
    """Workspace for the fills of one assignment at a time."""
    levels, tensors = space.model.can_keep.shape
    return Fills(
        least_pj=np.zeros(levels),
        outside=assignment_workspace(space),
        moved_pj=np.zeros(tensors),
        once_pj=np.zeros(tensors),
    )


def lattice_workspace(space: Space, size: int) -> Lattice:
    """Workspace for the bounds of an assignment of at most ``size`` vectors."""
    dims, most = space.divisors.shape
    # One row of numbers a table, not an array of four axes: kernels compute an offset once and go along it.
    # The tables are not cleared here, because they are by far the largest arrays of a solve and every entry
    # is written before it is read.
    states = len(space.least) * space.most_subsets * len(space.runs) * size
    return Lattice(
        counts=np.zeros(dims, np.int64),
        value=np.zeros((dims, most), np.int64),
        stride=np.zeros(dims, np.int64),
        size=np.zeros(1, np.int64),
        opened=np.empty(states),
        closed=np.empty(states),
        subset=np.zeros(len(space.least), np.int64),
        scratch=np.empty(size),
        digits=np.zeros(dims, np.int64),
        tile=np.zeros(dims, np.int64),
        steps=Steps(*(np.zeros(1, np.int64) for _ in Steps._fields)),
    )


def nodes_workspace(space: Space, size: int) -> Nodes:
    """Workspace for the open branch of a search among ``size`` vectors."""
    levels, dims = space.least.shape
    whole, real = partial(np.zeros, dtype=np.int64), partial(np.zeros, dtype=np.float64)
    return Nodes(
        level=whole(1),
        vector=whole((levels, dims)),
        energy=real(levels),
        demand=real((levels, 3, levels, len(space.model.slides))),
        runs=whole(levels),
        repeats=real((levels, len(space.model.slides))),
        groups=real((levels, len(space.model.slides))),
        operands=real((levels, len(space.model.slides))),
        loops=loops_workspace(levels, dims),
        order=whole(levels),
        order_end=whole(levels),
        children=np.empty((levels, size), np.int64),
        bounds=np.empty((levels, size)),
        child=whole(levels),
        child_count=whole(levels),
        leaf_vector=whole((LEAVES, levels, dims)),
        leaf_order=whole((LEAVES, levels)),
        leaf_bound=real(LEAVES),
        leaf_count=whole(1),
        visited=whole(1),
        listed=whole(1),
        floors=real((len(space.runs), len(space.runs))),
        pick_count=whole(dims),
        pick=whole(dims),
        allowed=whole(space.divisors.shape),
        tile=whole(dims),
        held=whole(levels),
        walk=walk_workspace(space.model.timing),
    )
