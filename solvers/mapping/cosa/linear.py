"""A pure-integer linear program, independent of the engine that solves it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from math import inf
from typing import NamedTuple, Protocol

Terms = dict[int, float]
"""A linear expression: variable index -> coefficient."""

UNIT = 1e-3
"""Bits in one unit of a variable that stands for a logarithm: so that it can be an integer, too."""

NEVER = -40.0
"""The logarithm that stands for that of 0: what is multiplied by 2 ** -40 counts for nothing."""


@dataclass(frozen=True)
class Row:
    """The constraint ``low <= terms <= high``, whose numbers are base-2 logarithms or small counts."""

    terms: Terms
    low: float = -inf
    high: float = inf


@dataclass
class IntegerProgram:
    """Integer variables ``0 <= x[i] <= upper[i]`` and linear rows, which others add one by one."""

    upper: list[int] = field(default_factory=list)
    rows: list[Row] = field(default_factory=list)

    def variable(self, upper: int) -> int:
        """A new variable's index."""
        self.upper.append(upper)
        return len(self.upper) - 1

    def require(self, terms: Terms, *, low: float = -inf, high: float = inf) -> None:
        """Add the row ``low <= terms <= high``."""
        self.rows.append(Row(terms, low, high))


@dataclass(frozen=True)
class EngineGoal:
    """What one solve minimises, and the rows that hold in that solve only.

    ``start``: values of all variables that are within all rows, where an engine that can begins its search.
    """

    objective: Terms
    rows: tuple[Row, ...] = ()
    start: Sequence[int] | None = None


@dataclass(frozen=True)
class EngineAnswer:
    """What an engine found.

    ``values`` are those of all variables, None without a solution. ``proven`` says that they are optimal, or
    without any that there is no solution.
    """

    values: Sequence[int] | None
    proven: bool


class Engine(Protocol):
    """A library that holds one program and solves it for one goal after another."""

    def minimise(self, goal: EngineGoal, seconds: float) -> EngineAnswer:
        """The best values found for the goal within wall ``seconds``."""

    def require(self, row: Row) -> None:
        """Add a row to the program for all later calls."""


def added(*parts: tuple[float, Terms]) -> Terms:
    """The weighted sum of expressions."""
    total: Terms = {}
    for weight, terms in parts:
        for index, coefficient in terms.items():
            total[index] = total.get(index, 0.0) + weight * coefficient
    return total


def summed(parts: Iterable[Terms]) -> Terms:
    """The sum of expressions."""
    return added(*((1.0, part) for part in parts))


def value(terms: Terms, values: Sequence[int]) -> float:
    """The expression where variable ``i`` is ``values[i]``."""
    return sum(coefficient * values[index] for index, coefficient in terms.items())


class Power(NamedTuple):
    """``factor * 2 ** exponent``; the exponent is linear in the program's variables."""

    factor: float
    exponent: Terms

    def at(self, values: Sequence[int]) -> float:
        """Its value for a solution."""
        return self.factor * float(2.0 ** value(self.exponent, values))

    def times(self, factor: float, exponent: Terms | None = None) -> Power:
        """The product with another power."""
        return Power(self.factor * factor, added((1.0, self.exponent), (1.0, exponent or {})))
