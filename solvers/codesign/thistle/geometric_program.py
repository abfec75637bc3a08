"""Geometric programs over named variables, solved as exponential-cone programs by Clarabel."""

from __future__ import annotations

from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from math import exp, inf, log
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from solvers.budget import LEAST_SECONDS, Deadline
from solvers.mapping.thistle.convex.exponential_cones import ConeCounts, ConeRows, minimise
from solvers.mapping.thistle.convex.signomial import Signomial, monomial

Array = NDArray[np.float64]
LARGEST_LOG = 42.0
"""The logarithm of the largest variable: e^42 is about 2^60, the most that a layer may count. A wider range
costs precision."""


@dataclass(frozen=True)
class PosynomialLimit:
    """``expression <= at_most``, a monomial on the right.

    An expression with negative terms is not one of a geometric program: see :meth:`posynomial`.
    """

    expression: Signomial
    at_most: Signomial

    def posynomial(self, near: ReadOnlyDict[str, float] | None = None) -> Signomial:
        """A posynomial that is at most 1 only where the limit holds.

        The negative terms go to the right. By the inequality of arithmetic and geometric means the sum there
        is at least the monomial that equals it, in value and slope, at the point ``near``; that monomial
        takes the sum's place. Without a point the negative terms are left out, which only makes the limit
        stricter. But if the right side is a number, a stricter limit may be infeasible: then the point is all
        1, the smallest tile.
        """
        right = self.at_most
        negative = [(powers, -c) for powers, c in self.expression.terms if c < 0]
        # All variables are at least 1, so at the point 1 a footprint is at its least, and moving its negative
        # constant to the right there keeps the limit from being infeasible for a small level.
        if near is None and not right.variables:
            near = dict.fromkeys(self.expression.variables, 1.0)
        if near is not None and negative:
            right = _monomial_at(Signomial.collected([*right.terms, *negative]), near)
        ((powers, coefficient),) = right.terms
        inverse = monomial(1 / coefficient, {name: -exponent for name, exponent in powers})
        return self.expression.positive_part * inverse

    @property
    def is_geometric(self) -> bool:
        return self.expression.is_posynomial


def _monomial_at(sums: Signomial, point: ReadOnlyDict[str, float]) -> Signomial:
    total = sums.at(point)
    powers: dict[str, float] = {}
    log_coefficient = 0.0
    for term in sums.terms:
        # The weights of the means: each term's part of the sum at ``point``. With these the monomial touches
        # the sum there, and is below it everywhere else.
        weight = Signomial((term,)).at(point) / total
        log_coefficient += weight * (log(term[1]) - log(weight)) if weight > 0 else 0.0
        for name, exponent in term[0]:
            powers[name] = powers.get(name, 0.0) + weight * exponent
    return monomial(exp(log_coefficient), powers)


class Optimum(NamedTuple):
    """The optimal value, and every variable's value."""

    value: float
    point: dict[str, float]


@dataclass(frozen=True)
class GeometricProgram:
    """Minimise a monomial subject to ``limits`` and ``equal_to_one`` (monomials).

    Variables are at least 1, but for those of ``positive``, which are only above 0.
    """

    minimise: Signomial
    limits: tuple[PosynomialLimit, ...]
    equal_to_one: tuple[Signomial, ...] = ()
    positive: frozenset[str] = frozenset()

    def solve(self, condensations: int = 0, seconds: float = inf) -> Optimum | None:
        """The optimum, or None if nothing is feasible or ``seconds`` of wall time did not suffice.

        Without negative terms it is the global one. With them, the program is first solved without them. Each
        of ``condensations`` rounds then puts them back near the point of the round before, which can only
        improve it, towards a local optimum of the program as stated; the rounds end with the seconds, too.
        """
        deadline = Deadline(seconds)
        best = self._solve_near(None, deadline)
        if best is None or all(limit.is_geometric for limit in self.limits):
            return best
        for _ in range(condensations):
            again = self._solve_near(best.point, deadline) if deadline.in_time() else None
            # A round never makes it worse in exact arithmetic, so a value that does not fall is either the
            # local optimum or the solver's tolerance.
            if again is None or again.value > best.value * (1 - 1e-6):
                break
            best = again
        return best

    def _solve_near(self, point: ReadOnlyDict[str, float] | None, deadline: Deadline) -> Optimum | None:
        cones = _Cones(self, [limit.posynomial(point) for limit in self.limits])
        return cones.solve(max(LEAST_SECONDS, deadline.left))


class _Cones:
    """The program in the logarithms y of its variables: minimise c y subject to b - A (y, t) in cones.

    A posynomial of several terms at most 1 is ``sum(t) <= 1`` with ``exp(a y + log c) <= t``, a cone a term.
    """

    def __init__(self, program: GeometricProgram, posynomials: list[Signomial]) -> None:
        self.program = program
        names = sorted(
            program.minimise.variables.union(
                *(p.variables for p in posynomials), *(e.variables for e in program.equal_to_one)
            )
        )
        self.column = {name: index for index, name in enumerate(names)}
        self.single = [p for p in posynomials if len(p.terms) == 1]
        self.several = [p for p in posynomials if len(p.terms) > 1]

    def solve(self, seconds: float) -> Optimum | None:
        rows, goal = ConeRows(), np.zeros(len(self.column) + sum(len(p.terms) for p in self.several))
        ((powers, coefficient),) = self.program.minimise.terms
        for name, exponent in powers:
            goal[self.column[name]] = exponent
        for equality in self.program.equal_to_one:
            self._add_monomial(rows, equality.terms[0])
        equations = rows.count
        self._add_inequalities(rows)
        counts = ConeCounts(equations, rows.count - equations, self._add_exponentials(rows))
        answer = minimise(goal, rows, counts, seconds)
        # Here the point itself is used, as a design to round. A program that ended early ("MaxIterations",
        # "MaxTime") has a point that may break its limits.
        if str(answer.status) not in ("Solved", "AlmostSolved"):
            return None
        point = {name: exp(answer.x[index]) for name, index in self.column.items()}
        return Optimum(coefficient * exp(answer.obj_val), point)

    def _add_inequalities(self, rows: ConeRows) -> None:
        """The variables' ranges, single terms at most 1, sums of several at most 1."""
        for name, column in self.column.items():
            if name not in self.program.positive:
                rows.add([0], [column], [-1.0], [0.0])
            # An upper range for every variable: one that the objective does not hold down would otherwise
            # have no optimum.
            rows.add([0], [column], [1.0], [LARGEST_LOG])
        for posynomial in self.single:
            self._add_monomial(rows, posynomial.terms[0])
        term = len(self.column)
        for posynomial in self.several:
            count = len(posynomial.terms)
            rows.add(np.zeros(count), range(term, term + count), np.ones(count), [1.0])
            term += count

    def _add_exponentials(self, rows: ConeRows) -> int:
        """Add every term's cone, that of the points (a y + log c, 1, t); how many there are."""
        terms = [entry for posynomial in self.several for entry in posynomial.terms]
        for column_of_term, (powers, coefficient) in enumerate(terms, len(self.column)):
            columns = [*(self.column[name] for name, _ in powers), column_of_term]
            values = [*(-exponent for _, exponent in powers), -1.0]
            rows.add([0] * len(powers) + [2], columns, values, [log(coefficient), 1.0, 0.0])
        return len(terms)

    def _add_monomial(self, rows: ConeRows, entry: tuple[tuple[tuple[str, float], ...], float]) -> None:
        """The logarithm of a monomial, at most 0 or equal to it."""
        powers, coefficient = entry
        columns = [self.column[name] for name, _ in powers]
        rows.add([0] * len(powers), columns, [exponent for _, exponent in powers], [-log(coefficient)])
