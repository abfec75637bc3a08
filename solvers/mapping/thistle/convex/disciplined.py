"""Thistle's program as CVXPY's disciplined geometric programming states it: the form to read first.

The paper's Eq. 3 is this program for a product of matrices, with R, Q, P and S for the trip counts of
registers, of the loops around them, of the PEs and of the SRAM. Here it stands for any layer:

    minimise    the energy                                              epsilon_total
                or the time, that of the slowest component              section V-B
                or their product
    subject to  the tiles that a level keeps fill at most its words     R_i R_j + R_i R_k + R_j R_k <= R
                the trip counts of a dim multiply to its size           S_i = P_i Q_i
                those across a fan-out multiply to at most its size     P_i P_j P_k <= P
                every trip count is within its range

The statement is the same for all loop orders of a tiling. What an order changes are coefficients and
exponents, and these are parameters: CVXPY makes cones of the statement once (its DPP rules) and afterwards
only puts numbers in. Solvers do not use it: :mod:`solvers.mapping.thistle.convex.cones` makes the same cones
directly, which takes less than half of the time and also gives the multipliers that a proof needs. The tests
hold that path to this statement, and ``benchmarks/thistle_cvxpy.py`` measures both. CVXPY comes with the
``test`` extra.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import cvxpy
import numpy as np

from solvers.mapping.thistle.convex.program import ClassProgram, Posynomial

ABSENT = 1e-30
"""The coefficient of a term that an order does not have: the others are at least a picojoule or a cycle."""


class PosynomialParameters:
    """A posynomial of up to ``terms`` terms whose coefficients and exponents are set for each solve."""

    def __init__(self, terms: int, trips: cvxpy.Variable) -> None:
        self.coefficients = cvxpy.Parameter(terms, pos=True)
        self.exponents = cvxpy.Parameter((terms, trips.size))
        monomials = cvxpy.gmatmul(self.exponents, trips)  # prod_j trips[j] ** exponents[i, j]
        self.expression = cvxpy.sum(cvxpy.multiply(self.coefficients, monomials))

    def set(self, part: Posynomial) -> None:
        """Take the numbers of ``part``."""
        own = len(part.logs)
        self.coefficients.value = np.full(self.coefficients.size, ABSENT)
        self.coefficients.value[:own] = np.exp(part.logs)
        self.exponents.value = np.zeros(self.exponents.shape)
        self.exponents.value[:own] = part.exponents


class DisciplinedProgram:
    """One statement for ``programs``, which are those of orders of one tiling's loops."""

    def __init__(self, programs: Sequence[ClassProgram]) -> None:
        first = programs[0]
        self.trips = cvxpy.Variable(len(first.box.least), pos=True)
        self.least, self.most = (cvxpy.Parameter(self.trips.size, pos=True) for _ in range(2))
        self.energy = self._posynomial([program.energy for program in programs])
        self.times = self._posynomials([program.times for program in programs])
        self.fills = self._posynomials([program.fills for program in programs])
        self.problem = cvxpy.Problem(cvxpy.Minimize(self._objective(first)), self._constraints(first))

    def solve(self, program: ClassProgram) -> float:
        """The least objective of one of the programs, in pJ, cycles or their product.

        The posynomials are the program's; what it takes off the energy for first reads, a logarithm of trip
        counts, is none and is left out.
        """
        self.energy.set(program.energy)
        for stated, parts in ((self.times, program.times), (self.fills, program.fills)):
            for one, part in zip(stated, parts, strict=True):
                one.set(part)
        self.least.value, self.most.value = np.exp(program.box.least), np.exp(program.box.most)
        self.problem.solve(gp=True, solver=cvxpy.CLARABEL)
        return float(self.problem.value)

    def _objective(self, program: ClassProgram) -> Any:
        energy = self.energy.expression
        time = cvxpy.max(cvxpy.hstack([time.expression for time in self.times]))
        return {"energy": energy, "cycles": time, "edp": energy * time}[program.objective]

    def _constraints(self, program: ClassProgram) -> list[Any]:
        box, trips = program.box, self.trips
        capacities = [fill.expression <= 1 for fill in self.fills]
        whole_dims = [
            cvxpy.prod(trips[np.flatnonzero(box.group == dim)]) == np.exp(log_size)
            for dim, log_size in enumerate(box.sums)
        ]
        fanouts = [
            cvxpy.prod(trips[np.flatnonzero(spatial)]) <= np.exp(log_fanout)
            for spatial, log_fanout in box.limits
        ]
        return [*capacities, *whole_dims, *fanouts, trips >= self.least, trips <= self.most]

    def _posynomials(self, programs: Sequence[tuple[Posynomial, ...]]) -> list[PosynomialParameters]:
        return [self._posynomial(parts) for parts in zip(*programs, strict=True)]

    def _posynomial(self, parts: Sequence[Posynomial]) -> PosynomialParameters:
        return PosynomialParameters(max(len(part.logs) for part in parts), self.trips)
