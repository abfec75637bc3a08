"""The assignments of a problem (spatial factors and kept tensors) in the order of their lower bounds.

In the code a *spread* is one choice of all levels' spatial factors, a row of the list that the search begins
with; a *keep set* is what all levels keep.
"""

from __future__ import annotations

from heapq import heapify, heappop, heappush
from math import inf, nan
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from costmodel.divided_compiling import Call
from costmodel.limits import limit_reached
from solvers.budget import InTime, OutOfTimeError
from solvers.mapping.exact.chains import chains_of
from solvers.mapping.exact.parts import PartSpace
from solvers.mapping.exact.prices import ANY_ORDER, AssignmentKey, Prices
from solvers.mapping.exact.tables import (
    Assignment,
    Fills,
    Lattice,
    Space,
    assignment_workspace,
    fills_workspace,
)

Array = NDArray[Any]
MOST_WAITING = 2_000_000
"""Assignments in the queue above which those not below the limit are forgotten; the search ends if that
leaves more than half."""

SPREADS_AT_ONCE = 50_000
"""Choices of spatial factors that are bounded between two looks at the clock."""


class Waiting(NamedTuple):
    """An assignment in a queue, which is ordered by the lower bounds on the objective."""

    bound: float
    which: AssignmentKey
    by_fills: bool
    """Whether the bound is that of the levels' fills, or one that is closer, and not only a cheap one."""


class StoppingRule(NamedTuple):
    """When the search may end: once a bound proves that no mapping is better than the best by more than
    ``tolerance``, a fraction of its objective. ``floor`` is a bound known beforehand, the cost model's."""

    tolerance: float
    floor: float


class Assignments:
    """The assignments of a problem in the order of their lower bounds, each bounded as closely as needed.

    An assignment is bounded in four stages, each closer and only reached by what the one before leaves open:

    1. its spatial factors, whatever levels keep: about a microsecond (*cheap*);
    2. these with the tensors that each level keeps: less than that (*cheap*);
    3. the least fills of every level by itself, ``kernels/fills_kernel.py``: some ten microseconds, as most
       of it is common to many assignments;
    4. the tables of all its tiles, ``kernels/bound_kernel.py``: about a millisecond (*close*).

    Where levels are uneven, there is no stage 3, as their parts have no capacity of their own, and stage 4
    comes twice: for all orders of the parts at once, then for each order. Where partial sums are wider than
    finished ones there is no stage 3 either: which of them a tile holds is not known without the factors
    inside it.
    ``assignment`` and ``lattice`` hold the assignment loaded last.
    """

    def __init__(
        self, tables: Space, parts: PartSpace, lattice: Lattice, factors: Array, goal: StoppingRule
    ) -> None:
        self._tables = tables
        self._stopping = goal
        self._spreads = factors
        self.assignment: Assignment = assignment_workspace(tables)
        self.lattice = lattice
        self._prices = Prices(tables, self.assignment, lattice)
        self._keeps, self._orders = parts.keeps, parts.orders
        self._chains = chains_of(self._keeps, self.assignment.ratio.shape[1])
        self._spread_bounds = np.empty(len(factors))
        self._bounded = 0
        """How many choices of spatial factors have their bound; no assignment is handed out before all."""
        self._order = np.empty(0, np.int64)
        self._next = 0
        self._fills: Fills = fills_workspace(tables)
        self._takes_fills = parts.is_even and not tables.model.wide_sums
        """Whether there is a stage 3."""
        fanouts = np.cumprod(tables.model.fanout_x * tables.model.fanout_y)
        self._shared_levels = [level for level in range(len(fanouts) - 1) if fanouts[level] > 1]
        """The levels with a fan-out at or inside them: assignments may differ in that alone, and then have
        the same fills of these levels."""
        self._known_fills: dict[tuple[int, bytes, bytes], float] = {}
        """Their least fills in pJ, by the level, the spatial factors outside it and what is kept from it
        outwards."""
        self._cheap: list[Waiting] = []
        """Heap of assignments without a close bound."""
        self._close: list[Waiting] = []
        """Heap of assignments with a close bound."""
        self._served = False
        self.full = False
        """Whether more assignments wait than memory allows, so that the search has to end."""

    @property
    def bound(self) -> float:
        """No mapping of the assignments not handed out yet costs less, whether they are in a queue or not;
        infinite when there is none."""
        if self._bounded < len(self._spreads):
            return self._stopping.floor
        return max(self._stopping.floor, min(self._next_spread, _least(self._cheap), _least(self._close)))

    def code(self) -> tuple[Call, Call, Call, Call]:
        """The kernels that bound assignments: closely, by their fills, by spatial factors, and by what levels
        keep."""
        from solvers.mapping.exact.kernels.bound_kernel import bound_of_assignment
        from solvers.mapping.exact.kernels.choice_kernel import keep_bounds, spread_bounds
        from solvers.mapping.exact.kernels.fills_kernel import bound_of_fills

        spreads, common = self._spreads, (self._chains, self.assignment, self._spread_bounds)
        return (
            Call(bound_of_assignment, (self._tables, self.assignment, self.lattice, True)),
            Call(bound_of_fills, (self._tables, self.assignment, self.lattice, self._fills)),
            Call(spread_bounds, (self._tables, spreads, *common)),
            Call(keep_bounds, (self._tables, spreads[0], *common)),
        )

    @property
    def _next_spread(self) -> float:
        """The bound of the next spatial factors whose assignments are not in the queue; infinite if none."""
        return float(self._spread_bounds[self._order[self._next]]) if self._next < len(self._order) else inf

    def _shorten(self, limit: float) -> None:
        """If the queue is too long, forget what costs at least ``limit``; if that leaves too much, the search
        is ``full``."""
        if len(self._cheap) + len(self._close) > MOST_WAITING:
            for queue in (self._cheap, self._close):
                queue[:] = [waiting for waiting in queue if waiting.bound < limit]
                heapify(queue)
            self.full = len(self._cheap) + len(self._close) > MOST_WAITING // 2
            if self.full:
                effect = "the search ends before its proof, for want of memory"
                limit_reached("assignments of spatial factors that wait", MOST_WAITING, effect)

    def pop(self, limit: float, in_time: InTime) -> bool:
        """Load the next assignment to search; False if there is none.

        That is so if no bound is below ``limit``, if no time is left, or if more assignments wait than memory
        allows (``full``).

        The assignment with the least close bound is handed out as soon as a mapping at that bound would end
        the search, given the bounds of all that have no close bound yet. Until then the one with the least
        cheap bound goes on to its next stage. With a tolerance, most never need a close bound.

        If the time is up before the first assignment was handed out, the best one by then is, so that the
        search can find an answer; of a large layer even its close bound may take too long.
        """
        if not self._bound_spreads(in_time):
            return False
        while self.bound < limit:
            self._shorten(limit)
            late = self.full or not in_time()
            if late and self._served:
                return False
            # While no mapping is known, no bound rules a keep set out, and those of all spatial factors would
            # fill the queue: so the next spatial factors stay where they are as long as anything else is
            # left.
            stay = late or (limit == inf and len(self._keeps) > 1)
            stay = stay and bool(self._cheap or self._close)
            others = min(_least(self._cheap), inf if stay else self._next_spread)
            if self._close and (late or self._is_promising(self._close[0].bound, others)):
                waiting = heappop(self._close)
                if waiting.which.order == ANY_ORDER:
                    self._split_orders(waiting)
                    continue
                # Again: the workspaces have been overwritten since this bound was computed.
                try:
                    self._load(waiting.which, limit, in_time)
                except OutOfTimeError:
                    heappush(self._close, waiting)
                    return False
                self._served = True
                return True
            if others < _least(self._cheap) or not self._cheap:
                self._split(int(self._order[self._next]), limit)
                self._next += 1
                continue
            waiting = heappop(self._cheap)
            if waiting.which.order == ANY_ORDER and late:
                self._split_orders(waiting)
                continue
            if not waiting.by_fills and not late:
                bound = max(waiting.bound, self.bound_of_fills(waiting.which))
                if bound < limit:
                    heappush(self._cheap, Waiting(bound, waiting.which, True))
                continue
            try:
                bound = self._load(waiting.which, limit, in_time)
            except OutOfTimeError:
                heappush(self._cheap, waiting)
                return False
            if late and bound < inf:
                self._served = True
                return True
            if bound < inf:
                heappush(self._close, Waiting(max(bound, waiting.bound), waiting.which, True))
        return False

    def _is_promising(self, close: float, others: float) -> bool:
        """Whether a mapping that costs ``close`` or less would be good enough, if all mappings outside the
        assignments with a close bound cost at least ``others``."""
        return close * (1 - self._stopping.tolerance) <= max(self._stopping.floor, others)

    def _split_orders(self, waiting: Waiting) -> None:
        """Put an assignment that stands for all orders of the parts back into the queue, once for each."""
        for order in range(len(self._orders[waiting.which.keeps])):
            heappush(self._cheap, Waiting(waiting.bound, waiting.which._replace(order=order), True))

    def _bound_spreads(self, in_time: InTime) -> bool:
        """Fill the bounds of all spatial factors, unless that is done; False if time ends it."""
        from solvers.mapping.exact.kernels.choice_kernel import spread_bounds

        while self._bounded < len(self._spreads):
            some = slice(self._bounded, self._bounded + SPREADS_AT_ONCE)
            spread_bounds(
                self._tables, self._spreads[some], self._chains, self.assignment, self._spread_bounds[some]
            )
            self._bounded = min(some.stop, len(self._spreads))
            if self._bounded == len(self._spreads):
                self._order = np.argsort(self._spread_bounds, kind="stable")
            elif not in_time():
                return False
        return True

    def _split(self, spread: int, limit: float) -> None:
        """Put the assignments with the spatial factors number ``spread`` into the queue, one for every keep
        set whose bound is below ``limit``."""
        from solvers.mapping.exact.kernels.choice_kernel import keep_bounds

        bounds = self._spread_bounds[spread : spread + 1]
        if len(self._keeps) > 1:
            bounds = np.empty(len(self._keeps))
            keep_bounds(self._tables, self._spreads[spread], self._chains, self.assignment, bounds)
        for keeps in np.flatnonzero(bounds < limit).tolist():
            order = ANY_ORDER if len(self._orders[keeps]) > 1 else 0
            which = AssignmentKey(spread, keeps, order)
            heappush(self._cheap, Waiting(float(bounds[keeps]), which, not self._takes_fills))

    def bound_of_fills(self, which: AssignmentKey) -> float:
        """The bound of the assignment ``which`` from the least fills of its levels; these are remembered."""
        from solvers.mapping.exact.kernels.fills_kernel import bound_of_fills

        spatial, keep = self._spreads[which.spread], self._orders[which.keeps][0]
        self.assignment.spatial[:] = spatial
        self.assignment.keep[:] = keep
        keys = [
            (level, spatial[level + 1 :].tobytes(), keep[level:].tobytes()) for level in self._shared_levels
        ]
        least_pj = self._fills.least_pj
        least_pj[:] = nan
        for key in keys:
            least_pj[key[0]] = self._known_fills.get(key, nan)
        bound = float(bound_of_fills(self._tables, self.assignment, self.lattice, self._fills))
        for key in keys:
            self._known_fills[key] = float(least_pj[key[0]])
        return bound

    def _load(self, which: AssignmentKey, limit: float, in_time: InTime) -> float:
        """Fill ``assignment`` and ``lattice`` for the assignment ``which``; the result is its close bound.

        Raises OutOfTimeError if time ends before that."""
        self.assignment.spatial[:] = self._spreads[which.spread]
        self.assignment.keep[:] = self._orders[which.keeps][max(which.order, 0)]
        return self._prices.bound(limit, which, in_time)


def _least(queue: list[Waiting]) -> float:
    """The least bound in a heap, infinite if it is empty."""
    return queue[0].bound if queue else inf
