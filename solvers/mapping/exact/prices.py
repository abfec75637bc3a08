"""Prices of capacity at uneven levels, chosen to make the bound of an assignment as high as possible.

A price is in pJ for every word that a part holds; ``kernels/bound_kernel.py`` tells why the bound needs it
and holds at any price. At price 0 the bound ignores that the parts of a level have one capacity together. At
a very high price the best mapping of the tables leaves capacity unused, whose worth is subtracted all the
same, and the bound falls again. In between lies the best price.
"""

from __future__ import annotations

from math import inf
from typing import NamedTuple

from solvers.budget import InTime, always_in_time
from solvers.mapping.exact.bound import AT_ONCE, bound_in_time
from solvers.mapping.exact.tables import Assignment, Lattice, Space

WORTHS = (0.0, *(2.0**power for power in range(-12, 3)))
"""The prices that are tried: what the whole capacity of a level is worth, as a fraction of the bound on the
energy of the first assignment. While no assignment fits there is no such bound, and all prices are 0."""

FIRST = WORTHS.index(1 / 16)
"""The index of ``WORTHS`` at which the first climb begins, for every level."""

Choice = tuple[int, ...]
"""An index of ``WORTHS`` for every level of several parts."""


ANY_ORDER = -1
"""In place of the number of an order: the bound holds for all orders of the parts at once."""


class AssignmentKey(NamedTuple):
    """An assignment by its numbers in three lists: of spatial factors (``spread``), of what levels keep
    (``keeps``), and of the orders in which uneven levels' tiles end (or :data:`ANY_ORDER`)."""

    spread: int
    keeps: int
    order: int


class Prices:
    """Finds the prices at which the bound of an assignment is highest.

    For a fixed mapping the relaxed energy is linear in the prices. The bound is the least over all mappings,
    hence concave: a climb over neighbouring prices finds good ones, and any give a bound. Every climb begins
    where the last one ended, for assignments of similar bounds have similar best prices.
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
        """The bounds of that assignment by prices, kept so that a climb that time ended can go on."""

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
        """Take the bound on this assignment's energy as the unit of ``WORTHS``, unless nothing of it fits.

        The bound is that of the outermost level, whose vector is the last and contains all points.
        """
        self._bound_at(self._usual)
        lattice, levels = self._lattice, len(self._assignment.keep)
        row = (levels - 1) * self._tables.most_subsets * len(self._tables.runs)
        whole = (row + 1) * int(lattice.size[0]) - 1
        energy = float(self._assignment.energy_pj[0] + lattice.opened[whole])
        if energy < inf:
            self._unit, self._usual = energy, (FIRST,) * len(self._levels)

    def _climb(self, chosen: Choice, limit: float) -> tuple[Choice, float]:
        """Climb from the prices ``chosen``: the best prices found, and their bound.

        It goes through the levels once, and raises, then lowers the price of each as long as the bound rises
        and is below ``limit``. That need not find the best prices of all levels together, but every trial
        fills the lattice, and any prices give a bound.
        """
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
        if filled != at:  # leave the lattice filled for the best prices
            self._bound_at(at)
        return chosen, best

    def _bound_at(self, chosen: Choice) -> float:
        """The bound at these prices: a level's worth over its words is the price in all its parts."""
        for level, index in zip(self._levels, chosen, strict=True):
            price = WORTHS[index] * self._unit / self._tables.model.usable_words[level]
            self._tables.prices[level : self._tables.last[level] + 1] = price
        return self._bound()

    def _bound(self) -> float:
        return bound_in_time(self._tables, self._assignment, self._lattice, self._any_order, self._in_time)
