"""Prices of room at uneven levels: those for which the bound of an assignment is as high as it gets."""

from __future__ import annotations

from math import inf

from solvers.mapping.exact.tables import Assignment, Lattice, Space

SHARES = (0.0, *(2.0**power for power in range(-12, 3)))
"""What all the room of a level can be worth, as a share of the energy of the first assignment."""

FIRST = SHARES.index(1 / 16)

Choice = tuple[int, ...]
"""An index of ``SHARES`` for every level of several parts."""


class Prices:
    """The bound of an assignment as a function of the prices, which is concave: a minimum of linear ones.

    Every climb begins where the last one ended, for assignments of similar bounds have similar prices.
    """

    def __init__(self, tables: Space, room: Assignment, lattice: Lattice) -> None:
        self._tables, self._room, self._lattice = tables, room, lattice
        self._levels = [i for i in range(len(tables.prices)) if tables.first[i] == i < tables.last[i]]
        self._usual: Choice = (0,) * len(self._levels)
        self._unit = 0.0
        self._chosen: dict[tuple[int, int], Choice] = {}

    def bound(self, limit: float, assignment: tuple[int, int]) -> float:
        """The bound of the assignment in ``room`` at its best prices, or at the first that make it reach
        ``limit``; the lattice is that of this bound. The second time the prices are known."""
        if not self._levels:
            return self._bound()
        if assignment in self._chosen:
            return self._bound_at(self._chosen[assignment])
        if not self._unit:
            self._begin()
        chosen, best = self._climb(self._usual, limit)
        self._chosen[assignment] = self._usual = chosen
        return best

    def _begin(self) -> None:
        """Take the energy of the assignment as the unit, unless nothing fits it."""
        self._bound_at(self._usual)
        lattice, levels = self._lattice, len(self._room.keep)
        whole = ((levels - 1) * len(self._tables.runs) + 1) * int(lattice.size[0]) - 1
        energy = float(self._room.numbers[1] + lattice.opened[whole])
        if energy < inf:
            self._unit, self._usual = energy, (FIRST,) * len(self._levels)

    def _climb(self, chosen: Choice, limit: float) -> tuple[Choice, float]:
        """Up a level's prices, then down, as long as that raises the bound."""
        best = last = self._bound_at(chosen)
        for place in range(len(chosen)):
            for step in (1, -1):
                while best < limit and 0 <= chosen[place] + step < len(SHARES):
                    moved = (*chosen[:place], chosen[place] + step, *chosen[place + 1 :])
                    last = self._bound_at(moved)
                    if last <= best:
                        break
                    chosen, best = moved, last
        return chosen, best if last == best else self._bound_at(chosen)

    def _bound_at(self, chosen: Choice) -> float:
        for level, index in zip(self._levels, chosen, strict=True):
            price = SHARES[index] * self._unit / self._tables.model.usable_words[level]
            self._tables.prices[level : self._tables.last[level] + 1] = price
        return self._bound()

    def _bound(self) -> float:
        from solvers.mapping.exact.bound_kernel import bound_of_assignment

        return float(bound_of_assignment(self._tables, self._room, self._lattice))
