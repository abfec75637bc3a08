"""Filling one block of loops: greedily, a smallest step at a time, or by all products of divisors."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.mapping.kapla.estimate import Costs, Estimator
from solvers.mapping.kapla.ladders import Ladder
from solvers.mapping.kapla.schemes import Schemes

Array = NDArray[Any]
LEAST_GAIN = 1e-9
"""Steps that gain less than this fraction are rounding."""

MOST_PRODUCTS = 40_000
"""Products of divisors that one pass evaluates: those of the best schemes, and of one scheme at least."""


@dataclass(frozen=True)
class Filling:
    """The factors of the slot of ``ladder``, chosen for the cost with all open loops at level ``outer``."""

    estimator: Estimator
    ladder: Ladder
    outer: int

    def costs(self, schemes: Schemes) -> Costs:
        return self.estimator.costs(schemes, self.ladder, self.outer)

    def greedy(self, schemes: Schemes) -> tuple[Schemes, Costs]:
        """Every scheme grown step by step, each time in the dim that lowers its cost most (section IV-C).

        A step takes a dim's factor to the next larger one allowed. Each scheme ends where no step helps.
        """
        costs = self.costs(schemes)
        active = np.arange(len(schemes))
        while len(active):
            one, taken, theirs = self._best_steps(schemes[active], costs.of(active))
            active = active[one]
            for all_rows, new_rows in zip((*schemes.arrays, *costs), (*taken.arrays, *theirs), strict=True):
                all_rows[active] = new_rows
        return schemes, costs

    def _best_steps(self, schemes: Schemes, costs: Costs) -> tuple[Array, Schemes, Costs]:
        """The rows that a step makes better, and those rows and their costs after the best one."""
        steps = self.ladder.steps(schemes)
        rows, dims = np.nonzero(steps)
        stepped = schemes.chosen_and_grown(rows, self.ladder.slot, dims, steps[rows, dims])
        after, before = self.costs(stepped), costs.of(rows)
        lower = after.objective < before.objective * (1 - LEAST_GAIN)
        equal = after.objective <= before.objective * (1 + LEAST_GAIN)
        useful = lower | (equal & (after.edp_pj_cycles < before.edp_pj_cycles * (1 - LEAST_GAIN)))
        best = np.flatnonzero(useful)
        best = best[ranks(after.of(best), rows[best]) == 0]
        return rows[best], stepped[best], after.of(best)

    def products(self, schemes: Schemes, free: Array, best: int) -> tuple[Schemes, Costs]:
        """The ``best`` of each scheme with all allowed factors in its ``free`` dims, bool [n, dims]."""
        sources, filled = np.arange(len(schemes)), schemes
        for dim in range(free.shape[1]):
            choices = self.ladder.choices(filled, dim)
            stay = self.ladder.first[dim, self.ladder.places(filled.rest)[:, dim]]
            choices &= free[sources, dim, None] | (self.ladder.divisors[dim] == stay[:, None])
            rows, places = np.nonzero(choices)
            factors = self.ladder.divisors[dim][places]
            filled = filled.chosen_and_grown(rows, self.ladder.slot, np.full(len(rows), dim), factors)
            sources = sources[rows]
            fitting = self.estimator.fits(filled, self.ladder, self.outer) & self._within_fanout(filled)
            within = fitting & _first_sources(sources, fitting)
            filled, sources = filled[within], sources[within]
        costs = self.costs(filled)
        chosen = (ranks(costs, sources) < best) & np.isfinite(costs.objective)
        return filled[chosen], costs.of(chosen)

    def _within_fanout(self, schemes: Schemes) -> Array:
        """Whether spatial factors are not more than there are instances; their sides are not looked at."""
        slot = self.ladder.slot
        if not slot.spatial:
            return np.ones(len(schemes), np.bool_)
        fanout = self.estimator.problem.architecture.levels[slot.level].fanout
        found: Array = schemes.factors(slot).prod(axis=1, dtype=np.int64) <= fanout
        return found


def _first_sources(sources: Array, fitting: Array) -> Array:
    """Which rows belong to the first schemes that together have ``MOST_PRODUCTS`` rows, bool [n]."""
    count = np.bincount(sources, weights=fitting, minlength=1).cumsum()
    last = max(1, int((count <= MOST_PRODUCTS).sum()))
    return sources < last


def ranks(costs: Costs, groups: Array) -> Array:
    """The place of every row among those of its group, the cheapest first, int64 [n]."""
    order = np.lexsort((costs.edp_pj_cycles, costs.objective, groups))
    ordered = groups[order]
    new = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    lengths = np.diff(np.concatenate([new, [len(ordered)]]))
    found = np.empty(len(ordered), np.int64)
    found[order] = np.arange(len(ordered)) - np.repeat(new, lengths)
    return found
