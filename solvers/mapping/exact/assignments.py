"""The assignments of a problem (spatial factors and kept tensors) in the order of their lower bounds."""

from __future__ import annotations

from collections.abc import Callable
from heapq import heappop, heappush
from itertools import product
from math import inf
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.mapping.exact.spatial import spreads
from solvers.mapping.exact.tables import Assignment, Lattice, Space, assignment_room
from solvers.mapping.space import MappingSpace

Array = NDArray[Any]
MOST_ASSIGNMENTS = 6_000_000
"""The queue holds no more: beyond, choices of kept tensors are left out, and nothing is claimed of them."""


class Assignments:
    """A queue of assignments: first by a bound that costs a microsecond, then by one of about a millisecond.

    An assignment is a number; ``room`` and ``lattice`` hold those of the one loaded last.
    """

    def __init__(self, tables: Space, space: MappingSpace, lattice: Lattice) -> None:
        self._tables = tables
        self._spreads = spreads(space)
        self.room: Assignment = assignment_room(tables)
        self.lattice = lattice
        keeps = np.array(list(product(*space.keep_sets)), np.int64)
        self._keeps = self._promising(keeps)
        self.left_out = len(keeps) - len(self._keeps)
        """Choices of kept tensors that are not in the queue, for there are too many."""
        self._first_bounds = self._bounds_of(self._keeps, self._spreads).reshape(-1)
        self._order = np.argsort(self._first_bounds, kind="stable")
        self._next = 0
        self._bounded: list[tuple[float, int]] = []
        self._served = False

    def _promising(self, keeps: Array) -> Array:
        """As many choices of kept tensors as can be queued, those best for a sample of spatial factors."""
        most = max(1, MOST_ASSIGNMENTS // len(self._spreads))
        if len(keeps) <= most:
            return keeps
        sample = self._spreads[:: max(1, len(keeps) * len(self._spreads) // MOST_ASSIGNMENTS)]
        least = self._bounds_of(keeps, sample).min(axis=1)
        return keeps[np.sort(np.argsort(least, kind="stable")[:most])]

    def _bounds_of(self, keeps: Array, spatial: Array) -> Array:
        """The cheap bounds of all combinations, [keeps, spatial]."""
        from solvers.mapping.exact.assignment_kernel import first_bounds

        bounds = np.empty((len(keeps), len(spatial)))
        for row, keep in enumerate(keeps):
            first_bounds(self._tables, spatial, keep, self.room, bounds[row])
        return bounds

    @property
    def bound(self) -> float:
        """No mapping of the assignments still in the queue costs less; infinite when there is none."""
        return min(self._first(), self._bounded[0][0] if self._bounded else inf)

    def pop(self, limit: float, in_time: Callable[[], bool]) -> bool:
        """Load the assignment of the least bound; False if no bound is below ``limit``, or no time is left.

        The first one is served in any case, the best known when time ends.
        """
        while self.bound < limit:
            late = not in_time()
            if late and self._served:
                return False
            if self._bounded and (late or self._bounded[0][0] <= self._first()):
                self._load(heappop(self._bounded)[1])
                self._served = True
                return True
            number = int(self._order[self._next])
            self._next += 1
            bound = max(self._load(number), float(self._first_bounds[number]))
            if bound < inf:
                heappush(self._bounded, (bound, number))
        return False

    def _first(self) -> float:
        return float(self._first_bounds[self._order[self._next]]) if self._next < len(self._order) else inf

    def _load(self, number: int) -> float:
        """Fill ``room`` and ``lattice``; the assignment's bound."""
        from solvers.mapping.exact.bound_kernel import bound_of_assignment

        keep, spread = divmod(number, len(self._spreads))
        self.room.spatial[:] = self._spreads[spread]
        self.room.keep[:] = self._keeps[keep]
        return float(bound_of_assignment(self._tables, self.room, self.lattice))
