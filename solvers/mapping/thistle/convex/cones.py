"""Geometric programs solved as exponential-cone programs, written straight into Clarabel's data.

The paper leaves this to CVXPY, whose statement is in :mod:`solvers.mapping.thistle.convex.disciplined`. CVXPY
takes two to five times as long, most of it to turn expressions into cones, and gives no multipliers for a
proof. The tests hold both to the same optima.

With x for the logarithms of the trip counts, a posynomial is ``sum_i exp(a_i @ x + b_i)``. Each term becomes
a variable u_i with the cone ``exp(a_i @ x + b_i) <= u_i``; the sum of the u_i is linear::

    minimise    sum of the energy's u_i - saved @ x         (energy)
                t                                           (cycles: t is the logarithm of the time)
                sum of the u_i of exp(t) * energy           (energy times cycles)
    subject to  sum of the u_i of exp(-t) * time_k <= 1     for every component k (not for energy)
                sum of the u_i of fill_l <= 1               for every level l
                the linear constraints of the domain
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.mapping.thistle.convex.exponential_cones import ConeCounts, ConeRows, minimise
from solvers.mapping.thistle.convex.program import ClassProgram, Posynomial

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class ClassOptimum:
    """A program's optimum: ``x`` the logarithms of the variables, and the multipliers of its constraints.

    ``time_weights`` belong to the program's ``times``; they sum to about 1 if the objective has time in it.
    ``fill_weights`` belong to its ``fills``, ``limit_weights`` to the limits of its ``box``. Multipliers are
    in pJ if the objective is energy, else in logarithms of the objective.
    """

    x: Array
    objective: float
    time_weights: Array
    fill_weights: Array
    limit_weights: Array


def solve(program: ClassProgram, scale: float) -> ClassOptimum | None:
    """The optimum of ``program``, whose objective is about ``scale``; None if it is infeasible.

    The columns are x, then t where the objective has the time in it, then one u for each term.
    """
    layout, rows = _Layout(program, scale), ConeRows()
    groups, limits = _linear_rows(layout, rows)
    sums = _sum_rows(layout, rows)
    answer = minimise(layout.goal, rows, ConeCounts(groups, limits + sums, _term_rows(layout, rows)))
    # The last two have a point and multipliers that are not optimal. Both are good enough here: points are
    # rounded and judged by the cost model, and a bound is certified from any multipliers. Only a program that
    # is shown to be infeasible has none.
    if str(answer.status) not in ("Solved", "AlmostSolved", "MaxIterations", "InsufficientProgress"):
        return None
    return layout.read(np.array(answer.x), np.array(answer.z)[groups:])


class _Layout:
    """Which columns the variables of a program have, and its posynomials in order, scaled."""

    def __init__(self, program: ClassProgram, scale: float) -> None:
        self.program = program
        self.scale = scale
        self.variables = program.box.least.size
        self.timed = program.objective != "energy"
        self.costed = program.objective != "cycles"
        # The objective is divided by about its own size: Clarabel's tolerances are meant for numbers near 1,
        # and energies are some 1e9 pJ.
        unit = 1.0 / scale if self.costed else 1.0
        time = -1.0 if self.timed else 0.0
        parts = [(program.energy.scaled(unit), 1.0 if self.timed else 0.0)] if self.costed else []
        parts += [(part, time) for part in program.times] if self.timed else []
        parts += [(part, 0.0) for part in program.fills]
        self.parts: list[tuple[Posynomial, float]] = parts
        sizes = [len(part.logs) for part, _ in parts]
        first = self.variables + self.timed
        self.starts = first + np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        self.columns = int(self.starts[-1])

    @property
    def goal(self) -> Array:
        """The coefficients of what is minimised: the energy's u, or t."""
        goal = np.zeros(self.columns)
        if not self.costed:
            goal[self.variables] = 1.0
            return goal
        goal[self.starts[0] : self.starts[1]] = 1.0
        # A linear term times the cycles would not be convex, so there only the estimate subtracts it.
        if not self.timed:
            goal[: self.variables] = -self.program.saved / self.scale
        return goal

    def read(self, z: Array, multipliers: Array) -> ClassOptimum:
        """The optimum; ``multipliers`` are those of the limits and sums."""
        box, program = self.program.box, self.program
        x = z[: self.variables]
        # The rows of inequalities stand as ``_linear_rows`` and ``_sum_rows`` have added them: both ends of
        # every range, the limits, the sums of times, the sums of fills.
        sides = 2 * self.variables
        limits = multipliers[sides : sides + len(box.limits)]
        sums = multipliers[sides + len(box.limits) :]
        # Multipliers are per unit of the objective, which was scaled for energy; for times it is a logarithm.
        unit = self.scale if program.objective == "energy" else 1.0
        times = len(program.times) if self.timed else 0
        fills = sums[times : times + len(program.fills)]
        return ClassOptimum(x, program.at(x), sums[:times], unit * fills, unit * limits)


def _linear_rows(layout: _Layout, rows: ConeRows) -> tuple[int, int]:
    """Add the rows of the domain; how many are equations (of dims), and how many are inequalities."""
    box, n = layout.program.box, layout.variables
    every = np.arange(n)
    rows.add(box.group, every, np.ones(n), box.sums)
    rows.add(every, every, -np.ones(n), -box.least)
    rows.add(every, every, np.ones(n), box.most)
    for coefficients, bound in box.limits:
        columns = np.flatnonzero(coefficients)
        rows.add(np.zeros(len(columns), int), columns, coefficients[columns], np.array([bound]))
    return len(box.sums), 2 * n + len(box.limits)


def _sum_rows(layout: _Layout, rows: ConeRows) -> int:
    """Add the rows ``sum of u <= 1`` of each time over exp(t) and of each fill; how many there are."""
    first = 1 if layout.costed else 0
    for start, end in zip(layout.starts[first:-1], layout.starts[first + 1 :], strict=True):
        columns = np.arange(start, end)
        rows.add(np.zeros(len(columns), int), columns, np.ones(len(columns)), np.ones(1))
    return len(layout.parts) - first


def _term_rows(layout: _Layout, rows: ConeRows) -> int:
    """Add every term's cone, that of the points (exponents @ x + log, 1, u); how many there are."""
    exponents = np.concatenate([part.exponents for part, _ in layout.parts])
    if layout.timed:
        times = np.concatenate([np.full(len(part.logs), sign) for part, sign in layout.parts])
        exponents = np.column_stack([exponents, times])
    count = len(exponents)
    term, column = np.nonzero(exponents)
    right = np.zeros(3 * count)
    right[0::3] = np.concatenate([part.logs for part, _ in layout.parts])
    # Clarabel's exponential cone is (a, b, c) with b exp(a / b) <= c; b is fixed to 1.
    right[1::3] = 1.0
    us = np.arange(count)
    rows.add(
        np.concatenate([3 * term, 3 * us + 2]),
        np.concatenate([column, layout.starts[0] + us]),
        np.concatenate([-exponents[term, column], -np.ones(count)]),
        right,
    )
    return count
