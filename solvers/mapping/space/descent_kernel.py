"""Compiled: descents from many mappings at once, to the best neighbour of each as long as that is better.

Imports numba. Neighbours are those of :mod:`.neighbours_kernel`, and the cost is the cost model's count of a
row (:mod:`costmodel.mapping.batch.batch_kernel`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.compiled import entry, inlined
from costmodel.mapping.batch.batch_kernel import prepare_row, row_cost
from solvers.mapping.space.neighbours_kernel import copy_row, neighbours_of
from solvers.tolerance import SAME_COST

if TYPE_CHECKING:
    from costmodel.mapping.batch.batch_tables import BatchRows, RowCounts, Tables
    from solvers.mapping.space.neighbours_kernel import Changes, NeighbourWork
    from solvers.mapping.space.tables import RuleTables

Array = NDArray[Any]
Int = Any
"""A 64-bit integer of compiled code."""

ENERGY, CYCLES, EDP = range(3)
"""Objectives, by their numbers in ``solvers.mapping.problem.OBJECTIVES``."""
TEMPORAL, SPATIAL = range(2)
"""Blocks of loops, as the bounds of factors number them."""


class Descents(NamedTuple):
    """``n`` descents that go on side by side.

    ``rows``: where each of them is now; ``costs`` float64 [n]: the objective there, infinite where the row is
    no allowed mapping; ``active`` bool [n]: whether it goes on. ``around``: rows for the neighbours of one
    row. ``evaluated`` int64 [1]: how many neighbours were counted.
    """

    rows: BatchRows
    costs: Array
    active: Array
    around: BatchRows
    evaluated: Array


class Goal(NamedTuple):
    """``objective``: ENERGY, CYCLES or EDP. No mapping costs less than ``bound``."""

    objective: int
    bound: float


@entry
def descend(
    tables: Tables,
    counts: RowCounts,
    changes: Changes,
    work: NeighbourWork,
    rules: RuleTables,
    goal: Goal,
    most: int,
    descents: Descents,
) -> None:
    """Take a step of each active descent in turn, until none is active or ``most`` neighbours are counted.

    A step goes to the best neighbour, of equal ones the first. A descent ends where that is not better, or
    at the bound.
    """
    costs, active = descents.costs, descents.active
    before, going = descents.evaluated[0], True
    while going and descents.evaluated[0] - before < most:
        going = False
        for row in range(active.shape[0]):
            if not active[row]:
                continue
            best, cost = _best_neighbour(tables, counts, changes, work, rules, goal, descents, row)
            # with the tolerance of ``sufficient_bound``: a difference by rounding is none
            active[row] = best >= 0 and (
                costs[row] == np.inf or cost < costs[row] - SAME_COST * abs(costs[row])
            )
            if active[row]:
                copy_row(descents.around, best, descents.rows, row)
                costs[row] = cost
                # as ``within_tolerance`` has it
                active[row] = cost - goal.bound > 2 * SAME_COST * abs(cost)
            going = going or active[row]


@inlined
def _best_neighbour(
    tables: Tables,
    counts: RowCounts,
    changes: Changes,
    work: NeighbourWork,
    rules: RuleTables,
    goal: Goal,
    descents: Descents,
    row: Int,
) -> tuple[Int, float]:
    """The first of the cheapest neighbours of a row, as a row of ``around``, and its cost; -1 for none."""
    around = descents.around
    count = neighbours_of(changes, descents.rows, row, work, around, 0, True)
    descents.evaluated[0] += count
    best, least = -1, np.inf
    for number in range(count):
        if _is_allowed(rules, around, number) and prepare_row(tables, around, number, counts):
            cycles, energy_pj = row_cost(tables, around, number, counts, tables.mac_energy_pj)
            cost = row_objective(goal.objective, cycles, energy_pj)
            if cost < least:
                best, least = number, cost
    return best, least


@inlined
def row_objective(objective: Int, cycles: Int, energy_pj: float) -> float:
    """The number that the objective, ENERGY, CYCLES or EDP, names."""
    value: float = energy_pj * cycles
    if objective == ENERGY:
        value = energy_pj
    elif objective == CYCLES:
        value = float(cycles)
    return value


@inlined
def _is_allowed(rules: RuleTables, rows: BatchRows, row: Int) -> bool:
    """Whether a row obeys the rules on kept tensors, factors and sides."""
    levels, dims = rows.temporal.shape[1:]
    for level in range(levels):
        kept: Int = 0
        for tensor in range(rows.keep.shape[2]):
            kept |= np.int64(rows.keep[row, level, tensor]) << tensor
        if not rules.keeps[level, kept]:
            return False
        if not rules.bounded:
            continue
        for dim in range(dims):
            x, y = np.int64(rows.spatial_x[row, level, dim]), np.int64(rows.spatial_y[row, level, dim])
            if (x > 1 and not rules.sides.may_x[level, dim]) or (y > 1 and not rules.sides.may_y[level, dim]):
                return False
            temporal, spatial = np.int64(rows.temporal[row, level, dim]), x * y
            if not (
                rules.least[TEMPORAL, level, dim] <= temporal <= rules.most[TEMPORAL, level, dim]
                and rules.least[SPATIAL, level, dim] <= spatial <= rules.most[SPATIAL, level, dim]
            ):
                return False
    return True
