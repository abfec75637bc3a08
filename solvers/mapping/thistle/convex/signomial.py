"""Signomials: sums of monomials over named variables, of which footprints and volumes are made."""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Mapping as ReadOnlyDict
from dataclasses import dataclass
from math import prod

Powers = tuple[tuple[str, float], ...]
"""A product of variables: (name, exponent) pairs in the order of the names, no exponent 0."""


@dataclass(frozen=True)
class Signomial:
    """``sum(coefficient * prod(variable ** exponent))``; a posynomial if no coefficient is negative.

    ``terms`` are (powers, coefficient) pairs in the order of the powers, each powers once and no
    coefficient 0, so that equal expressions are equal values. Variables stand for positive numbers.
    """

    terms: tuple[tuple[Powers, float], ...]

    @classmethod
    def collected(cls, terms: Iterable[tuple[Powers, float]]) -> Signomial:
        """The sum of any terms: equal powers added up, zeros left out."""
        total: dict[Powers, float] = {}
        for powers, coefficient in terms:
            total[powers] = total.get(powers, 0.0) + coefficient
        return cls(tuple(sorted((powers, c) for powers, c in total.items() if c)))

    def __add__(self, other: Signomial | float) -> Signomial:
        return Signomial.collected((*self.terms, *_signomial(other).terms))

    def __mul__(self, other: Signomial | float) -> Signomial:
        return Signomial.collected(
            (_joined(mine, yours), coefficient * factor)
            for mine, coefficient in self.terms
            for yours, factor in _signomial(other).terms
        )

    __radd__ = __add__
    __rmul__ = __mul__

    @property
    def variables(self) -> frozenset[str]:
        """The names of all variables."""
        return frozenset(name for powers, _ in self.terms for name, _ in powers)

    @property
    def is_posynomial(self) -> bool:
        """Whether no coefficient is negative."""
        return all(coefficient > 0 for _, coefficient in self.terms)

    @property
    def positive_part(self) -> Signomial:
        """The terms with positive coefficients: a posynomial that is nowhere below the whole."""
        return Signomial(tuple(term for term in self.terms if term[1] > 0))

    def replaced(self, name: str, by: Signomial) -> Signomial:
        """This with the monomial ``by`` put in for the variable ``name``."""
        # Only a monomial can take a variable's position: any power of it is a single term again.
        ((replacement, factor),) = by.terms
        return Signomial.collected(
            (
                _joined(tuple(p for p in powers if p[0] != name), _raised(replacement, exponent)),
                coefficient * factor**exponent,
            )
            if (exponent := dict(powers).get(name, 0))
            else (powers, coefficient)
            for powers, coefficient in self.terms
        )

    def with_constants(self, values: ReadOnlyDict[str, float]) -> Signomial:
        """This with ``values`` put in for the variables that they name."""
        return Signomial.collected(
            (
                tuple(power for power in powers if power[0] not in values),
                coefficient * prod(values[name] ** exponent for name, exponent in powers if name in values),
            )
            for powers, coefficient in self.terms
        )

    def at(self, values: ReadOnlyDict[str, float]) -> float:
        """The number that this is where every variable has its value of ``values``."""
        total = 0.0
        for powers, coefficient in self.terms:
            total += coefficient * prod(values[name] ** exponent for name, exponent in powers)
        return total


def monomial(coefficient: float = 1.0, powers: ReadOnlyDict[str, float] | None = None) -> Signomial:
    """``coefficient * prod(variable ** exponent)``."""
    return Signomial.collected([(_raised(tuple((powers or {}).items()), 1.0), coefficient)])


def variable(name: str) -> Signomial:
    """The variable of that name."""
    return monomial(1.0, {name: 1.0})


def product_of(factors: Iterable[Signomial]) -> Signomial:
    """The product of all, 1 of none."""
    total = monomial()
    for factor in factors:
        total = total * factor
    return total


def _signomial(value: Signomial | float) -> Signomial:
    return value if isinstance(value, Signomial) else monomial(float(value))


def _joined(one: Powers, other: Powers) -> Powers:
    if not one or not other:
        return one or other
    total = dict(one)
    for name, exponent in other:
        total[name] = total.get(name, 0.0) + exponent
    return tuple(sorted((name, exponent) for name, exponent in total.items() if exponent))


def _raised(powers: Powers, exponent: float) -> Powers:
    return tuple(sorted((name, own * exponent) for name, own in powers if own * exponent))
