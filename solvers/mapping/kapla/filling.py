"""Filling one block of loops (*stack* and *cache*): by steps, or by all products of divisors."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from costmodel.limits import limit_reached
from solvers.mapping.kapla.estimate import Estimator, SchemeCosts
from solvers.mapping.kapla.ladders import Ladder
from solvers.mapping.kapla.schemes import Schemes

if TYPE_CHECKING:
    from solvers.mapping.kapla.filling_kernel import Judge, LadderTables

Array = NDArray[Any]
MOST_PRODUCTS = 40_000
"""The most products of divisors that one pass evaluates; those of one scheme are evaluated in any case."""

AT_ONCE = 20_000
"""Steps, or factors tried, between two looks at the clock: some ten milliseconds."""

LISTED_AT_ONCE = 4096
"""Products that compiled code lists in a call."""

FEWER = "only those of the best schemes go on"
"""The effect of the limit."""


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
        from solvers.mapping.kapla.filling_kernel import Climbs, climb

        costs, count = self.costs(schemes), len(schemes)
        climbs = Climbs(*costs, np.ones(count, np.bool_), np.zeros(1, np.int64))
        going = True
        while going:
            going = self.in_time()
            climb(self._judge, self._ladder_tables, schemes.rows, AT_ONCE if going else 0, climbs)
            going = going and bool(climbs.active.any())
        self.estimator.evaluations += int(climbs.evaluated[0])
        return schemes, costs

    @cached_property
    def _judge(self) -> Judge:
        return self.estimator.judge(self.ladder.forced, self.outer)

    @cached_property
    def _ladder_tables(self) -> LadderTables:
        return self.ladder.tables(self.estimator.space)

    def spreads(self, schemes: Schemes, best: int, alike: int) -> tuple[Schemes, SchemeCosts]:
        """The ``best`` ways of each scheme to spread over the fan-out, of all that fit.

        Of the ways that cut every tensor into the same number of parts at most ``alike`` are among them.
        Their estimates are nearly equal, so that they would take all positions of a scheme together; what
        becomes of them once tiles grow differs more from way to way of cutting tensors than among them.
        """
        listed = self._all_products(schemes, np.ones(schemes.rest.shape, np.bool_))
        layer = self.estimator.problem.layer
        # a number for each scheme and the parts that its tensors are cut into
        cut_alike = listed.sources
        for tensor in layer.tensors:
            parts = listed.factors[:, [layer.index[dim] for dim in tensor.dims]].prod(axis=1, dtype=np.int64)
            both = np.stack([cut_alike, parts])
            _, cut_alike = np.unique(both[0] * (parts.max(initial=0) + 1) + both[1], return_inverse=True)
        few = np.flatnonzero(ranks(listed.costs, cut_alike) < alike)
        return self._best_of(schemes, listed.of(few), best)

    def products(self, schemes: Schemes, free: Array, best: int) -> tuple[Schemes, SchemeCosts]:
        """The ``best`` of each scheme with all allowed factors in its ``free`` dims, bool [n, dims]."""
        return self._best_of(schemes, self._all_products(schemes, free), best)

    def _best_of(self, schemes: Schemes, listed: ListedProducts, best: int) -> tuple[Schemes, SchemeCosts]:
        """The ``best`` products of each scheme that fit, and what they cost."""
        chosen = (ranks(listed.costs, listed.sources) < best) & np.isfinite(listed.costs.objective)
        few = listed.of(np.flatnonzero(chosen))
        filled = schemes[few.sources]
        filled.fill(self.ladder.slot, few.factors)
        return filled, few.costs

    def _all_products(self, schemes: Schemes, free: Array) -> ListedProducts:
        """Each scheme with all allowed factors in its ``free`` dims, bool [n, dims], that fit.

        They come scheme by scheme, and of each in ascending order of factors. When the time is up, each
        scheme that is left, and each dim of the one at hand, takes its smallest factors, so that each still
        ends as a mapping.
        """
        from solvers.mapping.kapla.filling_kernel import Products, ProductWalk, list_products

        copies = schemes[np.arange(len(schemes))].rows  # into which products are written one after the other
        dims, most = free.shape[1], LISTED_AT_ONCE
        walk = ProductWalk(np.zeros(2, np.int64), np.zeros(dims, np.int64), np.full(dims, -1))
        sources, factors = np.empty(most, np.int64), np.empty((most, dims), np.int32)
        found = Products(sources, factors, np.empty(most), np.empty(most), np.zeros(1, np.int64))
        listed = ListedProducts(sources[:0], factors[:0], SchemeCosts(found.objective[:0], found.edp[:0]))
        judge, ladder, going = self._judge, self._ladder_tables, True
        while going:
            list_products(judge, ladder, copies, free, not self.in_time(), AT_ONCE, walk, found)
            new = slice(int(found.listed[0]))
            costs = SchemeCosts(found.objective[new], found.edp[new])
            listed = listed.followed_by(ListedProducts(sources[new], factors[new], costs))
            # Beyond the limit only the first scheme is listed to its end.
            going = walk.at[0] < len(schemes) and (len(listed.sources) <= MOST_PRODUCTS or walk.at[0] == 0)
        listed = listed.within(MOST_PRODUCTS, len(schemes))
        self.estimator.evaluations += len(listed.sources)
        return listed


@dataclass(frozen=True, eq=False)
class ListedProducts:
    """Products of divisors: the number of the scheme of each, int64 [n], its factors in the slot, int32 [n,
    dims], and its costs."""

    sources: Array
    factors: Array
    costs: SchemeCosts

    def of(self, rows: Array) -> ListedProducts:
        return ListedProducts(self.sources[rows], self.factors[rows], self.costs.of(rows))

    def followed_by(self, other: ListedProducts) -> ListedProducts:
        """These products and then the ``other`` ones, copied."""
        costs = (np.concatenate(pair) for pair in zip(self.costs, other.costs, strict=True))
        return ListedProducts(
            np.concatenate([self.sources, other.sources]),
            np.concatenate([self.factors, other.factors]),
            SchemeCosts(*costs),
        )

    def within(self, most: int, schemes: int) -> ListedProducts:
        """Those of the first schemes, of so many, that have at most ``most`` products together.

        All of the very first scheme, however many these are. Whole schemes are left out, the last ones first:
        schemes come with the best in front, and of a scheme with half of its products the best product may be
        the one that is missing.
        """
        if len(self.sources) <= most:
            return self
        counts = np.bincount(self.sources, minlength=schemes).cumsum()
        kept = max(1, int((counts <= most).sum()))
        if kept < schemes:
            limit_reached("products of divisors in one pass", most, FEWER)
        return self.of(np.flatnonzero(self.sources < kept))


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
