"""Filling one block of loops (*stack* and *cache*): by steps, or by all products of divisors."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from costmodel.limits import limit_reached
from solvers.mapping.kapla.estimate import Estimator, SchemeCosts
from solvers.mapping.kapla.ladders import Ladder
from solvers.mapping.kapla.schemes import Schemes
from solvers.tolerance import SAME_COST

Array = NDArray[Any]
MOST_PRODUCTS = 40_000
"""The most products of divisors that one pass evaluates; those of one scheme are evaluated in any case."""

MOST_TRIED = 1_000_000
"""The most products made in one dim, before it is known which of them fit: some hundred bytes each."""

PRODUCTS_AT_ONCE = 50_000
"""Products that are made between two looks at the clock: some ten milliseconds."""

FEWER = "only those of the best schemes go on"
"""The effect of either limit."""


@dataclass(frozen=True)
class Filling:
    """The factors of the slot of ``ladder``, chosen for the cost with all open loops at level ``outer``.

    When ``in_time()`` says that the time is up, factors not chosen yet are the smallest allowed.
    """

    estimator: Estimator
    ladder: Ladder
    outer: int
    in_time: Callable[[], bool] = lambda: True

    def costs(self, schemes: Schemes) -> SchemeCosts:
        return self.estimator.costs(schemes, self.ladder, self.outer)

    def printed(self, schemes: Schemes) -> tuple[Schemes, SchemeCosts]:
        """Every scheme grown step by step until no step fits, as section IV-C prints it; and the costs then.

        The arrays of ``schemes`` are changed.

        Each step is in the dim that helps the tensor with the most accesses most; of those that help it
        alike, the one that helps the tensor with the second most accesses most, and so on. A step takes a
        dim's factor to the next larger one allowed. What a step costs is not looked at, so the last ones may
        make a scheme worse.
        """
        active = np.arange(len(schemes))
        while len(active) and self.in_time():
            one, taken = self._helpful_steps(schemes[active])
            active = active[one]
            for all_rows, new_rows in zip(schemes.arrays, taken.arrays, strict=True):
                all_rows[active] = new_rows
        return schemes, self.costs(schemes)

    def _helpful_steps(self, schemes: Schemes) -> tuple[Array, Schemes]:
        """The rows that some step fits, and those rows after the most helpful one."""
        steps = self.ladder.steps(schemes)
        rows, dims = np.nonzero(steps)
        stepped = schemes.chosen_and_grown(rows, self.ladder.slot, dims, steps[rows, dims])
        fitting = self.estimator.fitting(stepped, self.ladder, self.outer)
        rows, stepped = rows[fitting], stepped[np.flatnonzero(fitting)]
        before = self.estimator.accesses(schemes, self.outer)[rows]
        after = self.estimator.accesses(stepped, self.outer)
        # columns in the order of the accesses before the step, the most accessed tensor first
        ranked = np.take_along_axis(after, np.argsort(-before, axis=1, kind="stable"), axis=1)
        order = np.lexsort((*ranked.T[::-1], rows))
        _, first = np.unique(rows[order], return_index=True)
        best = order[first]
        return rows[best], stepped[best]

    def steepest(self, schemes: Schemes) -> tuple[Schemes, SchemeCosts]:
        """Every scheme grown step by step, each time in the dim that lowers its estimated cost most.

        A step takes a dim's factor to the next larger one allowed. Each scheme ends where no step helps. The
        arrays of ``schemes`` are changed.
        """
        costs = self.costs(schemes)
        active = np.arange(len(schemes))
        while len(active) and self.in_time():
            one, taken, theirs = self._best_steps(schemes[active], costs.of(active))
            active = active[one]
            for all_rows, new_rows in zip((*schemes.arrays, *costs), (*taken.arrays, *theirs), strict=True):
                all_rows[active] = new_rows
        return schemes, costs

    def _best_steps(self, schemes: Schemes, costs: SchemeCosts) -> tuple[Array, Schemes, SchemeCosts]:
        """The rows that a step makes better, and those rows and their costs after the best one."""
        steps = self.ladder.steps(schemes)
        rows, dims = np.nonzero(steps)
        stepped = schemes.chosen_and_grown(rows, self.ladder.slot, dims, steps[rows, dims])
        after, before = self.costs(stepped), costs.of(rows)
        # Of steps that leave the objective as it is, those count as better that lower energy times cycles.
        # With cycles as the objective most single steps change nothing, and the climb would end on the first
        # plateau. SAME_COST: a difference by rounding is none.
        lower = after.objective < before.objective * (1 - SAME_COST)
        equal = after.objective <= before.objective * (1 + SAME_COST)
        useful = lower | (equal & (after.edp_pj_cycles < before.edp_pj_cycles * (1 - SAME_COST)))
        best = np.flatnonzero(useful)
        # One step a scheme, the best: two steps that both help may not help, or not fit, together.
        best = best[ranks(after.of(best), rows[best]) == 0]
        return rows[best], stepped[best], after.of(best)

    def spreads(self, schemes: Schemes, best: int, alike: int) -> tuple[Schemes, SchemeCosts]:
        """The ``best`` ways of each scheme to spread over the fan-out, of all that fit.

        Of the ways that cut every tensor into the same number of parts at most ``alike`` are among them.
        Their estimates are nearly equal, so that they would take all positions of a scheme together; what
        becomes of them once tiles grow differs more from way to way of cutting tensors than among them.
        """
        everywhere = np.ones(schemes.rest.shape, np.bool_)
        filled, sources, costs = self._all_products(schemes, everywhere)
        factors, layer = filled.factors(self.ladder.slot), self.estimator.problem.layer
        parts = [
            factors[:, [layer.index[dim] for dim in tensor.dims]].prod(axis=1, dtype=np.int64)
            for tensor in layer.tensors
        ]
        _, cut_alike = np.unique(np.stack([sources, *parts], axis=1), axis=0, return_inverse=True)
        few = np.flatnonzero(ranks(costs, cut_alike.reshape(-1)) < alike)
        chosen = few[ranks(costs.of(few), sources[few]) < best]
        chosen = chosen[np.isfinite(costs.objective[chosen])]
        return filled[chosen], costs.of(chosen)

    def products(self, schemes: Schemes, free: Array, best: int) -> tuple[Schemes, SchemeCosts]:
        """The ``best`` of each scheme with all allowed factors in its ``free`` dims, bool [n, dims]."""
        filled, sources, costs = self._all_products(schemes, free)
        chosen = (ranks(costs, sources) < best) & np.isfinite(costs.objective)
        return filled[chosen], costs.of(chosen)

    def _all_products(self, schemes: Schemes, free: Array) -> tuple[Schemes, Array, SchemeCosts]:
        """Each scheme with all allowed factors in its ``free`` dims, bool [n, dims]; the row of ``schemes``
        that each comes from, int64; and their costs.

        Dim by dim, every scheme is multiplied by the factors that the dim may take; what does not fit goes.
        """
        sources, filled = np.arange(len(schemes)), schemes
        for dim in range(free.shape[1]):
            choices, smallest = self.ladder.choices(filled, dim)
            # A dim that is not free has one factor, the smallest that is allowed; so has every dim once the
            # time is up, and then each scheme still ends as a mapping.
            choices &= (free[sources, dim, None] & self.in_time()) | smallest
            # What fits with all factors of 1 so far fits with one more. The first dim is made in any case,
            # so that all fit.
            if dim and choices[:, 0].all() and np.count_nonzero(choices) == len(choices):
                continue
            few, cut = _first_sources(sources, choices.sum(axis=1), MOST_TRIED)
            if cut:
                limit_reached("products of divisors looked at in one dim", MOST_TRIED, FEWER)
            filled, rows = self._multiplied(filled[few], dim, choices[few], smallest[few])
            sources = sources[few][rows]
            few, cut = _first_sources(sources, np.ones(len(sources)), MOST_PRODUCTS)
            if cut:
                limit_reached("products of divisors in one pass", MOST_PRODUCTS, FEWER)
            filled, sources = filled[few], sources[few]
        return filled, sources, self.costs(filled)

    def _multiplied(
        self, schemes: Schemes, dim: int, choices: Array, smallest: Array
    ) -> tuple[Schemes, Array]:
        """Every scheme with each factor of ``dim`` among its ``choices``, bool [n, divisors].

        Returns the products that fit, and for each the row of ``schemes`` from which it comes. Products are
        made in blocks, with a look at the clock before each: when the time is up, the schemes that are left
        take the ``smallest`` factor.
        """
        parts, origins = [], []
        for block in _blocks(choices.sum(axis=1), PRODUCTS_AT_ONCE):
            own = choices[block] if self.in_time() else choices[block] & smallest[block]
            rows, positions = np.nonzero(own)
            rows += block.start
            factors, slot = self.ladder.divisors[dim][positions], self.ladder.slot
            fitting = self.estimator.grown_fits(
                schemes, slot, dim, rows, factors, self.ladder.forced, self.outer
            )
            rows, factors = rows[fitting], factors[fitting]
            parts.append(schemes.chosen_and_grown(rows, slot, np.full(len(rows), dim), factors))
            origins.append(rows)
        return Schemes.joined(parts), np.concatenate(origins)


def _blocks(counts: Array, most: int) -> Iterator[slice]:
    """Consecutive rows whose ``counts`` add up to at most ``most``, or one row with more; one block at least.

    ``counts`` is int64 [n].
    """
    ends, begin = counts.cumsum(), 0
    while begin < len(counts) or begin == 0:
        before = ends[begin - 1] if begin else 0
        end = max(begin + 1, int(np.searchsorted(ends, before + most, side="right")))
        yield slice(begin, end)
        begin = end


def _first_sources(sources: Array, counts: Array, most: int) -> tuple[Array, bool]:
    """The rows of the first schemes whose ``counts``, one a row, are at most ``most`` together.

    Returns, bool [n], which rows these are (the first scheme's always are), and whether any are left out.
    """
    count = np.bincount(sources, weights=counts, minlength=1).cumsum()
    # Whole schemes are left out, the last ones first: schemes come with the best in front, and of a scheme
    # with half of its products the best product may be the one that is missing.
    last = max(1, int((count <= most).sum()))
    return sources < last, last < len(count)


def ranks(costs: SchemeCosts, groups: Array) -> Array:
    """The rank of every row in its group, 0 for the cheapest, int64 [n]."""
    order = np.lexsort((costs.edp_pj_cycles, costs.objective, groups))
    ordered = groups[order]
    # ``order`` has the rows group by group, the cheapest of each group first; ``new`` is where groups begin
    # in it.
    new = np.flatnonzero(np.concatenate([[True], ordered[1:] != ordered[:-1]]))
    lengths = np.diff(np.concatenate([new, [len(ordered)]]))
    found = np.empty(len(ordered), np.int64)
    found[order] = np.arange(len(ordered)) - np.repeat(new, lengths)
    return found
