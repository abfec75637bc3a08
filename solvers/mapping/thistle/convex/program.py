"""Geometric programs as arrays over x, the logarithms of the trip counts: in these they are convex."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from math import log
from typing import Any

import numpy as np
from numpy.typing import NDArray

from solvers.mapping.problem import Objective
from solvers.mapping.thistle.convex.signomial import Signomial

Array = NDArray[Any]


@dataclass(frozen=True, eq=False)
class Posynomial:
    """The sum of ``exp(exponents @ x + logs)`` over its terms.

    ``exponents`` is [terms, variables]; ``logs`` [terms] are the logarithms of the coefficients.
    """

    exponents: Array
    logs: Array

    @classmethod
    def of(cls, expression: Signomial, names: Sequence[str]) -> Posynomial:
        """The positive terms of ``expression`` in the variables ``names``."""
        column_of = {name: number for number, name in enumerate(names)}
        terms = expression.positive_part.terms
        exponents = np.zeros((len(terms), len(names)))
        for row, (powers, _) in enumerate(terms):
            for name, exponent in powers:
                exponents[row, column_of[name]] = exponent
        return cls(exponents, np.array([log(coefficient) for _, coefficient in terms]))

    @classmethod
    def total(cls, parts: Iterable[Posynomial], variables: int) -> Posynomial:
        """The sum of posynomials in so many ``variables``."""
        parts = list(parts)
        exponents = [part.exponents for part in parts] or [np.zeros((0, variables))]
        return cls(np.concatenate(exponents), np.concatenate([part.logs for part in parts] or [np.zeros(0)]))

    def times(self, factor: Posynomial) -> Posynomial:
        """The product with a monomial."""
        return Posynomial(self.exponents + factor.exponents, self.logs + factor.logs)

    def scaled(self, factor: float) -> Posynomial:
        """``factor`` times this; a sum without terms for 0."""
        # A coefficient of 0 has no logarithm; such energies (a level whose accesses are free) drop out as
        # terms.
        if factor == 0:
            return Posynomial(self.exponents[:0], self.logs[:0])
        return Posynomial(self.exponents, self.logs + log(factor))

    def at(self, x: Array) -> float:
        return float(np.exp(self.exponents @ x + self.logs).sum())

    def gradient(self, x: Array) -> Array:
        """The derivatives with respect to ``x``, [variables]."""
        return np.asarray(np.exp(self.exponents @ x + self.logs) @ self.exponents)


@dataclass(frozen=True, eq=False)
class LogDomain:
    """The values that the logarithms ``x`` may have: linear constraints, whatever the loop orders.

    * ``least <= x <= most``, [variables];
    * ``group`` [variables] numbers the dim of each variable, and the x of one dim add up to its entry of
      ``sums`` [dims], the logarithm of its size;
    * each limit (coefficients, bound) says ``coefficients @ x <= bound``: a fan-out.
    """

    least: Array
    most: Array
    group: Array
    sums: Array
    limits: tuple[tuple[Array, float], ...]


@dataclass(frozen=True, eq=False)
class ClassProgram:
    """The program of one class of loop orders: minimise energy, time or their product within capacities.

    The energy is ``energy`` less ``saved @ x``, in pJ; the cycles are the largest of ``times``; each of
    ``fills``, the fraction of a level's words in use, is to be at most 1.
    """

    objective: Objective
    box: LogDomain
    energy: Posynomial
    saved: Array
    times: tuple[Posynomial, ...]
    fills: tuple[Posynomial, ...]

    def energy_at(self, x: Array) -> float:
        """The energy in pJ at the logarithms ``x``."""
        return self.energy.at(x) - float(self.saved @ x)

    def cycles_at(self, x: Array) -> float:
        """The cycles there."""
        return max(time.at(x) for time in self.times)

    def at(self, x: Array) -> float:
        """The objective at the logarithms ``x``."""
        if self.objective == "energy":
            return self.energy_at(x)
        return self.cycles_at(x) * (self.energy_at(x) if self.objective == "edp" else 1.0)

    def magnitude_at(self, x: Array) -> float:
        """The objective without what ``saved`` takes off: how large the numbers in it are at ``x``."""
        if self.objective == "energy":
            return self.energy.at(x)
        return self.cycles_at(x) * (self.energy.at(x) if self.objective == "edp" else 1.0)
