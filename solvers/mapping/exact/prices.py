"""Prices of capacity at uneven levels, chosen so that the bound of an assignment is as high as it gets.

Why words have a price at all is told in ``kernels/bound_kernel.py``. The bound holds at any price. At 0 it
ignores that the parts of a level share its capacity; at a very high price it pays for capacity that no
mapping uses, and falls again.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from solvers.budget import InTime, always_in_time
from solvers.mapping.exact.bound import AT_ONCE, bound_in_time
from solvers.mapping.exact.tables import Assignment, Lattice, Space

WORTHS = (0.0, *(2.0**power for power in range(-12, 3)))
"""What all the capacity of a level can be worth, as a part of the energy of the first assignment."""

FIRST = WORTHS.index(1 / 16)
"""Where the first climb begins."""

Choice = tuple[int, ...]
"""An index of ``WORTHS`` for every level of several parts."""


ANY_ORDER = -1
"""Stands for the number of an order where the bound is to hold for all of them."""


class AssignmentKey(NamedTuple):
    """An assignment: the numbers of its spatial factors, of what levels keep and of the order in which uneven
    levels' tiles end, or :data:`ANY_ORDER`."""

    spread: int
    keeps: int
    order: int


class Prices:
    """The bound of an assignment as a function of the prices, which is concave: a minimum of linear ones.

    Every climb begins where the last one ended, for assignments of similar bounds have similar prices.
    """

    def __init__(self, tables: Space, assignment: Assignment, lattice: Lattice) -> None:
        self._tables, self._assignment, self._lattice = tables, assignment, lattice
        self._levels = [i for i in range(len(tables.prices)) if tables.first[i] == i < tables.last[i]]
        self._usual: Choice = (0,) * len(self._levels)
        self._unit = 0.0
        self._chosen: dict[AssignmentKey, Choice] = {}
        self._any_order = False
        self._in_time: InTime = always_in_time
        self._climbing: AssignmentKey | None = None
        self._tried: dict[Choice, float] = {}
        """The bounds of that assignment by prices: a climb that time ends goes on with them."""

    def bound(self, limit: float, which: AssignmentKey, in_time: InTime) -> float:
        """The bound of the assignment ``which``, whose factors and keep sets have been written into the
        workspace, at its best prices, or at the first that make it reach ``limit``.

        The lattice is afterwards that of this bound. When an assignment is asked for again, its prices are
        known. Raises OutOfTimeError where ``in_time()`` ends it; it is first asked after ``AT_ONCE`` tiles.
        """
        self._any_order = which.order == ANY_ORDER
        self._in_time = in_time
        self._lattice.steps.left[0] = AT_ONCE
        if not self._levels:
            return self._bound()
        if which in self._chosen:
            return self._bound_at(self._chosen[which])
        if not self._unit:
            self._begin()
        if which != self._climbing:
            self._climbing, self._tried = which, {}
        near = self._chosen.get(which._replace(order=ANY_ORDER), self._usual)
        self._chosen[which], best = self._climb(near, limit)
        self._usual = self._chosen[which]
        return best

    def _begin(self) -> None:
        """Take the energy of the assignment as the unit, unless nothing fits it."""
        self._bound_at(self._usual)
        lattice, levels = self._lattice, len(self._assignment.keep)
        row = (levels - 1) * self._tables.most_subsets * len(self._tables.runs)
        whole = (row + 1) * int(lattice.size[0]) - 1
        energy = float(self._assignment.energy_pj[0] + lattice.opened[whole])
        if energy < inf:
            self._unit, self._usual = energy, (FIRST,) * len(self._levels)

    def _climb(self, chosen: Choice, limit: float) -> tuple[Choice, float]:
        """Up a level's prices, then down, as long as that raises the bound."""
        filled: Choice | None = None

        def bound_at(prices: Choice) -> float:
            nonlocal filled
            if prices not in self._tried:
                self._tried[prices], filled = self._bound_at(prices), prices
            return self._tried[prices]

        at, best = chosen, bound_at(chosen)
        last = best
        for level in range(len(chosen)):
            for step in (1, -1):
                while best < limit and 0 <= chosen[level] + step < len(WORTHS):
                    moved = (*chosen[:level], chosen[level] + step, *chosen[level + 1 :])
                    at, last = moved, bound_at(moved)
                    if last <= best:
                        break
                    chosen, best = moved, last
        at = at if last == best else chosen
        if filled != at:  # the lattice is to be that of the best bound
            self._bound_at(at)
        return chosen, best

    def _bound_at(self, chosen: Choice) -> float:
        for level, index in zip(self._levels, chosen, strict=True):
            price = WORTHS[index] * self._unit / self._tables.model.usable_words[level]
            self._tables.prices[level : self._tables.last[level] + 1] = price
        return self._bound()

    def _bound(self) -> float:
        return bound_in_time(self._tables, self._assignment, self._lattice, self._any_order, self._in_time)
