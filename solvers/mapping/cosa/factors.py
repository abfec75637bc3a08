"""Constraints on where factors stand: each exactly once, within fan-outs and within the user's rules."""

from __future__ import annotations

from math import inf, log2

from solvers.mapping.cosa.linear import Terms
from solvers.mapping.cosa.variables import FactorPosition, Variables


def assign_every_factor(variables: Variables) -> None:
    """Each prime factor stands at exactly one position (section III-B): the counts of a group add up."""
    for group in variables.groups:
        terms = variables.count(group, variables.positions)
        variables.program.require(terms, low=group.count, high=group.count)


def respect_fanouts(variables: Variables) -> None:
    """Spatial factors fit the fan-outs (section III-C), and a dim is spread along x or y, not both."""
    dims = variables.layer.sizes
    for position in variables.positions:
        if position.kind != "temporal":
            # The limit is log2 of half an instance more: rounded logarithms of whole products stay on the
            # right side of it.
            variables.program.require(variables.loops(dims, [position]), high=log2(position.fanout + 0.5))
    for level in range(variables.depth):
        x, y = variables.at([level], "x"), variables.at([level], "y")
        if x and y:
            for dim in dims:
                _one_side(variables, dim, x, y)


def respect_factor_rules(variables: Variables) -> None:
    """The factors of a dim at a level are within the bounds that the user gave."""
    for level, rules in enumerate(variables.level_rules):
        for bounds, positions in (
            (rules.temporal, variables.at([level], "temporal")),
            (rules.spatial, variables.at([level], "x", "y")),
        ):
            for rule in bounds:
                # Half a unit off the limits, so that rounded logarithms stay on the right side of them.
                low = log2(rule.least - 0.5) if rule.least > 1 else -inf
                high = inf if rule.most is None else log2(rule.most + 0.5)
                variables.program.require(variables.loops([rule.dim], positions), low=low, high=high)


def _one_side(variables: Variables, dim: str, x: list[FactorPosition], y: list[FactorPosition]) -> None:
    """A binary chooses the side: counts along x must be 0 where it is 0, along y where it is 1."""
    on_x, on_y = _factors(variables, dim, x), _factors(variables, dim, y)
    if on_x and on_y:
        side = variables.program.variable(1)
        upper = variables.program.upper
        most_x, most_y = float(sum(upper[i] for i in on_x)), float(sum(upper[i] for i in on_y))
        variables.program.require({**on_x, side: -most_x}, high=0)
        variables.program.require({**on_y, side: most_y}, high=most_y)


def _factors(variables: Variables, dim: str, positions: list[FactorPosition]) -> Terms:
    groups = [group for group in variables.groups if group.dim == dim]
    return {index: 1.0 for group in groups for index in variables.count(group, positions)}
