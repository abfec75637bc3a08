"""What the compiled half of the exact mapper works on: a problem, an assignment, bounds, the search.

``Space`` is the problem, and does not change (but for its ``prices``). The others are workspaces that the
kernels fill: ``Assignment`` with what follows from spatial factors and kept tensors, ``Lattice`` with bounds
for all tiles of an assignment, ``Nodes`` with the open branch of the search.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from functools import partial
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.mapping.batch_tables import Tables, TemporalLoops, loops_workspace, tables_of
from costmodel.mapping.traffic import distinct_sums
from costmodel.workload.network import Layer
from solvers.mapping.exact.orders import Motion, looped_sets, motions_of, orders_of, runs_together
from solvers.mapping.exact.parts import PartSpace
from solvers.mapping.problem import OBJECTIVES, MappingProblem
from solvers.mapping.space.space import MappingSpace

Array = NDArray[Any]
LEAVES = 256
"""Mappings that a search hands over at a time."""


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
    """[runs] sets of tensors that one block of loops can leave in place, none first."""
    still: Array
    """[runs] the dims whose loops leave all tensors of a set in place."""
    orders: Array
    """[n, dims] all loop orders, innermost loop first."""
    order_start: Array
    """[levels, 2**dims, 2] where the orders of a level's set of loops begin and end."""
    touched: Array
    """[tensors, axes] different positions along an axis that the layer's MACs use."""
    first: Array
    last: Array
    """[levels] the innermost and the outermost part of the same hardware level; of an even one it alone."""
    prices: Array
    """[levels] per word that a part holds, 0 where a level has one part; changed between searches."""
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
    """[dims] what is left of the dims for temporal factors."""
    point: Array
    """[dims] the tile of a MAC unit: 1 each."""
    instances: Array
    """[levels] in use."""
    groups: Array
    """[levels, tensors] multicast groups of a level's fan-out, at least (exact but where ``merging``)."""
    merging: Array
    """[levels, tensors] whether the groups depend on the tile inside the fan-out, as several dims of one axis
    are spread there."""
    outermost_merging: Array
    """[tensors] the outermost such level at or inside the innermost that keeps the tensor, -1 for none."""
    innermost: Array
    """[tensors] the innermost level that keeps the tensor."""
    operands: Array
    """[tensors] words that one instance of that level is asked for by the MAC units, at least."""
    ratio: Array
    """[levels, tensors] words that all parents send over words that fill all instances, at least."""
    partitions: Array
    """[levels] words of the output that one instance is responsible for, at most (exact for outputs without
    overlap)."""
    parent: Array
    """[levels, tensors] the next level outside that keeps the tensor, -1 for none."""
    child: Array
    """[levels, tensors] the next level inside that keeps the tensor, -1 for none."""
    floor_words: Array
    """[levels, tensors] words that fill all instances of a level if no loop outside repeats them."""
    axis_words: Array
    """[levels, tensors, axes] different positions of a tile's axis in one instance, at least."""
    iterations: Array
    """[1] temporal iterations of the whole nest: the compute cycles of every mapping of the assignment."""
    energy_pj: Array
    """[1] energy that every mapping of the assignment needs, whatever its loops."""
    cycles: Array
    """[1] cycles that every mapping of the assignment needs."""
    demand: Array
    """[2, levels, tensors] words per instance that are read, and written, whatever the loops."""


class Steps(NamedTuple):
    """How far the bound of an assignment has come: it is computed in steps, so that the clock can be looked
    at in between."""

    done: Array
    """[1] how many steps are done; 0: the next call begins anew."""
    left: Array
    """[1] how many more tiles are looked at before the next look at the clock."""
    reached: Array
    """[1] the step that the call under way has come to."""


class Lattice(NamedTuple):
    """All vectors of divisors of ``Assignment.rest``, numbered in mixed radix, and bounds for each."""

    counts: Array
    """[dims] how many divisors."""
    value: Array
    """[dims, most] ascending."""
    stride: Array
    """[dims] of the numbering."""
    size: Array
    """[1] how many vectors there are."""
    opened: Array
    """[levels * subsets * runs * size] least energy inside a level, its temporal loops still to be chosen."""
    closed: Array
    """[levels * subsets * runs * size] the same for a level's temporal loops chosen."""
    subset: Array
    """[levels] which of the ``Space.most_subsets`` tables of a level are meant."""
    scratch: Array
    """[size]"""
    digits: Array
    """[dims] of the vector looked at."""
    tile: Array
    """[dims] what a vector and the spatial factors cover."""
    steps: Steps


class Nodes(NamedTuple):
    """The branch of the search that is open, a node per level, and the leaves found."""

    level: Array
    """[1] the level whose temporal loops are being chosen; the number of levels: the search is over."""
    inside: Array
    """[levels, dims] temporal points covered at and inside a level (0: level 0's own block)."""
    energy: Array
    """[levels] of what is decided outside a node."""
    demand: Array
    """[levels, 2, levels, tensors] the same for words read and written per instance."""
    runs: Array
    """[levels] tensors that the first loops outside a node leave in place."""
    repeats: Array
    """[levels, tensors] irrelevant loops outside a node, but those first ones."""
    groups: Array
    """[levels, tensors] multicast groups of the fan-outs outside a node; those of its own level are the first
    that its children decide."""
    operands: Array
    """[levels, tensors] words asked for by the MAC units, with those groups (``Assignment.operands``)."""
    loops: TemporalLoops
    """Those of the levels decided so far, at the end of the row."""
    order: Array
    """[levels] the order under way, an index of ``Space.orders``, and its end."""
    order_end: Array
    children: Array
    """[levels, size] vectors inside a level's loops, best bound first."""
    bounds: Array
    """[levels, size] of the children."""
    child: Array
    """[levels] the child under way."""
    child_count: Array
    leaf_inside: Array
    """[LEAVES, levels, dims] the leaves found, as ``inside``."""
    leaf_order: Array
    """[LEAVES, levels] the orders of their levels."""
    leaf_bound: Array
    """[LEAVES] bounds on their costs, mostly the costs themselves."""
    leaf_count: Array
    """[1]"""
    visited: Array
    """[1] nodes opened since the search began."""
    listed: Array
    """[1] children looked at since ``explore`` was called."""
    floors: Array
    """[runs, runs] for a node's children: what tensors in place outside, and inside, are delivered."""
    pick_count: Array
    """[dims] how many divisors its children can have."""
    pick: Array
    """[dims] the one under way, an index of ``allowed``."""
    allowed: Array
    """[dims, most] their indices."""
    tile: Array
    """[dims] what the level inside the loops under way covers."""
    held: Array
    """[levels] words held by a part and those outside it of the same level."""


def space_of(problem: MappingProblem, parts: PartSpace, dominance: bool) -> Space:
    """The problem's tables, with the loop orders of all levels and sets of loops: all classes, or without
    the dominated ones."""
    space = parts.space
    layer = problem.layer
    motions = motions_of(layer)
    looping = [index for index, (_, size) in enumerate(layer.dims) if size > 1]
    runs = runs_together(motions, looping)
    temporal = [slot for slot in space.slots if not slot.spatial]
    orders, order_start = _orders(motions, looping, space, dominance)
    return Space(
        model=tables_of(space.architecture, layer),
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
        first=np.array([parts.part_levels.index(place) for place in parts.part_levels], np.int64),
        last=np.array([bisect_right(parts.part_levels, place) - 1 for place in parts.part_levels], np.int64),
        prices=np.zeros(len(parts.part_levels)),
        most_subsets=parts.most_subsets,
    )


def _still(motions: Sequence[Motion], tensors: int) -> int:
    """The dims that move none of a set of tensors."""
    return sum(
        1 << dim
        for dim in range(len(motions[0].axes))
        if all(motion.axes[dim] < 0 for number, motion in enumerate(motions) if tensors >> number & 1)
    )


def _orders(
    motions: tuple[Motion, ...], looping: list[int], space: MappingSpace, dominance: bool
) -> tuple[Array, Array]:
    """``Space.orders`` and ``Space.order_start``."""
    tables = space.tables
    dims = len(space.layer.dims)
    rows: list[tuple[int, ...]] = []
    start = np.zeros((len(space.architecture.levels), (1 << dims), 2), np.int64)
    known: dict[tuple[tuple[int, ...], tuple[int, ...]], int] = {}
    for level, order in enumerate(tables.order.tolist()):
        first, last = tuple(order[: tables.free_from[level]]), tuple(order[tables.free_to[level] :])
        if (first, last) in known:
            start[level] = start[known[first, last]]
            continue
        known[first, last] = level
        for looped in looped_sets(looping):
            inside, outside = (tuple(dim for dim in fixed if dim in looped) for fixed in (first, last))
            found = orders_of(motions, looped, inside, outside, dominance)
            bits = sum(1 << dim for dim in looped)
            start[level, bits] = len(rows), len(rows) + len(found)
            rows += [(*order, *(dim for dim in range(dims) if dim not in looped)) for order in found]
    return np.array(rows, np.int64), start


def _touched(layer: Layer) -> Array:
    most = max(1, *(len(tensor.axes) for tensor in layer.tensors))
    table = np.ones((len(layer.tensors), most), np.int64)
    for number, tensor in enumerate(layer.tensors):
        for index, axis in enumerate(tensor.axes):
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
        demand=real((2, levels, tensors)),
    )


def lattice_workspace(space: Space, size: int) -> Lattice:
    """Workspace for the bounds of an assignment of at most ``size`` vectors."""
    dims, most = space.divisors.shape
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
        inside=whole((levels, dims)),
        energy=real(levels),
        demand=real((levels, 2, levels, len(space.model.slides))),
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
        leaf_inside=whole((LEAVES, levels, dims)),
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
    )
